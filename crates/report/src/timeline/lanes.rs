//! Which threads get a lane, and their slices.

use transect_profile_model::{SchedTables, TaskId};

/// Lanes of a page, at most.
const MOST: usize = 512;

/// The threads that are drawn: groups by criticality, in each the threads by criticality.
pub(super) struct Lanes {
    /// Thread of each lane.
    pub tasks: Vec<TaskId>,
    /// Lane of each thread.
    pub of_task: Vec<Option<u32>>,
}

/// Row numbers of slices by lane, each lane's in order of their start.
pub(super) struct ByLane {
    rows: Vec<u32>,
    ends: Vec<usize>,
}

impl ByLane {
    pub(super) fn lane(&self, lane: usize) -> &[u32] {
        let start = if lane == 0 { 0 } else { self.ends[lane - 1] };
        &self.rows[start..self.ends[lane]]
    }

    pub(super) fn lanes(&self) -> usize {
        self.ends.len()
    }
}

impl Lanes {
    pub(super) fn new(tables: &SchedTables) -> Self {
        let tasks = &tables.tasks;
        let mut ranked: Vec<TaskId> = (0..tasks.len() as TaskId).collect();
        let key = |id: TaskId| &tasks[id as usize];
        ranked.sort_by_key(|&id| (std::cmp::Reverse(key(id).criticality_ns), key(id).start_ns, id));
        ranked.truncate(MOST);
        // In order of the groups' first appearance: their most critical thread.
        let mut groups: Vec<(&str, i64, Vec<TaskId>)> = Vec::new();
        for id in ranked {
            let task = key(id);
            match groups.iter_mut().find(|(group, ..)| *group == task.group) {
                Some((_, sum, members)) => {
                    *sum += task.criticality_ns;
                    members.push(id);
                }
                None => groups.push((&task.group, task.criticality_ns, vec![id])),
            }
        }
        groups.sort_by_key(|(_, sum, _)| std::cmp::Reverse(*sum));
        let ranked: Vec<TaskId> = groups.into_iter().flat_map(|(.., members)| members).collect();
        let mut of_task = vec![None; tasks.len()];
        for (lane, &id) in ranked.iter().enumerate() {
            of_task[id as usize] = Some(lane as u32);
        }
        Self { tasks: ranked, of_task }
    }

    pub(super) fn of(&self, task: TaskId) -> Option<usize> {
        self.of_task.get(task as usize).copied().flatten().map(|lane| lane as usize)
    }

    /// Sorts the slices by lane.
    pub(super) fn slices(&self, tables: &SchedTables) -> ByLane {
        self.group(tables.slices.iter().map(|slice| slice.task), |row| tables.slices[row as usize].start_ns)
    }

    /// Sorts the waits by lane.
    pub(super) fn waits(&self, tables: &SchedTables) -> ByLane {
        self.group(tables.waits.iter().map(|wait| wait.task), |row| tables.waits[row as usize].begin_ns)
    }

    fn group(&self, tasks: impl Iterator<Item = TaskId> + Clone, start: impl Fn(u32) -> i64) -> ByLane {
        let mut ends = vec![0_usize; self.tasks.len()];
        for lane in tasks.clone().filter_map(|task| self.of(task)) {
            ends[lane] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        let mut rows = vec![0_u32; sum];
        for (row, task) in (0_u32..).zip(tasks) {
            if let Some(lane) = self.of(task) {
                rows[ends[lane]] = row;
                ends[lane] += 1;
            }
        }
        let grouped = ByLane { rows, ends };
        let mut rows = grouped.rows.clone();
        for lane in 0..grouped.lanes() {
            let start_of_lane = if lane == 0 { 0 } else { grouped.ends[lane - 1] };
            let part = &mut rows[start_of_lane..grouped.ends[lane]];
            // A thread's rows come in order unless events of two CPUs were merged late.
            if !part.is_sorted_by_key(|&row| start(row)) {
                part.sort_by_key(|&row| start(row));
            }
        }
        ByLane { rows, ends: grouped.ends }
    }
}
