//! One window of timing: from the jumps' writing to their removal.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use transect_attach::{AttachError, Stop};
use transect_call_walk::{MOST_USER, Request, Timed, Timing, Untimed, UntimedReason};
use transect_event_abi::probe_arena::{CALLEES, CallerRange, CallerRules};
use transect_probe::Handler;
use transect_probe::trampoline::CAPACITY;

use super::children::Children;
use super::open_calls::{Found, Search, is_on_the_way};
use super::thread_scopes::Noted;
use super::{Timable, UserTimer, gone};
use crate::clock::ticks;
use crate::probe_session::shadow_frames::put_all_back;
use crate::probe_session::{ProbeSession, SiteId, SiteState, our_code, skip_reason};

/// Part of a thread's time that timing one function may take.
const SHARE: f64 = 0.02;
/// Tries to see all calls that are open at the begin.
const ATTEMPTS: u32 = 3;
/// Calls that are always timed.
const LEAST_CALLS: f64 = 64.0;
/// Part of a function's calls that may be left without a return (longjmp) before its time is no good.
const LEFT: f64 = 0.02;
/// Number of the parent's rules; the callees' are 0 to 3.
const PARENT_RULES: usize = CALLEES;
const _: () = assert!(MOST_USER == 1 + CALLEES);

/// A window that is open.
pub struct Window {
    request: Request,
    parent: Timable,
    /// For each callee of the request: its rules' number.
    numbers: Vec<Option<usize>>,
    /// By rules' number.
    callees: Vec<Timable>,
    /// What can't be timed.
    pub untimed: Vec<Untimed>,
    start: u64,
    /// Thread pointers of the threads seen.
    threads: HashMap<u64, i32>,
    /// Calls that nobody can see may be open.
    blind: bool,
    /// Return addresses were replaced.
    adopted: bool,
}

