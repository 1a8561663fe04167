//! Each rule of the walk by itself.

use std::time::Duration;

use transect_call_walk::{
    CallTree, Callee, ExactTotals, Frame, Function, NodeId, Observation, Request, Search, Settings, Split, State,
    Stratum, SystemCallTotals, Tally, Timed, Timing, Unit, Untimed, UntimedReason,
};
use transect_profile_model::{ShareMethod, WalkEnd};

mod synthetic;
use synthetic::{frames, kernel, path, settings, thread, user};

const MS: f64 = 1e6;

fn call(number: u32) -> Function {
    Function::SystemCall { number }
}

/// Adds `count` observations of `ms` each.
fn see(tree: &mut CallTree, stack: &[Function], state: State, ms: f64, count: u64) -> NodeId {
    let node = tree.insert(&frames(stack), &mut Vec::new()).unwrap();
    (0..count).for_each(|_| tree.observe(node, Observation { thread: 1, state, amount: ms * MS }));
    node
}

fn split(on: f64, runnable: f64, blocked: f64) -> Split {
    Split { on_ns: on * MS, runnable_ns: runnable * MS, blocked_ns: blocked * MS }
}

fn exact(whole: Split, calls: &[(u32, Split)]) -> ExactTotals {
    let mut totals = thread(whole);
    totals.system_calls =
        calls.iter().map(|&(number, split)| (number, SystemCallTotals { calls: 10, split })).collect();
    ExactTotals { threads: [(1, totals)].into() }
}

/// A tree of on-CPU samples only: stacks and numbers of samples.
fn sampled(stacks: &[(&[Function], u64)]) -> CallTree {
    let mut tree = CallTree::new(Unit::Wall);
    for (stack, count) in stacks {
        see(&mut tree, stack, State::On, 1.0, *count);
    }
    tree.post_stratify(&ExactTotals::default());
    tree
}

fn node(tree: &CallTree, stack: &[Function]) -> NodeId {
    (0..tree.nodes.len() as NodeId).find(|&node| path(tree, node) == stack).unwrap()
}

fn evaluated(tree: &CallTree) -> Search {
    let mut search = Search::new(settings());
    search.evaluate(&[tree]);
    search
}

fn callee(function: Function, within: Option<usize>) -> Callee {
    Callee { function, within }
}

fn timed(ms: f64, calls: u64) -> Option<Timed> {
    Some(Timed { calls, wall_ns: ms * MS, on_ns: Some(ms * MS), runnable_ns: None, cost_ns: 100.0 * calls as f64 })
}

fn timing(parent: Option<Timed>, callees: Vec<Option<Timed>>) -> Timing {
    Timing { lasted_ns: 200.0 * MS, parent, callees, ..Timing::default() }
}

/// Answers requests until there is none: the callees have these parts of the parent's time. Gives the whole windows.
fn answer(search: &mut Search, tree: &mut CallTree, exact: &ExactTotals, parts: &[(Function, f64)]) -> Vec<Request> {
    let mut whole = Vec::new();
    while let Some(request) = search.next_request(&[tree]) {
        let part = |function| parts.iter().find(|part| part.0 == function).map_or(0.5, |part| part.1);
        let mut of = Vec::new();
        for callee in &request.callees {
            let outer = callee.within.map_or(200.0, |within| of[within]);
            of.push(outer * part(callee.function));
        }
        let callees = of.iter().map(|&ms| timed(ms, 2000)).collect();
        search.timed(&request, Ok(timing(timed(200.0, 2000), callees)));
        if request.window == settings().window {
            whole.push(request);
        }
        tree.post_stratify(exact);
        search.evaluate(&[tree]);
        assert!(whole.len() < 50, "does not end");
    }
    whole
}

#[test]
fn a_tree_that_grew_after_its_shares_has_the_chains_it_had() {
    let mut tree = sampled(&[(&[user(1), user(2)], 100)]);
    let (search, late) = (evaluated(&tree), Search::new(settings()));
    let before = search.chains(0, &tree);
    see(&mut tree, &[user(1), user(3)], State::On, 1.0, 1000);
    assert_eq!(search.chains(0, &tree), before);
    let ends: Vec<WalkEnd> = late.chains(0, &tree).iter().map(|chain| chain.ends).collect();
    assert_eq!(ends, [WalkEnd::NothingAboveThreshold], "of a group that was never evaluated");
}

