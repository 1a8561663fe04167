use rustc_hash::FxHashMap;

use super::{ApiGroup, FlowRow, add, sort_value};
use crate::{Selection, SortKey, Totals};

/// Rows, already sorted, by API; the groups in the selection's order.
pub(super) fn by_api(rows: Vec<FlowRow>, totals: &Totals, selection: &Selection) -> Vec<ApiGroup> {
    let mut index: FxHashMap<(String, String), usize> = FxHashMap::default();
    let mut groups: Vec<ApiGroup> = Vec::new();
    for row in rows {
        let position = *index.entry((row.callee.clone(), row.api.clone())).or_insert_with(|| {
            groups.push(ApiGroup::new(&row));
            groups.len() - 1
        });
        groups[position].add(row);
    }
    for group in &mut groups {
        group.percent = group.attributed_ns.and_then(|ns| totals.attributed_percent(ns));
    }
    if let Some(least) = selection.min_percent {
        groups.retain(|group| totals.weight(group.attributed_ns, group.total_ns, group.calls) >= least);
    }
    let key = selection.sort.unwrap_or_default();
    let value = |group: &ApiGroup| {
        let numbers = [group.total_ns, group.self_ns, group.attributed_ns, group.bytes];
        sort_value(key, group.class, numbers, group.calls)
    };
    groups.sort_by(|a, b| {
        let calls = if key == SortKey::Name { std::cmp::Ordering::Equal } else { b.calls.cmp(&a.calls) };
        value(b).cmp(&value(a)).then(calls).then_with(|| (&a.api, &a.callee).cmp(&(&b.api, &b.callee)))
    });
    groups.truncate(selection.top.unwrap_or(usize::MAX));
    groups
}

impl ApiGroup {
    fn new(row: &FlowRow) -> Self {
        Self {
            callee: row.callee.clone(),
            api: row.api.clone(),
            class: row.class,
            calls: 0,
            total_ns: None,
            self_ns: None,
            attributed_ns: None,
            percent: None,
            bytes: None,
            callers: Vec::new(),
        }
    }

    fn add(&mut self, row: FlowRow) {
        self.calls += row.calls;
        add(&mut self.total_ns, row.total_ns);
        add(&mut self.self_ns, row.self_ns);
        add(&mut self.attributed_ns, row.attributed_ns);
        add(&mut self.bytes, row.bytes);
        self.callers.push(row);
    }
}
