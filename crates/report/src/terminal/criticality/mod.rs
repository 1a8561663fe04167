//! Which code runs while the others wait.

mod facts;
mod graph;
mod parallelism;
mod paths;
mod threads;
mod waits;
mod what_if;

use transect_analyze::CriticalityView;

pub(crate) use facts::facts;

use super::Limit;
use super::page::Page;
use super::style::Role;

/// Rows of each table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    running: usize,
    waiting: usize,
    lines: usize,
    waits: usize,
    threads: usize,
    edges: usize,
    what_if: usize,
}

impl Limits {
    /// For the view itself: `top` rows a table, or a few screens.
    pub(crate) fn of_view(top: Option<usize>) -> Self {
        let or = |few: usize| top.unwrap_or(few);
        Self {
            running: or(10),
            waiting: or(6),
            lines: 4,
            waits: or(15),
            threads: or(12),
            edges: or(10),
            what_if: or(8),
        }
    }

    /// For the overview, where other views follow.
    pub(crate) fn of_overview(top: Option<usize>) -> Self {
        let or = |few: usize| top.unwrap_or(few);
        Self { running: or(5), waiting: or(3), lines: 2, waits: or(5), threads: or(5), edges: or(4), what_if: or(4) }
    }
}

/// Prints the view.
pub(crate) fn criticality(page: &mut Page, view: Option<&CriticalityView>, limits: Limits) {
    let Some(view) = view else {
        page.section("Criticality", "");
        return page.empty("not recorded: transect criticality -- COMMAND, or --collect sched");
    };
    if view.estimate {
        page.section("Estimate", "");
        page.wrapped(
            2,
            Role::Warning,
            "The scheduler was not seen. These numbers are an estimate from samples that need no privileges, or from the \
             blocking calls that the agent knows: who holds a lock, who wakes whom and time without a CPU are not in \
             them.",
        );
    }
    paths::running(page, view, Limit(limits.running), limits.lines);
    paths::waiting(page, view, Limit(limits.waiting));
    what_if::what_if(page, view, Limit(limits.what_if));
    waits::waits(page, view, Limit(limits.waits));
    graph::graph(page, &view.graph, Limit(limits.edges));
    threads::threads(page, view, Limit(limits.threads));
    parallelism::parallelism(page, view);
}

/// What shares refer to: the elapsed time, all of which is distributed to paths.
fn elapsed_ns(view: &CriticalityView) -> i64 {
    view.busy_ns.saturating_add(view.idle_ns)
}
