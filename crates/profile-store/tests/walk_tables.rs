//! The tables of a walk: what is written is what is read, what contradicts itself is refused.

use proptest::prelude::*;
use transect_analyze::synthetic::{empty, image_server, walked_proxy};
use transect_profile_model::{
    Component, Metric, Process, Profile, ShareMethod, Space, WalkChain, WalkEnd, WalkFrame, WalkGroup, WalkNode,
    WalkStep, WalkSystemCall, WalkTables,
};
use transect_profile_store::{StoreError, read, write};

const TABLES: [&str; 6] =
    ["walk_groups", "walk_nodes", "walk_chains", "walk_frames", "walk_steps", "walk_system_calls"];

fn in_folder<T>(act: impl FnOnce(&std::path::Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    act(&folder.path().join("run.transect"))
}

#[test]
fn profiles_of_versions_without_the_walk_are_read() {
    in_folder(|path| {
        write(path, &image_server()).unwrap();
        let meta = path.join("meta.json");
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
        for table in TABLES {
            value["tables"].as_object_mut().unwrap().remove(table).unwrap();
            std::fs::remove_file(path.join(format!("{table}.parquet"))).unwrap();
        }
        std::fs::write(&meta, transect_profile_store::sealed_meta(value)).unwrap();
        assert_eq!(read(path).unwrap(), image_server());
        write(path, &walked_proxy()).unwrap();
        assert!(read(path).unwrap() == walked_proxy(), "and replaced");
    });
}

#[test]
fn rows_that_contradict_others_are_refused() {
    type Change = fn(&mut Profile);
    let changes: [(&str, Change); 12] = [
        ("walk_groups row 1 points to a missing row", |p| p.walk.groups[1].process = 9),
        ("walk_nodes row 3 points to a missing row", |p| p.walk.nodes[3].group = 99),
        ("walk_nodes row 2 points to a missing row", |p| p.walk.nodes[2].component = Some(99)),
        ("walk_nodes row 2 does not come after its parent", |p| p.walk.nodes[2].parent = Some(2)),
        ("walk_nodes row 2 does not come after its parent", |p| p.walk.nodes[2].parent = Some(9_999)),
        ("walk_nodes row 2 is in another group than its parent", |p| p.walk.nodes[2].group = 1),
        ("walk_chains row 2", |p| p.walk.chains[2].group = 99),
        ("walk_chains row 0", |p| p.walk.chains[0].frames[1].node = 9_999),
        ("walk_chains row 0", |p| p.walk.chains[0].frames[1].node = 0),
        ("walk_steps row 4", |p| p.walk.steps[4].node = 9_999),
        ("walk_steps row 3", |p| p.walk.steps[3].parent = 9_999),
        ("walk_system_calls row 8", |p| p.walk.system_calls[8].group = 99),
    ];
    for (why, change) in changes {
        let mut profile = walked_proxy();
        change(&mut profile);
        in_folder(|path| match write(path, &profile).unwrap_err() {
            StoreError::Inconsistent { why: found, .. } => {
                assert!(found.starts_with(why), "{why}: {found}");
                assert!(!path.exists());
            }
            other => panic!("{other}"),
        });
    }
}

#[test]
fn numbers_that_are_none_become_zero_instead_of_breaking_the_profile() {
    let mut profile = walked_proxy();
    profile.walk.chains[0].share = f64::NAN;
    profile.walk.chains[0].frames[0].share_high = f64::INFINITY;
    profile.walk.chains[0].frames[0].disputed = Some(f64::NAN);
    profile.walk.steps[0].share = f64::NEG_INFINITY;
    profile.meta.walk.as_mut().unwrap().threshold = f64::NAN;
    in_folder(|path| {
        write(path, &profile).unwrap();
        let read = read(path).unwrap();
        let frame = &read.walk.chains[0].frames[0];
        assert_eq!((read.walk.chains[0].share, frame.share_high, frame.disputed), (0.0, 0.0, Some(0.0)));
        assert_eq!((read.walk.steps[0].share, read.meta.walk.unwrap().threshold), (0.0, 0.0));
    });
}

/// Takes the files of one profile and the list of tables of another: each is sound, together they are not.
#[test]
fn tables_of_two_profiles_do_not_read_as_one() {
    let mixed = |change: fn(&mut Profile), table: &str| {
        in_folder(|path| {
            let mut other = walked_proxy();
            change(&mut other);
            write(path, &other).unwrap();
            let file = format!("{table}.parquet");
            let content = std::fs::read(path.join(&file)).unwrap();
            let meta: serde_json::Value =
                serde_json::from_slice(&std::fs::read(path.join("meta.json")).unwrap()).unwrap();
            write(path, &walked_proxy()).unwrap();
            std::fs::write(path.join(&file), content).unwrap();
            let text = std::fs::read(path.join("meta.json")).unwrap();
            let mut own: serde_json::Value = serde_json::from_slice(&text).unwrap();
            own["tables"][table] = meta["tables"][table].clone();
            std::fs::write(path.join("meta.json"), transect_profile_store::sealed_meta(own)).unwrap();
            match read(path).unwrap_err() {
                StoreError::Corrupt { path, why } => {
                    assert!(path.ends_with(&file), "{}", path.display());
                    why
                }
                other => panic!("{other}"),
            }
        })
    };
    // Fewer groups, a shorter tree, fewer chains: what points to the rest points nowhere.
    let fewer_processes: fn(&mut Profile) = |p| {
        p.processes.push(p.processes[0].clone());
        p.walk.groups[1].process = 2;
    };
    assert!(mixed(fewer_processes, "walk_groups").contains("process_id 2 does not exist"));
    let more_groups: fn(&mut Profile) = |p| {
        p.walk.groups.push(p.walk.groups[0].clone());
        p.walk.nodes.push(WalkNode { group: 5, parent: None, ..p.walk.nodes[0].clone() });
    };
    assert!(mixed(more_groups, "walk_nodes").contains("group_id 5 does not exist"));
    let more_chains: fn(&mut Profile) = |p| p.walk.chains.push(p.walk.chains[0].clone());
    assert!(mixed(more_chains, "walk_frames").contains("chain_id 7 does not exist"));
    let other_groups: fn(&mut Profile) = |p| p.walk.chains.swap(0, 1);
    assert!(mixed(other_groups, "walk_frames").contains("of another group than the chain"));
    let more_nodes: fn(&mut Profile) = |p| {
        p.walk.nodes.push(p.walk.nodes[0].clone());
        p.walk.steps[3].node = p.walk.nodes.len() as u32 - 1;
    };
    assert!(mixed(more_nodes, "walk_steps").contains("does not exist"));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,9}", Just("a\0b\n\u{1b}[31m\u{202e}".to_owned())]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), any::<f64>().prop_filter("finite", |share| share.is_finite())]
}

fn method() -> impl Strategy<Value = ShareMethod> {
    prop::sample::select(vec![ShareMethod::Exact, ShareMethod::Sampled, ShareMethod::SyscallExact])
}

fn ends() -> impl Strategy<Value = WalkEnd> {
    prop::sample::select(vec![WalkEnd::Function, WalkEnd::Waiting, WalkEnd::Spread, WalkEnd::NothingAboveThreshold])
}

fn frame() -> impl Strategy<Value = (prop::sample::Index, WalkFrame)> {
    let shares = (share(), share(), share(), prop::option::of(share()));
    (any::<prop::sample::Index>(), shares, method(), text()).prop_map(
        |(index, (share, low, high, disputed), method, woken_by)| {
            (index, WalkFrame { node: 0, share, share_low: low, share_high: high, method, disputed, woken_by })
        },
    )
}

prop_compose! {
    /// Two groups of one process, each with at least one node.
    fn tables()(
        groups in prop::collection::vec((text(), any::<[i64; 5]>()), 2),
        nodes in prop::collection::vec((any::<prop::sample::Index>(), text(), prop::option::of(0_u32..1), text(), any::<(i32, bool, bool)>(), any::<[i64; 5]>()), 2..24),
        chains in prop::collection::vec((0_u32..2, share(), ends(), text(), text(), prop::collection::vec(frame(), 0..5)), 0..5),
        steps in prop::collection::vec((any::<i64>(), any::<(prop::sample::Index, prop::sample::Index)>(), share(), method(), any::<bool>(), text()), 0..6),
        calls in prop::collection::vec((0_u32..2, text(), any::<[i64; 4]>()), 0..5),
    ) -> WalkTables {
        let groups = groups.into_iter().map(|(thread_group, n)| WalkGroup {
            process: 0, thread_group, threads: n[0], total: n[1], on_ns: n[2], runnable_ns: n[3], blocked_ns: n[4],
        }).collect();
        let mut walk = WalkTables { groups, ..WalkTables::default() };
        for (row, (index, function, component, file, (line, inlined, kernel), n)) in nodes.into_iter().enumerate() {
            // The first two are roots; later ones hang below any before them.
            let parent = (row >= 2).then(|| index.index(row));
            walk.nodes.push(WalkNode {
                group: parent.map_or(row as u32, |parent| walk.nodes[parent].group),
                parent: parent.map(|parent| parent as u32),
                function, component, file, line, inlined,
                address: n[0].is_positive().then_some(n[1]),
                space: if kernel { Space::Kernel } else { Space::User },
                total: n[0], on_ns: n[1], runnable_ns: n[2], blocked_ns: n[3], samples: n[4],
            });
        }
        let of = |group: u32| -> Vec<u32> { (0..).zip(&walk.nodes).filter(|(_, n)| n.group == group).map(|(id, _)| id).collect() };
        walk.chains = chains.into_iter().map(|(group, share, ends, waiting_for, woken_by, frames)| WalkChain {
            group, share, ends, waiting_for, woken_by,
            frames: frames.into_iter().map(|(index, frame)| WalkFrame { node: *index.get(&of(group)), ..frame }).collect(),
        }).collect();
        let count = walk.nodes.len();
        walk.steps = steps.into_iter().map(|(time_ns, (parent, node), share, method, followed, note)| WalkStep {
            time_ns, group: 1, parent: parent.index(count) as u32, node: node.index(count) as u32, share, method, followed, note,
        }).collect();
        walk.system_calls = calls.into_iter().map(|(group, name, n)| WalkSystemCall {
            group, name, calls: n[0], on_ns: n[1], runnable_ns: n[2], blocked_ns: n[3],
        }).collect();
        walk
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(16, 200)))]

    #[test]
    fn any_tables_come_back_unchanged(walk in tables(), metric in prop::sample::select(Metric::ALL.to_vec())) {
        let mut profile = empty();
        profile.components.push(Component {
            path: "/opt/app/bin/app".into(), build_id: String::new(), executable: true, synthetic: false, static_in: None,
        });
        let executable = String::new();
        profile.processes.push(Process { pid: 7, parent_pid: 1, executable, start_ns: -1, wall_ns: i64::MAX });
        profile.meta.walk = walked_proxy().meta.walk;
        profile.meta.walk.as_mut().unwrap().metric = metric;
        profile.walk = walk;
        in_folder(|path| {
            write(path, &profile).unwrap();
            assert_eq!(read(path).unwrap(), profile);
        });
    }
}
