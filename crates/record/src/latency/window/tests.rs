use super::*;

/// Timing that costs so much and shows nothing of it.
fn costing(ticks: f64) -> TimedCall {
    TimedCall { empty: 0, added: 0, cost_ticks: ticks, empty_cost_ticks: ticks, count_ticks: 0.0, arming_ticks: 0.0 }
}

const EPOCH: u64 = 20_000_000;

/// Of a thread that is never kept waiting.
fn runs(count: u64) -> Option<Runs> {
    Some(Runs { count, queued_ns: 0 })
}

/// One call each `interval` busy ticks; the process runs for `share` of each epoch, in one piece.
fn estimate(interval: f64, share: f64, epochs: u64) -> (f64, f64) {
    let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
    busy.start(0, 0.0);
    let (grant, mut seen, mut on) = (100, 0, OnTime::default());
    for epoch in 0..epochs {
        if epoch > 0 {
            busy.advance(epoch * EPOCH, share * (epoch * EPOCH) as f64, 1.0, 1, None);
        }
        if epoch > 0 {
            windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
        }
        windows.arm(grant, &busy);
        // Armed at a random place of the epoch: it runs, or it will after the wait.
        let waits = (epoch * 7919 % 1000) as f64 >= share * 1000.0;
        on.calls += (interval * f64::from(grant)) as u64;
        let waited = if waits { (1.0 - share) * EPOCH as f64 / 2.0 } else { 0.0 };
        on.until_first += ((interval + waited) as u64 >> UNTIL_FIRST_SHIFT) as u32;
        seen += u64::from(grant) + 1;
    }
    busy.advance(epochs * EPOCH, share * (epochs * EPOCH) as f64, 1.0, 1, None);
    windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
    let truth = share * (epochs * EPOCH) as f64 / interval;
    (seen as f64 + windows.unseen(Timed::default(), &costing(0.0), &busy).calls, truth)
}

#[test]
fn hot_functions_of_a_process_that_always_runs() {
    for interval in [5.0, 50.0, 2_000.0] {
        let (calls, truth) = estimate(interval, 1.0, 500);
        assert!((calls / truth - 1.0).abs() < 0.03, "{interval}: {calls} of {truth}");
    }
}

/// The cost of timing was measured while the machine was slow, and comes out as more than the whole window.
#[test]
fn calls_do_not_follow_faster_than_they_last() {
    let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
    busy.start(0, 0.0);
    let (grant, interval, duration) = (100, 60, 50);
    let (mut on, mut timed) = (OnTime::default(), Timed::default());
    for epoch in 1..=100 {
        windows.arm(grant, &busy);
        busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, 1, None);
        on.calls += (interval + 100) * u64::from(grant);
        timed = timed.with(Timed { samples: grant.into(), ticks: duration * u64::from(grant) });
        windows.close(on, timed, &costing(200.0), 200.0 * f64::from(grant), &busy);
    }
    let (calls, truth) =
        (windows.unseen(Timed::default(), &costing(200.0), &busy).calls, (100 * EPOCH / interval) as f64);
    assert!((0.9..1.3).contains(&(calls / truth)), "{calls} of {truth}");
}

/// A function that is called every 10 million ticks, of which the process sleeps half; the probe is on nearly all the time.
#[test]
fn windows_longer_than_the_sleeps_in_them_have_seen_all() {
    let (mut busy, mut windows, mut on) = (BusyTime::default(), Windows::default(), OnTime::default());
    busy.start(0, 0.0);
    let (mut armed, mut calls) = (0, 0);
    windows.arm(100, &busy);
    for epoch in 1..=2000u64 {
        let now = epoch * EPOCH;
        busy.advance(now, now as f64 / 2.0, 1.0, 1, runs(2 * epoch));
        let seen = now / 10_000_000;
        if seen - armed > 100 {
            on.calls += 100 * 10_000_000;
            windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
            (armed, calls) = (seen, seen);
            windows.arm(100, &busy);
        }
    }
    let unseen = windows.unseen(Timed::default(), &costing(0.0), &busy).calls;
    assert!(unseen < (calls / 25) as f64, "{unseen} calls beside {calls}");
}

