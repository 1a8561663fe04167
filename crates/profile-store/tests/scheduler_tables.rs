//! The tables of the scheduler collector: what is written is what is read, at once or block by block.

mod scheduled;

use std::io;

use proptest::prelude::*;
use scheduled::scheduled;
use transect_analyze::synthetic::empty;
use transect_profile_model::{
    CallStack, Origin, OtherThread, Parallelism, Process, Profile, SchedSample, SchedTables, SchedWait, Slice, Space,
    StackFrame, StackInstruction, Task, TimedSample, WaitKind,
};
use transect_profile_store::{
    LongTables, StoreError, for_each_slices, read, read_without_slices, write, write_streamed,
};

fn in_folder<T>(act: impl FnOnce(&std::path::Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    act(&folder.path().join("run.transect"))
}

fn long_tables(sched: &SchedTables) -> LongTables<'_> {
    LongTables {
        waits: Box::new(sched.waits.iter().cloned().map(Ok)),
        slices: Box::new(sched.slices.iter().copied().map(Ok)),
    }
}

#[test]
fn every_table_comes_back() {
    let profile = scheduled(5, 700);
    in_folder(|path| {
        write(path, &profile).unwrap();
        assert!(read(path).unwrap() == profile);
    });
}

/// More rows than fit into one block of either table.
#[test]
fn long_tables_come_back_whether_held_or_streamed() {
    let profile = scheduled(5, 280_000);
    let mut short = profile.clone();
    short.sched.waits = Vec::new();
    let slices = std::mem::take(&mut short.sched.slices);
    in_folder(|path| {
        write_streamed(path, &short, long_tables(&profile.sched)).unwrap();
        assert!(read(path).unwrap() == profile);
        let mut without = profile.clone();
        without.sched.slices = Vec::new();
        without.sched.instructions = Vec::new();
        assert!(read_without_slices(path).unwrap() == without);
        let (mut streamed, mut blocks) = (Vec::new(), 0);
        for_each_slices(path, &mut |rows| {
            streamed.extend_from_slice(rows);
            blocks += 1;
        })
        .unwrap();
        assert!(streamed == slices);
        assert!(blocks > 1);
        let bytes = path.join("slices.parquet").metadata().unwrap().len();
        assert!(bytes < 16 * slices.len() as u64, "{bytes} bytes");
    });
}

#[test]
fn profiles_of_versions_without_the_scheduler_are_read() {
    let profile = empty();
    in_folder(|path| {
        write(path, &profile).unwrap();
        let meta = path.join("meta.json");
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
        let tables =
            ["tasks", "parallelism", "frames", "stacks", "sched_samples", "sched_moments", "sched_waits", "slices"];
        for table in tables {
            value["tables"].as_object_mut().unwrap().remove(table).unwrap();
            std::fs::remove_file(path.join(format!("{table}.parquet"))).unwrap();
        }
        std::fs::write(&meta, transect_profile_store::sealed_meta(value)).unwrap();
        assert_eq!(read(path).unwrap(), profile);
        for_each_slices(path, &mut |_| panic!("there are none")).unwrap();
    });
}

#[test]
fn rows_that_point_nowhere_are_refused() {
    let refused = |change: &dyn Fn(&mut Profile)| {
        let mut profile = scheduled(2, 40);
        change(&mut profile);
        in_folder(|path| {
            let error = write(path, &profile).unwrap_err();
            assert!(!path.exists());
            match error {
                StoreError::Inconsistent { why, .. } => why,
                other => panic!("{other}"),
            }
        })
    };
    type Change = Box<dyn Fn(&mut Profile)>;
    let changes: [(&str, Change); 12] = [
        ("tasks row 1", Box::new(|p| p.sched.tasks[1].process = 9)),
        ("tasks row 2", Box::new(|p| p.sched.tasks[2].parent = Some(99))),
        ("parallelism row 0", Box::new(|p| p.sched.parallelism[0].process = Some(2))),
        ("frames row 0", Box::new(|p| p.sched.frames[0].component = Some(1))),
        ("stacks row 1", Box::new(|p| p.sched.stacks[1].frames[0] = 4)),
        ("sched_samples row 3", Box::new(|p| p.sched.samples[3].stack = 3)),
        ("sched_moments row 0", Box::new(|p| p.sched.moments[0].task = 4)),
        ("sched_waits row 6", Box::new(|p| p.sched.waits[6].holder = Some(OtherThread { task: 4, stack: None }))),
        ("sched_waits row 7", Box::new(|p| p.sched.waits[7].waker = Some(OtherThread { task: 0, stack: Some(3) }))),
        ("sched_waits row 39", Box::new(|p| p.sched.waits[39].task = 4)),
        ("slices row 2", Box::new(|p| p.sched.slices[2].wait = 40)),
        ("slices row 5", Box::new(|p| p.sched.slices[5].wait = -2)),
    ];
    for (row, change) in changes {
        let why = refused(&*change);
        assert!(why.starts_with(row), "{row}: {why}");
    }
}

