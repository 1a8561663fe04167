use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{FrameId, Origin, Profile, WaitKind};

use super::call_path::PathId;
use super::{CriticalFunctionRow, CriticalWaitRow, ParallelismRow, Source, UNATTRIBUTED};
use crate::matching::Pattern;
use crate::{Names, Selection};

/// Whether a path ran or waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// Criticality is that of active threads.
    #[default]
    Running,
    /// Criticality is time in which all threads waited, and which waits at this path ended.
    Waiting,
}

/// One call path and what it holds up. Running paths and the row of the unattributed add up to `busy_ns`, waiting ones
/// to `idle_ns`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalPathRow {
    /// Functions, root first.
    pub stack: Vec<String>,
    /// Their components; empty where unknown.
    pub components: Vec<String>,
    /// The innermost of them that is no runtime library's: what a user would call the place.
    pub place: String,
    /// It reaches `main` or the start of a thread.
    pub complete: bool,
    /// Running or waiting.
    pub state: PathState,
    /// Criticality gained, or idle time charged, ns.
    pub criticality_ns: i64,
    /// Part of it gained by waiting for others in a loop, ns.
    pub spin_ns: i64,
    /// Criticality with spinning threads not counted as active, ns; an estimate.
    pub corrected_ns: i64,
    /// Part of `criticality_ns` gained while fewer threads were active than there are CPUs, ns.
    pub low_parallelism_ns: i64,
    /// Part of `criticality_ns` gained in the kernel, ns.
    pub kernel_ns: i64,
    /// Samples, or waits.
    pub samples: i64,
    /// Lines of the place, most criticality first.
    pub lines: Vec<LineRow>,
    /// What a waiting path waits for most.
    pub kind: Option<WaitKind>,
    /// The object of most of it; empty if there is none.
    pub object: String,
    /// The thread group, if it is a single one.
    pub group: String,
    /// Active time at each number of active threads.
    pub parallelism: Vec<ParallelismRow>,
}

impl CriticalPathRow {
    /// The row of what no sample or stack covers.
    pub fn is_unattributed(&self) -> bool {
        matches!(&self.stack[..], [only] if only == UNATTRIBUTED)
    }
}

/// A line of code where a path was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineRow {
    /// Function that holds it.
    pub function: String,
    /// Source file, empty if unknown.
    pub file: String,
    /// Line, 0 if unknown.
    pub line: i32,
    /// Samples, or waits.
    pub samples: i64,
    /// Criticality found there, ns.
    pub criticality_ns: i64,
    /// How it was found.
    pub origin: Origin,
}

#[derive(Default)]
struct Sum {
    criticality_ns: i64,
    spin_ns: i64,
    corrected_ns: i64,
    low_ns: i64,
    kernel_ns: i64,
    samples: i64,
    lines: FxHashMap<(Option<FrameId>, Origin), (i64, i64)>,
    parallelism: BTreeMap<i32, i64>,
    kinds: FxHashMap<(WaitKind, u32), i64>,
    /// Thread that was seen first, and whether one of another group was seen after it.
    task: Option<u32>,
    mixed: bool,
}

impl Sum {
    fn seen(&mut self, source: &Source<'_>, task: u32) {
        let first = *self.task.get_or_insert(task);
        self.mixed |= first != task && source.group(first) != source.group(task);
    }
}

/// Running and waiting paths, most critical first; spinning counts for whoever was spun for.
pub(super) fn rows(source: &Source<'_>) -> Vec<CriticalPathRow> {
    let mut rows = running(source);
    rows.extend(waiting(source));
    rows.sort_by(|a, b| {
        (Reverse(a.corrected_ns), Reverse(a.criticality_ns), Reverse(a.samples))
            .cmp(&(Reverse(b.corrected_ns), Reverse(b.criticality_ns), Reverse(b.samples)))
            .then_with(|| (a.state, &a.stack, &a.components).cmp(&(b.state, &b.stack, &b.components)))
    });
    rows
}

