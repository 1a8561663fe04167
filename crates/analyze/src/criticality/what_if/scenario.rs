//! Predictions: which stretches are replayed, with which loads, and what bounds follow.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedTables, WaitKind};

use super::super::Source;
use super::candidate::{Candidate, What};
use super::chain::{Chain, Doing, WaitedFor};
use super::demand::Queues;
use super::density::{Code, Density, MOST_CODES};
use super::fixed_rate::fixed_rate;
use super::hidden::Hidden;
use super::hold::{Holds, holds};
use super::lock::{Chains, Held, LockKey, held, keys};
use super::meeting::Meetings;
use super::polling::Polling;
use super::replay::{Lag, Load, replay};
use super::timeline::Timelines;
use super::trace::{Ending, Piece, Possession, Step, Trace, Wait, trace};

/// Steps that may be replayed in all: what a fraction of a second allows.
const STEPS: usize = 8_000_000;
/// Stretches at most, if the run as a whole has too many steps.
const STRETCHES: i64 = 24;
/// Standard errors of a sampled share that bounds allow for.
const ERRORS: f64 = 1.645;
/// What a replay may be wrong by, as a part of the saving: order of threads that come to a lock anew, caches, clocks; and where
/// nobody runs beside the first thread.
const MODEL: f64 = 0.1;
const MODEL_ALONE: f64 = 0.03;
/// Which part of the time that other programs took may lie elsewhere than the replay has it: measured beside busy loops.
const OTHERS: f64 = 0.1;

/// Shares of the elapsed time, 0.0–1.0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Saving {
    pub low: f64,
    pub best: f64,
    pub high: f64,
}

/// A stretch with what is needed to replay it.
struct Stretch {
    trace: Trace,
    density: Density,
    /// Waits that were seen one by one.
    waited: WaitedFor,
    /// Part of the run that it stands for.
    weight: f64,
}

/// What to believe where a recording does not tell.
#[derive(Clone, Copy)]
struct Belief {
    /// Standard errors added to shares.
    errors: f64,
    /// Whatever comes from outside comes at its own time.
    elastic: bool,
    /// Place between the least and the most that a lock may have been held.
    held: f64,
    /// Who is waited for in a loop is late all the time, not now and then.
    behind: bool,
}

const LOW: Belief = Belief { errors: -ERRORS, elastic: true, held: 1.0, behind: false };
const BEST: Belief = Belief { errors: 0.0, elastic: true, held: 0.9, behind: true };
const HIGH: Belief = Belief { errors: ERRORS, elastic: false, held: 0.0, behind: true };

