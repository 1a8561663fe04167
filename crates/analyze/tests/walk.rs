//! The walk's rows of a known tree: keys, order, sums, sentences.

use serde_json::Value;
use transect_analyze::synthetic::{image_server, large_walk, walked_proxy};
use transect_analyze::{FindingKind, Selection, WalkView, full_report, summary, walk, walk_tree};
use transect_profile_model::{
    CallStack, Metric, Origin, Profile, SchedSample, Space, StackFrame, Task, WalkChain, WalkEnd, WalkGroup, WalkNode,
};

fn view(profile: &Profile) -> WalkView {
    walk(profile, &Selection::default()).unwrap()
}

#[test]
fn chains_have_every_promised_key() {
    let report = serde_json::to_value(full_report(&walked_proxy(), &Selection::default())).unwrap();
    let chains = report["walk"]["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 7);
    for chain in chains {
        for key in ["thread_group", "process", "share", "ends", "waiting_for", "woken_by", "frames"] {
            assert!(chain.get(key).is_some(), "{key}: {chain}");
        }
        for frame in chain["frames"].as_array().unwrap() {
            let keys = [
                "function",
                "component",
                "space",
                "inlined",
                "share",
                "share_low",
                "share_high",
                "method",
                "on_ns",
                "runnable_ns",
                "blocked_ns",
                "file",
                "line",
            ];
            assert!(keys.iter().all(|key| frame.get(key).is_some()), "{frame}");
            assert!(["user", "kernel"].contains(&frame["space"].as_str().unwrap()));
            assert!(["exact", "sampled", "syscall-exact"].contains(&frame["method"].as_str().unwrap()));
            assert_eq!(frame["component"].is_null(), frame["space"] == "kernel");
        }
        let last = &chain["frames"].as_array().unwrap().last().map_or(Value::from(0.0), |frame| frame["share"].clone());
        assert_eq!(&chain["share"], last);
    }
    for key in ["metric", "threshold", "kernel_timing", "user_timing", "found_after_ns", "steps", "system_calls"] {
        assert!(report["walk"].get(key).is_some(), "{key}");
    }
    let without = serde_json::to_value(full_report(&image_server(), &Selection::default())).unwrap();
    assert!(without["walk"].is_null());
}

#[test]
fn the_launched_process_and_its_main_thread_come_first() {
    let groups: Vec<(i32, String, f64)> = view(&walked_proxy())
        .chains
        .into_iter()
        .map(|c| (c.process, c.thread_group, (c.share * 1e3).round()))
        .collect();
    let groups: Vec<(i32, &str, f64)> = groups.iter().map(|(p, g, s)| (*p, g.as_str(), *s)).collect();
    assert_eq!(
        groups,
        [
            (4000, "main", 311.0),
            (4000, "main", 287.0),
            (4000, "pool", 0.0),
            (4000, "worker", 397.0),
            (4000, "worker", 334.0),
            (4000, "log", 612.0),
            (4001, "main", 884.0),
        ]
    );
}

#[test]
fn each_end_has_its_sentence() {
    let said: Vec<(WalkEnd, String, String)> =
        view(&walked_proxy()).chains.into_iter().map(|c| (c.ends, c.conclusion, c.next)).collect();
    let starts = |at: usize, conclusion: &str, next: &str| {
        let (_, found, found_next) = &said[at];
        assert!(found.contains(conclusion), "{found}");
        assert!(found_next.contains(next), "{found_next}");
    };
    starts(
        0,
        "waiting for one of its files to become ready (poll): pipe to unlinkd (4001); woken by unlinkd in write.",
        "main of process 4001",
    );
    starts(2, "No function holds 25 % of pool's time; the largest: expire 20 %", "--threshold 18%");
    starts(3, "longest_match itself holds 40 % of worker's time, 15.4 s of it on CPU", "match.c:201");
    starts(
        4,
        "Codec::decode holds 33 % of worker's time, but nothing it calls holds 25 %; the largest: huffman 9.9 %",
        "--threshold 8%",
    );
    starts(5, "waiting for the disk (file sync): /var/log/cached/access.log", "AccessLog::commit (log.cc:97)");
}

/// A function that only asks again until another thread is done is not the one to make faster.
#[test]
fn a_chain_that_ends_in_a_loop_that_waits_says_so() {
    let mut profile = walked_proxy();
    let frame = StackFrame {
        function: "longest_match".to_owned(),
        component: None,
        file: String::new(),
        line: 0,
        inlined: false,
        space: Space::User,
    };
    let sched = &mut profile.sched;
    let task = sched.tasks.len() as u32;
    sched.tasks.push(Task { group: "worker".to_owned(), ..Task::default() });
    sched.stacks.push(CallStack { frames: vec![sched.frames.len() as u32], complete: true, linked: 0 });
    sched.frames.push(frame);
    let stack = sched.stacks.len() as u32 - 1;
    sched.samples.push(SchedSample {
        task,
        stack,
        n: 1,
        origin: Origin::Sample,
        samples: 1,
        criticality_ns: 1,
        active_ns: 1,
        spin: true,
    });
    let chain = &view(&profile).chains[3];
    assert!(chain.conclusion.starts_with("Ends in a loop that waits for another thread: longest_match holds 40 %"));
    assert_eq!(chain.next, "See who it waits for: --view criticality");
    profile.sched.samples[0].spin = false;
    assert!(view(&profile).chains[3].conclusion.starts_with("Ends in a function: longest_match itself holds"));
}

#[test]
fn other_metrics_are_named() {
    let mut profile = walked_proxy();
    profile.meta.walk.as_mut().unwrap().metric = Metric::PageFaults;
    assert!(view(&profile).chains[3].conclusion.ends_with("holds 40 % of worker's page faults."));
}

#[test]
fn a_group_of_which_nothing_was_seen_says_so() {
    let mut profile = walked_proxy();
    profile.walk.groups[3].total = 0;
    profile.walk.nodes.iter_mut().filter(|node| node.group == 3).for_each(|node| node.total = 0);
    let chain = view(&profile).chains.into_iter().find(|chain| chain.thread_group == "pool").unwrap();
    assert_eq!(chain.conclusion, "Nothing was seen of pool's time: the threads idled or ended too soon.");
    assert_eq!(chain.next, "Measure again under load, or for longer (--duration).");
}

#[test]
fn selections_keep_chains_through_a_function_or_component() {
    let select = |selection: Selection| walk(&walked_proxy(), &selection).unwrap();
    let by = |api: Option<&str>, component: Option<&str>| {
        select(Selection {
            api: api.map(str::to_owned),
            component: component.map(str::to_owned),
            ..Selection::default()
        })
    };
    let functions = by(Some("unlink"), None);
    assert_eq!((functions.chains.len(), functions.system_calls.len()), (1, 2));
    assert_eq!(by(None, Some("libcodec")).chains.len(), 2);
    assert_eq!(by(Some("poll"), Some("libc")).chains.len(), 1);
    assert_eq!(by(Some("no_such"), None).chains.len(), 0);
    assert_eq!(select(Selection { top: Some(2), ..Selection::default() }).chains.len(), 2);
}

#[test]
fn findings_say_where_the_time_is() {
    let rows = summary(&walked_proxy());
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.kind == FindingKind::WalkedChain && row.view == "walk"));
    assert_eq!(
        rows[0].finding,
        "61 % of log's time is in fsync → jbd2_log_wait_commit, waiting for the disk (file sync): \
         /var/log/cached/access.log"
    );
    assert!(rows[2].finding.starts_with("31 % of cached/main's time is in poll → "), "{}", rows[2].finding);
    let mut nothing = walked_proxy();
    nothing.walk.chains.retain(|chain| chain.ends == WalkEnd::NothingAboveThreshold);
    let rows = summary(&nothing);
    assert_eq!((rows.len(), rows[0].kind), (1, FindingKind::Nothing));
    assert!(rows[0].evidence.starts_with("No function holds 25 %"), "{}", rows[0].evidence);
}

