//! Criticality of an invented run: a compressor whose workers share one lock and one log file, and a process of
//! hostile names.

use transect_analyze::*;
use transect_profile_model::{Meta, Origin, SchedSession, Timing, WaitKind};
use transect_report::{Content, Rows};

use crate::sample_rows::{HOSTILE, RB_TREE_FIND, content, findings, loss, meta, nothing};

const MS: i64 = 1_000_000;

fn session() -> SchedSession {
    SchedSession {
        estimate: false,
        per_process: false,
        cpus: 8,
        sample_hz: 999,
        min_parallelism: 8,
        stack_depth: 127,
        busy_ns: 11_400 * MS,
        idle_ns: 945 * MS,
        unattributed_ns: 41 * MS,
        drift: 0,
        slices: 812_345,
        critical_slices: 401_221,
        start_ns: 0,
        end_ns: 12_345 * MS,
    }
}

pub fn criticality_meta() -> Meta {
    Meta { collectors: vec!["sched".into()], timing: Timing::Count, criticality: Some(session()), ..meta() }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn line(function: &str, file: &str, line: i32, samples: i64, origin: Origin) -> LineRow {
    LineRow { function: function.into(), file: file.into(), line, samples, criticality_ns: samples * MS, origin }
}

fn path(group: &str, stack: &[&str], ns: i64, samples: i64, lines: Vec<LineRow>) -> CriticalPathRow {
    CriticalPathRow {
        stack: strings(stack),
        components: stack.iter().map(|_| "compressor".to_owned()).collect(),
        complete: true,
        state: PathState::Running,
        criticality_ns: ns,
        corrected_ns: ns,
        spin_ns: 0,
        samples,
        lines,
        kind: None,
        group: group.into(),
        ..CriticalPathRow::default()
    }
}

const WORKER: [&str; 3] = ["clone3", "start_thread", "worker_main(Queue<Block>&)"];

fn below_worker<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    WORKER.iter().copied().chain(rest.iter().copied()).collect()
}

fn paths() -> Vec<CriticalPathRow> {
    let sample = Origin::Sample;
    vec![
        path(
            "worker",
            &below_worker(&["flush_output", "crc32_update"]),
            4_711 * MS,
            4_702,
            vec![
                line("crc32_update", "/home/user/compressor/src/crc/table_driven_crc32.c", 88, 3_201, sample),
                line("crc32_update", "/home/user/compressor/src/crc/table_driven_crc32.c", 91, 1_202, sample),
                line("load_le64", "/home/user/compressor/src/include/endian_helpers.h", 14, 201, sample),
                line("crc32_update", "/home/user/compressor/src/crc/table_driven_crc32.c", 93, 90, sample),
                line("crc32_update", "/home/user/compressor/src/crc/table_driven_crc32.c", 95, 8, sample),
            ],
        ),
        path(
            "worker",
            &below_worker(&["compress_block", "deflate", "deflate_slow", "longest_match"]),
            2_904 * MS,
            21_377,
            vec![line("longest_match", "deflate.c", 1290, 21_377, sample)],
        ),
        CriticalPathRow {
            spin_ns: 1_403 * MS,
            corrected_ns: 100 * MS,
            ..path(
                "",
                &["_start", "__libc_start_main", "main", "Barrier::arrive_and_spin()"],
                1_503 * MS,
                1_500,
                vec![line("Barrier::arrive_and_spin()", "", 0, 1_500, sample)],
            )
        },
        path(
            "main",
            &["_start", "__libc_start_main", "main", "walk", "walk", "walk", "walk", RB_TREE_FIND],
            912 * MS,
            911,
            vec![],
        ),
        CriticalPathRow {
            state: PathState::Waiting,
            kind: Some(WaitKind::FileSync),
            ..path("logger", &["clone3", "start_thread", "log_loop", "commit_batch", "fsync"], 840 * MS, 120, vec![])
        },
        CriticalPathRow {
            complete: false,
            ..path(HOSTILE, &[HOSTILE, HOSTILE], 95 * MS, 12, vec![line(HOSTILE, HOSTILE, -4, 12, Origin::StackTop)])
        },
        CriticalPathRow {
            state: PathState::Waiting,
            kind: Some(WaitKind::Sleep),
            ..path("main", &["_start", "main", "usleep"], 105 * MS, 3, vec![])
        },
        path("", &["[unattributed]"], 41 * MS, 0, vec![]),
        path("main", &[], 3 * MS, 3, vec![line("main", "main.c", 0, 3, Origin::StackTop)]),
    ]
}

