//! The walk over random programs whose times are known exactly.

use std::time::Duration;

use proptest::prelude::*;
use transect_call_walk::{CallTree, Function, Search, Settings, Share};
use transect_profile_model::ShareMethod;

mod synthetic;
use synthetic::{Machine, Program, Random, Run, path, settings};

const LIMIT: Duration = Duration::from_secs(3);

/// Walks over programs of many seeds; gives the part of right chains, and of shares on chains within their interval.
fn quality(machine: &Machine, seeds: u64, phases: usize) -> (f64, f64, f64, f64) {
    let (mut right, mut covered, mut frames, mut error, mut exact) = (0, 0, 0, 0.0f64, 0);
    let mut windows = 0;
    for seed in 0..seeds {
        let program = Program::random(&mut Random(seed), 12, phases);
        let settings = Settings { time_user: machine.user, time_kernel: machine.kernel, ..settings() };
        let mut search = Search::new(settings.clone());
        let mut run = Run::new(&program, machine.clone(), seed ^ 0xabc);
        run.walk(&mut search, settings.window, LIMIT);
        windows += run.windows.len();
        let truth = run.true_shares();
        let chains = search.chains(0, &run.tree);
        // A share within two points of the threshold may be on either side.
        let ends: Vec<Vec<Function>> =
            chains.iter().filter_map(|chain| Some(path(&run.tree, chain.frames.last()?.node))).collect();
        let must = run.true_chains(settings.threshold + 0.02);
        let may = run.true_chains(settings.threshold - 0.02);
        let fits = must.iter().all(|path| ends.iter().any(|end| end.starts_with(path)))
            && ends.iter().all(|end| may.iter().any(|path| path.starts_with(end)));
        right += usize::from(fits);
        for frame in chains.iter().flat_map(|chain| &chain.frames) {
            let truth = truth[frame.node as usize];
            let Share { low, high, share, method, .. } = frame.share;
            covered += usize::from(low - 1e-9 <= truth && truth <= high + 1e-9);
            frames += 1;
            error = error.max((share - truth).abs());
            exact += usize::from(method == ShareMethod::Exact);
        }
    }
    println!("{machine:?}: windows {windows}, exact {exact} of {frames}");
    (right as f64 / seeds as f64, covered as f64 / frames as f64, error, exact as f64)
}

#[test]
fn chains_are_right_and_intervals_hold_with_exact_timing() {
    let (right, covered, error, exact) = quality(&Machine::default(), 120, 1);
    println!("right {right}, covered {covered}, largest error {error}");
    assert!(right >= 0.99, "right chains: {right}");
    assert!(covered >= 0.93, "within the interval: {covered}");
    assert!(exact > 0.0);
}

#[test]
fn chains_are_right_and_intervals_hold_by_sampling_only() {
    let machine = Machine { user: false, kernel: false, stacks_of_waits: 0.5, ..Machine::default() };
    let (right, covered, error, _) = quality(&machine, 120, 1);
    println!("right {right}, covered {covered}, largest error {error}");
    assert!(right >= 0.99, "right chains: {right}");
    assert!(covered >= 0.93, "within the interval: {covered}");
}

#[test]
fn phases_do_not_mislead() {
    let (right, covered, error, _) = quality(&Machine::default(), 60, 3);
    println!("right {right}, covered {covered}, largest error {error}");
    assert!(right >= 0.97, "right chains: {right}");
    assert!(covered >= 0.90, "within the interval: {covered}");
}

#[test]
fn a_chain_of_27_levels_is_timed_in_time() {
    // Each level keeps 4 % for itself.
    let places = (1..=28)
        .map(|depth| synthetic::Place {
            stack: (0..depth).map(synthetic::user).collect(),
            state: transect_call_walk::State::On,
            weight: vec![if depth == 28 { 0.96f64.powi(27) } else { 0.04 * 0.96f64.powi(depth as i32 - 1) }],
            mean_ns: 20e3,
        })
        .collect();
    let program = Program { places, phase_ns: 1e9 };
    let mut search = Search::new(settings());
    let mut run = Run::new(&program, Machine::default(), 7);
    run.walk(&mut search, settings().window, Duration::from_secs(10));
    let whole = run.windows.iter().filter(|window| **window == settings().window).count();
    println!("{whole} whole windows of {}, {} ms in all", run.windows.len(), run.now_ns / 1e6);
    assert!(search.is_complete());
    assert!(whole <= 10, "{whole} windows");
    assert!(run.now_ns <= 3e9, "took {} ms", run.now_ns / 1e6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: transect_testkit::cases(30, 300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_hold_and_the_search_ends(
        seed in any::<u64>(),
        depth in 1usize..16,
        phases in 1usize..4,
        probes in 0usize..6,
        hz in 20.0f64..2000.0,
        stacks in 0.0f64..1.0,
        bias in 0.3f64..1.5,
    ) {
        let program = Program::random(&mut Random(seed), depth, phases);
        let machine = Machine { sample_hz: hz, stacks_of_waits: stacks, bias, ..Machine::default() };
        let mut search = Search::new(Settings { max_probes: probes, ..settings() });
        let mut run = Run::new(&program, machine, seed);
        run.walk(&mut search, settings().window, LIMIT);
        for request in &run.requests {
            prop_assert!(request.callees.len() < probes);
            let timed = request.callees.iter().map(|callee| callee.function).chain([request.parent]);
            for function in timed {
                let has_code = !matches!(function, Function::Other { .. } | Function::Unknown);
                prop_assert!(has_code);
            }
            for (row, callee) in request.callees.iter().enumerate() {
                prop_assert!(callee.within.is_none_or(|within| within < row));
            }
        }
        // Each call at most twice in each of two epochs, and a short window before.
        prop_assert!(run.requests.len() <= 6 * program.places.len());
        sums_hold(&run, search.shares(0));
        for chain in search.chains(0, &run.tree) {
            prop_assert!(chain.frames.windows(2).all(|pair| pair[0].share.share + 1e-9 >= pair[1].share.share));
        }
    }
}

fn sums_hold(run: &Run<'_>, shares: &[Share]) {
    let tree: &CallTree = &run.tree;
    let truth: f64 = run.truth.iter().sum();
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * truth;
    assert!(close(tree.total, truth), "total {} is not {truth}", tree.total);
    assert!(close(tree.nodes.iter().map(|node| node.own_total).sum(), truth), "leaves after post-stratification");
    assert!(close(shares.iter().map(|share| share.own_total).sum(), truth), "leaves after timing");
    for (id, callees) in tree.callees().iter().enumerate().take(tree.nodes.len()) {
        let below: f64 = callees.iter().map(|&callee| shares[callee as usize].share).sum();
        assert!(below <= shares[id].share + 1e-6, "callees of {id}: {below} > {}", shares[id].share);
        let share = shares[id];
        assert!(
            0.0 <= share.low && share.low <= share.share && share.share <= share.high && share.high <= 1.0,
            "{share:?}"
        );
    }
    for (number, call) in run.exact.threads.values().flat_map(|thread| &thread.system_calls) {
        let entries = tree.nodes.iter().filter(|node| node.function == Function::SystemCall { number: *number });
        let sum: f64 = entries.map(|node| node.inclusive.wall_ns()).sum();
        assert!(close(sum, call.split.wall_ns()), "system call {number}: {sum} is not {}", call.split.wall_ns());
    }
}