/// Every node's time is its own and its callees'; the trees' roots have the groups' totals.
#[test]
fn the_tree_is_whole_and_cut_only_where_it_is_too_large() {
    for (profile, most) in [(walked_proxy(), usize::MAX), (large_walk(40_000), 30_100)] {
        let tree = walk_tree(&profile);
        let nodes = profile.walk.nodes.len();
        assert_eq!(tree.node.len() + tree.left_out, nodes);
        assert!(tree.node.len() <= most, "{}", tree.node.len());
        assert!(most == usize::MAX || tree.left_out > 0);
        let mut callees = vec![0; tree.node.len()];
        for (row, &parent) in tree.parent.iter().enumerate() {
            if let Ok(parent) = usize::try_from(parent) {
                assert!(parent < row);
                assert_eq!(tree.group[parent], tree.group[row]);
                callees[parent] += tree.on_ns[row] + tree.runnable_ns[row] + tree.blocked_ns[row];
            }
        }
        for (row, &below) in callees.iter().enumerate() {
            assert!(below <= tree.on_ns[row] + tree.runnable_ns[row] + tree.blocked_ns[row], "{row}");
        }
        for frame in profile.walk.chains.iter().flat_map(|chain| &chain.frames) {
            assert!(tree.node.contains(&frame.node), "a chain's frame is in the tree");
        }
    }
}

