//! Whether a thread is on a CPU, by the switches that the kernel tells: what its regions' CPU time is made of.
//!
//! Switches are read before the events that come after them are folded, so each is there when time passes over it.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was seen of it since then.
    Unknown {
        since: u64,
    },
    On,
    /// Off its CPU; counted up to here.
    Off {
        since: u64,
    },
}

/// A thread's switches that time has not passed yet, and where it is.
#[derive(Debug, Clone)]
pub struct OnCpuState {
    /// Ticks, and whether it came to a CPU (or left it).
    switches: VecDeque<(u64, bool)>,
    state: State,
    /// Before this nothing happens.
    next: u64,
    heard: bool,
}

impl OnCpuState {
    /// Of a thread whose switches are told from `start` on.
    pub fn heard_from(start: u64) -> Self {
        Self { switches: VecDeque::new(), state: State::Unknown { since: start }, next: 0, heard: true }
    }

    /// Of a thread of whose switches nobody tells.
    pub fn unheard() -> Self {
        Self { switches: VecDeque::new(), state: State::On, next: u64::MAX, heard: false }
    }

    /// Its switches are told.
    pub fn is_heard(&self) -> bool {
        self.heard
    }

    /// Switches that time has not passed yet.
    pub fn ahead(&self) -> usize {
        self.switches.len()
    }

    /// It came to a CPU (`on`), or left it. In the order of time.
    pub fn switched(&mut self, ticks: u64, on: bool) {
        if self.heard {
            self.switches.push_back((ticks, on));
            self.next = self.next.min(ticks);
        }
    }

    /// Whether it was on its CPU all the time up to `until`, as far as is known.
    #[inline]
    pub fn is_on_until(&self, until: u64) -> bool {
        until < self.next
    }

    /// Time passes; gives how much of it, since the last call, the thread was off the CPU, ticks. `here`: it does
    /// something now, so that it is on one.
    pub fn pass(&mut self, until: u64, here: bool) -> u64 {
        let mut off = 0;
        while let Some(&(at, on)) = self.switches.front()
            && at <= until
        {
            self.switches.pop_front();
            match self.state {
                // What comes has been away.
                State::Unknown { since } if on => off += at.saturating_sub(since),
                State::Off { since } => off += at.saturating_sub(since),
                State::Unknown { .. } | State::On => {}
            }
            self.state = if on { State::On } else { State::Off { since: at } };
        }
        match self.state {
            State::Unknown { .. } if here => self.state = State::On,
            State::Off { since } => {
                off += until.saturating_sub(since);
                self.state = State::Off { since: since.max(until) };
            }
            _ => {}
        }
        self.next = match self.state {
            State::On => self.switches.front().map_or(u64::MAX, |&(at, _)| at),
            _ => 0,
        };
        off
    }

    /// The same for the last time: a thread of which nothing was ever seen has slept.
    pub fn end(&mut self, until: u64) -> u64 {
        let off = self.pass(until, false);
        match self.state {
            State::Unknown { since } => off + until.saturating_sub(since),
            _ => off,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_comes_first_tells_where_it_was() {
        let mut slept = OnCpuState::heard_from(100);
        slept.switched(150, true);
        assert_eq!((slept.pass(180, true), slept.pass(200, true)), (50, 0));
        let mut ran = OnCpuState::heard_from(100);
        ran.switched(150, false);
        assert_eq!((ran.pass(180, false), ran.pass(200, false), ran.end(230)), (30, 20, 30));
        let mut event = OnCpuState::heard_from(100);
        assert_eq!((event.pass(110, true), event.end(200)), (0, 0));
        assert_eq!(OnCpuState::heard_from(100).end(200), 100);
        assert_eq!(OnCpuState::unheard().end(200), 0);
    }

    #[test]
    fn a_moment_that_was_told_late_is_not_counted_twice() {
        let mut on_cpu = OnCpuState::heard_from(0);
        on_cpu.switched(10, true);
        on_cpu.switched(20, false);
        assert_eq!((on_cpu.pass(30, false), on_cpu.is_on_until(31)), (20, false));
        // It came back before that, as is heard now.
        on_cpu.switched(25, true);
        assert_eq!((on_cpu.pass(40, true), on_cpu.is_on_until(41)), (0, true));
    }

    proptest! {
        /// However time is cut, off and on come to the whole.
        #[test]
        fn time_off_is_the_sum_of_its_intervals(steps in prop::collection::vec((1u64..50, 1u64..50), 1..40),
            cuts in prop::collection::vec(0u64..4000, 0..40)) {
            let mut on_cpu = OnCpuState::heard_from(0);
            on_cpu.switched(0, true);
            let (mut at, mut off) = (0, 0);
            for (on_for, off_for) in steps {
                on_cpu.switched(at + on_for, false);
                on_cpu.switched(at + on_for + off_for, true);
                at += on_for + off_for;
                off += off_for;
            }
            let mut cuts: Vec<u64> = cuts.into_iter().filter(|cut| *cut < at).collect();
            cuts.sort_unstable();
            let mut got: u64 = cuts.iter().map(|cut| on_cpu.pass(*cut, false)).sum();
            got += on_cpu.end(at);
            prop_assert_eq!(got, off);
        }
    }
}