/// The kernel updates CPU time every 8.4 million ticks; `cost` ticks are what timing adds to a call of 1,000.
#[test]
fn steps_of_the_clock_and_the_cost_of_timing_are_no_bias() {
    let (mut busy, mut windows, mut on) = (BusyTime::default(), Windows::default(), OnTime::default());
    busy.start(0, 0.0);
    for epoch in 1..=500u64 {
        windows.arm(100, &busy);
        on.calls += 100 * 1_500;
        let used = epoch * EPOCH / 8_400_000 * 8_400_000;
        busy.advance(epoch * EPOCH, used as f64, 1.0, 1, runs(1));
        windows.close(on, Timed::default(), &costing(500.0), 50_000.0, &busy);
    }
    let seen = 500.0 * 101.0;
    let truth = 500.0 * EPOCH as f64 / 1_000.0;
    let ratio = (seen + windows.unseen(Timed::default(), &costing(0.0), &busy).calls) / truth;
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
}

/// It runs for 5 million ticks and sleeps for 1 million; windows of 100 calls of 300,000 ticks have such sleeps in them.
#[test]
fn waits_in_long_windows_are_taken_off() {
    let (mut busy, mut windows, mut on) = (BusyTime::default(), Windows::default(), OnTime::default());
    busy.start(0, 0.0);
    let epoch_length = 120_000_000;
    for epoch in 1..=200u64 {
        windows.arm(100, &busy);
        on.calls += 36_000_000;
        busy.advance(epoch * epoch_length, (epoch * epoch_length) as f64 * 5.0 / 6.0, 1.0, 1, runs(epoch * 20));
        windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
    }
    let truth = 200.0 * epoch_length as f64 * 5.0 / 6.0 / 300_000.0;
    let ratio = (200.0 * 101.0 + windows.unseen(Timed::default(), &costing(0.0), &busy).calls) / truth;
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

#[test]
fn a_process_that_waits_for_cpus_does_not_look_idle() {
    let (calls, truth) = estimate(10.0, 0.6, 2_000);
    // Windows that met a wait say too little, the others the truth: within a factor of four, not of a thousand.
    assert!(calls / truth > 0.25 && calls / truth < 1.2, "{calls} of {truth}");
}

/// A program on a crowded machine: a function is called every `interval` ticks that it runs, by turns it runs and is kept
/// waiting for a CPU. The kernel updates its CPU time every 8.4 million ticks, and when it stops. Gives the calls
/// estimated for each made.
struct Crowded {
    seed: u64,
    wall: u64,
    visible: u64,
    cpu: u64,
    runs: Runs,
    next_epoch: u64,
    busy: BusyTime,
    windows: Windows,
    on: OnTime,
    armed_at: u64,
    first: Option<u64>,
    in_window: u32,
    armed: bool,
}

const GRANT: u32 = 8;

impl Crowded {
    fn random(&mut self, most: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % most
    }

    /// Epochs up to now.
    fn catch_up(&mut self) {
        while self.next_epoch <= self.wall {
            self.busy.advance(self.next_epoch, self.visible as f64, 1.0, 1, Some(self.runs));
            if !self.armed {
                self.windows.close(self.on, Timed::default(), &costing(0.0), f64::from(GRANT) * COST, &self.busy);
                self.windows.arm(GRANT, &self.busy);
                (self.armed, self.armed_at, self.first, self.in_window) = (true, self.next_epoch, None, 0);
            }
            self.next_epoch += EPOCH;
        }
    }

    fn run(&mut self, ticks: u64) {
        if (self.wall + ticks) / 8_400_000 > self.wall / 8_400_000 {
            self.visible = self.cpu;
        }
        (self.wall, self.cpu) = (self.wall + ticks, self.cpu + ticks);
    }

    fn call(&mut self) -> u64 {
        self.catch_up();
        if !self.armed {
            return 0;
        }
        let first = *self.first.get_or_insert_with(|| {
            self.on.until_first += ((self.wall - self.armed_at) >> UNTIL_FIRST_SHIFT) as u32;
            self.wall
        });
        self.in_window += 1;
        if self.in_window <= GRANT {
            return COST as u64;
        }
        self.on.calls += self.wall - first;
        self.armed = false;
        0
    }
}

const COST: f64 = 10_000.0;

fn crowded(seed: u64, waits: bool, interval: u64) -> f64 {
    let mut crowded = Crowded {
        seed,
        wall: 0,
        visible: 0,
        cpu: 0,
        runs: Runs::default(),
        next_epoch: EPOCH,
        busy: BusyTime::default(),
        windows: Windows::default(),
        on: OnTime::default(),
        armed_at: 0,
        first: None,
        in_window: 0,
        armed: true,
    };
    crowded.busy.start(0, 0.0);
    crowded.windows.arm(GRANT, &crowded.busy);
    let (mut made, mut seen) = (0_u64, 0_u64);
    while crowded.wall < 200 * EPOCH {
        let mut left = 8_000_000 + crowded.random(12_000_000);
        while left > 0 {
            seen += u64::from(crowded.armed);
            let cost = crowded.call();
            crowded.run(interval + cost);
            made += 1;
            left = left.saturating_sub(interval + cost);
        }
        crowded.visible = crowded.cpu;
        let waited = if waits { 8_000_000 + crowded.random(24_000_000) } else { 0 };
        crowded.wall += waited;
        crowded.catch_up();
        crowded.runs.queued_ns += waited;
        crowded.runs.count += 1;
    }
    let unseen = crowded.windows.unseen(Timed::default(), &costing(0.0), &crowded.busy).calls;
    (seen as f64 + unseen) / made as f64
}

/// 33 calls within 40 µs, of a process that runs for 200 more in which it ends.
#[test]
fn the_end_of_a_short_process_has_no_calls() {
    let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
    busy.start(0, 0.0);
    windows.arm(32, &busy);
    busy.advance(600_000, 600_000.0, 1.0, 1, None);
    busy.ended();
    windows.close(OnTime { calls: 100_000, until_first: 0 }, Timed::default(), &costing(0.0), 0.0, &busy);
    assert_eq!(windows.unseen(Timed::default(), &costing(0.0), &busy).calls, 0.0);
}

#[test]
fn a_thread_that_is_kept_waiting_is_not_called_in_bursts() {
    for (waits, interval) in [(true, 150_000), (true, 20_000), (false, 150_000), (false, 20_000)] {
        let found: Vec<f64> = (1..=20).map(|seed| crowded(seed, waits, interval)).collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let far = found.iter().filter(|ratio| !(0.67..1.5).contains(*ratio)).count();
        assert!((0.85..1.15).contains(&mean) && far <= 1, "{waits} {interval}: {mean} {found:?}");
    }
}

#[test]
fn single_random_calls_have_no_heavy_tail() {
    // Poisson arrivals, one granted call per window: lengths are sums of two exponential intervals.
    let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
    busy.start(0, 0.0);
    let (mut on, mut random) = (OnTime::default(), 12_345_u64);
    let mut uniform = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    };
    let epochs = 5_000;
    windows.arm(1, &busy);
    for epoch in 1..epochs {
        busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, 1, None);
        on.calls += (-uniform().ln() * 1_000.0) as u64 + 1;
        windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
        windows.arm(1, &busy);
    }
    let truth = (epochs * EPOCH) as f64 / 1_000.0;
    let ratio = windows.unseen(Timed::default(), &costing(0.0), &busy).calls / truth;
    assert!((ratio - 1.0).abs() < 0.25, "{ratio}");
}