#[test]
fn a_source_that_fails_leaves_nothing_behind() {
    let profile = scheduled(2, 40);
    in_folder(|path| {
        let broken = || Err(io::Error::from_raw_os_error(28));
        let long = LongTables { slices: Box::new(std::iter::once_with(broken)), ..long_tables(&profile.sched) };
        assert!(matches!(write_streamed(path, &profile, long), Err(StoreError::DiskFull { .. })));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    });
}

#[test]
fn a_damaged_timeline_is_refused_before_it_is_decoded() {
    in_folder(|path| {
        write(path, &scheduled(2, 4000)).unwrap();
        let file = path.join("slices.parquet");
        let mut content = std::fs::read(&file).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        std::fs::write(&file, &content).unwrap();
        let failed = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Corrupt { .. }));
        assert!(failed(read(path).map(drop)));
        assert!(failed(for_each_slices(path, &mut |_| panic!("of a damaged file"))));
        assert!(read_without_slices(path).is_ok(), "does not look at the rows");
        content.pop();
        std::fs::write(&file, &content).unwrap();
        assert!(failed(for_each_slices(path, &mut |_| panic!("of a cut file"))));
        assert!(failed(read_without_slices(path).map(drop)));
    });
}

#[test]
fn an_emptied_timeline_is_refused_by_who_does_not_read_it() {
    in_folder(|path| {
        let profile = scheduled(2, 400);
        write(path, &profile).unwrap();
        let file = path.join("slices.parquet");
        let whole = std::fs::read(&file).unwrap();
        let refused = || {
            let result = read_without_slices(path).map(drop);
            assert!(matches!(&result, Err(StoreError::Corrupt { path, .. }) if *path == file), "{result:?}");
        };
        // Sound tables of another number of rows.
        let other = path.with_extension("other");
        for kept in [0, profile.sched.slices.len() - 1] {
            let mut fewer = profile.clone();
            fewer.sched.slices.truncate(kept);
            write(&other, &fewer).unwrap();
            std::fs::copy(other.join("slices.parquet"), &file).unwrap();
            refused();
        }
        std::fs::write(&file, b"").unwrap();
        refused();
        std::fs::remove_file(&file).unwrap();
        refused();
        std::fs::write(&file, whole).unwrap();
        read_without_slices(path).unwrap();
        std::fs::remove_dir_all(&other).unwrap();
    });
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,9}", Just("a\0b\n\u{1b}[31m\u{202e}".to_owned())]
}

fn party() -> impl Strategy<Value = Option<OtherThread>> {
    prop::option::of((0_u32..3, prop::option::of(0_u32..4)).prop_map(|(task, stack)| OtherThread { task, stack }))
}

fn frame() -> impl Strategy<Value = StackFrame> {
    (text(), prop::option::of(0_u32..1), text(), any::<(i32, bool, bool)>()).prop_map(
        |(function, component, file, (line, inlined, kernel))| {
            let space = if kernel { Space::Kernel } else { Space::User };
            StackFrame { function, component, file, line, inlined, space }
        },
    )
}

prop_compose! {
    fn wait()(
        (task, stack, holder, waker) in (0_u32..3, prop::option::of(0_u32..4), party(), party()),
        kind in prop::sample::select(WaitKind::ALL.to_vec()),
        object in text(),
        n in any::<[i64; 6]>(),
    ) -> SchedWait {
        SchedWait {
            task, kind, object: object.into(), stack, holder, waker, count: n[0], begin_ns: n[1], end_ns: n[2], ns: n[3], idle_ns: n[4],
            holder_gain_ns: n[5],
        }
    }
}

