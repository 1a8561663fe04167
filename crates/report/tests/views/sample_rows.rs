//! Rows of an invented run, as `transect-analyze` would hand them over: long C++ names, hostile names, a pipeline out
//! of balance.

use transect_analyze::*;
use transect_profile_model::{
    ApiClass, Clock, LatencyBucket, LatencySampling, LatencySession, Machine, Meta, Metric, Overhead, Timing,
};
use transect_report::{Content, Rows};

const SECOND: i64 = 1_000_000_000;

/// A symbol that would recolour, retitle and reorder a terminal's line.
pub const HOSTILE: &str = "\u{1b}[31m\u{1b}]0;owned\u{7}\u{202e}evil\r\n\u{9b}2J";

pub const RB_TREE_FIND: &str = "std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
     std::pair<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const, int>, \
     std::_Select1st<std::pair<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const, \
     int> >, std::less<void> >::find(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > \
     const&)";

pub fn meta() -> Meta {
    Meta {
        schema: 1,
        command: ["./wordcount", "--threads", "4", "books/moby dick.txt"].map(str::to_owned).to_vec(),
        machine: Machine {
            hostname: "build-7".into(),
            kernel: "6.12.48".into(),
            cpu: "AMD EPYC 7B13".into(),
            cpus: 8,
            memory_bytes: 33_655_554_048,
        },
        clock: Clock { source: "tsc".into(), ticks_per_ns: 2.45, timed_call_ns: 29.8, counted_call_ns: 0.5 },
        collectors: vec!["flow".into()],
        timing: Timing::Adaptive { budget: 0.03 },
        overhead_estimate: 0.0213,
        overhead: Some(Overhead {
            agent_ns: 15_000_000,
            kernel_ns: 6_300_000,
            recorder_ns: 120_000_000,
            start_ns: 52_000_000,
            end_ns: 21_000_000,
            share: 0.0976,
            ..Overhead::default()
        }),
        wall_ns: 12_345_678_901,
        started_unix_ns: 1_750_000_000_000_000_000,
        exit_status: Some(0),
        memory_kills: None,
        machine_busy_ns: None,
        listening: Vec::new(),
        latency: None,
        criticality: None,
        walk: None,
        feature: None,
    }
}

pub fn totals() -> Totals {
    Totals {
        wall_ns: 12_345_678_901,
        ended: false,
        lifetime_ns: 49 * SECOND,
        attributed_ns: 12_340_000_000,
        busy_ns: 30 * SECOND,
        wait_ns: 18 * SECOND,
        calls: 1_234_567_890,
        timed_calls: 23_456_789,
        threads: 5,
        processes: 1,
        flows: 231,
        timed: true,
        scheduled: None,
        idle_without_stack_ns: 0,
    }
}

pub fn loss() -> Vec<LossRow> {
    let row = |what: &str, place: &str, count, reason: &str| LossRow {
        what: what.into(),
        place: place.into(),
        count,
        reason: reason.into(),
    };
    vec![
        row(
            "unhooked slots",
            "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
            105,
            "address is loaded as a function pointer",
        ),
        row("unhooked slots", "/home/user/wordcount", 3, "address is loaded as a function pointer"),
        row("untimed calls", "worker-2", 12_000, "no free frame"),
    ]
}

pub fn findings() -> Vec<FindingRow> {
    vec![
        FindingRow {
            finding: "libstdc++.so.6 takes an unusual share of the time".into(),
            evidence: "61.2 % of the time is spent in libstdc++.so.6, 52.0 % of it for std::_Rb_tree::find called \
                       8,123,456 times by wordcount"
                .into(),
            view: "apis".into(),
            next: "transect report --view apis --component libstdc++.so.6".into(),
            kind: FindingKind::HeavyComponent,
            percent: 61.2,
            saves_percent: Some(61.2),
            ..FindingRow::default()
        },
        FindingRow {
            finding: "threads wait for more than a third of the time".into(),
            evidence: "36.7 % of all threads' lifetime, most of it in pthread_cond_wait (group merger)".into(),
            view: "waits".into(),
            next: "transect report --view waits".into(),
            kind: FindingKind::Waiting,
            percent: 36.7,
            ..FindingRow::default()
        },
        FindingRow {
            finding: format!("{HOSTILE} is called very often for very little"),
            evidence: "1,000,000 calls of 1 byte each".into(),
            view: "callers".into(),
            next: String::new(),
            kind: FindingKind::TinyIo,
            percent: 4.0,
            saves_percent: Some(4.0),
            confidence: Some(Confidence::FewSamples),
            ..FindingRow::default()
        },
    ]
}