/// Bursts of 100,000 calls of 20 ticks in every `cycle` ticks, armed at random and in windows of 100 calls: within a burst.
fn bursts(cycle: u64) -> f64 {
    let (mut busy, mut windows, mut on) = (BusyTime::default(), Windows::default(), OnTime::default());
    busy.start(0, 0.0);
    let epochs = 400;
    for epoch in 1..=epochs {
        windows.arm(100, &busy);
        busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, 1, runs(1));
        let place = epoch * 7_919_000 % cycle;
        let until_first = if place < 2_000_000 { 20 } else { cycle - place };
        on.until_first += (until_first >> UNTIL_FIRST_SHIFT) as u32;
        on.calls += 2_000;
        windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
    }
    let truth = (epochs * EPOCH) as f64 / cycle as f64 * 100_000.0;
    windows.unseen(Timed::default(), &costing(0.0), &busy).calls / truth
}

#[test]
fn time_between_bursts_has_no_calls() {
    for cycle in [2_000_000, 5_000_000, 17_000_000] {
        let ratio = bursts(cycle);
        assert!((0.6..1.4).contains(&ratio), "{cycle}: {ratio}");
    }
}

/// A function that is called every `interval` ticks for `burst` ticks in every `cycle`, by a process that always runs. Its
/// probe is armed at the ends of epochs once its grant is used up, and kept off for every second `turn` epochs. Gives the
/// calls made, those found, and half of the interval about those.
fn bursts_in(interval: u64, burst: u64, cycle: u64, turn: u64, phase: u64) -> (f64, f64, f64) {
    const GRANT: u64 = 100;
    let (mut busy, mut windows, mut on) = (BusyTime::default(), Windows::default(), OnTime::default());
    busy.start(0, 0.0);
    windows.arm(GRANT as u32, &busy);
    let end = 1_000 * EPOCH;
    let next = |at: u64| {
        let place = (at + phase) % cycle;
        if place < burst { at } else { at + cycle - place }
    };
    // When it was armed, its first call, how many there were.
    let (mut armed, mut first, mut calls) = (Some(0), None, 0);
    let (mut at, mut made, mut seen, mut epoch, mut closed) = (next(0), 0_u64, 0_u64, 1, false);
    loop {
        while epoch * EPOCH <= at.min(end) {
            busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, 1, runs(1));
            if closed {
                windows.close(on, Timed::default(), &costing(0.0), 0.0, &busy);
                closed = false;
            }
            let parked = turn > 0 && epoch / turn % 2 == 1;
            if parked && armed.is_some() {
                windows.cut(on, &busy);
                (armed, first, calls) = (None, None, 0);
            }
            if armed.is_none() && !parked {
                windows.arm(GRANT as u32, &busy);
                (armed, first, calls) = (Some(epoch * EPOCH), None, 0);
            }
            windows.age(&busy);
            epoch += 1;
        }
        if at >= end {
            break;
        }
        made += 1;
        if let Some(since) = armed {
            let first = *first.get_or_insert(at);
            seen += 1;
            calls += 1;
            if calls == GRANT + 1 {
                on.until_first += ((first - since) >> UNTIL_FIRST_SHIFT) as u32;
                on.calls += at - first;
                (armed, closed) = (None, true);
            }
        }
        at = next(at + interval);
    }
    let unseen = windows.unseen(Timed::default(), &costing(0.0), &busy);
    (made as f64, seen as f64 + unseen.calls, unseen.error)
}