fn running(source: &Source<'_>) -> Vec<CriticalPathRow> {
    let mut sums: FxHashMap<PathId, Sum> = FxHashMap::default();
    let mut rest = Sum::default();
    for (sample, &corrected_ns) in source.tables.samples.iter().zip(&source.correction.corrected_ns) {
        let facts = source.paths.stack(sample.stack);
        let sum = facts.map_or(&mut rest, |facts| sums.entry(facts.path).or_default());
        sum.criticality_ns += sample.criticality_ns;
        sum.corrected_ns += corrected_ns;
        sum.samples += sample.samples;
        sum.spin_ns += if sample.spin { sample.criticality_ns } else { 0 };
        sum.low_ns += if source.is_low(sample.n) { sample.criticality_ns } else { 0 };
        sum.kernel_ns += if facts.is_some_and(|facts| facts.kernel) && sample.origin == Origin::Sample {
            sample.criticality_ns
        } else {
            0
        };
        *sum.parallelism.entry(sample.n).or_default() += sample.active_ns;
        let line = sum.lines.entry((facts.and_then(|facts| facts.line), sample.origin)).or_default();
        line.0 += sample.samples;
        line.1 += sample.criticality_ns;
        sum.seen(source, sample.task);
    }
    let found: i64 = sums.values().map(|sum| sum.criticality_ns).sum();
    let rest_ns = source.session.busy_ns - found;
    rest.corrected_ns += rest_ns - rest.criticality_ns;
    rest.criticality_ns = rest_ns;
    let mut rows: Vec<_> =
        sums.into_iter().map(|(path, sum)| row(source, Some(path), sum, PathState::Running)).collect();
    if rest_ns < 0 {
        // Weights were rounded up, or are of a recording that was cut: paths may not have more than there was.
        scale(&mut rows, source.session.busy_ns);
    } else if rest_ns > 0 {
        rows.push(row(source, None, rest, PathState::Running));
    }
    rows
}

fn waiting(source: &Source<'_>) -> Vec<CriticalPathRow> {
    let mut sums: FxHashMap<PathId, Sum> = FxHashMap::default();
    let mut rest = Sum::default();
    for (row, wait) in source.tables.waits.iter().enumerate().filter(|(_, wait)| wait.idle_ns > 0) {
        let facts = source.wait_stacks[row].and_then(|stack| source.paths.stack(stack));
        let sum = facts.map_or(&mut rest, |facts| sums.entry(facts.path).or_default());
        sum.criticality_ns += wait.idle_ns;
        sum.samples += wait.count;
        *sum.kinds.entry((wait.kind, source.objects.of(row))).or_default() += wait.idle_ns;
        let line = sum.lines.entry((facts.and_then(|facts| facts.line), Origin::StackTop)).or_default();
        line.0 += wait.count;
        line.1 += wait.idle_ns;
        sum.seen(source, wait.task);
    }
    let found: i64 = sums.values().map(|sum| sum.criticality_ns).sum();
    let rest_ns = source.session.idle_ns - found;
    rest.criticality_ns = rest_ns;
    let mut rows: Vec<_> =
        sums.into_iter().map(|(path, sum)| row(source, Some(path), sum, PathState::Waiting)).collect();
    if rest_ns < 0 {
        scale(&mut rows, source.session.idle_ns);
    } else if rest_ns > 0 {
        rows.push(row(source, None, rest, PathState::Waiting));
    }
    rows.iter_mut()
        .for_each(|row| (row.corrected_ns, row.low_parallelism_ns) = (row.criticality_ns, row.criticality_ns));
    rows
}

/// Makes the rows' criticality add up to `total`.
fn scale(rows: &mut [CriticalPathRow], total: i64) {
    type Column = fn(&mut CriticalPathRow) -> &mut i64;
    let columns: [Column; 2] = [|row| &mut row.criticality_ns, |row| &mut row.corrected_ns];
    for column in columns {
        let weights: Vec<i64> = rows.iter_mut().map(|row| *column(row)).collect();
        let parts = super::apportion::apportion(total.max(0), &weights);
        rows.iter_mut().zip(parts).for_each(|(row, part)| *column(row) = part);
    }
}