fn component(name: &str, ns: i64, wait_ns: i64, calls: (i64, i64), others: &[(&str, i64, i64)]) -> ComponentRow {
    let percent = |ns: i64| Some(ns as f64 * 100.0 / 12_340_000_000.0);
    ComponentRow {
        component: name.into(),
        path: format!("/usr/lib/x86_64-linux-gnu/{name}"),
        build_id: "0123456789abcdef0123456789abcdef01234567".into(),
        self_ns: Some(ns * 3),
        on_cpu_ns: Some(ns * 2),
        runnable_ns: Some(ns),
        blocked_ns: Some(0),
        wait_ns: Some(wait_ns * 3),
        calls_in: calls.0,
        calls_out: calls.1,
        others: others
            .iter()
            .map(|&(name, ns, calls)| OtherRow {
                component: name.into(),
                total_ns: Some(ns * 3),
                attributed_ns: Some(ns),
                calls,
                percent: percent(ns),
            })
            .collect(),
        self_attributed_ns: Some(ns),
        wait_attributed_ns: Some(wait_ns),
        self_percent: percent(ns),
        wait_percent: percent(wait_ns),
        self_raw_percent: percent(ns),
        wait_raw_percent: percent(wait_ns),
        executable: name == "wordcount",
        synthetic: false,
    }
}

pub fn components() -> Vec<ComponentRow> {
    let ms = 1_000_000;
    vec![
        component(
            "libstdc++.so.6",
            7550 * ms,
            0,
            (1_034_567_000, 1_000_000_000),
            &[("libc.so.6", 3000 * ms, 1_000_000_000)],
        ),
        component(
            "wordcount",
            2100 * ms,
            1800 * ms,
            (0, 234_567_890),
            &[
                ("libstdc++.so.6", 8300 * ms, 234_000_000),
                ("libc.so.6", 120 * ms, 500_000),
                ("libz.so.1", 90 * ms, 4_000),
                ("libm.so.6", 2 * ms, 12_000),
                ("libpthread.so.0", 500_000, 10),
            ],
        ),
        component("libc.so.6", 800 * ms, 0, (1_000_500_000, 12), &[]),
        component("libz.so.1", 90 * ms, 0, (4_000, 8_000), &[("libc.so.6", 3 * ms, 8_000)]),
        component(HOSTILE, 100, 0, (1, 0), &[]),
        component("libvery_long_vendor_name_with_a_version-and-a-suffix.so.12.3.4567.890", 0, 0, (1, 0), &[]),
    ]
}

fn flow(caller: &str, callee: &str, api: &str, class: ApiClass, calls: i64, ns: Option<i64>) -> FlowRow {
    FlowRow {
        caller: caller.into(),
        callee: callee.into(),
        api: api.into(),
        symbol: api.into(),
        version: "GLIBC_2.2.5".into(),
        class,
        wait: class.is_wait(),
        calls,
        timed_calls: calls / 100,
        abandoned_calls: 0,
        total_ns: ns.map(|n| n * 3),
        self_ns: ns.map(|n| n * 2),
        called_back_ns: None,
        attributed_ns: ns,
        on_cpu_ns: None,
        runnable_ns: None,
        blocked_ns: None,
        criticality_ns: None,
        total_ns_low: ns.filter(|_| class == ApiClass::Compute).map(|n| n * 3 - n / 10),
        total_ns_high: ns.filter(|_| class == ApiClass::Compute).map(|n| n * 3 + n / 10),
        self_ns_low: None,
        self_ns_high: None,
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        bytes: (class == ApiClass::Io).then_some(calls),
        dlsym: false,
        thread: None,
        tid: None,
        process: None,
        feature: None,
    }
}