/// From calls that never stop to bursts of a thousandth of the time, shorter and longer than an epoch.
#[test]
fn calls_in_bursts_are_within_their_interval() {
    let (mut cases, mut outside, mut sums) = (0, 0, Vec::new());
    for (interval, burst, cycle) in [
        (4_000, 20_000_000, 20_000_000),
        (2_000, 60_000_000, 2_104_300_000),
        (2_000, 6_000_000, 213_700_000),
        (2_000, 600_000_000, 1_507_100_000),
        (1_000, 5_000_000, 13_370_000),
        (5_000, 9_000_000, 4_997_300_000),
        (50_000, 3_000_000, 77_730_000),
    ] {
        for turn in [0, 7] {
            let (mut ratios, before) = (0.0, outside);
            for seed in 0..8_u64 {
                let phase = (seed * 2_654_435_761 + 12_345) % cycle;
                let (made, found, error) = bursts_in(interval, burst, cycle, turn, phase);
                cases += 1;
                outside += u32::from((found - made).abs() > error + 0.02 * made);
                ratios += found / made / 8.0;
            }
            sums.push((interval, burst, cycle, turn, ratios, outside - before));
        }
    }
    assert!(outside * 20 <= cases, "{outside} of {cases} outside; {sums:?}");
    assert!(sums.iter().all(|sum| (0.7..1.4).contains(&sum.4)), "{sums:?}");
}

#[test]
fn a_probe_that_was_never_used_up_has_seen_all() {
    let mut busy = BusyTime::default();
    busy.start(0, 0.0);
    let mut windows = Windows::default();
    windows.arm(100, &busy);
    busy.advance(EPOCH * 100, EPOCH as f64 * 100.0, 1.0, 1, None);
    assert_eq!(windows.unseen(Timed::default(), &costing(0.0), &busy), UnseenCalls::default());
}