fn row(source: &Source<'_>, path: Option<PathId>, sum: Sum, state: PathState) -> CriticalPathRow {
    let paths = &source.paths;
    let most = sum.kinds.iter().max_by_key(|&(&(kind, object), &ns)| (ns, Reverse((kind, object))));
    let mut lines: Vec<LineRow> = Vec::new();
    for ((frame, origin), (samples, criticality_ns)) in sum.lines {
        let Some(frame) = frame.and_then(|id| source.tables.frames.get(id as usize)) else { continue };
        lines.push(LineRow {
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
            samples,
            criticality_ns,
            origin,
        });
    }
    let key = |row: &LineRow| (row.function.clone(), row.file.clone(), row.line, row.origin);
    lines.sort_by_cached_key(key);
    lines.dedup_by(|row, kept| {
        let same = key(row) == key(kept);
        if same {
            kept.samples += row.samples;
            kept.criticality_ns += row.criticality_ns;
        }
        same
    });
    lines.sort_by_key(|row| (Reverse(row.criticality_ns), Reverse(row.samples)));
    CriticalPathRow {
        stack: path.map_or_else(|| vec![UNATTRIBUTED.to_owned()], |path| paths.names(path)),
        components: path.map_or_else(|| vec![String::new()], |path| paths.components(path)),
        place: path.map_or_else(|| UNATTRIBUTED.to_owned(), |path| paths.place_name(path)),
        complete: path.is_some_and(|path| paths.paths[path as usize].complete),
        state,
        criticality_ns: sum.criticality_ns,
        spin_ns: sum.spin_ns,
        corrected_ns: sum.corrected_ns,
        low_parallelism_ns: sum.low_ns,
        kernel_ns: sum.kernel_ns,
        samples: sum.samples,
        lines,
        kind: most.map(|(&(kind, _), _)| kind),
        object: most.map_or_else(String::new, |(&(_, object), _)| source.objects.name(object).to_owned()),
        group: sum.task.filter(|_| !sum.mixed).map_or_else(String::new, |task| source.group(task).to_owned()),
        parallelism: sum.parallelism.into_iter().map(|(n, ns)| ParallelismRow { n, ns }).collect(),
    }
}

/// Paths that go through what the selection names.
pub(super) struct Filter {
    function: Option<Pattern>,
    /// Display names of the chosen components.
    components: Option<Vec<String>>,
    /// Components of functions, by name, for rows that don't carry them.
    component_of: FxHashMap<String, String>,
}

impl Filter {
    pub fn new(
        profile: &Profile,
        names: &Names,
        functions: &[CriticalFunctionRow],
        selection: &Selection,
    ) -> Option<Self> {
        let chosen = crate::matching::chosen_components(profile, names, selection.component.as_deref());
        if chosen.is_none() && selection.api.is_none() {
            return None;
        }
        let display = |chosen: Vec<bool>| {
            (0..chosen.len()).filter(|&id| chosen[id]).map(|id| names.get(id as u32).to_owned()).collect()
        };
        Some(Self {
            function: selection.api.as_deref().map(Pattern::new),
            components: chosen.map(display),
            component_of: functions.iter().map(|row| (row.function.clone(), row.component.clone())).collect(),
        })
    }

    pub fn path(&self, stack: &[String], components: &[String]) -> bool {
        let function = |pattern: &Pattern| stack.iter().any(|name| pattern.matches_api(name, name));
        let component = |chosen: &Vec<String>| components.iter().any(|name| chosen.contains(name));
        self.function.as_ref().is_none_or(function) && self.components.as_ref().is_none_or(component)
    }

    pub fn wait(&self, row: &CriticalWaitRow) -> bool {
        let party =
            |party: &Option<super::OtherThreadRow>| party.as_ref().is_some_and(|party| self.stack(&party.stack));
        self.stack(&row.stack) || party(&row.holder) || party(&row.waker)
    }

    pub fn stack(&self, stack: &[String]) -> bool {
        let components: Vec<String> = stack.iter().filter_map(|name| self.component_of.get(name).cloned()).collect();
        self.path(stack, &components)
    }
}
