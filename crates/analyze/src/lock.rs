use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::Profile;

use crate::matching::Pattern;
use crate::{Selection, SortKey, totals};

/// One lock of one process on one call path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockRow {
    /// Kind, address and symbol of the lock.
    pub object: String,
    /// Call path of the acquisition, outermost first.
    pub path: String,
    /// Acquisitions, and attempts whose time ran out.
    pub acquisitions: i64,
    /// Of them, those that found the lock held.
    pub contended: i64,
    /// Time waited, ns.
    pub wait_ns: i64,
    /// Time held, ns; estimated from sampled acquisitions.
    pub hold_ns: i64,
    /// Lower end of the 95 % interval of `hold_ns`; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_ns_low: Option<i64>,
    /// Upper end of that interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_ns_high: Option<i64>,
    /// Process whose memory holds the lock.
    pub process: i32,
}

/// Locks, longest wait first. `selection.component` and `selection.api` keep paths through them; shares are of the
/// threads' raw lifetime.
pub fn locks(profile: &Profile, selection: &Selection) -> Vec<LockRow> {
    let component = selection.component.as_deref().map(Pattern::new);
    let api = selection.api.as_deref().map(Pattern::new);
    let mut index: FxHashMap<(u32, &str, &str), usize> = FxHashMap::default();
    let mut rows: Vec<LockRow> = Vec::new();
    for lock in &profile.locks {
        let step = |hit: &dyn Fn(&str, &str) -> bool| {
            lock.path.split(" > ").any(|step| step.split_once('!').is_some_and(|(c, function)| hit(c, function)))
        };
        if component.as_ref().is_some_and(|pattern| !step(&|c, _| pattern.matches_component(c, c)))
            || api.as_ref().is_some_and(|pattern| !step(&|_, f| pattern.matches_api(f, f)))
        {
            continue;
        }
        let position = *index.entry((lock.process, &lock.object, &lock.path)).or_insert_with(|| {
            rows.push(LockRow {
                object: lock.object.clone(),
                path: lock.path.clone(),
                acquisitions: 0,
                contended: 0,
                wait_ns: 0,
                hold_ns: 0,
                hold_ns_low: Some(0),
                hold_ns_high: Some(0),
                process: profile.processes[lock.process as usize].pid,
            });
            rows.len() - 1
        });
        let row = &mut rows[position];
        row.acquisitions += lock.acquisitions;
        row.contended += lock.contended;
        row.wait_ns += lock.wait_ns;
        row.hold_ns += lock.hold_ns;
        // What is unsure of an empty hold is unsure of all.
        let and = |sum: Option<i64>, ns: Option<i64>| Some(sum? + ns?);
        row.hold_ns_low = and(row.hold_ns_low, lock.hold_ns_low);
        row.hold_ns_high = and(row.hold_ns_high, lock.hold_ns_high);
    }
    if let Some(least) = selection.min_percent {
        let totals = totals(profile);
        rows.retain(|row| totals.raw_percent(row.wait_ns + row.hold_ns).is_some_and(|percent| percent >= least));
    }
    rows.sort_by(|a, b| {
        let value = |row: &LockRow| match selection.sort {
            Some(SortKey::Calls) => (row.acquisitions, row.wait_ns),
            Some(SortKey::Name) => (0, 0),
            _ => (row.wait_ns, row.acquisitions),
        };
        value(b).cmp(&value(a)).then_with(|| (&a.object, &a.path, a.process).cmp(&(&b.object, &b.path, b.process)))
    });
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    rows
}
