//! Cuts through whole profiles: rows add up to what is known exactly, by whatever dimensions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use transect_analyze::synthetic::{feature_packer, image_server, scheduled_compressor, walked_proxy};
use transect_analyze::{
    AddressTimes, CallNode, CutDimension, CutDimensions, CutError, CutFilter, CutKey, CutMeasure, CutQuery, CutReading,
    CutRow, CutView, CutViewKind, MOST_CUT_PARTS, Selection, StateTimes, criticality, cut, cut_columns, cut_view,
    function_addresses,
};
use transect_profile_model::{
    CallStack, Origin, Profile, SchedSample, SchedWait, Space, StackFrame, StackInstruction, Task, WaitKind,
    WalkSystemCall,
};

fn query(by: &str, measure: &str) -> CutQuery {
    let by = if by.is_empty() { Vec::new() } else { by.parse::<CutDimensions>().unwrap().0 };
    CutQuery { by, measure: measure.parse().unwrap(), ..CutQuery::default() }
}

fn filtered(by: &str, measure: &str, filter: &str) -> CutQuery {
    CutQuery { filter: Some(CutFilter::parse(filter).unwrap()), ..query(by, measure) }
}

fn of(profile: &Profile, query: &CutQuery) -> CutView {
    let view = cut(profile, query).unwrap();
    assert_eq!(view.rows.iter().map(|row| row.value).sum::<i64>(), view.scope.total, "rows add up");
    for row in &view.rows {
        assert!(0 <= row.low && row.low <= row.value && row.value <= row.high, "{row:?}");
    }
    view
}

fn name(row: &CutRow, at: usize) -> &str {
    match &row.keys[at] {
        CutKey::Name(name) => name,
        _ => "",
    }
}

fn sum(profile: &Profile, of: fn(&Task) -> i64) -> i64 {
    profile.sched.tasks.iter().map(of).sum()
}

#[test]
fn totals_are_the_threads_exact_times() {
    let profile = scheduled_compressor(5_000, 20);
    let total = |measure: &str| of(&profile, &query("function", measure)).scope.total;
    assert_eq!(total("on-cpu"), sum(&profile, |task| task.running_ns));
    assert_eq!(total("runnable"), sum(&profile, |task| task.runnable_ns));
    assert_eq!(total("blocked"), sum(&profile, |task| task.blocked_ns));
    assert_eq!(total("time"), sum(&profile, |task| task.running_ns + task.runnable_ns + task.blocked_ns));
    let session = profile.meta.criticality.clone().unwrap();
    assert_eq!(total("critical"), session.busy_ns + session.idle_ns);
    assert_eq!(total("samples"), profile.sched.moments.len() as i64);
}

#[test]
fn threads_and_states_are_exact() {
    let profile = scheduled_compressor(5_000, 20);
    let view = of(&profile, &query("thread,state", "time"));
    for task in &profile.sched.tasks {
        let thread = format!("{} ({})", task.name, task.tid);
        for (state, ns) in [("running", task.running_ns), ("runnable", task.runnable_ns), ("blocked", task.blocked_ns)]
        {
            let row = view.rows.iter().find(|row| name(row, 0) == thread && name(row, 1) == state);
            assert_eq!(row.map_or(0, |row| row.value), ns, "{thread} {state}");
            assert!(row.is_none_or(|row| row.low == row.value && row.high == row.value));
        }
    }
}

