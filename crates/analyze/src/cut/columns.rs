//! Everything that a cut sums up, as columns: for a reader that has no profile, such as the HTML page.
//!
//! A part of a thread's life names its facts by row: the thread, the place (what its stack says), the wait and the set of active
//! features. So a dimension's key is looked up once per fact, and a million parts remain small.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use transect_profile_model::{Profile, StackId};

use super::dimension::{CutDimension, CutMeasure};
use super::keys::{Interner, Keys, NO_KEY};
use super::knows_features;
use super::stack_keys::StackReader;
use super::stretch::Stretch;
use crate::Names;
use crate::criticality::wait_stacks;
use crate::feature::ActiveSets;

/// Parts at most: beyond them a page would be too large to open.
pub const MOST_CUT_PARTS: usize = 1_000_000;

/// Dimensions of a thread, in the order of [`CutColumns::threads`].
const OF_THREAD: [CutDimension; 3] = [CutDimension::Process, CutDimension::Thread, CutDimension::ThreadGroup];
/// Dimensions of a place, in the order of [`CutColumns::places`]; the last column there is the innermost frame.
const OF_PLACE: [CutDimension; 7] = [
    CutDimension::Component,
    CutDimension::Api,
    CutDimension::Caller,
    CutDimension::Function,
    CutDimension::Line,
    CutDimension::KernelFunction,
    CutDimension::SystemCall,
];
/// Dimensions of a wait, in the order of [`CutColumns::waits`].
const OF_WAIT: [CutDimension; 4] =
    [CutDimension::Wait, CutDimension::Object, CutDimension::Holder, CutDimension::Waker];

/// Parts of threads' lives and their keys. A key is the row of a name plus one; 0 is the lack of a key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CutColumns {
    /// Names, each once.
    pub names: Vec<String>,
    /// The machine.
    pub host: u32,
    /// The recording.
    pub run: u32,
    /// Keys of process, thread and thread group; the thread's number, which tells threads of one name apart.
    pub threads: Vec<[u32; 4]>,
    /// Keys of component, api, caller, function, line, kernel function and system call; the row of the innermost frame plus one.
    pub places: Vec<[u32; 8]>,
    /// Call stacks as a tree, callers before callees.
    pub frames: Vec<CutFrame>,
    /// Keys of kind, object, holder and waker.
    pub waits: Vec<[u32; 4]>,
    /// Keys of the name of each set of active features, then of each feature in it; the first is none.
    pub features: Vec<Vec<u32>>,
    /// What is summed up where no feature is asked for.
    pub parts: CutParts,
    /// The same divided by active features; `None` where the profile does not know when they were.
    pub by_feature: Option<CutParts>,
    /// Whether it is known when threads were active.
    pub when: bool,
}

/// Parts by what they are measured in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CutParts {
    /// Threads' lifetime, ns; time on a CPU, runnable and blocked are those of one state.
    pub time: CutList,
    /// Critical time, ns.
    pub critical: CutList,
    /// Samples of the timer.
    pub samples: CutList,
}

/// Parts that are summed up together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CutList {
    /// By thread, then in order of time.
    pub parts: Vec<CutPart>,
    /// Some of it is running in a loop that waits: a wait of which only samples know.
    pub spins: bool,
}

impl CutParts {
    /// Each list with its measure.
    pub fn all(&self) -> [(CutMeasure, &CutList); 3] {
        [(CutMeasure::Time, &self.time), (CutMeasure::Critical, &self.critical), (CutMeasure::Samples, &self.samples)]
    }
}

/// A function of a call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CutFrame {
    /// Row of its caller plus one; 0 for a root.
    pub parent: u32,
    /// Key of its name.
    pub function: u32,
    /// It is a function of the kernel.
    pub kernel: bool,
}

/// A part of a thread's life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CutPart {
    /// Row in [`CutColumns::threads`].
    pub thread: u32,
    /// 0 running, 1 runnable, 2 blocked.
    pub state: u8,
    /// Row in [`CutColumns::places`].
    pub place: u32,
    /// Row in [`CutColumns::waits`].
    pub wait: u32,
    /// Row in [`CutColumns::features`].
    pub features: u32,
    /// When it began, since the recording's start, ns.
    pub begin_ns: i64,
    /// When it ended; a sample has one instant.
    pub end_ns: i64,
    /// How much of the measure it is.
    pub weight: i64,
    /// How much each of the samples weighs that say so; 0 where it is exact.
    pub per_sample: f64,
}