/// Ten calls in each of 100 epochs, of which one is seen; the i-th epoch's take `took(i)` ticks.
fn estimated_ticks(took: impl Fn(u64) -> u64, first: Timed, threads: usize) -> f64 {
    let (mut busy, mut windows, mut timed) = (BusyTime::default(), Windows::default(), Timed::default());
    busy.start(0, 0.0);
    windows.arm(1, &busy);
    for epoch in 1..=100 {
        busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, threads, None);
        if epoch > 1 {
            timed = timed.with(Timed { samples: 1, ticks: took(epoch) });
        }
        // So long that the calls come at a rate of ten in an epoch: the one after the last granted ends a window.
        windows.close(OnTime { calls: epoch * EPOCH / 15, until_first: 0 }, timed, &costing(0.0), 0.0, &busy);
        windows.arm(1, &busy);
    }
    windows.unseen(first, &costing(0.0), &busy).ticks
}

#[test]
fn calls_that_are_not_seen_take_what_those_about_them_take() {
    let first = Timed { samples: 1, ticks: EPOCH };
    let even = estimated_ticks(|_| 1_000, first, 1);
    let (slow, fast) = (estimated_ticks(|epoch| if epoch > 50 { 30_000 } else { 1_000 }, first, 1), even);
    // Half of the epochs take 30 times as long: 15.5 times in all.
    assert!((slow / fast / 15.5 - 1.0).abs() < 0.05, "{slow} {fast}");
}

#[test]
fn calls_take_no_longer_than_the_threads_have_time() {
    let first = Timed { samples: 1, ticks: EPOCH };
    let one = estimated_ticks(|_| EPOCH, first, 1);
    let four = estimated_ticks(|_| EPOCH, first, 4);
    assert!(one <= 100.0 * EPOCH as f64 && one > 80.0 * EPOCH as f64, "{one}");
    assert!((four / one / 4.0 - 1.0).abs() < 0.05, "{four}");
}

/// A function of a few ticks, called a thousand times on end and then for a long while not: 1 call in 100 ticks on average. It is
/// counted for an epoch now and then, which costs `cost` ticks a call, of which the CPU hides a part.
fn counted_now_and_then(cost: f64, hidden: f64, visits: u64) -> (UnseenCalls, f64, f64) {
    let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
    busy.start(0, 0.0);
    windows.arm(32, &busy);
    windows.cut(OnTime::default(), &busy);
    let (mut now, mut truth, mut seen) = (0.0, 0.0, 0);
    let mut calls = |now: &mut f64, epochs: f64, cost: f64| {
        let calls = epochs * EPOCH as f64 / (100.0 + cost);
        *now += epochs * EPOCH as f64;
        truth += calls;
        calls as u64
    };
    for _ in 0..visits {
        calls(&mut now, 10.0, 0.0);
        busy.advance(now as u64, now, 1.0, 1, None);
        windows.count(&busy);
        let counted = calls(&mut now, 1.0, cost * (1.0 - hidden));
        busy.advance(now as u64, now, 1.0, 1, None);
        windows.counted(counted, cost, &costing(100.0), &busy);
        seen += counted;
    }
    calls(&mut now, 10.0, 0.0);
    busy.advance(now as u64, now, 1.0, 1, None);
    (windows.unseen(Timed { samples: 32, ticks: 32 * 5 }, &costing(0.0), &busy), seen as f64, truth)
}

#[test]
fn calls_of_the_hottest_functions_are_counted_for_a_stretch_of_time() {
    for (cost, hidden) in [(0.0, 0.0), (12.0, 0.0), (12.0, 0.25), (12.0, 0.5), (300.0, 0.2)] {
        let (unseen, seen, truth) = counted_now_and_then(cost, hidden, 20);
        let calls = seen + unseen.calls;
        assert!((calls - truth).abs() <= unseen.error, "{cost} {hidden}: {calls} ± {} of {truth}", unseen.error);
        assert!(cost > 100.0 || (calls / truth - 1.0).abs() < 0.06, "{cost} {hidden}: {calls} of {truth}");
        assert!(unseen.error < truth * 1.5 && unseen.is_known(seen as u64), "{cost} {hidden}: {}", unseen.error);
        // All are as long as those that were timed: counted ones, too.
        assert!((unseen.ticks / (calls * 5.0) - 1.0).abs() < 0.01, "{} for {calls} calls", unseen.ticks);
    }
}