#[test]
fn an_empty_tree_has_nothing_above_the_threshold() {
    let mut tree = CallTree::new(Unit::Wall);
    tree.post_stratify(&ExactTotals::default());
    let mut search = evaluated(&tree);
    let chains = search.chains(0, &tree);
    assert_eq!((chains.len(), chains[0].ends, chains[0].frames.len()), (1, WalkEnd::NothingAboveThreshold, 0));
    assert!(search.next_request(&[&tree]).is_none());
    assert!(!search.is_complete());
    assert!(Search::new(settings()).chains(3, &tree)[0].frames.is_empty());
}

#[test]
fn time_without_any_stack_is_not_found_anywhere() {
    let mut tree = CallTree::new(Unit::Wall);
    tree.post_stratify(&exact(split(0.0, 0.0, 2000.0), &[]));
    assert_eq!(tree.node(0).function, Function::Unknown);
    assert_eq!(tree.total, 2e9);
    assert_eq!(evaluated(&tree).chains(0, &tree)[0].ends, WalkEnd::NothingAboveThreshold);
}

#[test]
fn an_idle_program_ends_in_waiting() {
    let mut tree = CallTree::new(Unit::Wall);
    see(&mut tree, &[user(0), user(1), call(7), kernel(9)], State::Blocked, 2000.0, 1);
    tree.post_stratify(&exact(split(0.1, 0.0, 2000.0), &[(7, split(0.0, 0.0, 2000.0))]));
    let search = evaluated(&tree);
    let chains = search.chains(0, &tree);
    assert_eq!(chains[0].ends, WalkEnd::Waiting);
    assert_eq!(chains[0].frames.len(), 4);
    assert_eq!(chains[0].frames[2].share.method, ShareMethod::SyscallExact);
    assert!(chains[0].frames[3].share.low > 0.99, "all of a wait that was seen whole is known");
    assert!(search.is_complete());
}

#[test]
fn one_sample_is_a_chain_but_not_certain() {
    let tree = sampled(&[(&[user(0), user(1)], 1)]);
    let search = evaluated(&tree);
    let share = search.chains(0, &tree)[0].frames[1].share;
    assert_eq!(share.share, 1.0);
    assert!(share.low < 0.7, "{share:?}");
    assert!(!search.is_complete());
}

#[test]
fn what_straddles_the_threshold_is_timed_first_and_decided() {
    // 24 of 100 samples: it may have more than 25 %. The other is above.
    let stacks: &[(&[Function], u64)] = &[(&[user(0), user(1)], 76), (&[user(0), user(2)], 24)];
    let mut tree = sampled(stacks);
    let mut search = evaluated(&tree);
    let first = search.next_request(&[&tree]).unwrap();
    assert_eq!(first.callees[0].function, user(2));
    assert_eq!(first.parent, user(0));
    assert!(first.window < settings().window, "a first window is short");
    assert!(search.next_request(&[&tree]).is_none(), "one at a time");
    search.timed(&first, Ok(timing(timed(20.0, 200), vec![timed(5.4, 200), timed(14.6, 200)])));
    search.evaluate(&[&tree]);
    answer(&mut search, &mut tree, &ExactTotals::default(), &[(user(1), 0.72), (user(2), 0.27)]);
    let share = search.shares(0)[node(&tree, &[user(0), user(2)]) as usize];
    assert_eq!(share.method, ShareMethod::Exact);
    assert!((share.share - 0.27).abs() < 1e-9, "{share:?}");
    assert!(share.low >= 0.25, "{share:?}");
    assert_eq!(search.chains(0, &tree).len(), 2);
    assert!(search.is_complete());
}

#[test]
fn short_functions_are_not_timed() {
    let tree = sampled(&[(&[user(0), user(1)], 60), (&[user(0), user(2)], 40)]);
    let mut search = evaluated(&tree);
    let request = search.next_request(&[&tree]).unwrap();
    // 500 ns a call, with probes of 100 ns.
    let short = Timed { calls: 24_000, wall_ns: 12.0 * MS, cost_ns: 2.4 * MS, ..Timed::default() };
    let other = timed(8.0, 10);
    let callees = request.callees.iter().map(|c| if c.function == user(1) { Some(short) } else { other }).collect();
    search.timed(&request, Ok(timing(timed(20.0, 10), callees)));
    let steps = search.evaluate(&[&tree]);
    assert!(steps.is_empty(), "nothing was decided by it");
    let next = search.next_request(&[&tree]).unwrap();
    assert_eq!(next.callees, vec![callee(user(2), None)]);
    assert_eq!(next.window, settings().window);
    assert!(search.chains(0, &tree)[0].frames.iter().all(|frame| frame.share.method == ShareMethod::Sampled));
}