pub fn flows() -> Vec<FlowRow> {
    use ApiClass::*;
    vec![
        flow("wordcount", "libstdc++.so.6", RB_TREE_FIND, Compute, 8_123_456, Some(6_416_800_000)),
        flow("libstdc++.so.6", "libc.so.6", "memcmp", Compute, 1_000_000_000, Some(3_000_000_000)),
        flow("wordcount", "libc.so.6", "pthread_cond_wait", Wait, 12_345, Some(1_800_000_000)),
        flow("wordcount", "libc.so.6", "write", Io, 1_000_000, Some(493_600_000)),
        flow(
            "wordcount",
            "libstdc++.so.6",
            "std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
            Compute,
            4_321,
            Some(120_000),
        ),
        flow("wordcount", "libc.so.6", HOSTILE, Compute, 1, Some(100)),
        flow(
            "libvery_long_vendor_name_with_a_version-and-a-suffix.so.12",
            "libz.so.1",
            "deflateInit2_",
            Compute,
            2,
            Some(55),
        ),
        flow("wordcount", "libc.so.6", "strlen", Compute, 77, Some(0)),
        flow("wordcount", "libc.so.6", "_setjmp", CountOnly, 17, None),
    ]
}

pub fn api_groups(rows: &[FlowRow]) -> Vec<ApiGroup> {
    rows.iter()
        .map(|row| ApiGroup {
            callee: row.callee.clone(),
            api: row.api.clone(),
            class: row.class,
            calls: row.calls,
            total_ns: row.total_ns,
            self_ns: row.self_ns,
            attributed_ns: row.attributed_ns,
            percent: row.attributed_ns.map(|ns| ns as f64 * 100.0 / 12_340_000_000.0),
            bytes: row.bytes,
            callers: vec![row.clone(), FlowRow { caller: "libz.so.1".into(), calls: 3, ..row.clone() }],
        })
        .collect()
}

pub fn threads() -> ThreadsView {
    let thread = |tid: i32, name: &str, group: &str, busy_ns: i64| ThreadRow {
        process: 4000,
        tid,
        name: name.into(),
        group: group.into(),
        start_routine: if group == "main" { String::new() } else { format!("{group}_main(std::stop_token, int)") },
        wall_ns: 12 * SECOND,
        busy_ns: Some(busy_ns),
        wait_ns: Some(12 * SECOND - busy_ns),
        calls: Some(busy_ns / 25),
        on_cpu_ns: Some(busy_ns - busy_ns / 8),
        runnable_ns: Some(busy_ns / 8),
        blocked_ns: Some(12 * SECOND - busy_ns),
        attributed_ns: busy_ns / 3,
        executable: "wordcount".into(),
        start_ns: 0,
    };
    let group = |group: &str, threads: i64, busy_ns: i64, max_busy_ns: i64| GroupRow {
        group: group.into(),
        executable: "wordcount".into(),
        threads,
        wall_ns: 12 * SECOND * threads,
        busy_ns: Some(busy_ns),
        wait_ns: Some(12 * SECOND * threads - busy_ns),
        calls: busy_ns / 25,
        attributed_ns: busy_ns / 3,
        mean_busy_ns: Some(busy_ns / threads),
        max_busy_ns: Some(max_busy_ns),
        imbalance: Some(max_busy_ns as f64 / (busy_ns / threads) as f64),
        busy_ratio: Some(2.0),
    };
    ThreadsView {
        threads: vec![
            thread(4001, "worker-0", "worker", 12 * SECOND),
            thread(4000, "wordcount", "main", 6 * SECOND),
            thread(4004, "merger", "merger", SECOND),
            thread(4002, "worker-1", "worker", 300_000_000),
            thread(4003, "worker-2\u{1b}[2J", "worker", 0),
        ],
        groups: vec![
            group("worker", 3, 12_300_000_000, 12_000_000_000),
            group("main", 1, 6 * SECOND, 6 * SECOND),
            group("merger", 1, SECOND, SECOND),
        ],
    }
}

pub fn waits() -> Vec<WaitRow> {
    let wait = |group: &str, api: &str, object: &str, count: i64, ns: i64| WaitRow {
        group: group.into(),
        api: api.into(),
        object: object.into(),
        count,
        ns,
        caller: "wordcount".into(),
    };
    vec![
        wait("merger", "pthread_cond_wait", "condition 0x55d0c0ffee10 (results_ready)", 12_345, 11 * SECOND),
        wait("worker", "pthread_mutex_lock", "mutex 0x55d0c0ffee40 (queue_lock)", 1_234_567, 6 * SECOND),
        wait("main", "poll", "fd 5", 3, 1_000_000),
        wait("main", HOSTILE, HOSTILE, 1, 10),
    ]
}