/// Per candidate a saving for each speed-up.
pub(super) fn savings(source: &Source<'_>, candidates: &[Candidate], speedups: &[f64]) -> Vec<Vec<Saving>> {
    let codes: Vec<Code> = candidates.iter().filter_map(code_of).take(MOST_CODES).collect();
    let timelines = Timelines::new(source.tables);
    let fixed = fixed_rate(source.tables, &timelines);
    let keys = keys(source);
    let holds = holds(source, &timelines, &keys);
    let locks = held(source, &timelines, &keys, &holds);
    // Each step looks at all groups.
    let runs = (candidates.len() * (speedups.len() + 1) * 3 * source.sharing.groups()).max(1);
    let (polling, queues) = (Polling::new(source, &timelines), Queues::new(source));
    let stretches =
        |meet| stretches(source, (&timelines, &polling, &queues), (&holds, &keys), &fixed, &codes, STEPS / runs, meet);
    let (loose, strict) = (stretches(Meetings::Barriers), stretches(Meetings::AllTogether));
    let model = if source.tables.tasks.len() == 1 { MODEL_ALONE } else { MODEL };
    let (start, end) = super::span(source);
    let is_measured = |row: u32| locks.iter().any(|lock| lock.is_measured() && lock.is_waited_for(source, row));
    let measured: Vec<bool> = (0..source.tables.waits.len() as u32).map(is_measured).collect();
    let predictor = Predictor {
        source,
        codes: &codes,
        locks: &locks,
        measured: &measured,
        mutexes: &holds,
        keys: &keys,
        elapsed: (end - start) as f64,
    };
    let chains = Chains::new(source, &timelines, &locks);
    let hidden = Hidden::new(source);
    candidates
        .iter()
        .map(|candidate| {
            let hit = |row: u32| is_sped_up(source, candidate, row);
            let mark = |stretch: &Stretch| stretch.trace.waits.iter().map(|wait| hit(wait.row)).collect();
            let of_locks = {
                let number = codes.iter().position(|&other| Some(other) == code_of(candidate));
                let first = loose.first().zip(number.filter(|_| matches!(candidate.what, What::Code(_))));
                chains.shares(locks.iter().map(|lock| {
                    let sampled = |(Stretch { trace, density, .. }, number): (&Stretch, usize)| {
                        lock.sampled(source, trace, density, number)
                    };
                    let running = match candidate.what {
                        What::Code(code) => lock.running(source, code).max(first.map_or(0.0, sampled)),
                        // Who holds it then keeps nobody from going on.
                        What::Contention(ref rows, _) => {
                            let is_it = |&row: &u32| lock.is_waited_for(source, row);
                            f64::from(u8::from(rows.first().is_some_and(is_it)))
                        }
                        _ => 0.0,
                    };
                    running + lock.waiting(source, &timelines, hit)
                }))
            };
            // Who waits for a lock waits for less of what is done under it.
            let part = |row: u32| match locks.iter().position(|lock| lock.is_waited_for(source, row)) {
                _ if hit(row) => Part::Marked,
                Some(lock) if locks[lock].is_saturated() => Part::Saturated(of_locks[lock]),
                Some(lock) => Part::Queued(of_locks[lock]),
                None => Part::Other,
            };
            let marks = Marks {
                waits: loose.iter().map(mark).collect(),
                paused: timelines.merged.iter().map(|rows| paused(source.tables, rows, part)).collect(),
                locks: of_locks.clone(),
                spun: spun(source, hit),
            };
            let predict = |stretches, belief| predictor.predict(candidate, &marks, stretches, speedups, belief);
            let (low, best, high) = (predict(&strict, LOW), predict(&loose, BEST), predict(&loose, HIGH));
            let unseen = match &candidate.what {
                What::Waits(rows, _) => hidden.idle_ns(source, rows) as f64 / predictor.elapsed.max(1.0),
                _ => 0.0,
            };
            let saving = |at: usize| {
                let (low, best, high) = (low[at], best[at], high[at]);
                let (least, most) = (low.min(best).min(high), low.max(best).max(high));
                // What the recording took may lie in the candidate or elsewhere, and so may what other programs did.
                let (own, lost) = (1.0 - source.overhead, OTHERS * source.contention.of_run);
                let low = least * (1.0 - model) * own * (1.0 - lost);
                let high = (most * (1.0 + model) / own).min(1.0);
                // A run of nothing else would take as much less.
                let bound = 1.0 - 1.0 / speedups[at];
                let high = high.max(unseen * bound);
                Saving { low: low.min(bound), best: best.min(bound), high: (high + (1.0 - high) * lost).min(bound) }
            };
            (0..speedups.len()).map(saving).collect()
        })
        .collect()
}

/// The whole run if it has few enough steps, else stretches spread evenly over it.
fn stretches(
    source: &Source<'_>,
    (timelines, polling, queues): (&Timelines, &Polling, &Queues),
    known: (&Holds, &[Option<LockKey>]),
    fixed: &[bool],
    codes: &[Code],
    steps: usize,
    meet: Meetings,
) -> Vec<Stretch> {
    let (start, end) = super::span(source);
    // A wait is about three steps: work, what ends it, and itself.
    let waits: usize = timelines.single.iter().map(Vec::len).sum();
    let mut spans = vec![(start, end, end - start)];
    if waits * 3 > steps {
        let all = &source.tables.waits;
        let each = (steps / 3 / STRETCHES as usize).max(100);
        let place = |n: i64| start + (end - start) / STRETCHES * n;
        spans = (0..STRETCHES)
            .map(|n| {
                let first = all.partition_point(|wait| wait.end_ns <= place(n));
                let until = all.get(first + each).map_or(end, |wait| wait.end_ns);
                (place(n), until.clamp(place(n) + 1, place(n + 1).max(place(n) + 1)), place(n + 1) - place(n))
            })
            .collect();
    }
    let stretch = |(from, to, stands_for): (i64, i64, i64)| {
        let mut trace = trace(source, (timelines, polling, queues), known, (from, to), meet);
        for wait in &mut trace.waits {
            let row = &source.tables.waits[wait.row as usize];
            wait.elastic = wait.ending == Ending::Time && fixed.get(row.task as usize) == Some(&true);
        }
        let density = Density::new(source, codes, &queues.pooling, &trace);
        let waited = waited_for(source, &trace);
        Stretch { trace, density, waited, weight: stands_for as f64 / (end - start).max(1) as f64 }
    };
    spans.into_iter().map(stretch).collect()
}