#[test]
fn inlined_functions_are_passed_through() {
    let inlined = Function::Other { number: 5 };
    let mut tree = sampled(&[(&[user(0), inlined, user(1)], 60), (&[user(0), inlined], 40)]);
    let mut search = evaluated(&tree);
    let requests = answer(&mut search, &mut tree, &ExactTotals::default(), &[(user(1), 0.5)]);
    assert_eq!(requests[0].parent, user(0));
    assert_eq!(requests[0].callees, vec![callee(user(1), None)]);
    let shares = search.shares(0);
    let at = |stack: &[Function]| shares[node(&tree, stack) as usize];
    assert!((at(&[user(0), inlined, user(1)]).share - 0.5).abs() < 1e-9);
    assert_eq!(at(&[user(0), inlined]).share, 1.0);
    assert_eq!(at(&[user(0), inlined]).method, ShareMethod::Sampled);
}

#[test]
fn exact_against_sampled_is_measured_again_with_half_the_probes_and_reported() {
    let mut tree = sampled(&[(&[user(0), user(1)], 70), (&[user(0), user(2)], 30)]);
    let mut search = Search::new(Settings { max_probes: 4, ..settings() });
    search.evaluate(&[&tree]);
    let mut probes = Vec::new();
    while let Some(request) = search.next_request(&[&tree]) {
        let ms = |function| if function == user(1) { 80.0 } else { 60.0 };
        let callees = request.callees.iter().map(|callee| timed(ms(callee.function), 2000)).collect();
        search.timed(&request, Ok(timing(timed(200.0, 2000), callees)));
        if request.window == settings().window {
            probes.push(request.callees.len() + 1);
        }
        // Meanwhile samples go on to say 70 to 30, where the probes say 40 to 30.
        see(&mut tree, &[user(0), user(1)], State::On, 1.0, 140);
        see(&mut tree, &[user(0), user(2)], State::On, 1.0, 60);
        tree.post_stratify(&ExactTotals::default());
        search.evaluate(&[&tree]);
    }
    assert_eq!(probes, [3, 2], "probes of the whole windows");
    let share = search.shares(0)[node(&tree, &[user(0), user(1)]) as usize];
    assert_eq!(share.method, ShareMethod::Exact);
    assert!((share.share - 0.4).abs() < 1e-9);
    assert!((share.disputed.unwrap() - 0.7).abs() < 0.01, "{share:?}");
}

#[test]
fn calls_that_probes_do_not_see_stay_sampled() {
    let mut tree = sampled(&[(&[user(0), user(1)], 70), (&[user(0), user(2)], 30)]);
    let mut search = evaluated(&tree);
    let mut windows = 0;
    while let Some(request) = search.next_request(&[&tree]) {
        windows += 1;
        assert!(windows < 20, "does not end");
        let none = request.callees.iter().map(|_| Some(Timed::default())).collect();
        search.timed(&request, Ok(timing(timed(200.0, 2000), none)));
        see(&mut tree, &[user(0), user(1)], State::On, 1.0, 70);
        see(&mut tree, &[user(0), user(2)], State::On, 1.0, 30);
        tree.post_stratify(&ExactTotals::default());
        search.evaluate(&[&tree]);
    }
    let share = search.shares(0)[node(&tree, &[user(0), user(1)]) as usize];
    assert_eq!((share.method, share.disputed), (ShareMethod::Sampled, None));
}

