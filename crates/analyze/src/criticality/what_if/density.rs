//! Which part of each piece of work a path is.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{Origin, SchedSample, WaitKind};

use super::super::Source;
use super::super::call_path::{FunctionId, PathId};
use super::super::spin::spinning_stacks;
use super::demand::{CLASSES, class};
use super::pooling::Pooling;
use super::trace::Trace;

/// Code that may be sped up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// A function without its callees; what runtime libraries do for it is its own, and so are its waits for the disk.
    Own(FunctionId),
    /// A function and its callees.
    Inclusive(FunctionId),
    /// One call that a place makes.
    Call {
        /// See [`super::super::call_path::CallPaths::place`].
        place: FunctionId,
        /// The innermost function.
        call: FunctionId,
    },
    /// The calls of a contended lock, given by kind and object: they are slow because somebody waits for it.
    Contended(WaitKind, u32),
}

impl Code {
    /// Whether a path runs it. What is done at the calls of a contended lock goes with what is done under the lock.
    pub fn covers(self, source: &Source<'_>, path: PathId) -> bool {
        let held_at = source.holders.held_at(path);
        match self {
            Self::Own(function) => source.paths.place(held_at.unwrap_or(path)) == Some(function),
            Self::Inclusive(function) => {
                let has = |path: PathId| source.paths.paths[path as usize].functions.contains(&function);
                has(path) || held_at.is_some_and(has)
            }
            Self::Call { place, call } => {
                source.paths.place(path) == Some(place)
                    && source.paths.paths[path as usize].functions.last() == Some(&call)
            }
            Self::Contended(kind, object) => source.holders.lock_at(path) == Some((kind, object)),
        }
    }
}

/// Samples that the shares of threads count for beside those of pieces of the same signature.
const PRIOR: f32 = 3.0;
/// Samples that pieces of the same signature count for beside a piece's own.
const ALIKE: f32 = 1.0;
/// Samples that a stack which a piece is known to begin with counts for.
const KNOWN: f32 = 8.0;
/// Candidates at most: bits of a mask, of which the last says that a stack spins.
pub(super) const MOST_CODES: usize = 31;
const SPIN: u32 = 31;

/// What a thread that spins waits for.
#[derive(Debug, Clone, Copy, Default)]
struct Spinning {
    /// The candidate's part of what others did while it spun.
    meanwhile: f64,
    /// How much more of the candidate others had to do than itself, for each ns that it spun.
    ahead: f64,
}

/// Shares of candidates in pieces.
pub(super) struct Density {
    codes: usize,
    /// Of each piece: per candidate, then of spinning.
    shares: Vec<f32>,
    /// Of each candidate: samples that it was seen in.
    seen: Vec<i64>,
    /// Of each thread that spins, and each candidate.
    spinning: FxHashMap<u32, Vec<Spinning>>,
    /// Of each candidate: its part of all criticality.
    pub part: Vec<f64>,
}

impl Density {
    /// Share of a candidate in a piece, 0.0–1.0.
    pub fn code(&self, piece: usize, code: usize) -> f64 {
        f64::from(self.shares[piece * (self.codes + 1) + code])
    }

    /// Standard error of a candidate's share, as a part of it: of so many samples it was seen in some (binomial).
    pub fn error(&self, code: usize) -> f64 {
        ((1.0 - self.part[code]).max(0.0) / self.seen[code].max(1) as f64).sqrt()
    }

    /// Share of a piece that is spinning, times the part of it that is not spun if a candidate takes less time by `gain`:
    /// as much as others have less to do while it spins, or, if they are always behind (and `behind`), as they come earlier.
    pub fn spin(&self, piece: usize, task: u32, code: usize, gain: f64, behind: bool) -> f64 {
        let Some(spinning) = self.spinning.get(&task).and_then(|of| of.get(code)) else { return 0.0 };
        let earlier = if behind { gain * spinning.ahead } else { 0.0 };
        let part = (gain * spinning.meanwhile).max(earlier).clamp(0.0, 1.0);
        part * self.spinning(piece)
    }

    /// Share of a piece that is spinning, 0.0–1.0.
    pub fn spinning(&self, piece: usize) -> f64 {
        f64::from(self.shares[piece * (self.codes + 1) + self.codes])
    }