impl Window {
    /// Puts the probes in. On an error none is left, or the window is the timer's, to be closed later.
    pub fn open(timer: &mut UserTimer, request: &Request) -> Result<Window, UntimedReason> {
        let parent = timer.timable(request.parent)?;
        let (mut callees, mut numbers, mut untimed) = (Vec::<Timable>::new(), Vec::new(), Vec::new());
        for callee in &request.callees {
            let function = callee.function;
            let found = if callee.within.is_some() {
                Err(UntimedReason::Refused("only direct callees are timed together".to_owned()))
            } else if function == request.parent {
                Err(UntimedReason::Refused("it is the caller itself".to_owned()))
            } else if callees.len() == CALLEES {
                Err(UntimedReason::TooMany)
            } else {
                timer.timable(function)
            };
            numbers.push(match found {
                Ok(timable) => {
                    callees.push(timable);
                    Some(callees.len() - 1)
                }
                Err(reason) => {
                    untimed.push(Untimed { function, reason });
                    None
                }
            });
        }
        let mut window = Window {
            request: request.clone(),
            parent,
            numbers,
            callees,
            untimed,
            start: 0,
            threads: HashMap::new(),
            blind: false,
            adopted: false,
        };
        for attempt in 1.. {
            window.set_rules(timer);
            match window.install(timer) {
                // A thread may have stood where unwind tables say nothing (the kernel's page of fast system calls, a
                // signal's way in): a moment later it doesn't.
                Ok(()) if window.blind && attempt < ATTEMPTS => {
                    if let Err(reason) = window.close(timer) {
                        return Err(window.left_to(timer, reason));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(()) => break,
                Err(reason) => {
                    return Err(match window.withdraw(timer) {
                        Ok(()) => reason,
                        Err(error) => window.left_to(timer, gone(&error)),
                    });
                }
            }
        }
        Ok(window)
    }

    /// Return addresses are replaced still: what can't be done now is done before the next window.
    fn left_to(self, timer: &mut UserTimer, reason: UntimedReason) -> UntimedReason {
        if matches!(reason, UntimedReason::Later(_)) {
            timer.window = Some(self);
        }
        reason
    }

    fn sites(&self) -> Vec<SiteId> {
        std::iter::once(&self.parent).chain(&self.callees).map(|timable| timable.site).collect()
    }

    /// Says whose calls count, and how many.
    fn set_rules(&self, timer: &UserTimer) {
        let session = &timer.session;
        let time = timer.ticks(self.request.window.max(Duration::from_millis(1)));
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
        let block = |timable: &Timable| session.block_address(timable.site)..;
        for (number, timable) in self.callees.iter().enumerate().chain([(PARENT_RULES, &self.parent)]) {
            let rules = session.arena().rules(number);
            let cost = if number == PARENT_RULES { timer.costs.parent_ticks } else { timer.costs.callee_ticks };
            rules.index.store(number as u32 % CALLEES as u32, Relaxed);
            rules.used_up.store(0, Relaxed);
            rules.misses.store(0, Relaxed);
            rules.limit.store((time * SHARE / cost.max(1.0)).max(LEAST_CALLS) as u64, Relaxed);
            let misses = time * SHARE / timer.costs.miss_ticks.max(1.0) * cpus;
            rules.miss_limit.store(misses.max(LEAST_CALLS) as u64, Relaxed);
            fill(&rules.callers, self.parent.code.iter().map(|range| (range.start, range.end - range.start)));
            let jumpers = std::iter::once(&self.parent).chain(
                self.callees.iter().enumerate().filter_map(|(other, callee)| (other != number).then_some(callee)),
            );
            fill(&rules.jumpers, jumpers.map(|jumper| (block(jumper).start, CAPACITY as u64)));
            let handler = if number == PARENT_RULES { Handler::ScopeEnter } else { Handler::CalleeEnter };
            session.set_rules(timable.site, number);
            session.set_exit_handler(timable.site, Handler::ScopeExit);
            session.set_handler(timable.site, handler);
        }
    }

    fn install(&mut self, timer: &mut UserTimer) -> Result<(), UntimedReason> {
        let lost = |error: AttachError| gone(&error);
        timer.scopes.clear(timer.session.target().memory()).map_err(lost)?;
        let sites = self.sites();
        let mappings = timer.session.target().mappings().map_err(lost)?;
        if mappings.iter().any(|m| m.path.as_os_str() == "/memfd:transect-arena") {
            let reason = "calls between components are being recorded in the same process";
            return Err(UntimedReason::Refused(reason.to_owned()));
        }
        if let Some(skip_reason) = skip_reason(timer.session.target(), &mappings) {
            timer.skip_reason = Some(skip_reason.clone());
            return Err(UntimedReason::Gone(skip_reason.to_string()));
        }
        let (regions, unwinders) = (our_code(timer.session.arena()), timer.session.unwinder_code());
        let mut found = None;
        let mut start = 0;
        timer.children.begin();
        let UserTimer { session, rules, scopes, .. } = timer;
        // Where a thread was in the way when the last window closed.
        session.restore(&sites).map_err(lost)?;
        if sites.iter().any(|&id| session.sites[id as usize].state == SiteState::Installed) {
            return Err(UntimedReason::Refused("a thread does not leave the code where the probe would be".to_owned()));
        }
        session.switch_services(true);
        let scopes = *scopes;
        let install = session.exchange_while(&[], &sites, &mut |session, stop| {
            // Of several stops the first: from then on the handlers see what begins.
            if found.is_some() {
                return;
            }
            start = ticks();
            let (parent, callees) = (&self.parent, &*self.callees);
            let search = Search {
                session,
                scopes,
                parent,
                callees,
                regions: &regions,
                unwinders: &unwinders,
                mappings: &mappings,
            };
            let adopted = search.adopt(stop, rules, start);
            if !adopted.unknown {
                sites.iter().rev().for_each(|&id| session.switch(id, true));
            }
            found = Some(adopted);
        });
        self.adopted = found.is_some();
        install.map_err(lost)?;
        self.start = start;
        let Found { blind, threads, unknown, .. } = found.unwrap_or_default();
        if unknown {
            return Err(UntimedReason::Refused("its threads have no thread pointer".to_owned()));
        }
        self.blind = blind > 0;
        self.threads.extend(threads);
        if sites.iter().any(|&id| session.sites[id as usize].state != SiteState::Installed) {
            return Err(UntimedReason::Refused("its code is not what its file says".to_owned()));
        }
        timer.inserted += sites.len() as u64;
        Ok(())
    }

    /// Takes back what was done of a window that could not be opened.
    fn withdraw(&self, timer: &mut UserTimer) -> Result<(), AttachError> {
        let UserTimer { session, children, on_the_way, .. } = timer;
        if self.adopted {
            // No jump may stand, and then nothing below would stop the threads.
            self.sites().into_iter().for_each(|id| session.switch(id, false));
            *on_the_way = put_back(session)?;
        }
        self.remove(session, children, on_the_way, &mut |_, _| false)
    }

    /// Switches the probes off and puts the original bytes back, in children that were forked meanwhile, too; `held` is
    /// called while all threads stand, and says whether one may be about to put a return site on its stack.
    fn remove(
        &self,
        session: &mut ProbeSession,
        children: &mut Children,
        on_the_way: &mut bool,
        held: &mut dyn FnMut(&ProbeSession, &Stop<'_>) -> bool,
    ) -> Result<(), AttachError> {
        let sites = self.sites();
        let removed = session.exchange_while(&sites, &[], &mut |session, stop| *on_the_way |= held(session, stop));
        // Those of which no jump was written, too.
        sites.iter().for_each(|&id| session.switch(id, false));
        removed?;
        let windows: Vec<_> = sites.iter().map(|&id| session.restoring(id)).collect();
        // As long as it, or a child, may throw through a call that is timed, unwinders need them.
        if children.clean(session, &windows) && !*on_the_way {
            session.switch_services(false);
        }
        for &id in &sites {
            session.set_handler(id, Handler::Nothing);
            session.set_exit_handler(id, Handler::TimeExit);
        }
        Ok(())
    }

    /// Takes the probes out; gives what all threads have spent, and when the window ended.
    pub fn close(&self, timer: &mut UserTimer) -> Result<(Sums, u64), UntimedReason> {
        let lost = |error: AttachError| gone(&error);
        let mut end = 0;
        let mut sums = Sums::default();
        let mut held = HashMap::new();
        {
            let UserTimer { session, rules, scopes, children, on_the_way, threads: only, .. } = &mut *timer;
            let mappings = session.target().mappings().map_err(lost)?;
            let (regions, unwinders) = (our_code(session.arena()), session.unwinder_code());
            let entries = session.entry_code();
            let (parent, callees, scopes) = (&self.parent, &*self.callees, *scopes);
            // Of the last window, which is put back now.
            let mut hidden = std::mem::take(on_the_way);
            let removed = self.remove(session, children, on_the_way, &mut |session, stop| {
                if end != 0 {
                    return false;
                }
                end = ticks();
                let search = Search {
                    session,
                    scopes,
                    parent,
                    callees,
                    regions: &regions,
                    unwinders: &unwinders,
                    mappings: &mappings,
                };
                for registers in stop.registers() {
                    held.insert(registers.fs_base, registers.tid);
                    let Some((noted, open)) = search.close(&registers, rules) else { continue };
                    // A call that was left may go on, on another stack.
                    hidden |= noted.left() != (0, 0);
                    if only.as_ref().is_none_or(|only| only.contains(&registers.tid)) {
                        sums.add(&noted, callees.len());
                        sums.add_open(&noted, open.then_some(end));
                    }
                }
                if hidden {
                    put_all_back(session.target().memory(), &session.places, &regions);
                }
                is_on_the_way(stop, &entries)
            });
            *on_the_way |= removed.is_err();
            removed.map_err(lost)?;
            if end == 0 && (self.adopted || hidden) {
                // No jump stood any more, for which threads would have been held.
                *on_the_way = put_back(session).map_err(lost)?;
                if *on_the_way {
                    session.switch_services(true);
                }
            }
        }
        if end == 0 {
            return Err(UntimedReason::Gone("its code was replaced".to_owned()));
        }
        timer.last_window = (self.start, end);
        for noted in timer.scopes.all(timer.session.target().memory()).map_err(lost)? {
            let counted = match self.threads.get(&noted.key()) {
                _ if held.contains_key(&noted.key()) => false,
                Some(tid) => timer.threads.as_ref().is_none_or(|only| only.contains(tid)),
                None => true,
            };
            if counted {
                sums.add(&noted, self.callees.len());
                sums.add_open(&noted, None);
            }
        }
        Ok((sums, end))
    }

    /// Adds up.
    pub fn conclude(self, timer: &UserTimer, sums: Sums, end: u64) -> Timing {
        let rules = |number: usize| -> &CallerRules { timer.session.arena().rules(number) };
        let ns = |ticks: f64| ticks / timer.ticks_per_ns;
        let timed = |calls: u64, ticks: u64, cost: f64| Timed {
            calls,
            wall_ns: ns((ticks as f64 - cost).max(0.0)),
            on_ns: None,
            runnable_ns: None,
            cost_ns: ns(cost),
        };
        let mut timing = Timing {
            lasted_ns: ns(end.saturating_sub(self.start) as f64),
            untimed: self.untimed,
            probes: 1 + self.callees.len() as u64,
            longest_stop_ns: timer.longest_stop_ns(),
            ..Timing::default()
        };
        let used_up = |number: usize| rules(number).used_up.load(Relaxed) != 0;
        let left = sums.left as f64 > sums.parent.0 as f64 * LEFT;
        let refusal = if used_up(PARENT_RULES) {
            Some(UntimedReason::TooShort)
        } else if self.blind {
            Some(UntimedReason::Refused("a stack could not be followed: it may have been entered before".to_owned()))
        } else if left {
            Some(UntimedReason::Refused("its calls are left without a return (exceptions, longjmp)".to_owned()))
        } else {
            None
        };
        if let Some(reason) = refusal {
            timing.untimed.push(Untimed { function: self.request.parent, reason });
            timing.callees = vec![None; self.request.callees.len()];
            return timing;
        }
        let callee_calls: u64 = sums.callees.iter().map(|(calls, _)| calls).sum();
        let callees_left = sums.callees_left as f64 > callee_calls as f64 * LEFT;
        let empty = timer.costs.empty_ticks;
        let mut inner = rules(PARENT_RULES).misses.load(Relaxed) as f64 * timer.costs.miss_ticks;
        for (callee, number) in self.request.callees.iter().zip(&self.numbers) {
            timing.callees.push(number.and_then(|number| {
                let (calls, ticks) = sums.callees[number];
                inner += calls as f64 * timer.costs.callee_ticks;
                if callees_left {
                    let reason = "calls are left without a return (exceptions, longjmp)".to_owned();
                    timing.untimed.push(Untimed { function: callee.function, reason: UntimedReason::Refused(reason) });
                    return None;
                }
                if used_up(number) {
                    timing.untimed.push(Untimed { function: callee.function, reason: UntimedReason::TooShort });
                    return None;
                }
                Some(timed(calls, ticks, calls as f64 * empty))
            }));
        }
        let (calls, ticks) = sums.parent;
        timing.parent = Some(timed(calls, ticks, calls as f64 * empty + inner));
        timing
    }
}

/// Puts all return addresses back; true if a thread may be about to put another return site on its stack.
pub fn put_back(session: &ProbeSession) -> Result<bool, AttachError> {
    let (regions, entries) = (our_code(session.arena()), session.entry_code());
    let stop = session.target().stop_all_with_handlers()?;
    put_all_back(session.target().memory(), &session.places, &regions);
    Ok(is_on_the_way(&stop, &entries))
}

fn fill(ranges: &[CallerRange], from: impl Iterator<Item = (u64, u64)>) {
    let mut from = from;
    for range in ranges {
        let (low, size) = from.next().unwrap_or_default();
        range.low.store(low, Relaxed);
        range.size.store(size, Relaxed);
    }
}

/// (calls, ticks) of all threads.
#[derive(Debug, Default)]
pub struct Sums {
    parent: (u64, u64),
    callees: [(u64, u64); CALLEES],
    /// Calls that ended nobody knows when.
    left: u64,
    /// The same of callees.
    callees_left: u64,
}

impl Sums {
    fn add(&mut self, noted: &Noted, callees: usize) {
        let (calls, ticks) = noted.parent();
        self.parent.0 += calls;
        self.parent.1 += ticks;
        self.left += noted.left().0;
        self.callees_left += noted.left().1;
        for number in 0..callees {
            let (calls, ticks) = noted.callee(number);
            self.callees[number].0 += calls;
            self.callees[number].1 += ticks;
        }
    }

    /// The open call, if there is one: until `end`, or until it threw; else it was left.
    fn add_open(&mut self, noted: &Noted, end: Option<u64>) {
        let (slot, began) = noted.parent_open();
        if slot == 0 {
            return;
        }
        let thrown = noted.thrown_at();
        let Some(end) = end.or((thrown != 0).then_some(thrown)) else {
            self.left += 1;
            return;
        };
        self.parent.1 += end.saturating_sub(began);
        let (slot, began, which) = noted.callee_open();
        if slot != 0 {
            self.callees[which].1 += end.saturating_sub(began);
        }
    }
}