#[test]
fn what_cannot_be_timed_is_not_asked_for_again() {
    let tree = sampled(&[(&[user(0), user(1)], 60), (&[user(0), user(2)], 40)]);
    let refused = |function| Untimed { function, reason: UntimedReason::Refused("no room".into()) };
    let mut search = evaluated(&tree);
    let request = search.next_request(&[&tree]).unwrap();
    let untimed = request.callees.iter().map(|callee| refused(callee.function)).collect();
    let none = vec![None; request.callees.len()];
    search.timed(&request, Ok(Timing { untimed, ..timing(timed(20.0, 10), none) }));
    search.evaluate(&[&tree]);
    assert!(search.next_request(&[&tree]).is_none());
    // A parent that is open all the while, a process that is gone, an error.
    for answer in [
        Ok(timing(None, vec![None; 2])),
        Err(UntimedReason::Gone("the process ended".into())),
        Err(UntimedReason::Refused("no".into())),
    ] {
        let mut search = evaluated(&tree);
        let request = search.next_request(&[&tree]).unwrap();
        search.timed(&request, answer);
        search.evaluate(&[&tree]);
        assert!(search.next_request(&[&tree]).is_none());
        assert_eq!(search.chains(0, &tree).len(), 2);
    }
}

#[test]
fn a_timer_that_does_not_nest_is_asked_level_by_level() {
    let mut tree = sampled(&[(&[user(0), user(1), user(2)], 40), (&[user(0), user(1)], 30), (&[user(0)], 30)]);
    let mut search = evaluated(&tree);
    let request = search.next_request(&[&tree]).unwrap();
    assert_eq!(request.callees, vec![callee(user(1), None), callee(user(2), Some(0))]);
    let untimed = vec![Untimed { function: user(2), reason: UntimedReason::Refused("nested".into()) }];
    search.timed(&request, Ok(Timing { untimed, ..timing(timed(20.0, 20), vec![timed(14.0, 20), None]) }));
    tree.post_stratify(&ExactTotals::default());
    search.evaluate(&[&tree]);
    let parts = [(user(1), 0.7), (user(2), 0.5)];
    let requests = answer(&mut search, &mut tree, &ExactTotals::default(), &parts);
    assert!(requests.iter().all(|request| request.callees.iter().all(|callee| callee.within.is_none())));
    let share = search.shares(0)[node(&tree, &[user(0), user(1), user(2)]) as usize];
    assert_eq!(share.method, ShareMethod::Exact);
    assert!((share.share - 0.35).abs() < 1e-9, "{share:?}");
}

#[test]
fn what_was_timed_is_dropped_when_the_program_changes() {
    let mut tree = sampled(&[(&[user(0), user(1)], 70), (&[user(0), user(2)], 30)]);
    let mut search = evaluated(&tree);
    let parts = [(user(1), 0.7), (user(2), 0.3)];
    answer(&mut search, &mut tree, &ExactTotals::default(), &parts);
    let at = |search: &Search, tree: &CallTree| search.shares(0)[node(tree, &[user(0), user(1)]) as usize];
    assert_eq!(at(&search, &tree).method, ShareMethod::Exact);
    see(&mut tree, &[user(0), user(2)], State::On, 1.0, 900);
    tree.post_stratify(&ExactTotals::default());
    search.evaluate(&[&tree]);
    let share = at(&search, &tree);
    assert_eq!(share.method, ShareMethod::Sampled);
    assert!((share.share - 0.07).abs() < 1e-9);
    assert_eq!(search.chains(0, &tree)[0].frames.last().unwrap().node, node(&tree, &[user(0), user(2)]));
}

#[test]
fn a_recursion_is_one_frame_of_each_function() {
    let mut tree = CallTree::new(Unit::Cpu);
    let (main, walk, visit, stat) = (user(0), user(1), user(2), user(3));
    for depth in 0..20 {
        let mut stack = vec![main];
        (0..=depth).for_each(|_| stack.extend([walk, visit]));
        stack.push(stat);
        see(&mut tree, &stack, State::On, 1.0, 5);
    }
    let mut path_of = Vec::new();
    tree.insert(&frames(&[main, walk, walk, visit, walk, stat]), &mut path_of);
    assert_eq!(path_of, [Some(0), Some(1), None, Some(2), None, Some(3)]);
    tree.post_stratify(&ExactTotals::default());
    assert_eq!(tree.nodes.len(), 4);
    assert!(tree.node(3).folded, "its caller was left out");
    assert!(!tree.node(2).folded, "a function that calls itself is its callees' caller");
    let chains = evaluated(&tree).chains(0, &tree);
    let functions: Vec<Function> = chains[0].frames.iter().map(|frame| tree.node(frame.node).function).collect();
    assert_eq!(functions, [main, walk, visit, stat]);
    assert!(chains[0].frames.iter().all(|frame| frame.share.share == 1.0));
}