prop_compose! {
    fn tables()(
        tasks in prop::collection::vec((prop::option::of(0_u32..3), any::<i32>(), text(), text(), any::<[i64; 9]>()), 3),
        parallelism in prop::collection::vec((prop::option::of(0_u32..1), any::<i32>(), any::<i64>()), 0..4),
        frames in prop::collection::vec(frame(), 5),
        stacks in prop::collection::vec((prop::collection::vec(0_u32..5, 0..6), any::<bool>(), any::<u128>()), 4),
        instructions in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u64>(), any::<[i64; 3]>()), 0..6),
        samples in prop::collection::vec((0_u32..3, 0_u32..4, any::<i32>(), any::<(bool, bool)>(), any::<[i64; 3]>()), 0..6),
        moments in prop::collection::vec((any::<i64>(), 0_u32..3, 0_u32..4, any::<i64>()), 0..6),
        waits in prop::collection::vec(wait(), 0..9),
        slices in prop::collection::vec((0_u32..3, any::<[i64; 4]>(), any::<prop::sample::Index>()), 0..9),
    ) -> SchedTables {
        let number = |index: prop::sample::Index| index.index(waits.len() + 1) as i32 - 1;
        let filled: Vec<usize> = (0..stacks.len()).filter(|at| !stacks[*at].0.is_empty()).collect();
        let instructions = instructions.into_iter().filter(|_| !filled.is_empty()).map(|(stack, depth, address, n)| {
            let stack = *stack.get(&filled);
            let depth = depth.index(stacks[stack].0.len()) as u32;
            StackInstruction { stack: stack as u32, depth, address, samples: n[0], running_ns: n[1], blocked_ns: n[2] }
        }).collect();
        SchedTables {
            instructions,
            tasks: tasks.into_iter().map(|(parent, tid, name, group, n)| Task {
                process: 0, parent, tid, name, group, start_ns: n[0], end_ns: n[1], criticality_ns: n[2],
                running_ns: n[3], runnable_ns: n[4], blocked_ns: n[5], unattributed_ns: n[6],
                allowed_cpus: n[7].to_string(), nice: n[8] as i32 }).collect(),
            parallelism: parallelism.into_iter().map(|(process, n, ns)| Parallelism { process, n, ns }).collect(),
            frames,
            stacks: stacks.into_iter().map(|(frames, complete, linked)| CallStack {
                linked: linked & ((1 << frames.len()) - 1), frames, complete,
            }).collect(),
            addresses: Vec::new(),
            samples: samples.into_iter().map(|(task, stack, n, (top, spin), sums)| SchedSample {
                task, stack, n, origin: if top { Origin::StackTop } else { Origin::Sample },
                samples: sums[0], criticality_ns: sums[1], active_ns: sums[2], spin,
            }).collect(),
            moments: moments.into_iter().map(|(time_ns, task, stack, period_ns)| TimedSample { time_ns, task, stack, period_ns }).collect(),
            slices: slices.into_iter().map(|(task, n, wait)| Slice {
                task, start_ns: n[0], active_ns: n[1], runnable_ns: n[2], criticality_ns: n[3], wait: number(wait),
            }).collect(),
            waits,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(16, 200)))]

    #[test]
    fn any_tables_come_back_unchanged(sched in tables()) {
        let mut profile = empty();
        profile.components.push(scheduled(1, 0).components.remove(0));
        let executable = String::new();
        profile.processes.push(Process { pid: 7, parent_pid: 1, executable, start_ns: -1, wall_ns: i64::MAX });
        profile.sched = sched;
        in_folder(|path| {
            write(path, &profile).unwrap();
            assert_eq!(read(path).unwrap(), profile);
            let mut short = profile.clone();
            short.sched.waits.clear();
            short.sched.slices.clear();
            write_streamed(path, &short, long_tables(&profile.sched)).unwrap();
            assert_eq!(read(path).unwrap(), profile);
        });
    }
}
