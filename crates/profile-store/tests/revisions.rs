//! A profile that is replaced by what is made of it.

mod scheduled;

use std::fs;
use std::path::Path;

use transect_profile_model::{CodeAddress, LocatedStack, OtherThread, Profile};
use transect_profile_store::{Revision, StoreError, read, write};

/// Two stacks that differ in an address alone, and one of other frames.
fn with_addresses() -> Profile {
    let mut profile = scheduled::scheduled(2, 3);
    let sched = &mut profile.sched;
    sched.stacks.push(sched.stacks[0].clone());
    let last = sched.stacks.len() as u32 - 1;
    sched.addresses = [(0, 1, 0x1139), (0, 2, 0x40), (last, 1, 0x1150)]
        .map(|(stack, depth, address)| CodeAddress { stack, depth, address })
        .to_vec();
    // What waits in a loop is another stack than the same that does not.
    sched.samples.iter_mut().for_each(|sample| sample.spin = false);
    sched.samples[0].stack = last;
    profile
}

/// What samples, moments and waits refer to: numbers of stacks may be others.
fn referred(profile: &Profile) -> Vec<Option<LocatedStack>> {
    let (sched, located) = (&profile.sched, profile.sched.located_stacks());
    let of = |stack: Option<u32>| stack.map(|stack| located[stack as usize].clone());
    let other = |other: Option<OtherThread>| of(other.and_then(|other| other.stack));
    let waits = sched.waits.iter().flat_map(|wait| [of(wait.stack), other(wait.holder), other(wait.waker)]);
    let samples = sched.samples.iter().map(|sample| of(Some(sample.stack)));
    samples.chain(sched.moments.iter().map(|moment| of(Some(moment.stack)))).chain(waits).collect()
}

fn tables(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn addresses_are_for_revisions_and_other_readers_see_stacks_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    let profile = with_addresses();
    write(&path, &profile).unwrap();
    let revision = Revision::read(&path).unwrap();
    assert_eq!(referred(&revision.profile), referred(&profile));
    assert_eq!(revision.profile.sched.addresses.len(), 3);
    let seen = read(&path).unwrap().sched;
    assert_eq!((seen.stacks.len(), seen.addresses.len()), (profile.sched.stacks.len() - 1, 0));
    assert_eq!(seen.samples[0].stack, 0);
}

#[test]
fn a_revision_takes_the_place_of_what_it_was_made_of_and_keeps_the_slices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    let profile = with_addresses();
    write(&path, &profile).unwrap();
    let slices = fs::read(path.join("slices.parquet")).unwrap();
    let mut revision = Revision::read(&path).unwrap();
    revision.profile.sched.frames[0].function = "named".to_owned();
    revision.replace().unwrap();
    let after = read(&path).unwrap();
    assert_eq!(after.sched.frames[0].function, "named");
    assert_eq!(after.sched.slices, profile.sched.slices);
    assert_eq!(fs::read(path.join("slices.parquet")).unwrap(), slices);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_profile_that_has_come_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, &with_addresses()).unwrap();
    let revision = Revision::read(&path).unwrap();
    fs::rename(&path, folder.path().join("moved.transect")).unwrap();
    write(&path, &scheduled::scheduled(1, 1)).unwrap();
    let before = tables(&path);
    assert!(matches!(revision.replace(), Err(StoreError::Replaced { .. })));
    assert_eq!(tables(&path), before);
}

#[test]
fn damaged_slices_are_told_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, &with_addresses()).unwrap();
    let file = path.join("slices.parquet");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(matches!(Revision::read(&path), Err(StoreError::Corrupt { path, .. }) if path == file));
}