#[test]
fn several_above_the_threshold_are_several_chains_and_a_spread_ends_one() {
    let tree = sampled(&[
        (&[user(0), user(1)], 40),
        (&[user(0), user(2), user(3)], 20),
        (&[user(0), user(2), user(4)], 20),
        (&[user(0), user(5)], 20),
    ]);
    let chains = evaluated(&tree).chains(0, &tree);
    let ends: Vec<_> = chains.iter().map(|c| (tree.node(c.frames.last().unwrap().node).function, c.ends)).collect();
    assert_eq!(ends, [(user(1), WalkEnd::Function), (user(2), WalkEnd::Spread)]);
}

#[test]
fn samples_only_say_how_exact_times_divide() {
    let mut tree = CallTree::new(Unit::Wall);
    let (read, write, sleep) = (0, 1, 35);
    see(&mut tree, &[user(0), user(1)], State::On, 1.0, 50);
    see(&mut tree, &[user(0), user(2), call(read), kernel(1)], State::On, 1.0, 10);
    see(&mut tree, &[user(0), user(3), call(read), kernel(1)], State::On, 1.0, 30);
    see(&mut tree, &[user(0), user(3), call(write), kernel(2)], State::Blocked, 1.0, 10);
    let totals = exact(
        split(300.0, 10.0, 690.0),
        &[(read, split(100.0, 0.0, 0.0)), (write, split(20.0, 4.0, 600.0)), (sleep, split(0.0, 0.0, 90.0))],
    );
    tree.post_stratify(&totals);
    assert_eq!(tree.total, 1000.0 * MS);
    let at = |stack: &[Function]| tree.node(node(&tree, stack)).inclusive;
    let close = |a: Split, b: Split| {
        let near = |a: f64, b: f64| (a - b).abs() < 1.0;
        assert!(
            near(a.on_ns, b.on_ns) && near(a.runnable_ns, b.runnable_ns) && near(a.blocked_ns, b.blocked_ns),
            "{a:?} {b:?}"
        );
    };
    close(at(&[user(0), user(2), call(read)]), split(25.0, 0.0, 0.0));
    close(at(&[user(0), user(3), call(read)]), split(75.0, 0.0, 0.0));
    // Never seen on a CPU or ready: the system call's own, and where it slept.
    close(at(&[user(0), user(3), call(write)]), split(20.0, 4.0, 600.0));
    close(at(&[user(0), user(3), call(write), kernel(2)]), split(0.0, 4.0, 600.0));
    // Never seen at all.
    close(at(&[Function::Unknown, call(sleep)]), split(0.0, 0.0, 90.0));
    // The rest is the program's.
    close(at(&[user(0), user(1)]), split(180.0, 6.0, 0.0));
    let methods = evaluated(&tree);
    let method = |stack: &[Function]| methods.shares(0)[node(&tree, stack) as usize].method;
    assert_eq!(method(&[user(0), user(3), call(write)]), ShareMethod::SyscallExact);
    assert_eq!(method(&[user(0), user(3), call(read)]), ShareMethod::Sampled, "two callers share it");
}

#[test]
fn preemption_is_where_the_program_runs_and_not_where_it_waits() {
    // A busy machine: of 800 ms runnable, 10 followed the waits.
    let mut tree = CallTree::new(Unit::Wall);
    let poll = [user(0), user(2), call(7), kernel(9)];
    see(&mut tree, &[user(0), user(1)], State::On, 1.0, 100);
    see(&mut tree, &poll, State::Blocked, 5.0, 4);
    see(&mut tree, &poll, State::Runnable, 1.0, 10);
    tree.post_stratify(&exact(split(100.0, 800.0, 20.0), &[]));
    let at = |stack: &[Function]| tree.node(node(&tree, stack));
    assert!((at(&[user(0), user(1)]).inclusive.runnable_ns - 790.0 * MS).abs() < 1.0);
    assert!((at(&poll).inclusive.runnable_ns - 10.0 * MS).abs() < 1.0);
    assert!((at(&[user(0)]).waits_ns - 30.0 * MS).abs() < 1.0);
    let ends = evaluated(&tree).chains(0, &tree);
    assert_eq!((ends.len(), ends[0].ends), (1, WalkEnd::Function));
    // Woken late is waited, still.
    tree.post_stratify(&exact(split(1.0, 10.0, 20.0), &[(7, split(0.0, 10.0, 20.0))]));
    assert_eq!(evaluated(&tree).chains(0, &tree)[0].ends, WalkEnd::Waiting);
}