#[test]
fn a_crowded_machine_and_few_samples_are_said() {
    let mut profile = walked_proxy();
    let worker = &mut profile.walk.groups[2];
    (worker.on_ns, worker.runnable_ns) = (worker.runnable_ns, worker.on_ns);
    profile.walk.chains[2].frames[2].share_low = 0.1;
    let node = profile.walk.chains[2].frames[2].node;
    let node = &mut profile.walk.nodes[node as usize];
    (node.on_ns, node.runnable_ns) = (node.runnable_ns, node.on_ns);
    let view = view(&profile);
    let group = view.groups.iter().find(|group| group.thread_group == "worker").unwrap();
    assert!(group.remark.starts_with("85 % of its time it was runnable"), "{}", group.remark);
    let chain = &view.chains[3];
    assert!(chain.conclusion.contains("40 % (10 % to 41 %, few samples)"), "{}", chain.conclusion);
    assert!(chain.conclusion.ends_with("15.4 s of it runnable, without a CPU."), "{}", chain.conclusion);
    assert!(chain.next.contains("--metric cpu"));
}

/// A `make` that waits for two compilers: each lives for half of the run, and spreads its time over its functions. An assembler of a
/// moment is nearly all in one function.
fn compiling() -> Profile {
    let mut profile = walked_proxy();
    let chain = profile.walk.chains[0].clone();
    let run = 1000;
    profile.meta.wall_ns = run;
    profile.processes.truncate(1);
    profile.processes[0].executable = "/bin/make".into();
    profile.walk.groups.clear();
    profile.walk.chains.clear();
    for (pid, program, total, ends, waiting_for, share) in [
        (1, "make", run, WalkEnd::Waiting, "child", 0.95),
        (2, "cc1", run / 2, WalkEnd::Spread, "", 0.8),
        (3, "cc1", run / 3, WalkEnd::Spread, "", 0.7),
        (4, "as", run / 100, WalkEnd::Function, "", 0.99),
    ] {
        let process = profile.walk.groups.len() as u32;
        if process > 0 {
            profile.processes.push(profile.processes[0].clone());
        }
        profile.processes[process as usize].pid = pid;
        profile.processes[process as usize].executable = format!("/bin/{program}");
        let (on_ns, runnable_ns, blocked_ns) = (total, 0, 0);
        let thread_group = "main".to_owned();
        profile.walk.groups.push(WalkGroup {
            process,
            thread_group,
            threads: 1,
            total,
            on_ns,
            runnable_ns,
            blocked_ns,
        });
        let (waiting_for, woken_by) = (waiting_for.to_owned(), String::new());
        profile.walk.chains.push(WalkChain { group: process, share, ends, waiting_for, woken_by, ..chain.clone() });
    }
    profile
}

#[test]
fn who_waits_for_its_children_is_not_where_the_time_is() {
    let rows = summary(&compiling());
    let said: Vec<(&str, i64)> = rows.iter().map(|row| (row.finding.as_str(), row.percent.round() as i64)).collect();
    assert!(said[0].0.starts_with("80 % of cc1/main's time is in ") && said[0].1 == 40, "{said:?}");
    assert!(said[0].0.ends_with(" with what it calls"), "{said:?}");
    assert!(said[1].0.starts_with("70 % of cc1/main's time is in ") && said[1].1 == 23, "{said:?}");
    assert!(said.iter().all(|(finding, _)| !finding.contains("make")), "{said:?}");
    assert_eq!(said.last().unwrap().1, 1);
    assert!(rows[0].evidence.ends_with("; 40 % of the run"), "{}", rows[0].evidence);
}

/// A thread with so much of its time in stacks without a beginning, and a function beside.
fn unknown(unknown: i64, function: i64, samples: i64) -> (String, String) {
    let mut profile = walked_proxy();
    let at = profile.walk.groups.iter().position(|group| group.thread_group == "pool").unwrap();
    profile.walk.groups[at].total = 100;
    let mut node = profile.walk.nodes.iter().find(|node| node.group as usize == at).unwrap().clone();
    profile.walk.nodes.retain(|node| node.group as usize != at);
    // Rows of other groups' nodes have moved: their chains are of no matter here.
    profile.walk.chains.retain(|chain| chain.group as usize == at);
    (node.parent, node.samples) = (None, samples);
    for (name, total) in [("[unknown]", unknown), ("expire", function)] {
        profile.walk.nodes.push(WalkNode { function: name.to_owned(), total, ..node.clone() });
    }
    let chain = view(&profile).chains.into_iter().next().unwrap();
    (chain.conclusion, chain.next)
}

#[test]
fn what_is_unknown_is_not_told_by_a_lower_threshold() {
    let (conclusion, next) = unknown(76, 12, 400);
    assert!(conclusion.starts_with("Of 76 % of pool's time it is not known"), "{conclusion}");
    assert!(conclusion.ends_with("of the rest the largest: expire 12 %."), "{conclusion}");
    assert_eq!(next, "Which stacks are missing, and why: --view loss.");
    let (_, next) = unknown(76, 12, 4);
    assert_eq!(next, "It ran for too short a time to tell more (8 samples and waits).");
    // Less of it: what is known goes on below.
    let (_, next) = unknown(22, 20, 400);
    assert!(next.contains("--threshold 18%"), "{next}");
}
