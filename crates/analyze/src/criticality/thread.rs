use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::Profile;

use super::Source;

/// One thread as the scheduler saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CriticalThreadRow {
    /// Process id.
    pub process: i32,
    /// Thread id.
    pub tid: i32,
    /// Name.
    pub name: String,
    /// Thread group.
    pub group: String,
    /// Time it was active, each instant divided by the number of active threads, ns. Exact.
    pub criticality_ns: i64,
    /// The same with spinning threads not counted as active, ns; an estimate from samples.
    pub corrected_ns: i64,
    /// Part of `criticality_ns` gained by waiting for others in a loop, ns.
    pub spin_ns: i64,
    /// Time on a CPU, ns.
    pub running_ns: i64,
    /// Time active but without a CPU, ns.
    pub runnable_ns: i64,
    /// Time blocked, ns.
    pub blocked_ns: i64,
    /// Part of `criticality_ns` that no sample or stack covers, ns.
    pub unattributed_ns: i64,
    /// First instant observed, since the recording's start, ns.
    pub start_ns: i64,
    /// Last instant observed, ns.
    pub end_ns: i64,
}

/// Sums of one thread group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CriticalGroupRow {
    /// Thread group.
    pub group: String,
    /// Threads.
    pub threads: i64,
    /// See [`CriticalThreadRow`].
    pub criticality_ns: i64,
    /// See [`CriticalThreadRow`].
    pub corrected_ns: i64,
    /// See [`CriticalThreadRow`].
    pub spin_ns: i64,
    /// Time on a CPU, ns.
    pub running_ns: i64,
    /// Time active but without a CPU, ns.
    pub runnable_ns: i64,
    /// Time blocked, ns.
    pub blocked_ns: i64,
    /// Criticality of its most critical thread, ns.
    pub max_criticality_ns: i64,
}

/// Threads and groups, most critical first.
pub(super) fn rows(profile: &Profile, source: &Source<'_>) -> (Vec<CriticalThreadRow>, Vec<CriticalGroupRow>) {
    let mut threads: Vec<CriticalThreadRow> = source
        .tables
        .tasks
        .iter()
        .map(|task| CriticalThreadRow {
            process: profile.processes.get(task.process as usize).map_or(0, |process| process.pid),
            tid: task.tid,
            name: task.name.clone(),
            group: task.group.clone(),
            criticality_ns: task.criticality_ns,
            corrected_ns: task.criticality_ns,
            spin_ns: 0,
            running_ns: task.running_ns,
            runnable_ns: task.runnable_ns,
            blocked_ns: task.blocked_ns,
            unattributed_ns: task.unattributed_ns,
            start_ns: task.start_ns,
            end_ns: task.end_ns,
        })
        .collect();
    for (sample, corrected_ns) in source.tables.samples.iter().zip(&source.correction.corrected_ns) {
        let Some(row) = threads.get_mut(sample.task as usize) else { continue };
        row.corrected_ns += corrected_ns - sample.criticality_ns;
        row.spin_ns += if sample.spin { sample.criticality_ns } else { 0 };
    }
    let mut index: FxHashMap<&str, usize> = FxHashMap::default();
    let mut groups: Vec<CriticalGroupRow> = Vec::new();
    for row in &threads {
        let at = *index.entry(&row.group).or_insert_with(|| {
            groups.push(CriticalGroupRow {
                group: row.group.clone(),
                threads: 0,
                criticality_ns: 0,
                corrected_ns: 0,
                spin_ns: 0,
                running_ns: 0,
                runnable_ns: 0,
                blocked_ns: 0,
                max_criticality_ns: 0,
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.threads += 1;
        group.criticality_ns += row.criticality_ns;
        group.corrected_ns += row.corrected_ns;
        group.spin_ns += row.spin_ns;
        group.running_ns += row.running_ns;
        group.runnable_ns += row.runnable_ns;
        group.blocked_ns += row.blocked_ns;
        group.max_criticality_ns = group.max_criticality_ns.max(row.criticality_ns);
    }
    drop(index);
    threads.sort_by_key(|row| (Reverse(row.criticality_ns), row.process, row.tid, row.start_ns));
    groups.sort_by(|a, b| b.criticality_ns.cmp(&a.criticality_ns).then_with(|| a.group.cmp(&b.group)));
    (threads, groups)
}
