use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::Profile;

use crate::matching::{Pattern, chosen_components};
use crate::{Names, Selection, SortKey, totals};

/// Waiting of one thread group in one API for one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// Thread group that waited.
    pub group: String,
    /// Blocking API, demangled.
    pub api: String,
    /// What was waited for; empty if unknown.
    pub object: String,
    /// Number of waits.
    pub count: i64,
    /// Sum, ns.
    pub ns: i64,
    /// Component that called (display name).
    pub caller: String,
}

/// Waiting, longest first. `selection.component` is the caller; shares are of the threads' raw lifetime.
pub fn waits(profile: &Profile, selection: &Selection) -> Vec<WaitRow> {
    let names = Names::new(profile);
    let chosen = chosen_components(profile, &names, selection.component.as_deref());
    let api = selection.api.as_deref().map(Pattern::new);
    let mut index: FxHashMap<(&str, &str, &str, u32), usize> = FxHashMap::default();
    let mut rows: Vec<WaitRow> = Vec::new();
    for wait in &profile.waits {
        let by_other = chosen.as_ref().is_some_and(|chosen| !chosen[wait.caller as usize]);
        if by_other || api.as_ref().is_some_and(|api| !api.matches_api(&wait.api, &wait.api)) {
            continue;
        }
        let group = profile.threads[wait.thread as usize].group.as_str();
        let position = *index.entry((group, &wait.api, &wait.object, wait.caller)).or_insert_with(|| {
            rows.push(WaitRow {
                group: group.to_owned(),
                api: wait.api.clone(),
                object: wait.object.clone(),
                count: 0,
                ns: 0,
                caller: names.get(wait.caller).to_owned(),
            });
            rows.len() - 1
        });
        rows[position].count += wait.count;
        rows[position].ns += wait.ns;
    }
    if let Some(least) = selection.min_percent {
        let totals = totals(profile);
        rows.retain(|row| totals.raw_percent(row.ns).is_some_and(|percent| percent >= least));
    }
    let value = |row: &WaitRow| match selection.sort {
        Some(SortKey::Calls) => row.count,
        Some(SortKey::Name) => 0,
        _ => row.ns,
    };
    rows.sort_by(|a, b| {
        let names = |row: &WaitRow| (row.api.clone(), row.group.clone(), row.object.clone(), row.caller.clone());
        value(b).cmp(&value(a)).then_with(|| names(a).cmp(&names(b)))
    });
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    rows
}