#[test]
fn preemption_that_was_seen_stays_where_it_was() {
    // Long ones in one function, and of the 1,000 ms runnable 100 that nobody saw.
    let mut tree = CallTree::new(Unit::Wall);
    let (often, long) = ([user(0), user(1)], [user(0), user(2)]);
    see(&mut tree, &often, State::On, 1.0, 90);
    see(&mut tree, &long, State::On, 1.0, 10);
    see(&mut tree, &often, State::Preempted, 10.0, 20);
    see(&mut tree, &long, State::Preempted, 100.0, 7);
    tree.post_stratify(&exact(split(100.0, 1000.0, 0.0), &[]));
    let at = |stack: &[Function]| tree.node(node(&tree, stack)).inclusive.runnable_ns / MS;
    assert!((at(&often) - (200.0 + 90.0)).abs() < 0.01, "{}", at(&often));
    assert!((at(&long) - (700.0 + 10.0)).abs() < 0.01, "{}", at(&long));
    assert!(tree.node(node(&tree, &often)).waits_ns == 0.0, "nobody waits there");
}

#[test]
fn time_ready_after_waits_without_a_stack_is_waited_too() {
    // Bursts of brief waits, of which each first one has a stack, and a late start after each last one.
    let mut tree = CallTree::new(Unit::Wall);
    let sync = [user(0), call(7), kernel(9)];
    see(&mut tree, &[user(0), call(7), kernel(8)], State::On, 1.0, 100);
    see(&mut tree, &sync, State::Blocked, 5.0, 10);
    see(&mut tree, &sync, State::Runnable, 0.1, 10);
    let time = split(100.0, 800.0, 100.0);
    let mut totals = exact(time, &[(7, time)]);
    tree.post_stratify(&totals);
    let at = |tree: &CallTree, stack: &[Function]| tree.node(node(tree, stack)).inclusive.runnable_ns / MS;
    assert!((at(&tree, &sync) - 2.0).abs() < 0.01, "all that is seen is all that is known");
    totals.threads.get_mut(&1).unwrap().woken_ns = [(Stratum::SystemCall(7), 780.0 * MS)].into();
    tree.post_stratify(&totals);
    assert!((at(&tree, &sync) - 780.0).abs() < 0.01);
    assert!((at(&tree, &[user(0), call(7), kernel(8)]) - 20.0).abs() < 0.01);
}

#[test]
fn totals_that_contradict_each_other_do_not_exceed_the_whole() {
    let mut tree = CallTree::new(Unit::Wall);
    see(&mut tree, &[user(0), call(0)], State::On, 1.0, 50);
    see(&mut tree, &[user(0), user(1)], State::On, 1.0, 50);
    tree.post_stratify(&exact(split(100.0, 0.0, 0.0), &[(0, split(120.0, 0.0, 0.0))]));
    assert!((tree.total - 100.0 * MS).abs() < 1.0);
    // An open wait that is not in the call's total yet.
    let mut tree = CallTree::new(Unit::Wall);
    see(&mut tree, &[user(0), call(7)], State::Blocked, 900.0, 1);
    tree.post_stratify(&exact(split(0.0, 0.0, 1000.0), &[(7, split(0.0, 0.0, 1.0))]));
    assert!((tree.node(node(&tree, &[user(0), call(7)])).total - 900.0 * MS).abs() < 1.0);
    assert!((tree.total - 1000.0 * MS).abs() < 1.0);
}

#[test]
fn threads_are_strata_of_their_own() {
    let mut tree = CallTree::new(Unit::Wall);
    let stacks = [[user(0), user(1), call(7)], [user(0), user(2), call(7)]];
    for (number, stack) in stacks.iter().enumerate() {
        let at = tree.insert(&frames(stack), &mut Vec::new()).unwrap();
        let observation = Observation { thread: number as u32, state: State::Blocked, amount: 10.0 * MS };
        (0..10).for_each(|_| tree.observe(at, observation));
    }
    // Of the first thread's waits one in nine had a stack, of the second's all.
    let totals = |ms| thread_with(split(0.0, 0.0, ms));
    tree.post_stratify(&ExactTotals { threads: [(0, totals(900.0)), (1, totals(100.0))].into() });
    assert!((tree.node(node(&tree, &stacks[0])).total - 900.0 * MS).abs() < 1.0);
    assert!((tree.node(node(&tree, &stacks[1])).total - 100.0 * MS).abs() < 1.0);
}

