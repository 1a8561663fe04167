//! What is told about simulated programs, held against the truth.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use transect_feature_model::{Format, parse};
use transect_influence::campaign::{self, CampaignSettings};
use transect_influence::{CommandTemplate, Influence, Method, PlanSettings, Sampling, Term, explain, plan};

use crate::program::{Clock, Kind, Program};

/// Counts over many programs.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Options that do nothing, and those of them with a term whose interval excludes 0.
    pub no_ops: usize,
    pub false_no_ops: usize,
    /// Terms, and those whose interval holds the truth.
    pub terms: usize,
    pub held: usize,
    /// Terms whose interval excludes 0, and those of them whose interval holds the truth.
    pub sure: usize,
    pub sure_held: usize,
    /// Terms beyond the longest run.
    pub impossible: usize,
    /// Options that add half of the base or more where data are many, and those that were found.
    pub large: usize,
    pub found: usize,
}

impl Outcome {
    pub fn share(part: usize, all: usize) -> f64 {
        part as f64 / all.max(1) as f64
    }
}

/// Simulates `programs` programs of a kind.
pub fn simulate(programs: u64, kind: Kind) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in 0..programs {
        let run = Run::new(kind, seed);
        outcome.add(&run);
    }
    outcome
}

/// What is told about one of them.
pub fn one(kind: Kind, seed: u64) -> Influence {
    Run::new(kind, seed).found
}

/// A program, run and explained.
struct Run {
    program: Program,
    found: Influence,
    longest: f64,
    /// Whether large effects must be found.
    borne: bool,
}

impl Run {
    fn new(kind: Kind, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let program = Program::draw(kind, &mut random);
        let options = program.alone.len();
        let configurations = random.random_range(6..=24_usize).min((1 << options) - 1);
        let repetitions = random.random_range(1..=5);
        let sampling = [Sampling::Covering, Sampling::Distance, Sampling::Random][random.random_range(0..3)];
        let settings = PlanSettings { sampling, configurations, seed, ..PlanSettings::default() };
        let model = parse(&program.model(), Format::Toml, "simulated").expect("a model");
        let plan = plan(&model, &settings).expect("a plan");
        let command = CommandTemplate::new(vec!["program".into(), "{options}".into()]).expect("a command");
        let mut clock = Clock::new(program, seed);
        let runs = CampaignSettings { repetitions, seed, stop_at_failure: true };
        let seen = campaign::run(&plan, &model, &command, &runs, &mut clock, &mut |_| {}).expect("runs");
        let found = explain(&model, command.words(), &seen, Method::Wall, 2).expect("terms");
        let borne = plan.training >= 2 * options && repetitions >= 2;
        Self { program: clock.program, found, longest: clock.longest, borne }
    }
}

impl Outcome {
    fn add(&mut self, run: &Run) {
        let Run { program, found, longest, borne } = run;
        let names = |at: usize| Program::name(at);
        let concerns = |term: &Term, at: usize| term.features.contains(&names(at));
        for at in 0..program.alone.len() {
            let told = found.terms.iter().any(|term| concerns(term, at) && term.is_significant());
            if program.does_nothing(at) {
                self.no_ops += 1;
                self.false_no_ops += usize::from(told);
            } else if *borne && program.alone[at] >= 0.5 * program.base {
                self.large += 1;
                self.found += usize::from(told);
            }
        }
        for term in &found.terms {
            let beyond = |ns: i64| ns.unsigned_abs() as f64 > *longest + 1.0;
            self.impossible += usize::from([Some(term.ns), term.low, term.high].into_iter().flatten().any(beyond));
            let (Some(low), Some(high), Some(truth)) = (term.low, term.high, program.term(&term.features)) else {
                continue;
            };
            let held = (low as f64..=high as f64).contains(&(truth * 1e9));
            self.terms += 1;
            self.held += usize::from(held);
            if term.is_significant() {
                self.sure += 1;
                self.sure_held += usize::from(held);
            }
        }
    }
}
