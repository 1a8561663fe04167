//! The clock of active threads: every instant is divided among them, and while there is none it goes to the wait that
//! ends this.

/// See above. Times are ns.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Until the first thread is active nothing is divided.
    started: bool,
    time: u64,
    active: u32,
    /// What a thread has gained that was active all the time.
    pub gained: f64,
    /// Time with an active thread.
    pub busy: u64,
    /// Time without, that was ended.
    pub idle: u64,
    /// Time without since the last thread blocked.
    open: u64,
    /// Time at each number of active threads.
    pub histogram: Vec<u64>,
}

/// Degrees of parallelism that are told apart.
const MOST_ACTIVE: usize = 4096;

impl Activity {
    /// Active threads.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Goes on to a time; a record that comes late changes nothing of what was.
    pub fn advance(&mut self, time: u64) {
        let passed = if self.started { time.saturating_sub(self.time) } else { 0 };
        self.time = self.time.max(time);
        let level = (self.active as usize).min(MOST_ACTIVE);
        if self.histogram.len() <= level {
            self.histogram.resize(level + 1, 0);
        }
        self.histogram[level] += passed;
        if self.active > 0 {
            self.gained += passed as f64 / f64::from(self.active);
            self.busy += passed;
        } else {
            self.open += passed;
        }
    }

    /// One more thread is active; gives the time for which none was, if this ends it.
    pub fn begins(&mut self) -> u64 {
        let ended = if self.active == 0 { std::mem::take(&mut self.open) } else { 0 };
        self.idle += ended;
        self.active += 1;
        self.started = true;
        ended
    }

    /// One thread less is active.
    pub fn ends(&mut self) {
        self.active = self.active.saturating_sub(1);
    }

    /// The time for which no thread has been active up to now, for who is the last to wait.
    pub fn take_open(&mut self) -> u64 {
        let open = std::mem::take(&mut self.open);
        self.idle += open;
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_is_given_to_somebody() {
        let mut activity = Activity::default();
        activity.advance(110);
        assert_eq!(activity.begins(), 0);
        activity.advance(130);
        let before = activity.gained;
        assert_eq!(activity.begins(), 0);
        activity.advance(150);
        // Late.
        activity.advance(140);
        assert_eq!((activity.gained - before, activity.active()), (10.0, 2));
        activity.ends();
        activity.ends();
        activity.advance(155);
        assert_eq!(activity.begins(), 5);
        activity.ends();
        activity.advance(157);
        assert_eq!((activity.busy, activity.idle), (40, 5));
        assert_eq!(activity.take_open(), 2);
        assert_eq!((activity.idle, activity.histogram), (7, vec![7, 20, 20]));
    }
}
