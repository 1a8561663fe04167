//! A profile that is rewritten all the time can be read all the time, by us and file by file.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use transect_analyze::synthetic::large;
use transect_profile_store::{keep_aside, read, write};

#[test]
fn readers_see_one_snapshot_or_the_next_never_a_mixture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    // Snapshots differ in every table's number of rows, so that a mixture is inconsistent.
    let snapshots = [large(40, 1), large(60, 2), large(80, 3)];
    write(&path, &snapshots[0]).unwrap();
    let stop = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_millis(1500);
    let reads = AtomicUsize::new(0);
    let writes = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let profile = read(&path).unwrap();
                        assert!(snapshots.contains(&profile), "a mixture was read");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut writes = 0;
        // On a busy machine a reader may come late.
        let enough = |writes| writes > 1 && reads.load(Ordering::Relaxed) > 1;
        while Instant::now() < until || !enough(writes) && !readers.iter().any(ScopedJoinHandle::is_finished) {
            writes += 1;
            write(&path, &snapshots[writes % 3]).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        writes
    });
    let reads = reads.into_inner();
    assert!(reads > 1 && writes > 1, "{reads} reads during {writes} writes");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "temporary folders are gone");
}

#[test]
fn the_profile_of_another_recording_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, aside) = (folder.path().join("run.transect"), folder.path().join("run.transect.old"));
    write(&path, &large(40, 1)).unwrap();
    write(&path, &large(60, 2)).unwrap();
    assert!(!aside.exists());
    // Another process puts its own there.
    let other = folder.path().join("other.transect");
    write(&other, &large(80, 3)).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&other, &path).unwrap();
    write(&path, &large(60, 2)).unwrap();
    assert_eq!(read(&path).unwrap(), large(60, 2));
    assert_eq!(read(&aside).unwrap(), large(80, 3));
    // A third and a fourth one that began at the same time: nothing of theirs is lost.
    write(&other, &large(20, 4)).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&other, &path).unwrap();
    write(&path, &large(60, 2)).unwrap();
    assert_eq!(read(&aside).unwrap(), large(80, 3));
    assert_eq!(read(&folder.path().join("run.transect.old.2")).unwrap(), large(20, 4));
    // Those of an earlier day give way, all of them; what is no profile of ours, or no such name, does not.
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    let second = folder.path().join("run.transect.old.2");
    let (named, holding) = (folder.path().join("run.transect.old.mine"), folder.path().join("run.transect.old.3"));
    for kept in [&named, &holding] {
        write(kept, &large(10, 5)).unwrap();
    }
    std::fs::write(holding.join("notes"), "of the user").unwrap();
    for kept in [&aside, &second, &named, &holding] {
        std::fs::File::open(kept.join("meta.json")).unwrap().set_modified(earlier).unwrap();
    }
    assert_eq!(keep_aside(&path).unwrap(), Some(aside.clone()));
    assert_eq!(read(&aside).unwrap(), large(60, 2));
    assert!(!second.exists());
    assert_eq!((read(&named).unwrap(), holding.join("notes").exists()), (large(10, 5), true));
}

#[test]
fn what_a_killed_writer_left_is_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let left = folder.path().join(format!(".run.transect.transect-tmp.{dead}.0"));
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("flows.parquet"), "half").unwrap();
    let alive = folder.path().join(".run.transect.transect-tmp.1.0");
    std::fs::create_dir(&alive).unwrap();
    write(&path, &large(10, 1)).unwrap();
    assert!(!left.exists() && alive.exists());
}