/// The waits of a stretch that another thread ends, by pairs.
fn waited_for(source: &Source<'_>, trace: &Trace) -> WaitedFor {
    let mut waited: FxHashMap<(u32, u32), f64> = FxHashMap::default();
    for wait in trace.waits.iter().filter(|wait| wait.ending == Ending::Token) {
        let row = &source.tables.waits[wait.row as usize];
        if let Some(party) = row.holder.or(row.waker) {
            *waited.entry((row.task, party.task)).or_default() += wait.ns;
        }
    }
    let mut waited: WaitedFor = waited.into_iter().map(|((waiter, other), ns)| (waiter, other, ns)).collect();
    waited.sort_unstable_by_key(|&(waiter, other, _)| (waiter, other));
    waited
}

/// What a candidate speeds up beside code.
struct Marks {
    /// Of each stretch its waits.
    waits: Vec<Vec<bool>>,
    /// Part of each lock's time.
    locks: Vec<f64>,
    /// Of each thread's waits that were not seen one by one.
    paused: Vec<Paused>,
    /// Part of the time that each thread spins in which it spins for one of the waits.
    spun: FxHashMap<u32, f64>,
}

/// Parts of the time of waits that were not seen one by one.
#[derive(Debug, Clone, Default, PartialEq)]
struct Paused {
    /// What the candidate speeds up itself.
    marked: f64,
    /// What waits for a lock that is held for less; ...
    saturated: f64,
    /// ... and where it is free at times: fewer wait, and each for less.
    queued: f64,
    /// What no other thread ends.
    own: f64,
    /// What other threads end, by thread: it takes less where they have less to do.
    for_others: Vec<(u32, f64)>,
}

/// What a candidate speeds up of a wait.
#[derive(Clone, Copy)]
enum Part {
    /// All of it.
    Marked,
    /// Of the time of a lock that is never free, ...
    Saturated(f64),
    /// ... or of another lock, so much.
    Queued(f64),
    Other,
}

fn paused(tables: &SchedTables, rows: &[u32], part: impl Fn(u32) -> Part) -> Paused {
    let (mut sum, mut whole) = (Paused::default(), 0.0);
    for &row in rows {
        let wait = &tables.waits[row as usize];
        let ns = wait.ns as f64;
        whole += ns;
        let part = part(row);
        let other = wait.holder.as_ref().or(wait.waker.as_ref()).filter(|_| !matches!(part, Part::Marked));
        let mut rest = ns;
        match part {
            Part::Marked => sum.marked += ns,
            Part::Saturated(part) => (rest, sum.saturated) = (ns * (1.0 - part), sum.saturated + ns * part),
            Part::Queued(part) => (rest, sum.queued) = (ns * (1.0 - part), sum.queued + ns * part),
            Part::Other => {}
        }
        match other.map(|other| (other.task, sum.for_others.iter_mut().find(|(task, _)| *task == other.task))) {
            Some((_, Some((_, others)))) => *others += rest,
            Some((task, None)) => sum.for_others.push((task, rest)),
            None => sum.own += rest,
        }
    }
    let whole = f64::max(whole, 1.0);
    let part = |ns: f64| ns / whole;
    sum.for_others.sort_unstable_by_key(|(task, _)| *task);
    let for_others = sum.for_others.into_iter().map(|(task, ns)| (task, part(ns))).collect();
    Paused {
        marked: part(sum.marked),
        saturated: part(sum.saturated),
        queued: part(sum.queued),
        own: part(sum.own),
        for_others,
    }
}

