//! A lock that threads wait for, and where it is held.

use rustc_hash::FxHashMap;
use transect_profile_model::WaitKind;

use super::super::words::{brief, counted, percent, time};
use super::super::{Confidence, FindingKind, FindingRow, Place, critical};
use super::{CALLED_PART, Causes, LEAST_PERCENT, some};
use crate::criticality::{CONTENTION, PlaceRow, PlaceWait, is_lock_call, lets_go, public_name, takes_slowly};
use crate::{CriticalWaitRow, OtherThreadRow, WhatIfRow};

/// Part of the waiting for a lock from which what is known of its holders then stands for all of it.
const KNOWN_PART: f64 = 0.05;
/// Part of the time of the place that holds a lock from which what it waits for is said with it.
const MOSTLY: f64 = 0.5;
/// Part of a place's time in calls of locks from which it does nothing else.
const NOTHING_ELSE: f64 = 0.9;

/// Waits for one lock.
pub(super) struct Lock<'a> {
    pub kind: WaitKind,
    pub object: &'a str,
    pub critical_ns: i64,
    pub ns: i64,
    pub count: i64,
    /// Where it was held most.
    pub code: Option<&'a str>,
    /// The thread that held it there.
    pub holder: Option<&'a OtherThreadRow>,
    /// Nobody was seen to hold it: `code` is what ran while others waited.
    pub inferred: bool,
    /// Time of places in which their threads were about to take or release it: woken, they waited for a CPU, ns.
    pub queued: Vec<(&'a str, i64)>,
    /// Most of the waiting.
    pub row: &'a CriticalWaitRow,
}