fn thread(tid: i32, name: &str, group: &str, times: [i64; 4]) -> CriticalThreadRow {
    let [criticality, running, runnable, blocked] = times.map(|ms| ms * MS);
    CriticalThreadRow {
        process: 4000,
        tid,
        name: name.into(),
        group: group.into(),
        criticality_ns: criticality,
        corrected_ns: criticality,
        running_ns: running,
        runnable_ns: runnable,
        blocked_ns: blocked,
        unattributed_ns: 10 * MS,
        start_ns: 0,
        end_ns: 12_345 * MS,
        ..CriticalThreadRow::default()
    }
}

fn threads() -> Vec<CriticalThreadRow> {
    let mut rows = vec![
        thread(4001, "worker-0", "worker", [4_300, 9_100, 12, 3_100]),
        thread(4002, "worker-1", "worker", [1_600, 5_000, 14, 7_200]),
        thread(4003, "worker-2\u{1b}[2J", "worker", [1_500, 5_100, 9, 7_100]),
        thread(4004, "worker-3", "worker", [200, 700, 1, 11_200]),
        thread(4000, "compressor", "main", [3_200, 3_500, 4, 8_800]),
        thread(4005, "logger", "logger", [600, 700, 0, 11_600]),
    ];
    rows[0].corrected_ns = 3_000 * MS;
    rows
}

fn groups() -> Vec<CriticalGroupRow> {
    ["worker", "main", "logger"]
        .map(|group| {
            let threads = threads();
            let members: Vec<_> = threads.iter().filter(|thread| thread.group == group).collect();
            let sum = |of: fn(&CriticalThreadRow) -> i64| members.iter().map(|thread| of(thread)).sum();
            CriticalGroupRow {
                group: group.into(),
                threads: members.len() as i64,
                criticality_ns: sum(|t| t.criticality_ns),
                corrected_ns: sum(|t| t.corrected_ns),
                running_ns: sum(|t| t.running_ns),
                runnable_ns: sum(|t| t.runnable_ns),
                blocked_ns: sum(|t| t.blocked_ns),
                max_criticality_ns: members.iter().map(|t| t.criticality_ns).max().unwrap_or(0),
                ..CriticalGroupRow::default()
            }
        })
        .into()
}

fn party(thread: &str, function: &str) -> Option<OtherThreadRow> {
    Some(OtherThreadRow {
        tid: 4001,
        thread: thread.into(),
        function: function.into(),
        stack: strings(&["start_thread", "worker_main(Queue<Block>&)", function]),
    })
}