/// A thread that is queued at stacks that no sample of the timer met, since it hardly ran there.
#[test]
fn queued_time_is_as_sure_as_the_stacks_seen_are_many() {
    let mut profile = scheduled_compressor(5_000, 20);
    let tables = &mut profile.sched;
    let task = (0..tables.tasks.len()).max_by_key(|&task| tables.tasks[task].runnable_ns).unwrap() as u32;
    tables.samples.retain(|sample| sample.task != task);
    let row = *tables.moments.iter().find(|moment| moment.task == task).unwrap();
    tables.moments.retain(|moment| moment.task != task);
    tables.moments.extend(vec![row; 50]);
    let others: Vec<u32> = (0..tables.stacks.len() as u32).filter(|stack| *stack != row.stack).take(6).collect();
    let queued = SchedSample {
        task,
        stack: 0,
        n: 2,
        origin: Origin::StackTop,
        samples: 100,
        criticality_ns: 1,
        active_ns: 1_000_000_000,
        spin: false,
    };
    tables.samples.extend(others.iter().map(|&stack| SchedSample { stack, ..queued.clone() }));
    let life = &tables.tasks[task as usize];
    let thread = format!("{} ({})", life.name, life.tid);
    let runnable_ns = life.runnable_ns;
    let filter = format!("thread = '{thread}'");
    let view = of(&profile, &filtered("stack", "runnable", &filter));
    assert_eq!(view.rows.len(), others.len());
    for row in &view.rows {
        // A sixth of 600 sightings: ± 3 points of the whole.
        let share = |ns: i64| ns as f64 / runnable_ns as f64;
        assert!((0.1..0.16).contains(&share(row.low)) && (0.17..0.23).contains(&share(row.high)), "{row:?}");
    }
    let margin = &of(&profile, &filtered("thread,state", "time", &filter)).rows;
    assert!(margin.iter().all(|row| row.low == row.value && row.high == row.value), "{margin:?}");
}

#[test]
fn waits_are_those_of_the_criticality_view() {
    let profile = scheduled_compressor(5_000, 20);
    let view = of(&profile, &query("wait,object", "blocked"));
    let waits = criticality(&profile, &Selection::default()).unwrap().waits;
    let mut seen = 0;
    for row in view.rows.iter().filter(|row| !name(row, 0).is_empty()) {
        let is_it = |wait: &&transect_analyze::CriticalWaitRow| {
            wait.kind.as_str() == name(row, 0) && wait.object == name(row, 1)
        };
        assert_eq!(row.value, waits.iter().filter(is_it).map(|wait| wait.ns).sum::<i64>(), "{row:?}");
        seen += 1;
    }
    assert!(seen > 3);
}

#[test]
fn critical_time_is_that_of_the_paths() {
    let profile = scheduled_compressor(5_000, 20);
    let view = of(&profile, &query("thread-group", "critical"));
    let whole = criticality(&profile, &Selection::default()).unwrap();
    for group in &whole.groups {
        let row = view.rows.iter().find(|row| name(row, 0) == group.group).unwrap();
        let waits =
            profile.sched.waits.iter().filter(|wait| profile.sched.tasks[wait.task as usize].group == group.group);
        assert_eq!(row.value, group.criticality_ns + waits.map(|wait| wait.idle_ns).sum::<i64>(), "{}", group.group);
    }
}

#[test]
fn a_filter_is_the_rows_that_it_names() {
    let profile = scheduled_compressor(5_000, 20);
    let all = of(&profile, &query("function,state", "time"));
    let some = of(&profile, &filtered("function,state", "time", "state = blocked and function ~ '^pthread_'"));
    let rows = |row: &&CutRow| name(row, 1) == "blocked" && name(row, 0).starts_with("pthread_");
    let expected: Vec<&CutRow> = all.rows.iter().filter(rows).collect();
    assert!(!expected.is_empty());
    let values = |rows: Vec<&CutRow>| rows.iter().map(|row| (row.keys.clone(), row.value)).collect::<Vec<_>>();
    assert_eq!(values(some.rows.iter().collect()), values(expected));
    assert_eq!(some.scope.whole, all.scope.total);
    let below = of(&profile, &filtered("function", "on-cpu", "stack = compress_block"));
    assert!(below.rows.iter().any(|row| name(row, 0) == "longest_match"), "{:?}", below.rows);
    assert!(!below.rows.iter().any(|row| name(row, 0) == "crc32_update"));
}

#[test]
fn calls_are_cut_by_what_counts_them() {
    let profile = image_server();
    let calls: i64 = profile.flows.iter().map(|flow| flow.calls).sum();
    for by in ["component,api", "caller", "thread-group,component", "api,thread,process", "host"] {
        assert_eq!(of(&profile, &query(by, "calls")).scope.total, calls, "{by}");
    }
    let bytes: i64 = profile.flows.iter().filter_map(|flow| flow.bytes).sum();
    assert_eq!(of(&profile, &query("api", "bytes")).scope.total, bytes);
    let refused = |query: &CutQuery| matches!(cut(&profile, query), Err(CutError::NotCounted { .. }));
    assert!(refused(&query("function", "calls")) && refused(&query("state", "calls")));
    assert!(refused(&filtered("api", "bytes", "wait = mutex")) && refused(&filtered("api", "calls", "stack = main")));
    assert!(refused(&CutQuery { from_ns: Some(5), ..query("api", "calls") }));
}