impl<'a> Causes<'a> {
    pub(super) fn locks(&self) -> Vec<Lock<'a>> {
        let mut index: FxHashMap<(WaitKind, &str), usize> = FxHashMap::default();
        let mut locks: Vec<Lock<'a>> = Vec::new();
        // Whether what is known of each lock's holder is that it was letting go, which tells least of what is done under it.
        let mut releasing: Vec<bool> = Vec::new();
        let lock = |kind| matches!(kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock);
        for row in self.view.waits.iter().filter(|row| lock(row.kind)) {
            let party = row.holder.as_ref().filter(|party| !party.function.is_empty());
            let at = *index.entry((row.kind, row.object.as_str())).or_insert_with(|| {
                let (kind, object) = (row.kind, row.object.as_str());
                let (code, holder, inferred, queued) = (None, None, false, Vec::new());
                locks.push(Lock { kind, object, critical_ns: 0, ns: 0, count: 0, code, holder, inferred, queued, row });
                releasing.push(false);
                locks.len() - 1
            });
            let sum = &mut locks[at];
            sum.critical_ns += row.critical_ns;
            sum.ns += row.ns;
            sum.count += row.count;
            // Rows come by their weight: a few waits tell less than most.
            let tells = |party: &&OtherThreadRow| {
                let heavy = row.ns as f64 >= KNOWN_PART * sum.ns as f64;
                sum.code.is_none() || releasing[at] && heavy && !is_letting_go(party)
            };
            if let Some(party) = party.filter(tells) {
                (sum.code, sum.holder) = (Some(party.function.as_str()), Some(party));
                releasing[at] = is_letting_go(party);
            }
        }
        for lock in &mut locks {
            lock.inferred = lock.code.is_none();
            lock.code = self.holding(lock.kind, lock.object).or(lock.code);
            let meanwhile = lock.row.meanwhile.as_ref().filter(|party| lock.inferred && !party.function.is_empty());
            if let Some(party) = meanwhile {
                (lock.code, lock.holder) = (Some(party.function.as_str()), Some(party));
            }
        }
        self.queue(&mut locks);
        locks
    }

    /// Gives each place's time at a lock's calls to the lock that is waited for most there.
    fn queue(&self, locks: &mut [Lock<'a>]) {
        let mut order: Vec<usize> = (0..locks.len()).collect();
        order.sort_by_key(|&lock| std::cmp::Reverse(locks[lock].ns));
        for place in self.view.places.iter().filter(|place| !place.runtime) {
            let ns = at_lock(place);
            // A library's function that does nothing but take a lock, or give it back, does so for its caller.
            let for_caller = ns as f64 >= NOTHING_ELSE * place.ns as f64;
            let waits = |lock: &Lock<'_>| {
                // Stacks have whole functions, places also what was inlined into them.
                let is_it = |function: &String| function == place.symbol() || for_caller && *function == place.caller.0;
                let on = |row: &CriticalWaitRow| row.stack.iter().rev().any(is_it);
                let mut rows =
                    self.view.waits.iter().filter(|row| (row.kind, row.object.as_str()) == (lock.kind, lock.object));
                lock.code == Some(&place.function) || lock.code == Some(place.symbol()) || rows.any(on)
            };
            if let Some(&lock) = order.iter().find(|&&lock| ns > 0 && waits(&locks[lock])) {
                locks[lock].queued.push((&place.function, ns));
            }
        }
    }

    /// The innermost function that was on nearly all stacks of a lock's holders: a step of what is done under it, met by
    /// chance, is not.
    fn holding(&self, kind: WaitKind, object: &str) -> Option<&'a str> {
        let rows = self.view.waits.iter().filter(|row| row.kind == kind && row.object == object);
        let held = rows.filter_map(|row| Some((row, row.holder.as_ref().filter(|holder| !holder.stack.is_empty())?)));
        let mut on: FxHashMap<&str, (i64, usize)> = FxHashMap::default();
        let (mut whole, mut all) = (0, 0);
        for (row, holder) in held {
            all += row.ns;
            if is_letting_go(holder) {
                continue;
            }
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
        if (whole as f64) < KNOWN_PART * all as f64 {
            return None;
        }
        let nearly = |&(_, (ns, _)): &(&str, (i64, usize))| ns as f64 >= CALLED_PART * whole as f64;
        on.into_iter()
            .filter(nearly)
            .max_by_key(|&(function, (_, depth))| (depth, function))
            .map(|(function, _)| function)
    }

    /// The part of a function in which a lock is held: of several that were inlined, the one that takes it, which others wait in.
    pub(super) fn holder_place(&self, lock: &Lock<'_>, code: &str) -> Option<&'a PlaceRow> {
        let parts = self.view.places.iter().filter(|place| place.function == code || place.inlined_into == code);
        let waited = |place: &PlaceRow| {
            let of_it = |wait: &&PlaceWait| (wait.kind, wait.object.as_str()) == (lock.kind, lock.object);
            place.waiting.iter().filter(of_it).map(|wait| wait.ns).sum::<i64>()
        };
        parts
            .clone()
            .filter(|place| waited(place) > 0)
            .max_by_key(|place| waited(place))
            .or_else(|| parts.clone().next())
    }

    /// How long all threads held the lock, ns; `None` where its calls are not recorded, or not all: it was held while others waited.
    fn held_ns(&self, lock: &Lock<'_>) -> Option<i64> {
        let is_it = |name: &str| name.split_once(' ').is_some_and(|(_, name)| name == lock.object);
        let rows = self.facts.profile.locks.iter().filter(|lock| is_it(&lock.object));
        let sum = |(held, taken): (i64, i64), lock: &transect_profile_model::Lock| {
            (held.saturating_add(lock.hold_ns), taken.saturating_add(lock.acquisitions))
        };
        let (held, taken) = rows.fold((0, 0), sum);
        // While other programs have the CPUs, threads wait far longer for it than it is held.
        (held > 0 && (held >= lock.critical_ns || taken >= lock.count)).then_some(held)
    }

    /// Time of all threads on a CPU with a function on the stack, by the timer's samples, ns.
    pub(super) fn on_cpu_ns(&self, function: &str) -> i64 {
        let tables = &self.facts.profile.sched;
        let frames: Vec<bool> = tables.frames.iter().map(|frame| frame.function == function).collect();
        let has = |id: &u32| frames.get(*id as usize).copied().unwrap_or(false);
        let stacks: Vec<bool> = tables.stacks.iter().map(|stack| stack.frames.iter().any(has)).collect();
        let met = tables.moments.iter().filter(|moment| stacks.get(moment.stack as usize).copied().unwrap_or(false));
        met.map(|moment| moment.period_ns).sum()
    }

    /// What the run is shorter by at most if nothing is done under a lock, 0–100. That frees more than those who wait for it: the
    /// holder, too, by what it does while it holds the lock, and all by the calls that hand it over.
    pub(super) fn without_lock(&self, lock: &Lock<'_>) -> f64 {
        let Some(row) = lock.code.and_then(|code| critical::prediction(self.view, code, f64::INFINITY)) else {
            return 0.0;
        };
        let saved = (row.saving_high * 100.0).min(self.beside(lock.code.unwrap_or_default()));
        let queued: i64 = lock.queued.iter().map(|(_, ns)| ns).sum();
        self.held_ns(lock).map_or(saved, |held| saved.min(self.share(held + queued)))
    }

    /// What the run is shorter by at most without what runs under `code`: the rest needs its time on the CPUs, 0–100.
    fn beside(&self, code: &str) -> f64 {
        let all: i64 = self.facts.profile.sched.moments.iter().map(|moment| moment.period_ns).sum();
        let rest = (all - self.on_cpu_ns(code)) as f64 / f64::from(self.view.cpus.max(1) as u32);
        100.0 - (rest * 100.0 / self.view.run_ns().max(1) as f64).clamp(0.0, 100.0)
    }

    /// What it saves that nobody waits for the lock any more, while what is done under it takes its time still, as the end of a
    /// sentence: `most` is what a repair saves that also does away with that.
    fn split(&self, lock: &Lock<'_>, most: f64) -> String {
        let is_it = |row: &&WhatIfRow| {
            (row.path.as_str(), row.kind, row.object.as_str()) == (CONTENTION, Some(lock.kind), lock.object)
                && row.speedup.is_infinite()
        };
        let Some(row) = self.view.what_if.iter().find(is_it).filter(|_| !lock.inferred) else { return String::new() };
        let (low, high) = (row.saving_low * 100.0, (row.saving_high * 100.0).min(most));
        if most - high < LEAST_PERCENT {
            return String::new();
        }
        let range = if percent(low) == percent(high) { percent(low) } else { format!("{low:.0}–{}", percent(high)) };
        let rest = critical::beside_others(self.view);
        format!(
            "; {} is the bound, with nothing done under it: if only nobody waits for it, {range} is saved (what-if){rest}",
            percent(most)
        )
    }

    /// A lock's holder. The name of a thread says little where it is that of its process.
    fn who(&self, holder: &OtherThreadRow, waiters: &CriticalWaitRow) -> String {
        let thread = self.view.threads.iter().find(|thread| thread.tid == holder.tid);
        match thread.map(|thread| thread.group.as_str()) {
            Some(group) if group == waiters.group => "another of them".to_owned(),
            Some("main") => "the main thread".to_owned(),
            Some(group) if group != holder.thread => format!("a thread of group {group}"),
            _ => format!("thread {}", holder.thread),
        }
    }

    pub(super) fn lock(&self, lock: &Lock<'_>, critical_ns: i64, holder: Option<&PlaceRow>) -> FindingRow {
        let who = critical::waiters(lock.row);
        let named = critical::named(lock.kind, lock.object);
        let under = lock.code.filter(|_| !lock.inferred).and_then(|code| {
            let of_part = holder.filter(|place| place.function != code);
            of_part.and_then(|place| self.under_lock(lock, &place.function)).or_else(|| self.under_lock(lock, code))
        });
        let at = |place: &PlaceRow| match &under {
            // The line that takes the lock says less than the one for which it is held.
            Some(under) if !under.line.is_empty() => format!("{} at {}", brief(&place.function), under.line),
            _ => Self::at(&place.function, place),
        };
        let place = holder.map(at).or(lock.code.map(brief));
        // Without a holder it is the place that waits which is known.
        let api = lock.row.stack.last();
        let waiter =
            lock.row.stack.iter().rev().find_map(|function| self.place(function).filter(|place| !place.runtime));
        let finding = match (place, lock.holder) {
            (Some(place), Some(thread)) if lock.inferred => {
                format!("{who} for {named} while {} is in {place}", self.who(thread, lock.row))
            }
            (Some(place), Some(thread)) => {
                let meanwhile = holder.map_or_else(String::new, waiting_meanwhile);
                let meanwhile = match &under {
                    Some(under) if meanwhile.is_empty() => format!(" while it calls {}", under.callee),
                    _ => meanwhile,
                };
                format!("{who} for {named} that {} holds in {place}{meanwhile}", self.who(thread, lock.row))
            }
            _ => match (waiter, api) {
                (Some(waiter), _) => format!("{who} for {named} in {}", Self::at(&waiter.function, waiter)),
                (None, Some(api)) => format!("{who} for {named} in {}", brief(api)),
                (None, None) => format!("{who} for {named}"),
            },
        };
        let share = self.share(critical_ns);
        let waits = format!("{} of {} in all", counted(lock.count, "wait", "waits"), time(lock.ns));
        // The table of waits has the first part; the second is in places that were woken.
        let queued: i64 = lock.queued.iter().map(|(_, ns)| ns).sum();
        let (alone, woken) = match self.weight(queued) >= LEAST_PERCENT {
            true => (critical_ns - queued, format!(", and {} more in which woken threads had no CPU", time(queued))),
            false => (critical_ns, String::new()),
        };
        let code = lock.code.unwrap_or_default();
        let most = share.max(self.without_lock(lock));
        let split = self.split(lock, most);
        let held = under.as_ref().map_or_else(String::new, |under| {
            format!(", {} of it while the holder was in {}", percent(under.part * 100.0), under.callee)
        });
        FindingRow {
            finding,
            evidence: format!(
                "critical for {} of {}{woken}; {waits}{held}{split}",
                time(alone.min(self.view.run_ns())),
                time(self.view.run_ns())
            ),
            view: "criticality".to_owned(),
            next: critical::advice(lock.kind, code),
            kind: FindingKind::CriticalWait,
            percent: share,
            saves_percent: Some(most),
            confidence: Some(if lock.inferred { Confidence::Interval } else { Confidence::Exact }),
            place: Place {
                object: some(lock.object),
                function: some(code).or_else(|| waiter.map(|place| place.function.clone())).or_else(|| api.cloned()),
                thread_group: some(&lock.row.group),
                ..holder.or(waiter).map(|place| self.whereabouts(place, api.map(String::as_str))).unwrap_or_default()
            },
        }
    }
}