/// Per thread, the part of the time that it spins in which it spins for a wait that is sped up.
fn spun(source: &Source<'_>, hit: impl Fn(u32) -> bool) -> FxHashMap<u32, f64> {
    let part = |waits: &Vec<(u32, f64)>| waits.iter().filter(|(row, _)| hit(*row)).map(|(_, part)| part).sum::<f64>();
    let parts = source.correction.sleepers.iter().map(|(&task, waits)| (task, part(waits)));
    parts.filter(|&(_, part)| part > 0.0).collect()
}

/// The code that goes with a candidate.
fn code_of(candidate: &Candidate) -> Option<Code> {
    match candidate.what {
        What::Code(code) => Some(code),
        What::Waits(_, code) => code,
        What::Contention(_, code) => Some(code),
        What::Cpus | What::Unpinned => None,
    }
}

/// Whether the candidate speeds a wait up.
fn is_sped_up(source: &Source<'_>, candidate: &Candidate, row: u32) -> bool {
    let wait = &source.tables.waits[row as usize];
    match &candidate.what {
        What::Waits(rows, _) | What::Contention(rows, _) => rows.binary_search(&row).is_ok(),
        What::Code(code) if wait.waker.is_none() && wait.holder.is_none() => {
            // A sleep, or what comes from outside, is no work of the function that waits for it.
            let of_files = wait.kind.is_of_files() || wait.kind == WaitKind::PageFault;
            let works = of_files || matches!(code, Code::Inclusive(_));
            let path = source.wait_stacks[row as usize].and_then(|stack| source.paths.stack(stack));
            works && path.is_some_and(|facts| code.covers(source, facts.path))
        }
        _ => false,
    }
}

struct Predictor<'a> {
    source: &'a Source<'a>,
    codes: &'a [Code],
    locks: &'a [Held],
    /// By row: the holds of the lock that it waits for are known from its calls.
    measured: &'a [bool],
    /// Those that are replayed as they are, and the lock of each row.
    mutexes: &'a Holds,
    keys: &'a [Option<LockKey>],
    /// Of the whole run, ns.
    elapsed: f64,
}