fn thread_with(waits: Split) -> transect_call_walk::ThreadTotals {
    let mut totals = thread(waits);
    totals.system_calls.insert(7, SystemCallTotals { calls: 1, split: waits });
    totals
}

#[test]
fn work_after_a_system_call_is_not_in_its_time() {
    let mut tree = CallTree::new(Unit::Wall);
    let close = tree.insert(&frames(&[user(0), call(3), kernel(1)]), &mut Vec::new()).unwrap();
    let observation = Observation { thread: 1, state: State::On, amount: 60.0 * MS };
    tree.observe_in(close, Stratum::User, observation, 60, 60.0 * MS * MS);
    see(&mut tree, &[user(0), user(1)], State::On, 1.0, 40);
    tree.post_stratify(&exact(split(101.0, 0.0, 0.0), &[(3, split(1.0, 0.0, 0.0))]));
    let total = tree.node(close).total / MS;
    assert!((total - 61.0).abs() < 1.1, "{total}");
    tree.forget(1);
    tree.post_stratify(&ExactTotals::default());
    assert_eq!(tree.total, 0.0);
}

#[test]
fn other_metrics_are_weights_and_never_timed() {
    let mut tree = CallTree::new(Unit::Weight);
    see(&mut tree, &[user(0), user(1)], State::Weight, 1.0, 300);
    see(&mut tree, &[user(0), user(2)], State::Weight, 1.0, 100);
    see(&mut tree, &[user(0), user(2)], State::On, 1.0, 900);
    let mut totals = exact(split(900.0, 0.0, 0.0), &[]);
    totals.threads.get_mut(&1).unwrap().weight = Some(4000.0);
    tree.post_stratify(&totals);
    assert_eq!(tree.total, 4000.0);
    let mut search = evaluated(&tree);
    assert!((search.shares(0)[1].share - 0.75).abs() < 1e-9);
    assert!(search.next_request(&[&tree]).is_none());
    assert_eq!(search.chains(0, &tree)[0].ends, WalkEnd::Function);
}

#[test]
fn nothing_is_asked_of_timers_that_are_not_there() {
    let stack: &[Function] = &[user(0), call(1), kernel(1), kernel(2)];
    let tree = sampled(&[(stack, 60), (&[user(0), call(1), kernel(1), kernel(3)], 40)]);
    let ask = |time_user, time_kernel, max_probes| {
        let mut search = Search::new(Settings { time_user, time_kernel, max_probes, ..settings() });
        let steps = search.evaluate(&[&tree]);
        (search.next_request(&[&tree]), steps)
    };
    assert!(ask(true, false, 4).0.is_none());
    assert!(ask(true, true, 1).0.is_none());
    let request = ask(false, true, 4).0.unwrap();
    assert_eq!(request.parent, kernel(1));
    let (_, steps) = ask(false, false, 4);
    assert!(steps.iter().any(|step| step.note == "sampled only"), "{steps:?}");
}

#[test]
fn decisions_are_told_once() {
    let mut tree = sampled(&[(&[user(0), user(1)], 300), (&[user(0), user(2)], 3)]);
    let mut search = Search::new(settings());
    let steps = search.evaluate(&[&tree]);
    let told: Vec<_> = steps.iter().map(|step| (step.parent, step.node, step.followed)).collect();
    assert_eq!(told, [(None, 0, true), (Some(0), 1, true)]);
    assert!(search.evaluate(&[&tree]).is_empty());
    see(&mut tree, &[user(0), user(2)], State::On, 1.0, 3000);
    tree.post_stratify(&ExactTotals::default());
    let steps = search.evaluate(&[&tree]);
    assert_eq!(steps.iter().map(|step| (step.node, step.followed)).collect::<Vec<_>>(), [(1, false), (2, true)]);
}

#[test]
fn the_heaviest_word_below_a_node_wins() {
    let tree = sampled(&[(&[user(0), user(1)], 3), (&[user(0), user(2)], 3)]);
    let mut tally = Tally::default();
    tally.add(1, "poll: pipe", 30.0);
    tally.add(2, "futex: lock", 20.0);
    tally.add(2, "", 50.0);
    assert_eq!(tally.heaviest(&tree, 0), Some(("poll: pipe", 0.3)));
    assert_eq!(tally.heaviest(&tree, 2).unwrap().0, "futex: lock");
    assert_eq!(Tally::default().heaviest(&tree, 0), None);
}