pub fn locks() -> Vec<LockRow> {
    let lock = |object: &str, path: &str, acquisitions, contended, wait_ns, hold_ns| LockRow {
        object: object.into(),
        path: path.into(),
        acquisitions,
        contended,
        wait_ns,
        hold_ns,
        hold_ns_low: Some(hold_ns - hold_ns / 8),
        hold_ns_high: Some(hold_ns + hold_ns / 8),
        process: 4000,
    };
    vec![
        lock(
            "mutex 0x55d0c0ffee40 (queue_lock)",
            "wordcount!main > wordcount!worker_main(std::stop_token, int) > libqueue.so!Queue<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >::pop()",
            1_234_567,
            432_100,
            6 * SECOND,
            4 * SECOND,
        ),
        lock("spin 0x7f00deadbe40", "liballoc.so!arena_get", 900_000_000, 0, 0, 9 * SECOND),
        lock(HOSTILE, HOSTILE, 1, 0, 0, 5),
    ]
}

/// A function whose samples lie at `modes`, each with its count.
fn latency_row(function: &str, component: &str, modes: &[(i64, i64)], calls: Option<i64>) -> LatencyRow {
    let samples: i64 = modes.iter().map(|mode| mode.1).sum();
    let at = |share: f64| {
        let mut left = (samples as f64 * share).ceil() as i64;
        modes.iter().find(|mode| (left <= mode.1, left -= mode.1).0).map(|mode| mode.0)
    };
    let mean = (samples > 0).then(|| modes.iter().map(|mode| mode.0 * mode.1).sum::<i64>() / samples);
    LatencyRow {
        function: function.into(),
        component: component.into(),
        calls_seen: samples.max(1),
        samples,
        metric: Metric::Wall,
        mean: mean.map(|mean| mean as f64),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: modes.last().map(|mode| mode.0),
        calls_estimated: calls,
        calls_between: calls.map(|calls| (calls - calls / 20, calls + calls / 20)),
        total: mean.map(|mean| mean * calls.unwrap_or(samples)),
        total_low: None,
        total_high: None,
        symbol: function.into(),
        file: String::new(),
        line: 0,
        address: 0x1000,
        process: None,
        histogram: modes.iter().map(|&(ns, count)| LatencyBucket { low: ns, high: ns + ns / 8, count }).collect(),
    }
}

pub fn latencies() -> Vec<LatencyRow> {
    vec![
        latency_row(RB_TREE_FIND, "wordcount", &[(80, 900), (120, 4_000), (170, 2_500), (900, 30)], Some(28_123_456)),
        latency_row("flush_results", "wordcount", &[(41_000, 950), (21_000_000, 50)], Some(1_200)),
        latency_row("memcpy", "libc.so.6", &[(9, 4_000), (14, 5_000), (60, 200)], Some(60_123_456)),
        latency_row("sub_4f30", "libvery_long_vendor_name_with_a_version-and-a-suffix.so.12", &[(5_300, 1)], None),
        latency_row("reset", "wordcount", &[(240, 12)], Some(240)),
        LatencyRow {
            address: 0x1100,
            file: "/home/user/wordcount/src/pool/cache.cc".into(),
            line: 9,
            ..latency_row("reset", "wordcount", &[(230, 12)], Some(220))
        },
        latency_row(HOSTILE, HOSTILE, &[(3, 1)], Some(1)),
        latency_row("main", "wordcount", &[], Some(1)),
    ]
}

/// Facts of a latency measurement alone.
pub fn latency_meta() -> Meta {
    Meta {
        collectors: vec!["latency".into()],
        timing: Timing::Count,
        latency: Some(LatencySession {
            metric: Metric::Wall,
            sampling: LatencySampling::Budget { share: 0.02 },
            epoch_ns: 10_000_000,
            measured_ns: 12_300_000_000,
            probes_installed: 2_431,
            probes_active: 6,
            sites_refused: 145,
            toggles: 123_456,
            toggles_per_second: 10_037.1,
            samples: 17_632,
            samples_per_second: 1_433.5,
            toggling_share: 0.0008,
            empty_ns: 16.7,
            hidden_ns: 0.0,
            thread_ns: 0,
            stops: 3,
            longest_stop_ns: 412_000,
            total_stop_ns: 803_000,
            abandoned: 4,
            untimed: 0,
            unread: 0,
        }),
        ..meta()
    }
}

/// The overview of a latency measurement alone.
pub fn latency_overview() -> Content {
    let full = FullReport { latency: latencies(), meta: latency_meta(), summary: findings(), ..nothing() };
    let (meta, totals) = (full.meta.clone(), full.totals);
    Content { meta, totals, ..content(Rows::Overview(Box::new(full))) }
}

