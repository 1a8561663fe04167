use std::collections::BTreeMap;

use serde::Serialize;
use transect_profile_model::SchedTables;

/// Time at one number of active threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ParallelismRow {
    /// Active threads; 0 is idle time.
    pub n: i32,
    /// Time, ns, summed over applications; in a path, the path's active time at it.
    pub ns: i64,
}

/// All applications together, few active threads first.
pub(super) fn rows(tables: &SchedTables) -> Vec<ParallelismRow> {
    let mut sums: BTreeMap<i32, i64> = BTreeMap::new();
    for row in &tables.parallelism {
        *sums.entry(row.n).or_default() += row.ns;
    }
    sums.into_iter().filter(|&(_, ns)| ns > 0).map(|(n, ns)| ParallelismRow { n, ns }).collect()
}

/// Mean number of active threads while any was.
pub(super) fn mean(rows: &[ParallelismRow]) -> Option<f64> {
    let busy: i64 = rows.iter().filter(|row| row.n > 0).map(|row| row.ns).sum();
    let active: f64 = rows.iter().map(|row| f64::from(row.n.max(0)) * row.ns as f64).sum();
    (busy > 0).then(|| active / busy as f64)
}