impl Predictor<'_> {
    /// What each speed-up saves. What the replay is off by as the run was, without one, it is off by with one, too.
    fn predict(
        &self,
        candidate: &Candidate,
        marks: &Marks,
        stretches: &[Stretch],
        speedups: &[f64],
        belief: Belief,
    ) -> Vec<f64> {
        let (mut base, mut changed) = (0.0, vec![0.0; speedups.len()]);
        for (stretch, waits) in stretches.iter().zip(&marks.waits) {
            let part = stretch.weight / (stretch.trace.end_ns - stretch.trace.start_ns) as f64;
            let replayed = |speedup| self.replayed(candidate, (waits.as_slice(), marks), stretch, speedup, belief);
            let before = replayed(1.0);
            base += part * before;
            for (changed, &speedup) in changed.iter_mut().zip(speedups) {
                *changed += part * replayed(speedup).min(before);
            }
        }
        let saving = |(changed, &speedup): (f64, &f64)| {
            let floor = self.locks.iter().zip(&marks.locks).map(|(lock, share)| {
                lock.ns(belief.held) * (1.0 - (1.0 - 1.0 / speedup) * share) / self.elapsed.max(1.0)
            });
            let after = (changed / f64::max(base, 1e-9)).max(floor.fold(0.0, f64::max));
            (1.0 - after).clamp(0.0, 1.0)
        };
        changed.into_iter().zip(speedups).map(saving).collect()
    }

    /// Whether the wait is for a lock that was held, from its begin to its end, in `code`.
    fn holds(&self, wait: &Wait, code: Code) -> bool {
        let holder = wait.held.and_then(|stack| self.source.paths.stack(stack)).map(|facts| facts.path);
        holder.is_some_and(|path| code.covers(self.source, path))
    }

    /// Time that a stretch takes with the candidate sped up, ns.
    fn replayed(
        &self,
        candidate: &Candidate,
        (waits, marks): (&[bool], &Marks),
        stretch: &Stretch,
        speedup: f64,
        belief: Belief,
    ) -> f64 {
        let gain = 1.0 - 1.0 / speedup;
        let Stretch { trace, density, .. } = stretch;
        let paused = marks.paused.as_slice();
        // A shorter wait has the same call, and the same queue for a CPU after it.
        let remains = matches!(candidate.what, What::Waits(..)) && speedup.is_finite();
        let code = code_of(candidate).filter(|_| !remains);
        let code = code.and_then(|code| self.codes.iter().position(|&other| other == code));
        let mut work: Vec<f64> = Vec::with_capacity(trace.pieces.len());
        let mut doing = vec![Doing::default(); paused.len()];
        let mut paused_ns = vec![0.0; paused.len()];
        for (number, piece) in trace.pieces.iter().enumerate() {
            let less = code.map_or(0.0, |code| {
                let share = density.code(number, code) * (1.0 + belief.errors * density.error(code)).max(0.0);
                gain * share + density.spin(number, piece.task, code, gain, belief.behind)
            });
            let spun = marks.spun.get(&piece.task).map_or(0.0, |part| gain * part * density.spinning(number));
            let less = (less + spun).clamp(0.0, 1.0);
            work.push(piece.work() * (1.0 - less));
            let (Paused { marked, own, .. }, pause) = (&paused[piece.task as usize], f64::from(piece.pause));
            paused_ns[piece.task as usize] += pause;
            doing[piece.task as usize].add(piece.work() + pause * own, piece.work() * less + pause * gain * marked);
        }
        let mut summed = WaitedFor::new();
        for (task, (Paused { for_others, .. }, ns)) in (0..).zip(paused.iter().zip(&paused_ns)) {
            summed.extend(for_others.iter().map(|&(other, part)| (task, other, ns * part)));
        }
        for (wait, &mark) in trace.waits.iter().zip(waits).filter(|(wait, _)| wait.ending == Ending::Time) {
            let task = self.source.tables.waits[wait.row as usize].task;
            doing[task as usize].add(wait.ns, if mark { wait.ns * gain } else { 0.0 });
        }
        let chain = Chain::new(doing, &stretch.waited, &summed);
        let saved = |(task, Paused { marked, saturated, queued, for_others, .. }): (u32, &Paused)| {
            let for_others = for_others.iter().map(|&(other, part)| part * chain.saved(task, other));
            gain * (marked + saturated) + (1.0 - (1.0 - gain).powi(2)) * queued + for_others.sum::<f64>()
        };
        let saved: Vec<f64> = (0..).zip(paused).map(saved).collect();
        let pause = |piece: &Piece| f64::from(piece.pause) * (1.0 - saved[piece.task as usize]).max(0.0);
        let pauses: Vec<f64> = trace.pieces.iter().map(pause).collect();
        // Who waits less often queues less often; and behind threads of the program for as much less as these have less to do,
        // or more CPUs.
        let (left, all) = (work.iter().sum::<f64>(), trace.pieces.iter().map(Piece::work).sum::<f64>());
        let others = self.source.contention.of_queue;
        let before_it = match candidate.what {
            What::Cpus | What::Unpinned => 1.0 / speedup,
            _ => left / all.max(1.0),
        };
        let behind = others + (1.0 - others) * before_it;
        let lag = |(piece, work): (&Piece, &f64)| {
            let part = if piece.pause > 0.0 { saved[piece.task as usize] } else { 0.0 };
            // Who works for less time loses its CPU less often.
            let works = if piece.work() > 0.0 { work / piece.work() } else { 1.0 };
            let lag = |ns: f32, part: f64| f64::from(ns) * part * behind;
            Lag { woken: lag(piece.lag, (1.0 - part).max(0.0)), preempted: lag(piece.preempted, works) }
        };
        let lags: Vec<Lag> = trace.pieces.iter().zip(&work).map(lag).collect();
        let wait = |(wait, &mark): (&Wait, &bool)| {
            let ns = if mark { wait.ns * (1.0 - gain) } else { wait.ns };
            (ns, wait.elastic && belief.elastic)
        };
        let waits: Vec<(f64, bool)> = trace.waits.iter().zip(waits).map(wait).collect();
        // Who comes while the holder is in the code in question waits for what is left of that; if it comes earlier now,
        // it is first.
        let limit = |wait: &Wait| match &candidate.what {
            What::Code(code) if self.holds(wait, *code) => wait.ns * (1.0 - gain),
            What::Contention(rows, _) if rows.binary_search(&wait.row).is_ok() => wait.ns * (1.0 - gain),
            // Who holds a mutex when is chance: nobody has to come after the one that it came after. How long the run takes at least
            // follows from all holds.
            _ if self.measured[wait.row as usize] => wait.ns,
            _ => f64::INFINITY,
        };
        let limits: Vec<f64> = trace.waits.iter().map(limit).collect();
        // A lock that is split makes nobody wait.
        let split = match &candidate.what {
            What::Contention(rows, _) if gain > 0.0 => {
                rows.first().and_then(|&row| self.mutexes.find(self.keys[row as usize]))
            }
            _ => None,
        };
        let patience = |hold: &Possession| {
            if split == Some(hold.mutex as usize) { hold.waited * (1.0 - gain) } else { f64::INFINITY }
        };
        let patience: Vec<f64> = trace.holds.iter().map(patience).collect();
        let more = match candidate.what {
            What::Cpus => Some(self.source.sharing.times(speedup)),
            What::Unpinned => Some(self.source.sharing.unpinned(speedup)),
            _ => None,
        };
        let sharing = more.as_ref().unwrap_or(&self.source.sharing);
        let before = (trace.end_ns - trace.start_ns) as f64;
        let (work, waits, limits, patience, pauses, lags) = (&work, &waits, &limits, &patience, &pauses, &lags);
        let done = replay(&Load { trace, work, waits, limits, patience, pauses, lags, sharing });
        finish(trace, &done).unwrap_or(before)
    }
}