#[test]
fn a_frame_alone_is_a_path() {
    let mut tree = CallTree::new(Unit::Wall);
    assert_eq!(tree.insert(&[], &mut vec![Some(3)]), None);
    assert_eq!(tree.insert(&[Frame { function: user(0), inlined: false }], &mut Vec::new()), Some(0));
    tree.observe(0, Observation { thread: 0, state: State::On, amount: f64::NAN });
    tree.observe(0, Observation { thread: 0, state: State::On, amount: -1.0 });
    tree.post_stratify(&ExactTotals::default());
    assert_eq!((tree.total, tree.samples()), (0.0, 0));
    assert_eq!(settings().window, Duration::from_millis(200));
}

#[test]
fn more_callees_than_fit_are_timed_one_window_after_the_other() {
    let all: Vec<Function> = (1..=7).map(user).collect();
    let stacks: Vec<Vec<Function>> = all.iter().map(|&callee| vec![user(0), callee]).collect();
    let rows: Vec<(&[Function], u64)> = stacks.iter().map(|stack| (&**stack, 100)).collect();
    let tree = sampled(&rows);
    let mut search = Search::new(Settings { max_probes: 16, threshold: 0.14, ..settings() });
    search.evaluate(&[&tree]);
    let mut whole = Vec::new();
    for _ in 0..30 {
        let Some(request) = search.next_request(&[&tree]) else { break };
        assert!(request.callees.len() < transect_call_walk::MOST_USER);
        let callees = request.callees.iter().map(|_| timed(200.0 / 7.0, 2000)).collect();
        search.timed(&request, Ok(timing(timed(200.0, 2000), callees)));
        search.evaluate(&[&tree]);
        if request.window == settings().window {
            whole.extend(request.callees.iter().map(|callee| callee.function));
        }
    }
    assert!(search.next_request(&[&tree]).is_none(), "does not end");
    assert!(all.iter().all(|callee| whole.contains(callee)), "{whole:?}");
}

#[test]
fn who_found_no_room_is_asked_for_again() {
    let tree = sampled(&[(&[user(0), user(1)], 50), (&[user(0), user(2)], 50)]);
    let mut search = evaluated(&tree);
    let request = search.next_request(&[&tree]).unwrap();
    assert_eq!(request.callees.len(), 2);
    let left_out = request.callees[1].function;
    let untimed = vec![Untimed { function: left_out, reason: UntimedReason::TooMany }];
    let callees = vec![timed(100.0, 2000), None];
    search.timed(&request, Ok(Timing { untimed, ..timing(timed(200.0, 2000), callees) }));
    search.evaluate(&[&tree]);
    let next = search.next_request(&[&tree]).unwrap();
    assert!(next.callees.iter().any(|callee| callee.function == left_out), "{next:?}");
    assert!(next.window < settings().window, "it was not counted yet");
}

#[test]
fn another_program_in_the_same_process_is_timed_again() {
    let tree = sampled(&[(&[user(0), user(1)], 50), (&[user(0), user(2)], 50)]);
    let mut search = evaluated(&tree);
    let request = search.next_request(&[&tree]).unwrap();
    search.timed(&request, Err(UntimedReason::Gone("it runs no more".to_owned())));
    search.evaluate(&[&tree]);
    assert!(search.next_request(&[&tree]).is_none());
    search.replaced(0);
    search.evaluate(&[&tree]);
    assert!(search.next_request(&[&tree]).is_some());
}

#[test]
fn who_cannot_be_stopped_is_asked_for_again_after_a_pause() {
    let mut tree = sampled(&[(&[user(0), user(1)], 50), (&[user(0), user(2)], 50)]);
    let mut search = evaluated(&tree);
    let mut pauses = Vec::new();
    let mut last = 0;
    for evaluation in 0..40 {
        if let Some(request) = search.next_request(&[&tree]) {
            pauses.push(evaluation - last);
            last = evaluation;
            search.timed(&request, Err(UntimedReason::Later("asleep".to_owned())));
        }
        see(&mut tree, &[user(0), user(1)], State::On, 1.0, 1);
        tree.post_stratify(&ExactTotals::default());
        search.evaluate(&[&tree]);
    }
    assert_eq!(pauses, [0, 2, 4, 8, 16]);
}
