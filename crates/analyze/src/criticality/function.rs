use rustc_hash::FxHashMap;
use serde::Serialize;

use super::Source;
use super::call_path::{FunctionId, PathId};

/// One function over all call paths: a ranking by path splits a hot function over its callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CriticalFunctionRow {
    /// Its name.
    pub function: String,
    /// Its component; empty if it has none.
    pub component: String,
    /// Criticality gained in it, callees left out, ns.
    pub own_ns: i64,
    /// The same with what runtime libraries did for it, ns; without what threads queued for a CPU that waited there again at once.
    pub place_ns: i64,
    /// Criticality gained in it and its callees, ns.
    pub inclusive_ns: i64,
    /// Part of `inclusive_ns` gained while fewer threads were active than there are CPUs, ns.
    pub low_parallelism_ns: i64,
    /// Idle time charged to waits below it, ns.
    pub waiting_ns: i64,
    /// Part of `inclusive_ns` gained by spinning, ns.
    pub spin_ns: i64,
    /// Samples below it.
    pub samples: i64,
}

/// Functions, by criticality gained in them as the place, most first.
pub(super) fn rows(source: &Source<'_>) -> Vec<CriticalFunctionRow> {
    #[derive(Default, Clone, Copy)]
    struct Sum {
        running_ns: i64,
        queued_ns: i64,
        low_ns: i64,
        spin_ns: i64,
        samples: i64,
        waiting_ns: i64,
    }
    let mut sums: FxHashMap<PathId, Sum> = FxHashMap::default();
    for sample in &source.tables.samples {
        let Some(facts) = source.paths.stack(sample.stack) else { continue };
        let sum = sums.entry(facts.path).or_default();
        sum.running_ns += sample.criticality_ns;
        sum.queued_ns += if source.is_idle(sample, facts.path) { sample.criticality_ns } else { 0 };
        sum.low_ns += if source.is_low(sample.n) { sample.criticality_ns } else { 0 };
        sum.spin_ns += if sample.spin { sample.criticality_ns } else { 0 };
        sum.samples += sample.samples;
    }
    for (wait, stack) in source.tables.waits.iter().zip(&source.wait_stacks).filter(|(wait, _)| wait.idle_ns > 0) {
        let Some(facts) = stack.and_then(|stack| source.paths.stack(stack)) else { continue };
        sums.entry(facts.path).or_default().waiting_ns += wait.idle_ns;
    }
    let mut rows: Vec<CriticalFunctionRow> = source
        .paths
        .functions
        .iter()
        .map(|function| CriticalFunctionRow {
            function: function.name.clone(),
            component: function.component.clone(),
            own_ns: 0,
            place_ns: 0,
            inclusive_ns: 0,
            low_parallelism_ns: 0,
            waiting_ns: 0,
            spin_ns: 0,
            samples: 0,
        })
        .collect();
    let mut seen: Vec<FunctionId> = Vec::new();
    for (path, sum) in sums {
        let functions = &source.paths.paths[path as usize].functions;
        if let Some(&leaf) = functions.last() {
            rows[leaf as usize].own_ns += sum.running_ns;
        }
        if let Some(place) = source.paths.place(path) {
            rows[place as usize].place_ns += sum.running_ns - sum.queued_ns;
        }
        // A recursive function counts once.
        seen.clear();
        seen.extend(functions);
        seen.sort_unstable();
        seen.dedup();
        for &function in &seen {
            let row = &mut rows[function as usize];
            row.inclusive_ns += sum.running_ns;
            row.low_parallelism_ns += sum.low_ns;
            row.spin_ns += sum.spin_ns;
            row.samples += sum.samples;
            row.waiting_ns += sum.waiting_ns;
        }
    }
    rows.retain(|row| row.inclusive_ns > 0 || row.waiting_ns > 0 || row.samples > 0);
    rows.sort_by(|a, b| {
        let rank = |row: &CriticalFunctionRow| (row.place_ns, row.own_ns, row.inclusive_ns, row.waiting_ns);
        rank(b).cmp(&rank(a)).then_with(|| (&a.function, &a.component).cmp(&(&b.function, &b.component)))
    });
    rows
}