#[test]
fn what_a_profile_lacks_is_said() {
    let calls_alone = image_server();
    assert!(matches!(cut(&calls_alone, &query("function", "time")), Err(CutError::NoStretches { .. })));
    let schedule_alone = scheduled_compressor(500, 2);
    assert!(matches!(cut(&schedule_alone, &query("api", "calls")), Err(CutError::NoCalls { .. })));
    assert!(matches!(cut(&schedule_alone, &query("feature", "time")), Err(CutError::NoFeatures)));
    let empty = CutQuery { from_ns: Some(7), to_ns: Some(7), ..query("", "time") };
    assert!(matches!(cut(&schedule_alone, &empty), Err(CutError::EmptyRange { .. })));
    assert!(matches!(cut(&schedule_alone, &query("time/1ns", "time")), Err(CutError::TooManySteps { .. })));
    let many = query("time/20us,thread,function", "time");
    assert!(matches!(cut(&schedule_alone, &many), Err(CutError::TooManyRows { .. })));
}

#[test]
fn features_count_calls() {
    let profile = feature_packer();
    let view = of(&profile, &query("feature,api", "calls"));
    assert_eq!(view.scope.total, profile.flows.iter().map(|flow| flow.calls).sum::<i64>());
    assert!(view.rows.iter().any(|row| name(row, 0).contains(',')), "a set of several features is one key");
    // Built with features, none of whose code ran.
    let mut idle = scheduled_compressor(500, 2);
    idle.feature.features = profile.feature.features.clone();
    let view = of(&idle, &query("feature", "time"));
    assert!(view.rows.iter().all(|row| row.keys == [CutKey::None]) && view.scope.total > 0);
}

