//! Probes that are too dear to stay come for visits.
//!
//! Of a function that is called every few nanoseconds a window of timed calls says how long they are, but not how many:
//! timing takes most of the window. A visit times some calls, then counts all calls of one epoch, which costs a tenth,
//! and then the original bytes are put back. Who turns out to be too hot is counted at once, before its probe goes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use transect_probe::Handler;

use super::measured::Measured;
use super::rotation::DETOUR_TICKS;
use super::window::OnTime;
use crate::clock::ticks;
use crate::probe_session::{SiteId, SiteState};

/// How long a turn of hot functions lasts.
const TURN: Duration = Duration::from_millis(100);
/// When the first turn ends: by then it is known who is hot.
const FIRST_TURN: Duration = Duration::from_millis(20);
/// Calls that a visit times.
const TIMED: u32 = 32;

/// A probe that is back at its function.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    id: SiteId,
    /// Calls seen when it began to count.
    counts_from: Option<u64>,
}

impl Measured {
    /// The first turn of hot functions begins.
    pub(super) fn begin_turns(&mut self) {
        self.next_turn = Instant::now() + FIRST_TURN;
        self.since_turn = (0.0, ticks());
    }

    /// Lets hot functions take turns, if a budget is set and the time for it has come: `share` of the program's
    /// CPU time may go into detours.
    pub fn take_turns(&mut self, share: f64) {
        // A sanitizer traces the threads itself when the program ends, and must not find one of them held.
        if self.finds_leaks {
            return;
        }
        let stops = self.session.stop_times().total_ns;
        if !self.visits.is_empty() {
            self.go_on_with_visits();
        } else if Instant::now() >= self.next_turn {
            self.begin_turn(share);
            self.next_turn = Instant::now() + TURN;
        }
        // However many threads there are to be stopped: the stops may take half a percent of the time.
        let held = self.session.stop_times().total_ns - stops;
        self.next_turn = self.next_turn.max(Instant::now() + Duration::from_nanos(held * 200));
    }

    fn begin_turn(&mut self, share: f64) {
        let now = ticks();
        let (busy, since) = std::mem::replace(&mut self.since_turn, (0.0, now));
        let elapsed = (now - since) as f64;
        // An epoch of timing, and one of counting.
        let visit = (1.0 + self.reading.call.count_ticks.max(DETOUR_TICKS) / DETOUR_TICKS) * self.busy.usual_epoch()
            / busy.max(1.0);
        let windows = &mut self.windows;
        // Probes of others are never taken out.
        let own = self.rows.iter().filter(|(_, id)| !self.before.contains_key(id));
        let rates = own.map(|&(_, id)| (id, windows[id as usize].recent_rate()));
        let change = self.rotation.turn(rates, share * busy / elapsed, visit);
        windows.iter_mut().for_each(|windows| windows.age(&self.busy));
        for &id in &change.park {
            self.switch_off(id, now);
            self.count_from_now(id);
        }
        let back = [&change.visit[..], &change.recall[..]].concat();
        if !back.is_empty() {
            // Who can't be stopped now may be next time.
            let _ = self.session.exchange(&[], &back);
        }
        self.recalled.extend(change.recall.iter().filter(|&id| self.owed.remove(id)));
        for id in change.visit {
            if self.session.sites[id as usize].state == SiteState::Installed {
                self.session.arm(id, TIMED, ticks());
                self.windows[id as usize].arm(TIMED, &self.busy);
                self.toggles += 1;
                self.visits.push(Visit { id, counts_from: None });
            }
        }
    }

    /// An epoch of the visits is over: what has timed calls counts them, what has counted goes.
    fn go_on_with_visits(&mut self) {
        let now = ticks();
        let (counted, timed): (Vec<Visit>, Vec<Visit>) =
            std::mem::take(&mut self.visits).into_iter().partition(|visit| visit.counts_from.is_some());
        for Visit { id, .. } in timed {
            self.switch_off(id, now);
            self.count_from_now(id);
        }
        let gone: Vec<SiteId> = counted.into_iter().map(|visit| visit.id).collect();
        if !gone.is_empty() {
            let _ = self.session.exchange(&gone, &[]);
        }
    }

    fn count_from_now(&mut self, id: SiteId) {
        self.windows[id as usize].count(&self.busy);
        self.session.set_handler(id, Handler::Count);
        self.visits.push(Visit { id, counts_from: Some(self.session.counts(id).calls) });
        self.session.switch(id, true);
        self.toggles += 1;
    }

    /// Takes account of the calls that were counted in the epoch which has ended.
    pub(super) fn end_counting(&mut self) {
        for &Visit { id, counts_from } in &self.visits {
            let Some(from) = counts_from else { continue };
            self.session.switch(id, false);
            self.session.set_handler(id, self.reading.enter);
            let calls = self.session.counts(id).calls - from;
            let call = &self.reading.call;
            self.windows[id as usize].counted(calls, call.count_ticks, call, &self.busy);
            self.toggles += 1;
        }
    }

    /// Calls of a probe, `calls` of which it has seen, that are being counted.
    pub(super) fn still_counted(&self, id: SiteId, calls: u64) -> u64 {
        let visit = self.visits.iter().find(|visit| visit.id == id);
        visit.and_then(|visit| visit.counts_from).map_or(0, |from| calls.saturating_sub(from))
    }

    /// Switches a probe off, whether it has used up its grant or not.
    fn switch_off(&mut self, id: SiteId, now: u64) {
        self.session.switch(id, false);
        let record = self.session.arena().site(id as usize);
        let armed = record.armed_at.swap(0, Relaxed);
        if armed != 0 {
            // Nobody knows how long it would have taken: the window counts as time, not as a rate.
            record.on_ticks.fetch_add(now.saturating_sub(armed), Relaxed);
            self.owed.insert(id);
        }
        self.windows[id as usize].cut(OnTime::of(record), &self.busy);
    }
}
