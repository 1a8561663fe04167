//! A cut of the invented run.

use transect_analyze::{
    AnnotateView, CallNode, CallTree, CutDimension, CutFilter, CutKey, CutMeasure, CutReading, CutRow, CutScope,
    CutView, Disassembly, HotRow, HotView, InstructionTimes, LineTimes, StateTimes, SystemCallRow, ThreadLane,
    TimelineView,
};
use transect_report::{Content, Rows, Sources};

use crate::sample_rows::{HOSTILE, RB_TREE_FIND, content};

const MS: i64 = 1_000_000;

fn row(keys: &[Option<&str>], ms: i64, spread_ms: i64) -> CutRow {
    let key = |key: &Option<&str>| key.map_or(CutKey::None, |name| CutKey::Name(name.to_owned()));
    let keys = keys.iter().map(key).collect();
    let (value, spread) = (ms * MS, spread_ms * MS);
    CutRow { keys, value, low: (value - spread).max(0), high: value + spread, share: ms as f64 / 9_000.0 }
}

fn view() -> CutView {
    let rows = vec![
        row(&[Some("worker"), Some("libstdc++.so.6"), Some(RB_TREE_FIND)], 4_210, 130),
        row(&[Some("worker"), Some("libc.so.6"), Some("pthread_mutex_lock")], 2_600, 0),
        row(&[Some("main"), Some("libc.so.6"), Some("read")], 1_500, 0),
        row(&[Some("worker"), Some("wordcount"), Some(HOSTILE)], 620, 60),
        row(&[Some("worker"), None, None], 70, 0),
    ];
    CutView {
        by: vec![CutDimension::ThreadGroup, CutDimension::Component, CutDimension::Function],
        scope: CutScope {
            measure: CutMeasure::Time,
            unit: CutMeasure::Time.unit(),
            filter: Some("state != runnable".to_owned()),
            from_ns: Some(2_000 * MS),
            to_ns: None,
            total: 9_000 * MS,
            whole: 48_000 * MS,
        },
        rows,
    }
}

/// All time on a CPU.
fn of_all() -> CutScope {
    CutScope {
        measure: CutMeasure::OnCpu,
        unit: CutMeasure::OnCpu.unit(),
        filter: None,
        from_ns: None,
        to_ns: None,
        total: 9_000 * MS,
        whole: 9_000 * MS,
    }
}

fn states(on_cpu: i64, runnable: i64, blocked: i64) -> StateTimes {
    StateTimes { on_cpu_ns: on_cpu * MS, runnable_ns: runnable * MS, blocked_ns: blocked * MS }
}

fn hot() -> HotView {
    let row = |function: Option<&str>, component: Option<&str>, line: Option<i32>, own: i64, total: i64| HotRow {
        function: function.map(str::to_owned),
        component: component.map(str::to_owned),
        file: line.map(|_| "/home/ada/src/wordcount/count.cpp".to_owned()),
        line,
        own: own * MS,
        self_low: (own - own / 20) * MS,
        self_high: (own + own / 20) * MS,
        kernel: own / 3 * MS,
        total: total * MS,
        self_share: own as f64 / 9_000.0,
        total_share: total as f64 / 9_000.0,
    };
    let rows = vec![
        row(Some(RB_TREE_FIND), Some("libstdc++.so.6"), None, 4_210, 4_400),
        row(Some("count_words"), Some("wordcount"), Some(118), 2_600, 8_800),
        row(Some(HOSTILE), Some(HOSTILE), Some(7), 90, 90),
        row(None, None, None, 70, 70),
        row(Some("main"), Some("wordcount"), None, 0, 8_900),
    ];
    HotView { scope: of_all(), rows }
}

fn node(function: &str, total: i64, own: i64, children: Vec<CallNode>) -> CallNode {
    let (function, kernel) = match function.strip_suffix(" [kernel]") {
        Some(function) => (function, true),
        None => (function, false),
    };
    CallNode { function: Some(function.to_owned()), kernel, total: total * MS, own: own * MS, children }
}

fn tree() -> CallTree {
    let read = node("read", 1_400, 100, vec![node("vfs_read [kernel]", 1_300, 1_300, Vec::new())]);
    let count = node("count_words", 7_200, 2_600, vec![node(RB_TREE_FIND, 4_600, 4_600, Vec::new())]);
    let main = node("main", 8_900, 280, vec![count, read, node(HOSTILE, 20, 20, Vec::new())]);
    let without = CallNode { function: None, ..node("", 100, 100, Vec::new()) };
    CallTree { scope: of_all(), roots: vec![main, without] }
}

/// Three lines of a file that is there, and one of a file that is not.
fn annotate() -> (AnnotateView, Sources) {
    let file = "/home/ada/src/wordcount/count.cpp";
    let line = |file: &str, line: i32, own: i64, states: StateTimes| LineTimes {
        file: Some(file.to_owned()),
        line: Some(line),
        self_ns: own * MS,
        total_ns: states.total(),
        states,
    };
    let lines = vec![
        line("/usr/include/c++/12/bits/stl_tree.h", 1901, 40, states(40, 0, 0)),
        line(file, 3, 0, states(900, 20, 0)),
        line(file, 5, 600, states(600, 0, 0)),
        line(file, 12, 0, states(10, 0, 2_400)),
    ];
    let text: Vec<String> = (1..=14).map(|n| format!("\tstatement_{n}();")).collect();
    let mut sources = Sources::default();
    sources.insert(file, &text.join("\n"), true);
    let total_ns = lines.iter().map(|line| line.total_ns).sum();
    let scope = CutScope { measure: CutMeasure::Time, ..of_all() };
    (AnnotateView { function: "count_words".to_owned(), scope, total_ns, lines, disassembly: None }, sources)
}

