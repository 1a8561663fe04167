//! A program whose times are known: what each option and each pair of options adds, and nothing of the model's code.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use transect_influence::{Measure, Measurement, RunError};

/// How often what is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Options, at least and at most.
    pub options: (usize, usize),
    /// Share of the options that do nothing.
    pub no_ops: f64,
    /// Pairs that interact, at most.
    pub pairs: usize,
    /// Effects multiply instead of adding up: then all pairs of options that do something interact.
    pub multiplies: bool,
}

/// Truth.
#[derive(Debug, Clone)]
pub struct Program {
    pub base: f64,
    /// What each option adds alone; 0 for those that do nothing.
    pub alone: Vec<f64>,
    pub pairs: BTreeMap<(usize, usize), f64>,
    pub multiplies: bool,
    /// Standard deviation of a run's time, as a share of it.
    pub noise: f64,
}

impl Program {
    /// At random, of a kind.
    pub fn draw(kind: Kind, random: &mut StdRng) -> Self {
        let options = random.random_range(kind.options.0..=kind.options.1);
        let idle = ((options as f64 * kind.no_ops).round() as usize).clamp(1, options - 1);
        let mut order: Vec<usize> = (0..options).collect();
        order.shuffle(random);
        let base = 10.0_f64.powf(random.random_range(-0.5..0.8));
        let mut alone = vec![0.0; options];
        for at in &order[idle..] {
            let size = 10.0_f64.powf(random.random_range(-1.3..0.3));
            alone[*at] = if random.random_bool(0.25) { -size.min(0.8) / 2.0 } else { size } * base;
        }
        let mut pairs = BTreeMap::new();
        let active = &order[idle..];
        for _ in 0..random.random_range(0..=kind.pairs) {
            if active.len() < 2 {
                break;
            }
            let (one, other) =
                (active[random.random_range(0..active.len())], active[random.random_range(0..active.len())]);
            if one != other {
                let size = base * 10.0_f64.powf(random.random_range(-1.0..0.3));
                pairs
                    .insert((one.min(other), one.max(other)), if random.random_bool(0.3) { -size / 3.0 } else { size });
            }
        }
        let noise = random.random_range(0.01..0.05);
        let drawn = Self { base, alone, pairs, multiplies: kind.multiplies, noise };
        // Options that save more than there is are no program.
        if drawn.shortest() > 0.1 * base { drawn } else { Self::draw(kind, random) }
    }

    fn shortest(&self) -> f64 {
        let options = self.alone.len();
        let one = |bits: u32| self.seconds(&(0..options).map(|at| bits >> at & 1 == 1).collect::<Vec<_>>());
        (0..1_u32 << options).map(one).fold(f64::INFINITY, f64::min)
    }

    pub fn name(at: usize) -> String {
        format!("o{at}")
    }

    /// The model in TOML: names and option texts.
    pub fn model(&self) -> String {
        let one = |at: usize| format!("[[feature]]\nname = \"{0}\"\noption = \"-{0}\"\n", Self::name(at));
        (0..self.alone.len()).map(one).collect()
    }

    /// Without noise.
    pub fn seconds(&self, on: &[bool]) -> f64 {
        let alone = self.alone.iter().zip(on).filter(|(_, on)| **on).map(|(own, _)| *own);
        if self.multiplies {
            return alone.fold(self.base, |time, own| time * (1.0 + own / self.base));
        }
        let pairs = self.pairs.iter().filter(|((one, other), _)| on[*one] && on[*other]).map(|(_, own)| *own);
        self.base + alone.sum::<f64>() + pairs.sum::<f64>()
    }

    pub fn does_nothing(&self, at: usize) -> bool {
        self.alone[at] == 0.0
    }

    /// What a term of these options should be, seconds; `None` where the truth has no such terms.
    pub fn term(&self, features: &[String]) -> Option<f64> {
        let at: Vec<usize> = features.iter().map(|name| name[1..].parse().expect("a number")).collect();
        match (at.as_slice(), self.multiplies) {
            ([], _) => Some(self.base),
            ([one], _) => Some(self.alone[*one]),
            ([one, other], false) => {
                Some(self.pairs.get(&(*one.min(other), *one.max(other))).copied().unwrap_or_default())
            }
            _ => None,
        }
    }
}

/// Its clock.
pub struct Clock {
    pub program: Program,
    pub random: StdRng,
    /// The longest run so far, ns.
    pub longest: f64,
}

impl Clock {
    pub fn new(program: Program, seed: u64) -> Self {
        Self { program, random: StdRng::seed_from_u64(seed), longest: 0.0 }
    }
}

impl Measure for Clock {
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
        let on = |at: usize| command.iter().any(|word| word[..] == format!("-{}", Program::name(at)));
        let seconds = self.program.seconds(&(0..self.program.alone.len()).map(on).collect::<Vec<_>>());
        // A sum of twelve is as good as a normal deviate.
        let deviate = (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0;
        let wall_ns = seconds * 1e9 * (1.0 + self.program.noise * deviate);
        self.longest = self.longest.max(wall_ns);
        Ok(Measurement { wall_ns, sets: BTreeMap::new() })
    }
}