/// When the stretch is over: with the program's last thread, else with the work of all.
fn finish(trace: &Trace, done: &[Option<f64>]) -> Option<f64> {
    if let Some(last) = trace.last {
        let others = done.iter().zip(&trace.ended).filter(|(_, ended)| **ended).filter_map(|(done, _)| *done);
        return Some(others.fold(done[last as usize]?, f64::max));
    }
    // Whoever worked at the end of the stretch would have gone on: on the average they are done by so much earlier.
    let end = (trace.end_ns - trace.start_ns) as f64;
    let mut sums = (0.0, 0.0);
    for (&(first, until), done) in trace.threads.iter().zip(done) {
        let Some(Step::Work(piece) | Step::Pause(piece)) = trace.steps[first as usize..until as usize].last() else {
            continue;
        };
        let piece = &trace.pieces[*piece as usize];
        if piece.end_ns < trace.end_ns {
            continue;
        }
        let work = |step: &Step| match step {
            Step::Work(piece) => trace.pieces[*piece as usize].work(),
            _ => 0.0,
        };
        let busy: f64 = trace.steps[first as usize..until as usize].iter().map(work).sum();
        sums = (sums.0 + busy * done.unwrap_or(end), sums.1 + busy);
    }
    if sums.1 > 0.0 {
        return Some(sums.0 / sums.1);
    }
    done.iter().flatten().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{OtherThread, SchedWait};

    use super::*;

    #[test]
    fn waits_that_were_summed_up_are_sped_up_with_the_rest() {
        let wait = |kind, ns, waker| SchedWait {
            task: 0,
            kind,
            object: "".into(),
            stack: None,
            holder: None,
            waker,
            count: 9,
            begin_ns: 0,
            end_ns: 1000,
            ns,
            idle_ns: 0,
            holder_gain_ns: 0,
        };
        let other = Some(OtherThread { task: 1, stack: None });
        let waits =
            vec![wait(WaitKind::FileSync, 50, None), wait(WaitKind::Mutex, 30, other), wait(WaitKind::Sleep, 20, None)];
        let tables = SchedTables { waits, ..SchedTables::default() };
        assert_eq!(
            paused(&tables, &[0, 1, 2], |row| if row == 0 { Part::Marked } else { Part::Other }),
            Paused { marked: 0.5, own: 0.7, for_others: vec![(1, 0.3)], ..Paused::default() }
        );
        let of_lock = paused(&tables, &[0, 1, 2], |row| if row == 1 { Part::Queued(0.5) } else { Part::Other });
        assert_eq!(of_lock, Paused { queued: 0.15, own: 0.7, for_others: vec![(1, 0.15)], ..Paused::default() });
        assert_eq!(paused(&tables, &[], |_| Part::Marked), Paused::default());
    }
}
