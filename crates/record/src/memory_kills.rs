//! Whom the kernel's out-of-memory killer has killed: a program that it has ended by SIGKILL does not say why.
//!
//! It counts by control group (`oom_kill` of `memory.events`, in version 1 of `memory.oom_control`) and for the whole machine
//! (`/proc/vmstat`). What is launched begins in the recorder's group.

use std::path::{Path, PathBuf};

use transect_profile_model::MemoryKills;

/// The counts at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillCounts {
    group: Option<Group>,
    machine: Option<i64>,
}

/// The control group whose memory is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    name: String,
    kills: i64,
    limit: Option<i64>,
}

impl KillCounts {
    /// The counts by now; what the kernel does not tell is unknown.
    pub fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (groups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        Self { group: group(&groups, &mounts), machine: field(&read("/proc/vmstat"), "oom_kill") }
    }

    /// What happened from these counts to the later ones.
    pub fn since(&self, later: &Self) -> Option<MemoryKills> {
        if let (Some(before), Some(after)) = (&self.group, &later.group)
            && after.kills > before.kills
        {
            let (count, name) = (after.kills - before.kills, after.name.clone());
            return Some(MemoryKills { count, control_group: Some(name), limit_bytes: after.limit });
        }
        let count = later.machine? - self.machine?;
        (count > 0).then_some(MemoryKills { count, control_group: None, limit_bytes: None })
    }
}

/// The group of this process and what it has counted.
fn group(groups: &str, mounts: &str) -> Option<Group> {
    let (name, folder, version) = place(groups, mounts)?;
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    let (events, limit) = match version {
        1 => (read("memory.oom_control")?, read("memory.limit_in_bytes")),
        _ => (read("memory.events")?, read("memory.max")),
    };
    // Without a limit it is `max`, or in version 1 more than there can be.
    let limit = limit.and_then(|limit| limit.trim().parse().ok()).filter(|&limit: &i64| limit < 1 << 60);
    Some(Group { name, kills: field(&events, "oom_kill")?, limit })
}

/// Name, folder and version of the group that counts the memory of a process, by its `/proc/PID/cgroup` and `mountinfo`.
fn place(groups: &str, mounts: &str) -> Option<(String, PathBuf, u32)> {
    let of_version_1 = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|controller| controller == "memory").then_some(path)
    });
    let (path, version) = match of_version_1 {
        Some(path) => (path, 1),
        None => (groups.lines().find_map(|line| line.strip_prefix("0::"))?, 2),
    };
    let folder = mounts.lines().find_map(|line| {
        // What is mounted, where, options and more; then the type and the options of the file system.
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_it = match version {
            1 => system.next() == Some("cgroup") && system.nth(1)?.split(',').any(|option| option == "memory"),
            _ => system.next() == Some("cgroup2"),
        };
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next().filter(|_| is_it)?, mount.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })?;
    Some((path.to_owned(), folder, version))
}

/// The number behind a word at the begin of a line.
fn field(text: &str, name: &str) -> Option<i64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 30 0:22 / /proc rw - proc proc rw
31 24 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 24 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn the_group_that_counts_memory_is_found() {
        let one = "4:memory:/jobs/7\n1:cpu:/\n0::/user\n";
        let found = place(one, MOUNTS).unwrap();
        assert_eq!(found, ("/jobs/7".to_owned(), PathBuf::from("/sys/fs/cgroup/memory/jobs/7"), 1));
        let two = place("0::/user/a:b\n", MOUNTS).unwrap();
        assert_eq!(two, ("/user/a:b".to_owned(), PathBuf::from("/sys/fs/cgroup/unified/user/a:b"), 2));
        // In a container that sees its own group only.
        let mounts = "40 30 0:29 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
        assert_eq!(place("0::/docker/x/y\n", mounts).unwrap().1, PathBuf::from("/sys/fs/cgroup/y"));
        assert_eq!(place("0::/elsewhere\n", mounts), None);
        assert_eq!(place("", MOUNTS), None);
    }

    #[test]
    fn kills_of_the_group_come_before_those_of_the_machine() {
        let counts = |group: Option<i64>, machine| KillCounts {
            group: group.map(|kills| Group { name: "/jobs".to_owned(), kills, limit: Some(64 << 20) }),
            machine,
        };
        let killed = counts(Some(1), Some(5)).since(&counts(Some(3), Some(7))).unwrap();
        assert_eq!(
            (killed.count, killed.control_group.as_deref(), killed.limit_bytes),
            (2, Some("/jobs"), Some(64 << 20))
        );
        let elsewhere = counts(Some(1), Some(5)).since(&counts(Some(1), Some(6))).unwrap();
        assert_eq!((elsewhere.count, elsewhere.control_group), (1, None));
        assert_eq!(counts(Some(1), Some(5)).since(&counts(Some(1), Some(5))), None);
        assert_eq!(counts(None, None).since(&counts(None, Some(9))), None);
    }

    #[test]
    fn words_are_whole() {
        let events = "low 0\noom 4\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(field(events, "oom_kill"), Some(2));
        assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(field("oom_kill_disable 0\n", "oom_kill"), None);
    }
}