/// What a holder mostly waits for outside of the program where it holds a lock, as the end of a clause.
fn waiting_meanwhile(place: &PlaceRow) -> String {
    use WaitKind as K;
    let outside = |kind| {
        matches!(
            kind,
            K::FileSync
                | K::FileRead
                | K::FileWrite
                | K::Sleep
                | K::Socket
                | K::Pipe
                | K::Poll
                | K::PageFault
                | K::Child
        )
    };
    let waited: i64 = place.waiting.iter().map(|wait| wait.ns).sum();
    let most = place.waiting.iter().filter(|wait| outside(wait.kind)).max_by_key(|wait| wait.ns);
    match most.filter(|wait| wait.ns as f64 >= MOSTLY * (place.on_cpu_ns + waited) as f64) {
        None => String::new(),
        Some(wait) if wait.kind == K::Sleep => " while it sleeps".to_owned(),
        Some(wait) if wait.kind.is_of_files() => format!(" while {}", super::waits::waited(place, wait)),
        Some(wait) => format!(" while it waits for {}", super::waits::waited(place, wait)),
    }
}

/// Whether a holder was met in a call by which it lets go.
fn is_letting_go(party: &OtherThreadRow) -> bool {
    let called = party.stack.iter().rev().take_while(|function| **function != party.function);
    called.into_iter().any(|function| lets_go(function))
}

/// Time of a place in which it was about to take or release a lock.
fn at_lock(place: &PlaceRow) -> i64 {
    let of_runtime = place.callees.iter().any(|callee| takes_slowly(&callee.function));
    // Runtimes wake the next one by libc's `syscall`, and may lose the CPU to it there.
    let is_it = |function: &str| is_lock_call(function) || of_runtime && public_name(function) == "syscall";
    place.callees.iter().filter(|callee| is_it(&callee.function)).map(|callee| callee.ns).sum()
}