    pub fn new(source: &Source<'_>, codes: &[Code], pooling: &Pooling, trace: &Trace) -> Self {
        let codes = &codes[..codes.len().min(MOST_CODES)];
        let masks = masks(source, codes);
        let width = codes.len() + 1;
        let bits = |mask: u32| {
            (0..width).filter(move |&at| mask >> (if at + 1 == width { SPIN as usize } else { at }) & 1 == 1)
        };
        let priors = Priors::new(source, pooling, &masks, width, &bits);

        // Moments by thread, then by time, as pieces are.
        let tables = source.tables;
        // Samples count by the time that they stand for, in units of the mean: their rate changes.
        let mean = tables.moments.iter().map(|moment| moment.period_ns as f64).sum::<f64>()
            / tables.moments.len().max(1) as f64;
        let mut moments: Vec<(u32, i64, u32, f32)> = tables
            .moments
            .iter()
            .filter(|moment| moment.time_ns >= trace.start_ns && moment.time_ns < trace.end_ns)
            .map(|moment| {
                let mask = masks.get(moment.stack as usize).copied().unwrap_or(0);
                (moment.task, moment.time_ns, mask, (moment.period_ns as f64 / mean.max(1.0)) as f32)
            })
            .collect();
        moments.sort_unstable_by_key(|&(task, time, ..)| (task, time));
        let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(trace.pieces.len());
        let mut at = 0;
        for piece in &trace.pieces {
            while at < moments.len() && (moments[at].0, moments[at].1) < (piece.task, piece.start_ns) {
                at += 1;
            }
            let first = at;
            while at < moments.len() && (moments[at].0, moments[at].1) < (piece.task, piece.end_ns) {
                at += 1;
            }
            ranges.push((first as u32, at as u32));
        }
        let mut alike = vec![0.0f32; trace.signatures * (width + 1)];
        for (piece, &(first, end)) in trace.pieces.iter().zip(&ranges) {
            let sums = &mut alike[piece.signature as usize * (width + 1)..][..width + 1];
            for &(_, _, mask, weight) in &moments[first as usize..end as usize] {
                bits(mask).for_each(|bit| sums[bit] += weight);
                sums[width] += weight;
            }
        }
        let mut shares = vec![0.0f32; trace.pieces.len() * width];
        let mut own = vec![0.0f32; width];
        for (number, (piece, &(first, end))) in trace.pieces.iter().zip(&ranges).enumerate() {
            own.fill(0.0);
            let mut count = 0.0;
            for &(_, _, mask, weight) in &moments[first as usize..end as usize] {
                bits(mask).for_each(|bit| own[bit] += weight);
                count += weight;
            }
            if let Some(stack) = piece.stack {
                bits(masks.get(stack as usize).copied().unwrap_or(0)).for_each(|bit| own[bit] += KNOWN);
                count += KNOWN;
            }
            let alike = &alike[piece.signature as usize * (width + 1)..][..width + 1];
            let prior = priors.of(pooling.of(piece.task), &piece.demand);
            for bit in 0..width {
                let like = (alike[bit] + PRIOR * prior[bit]) / (alike[width] + PRIOR);
                shares[number * width + bit] = (own[bit] + ALIKE * like) / (count + ALIKE);
            }
        }
        let mut density = Self {
            codes: codes.len(),
            shares,
            seen: vec![0; codes.len()],
            spinning: FxHashMap::default(),
            part: Vec::new(),
        };
        density.look_at_samples(source, &masks);
        density
    }