/// The same with instructions: under two of the lines, of a function inlined there and of the function itself.
fn disassembled() -> (AnnotateView, Sources) {
    let (mut view, sources) = annotate();
    let file = view.lines[2].file.clone();
    let row = |at: u64, line: i32, words: (&str, &str), times: StateTimes| InstructionTimes {
        component: "wordcount".to_owned(),
        symbol: if line == 12 { "main".to_owned() } else { "count_words".to_owned() },
        address: 0x11a0 + 4 * at,
        mnemonic: words.0.to_owned(),
        operands: words.1.to_owned(),
        target: None,
        file: file.clone(),
        line: Some(line),
        samples: times.on_cpu_ns / MS,
        self_ns: times.on_cpu_ns,
        total_ns: times.total(),
        states: times,
        hottest: times.on_cpu_ns == 590 * MS,
    };
    let mut instructions: Vec<InstructionTimes> =
        (0..16).map(|at| row(at, 5, ("mov", "%rax,%rdx"), states(0, 0, 0))).collect();
    instructions[10] = row(10, 5, ("divq", "-0x18(%rbp)"), states(10, 0, 0));
    instructions[11] = row(11, 5, ("xor", "$0xfffffffffffffff1,%rax"), states(590, 0, 0));
    let call = row(40, 12, ("call", "0x1030"), states(10, 0, 2_390));
    instructions.push(InstructionTimes { target: Some("std::mutex::lock()".to_owned()), self_ns: 0, ..call });
    view.disassembly = Some(Disassembly { instructions, elsewhere_ns: 10 * MS });
    (view, sources)
}

fn system_calls() -> Vec<SystemCallRow> {
    let row = |name: &str, calls: i64, states: StateTimes| SystemCallRow {
        system_call: name.to_owned(),
        calls: Some(calls),
        total_ns: states.total(),
        states,
        exact: true,
        total_ns_low: states.total(),
        total_ns_high: states.total(),
        blocked_estimated: false,
    };
    vec![
        row("fsync", 1_200, states(30, 12, 4_100)),
        row("read", 81_000, states(1_100, 8, 0)),
        row("brk", 3, states(0, 0, 0)),
    ]
}

fn timeline() -> TimelineView {
    let lane = |thread: &str, of: fn(i64) -> StateTimes| {
        let steps: Vec<StateTimes> = (0..80).map(of).collect();
        let sum = |of: fn(&StateTimes) -> i64| steps.iter().map(of).sum();
        let states = StateTimes {
            on_cpu_ns: sum(|step| step.on_cpu_ns),
            runnable_ns: sum(|step| step.runnable_ns),
            blocked_ns: sum(|step| step.blocked_ns),
        };
        ThreadLane { thread: thread.to_owned(), states, steps }
    };
    let threads = vec![
        lane("worker-1 (4312)", |at| states(at, 80 - at, 0)),
        lane(HOSTILE, |at| if at < 20 { StateTimes::default() } else { states(0, 0, 100) }),
        lane("wordcount (4311)", |at| if at % 8 == 0 { states(100, 0, 0) } else { states(1, 0, 99) }),
    ];
    TimelineView { from_ns: 0, step_ns: 100 * MS, filter: None, threads }
}

/// Views that are read from cuts.
fn readings() -> Vec<(&'static str, Content)> {
    let of = |view: CutReading, sources: Sources| content(Rows::Reading { view: Box::new(view), sources });
    let none = Sources::default;
    let (lines, sources) = annotate();
    let (instructions, of_instructions) = disassembled();
    vec![
        ("hot", of(CutReading::Hot(hot()), none())),
        ("tree", of(CutReading::Tree(tree()), none())),
        ("annotate", of(CutReading::Annotate(lines), sources)),
        ("annotate-instructions", of(CutReading::Annotate(instructions), of_instructions)),
        ("system-calls", of(CutReading::SystemCalls(system_calls()), none())),
        ("timeline", of(CutReading::Timeline(timeline()), none())),
    ]
}

/// As a table, over time, and as a tree; and the views that are read from cuts.
pub fn contents() -> Vec<(&'static str, Content)> {
    assert!(CutFilter::parse("state != runnable").is_ok());
    let step = |at: i64| CutRow { keys: vec![CutKey::Time(at * 500 * MS)], ..row(&[], 900 - 300 * (at % 2), 8) };
    let over_time = CutView {
        by: vec![CutDimension::Time(500 * MS)],
        scope: of_all(),
        rows: [0, 2, 4, 6, 1, 3, 5, 7].map(step).to_vec(),
    };
    let cut = |view: CutView, tree: bool| content(Rows::Cut { view: Box::new(view), tree });
    let cuts =
        vec![("cut", cut(view(), false)), ("cut-over-time", cut(over_time, false)), ("cut-tree", cut(view(), true))];
    cuts.into_iter().chain(readings()).collect()
}
