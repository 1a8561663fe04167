//! A lock that threads wait for, and where it is held.

use rustc_hash::FxHashMap;
use transect_profile_model::WaitKind;

use super::super::words::{brief, count, time};
use super::super::{Confidence, FindingKind, FindingRow, Place, critical};
use super::{CALLED_PART, Causes, some};
use crate::CriticalWaitRow;
use crate::criticality::PlaceRow;

/// Waits for one lock.
pub(super) struct Lock<'a> {
    pub kind: WaitKind,
    pub object: &'a str,
    pub critical_ns: i64,
    pub ns: i64,
    pub count: i64,
    /// Where it was held most.
    pub code: Option<&'a str>,
    pub holder: Option<&'a str>,
    /// Most of the waiting.
    pub row: &'a CriticalWaitRow,
}

impl<'a> Causes<'a> {
    pub(super) fn locks(&self) -> Vec<Lock<'a>> {
        let mut index: FxHashMap<(WaitKind, &str), usize> = FxHashMap::default();
        let mut locks: Vec<Lock<'a>> = Vec::new();
        let lock = |kind| matches!(kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock);
        for row in self.view.waits.iter().filter(|row| lock(row.kind)) {
            let code = row.holder.as_ref().filter(|party| !party.function.is_empty());
            let at = *index.entry((row.kind, row.object.as_str())).or_insert_with(|| {
                let (kind, object, holder) = (row.kind, row.object.as_str(), code.map(|party| party.thread.as_str()));
                let code = code.map(|party| party.function.as_str());
                locks.push(Lock { kind, object, critical_ns: 0, ns: 0, count: 0, code, holder, row });
                locks.len() - 1
            });
            let sum = &mut locks[at];
            sum.critical_ns += row.critical_ns;
            sum.ns += row.ns;
            sum.count += row.count;
            if let (None, Some(party)) = (sum.code, code) {
                (sum.code, sum.holder) = (Some(party.function.as_str()), Some(party.thread.as_str()));
            }
        }
        for lock in &mut locks {
            lock.code = self.holding(lock.kind, lock.object).or(lock.code);
        }
        locks
    }

    /// The innermost function that was on nearly all stacks of a lock's holders: a step of what is done under it, met by
    /// chance, is not.
    fn holding(&self, kind: WaitKind, object: &str) -> Option<&'a str> {
        let rows = self.view.waits.iter().filter(|row| row.kind == kind && row.object == object);
        let mut on: FxHashMap<&str, (i64, usize)> = FxHashMap::default();
        let mut whole = 0;
        for (row, holder) in
            rows.filter_map(|row| Some((row, row.holder.as_ref()?))).filter(|(_, h)| !h.stack.is_empty())
        {
            whole += row.ns;
            let mut end = holder.stack.iter().rposition(|function| *function == holder.function)?;
            // Where both took it in the same function, what that called is what is done under the lock.
            if let [.., acquirer, _] = &row.stack[..]
                && let Some(at) = holder.stack[..end].iter().rposition(|function| function == acquirer)
            {
                end = at + 1;
            }
            for (depth, function) in holder.stack[..=end].iter().enumerate() {
                let sum = on.entry(function).or_default();
                *sum = (sum.0 + row.ns, sum.1.max(depth));
            }
        }
        let nearly = |&(_, (ns, _)): &(&str, (i64, usize))| ns as f64 >= CALLED_PART * whole as f64;
        on.into_iter()
            .filter(nearly)
            .max_by_key(|&(function, (_, depth))| (depth, function))
            .map(|(function, _)| function)
    }

    pub(super) fn lock(&self, lock: &Lock<'_>, critical_ns: i64, holder: Option<&PlaceRow>) -> FindingRow {
        let who = critical::waiters(lock.row);
        let named = critical::named(lock.kind, lock.object);
        let place = holder.map(|place| Self::at(&place.function, place)).or(lock.code.map(brief));
        // Without a holder it is the place that waits which is known.
        let api = lock.row.stack.last();
        let waiter =
            lock.row.stack.iter().rev().find_map(|function| self.place(function).filter(|place| !place.runtime));
        let finding = match (place, lock.holder) {
            (Some(place), Some(thread)) => format!("{who} for {named} that thread {thread} holds in {place}"),
            _ => match (waiter, api) {
                (Some(waiter), _) => format!("{who} for {named} in {}", Self::at(&waiter.function, waiter)),
                (None, Some(api)) => format!("{who} for {named} in {}", brief(api)),
                (None, None) => format!("{who} for {named}"),
            },
        };
        let share = self.share(critical_ns);
        let waits = format!("{} waits of {} in all", count(lock.count), time(lock.ns));
        let code = lock.code.unwrap_or_default();
        FindingRow {
            finding,
            evidence: format!(
                "critical for {} of {}; {waits}",
                time(critical_ns.min(self.view.elapsed_ns)),
                time(self.view.elapsed_ns)
            ),
            view: "criticality".to_owned(),
            next: critical::advice(lock.kind, code),
            kind: FindingKind::CriticalWait,
            percent: share,
            saves_percent: Some(share),
            confidence: Some(Confidence::Exact),
            place: Place {
                object: some(lock.object),
                function: some(code).or_else(|| waiter.map(|place| place.function.clone())).or_else(|| api.cloned()),
                thread_group: some(&lock.row.group),
                ..holder.or(waiter).map(|place| self.whereabouts(place, api.map(String::as_str))).unwrap_or_default()
            },
        }
    }
}

/// Time of a place in which it was about to acquire a lock.
pub(super) fn acquiring(place: &PlaceRow) -> i64 {
    const ACQUIRE: [&str; 6] =
        ["pthread_mutex_lock", "pthread_rwlock_wrlock", "pthread_rwlock_rdlock", "lll_lock_wait", "flock", "fcntl"];
    place.callees.iter().filter(|callee| ACQUIRE.contains(&callee.function.as_str())).map(|callee| callee.ns).sum()
}