/// The columns of a profile that was read with its timeline; `Ok(None)` without samples and waits.
///
/// # Errors
/// The number of parts, if there are more than [`MOST_CUT_PARTS`] (at least: they may not all have been made).
pub fn cut_columns(profile: &Profile) -> Result<Option<CutColumns>, usize> {
    let tables = &profile.sched;
    if tables.tasks.is_empty() {
        return Ok(None);
    }
    // Every slice and every wait is a part, at least.
    let least = tables.slices.len() + tables.waits.len();
    if least > MOST_CUT_PARTS {
        return Err(least);
    }
    let names = Names::new(profile);
    let active = ActiveSets::new(&profile.feature);
    let mut keys = Keys::new(profile, &names, &active, false);
    let (frames, innermost) = call_tree(profile, &StackReader::new(profile, &names), &mut keys.interner);
    let stacks = wait_stacks(tables);
    let mut facts = Facts { innermost, ..Facts::default() };
    // No feature has the first row.
    facts.features.number(Vec::new());
    let mut count = 0;
    let mut parts_of = |active: Option<&ActiveSets>| -> Result<CutParts, usize> {
        let mut of = |measure| -> Result<CutList, usize> {
            let stretches = super::stretches(profile, &stacks, measure, true, active);
            count += stretches.len();
            if count > MOST_CUT_PARTS { Err(count) } else { Ok(facts.list(&keys, &stretches)) }
        };
        let (time, critical) = (of(CutMeasure::Time)?, of(CutMeasure::Critical)?);
        Ok(CutParts { time, critical, samples: of(CutMeasure::Samples)? })
    };
    let parts = parts_of(None)?;
    let by_feature = if knows_features(profile) { Some(parts_of(Some(&active))?) } else { None };
    Ok(Some(CutColumns {
        host: keys.of_run(CutDimension::Host),
        run: keys.of_run(CutDimension::Run),
        names: keys.interner.into_texts(),
        threads: facts.threads.rows,
        places: facts.places.rows,
        frames,
        waits: facts.waits.rows,
        features: facts.features.rows,
        parts,
        by_feature,
        when: !tables.slices.is_empty(),
    }))
}

/// All stacks as one tree, and of each stack the row of its innermost frame plus one.
fn call_tree(profile: &Profile, reader: &StackReader<'_>, names: &mut Interner) -> (Vec<CutFrame>, Vec<u32>) {
    let mut frames = Table::default();
    let mut innermost = Vec::with_capacity(profile.sched.stacks.len());
    for stack in 0..profile.sched.stacks.len() {
        let read = reader.frames(stack as StackId);
        let mut leaf = 0;
        for (_, frame) in read.user {
            let function = names.id(&reader.function_name(frame));
            leaf = frames.number(CutFrame { parent: leaf, function, kernel: false }) + 1;
        }
        for function in read.kernel {
            leaf = frames.number(CutFrame { parent: leaf, function: names.id(function), kernel: true }) + 1;
        }
        innermost.push(leaf);
    }
    (frames.rows, innermost)
}

/// Rows, each once.
struct Table<R> {
    rows: Vec<R>,
    numbers: FxHashMap<R, u32>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<R: Clone + Eq + Hash> Table<R> {
    fn number(&mut self, row: R) -> u32 {
        let rows = &mut self.rows;
        *self.numbers.entry(row).or_insert_with_key(|row| {
            rows.push(row.clone());
            (rows.len() - 1) as u32
        })
    }
}

/// What parts have in common.
#[derive(Default)]
struct Facts {
    /// Of each stack the row of its innermost frame plus one.
    innermost: Vec<u32>,
    threads: Table<[u32; 4]>,
    places: Table<[u32; 8]>,
    waits: Table<[u32; 4]>,
    features: Table<Vec<u32>>,
}

impl Facts {
    fn list(&mut self, keys: &Keys<'_>, stretches: &[Stretch]) -> CutList {
        let weighty = stretches.iter().filter(|stretch| stretch.weight != 0);
        let mut parts: Vec<CutPart> = weighty.map(|stretch| self.part(keys, stretch)).collect();
        // Neighbours in time stand side by side, which packs well.
        parts.sort_by_key(|part| (part.thread, part.begin_ns, part.end_ns));
        CutList { parts, spins: stretches.iter().any(|stretch| stretch.spin) }
    }

    fn part(&mut self, keys: &Keys<'_>, stretch: &Stretch) -> CutPart {
        let of = |dimension| keys.of(dimension, stretch);
        let innermost = stretch.stack.and_then(|stack| self.innermost.get(stack as usize)).copied().unwrap_or(0);
        let [component, api, caller, function, line, kernel_function, system_call] = OF_PLACE.map(of);
        let place = [component, api, caller, function, line, kernel_function, system_call, innermost];
        let features = match keys.feature(stretch.features) {
            (NO_KEY, _) => Vec::new(),
            (set, each) => [&[set], each].concat(),
        };
        let [process, thread, group] = OF_THREAD.map(of);
        CutPart {
            thread: self.threads.number([process, thread, group, stretch.task]),
            state: stretch.state as u8,
            place: self.places.number(place),
            wait: self.waits.number(OF_WAIT.map(of)),
            features: self.features.number(features),
            begin_ns: stretch.begin_ns,
            end_ns: stretch.end_ns,
            weight: stretch.weight,
            per_sample: if stretch.estimated { stretch.per_sample } else { 0.0 },
        }
    }
}
