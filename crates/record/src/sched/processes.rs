//! Processes that threads belong to.

use std::collections::HashMap;

use transect_profile_model::{Process, ProcessId};

use super::address_space::AddressSpaces;
use super::collected::since;
use super::mapped_file::MappedFiles;
use super::task::{RawTask, RawTasks};

/// Rows of processes.
#[derive(Debug, Default)]
pub struct Processes {
    /// The rows, in the order in which they began.
    pub rows: Vec<Process>,
    /// Row of each thread's process by task number.
    pub of_task: HashMap<u32, ProcessId>,
    /// Process ids as the processes themselves see them.
    pub ns_tgids: HashMap<i32, i32>,
}

impl Processes {
    /// Processes of all known threads. A number that is used again is a process of its own.
    pub fn of(tasks: &RawTasks, spaces: &mut AddressSpaces, files: &mut MappedFiles, origin: u64, now: u64) -> Self {
        let mut threads: Vec<(u32, &RawTask)> = tasks.all().filter(|(_, task)| task.known).collect();
        // A leader before its threads, even if the record of its birth is later.
        threads
            .sort_by_key(|(number, task)| (task.record.tgid, task.begin, task.record.tid != task.record.tgid, *number));
        let mut groups: Vec<(&RawTask, Vec<(u32, &RawTask)>)> = Vec::new();
        for (number, task) in threads {
            let leads = task.record.tid == task.record.tgid;
            match groups.last_mut() {
                // The first leader may come after threads whose births were seen later.
                Some((leader, members))
                    if leader.record.tgid == task.record.tgid
                        && (!leads || leader.record.tid != leader.record.tgid) =>
                {
                    if leads {
                        *leader = task;
                    }
                    members.push((number, task));
                }
                _ => groups.push((task, vec![(number, task)])),
            }
        }
        groups.sort_by_key(|(leader, members)| (leader.begin, members[0].0));
        let mut processes = Self::default();
        for (leader, members) in groups {
            let row = processes.rows.len() as ProcessId;
            let record = &leader.record;
            let begin = members.iter().map(|(_, task)| task.begin).min().unwrap_or(leader.begin);
            let ended = members.iter().all(|(_, task)| task.end != 0);
            let last = members.iter().map(|(_, task)| task.end).max().unwrap_or(now);
            let end = if ended { last } else { now.max(begin) };
            let executable = spaces.executable(record.tgid, files);
            let name = || transect_bpf_collect::record::text(&record.comm);
            let pid = if record.ns_tgid != 0 { record.ns_tgid } else { record.tgid };
            processes.rows.push(Process {
                pid,
                parent_pid: record.parent_tgid,
                executable: if executable.is_empty() { name() } else { executable.to_string() },
                start_ns: since(origin, begin),
                wall_ns: (end - begin) as i64,
            });
            processes.ns_tgids.insert(record.tgid, pid);
            processes.of_task.extend(members.iter().map(|(number, _)| (*number, row)));
        }
        for process in &mut processes.rows {
            if let Some(&pid) = processes.ns_tgids.get(&process.parent_pid) {
                process.parent_pid = pid;
            }
        }
        processes
    }
}
