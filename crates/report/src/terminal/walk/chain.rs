//! One chain as an indented path.

use transect_analyze::{WalkChainRow, WalkContinuation, WalkFrameRow};
use transect_profile_model::{ShareMethod, Space, WalkEnd};

use super::super::bar::parts_bar;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::{Kind, shorten};
use super::super::style::Role;
use super::super::table::{Cell, Column, Table};
use super::super::units::{duration, percent};

const BAR: usize = 8;
/// Deeper frames are not indented further: their names need the room.
const DEEPEST: usize = 14;

/// Frames at the beginning that a chain repeats from the one above it.
const MOST_SHARED: usize = 3;

/// The bar's parts.
pub(super) const ON: &str = "█";
pub(super) const RUNNABLE: &str = "▒";
pub(super) const BLOCKED: &str = "░";

/// Narrower pages have one column for a frame's place.
const WIDE: usize = 100;

/// Prints a chain and how it ends; `before` is the chain above it, whose beginning it may share.
pub(super) fn chain(page: &mut Page, row: &WalkChainRow, before: Option<&WalkChainRow>) {
    page.line(&[]);
    if !row.frames.is_empty() {
        frames(page, row, before.map_or(0, |before| shared(row, before)));
    }
    let role = if row.ends == WalkEnd::NothingAboveThreshold { Role::Plain } else { Role::Title };
    page.bulleted(4, (Role::Large, "▸ "), role, &escape(&row.conclusion));
    row.continues.iter().for_each(|part| continuation(page, part));
    if !row.next.is_empty() {
        page.bulleted(4, (Role::Dim, "→ "), Role::Command, &escape(&row.next));
    }
}

/// Prints what those did who are waited for.
fn continuation(page: &mut Page, part: &WalkContinuation) {
    let which = match part.processes {
        0 | 1 => part.process.to_string(),
        several => format!("{several} processes"),
    };
    let whose = match part.thread_group.as_str() {
        group if group == part.executable || group == "main" => format!("{} ({which})", part.executable),
        group => format!("{group} of {} ({which})", part.executable),
    };
    let does = match (part.ends, part.waiting_for.as_str()) {
        (WalkEnd::Waiting, "") => "waits itself".to_owned(),
        (WalkEnd::Waiting, what) => format!("waits itself ({what})"),
        _ if part.frames.is_empty() => "is in no function for long".to_owned(),
        _ => "is here".to_owned(),
    };
    let end = if part.frames.is_empty() { '.' } else { ':' };
    let waited = percent(part.waited_share * 100.0);
    let said = format!("{waited} of the time it waits for {whose}, which meanwhile {does}{end}");
    page.bulleted(4, (Role::Large, "⤷ "), Role::Plain, &escape(&said));
    if part.frames.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::name("FUNCTION", Kind::Function, 24),
        Column::name("IN", Kind::Component, 8),
        Column::name("LINE", Kind::File, 10).rank(5),
    ]);
    for (depth, frame) in part.frames.iter().enumerate() {
        let role = match (depth + 1 == part.frames.len(), frame.space) {
            (true, _) => Role::Large,
            (_, Space::Kernel) => Role::Wait,
            (_, Space::User) => Role::Name,
        };
        let component = match (frame.space, &frame.component) {
            (Space::Kernel, _) => "[kernel]".into(),
            (_, component) => component.as_deref().map_or_else(|| "?".into(), escape),
        };
        let file = escape(frame.file.rsplit('/').next().unwrap_or(&frame.file)).into_owned();
        let line = if file.is_empty() || frame.line == 0 { file } else { format!("{file}:{}", frame.line) };
        table.row([
            percent(frame.share * 100.0).into(),
            Cell::new(Role::Dim, indent(depth)).then(role, escape(&frame.function)),
            Cell::new(Role::Dim, component),
            Cell::new(Role::Dim, line).of(Kind::File),
        ]);
    }
    page.table(&table);
}

/// Frames that two chains begin with.
fn shared(a: &WalkChainRow, b: &WalkChainRow) -> usize {
    a.frames.iter().zip(&b.frames).take_while(|(a, b)| a.node == b.node).count()
}