fn waits() -> Vec<CriticalWaitRow> {
    let row =
        |kind, object: &str, group: &str, holder, waker, times: [i64; 2], count, stack: &[&str]| CriticalWaitRow {
            kind,
            object: object.into(),
            group: group.into(),
            holder,
            waker,
            count,
            ns: times[1] * MS,
            idle_ns: times[0] * MS / 4,
            critical_ns: times[0] * MS,
            stack: strings(stack),
            threads: 1,
            holder_gain_ns: times[0] * MS * 3 / 4,
            holders: Vec::new(),
            meanwhile: None,
            complete: true,
        };
    vec![
        row(
            WaitKind::Mutex,
            "output_lock+0x8",
            "worker",
            party("worker-0", "crc32_update"),
            party("worker-0", "flush_output"),
            [4_105, 24_810],
            31_022,
            &below_worker(&["flush_output", "pthread_mutex_lock"]),
        ),
        row(
            WaitKind::FileSync,
            "/var/lib/compressor/journal/segment-0000000017.log",
            "logger",
            None,
            None,
            [840, 841],
            120,
            &["clone3", "start_thread", "log_loop", "commit_batch", "fsync"],
        ),
        row(
            WaitKind::Condition,
            "Queue<Block>::ready",
            "main",
            None,
            party("logger", "std::condition_variable::notify_one()"),
            [601, 7_900],
            120,
            &["main", "drain", "pthread_cond_wait"],
        ),
        row(WaitKind::Socket, HOSTILE, HOSTILE, party(HOSTILE, HOSTILE), None, [12, 300], 9, &[HOSTILE]),
        row(WaitKind::Spin, "", "worker", None, None, [3, 1_403], 7, &below_worker(&["Barrier::arrive_and_spin()"])),
        row(WaitKind::Sleep, "", "main", None, None, [0, 105], 3, &["main", "usleep"]),
    ]
}

fn graph() -> WaitGraph {
    let node = |name: &str, what, knot| WaitNode {
        name: name.into(),
        what,
        wait_ns: 8_000 * MS,
        self_ns: 3_000 * MS,
        knot,
        ..WaitNode::default()
    };
    let edge = |from, to, ns: i64, kinds: &[WaitKind], objects: &[&str]| WaitEdge {
        from,
        to,
        ns: ns * MS,
        cascaded_ns: ns * MS / 2,
        count: ns * 3,
        kinds: kinds.iter().map(|&kind| (kind, ns * MS / kinds.len() as i64)).collect(),
        objects: strings(objects),
        ..WaitEdge::default()
    };
    WaitGraph {
        nodes: vec![
            node("worker", NodeKind::Group, Some(0)),
            node("main", NodeKind::Group, None),
            node("logger", NodeKind::Group, Some(0)),
            node("disk", NodeKind::Disk, None),
            node(HOSTILE, NodeKind::Net, None),
            node("timer", NodeKind::Timer, None),
        ],
        edges: vec![
            edge(0, 0, 24_810, &[WaitKind::Mutex, WaitKind::Spin], &["output_lock+0x8"]),
            edge(1, 2, 7_900, &[WaitKind::Condition], &["Queue<Block>::ready"]),
            edge(2, 3, 841, &[WaitKind::FileSync], &["/var/lib/compressor/journal/segment-0000000017.log"]),
            edge(0, 2, 700, &[WaitKind::Condition, WaitKind::Mutex, WaitKind::Futex, WaitKind::Join], &[]),
            edge(2, 0, 500, &[WaitKind::Mutex], &["log_lock"]),
            edge(1, 4, 300, &[WaitKind::Socket], &[HOSTILE]),
        ],
        knots: vec![vec![0, 2]],
    }
}

fn what_if() -> Vec<WhatIfRow> {
    let rows = |path: &str, full: (f64, f64)| {
        [1.1, 2.0, f64::INFINITY].map(|speedup: f64| {
            let part = 1.0 - 1.0 / speedup;
            let (low, high) = (full.0 * part, full.1 * part);
            WhatIfRow {
                path: path.into(),
                speedup,
                saving_low: low,
                saving_high: high,
                saving_low_ns: (low * 12.345e9) as i64,
                saving_high_ns: (high * 12.345e9) as i64,
                saving: (low + high) / 2.0,
                saving_ns: ((low + high) / 2.0 * 12.345e9) as i64,
                ..WhatIfRow::default()
            }
        })
    };
    [
        rows("crc32_update ← flush_output ← worker_main(Queue<Block>&)", (0.30, 0.38)),
        rows("longest_match ← deflate_slow ← deflate ← compress_block ← worker_main(Queue<Block>&)", (0.22, 0.235)),
        rows("fsync ← commit_batch ← log_loop", (0.068, 0.068)),
        rows(HOSTILE, (0.0, 0.008)),
    ]
    .concat()
    .into_iter()
    .map(|row| match row.path.as_str() {
        path if path.starts_with("fsync") => WhatIfRow {
            scope: WhatIfScope::Wait,
            kind: Some(WaitKind::FileSync),
            object: "/var/lib/compressor/journal/segment-0000000017.log".into(),
            ..row
        },
        path if path.starts_with("longest_match") => WhatIfRow { scope: WhatIfScope::Inclusive, ..row },
        _ => row,
    })
    .collect()
}

