//! Plan files: their layout, damaged ones, and the cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::toolchain::Toolchain;
use proptest::prelude::*;
use transect_binary_info::{Object, Plan, PlanCache, plan};
use transect_event_abi::plan::{PlanReloc, PlanSite, SlotUse};

fn plans() -> impl Strategy<Value = Plan> {
    let site = any::<u64>().prop_map(|displacement_vaddr| PlanSite { displacement_vaddr });
    prop::collection::vec(site, 0..20).prop_flat_map(|sites| {
        let count = sites.len() as u32;
        let reloc =
            (0..2u32, any::<u32>(), 1..=4u32, 0..=count).prop_map(move |(table, index, slot_use, first_site)| {
                PlanReloc { table, index, slot_use, first_site, site_count: count - first_site, reserved: 0 }
            });
        prop::collection::vec(reloc, 0..20).prop_map(move |relocs| Plan { relocs, sites: sites.clone() })
    })
}

proptest! {
    #[test]
    fn bytes_and_back(plan in plans()) {
        prop_assert_eq!(Plan::from_bytes(&plan.to_bytes()).unwrap(), plan);
    }

    #[test]
    fn damage_is_an_error(plan in plans(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = plan.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Plan::from_bytes(&bytes).is_err());
        bytes[at] ^= 1 << bit;
        bytes.pop();
        prop_assert!(Plan::from_bytes(&bytes).is_err());
    }
}

#[test]
fn layout() {
    let plan = Plan {
        relocs: vec![PlanReloc {
            table: 1,
            index: 7,
            slot_use: SlotUse::CalledAndLoaded as u32,
            first_site: 0,
            site_count: 1,
            reserved: 0,
        }],
        sites: vec![PlanSite { displacement_vaddr: 0x1122_3344_5566 }],
    };
    let mut expected = b"TRPLAN01".to_vec();
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    for word in [1 << 32 | 1, 7 << 32 | 1, 2, 1, 0x1122_3344_5566u64] {
        sum = (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29);
    }
    expected.extend([5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend(((sum ^ sum >> 32) as u32).to_le_bytes());
    expected.extend([1, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0]);
    assert_eq!(plan.to_bytes(), expected);
}

#[test]
fn cache_keeps_sound_plans_and_replaces_others() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PlanCache::new(folder.path().join("a/linkage")).unwrap();
    let mode = fs::metadata(cache.folder()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let path = "/bin/bash";
    let object = Object::open(path).unwrap();
    let file = cache.ensure(path).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&object.build_id().unwrap()) && name.ends_with(".plan"), "{name}");
    assert_eq!(Plan::from_bytes(&fs::read(&file).unwrap()).unwrap(), plan::analyze(&object));

    // A sound plan is not replaced, even by a different one.
    let other = Plan::default().to_bytes();
    fs::write(&file, &other).unwrap();
    assert_eq!(fs::read(cache.ensure(path).unwrap()).unwrap(), other);

    for damaged in [&b""[..], b"TRPLAN01", b"TRPLAN99________________", &other[..20]] {
        fs::write(&file, damaged).unwrap();
        cache.ensure(path).unwrap();
        assert_eq!(Plan::from_bytes(&fs::read(&file).unwrap()).unwrap(), plan::analyze(&object));
    }
    // Nobody may ever write to a pipe; a link leads to what somebody else chose.
    let pipe = || rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let link = || std::os::unix::fs::symlink("/bin/bash", &file).unwrap();
    for put in [&pipe as &dyn Fn(), &link] {
        fs::remove_file(&file).unwrap();
        put();
        cache.ensure(path).unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
    }
    let left: Vec<_> = fs::read_dir(cache.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [file.file_name().unwrap()], "drafts stay behind");
}

/// A build-id is what the linker was told, or what was there before somebody changed the file.
#[test]
fn files_with_one_build_id_have_plans_of_their_own() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let one = toolchain.caller("one", &["-Wl,--build-id=0x1234567890abcdef"]).unwrap();
    let other = toolchain.caller("other", &["-Wl,--build-id=0x1234567890abcdef", "-fno-plt", "-O0"]).unwrap();
    assert_eq!((one.build_id(), one.build_id().unwrap().len()), (other.build_id(), 16));
    let folder = tempfile::tempdir().unwrap();
    let cache = PlanCache::new(folder.path()).unwrap();
    let files = [&one, &other].map(|object| cache.ensure(object.path()).unwrap());
    assert_ne!(files[0], files[1]);
    for (object, file) in [(&one, &files[0]), (&other, &files[1])] {
        assert_eq!(Plan::from_bytes(&fs::read(file).unwrap()).unwrap(), plan::analyze(object));
        assert_eq!(&cache.ensure(object.path()).unwrap(), file, "and they are found again");
    }
}

#[test]
fn plans_by_path_are_made_anew_when_the_file_changes() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let object = toolchain.caller("anonymous", &["-Wl,--build-id=none"]).unwrap();
    assert_eq!(object.build_id(), None);
    let folder = tempfile::tempdir().unwrap();
    let ensure = || PlanCache::new(folder.path()).unwrap().ensure(object.path()).unwrap();
    let file = ensure();
    assert!(file.file_name().unwrap().to_str().unwrap().starts_with("path-"));
    // The same file has the same plan, so the one in the cache is not replaced, even by a different one.
    let other = Plan::default().to_bytes();
    fs::write(&file, &other).unwrap();
    assert_eq!(fs::read(ensure()).unwrap(), other);
    // A copy in its place is another file.
    let copy = toolchain.path("copy");
    fs::copy(object.path(), &copy).unwrap();
    fs::rename(&copy, object.path()).unwrap();
    assert_eq!(ensure(), file);
    assert_eq!(Plan::from_bytes(&fs::read(&file).unwrap()).unwrap(), plan::analyze(&object));
}

/// Who may write in the folder knows the names of drafts beforehand.
#[test]
fn links_in_the_place_of_drafts_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let cache = PlanCache::new(folder.path().join("linkage")).unwrap();
    for serial in 0..64 {
        let draft = cache.folder().join(format!(".draft-{}-{serial}", std::process::id()));
        std::os::unix::fs::symlink(&precious, draft).unwrap();
    }
    let file = cache.ensure("/bin/bash").unwrap();
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn unwritable_cache_is_an_error() {
    let error = PlanCache::new("/proc/transect/linkage").unwrap_err().to_string();
    assert!(error.contains("/proc/transect/linkage") && error.contains("XDG_CACHE_HOME"), "{error}");
}
