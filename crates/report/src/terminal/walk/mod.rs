//! The chains that a walk found: paths from `main` down through program and kernel, each with a sentence about its end.

mod chain;
mod facts;
mod progress;
mod system_calls;
mod untimed;

use transect_analyze::{WalkChainRow, WalkGroupRow, WalkView};
use transect_profile_model::Metric;

pub(crate) use facts::facts;
pub use progress::walk_progress;

use super::Limit;
use super::escape::escape;
use super::page::Page;
use super::style::Role;
use super::units::{counted, duration, percent, share};

/// Rows of each part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    chains: usize,
    system_calls: usize,
}

impl Limits {
    /// For the view itself: `top` rows, or a few screens.
    pub(crate) fn of_view(top: Option<usize>) -> Self {
        Self { chains: top.unwrap_or(12), system_calls: top.unwrap_or(8) }
    }

    /// For the overview, where other views follow.
    pub(crate) fn of_overview(top: Option<usize>) -> Self {
        Self { chains: top.unwrap_or(4), system_calls: top.unwrap_or(4) }
    }
}

/// Prints the view.
pub(crate) fn walk(page: &mut Page, view: Option<&WalkView>, limits: Limits) {
    let Some(view) = view else {
        page.section("Walk", "");
        return page.empty("not recorded: transect walk -- COMMAND, or transect walk -p PID");
    };
    page.section("Walk", "from main (or a thread's start) down to the function that finally holds the time");
    page.wrapped(2, Role::Dim, &legend(view));
    let (shown, left) = Limit(limits.chains).apply(&view.chains);
    let mut before: Option<&WalkChainRow> = None;
    for row in shown {
        let of_group = |chain: &&WalkChainRow| (&chain.thread_group, chain.process) == (&row.thread_group, row.process);
        before = before.filter(of_group);
        if before.is_none() {
            heading(page, view, row);
        }
        chain::chain(page, row, before);
        before = Some(row);
    }
    if view.chains.is_empty() {
        page.empty("no chain: nothing was observed, or nothing passes through what was selected");
    }
    page.left_out(left, "--view walk --top N");
    untimed::untimed(page, view);
    system_calls::system_calls(page, view, Limit(limits.system_calls));
}

/// How to read the rows.
fn legend(view: &WalkView) -> String {
    let bar = match view.session.metric {
        Metric::Wall if !view.session.critical => {
            format!("bar: {} on CPU, {} runnable, {} blocked; ", chain::ON, chain::RUNNABLE, chain::BLOCKED)
        }
        _ => String::new(),
    };
    format!(
        "SHARE of the group's {}, ± 95 %; {bar}HOW: exact = every call timed, syscall = from the exact times of system \
         calls, sampled = from samples and waits",
        facts::whole(&view.session)
    )
}

/// Whose the next chains are.
fn heading(page: &mut Page, view: &WalkView, chain: &WalkChainRow) {
    let name = format!("{} of {} ({})", escape(&chain.thread_group), escape(&chain.executable), chain.process);
    page.line(&[]);
    page.wrapped(2, Role::Title, &name);
    let of = |row: &&WalkGroupRow| row.thread_group == chain.thread_group && row.process == chain.process;
    let Some(row) = view.groups.iter().find(of) else { return };
    let lifetime = row.on_ns.saturating_add(row.runnable_ns).saturating_add(row.blocked_ns);
    let mut facts = vec![format!("{}, {}", counted(row.threads, "thread", "threads"), duration(lifetime))];
    for (part, what) in [(row.on_ns, "on CPU"), (row.runnable_ns, "runnable"), (row.blocked_ns, "blocked")] {
        facts.extend(share(part, lifetime).map(|share| format!("{} {what}", percent(share))));
    }
    page.items(2, &facts);
    if !row.remark.is_empty() {
        page.wrapped(2, Role::Warning, &escape(&row.remark));
    }
}