pub fn view() -> CriticalityView {
    CriticalityView {
        estimate: false,
        per_process: false,
        cpus: 8,
        busy_ns: 11_400 * MS,
        idle_ns: 945 * MS,
        elapsed_ns: 12_345 * MS,
        corrected_ns: 10_942 * MS,
        start_ns: 0,
        end_ns: 12_345 * MS,
        unattributed_ns: 41 * MS,
        spin_ns: 1_403 * MS,
        drift: 0,
        slices: 812_345,
        critical_slices: 401_221,
        parallelism_mean: Some(2.314),
        threads: threads(),
        groups: groups(),
        paths: paths(),
        functions: Vec::new(),
        over_time: (0..200)
            .map(|step| OverTimeRow {
                start_ns: step * 61 * MS,
                end_ns: (step + 1) * 61 * MS,
                mean: [0.0, 1.0, 1.5, 8.0, 6.0, 2.0][step as usize * 6 / 200],
                idle_ns: 0,
            })
            .collect(),
        parallelism: [945, 5_712, 2_100, 900, 1_800, 400, 88, 100, 200, 80, 20]
            .iter()
            .zip(0..)
            .map(|(ms, n)| ParallelismRow { n, ns: ms * MS })
            .collect(),
        waits: waits(),
        graph: graph(),
        pinned: None,
        what_if: what_if(),
        ..CriticalityView::default()
    }
}

fn under(meta: Meta, rows: Rows) -> Content {
    Content { meta, ..content(rows) }
}

/// The view alone, its overview, an estimate, and a bad recording.
pub fn contents() -> Vec<(&'static str, Content)> {
    let overview = |meta: Meta, view: CriticalityView| {
        let full =
            FullReport { meta: meta.clone(), summary: findings(), criticality: Some(view), loss: loss(), ..nothing() };
        under(meta, Rows::Overview(Box::new(full)))
    };
    let estimate = SchedSession { estimate: true, sample_hz: 0, slices: 0, critical_slices: 0, ..session() };
    let bad = SchedSession { drift: 3, unattributed_ns: 2_300 * MS, per_process: true, ..session() };
    let with = |session| Meta { criticality: Some(session), ..criticality_meta() };
    let mut flows = crate::sample_rows::flows();
    for (row, ms) in flows.iter_mut().zip([2_311, 40, 7]) {
        row.criticality_ns = Some(ms * MS);
    }
    vec![
        ("flows-criticality", content(Rows::Flows(flows))),
        ("criticality", under(criticality_meta(), Rows::Criticality(Box::new(Some(view()))))),
        ("criticality-none", content(Rows::Criticality(Box::new(None)))),
        ("overview-criticality", overview(criticality_meta(), view())),
        (
            "overview-criticality-estimate",
            overview(with(estimate), CriticalityView { estimate: true, graph: WaitGraph::default(), ..view() }),
        ),
        (
            "overview-criticality-empty",
            overview(with(bad), CriticalityView { cpus: 8, drift: 3, ..CriticalityView::default() }),
        ),
        (
            "criticality-contention",
            under(
                criticality_meta(),
                Rows::Criticality(Box::new(Some(CriticalityView {
                    contention: Contention { of_run: 0.563, much: true, of_queue: 0.9 },
                    what_if: what_if(),
                    ..CriticalityView::default()
                }))),
            ),
        ),
    ]
}