/// The overview of calls between components and of latencies, recorded together.
pub fn both_overview() -> Content {
    let meta = Meta {
        collectors: vec!["flow".into(), "latency".into()],
        timing: Timing::Adaptive { budget: 0.03 },
        ..latency_meta()
    };
    let full = FullReport { latency: latencies(), meta: meta.clone(), ..full_report() };
    let totals = full.totals;
    Content { meta, totals, ..content(Rows::Overview(Box::new(full))) }
}

/// `rows` under the header that all share.
pub fn content(rows: Rows) -> Content {
    let component = matches!(rows, Rows::Apis(_)).then(|| "libstdc++.so.6".to_owned());
    let selection = Selection { view: rows.view(), component, ..Selection::default() };
    let meta = if matches!(rows, Rows::Latency(_)) { latency_meta() } else { meta() };
    Content { meta, totals: totals(), loss: loss(), selection, rows, one_screen: false }
}

pub fn full_report() -> FullReport {
    FullReport {
        meta: meta(),
        summary: findings(),
        components: components(),
        flows: flows(),
        threads: threads().threads,
        waits: waits(),
        locks: locks(),
        latency: Vec::new(),
        criticality: None,
        walk: None,
        features: FeaturesView::default(),
        loss: loss(),
        groups: threads().groups,
        totals: totals(),
    }
}

/// Every view, under the name of its golden file.
pub fn views() -> Vec<(&'static str, Content)> {
    let apis = ApisView { incoming: api_groups(&flows()[..2]), outgoing: api_groups(&flows()[1..4]) };
    [
        ("overview", Rows::Overview(Box::new(full_report()))),
        ("summary", Rows::Summary(findings())),
        ("components", Rows::Components(components())),
        ("apis", Rows::Apis(apis)),
        ("callers", Rows::Callers { groups: api_groups(&flows()), rows: flows() }),
        ("flows", Rows::Flows(flows())),
        ("threads", Rows::Threads(threads())),
        ("waits", Rows::Waits(waits())),
        ("locks", Rows::Locks(locks())),
        ("latency", Rows::Latency(latencies())),
        ("meta", Rows::Meta),
        ("loss", Rows::Loss(loss())),
    ]
    .map(|(name, rows)| (name, content(rows)))
    .into_iter()
    .chain([
        ("overview-counts-only", counts_only()),
        ("overview-empty", empty()),
        ("overview-latency", latency_overview()),
        ("overview-both", both_overview()),
    ])
    .chain(crate::sample_cut::contents())
    .chain(crate::sample_criticality::contents())
    .chain(crate::sample_walk::contents())
    .chain(crate::sample_feature::contents())
    .collect()
}

/// The overview of the same run recorded with `--timing count`.
pub fn counts_only() -> Content {
    let mut full = full_report();
    full.meta.timing = Timing::Count;
    full.meta.exit_status = Some(139);
    full.totals.timed = false;
    full.totals.timed_calls = 0;
    full.summary.clear();
    full.waits.clear();
    full.locks.clear();
    for row in &mut full.components {
        row.self_ns = None;
        row.wait_ns = None;
        row.self_percent = None;
        for other in &mut row.others {
            other.total_ns = None;
            other.percent = None;
        }
    }
    for row in &mut full.flows {
        row.total_ns = None;
        row.total_ns_low = None;
        row.self_ns = None;
        row.attributed_ns = None;
    }
    let (meta, totals) = (full.meta.clone(), full.totals);
    Content { meta, totals, loss: Vec::new(), ..content(Rows::Overview(Box::new(full))) }
}

/// A program that called nothing.
pub fn empty() -> Content {
    let full = nothing();
    let (meta, totals) = (full.meta.clone(), full.totals);
    Content { meta, totals, loss: Vec::new(), ..content(Rows::Overview(Box::new(full))) }
}

pub fn nothing() -> FullReport {
    FullReport {
        summary: Vec::new(),
        components: Vec::new(),
        flows: Vec::new(),
        threads: Vec::new(),
        waits: Vec::new(),
        locks: Vec::new(),
        latency: Vec::new(),
        criticality: None,
        walk: None,
        features: FeaturesView::default(),
        loss: Vec::new(),
        groups: Vec::new(),
        totals: Totals { timed: true, ..Totals::default() },
        meta: Meta { wall_ns: 0, exit_status: None, command: Vec::new(), ..meta() },
    }
}