#[test]
fn steps_of_time_and_ranges_divide_the_run() {
    let profile = scheduled_compressor(5_000, 20);
    for measure in ["time", "blocked", "critical", "on-cpu", "samples"] {
        let whole = of(&profile, &query("function", measure)).scope.total;
        assert_eq!(of(&profile, &query("time/700ms,state", measure)).scope.total, whole, "{measure}");
        let range =
            |from_ns, to_ns| of(&profile, &CutQuery { from_ns, to_ns, ..query("function", measure) }).scope.total;
        let at = 7_654_321_000;
        assert_eq!(range(None, Some(at)) + range(Some(at), None), whole, "{measure}");
    }
    // A thread lives as long in each step as the step is, and elapsed time is as long.
    for (query, most) in [(query("thread,time/200ms", "time"), 200_000), (query("time/200ms", "critical"), 2_000_000)] {
        for row in &of(&profile, &query).rows {
            assert!((row.value - 200_000_000).abs() < most, "{row:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_order_of_dimensions_changes_nothing(
        order in Just(vec![
            CutDimension::Function, CutDimension::State, CutDimension::ThreadGroup, CutDimension::Wait,
            CutDimension::Holder, CutDimension::Time(3_000_000_000),
        ]).prop_shuffle(),
        length in 1usize..6,
        measure in proptest::sample::select(vec![CutMeasure::Time, CutMeasure::Critical, CutMeasure::Blocked]),
    ) {
        let profile = scheduled_compressor(500, 10);
        let by: Vec<CutDimension> = order[..length].to_vec();
        let view = of(&profile, &CutQuery { by: by.clone(), measure, ..CutQuery::default() });
        // The same rows in the reverse order, and the sums of a coarser cut.
        let reverse: Vec<CutDimension> = by.iter().rev().copied().collect();
        let other = of(&profile, &CutQuery { by: reverse, measure, ..CutQuery::default() });
        let mut turned: Vec<_> =
            other.rows.iter().map(|row| (row.keys.iter().rev().cloned().collect::<Vec<_>>(), row.value)).collect();
        let mut rows: Vec<_> = view.rows.iter().map(|row| (row.keys.clone(), row.value)).collect();
        turned.sort();
        rows.sort();
        prop_assert_eq!(turned, rows);
        let coarse = of(&profile, &CutQuery { by: by[..1].to_vec(), measure, ..CutQuery::default() });
        for row in &coarse.rows {
            let parts = view.rows.iter().filter(|part| part.keys[0] == row.keys[0]);
            prop_assert_eq!(parts.map(|part| part.value).sum::<i64>(), row.value);
        }
    }
}

fn reading(profile: &Profile, kind: CutViewKind, query: &CutQuery) -> CutReading {
    cut_view(profile, kind, query, Some("compress_block")).unwrap()
}

#[test]
fn functions_own_times_add_up_and_none_is_above_its_total() {
    let profile = scheduled_compressor(5_000, 20);
    let query = query("", "on-cpu");
    let CutReading::Hot(view) = reading(&profile, CutViewKind::Hot, &query) else { panic!() };
    assert_eq!(view.scope.total, sum(&profile, |task| task.running_ns));
    assert_eq!(view.rows.iter().map(|row| row.own).sum::<i64>(), view.scope.total);
    let functions = of(&profile, &super_query(&query, "function,component"));
    for row in &view.rows {
        assert!(row.own <= row.total && row.total <= view.scope.total && row.kernel <= row.own, "{row:?}");
        assert!(row.self_low <= row.own && row.own <= row.self_high, "{row:?}");
        let is_it = |other: &&CutRow| {
            name(other, 0) == row.function.as_deref().unwrap_or_default()
                && name(other, 1) == row.component.as_deref().unwrap_or_default()
        };
        assert_eq!(functions.rows.iter().find(is_it).map_or(0, |other| other.value), row.own, "{row:?}");
    }
    let called = view.rows.iter().find(|row| row.function.as_deref() == Some("compress_block")).unwrap();
    assert_eq!(called.total, of(&profile, &filtered("", "on-cpu", "stack = compress_block")).scope.total);
}

/// The same by other dimensions.
fn super_query(query: &CutQuery, by: &str) -> CutQuery {
    CutQuery { by: by.parse::<CutDimensions>().unwrap().0, ..query.clone() }
}

#[test]
fn views_know_the_filter_of_states() {
    let profile = scheduled_compressor(5_000, 20);
    for (state, measure) in [("running", "on-cpu"), ("runnable", "runnable"), ("blocked", "blocked")] {
        let query = filtered("", "time", &format!("state = {state}"));
        let expected = of(&profile, &super_query(&query, "function")).scope.total;
        assert!(expected > 0);
        assert_eq!(
            expected,
            of(&profile, &CutQuery { measure: measure.parse().unwrap(), ..CutQuery::default() }).scope.total
        );
        let CutReading::Hot(hot) = reading(&profile, CutViewKind::Hot, &query) else { panic!() };
        let CutReading::Tree(tree) = reading(&profile, CutViewKind::Tree, &query) else { panic!() };
        assert_eq!((hot.scope.total, tree.scope.total), (expected, expected), "{state}");
    }
}

#[test]
fn the_tree_of_calls_adds_up_at_each_node() {
    fn check(node: &CallNode) {
        assert_eq!(node.total, node.own + node.children.iter().map(|child| child.total).sum::<i64>(), "{node:?}");
        node.children.iter().for_each(check);
    }
    let profile = scheduled_compressor(5_000, 20);
    for measure in ["time", "on-cpu", "critical", "samples"] {
        let CutReading::Tree(tree) = reading(&profile, CutViewKind::Tree, &query("", measure)) else { panic!() };
        assert_eq!(tree.roots.iter().map(|root| root.total).sum::<i64>(), tree.scope.total, "{measure}");
        tree.roots.iter().for_each(check);
    }
}

#[test]
fn lines_are_of_one_function_and_all_it_was_in() {
    let profile = scheduled_compressor(5_000, 20);
    let CutReading::Annotate(view) = reading(&profile, CutViewKind::Annotate, &query("", "time")) else { panic!() };
    assert_eq!(view.total_ns, of(&profile, &filtered("", "time", "stack = compress_block")).scope.total);
    assert_eq!(view.lines.iter().map(|line| line.total_ns).sum::<i64>(), view.total_ns);
    let own = of(&profile, &filtered("", "time", "function = compress_block")).scope.total;
    assert_eq!(view.lines.iter().map(|line| line.self_ns).sum::<i64>(), own);
    let error = cut_view(&profile, CutViewKind::Annotate, &query("", "time"), Some("compres_block")).unwrap_err();
    assert!(matches!(&error, CutError::UnknownFunction { near, .. } if near.starts_with("compress_block")), "{error}");
}

/// Each line's time is at the instructions that its stacks were met at, and each state's by how long it was there.
#[test]
fn instructions_add_up_to_their_lines() {
    let mut profile = scheduled_compressor(5_000, 20);
    let query = query("", "time");
    let function = "compress_block";
    assert_eq!(function_addresses(&profile, &query, function), Err(CutError::NoAddresses));
    let tables = &mut profile.sched;
    let address = |stack: usize, depth: usize, address, samples, blocked_ns| StackInstruction {
        stack: stack as u32,
        depth: depth as u32,
        address,
        samples,
        running_ns: samples * 1_000_000,
        blocked_ns,
    };
    for (number, stack) in tables.stacks.iter().enumerate() {
        for depth in 0..stack.frames.len() {
            // A fourth of the samples and all waiting are at the first.
            tables.instructions.extend([address(number, depth, 0x1000, 1, 5), address(number, depth, 0x1004, 3, 0)]);
        }
    }
    let CutReading::Annotate(view) = reading(&profile, CutViewKind::Annotate, &query) else { panic!() };
    let found = function_addresses(&profile, &query, function).unwrap();
    assert_eq!(found.elsewhere.total(), 0);
    let sum = |of: fn(&AddressTimes) -> i64| found.addresses.values().map(of).sum::<i64>();
    assert_eq!(sum(|times| times.states.total()), view.total_ns);
    assert_eq!(sum(|times| times.self_ns), view.lines.iter().map(|line| line.self_ns).sum::<i64>());
    let samples = of(&profile, &filtered("", "samples", "function = compress_block")).scope.total;
    assert_eq!(sum(|times| times.samples), samples);
    let at = |address| *found.addresses.iter().find(|(at, _)| at.address == address).unwrap().1;
    let (first, second) = (at(0x1000), at(0x1004));
    assert_eq!(second.states.blocked_ns, 0);
    let quarter = (first.states.on_cpu_ns + second.states.on_cpu_ns) / 4;
    assert!((first.states.on_cpu_ns - quarter).abs() < 1_000, "{first:?} {second:?}");
    // Frames of which nothing is known.
    let of_stack = profile.sched.instructions[0].stack;
    profile.sched.instructions.retain(|row| row.stack == of_stack);
    let found = function_addresses(&profile, &query, function).unwrap();
    let met: i64 = found.addresses.values().map(|times| times.states.total()).sum();
    assert_eq!(met + found.elsewhere.total(), view.total_ns);
    assert!(found.elsewhere.total() > 0);
}

#[test]
fn lanes_hold_what_the_cut_over_time_holds() {
    let profile = scheduled_compressor(5_000, 20);
    let CutReading::Timeline(view) = reading(&profile, CutViewKind::Timeline, &query("", "time")) else { panic!() };
    let whole = of(&profile, &query("thread,state", "time"));
    for lane in &view.threads {
        let total: i64 = lane.steps.iter().map(StateTimes::total).sum();
        assert_eq!(total, lane.states.total(), "{}", lane.thread);
        assert!(lane.steps.iter().all(|step| step.total() <= view.step_ns + 1), "{}", lane.thread);
        let rows = whole.rows.iter().filter(|row| name(row, 0) == lane.thread);
        assert_eq!(total, rows.map(|row| row.value).sum::<i64>());
    }
    assert_eq!(view.threads.len(), profile.sched.tasks.len());
}

#[test]
fn system_calls_are_exact_where_they_were_counted() {
    let mut profile = scheduled_compressor(5_000, 20);
    let query = query("", "time");
    let CutReading::SystemCalls(rows) = reading(&profile, CutViewKind::SystemCalls, &query) else { panic!() };
    assert!(rows.iter().all(|row| row.calls.is_none() && !row.exact));
    let of_call = |name: &str| of(&profile, &filtered("", "time", &format!("system-call = '{name}'"))).scope.total;
    for row in &rows {
        assert_eq!(row.total_ns, of_call(&row.system_call), "{row:?}");
    }
    let call = |group, calls| WalkSystemCall {
        group,
        name: "fsync".to_owned(),
        calls,
        on_ns: 1,
        runnable_ns: 2,
        blocked_ns: 4,
    };
    profile.walk.system_calls = vec![call(0, 10), call(1, 5)];
    let CutReading::SystemCalls(rows) = reading(&profile, CutViewKind::SystemCalls, &query) else { panic!() };
    assert_eq!((rows.len(), rows[0].calls, rows[0].total_ns, rows[0].exact), (1, Some(15), 14, true));
    // Each child returns from it once, after its wait for a CPU.
    let clone = |group, calls, runnable_ns| WalkSystemCall {
        name: "clone".to_owned(),
        runnable_ns,
        blocked_ns: 0,
        ..call(group, calls)
    };
    profile.walk.system_calls = vec![clone(0, 2, 80), clone(1, 0, 9_000)];
    let CutReading::SystemCalls(rows) = reading(&profile, CutViewKind::SystemCalls, &query) else { panic!() };
    assert_eq!((rows.len(), rows[0].calls, rows[0].total_ns), (1, Some(2), 81), "that is not the call's time");
    let part = CutQuery { from_ns: Some(0), ..query };
    let CutReading::SystemCalls(rows) = reading(&profile, CutViewKind::SystemCalls, &part) else { panic!() };
    assert!(rows.iter().all(|row| !row.exact), "of a part nothing was counted");
}

#[test]
fn the_whole_of_a_system_call_is_no_less_than_its_beginning_that_was_counted() {
    let mut profile = scheduled_compressor(5_000, 20);
    let query = query("", "time");
    let times = |profile: &Profile| {
        let CutReading::SystemCalls(rows) = reading(profile, CutViewKind::SystemCalls, &query) else { panic!() };
        rows.into_iter().map(|row| (row.system_call, (row.calls, row.total_ns, row.states))).collect::<BTreeMap<_, _>>()
    };
    let sampled = times(&profile);
    let (_, total_ns, states) = sampled["fsync"];
    let call = |name: &str, on_ns, blocked_ns| WalkSystemCall {
        group: 0,
        name: name.to_owned(),
        calls: 10,
        on_ns,
        runnable_ns: 0,
        blocked_ns,
    };
    profile.walk.system_calls = vec![call("fsync", 0, states.blocked_ns + 7), call("getpid", 1, 0)];
    let mut session = walked_proxy().meta.walk.unwrap();
    session.system_calls_until_ns = Some(1_000);
    profile.meta.walk = Some(session);
    let all = times(&profile);
    assert_eq!((all["fsync"].0, all["fsync"].1), (None, total_ns + 7));
    assert_eq!(all["getpid"].1, 1, "which no sample met");
    assert_eq!(all.len(), sampled.len() + 1);
}

/// Without privileges it is looked at waits now and then: the sums of the others have an interval, and time of which nobody saw
/// the call has a row.
#[test]
fn system_calls_are_estimates_without_privileges() {
    let mut profile = scheduled_compressor(5_000, 20);
    let of_thread = |profile: &Profile, query: &CutQuery| match reading(profile, CutViewKind::SystemCalls, query) {
        CutReading::SystemCalls(rows) => rows,
        _ => panic!(),
    };
    assert!(of_thread(&profile, &query("", "time")).iter().all(|row| !row.blocked_estimated));
    profile.meta.criticality.as_mut().unwrap().estimate = true;
    let tables = &mut profile.sched;
    let at = tables.waits.iter().position(|wait| wait.stack.is_some() && wait.ns > 0).unwrap();
    let (task, stack) = (tables.waits[at].task, tables.waits[at].stack.unwrap());
    tables.waits.retain(|wait| wait.task != task);
    let name = |name: &str| StackFrame { function: name.to_owned(), space: Space::Kernel, ..tables.frames[0].clone() };
    let calls = [name("read"), name("poll")];
    let first = tables.frames.len() as u32;
    tables.frames.extend(calls);
    let waits = [0, 1].map(|call| {
        let mut frames = tables.stacks[stack as usize].frames.clone();
        frames.push(first + call);
        tables.stacks.push(CallStack { frames, ..tables.stacks[stack as usize].clone() });
        tables.stacks.len() as u32 - 1
    });
    let row = |stack: Option<u32>, count: i64, ns: i64| SchedWait {
        task,
        kind: WaitKind::Pipe,
        object: "".into(),
        stack,
        holder: None,
        waker: None,
        count,
        begin_ns: 1_000,
        end_ns: if count == 1 { 1_000 + ns } else { 1_000_000_000 },
        ns,
        idle_ns: 0,
        holder_gain_ns: 0,
    };
    // 100 were met, three quarters of them in read.
    let met = |at: usize| row(Some(waits[usize::from(at.is_multiple_of(4))]), 1, 10_000);
    tables.waits.extend((0..100).map(met));
    tables.waits.extend([row(Some(waits[0]), 300, 300_000_000), row(Some(waits[1]), 100, 100_000_000)]);
    let life = &mut tables.tasks[task as usize];
    life.blocked_ns = 421_000_000;
    let filter = format!("thread = '{} ({})'", life.name, life.tid);
    let rows = of_thread(&profile, &filtered("", "time", &filter));
    let row = |name: &str| rows.iter().find(|row| row.system_call == name).unwrap();
    assert!(row("read").blocked_estimated && !row("read").exact);
    assert_eq!(row("read").states.blocked_ns, 300_750_000);
    // 75 of 100: ± 8.5 points of 400 ms.
    let half = (row("read").total_ns_high - row("read").total_ns_low) / 2;
    assert!((28_000_000..40_000_000).contains(&half), "{half}");
    assert!(row("poll").total_ns_low < 75_000_000 && row("poll").total_ns_high > 125_000_000);
    assert_eq!(row("[not seen]").states.blocked_ns, 20_000_000);
}

#[test]
fn whole_stacks_are_a_dimension() {
    let profile = scheduled_compressor(5_000, 20);
    let view = of(&profile, &query("stack", "on-cpu"));
    assert_eq!(view.scope.total, sum(&profile, |task| task.running_ns));
    let deep = view.rows.iter().find(|row| name(row, 0).contains("compress_block;")).unwrap();
    assert!(name(deep, 0).split(';').count() > 2, "{deep:?}");
}

#[test]
fn columns_hold_what_is_cut() {
    let profile = scheduled_compressor(2_000, 20);
    let columns = cut_columns(&profile).unwrap().unwrap();
    assert!(columns.by_feature.is_none());
    for (measure, list) in columns.parts.all() {
        let parts = &list.parts;
        let view = of(&profile, &CutQuery { measure, ..query("function,object", "time") });
        assert_eq!(parts.iter().map(|part| part.weight).sum::<i64>(), view.scope.total, "{}", measure.as_str());
        let mut sums = std::collections::BTreeMap::new();
        for part in parts {
            let keys = [columns.places[part.place as usize][3], columns.waits[part.wait as usize][1]];
            *sums.entry(keys).or_insert(0) += part.weight;
        }
        let name = |key: u32| key.checked_sub(1).map_or("", |row| columns.names[row as usize].as_str());
        for (keys, sum) in sums {
            let row = view.rows.iter().find(|row| [0, 1].map(|at| self::name(row, at)) == keys.map(name));
            assert_eq!(row.map(|row| row.value), Some(sum), "{:?}", keys.map(name));
        }
    }
    // Callers stand before callees.
    assert!(columns.frames.iter().enumerate().all(|(row, frame)| frame.parent as usize <= row));
}

#[test]
fn columns_of_a_long_recording_are_left_out() {
    let mut profile = scheduled_compressor(500, 2);
    let slice = profile.sched.slices[0];
    profile.sched.slices = vec![slice; MOST_CUT_PARTS + 1];
    assert!(cut_columns(&profile).is_err_and(|parts| parts > MOST_CUT_PARTS));
    assert_eq!(cut_columns(&image_server()), Ok(None), "no samples, no waits");
}
