//! Programs with a bottleneck each, for the simulator.

use transect_analyze::synthetic::{Do, Program, Script, Step};

fn script(name: &str, steps: Vec<Step>) -> Script {
    Script { name: name.into(), steps, ..Script::default() }
}

/// Numbers around 1.0 that look random.
fn jitter(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    0.6 + 0.8 * ((*seed >> 40) as f64 / f64::from(1 << 24))
}

/// `main` starts the workers, joins them and ends.
fn with_main(cpus: usize, before: Vec<Step>, workers: Vec<Script>, after: Vec<Step>) -> Program {
    let mut main = before;
    main.extend((1..=workers.len()).map(|id| ("start_all", Do::Spawn(id))));
    main.extend((1..=workers.len()).map(|id| ("join_all", Do::Join(id))));
    main.extend(after);
    let mut threads = vec![script("main", main)];
    threads.extend(workers);
    Program { cpus, threads }
}

fn hot_mutex(threads: usize, cpus: usize, critical: f64, private: f64) -> Program {
    let mut seed = 7;
    let worker = |n: usize, seed: &mut u64| {
        let mut steps = Vec::new();
        for _ in 0..60 {
            steps.push(("prepare", Do::Run(private * jitter(seed))));
            steps.push(("update", Do::Lock(0)));
            steps.push(("update", Do::Run(critical * jitter(seed))));
            steps.push(("update", Do::Unlock(0)));
        }
        script(&format!("worker{n}"), steps)
    };
    with_main(cpus, vec![], (0..threads).map(|n| worker(n, &mut seed)).collect(), vec![])
}

fn barrier(imbalance: f64) -> Program {
    let mut seed = 11;
    let worker = |n: usize, seed: &mut u64| {
        let mut steps = Vec::new();
        for _ in 0..50 {
            let (function, time) = if n == 0 { ("heavy", 400.0 * imbalance) } else { ("light", 400.0) };
            steps.push((function, Do::Run(time * (0.95 + 0.1 * jitter(seed)))));
            steps.push(("exchange", Do::Barrier(0, 4)));
        }
        script(&format!("rank{n}"), steps)
    };
    with_main(4, vec![], (0..4).map(|n| worker(n, &mut seed)).collect(), vec![])
}

fn spin_barrier() -> Program {
    let mut seed = 12;
    let worker = |n: usize, seed: &mut u64| {
        let mut steps = Vec::new();
        for _ in 0..40 {
            let (function, time) = if n == 0 { ("heavy", 900.0) } else { ("light", 400.0) };
            steps.push((function, Do::Run(time * (0.95 + 0.1 * jitter(seed)))));
            steps.push(("wait_in_loop", Do::SpinBarrier(0, 4)));
        }
        script(&format!("rank{n}"), steps)
    };
    with_main(4, vec![], (0..4).map(|n| worker(n, &mut seed)).collect(), vec![])
}