    fn look_at_samples(&mut self, source: &Source<'_>, masks: &[u32]) {
        let codes = |stack: u32, codes: usize| {
            let mask = masks.get(stack as usize).copied().unwrap_or(0);
            (0..codes).filter(move |code| mask >> code & 1 == 1)
        };
        self.part = vec![0.0; self.codes];
        let total: i64 = source.tables.samples.iter().map(|sample| sample.criticality_ns).sum();
        // Samples of each thread's candidates, and of its spinning.
        let mut of_task: FxHashMap<u32, Vec<f64>> = FxHashMap::default();
        for sample in &source.tables.samples {
            let sums = of_task.entry(sample.task).or_insert_with(|| vec![0.0; self.codes + 1]);
            sums[self.codes] += if sample.spin { sample.active_ns as f64 } else { 0.0 };
            for code in codes(sample.stack, self.codes) {
                self.seen[code] += sample.samples;
                self.part[code] += sample.criticality_ns as f64 / total.max(1) as f64;
                sums[code] += sample.active_ns as f64;
            }
        }
        for (&spinner, workers) in &source.correction.workers {
            let Some(own) = of_task.get(&spinner) else { continue };
            let mut spinning = vec![Spinning::default(); self.codes];
            for &((worker, stack), part) in workers {
                codes(stack, self.codes).for_each(|code| spinning[code].meanwhile += part);
                let Some(others) = of_task.get(&worker) else { continue };
                for (code, spinning) in spinning.iter_mut().enumerate() {
                    spinning.ahead += part * (others[code] - own[code]) / own[self.codes].max(1.0);
                }
            }
            self.spinning.insert(spinner, spinning);
        }
    }
}

/// Per stack a bit for each candidate that it is in, and for spinning.
fn masks(source: &Source<'_>, codes: &[Code]) -> Vec<u32> {
    let spins = spinning_stacks(source.tables);
    let mask = |stack: u32| {
        let Some(facts) = source.paths.stack(stack) else { return 0 };
        let hit = |(bit, code): (usize, &Code)| u32::from(code.covers(source, facts.path)) << bit;
        let mask = codes.iter().enumerate().map(hit).fold(0, |mask, bit| mask | bit);
        // A spinning stack does no work, whatever function it is in.
        if spins.contains(&stack) { 1 << SPIN } else { mask }
    };
    (0..source.tables.stacks.len() as u32).map(mask).collect()
}

/// Whether a sample is of a thread on a CPU.
fn takes_cpu(sample: &SchedSample) -> bool {
    sample.origin == Origin::Sample && sample.active_ns > 0
}

/// Shares by thread (see [`Pooling`]) and class of the number of active threads, from the sums of samples: by the active time that
/// they stand for, as their rate changes.
struct Priors {
    width: usize,
    by_class: FxHashMap<(u32, usize), Vec<f32>>,
    by_task: FxHashMap<u32, Vec<f32>>,
}

impl Priors {
    fn new<I: Iterator<Item = usize>>(
        source: &Source<'_>,
        pooling: &Pooling,
        masks: &[u32],
        width: usize,
        bits: &dyn Fn(u32) -> I,
    ) -> Self {
        let mut priors = Self { width, by_class: FxHashMap::default(), by_task: FxHashMap::default() };
        let samples = &source.tables.samples;
        let timed: FxHashSet<u32> =
            samples.iter().filter(|sample| takes_cpu(sample)).map(|sample| pooling.of(sample.task)).collect();
        // Who queues for a CPU tells nothing of what takes CPU time, and a sample that stands for no time nothing of it.
        let tells = |sample: &&SchedSample| {
            sample.samples > 0
                && sample.active_ns > 0
                && (takes_cpu(sample) || !timed.contains(&pooling.of(sample.task)))
        };
        for sample in samples.iter().filter(tells) {
            let (weight, task) = (sample.active_ns as f32, pooling.of(sample.task));
            let mask = masks.get(sample.stack as usize).copied().unwrap_or(0);
            let by_class = priors.by_class.entry((task, class(sample.n)));
            let by_class = by_class.or_insert_with(|| vec![0.0; width + 1]);
            let by_task = priors.by_task.entry(task).or_insert_with(|| vec![0.0; width + 1]);
            for sums in [by_class, by_task] {
                bits(mask).for_each(|bit| sums[bit] += weight);
                sums[width] += weight;
            }
        }
        priors
    }

    fn of(&self, task: u32, demand: &[f32; CLASSES]) -> Vec<f32> {
        let mut shares = vec![0.0; self.width];
        let total: f32 = demand.iter().sum();
        for (class, part) in demand.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            let Some(sums) = self.by_class.get(&(task, class)).or_else(|| self.by_task.get(&task)) else { continue };
            let scale = part / total / sums[self.width];
            shares.iter_mut().zip(sums).for_each(|(share, sum)| *share += sum * scale);
        }
        shares
    }
}
