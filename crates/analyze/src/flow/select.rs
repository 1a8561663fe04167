use std::cmp::Ordering;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::sum::{Split, Sum};
use super::{FlowRow, sort_value};
use crate::matching::{Pattern, chosen_components};
use crate::prepared::Prepared;
use crate::{Dimensions, Names, Selection, SortKey};

/// On which side of a flow the chosen component stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// It is called.
    Into,
    /// It calls others.
    From,
    /// Either.
    Either,
}

/// Sums the rows that the selection names, sorted; `cut` applies `min_percent` and `top`.
pub(super) fn select(prepared: &Prepared<'_>, selection: &Selection, direction: Direction, cut: bool) -> Vec<FlowRow> {
    let sums = sum(prepared, selection, direction);
    let mut order: Vec<usize> = (0..sums.len()).collect();
    if let Some(least) = selection.min_percent.filter(|_| cut) {
        let weight = |sum: &Sum<'_>| prepared.totals.weight(sum.attributed_ns, sum.total_ns, sum.calls);
        order.retain(|&position| weight(&sums[position]) >= least);
    }
    let key = selection.sort.unwrap_or_default();
    order.sort_by(|&a, &b| compare(key, &sums[a], &sums[b], &prepared.names));
    if cut {
        order.truncate(selection.top.unwrap_or(usize::MAX));
    }
    // Rows own their names: only those that are shown are made.
    order.into_iter().map(|position| sums[position].row(prepared)).collect()
}

fn sum<'a>(prepared: &Prepared<'a>, selection: &Selection, direction: Direction) -> Vec<Sum<'a>> {
    let profile = prepared.profile;
    let chosen = chosen_components(profile, &prepared.names, selection.component.as_deref());
    let api = selection.api.as_deref().map(Pattern::new);
    let split = |thread: u32, context: u32, by: Dimensions| Split {
        thread: by.thread.then_some(thread),
        process: (by.process || by.thread).then(|| profile.threads[thread as usize].process),
        context: by.feature.then(|| prepared.active.first_like(context)),
    };
    let most = if chosen.is_none() && api.is_none() { prepared.totals.flows as usize } else { 0 };
    let mut positions: FxHashMap<(u32, Split), usize> = FxHashMap::with_capacity_and_hasher(most, FxBuildHasher);
    let mut sums: Vec<Sum<'_>> = Vec::with_capacity(most);
    for (flow, &number) in profile.flows.iter().zip(&prepared.flow_of_row) {
        if let Some(chosen) = &chosen {
            let (from, into) = (chosen[flow.caller as usize], chosen[flow.callee as usize]);
            let wanted = match direction {
                Direction::Into => into,
                // A flow on both sides stands in the other direction already.
                Direction::From => from && !into,
                Direction::Either => from || into,
            };
            if !wanted {
                continue;
            }
        }
        if api.as_ref().is_some_and(|api| !api.matches_api(&flow.api, &flow.symbol)) {
            continue;
        }
        let split = split(flow.thread, flow.context, selection.by);
        let position = *positions.entry((number, split)).or_insert_with(|| {
            sums.push(Sum::new(flow, number, split));
            sums.len() - 1
        });
        sums[position].add(flow);
    }
    sums
}

fn compare(key: SortKey, a: &Sum<'_>, b: &Sum<'_>, names: &Names) -> Ordering {
    let value = |sum: &Sum<'_>| {
        let numbers = [sum.total_ns, sum.self_ns, sum.attributed_ns, sum.bytes];
        sort_value(key, sum.first.class, numbers, sum.calls)
    };
    let calls = if key == SortKey::Name { Ordering::Equal } else { b.calls.cmp(&a.calls) };
    let (x, y) = (a.first, b.first);
    value(b)
        .cmp(&value(a))
        .then(calls)
        .then_with(|| x.api.cmp(&y.api))
        .then_with(|| names.get(x.callee).cmp(names.get(y.callee)))
        .then_with(|| names.get(x.caller).cmp(names.get(y.caller)))
        .then_with(|| x.version.cmp(&y.version))
        .then(a.split.thread.cmp(&b.split.thread))
        .then(a.split.context.cmp(&b.split.context))
}
