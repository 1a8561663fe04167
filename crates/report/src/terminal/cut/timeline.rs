//! What each thread did when, a character a step.

use transect_analyze::{StateTimes, TimelineView};

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, Table};
use super::super::units::duration;

/// How much of a step the thread was on a CPU.
const ON_CPU: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Mostly able to run, without a CPU.
const RUNNABLE: char = '░';
/// Blocked.
const BLOCKED: char = '·';
/// Below this part of a step a thread did not run in it.
const LEAST: f64 = 0.02;

/// What the characters mean.
pub const LEGEND: &str = "▁ to █ on a CPU, ░ runnable without one, · blocked, blank not alive";

/// Prints the threads.
pub(crate) fn timeline(page: &mut Page, view: &TimelineView, limit: Limit) {
    let steps = view.threads.iter().map(|lane| lane.steps.len()).max().unwrap_or(0);
    // What is left of the line beside the thread's name and its time.
    let room = page.style.columns().saturating_sub(50).clamp(20, 80);
    let per_column = steps.div_ceil(room).max(1);
    let end = view.from_ns + view.step_ns * steps as i64;
    let words = format!(
        "from {} to {}, {} a column; {LEGEND}",
        duration(view.from_ns),
        duration(end),
        duration(view.step_ns * per_column as i64)
    );
    page.section("Threads over time", &words);
    if view.threads.is_empty() {
        return page.empty("no thread lived in this range");
    }
    let mut table = Table::new(&[
        Column::name("THREAD", Kind::Text, 14),
        Column::number("ON CPU").rank(2),
        Column::number("RUNNABLE").rank(4),
        Column::number("BLOCKED").rank(3),
        Column::text(""),
    ]);
    let (shown, left) = limit.apply(&view.threads);
    for lane in shown {
        let mut cell = Cell::default();
        for (role, glyph) in glyphs(&lane.steps, view.step_ns, per_column) {
            cell = cell.then(role, glyph.to_string());
        }
        table.row([
            Cell::new(Role::Plain, escape(&lane.thread)),
            duration(lane.states.on_cpu_ns).into(),
            Cell::new(Role::Dim, duration(lane.states.runnable_ns)),
            Cell::new(Role::Dim, duration(lane.states.blocked_ns)),
            cell,
        ]);
    }
    page.table(&table);
    page.left_out(left, "--top N, --where FILTER");
}

/// A character for as many steps each as share a column.
pub fn glyphs(steps: &[StateTimes], step_ns: i64, per_column: usize) -> Vec<(Role, char)> {
    let column = |steps: &[StateTimes]| {
        let sum = steps.iter().fold(StateTimes::default(), |sum, step| StateTimes {
            on_cpu_ns: sum.on_cpu_ns + step.on_cpu_ns,
            runnable_ns: sum.runnable_ns + step.runnable_ns,
            blocked_ns: sum.blocked_ns + step.blocked_ns,
        });
        glyph(&sum, step_ns * steps.len() as i64)
    };
    steps.chunks(per_column.max(1)).map(column).collect()
}

/// One character for what a thread did in `length_ns`.
fn glyph(times: &StateTimes, length_ns: i64) -> (Role, char) {
    let part = |ns: i64| ns as f64 / length_ns.max(1) as f64;
    let on_cpu = part(times.on_cpu_ns);
    if on_cpu >= LEAST {
        let height = (on_cpu * ON_CPU.len() as f64).ceil() as usize;
        return (Role::Bar, ON_CPU[height.clamp(1, ON_CPU.len()) - 1]);
    }
    if times.runnable_ns > times.blocked_ns {
        return (Role::Warning, RUNNABLE);
    }
    if times.total() > 0 { (Role::Dim, BLOCKED) } else { (Role::Plain, ' ') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_characters_of_their_own() {
        let of = |on_cpu_ns, runnable_ns, blocked_ns| glyph(&StateTimes { on_cpu_ns, runnable_ns, blocked_ns }, 100).1;
        assert_eq!([of(100, 0, 0), of(50, 0, 50), of(3, 0, 97)], ['█', '▄', '▁']);
        assert_eq!([of(0, 0, 100), of(1, 89, 10), of(0, 0, 0)], [BLOCKED, RUNNABLE, ' ']);
    }
}
