//! Arguments of recordings of what runs already.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use transect_bpf_collect::privilege;
use transect_record::sched::Followed;

use super::parse_positive_duration;

/// What is recorded instead of a command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running programs")]
pub struct RunningArguments {
    /// Record these running processes instead of a command (comma-separated)
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "command")]
    pub pid: Vec<i32>,
    /// Record everything in this cgroup: its folder under /sys/fs/cgroup
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub cgroup: Option<PathBuf>,
    /// Record all programs of this machine (as root)
    #[arg(short, long, conflicts_with_all = ["command", "pid", "cgroup"])]
    pub all: bool,
    /// End after this time [default: when the program ends, or at Ctrl-C]
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = parse_positive_duration)]
    pub duration: Option<Duration>,
}

/// When the profile so far is written.
#[derive(Debug, Clone, Copy, Args)]
pub struct SnapshotArguments {
    /// Write the profile so far this often (also on SIGUSR2)
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    pub interval: Option<Duration>,
}

/// The process of a command that is of one.
pub fn parse_one_process(word: &str) -> Result<i32, String> {
    if word.contains(',') {
        return Err("it is of one process at a time; of several: transect run -p PID,PID".to_owned());
    }
    word.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| "use the number of a process, from 1".to_owned())
}

impl RunningArguments {
    /// Whether anything is named.
    pub fn is_given(&self) -> bool {
        self.all || !self.pid.is_empty() || self.cgroup.is_some()
    }

    /// Why this user can't record what is named.
    pub fn obstacle(&self) -> Option<String> {
        (self.all && !privilege::sees_all_processes()).then(|| {
            "--all is of all users' programs, which only root may look into: run it with sudo, or name your own by --pid or \
             --cgroup"
                .to_owned()
        })
    }

    /// The process, if one is named and nothing else.
    pub fn one_process(&self) -> Option<i32> {
        match (self.followed().as_slice(), self.pid.first()) {
            ([_], Some(&pid)) => Some(pid),
            _ => None,
        }
    }

    /// The processes that are there of what is named, for what is put into each: all of the cgroup's by now.
    pub fn processes(&self) -> Vec<i32> {
        let named = self.pid.iter().copied();
        named
            .chain(self.cgroup.iter().flat_map(|folder| processes_of(folder)))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// What is named, each process once.
    pub fn followed(&self) -> Vec<Followed> {
        let pids: BTreeSet<i32> = self.pid.iter().copied().collect();
        let processes = pids.into_iter().map(Followed::Process);
        let all = self.all.then_some(Followed::Machine);
        processes.chain(self.cgroup.clone().map(Followed::Cgroup)).chain(all).collect()
    }

    /// What the profile is named after.
    pub fn subject(&self) -> PathBuf {
        match (self.pid.first(), &self.cgroup) {
            (Some(pid), _) => crate::latency::program_of(*pid),
            (None, Some(folder)) => PathBuf::from(folder.file_name().unwrap_or(folder.as_os_str())),
            (None, None) => PathBuf::from("all"),
        }
    }
}

/// The processes of a cgroup and of those within it.
fn processes_of(cgroup: &Path) -> Vec<i32> {
    let list = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<i32> = list.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect();
    let within = std::fs::read_dir(cgroup).into_iter().flatten().flatten();
    let within = within.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    pids.extend(within.flat_map(|entry| processes_of(&entry.path())));
    pids
}