fn pipeline(stages: &[(&'static str, f64)]) -> Program {
    let mut seed = 13;
    let stage = |n: usize, seed: &mut u64| {
        let mut steps = Vec::new();
        for _ in 0..150 {
            if n > 0 {
                steps.push(("receive", Do::Take(n - 1)));
            }
            steps.push((stages[n].0, Do::Run(stages[n].1 * jitter(seed))));
            if n + 1 < stages.len() {
                steps.push(("pass_on", Do::Put(n, 8)));
            }
        }
        script(&format!("stage{}", ["a", "b", "c", "d"][n]), steps)
    };
    with_main(4, vec![], (0..stages.len()).map(|n| stage(n, &mut seed)).collect(), vec![])
}

fn serial_between_parallel() -> Program {
    let mut main = Vec::new();
    let mut workers = Vec::new();
    for phase in 0..6 {
        main.push(("merge_results", Do::Run(3_000.0)));
        for n in 0..4 {
            let id = phase * 4 + n + 1;
            workers.push(script(&format!("worker{id}"), vec![("simulate", Do::Run(4_000.0))]));
            main.push(("start_phase", Do::Spawn(id)));
        }
        main.extend((0..4).map(|n| ("end_phase", Do::Join(phase * 4 + n + 1))));
    }
    let mut threads = vec![script("main", main)];
    threads.extend(workers);
    Program { cpus: 4, threads }
}

fn commit_path() -> Program {
    let mut seed = 14;
    let worker = |n: usize, seed: &mut u64| {
        let mut steps = Vec::new();
        for _ in 0..30 {
            steps.push(("execute", Do::Run(300.0 * jitter(seed))));
            steps.push(("commit", Do::Lock(1)));
            steps.push(("commit", Do::Sync(250.0 * jitter(seed))));
            steps.push(("commit", Do::Unlock(1)));
        }
        script(&format!("client{n}"), steps)
    };
    with_main(4, vec![("load", Do::Run(2_000.0))], (0..4).map(|n| worker(n, &mut seed)).collect(), vec![])
}

/// Clients send a record each and wait for the answer; the server appends it to a file and syncs that.
fn syncing_server(clients: usize) -> Program {
    const ROUNDS: usize = 60;
    let mut seed = 17;
    let mut server: Vec<Step> = Vec::new();
    for request in 0..ROUNDS * clients {
        server.extend([
            ("receive", Do::Take(0)),
            ("handle", Do::Run(40.0 * jitter(&mut seed))),
            ("persist", Do::Run(60.0 * jitter(&mut seed))),
            ("persist", Do::Sync(150.0 * jitter(&mut seed))),
            ("persist", Do::Run(20.0)),
            ("answer", Do::Put(1 + request % clients, 8)),
        ]);
    }
    let client = |n: usize| {
        let round = |_| [("think", Do::Run(100.0)), ("ask", Do::Put(0, 64)), ("wait_for_answer", Do::Take(1 + n))];
        script(&format!("client{n}"), (0..ROUNDS).flat_map(round).collect())
    };
    let mut workers = vec![script("server", server)];
    workers.extend((0..clients).map(client));
    with_main(2, vec![], workers, vec![])
}

fn overload() -> Program {
    let mut seed = 15;
    let worker = |n: usize, seed: &mut u64| {
        let steps = (0..20).flat_map(|_| [("crunch", Do::Run(500.0 * jitter(seed))), ("log", Do::Run(120.0))]);
        script(&format!("worker{n}"), steps.collect())
    };
    with_main(2, vec![], (0..6).map(|n| worker(n, &mut seed)).collect(), vec![])
}

fn sleeper() -> Program {
    let mut main = Vec::new();
    for _ in 0..60 {
        main.push(("parse", Do::Run(300.0)));
        main.push(("back_off", Do::Sleep(500.0)));
        main.push(("answer", Do::Run(200.0)));
    }
    Program { cpus: 2, threads: vec![script("main", main)] }
}

fn fixed_rate() -> Program {
    let mut seed = 16;
    let mut main = Vec::new();
    for _ in 0..60 {
        main.push(("control", Do::Run(400.0 * jitter(&mut seed))));
        main.push(("control", Do::Until(1_000.0)));
    }
    Program { cpus: 2, threads: vec![script("main", main)] }
}

/// Two halves that run side by side; one takes longer.
fn two_halves() -> Program {
    let half = |name: &str, function: &'static str, time: f64| {
        script(name, (0..40).map(|_| (function, Do::Run(time))).collect())
    };
    with_main(4, vec![], vec![half("left", "left_half", 1_000.0), half("right", "right_half", 800.0)], vec![])
}

/// A monitor looks every millisecond whether it is to stop, and is joined then.
fn monitored() -> Program {
    let mut main = vec![("start", Do::Spawn(1))];
    main.extend((0..30).flat_map(|_| [("parse", Do::Run(300.0)), ("solve", Do::Run(500.0))]));
    main.extend([("stop", Do::Raise(0)), ("stop", Do::Join(1))]);
    Program { cpus: 2, threads: vec![script("main", main), script("monitor", vec![("watch", Do::Poll(1_000.0, 0))])] }
}

/// A monitor that has seen the flag before the main thread, at its end, would wait for it; its timer was late a few times.
fn left_alone() -> Program {
    let mut main = vec![("start", Do::Spawn(1))];
    main.extend((0..60).flat_map(|_| [("solve", Do::Run(200.0)), ("await_answer", Do::Sleep(800.0))]));
    main.extend([("stop", Do::Raise(0)), ("tidy", Do::Run(250.0)), ("stop", Do::Join(1))]);
    let watch = (0..40).map(|at| ("watch", Do::Sleep(if at == 7 { 1_500.0 } else { 200.0 })));
    let watch = watch.chain([("watch", Do::Poll(200.0, 0))]).collect();
    Program { cpus: 2, threads: vec![script("main", main), script("monitor", watch)] }
}

/// A monitor sees the flag `phase` µs into its sleep, and is still ending when the main thread, a little later, waits for that.
fn joined_late(phase: f64) -> Program {
    let mut main = vec![("start", Do::Spawn(1))];
    main.extend((0..60).flat_map(|_| [("solve", Do::Run(200.0)), ("await_answer", Do::Sleep(800.0))]));
    main.extend([("solve", Do::Run(phase)), ("stop", Do::Raise(0)), ("tidy", Do::Run(120.0)), ("stop", Do::Join(1))]);
    let watch = vec![("watch", Do::Poll(200.0, 0)), ("end", Do::Run(180.0))];
    Program { cpus: 2, threads: vec![script("main", main), script("monitor", watch)] }
}

/// The main thread looks now and then whether its workers have ended.
fn polling_main() -> Program {
    let work = |name: &str, count: usize| {
        let mut steps: Vec<Step> = (0..count).map(|_| ("solve", Do::Run(400.0))).collect();
        steps.push(("finish", Do::Raise(count)));
        script(name, steps)
    };
    let main = vec![
        ("start", Do::Spawn(1)),
        ("start", Do::Spawn(2)),
        ("look", Do::Poll(700.0, 50)),
        ("look", Do::Poll(700.0, 40)),
        ("report", Do::Run(2_000.0)),
    ];
    Program { cpus: 2, threads: vec![script("main", main), work("worker1", 50), work("worker2", 40)] }
}

pub fn programs() -> Vec<(&'static str, Program)> {
    vec![
        ("hot mutex", hot_mutex(4, 4, 200.0, 200.0)),
        ("mutex, mostly private", hot_mutex(4, 4, 60.0, 400.0)),
        ("mutex, saturated", hot_mutex(6, 8, 150.0, 100.0)),
        ("mutex, crowded", hot_mutex(6, 2, 150.0, 300.0)),
        ("barrier, one heavy", barrier(2.5)),
        ("barrier, balanced", barrier(1.0)),
        ("spin barrier", spin_barrier()),
        ("pipeline", pipeline(&[("read_block", 60.0), ("compress", 300.0), ("write_block", 120.0)])),
        ("pipeline, two heavy", pipeline(&[("read_block", 250.0), ("compress", 300.0), ("write_block", 40.0)])),
        ("serial between parallel", serial_between_parallel()),
        ("commit path", commit_path()),
        ("syncing server, one client", syncing_server(1)),
        ("syncing server, two clients", syncing_server(2)),
        ("syncing server, eight clients", syncing_server(8)),
        ("overload", overload()),
        ("sleeper", sleeper()),
        ("fixed rate", fixed_rate()),
        ("two halves", two_halves()),
        ("monitored", monitored()),
        ("polling main", polling_main()),
        ("left alone", left_alone()),
        ("joined late", joined_late(40.0)),
        ("joined later", joined_late(90.0)),
    ]
}
