//! Switching probes and reading their counts: stores and loads of the shared memory, the process runs on.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use transect_event_abi::probe_arena::{CallerRules, DISARMED_OFFSET, FIRST_SHIFT, NOT_CALLED, RULES_OFFSET, SHARDS};
use transect_probe::trampoline::WORD;
use transect_probe::{Descriptor, Handler};

use super::session::{ProbeSession, SiteCounts, SiteId};

impl ProbeSession {
    /// Switches a probe by one aligned store; the process is not disturbed.
    pub fn switch(&self, id: SiteId, on: bool) {
        let site = &self.sites[id as usize];
        let value = if on { site.on } else { site.off };
        self.arena.word(site.block + WORD as u64).store(value, Ordering::Release);
    }

    /// Switches the probes that serve the others (see [`ProbeSession::is_service`]): needed only while return addresses may
    /// be taken, they cost a program that throws much.
    pub fn switch_services(&self, on: bool) {
        (0..self.sites.len() as SiteId).filter(|&id| self.is_service(id)).for_each(|id| self.switch(id, on));
    }

    /// Whether a probe is switched on.
    pub fn is_on(&self, id: SiteId) -> bool {
        let site = &self.sites[id as usize];
        self.arena.word(site.block + WORD as u64).load(Ordering::Relaxed) != site.off
    }

    /// Chooses what happens at a probe, by one store of data. Timing handlers need [`super::SessionSite::can_time`].
    pub fn set_handler(&self, id: SiteId, handler: Handler) {
        let at = self.sites[id as usize].block + offset_of!(Descriptor, enter) as u64;
        self.arena.word(at).store(self.handlers[handler as usize], Ordering::Release);
    }

    /// The same at the exit: the exit handler must be of the entry handler's kind.
    pub fn set_exit_handler(&self, id: SiteId, handler: Handler) {
        let at = self.sites[id as usize].block + offset_of!(Descriptor, exit) as u64;
        self.arena.word(at).store(self.handlers[handler as usize], Ordering::Release);
    }

    /// Gives a site, which is off, the arena's rules of this number.
    pub(crate) fn set_rules(&self, id: SiteId, rules: usize) {
        let address = self.writable + RULES_OFFSET + (rules * size_of::<CallerRules>()) as u64;
        let at = self.sites[id as usize].block + offset_of!(Descriptor, user_exit) as u64;
        self.arena.word(at).store(address, Ordering::Release);
    }

    /// Gives a region site, which is off, the word that its events carry.
    pub(crate) fn set_event_word(&self, id: SiteId, word: u64) {
        let at = self.sites[id as usize].block + offset_of!(Descriptor, user_exit) as u64;
        self.arena.word(at).store(word, Ordering::Release);
    }

    /// Gives a region site, which is off, what the agent that counts calls is told beside the event's word.
    pub(crate) fn set_region_word(&self, id: SiteId, word: u32) {
        let at = self.sites[id as usize].block + offset_of!(Descriptor, histogram) as u64;
        self.arena.word(at).store(word.into(), Ordering::Release);
    }

    /// Lets a site outlast the command that has written its jump, however that ends.
    pub fn keep(&self, id: SiteId) {
        self.arena.site(id as usize).writer.store(0, Ordering::Relaxed);
    }

    /// Forgets a site whose original bytes are back, so that another probe may be planned there.
    pub(crate) fn give_up(&mut self, id: SiteId) {
        self.placed.retain(|_, placed| *placed != id);
    }

    /// Address of a site's block in the process.
    pub(crate) fn block_address(&self, id: SiteId) -> u64 {
        self.arena.site(id as usize).trampoline.load(Ordering::Relaxed)
    }

    pub(super) fn set_user_enter(&self, id: SiteId, address: u64) {
        let at = self.sites[id as usize].block + offset_of!(Descriptor, user_enter) as u64;
        self.arena.word(at).store(address, Ordering::Release);
    }

    /// Counts of a site so far.
    pub fn counts(&self, id: SiteId) -> SiteCounts {
        (0..SHARDS).fold(SiteCounts::default(), |sum, shard| {
            let counters = self.arena.counters(shard, id as usize);
            let first = counters.first.load(Ordering::Relaxed);
            SiteCounts {
                calls: sum.calls.wrapping_add(counters.calls.load(Ordering::Relaxed)),
                samples: sum.samples.wrapping_add(counters.samples.load(Ordering::Relaxed)),
                ticks: sum.ticks.wrapping_add(counters.ticks.load(Ordering::Relaxed)),
                first_samples: sum.first_samples + (first >> FIRST_SHIFT),
                first_ticks: sum.first_ticks + (first & ((1 << FIRST_SHIFT) - 1)),
            }
        })
    }

    /// Grants a latency probe so many samples and switches it on; `now` in ticks.
    pub fn arm(&self, id: SiteId, samples: u32, now: u64) {
        let record = self.arena.site(id as usize);
        record.window.fetch_add(1, Ordering::Relaxed);
        record.armed_at.store(now | NOT_CALLED, Ordering::Relaxed);
        record.remaining.store(samples.cast_signed(), Ordering::Relaxed);
        self.switch(id, true);
    }

    /// The time from which on a latency probe counts as switched on, if nobody has called it yet; `now` in ticks.
    pub fn rearm(&self, id: SiteId, now: u64) {
        let armed_at = &self.arena.site(id as usize).armed_at;
        let armed = armed_at.load(Ordering::Relaxed);
        if armed & NOT_CALLED != 0 {
            // Who has been called meanwhile keeps the time of that.
            let _ = armed_at.compare_exchange(armed, now | NOT_CALLED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Calls `each` for every latency probe that has switched itself off since the last call.
    pub fn take_disarmed(&self, mut each: impl FnMut(SiteId)) {
        for first in (0..self.sites.len()).step_by(8) {
            let word = self.arena.word(DISARMED_OFFSET + first as u64);
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let bytes = word.swap(0, Ordering::AcqRel).to_le_bytes();
            bytes.iter().zip(first..).filter(|&(byte, id)| *byte != 0 && id < self.sites.len()).for_each(|(_, id)| {
                each(id as SiteId);
            });
        }
    }

    /// Whether the loader has added or removed objects that were not dealt with yet.
    pub fn has_loader_event(&self) -> bool {
        let header = self.arena.header();
        header.loader_events.load(Ordering::Acquire) != header.loader_done.load(Ordering::Relaxed)
    }

    /// The number of the last loader event; to be taken before looking at the objects.
    pub fn loader_event(&self) -> u32 {
        self.arena.header().loader_events.load(Ordering::Acquire)
    }

    /// Lets the loader's thread go on that waits for this event.
    pub fn loader_done(&self, event: u32) {
        let done = &self.arena.header().loader_done;
        done.store(event, Ordering::Release);
        let _ = rustix::thread::futex::wake(done, rustix::thread::futex::Flags::empty(), u32::MAX);
    }
}
