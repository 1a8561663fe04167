//! A schedule as it was published, and what it means for a stretch of time: computed without the code under test.

/// From a time on: this many active threads, and whether the thread is one of them.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub time: u64,
    /// Until when the old state was read: later than `time` where the publisher lost its CPU in between.
    pub published: u64,
    pub active: u32,
    pub own: bool,
}

/// How long, around `at`, readers saw the state before the change instead of the one that was true, ns.
pub fn unpublished(changes: &[Change], at: u64) -> u64 {
    const AROUND: u64 = 100_000;
    let near = |c: &&Change| c.time <= at + AROUND && at <= c.published + AROUND;
    changes.iter().filter(near).map(|c| c.published - c.time).sum()
}

/// Attributed time and criticality of the thread from `begin` to `end`, ns.
pub fn integrate(changes: &[Change], begin: u64, end: u64) -> (f64, f64) {
    let (mut attributed, mut criticality) = (0.0, 0.0);
    for (i, change) in changes.iter().enumerate() {
        let until = changes.get(i + 1).map_or(u64::MAX, |next| next.time);
        let from = change.time.max(begin);
        let length = until.min(end).saturating_sub(from) as f64;
        if until.min(end) <= from {
            continue;
        }
        attributed += length / f64::from(change.active.max(1));
        if change.own && change.active > 0 {
            criticality += length / f64::from(change.active);
        }
    }
    (attributed, criticality)
}

#[test]
fn integrals_of_a_simple_schedule() {
    let at = |time, active, own| Change { time, published: time, active, own };
    let changes = [at(0, 1, true), at(100, 4, true), at(200, 0, false), at(300, 2, false)];
    assert_eq!(integrate(&changes, 50, 150), (50.0 + 12.5, 50.0 + 12.5));
    assert_eq!(integrate(&changes, 150, 400), (12.5 + 100.0 + 50.0, 12.5));
}