fn frames(page: &mut Page, row: &WalkChainRow, shared: usize) {
    let wide = page.style.columns() >= WIDE;
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number("±").rank(3),
        Column::text("").rank(4),
        Column::text("HOW").rank(2),
        Column::number("ON CPU").rank(7),
        Column::number("RUNNABLE").rank(8),
        Column::number("BLOCKED").rank(6),
        Column::name("FUNCTION", Kind::Function, 24),
        Column::name(if wide { "IN" } else { "WHERE" }, Kind::Component, if wide { 8 } else { 13 }),
        Column::name("LINE", Kind::File, 10).rank(5),
        Column::name("WOKEN BY", Kind::Text, 14).rank(9),
    ]);
    // What the chain above says already is not said again, but for the function in which they part.
    let left_out = if shared > MOST_SHARED { shared - 1 } else { 0 };
    if left_out > 0 {
        let said = format!("{}… {left_out} frames as above", indent(left_out).replace('└', " "));
        table.row::<11>(std::array::from_fn(|column| match column {
            7 => Cell::new(Role::Dim, said.clone()).of(Kind::Text),
            _ => Cell::default(),
        }));
    }
    for (depth, frame) in row.frames.iter().enumerate().skip(left_out) {
        let next = row.frames.get(depth + 1);
        // One waker down the chain is named once, at its lowest frame; that of the last frame stands in the sentence.
        let woken = match next {
            Some(next) if next.woken_by != frame.woken_by => frame.woken_by.as_str(),
            _ => "",
        };
        let role = match (next, frame.space) {
            (None, _) => Role::Large,
            _ if depth < shared => Role::Dim,
            (_, Space::Kernel) => Role::Wait,
            (_, Space::User) => Role::Name,
        };
        let line = line(frame);
        let (place, line) = match wide || line.is_empty() {
            true => (place(frame), Cell::new(Role::Dim, if wide { line } else { String::new() })),
            false => (Cell::new(Role::Dim, line).of(Kind::File), Cell::default()),
        };
        table.row([
            Cell::new(if depth < shared { Role::Dim } else { Role::Plain }, percent(frame.share * 100.0)),
            Cell::new(Role::Dim, interval(frame)),
            bar(frame),
            Cell::new(Role::Dim, method(frame.method)),
            time(frame.on_ns),
            time(frame.runnable_ns),
            time(frame.blocked_ns),
            Cell::new(Role::Dim, indent(depth)).then(role, escape(&frame.function)),
            place,
            line,
            Cell::new(Role::Dim, escape(woken)),
        ]);
    }
    page.table(&table);
    for frame in &row.frames {
        if let Some(sampled) = frame.disputed {
            let said = format!(
                "{}: samples say {} where timing says {}, and did so twice; the truth may lie between",
                shorten(&escape(&frame.function), Kind::Function, 40),
                percent(sampled * 100.0),
                percent(frame.share * 100.0)
            );
            page.bulleted(4, (Role::Warning, "! "), Role::Warning, &said);
        }
    }
}

fn indent(depth: usize) -> String {
    match depth {
        0 => String::new(),
        depth => format!("{}└ ", " ".repeat((depth - 1).min(DEEPEST))),
    }
}

/// Half of the interval, in points; nothing where it is exact.
fn interval(frame: &WalkFrameRow) -> String {
    let half = (frame.share_high - frame.share).max(frame.share - frame.share_low) * 100.0;
    if half.is_finite() && half >= 0.05 { format!("{half:.1}") } else { String::new() }
}

/// The share's bar, divided as the time is.
fn bar(frame: &WalkFrameRow) -> Cell {
    let [on, runnable, blocked] = [frame.on_ns, frame.runnable_ns, frame.blocked_ns].map(|ns| ns.max(0) as f64);
    let whole = on + runnable + blocked;
    let columns = |part: f64| if whole > 0.0 { part / whole * frame.share * BAR as f64 } else { 0.0 };
    let [on, runnable, blocked] = parts_bar([columns(on), columns(runnable), columns(blocked)], BAR);
    Cell::new(Role::Bar, ON.repeat(on))
        .then(Role::Plain, RUNNABLE.repeat(runnable))
        .then(Role::Wait, BLOCKED.repeat(blocked))
}

fn method(method: ShareMethod) -> &'static str {
    match method {
        ShareMethod::Exact => "exact",
        ShareMethod::Sampled => "sampled",
        ShareMethod::SyscallExact => "syscall",
    }
}

fn time(ns: i64) -> Cell {
    if ns > 0 { duration(ns).into() } else { Cell::default() }
}

fn place(frame: &WalkFrameRow) -> Cell {
    match (&frame.component, frame.space) {
        (_, Space::Kernel) => Cell::new(Role::Wait, "[kernel]").of(Kind::Text),
        (component, Space::User) => {
            let component = component.as_deref().map_or_else(|| "?".into(), escape);
            match frame.inlined {
                true => Cell::new(Role::Dim, format!("inlined, {component}")).of(Kind::Text),
                false => Cell::new(Role::Dim, component),
            }
        }
    }
}

fn line(frame: &WalkFrameRow) -> String {
    let file = escape(frame.file.rsplit('/').next().unwrap_or(&frame.file)).into_owned();
    match (file.as_str(), frame.line) {
        ("", _) => String::new(),
        (file, line) if line > 0 => format!("{file}:{line}"),
        _ => file,
    }
}
