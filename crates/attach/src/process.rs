//! What `/proc` tells of a process and its threads.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Rlimit;

/// The fields of `/proc/PID/status` that matter for attaching.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Name of the program, shortened to 15 bytes.
    pub name: String,
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X` …
    pub state: char,
    /// Process of the thread.
    pub process: i32,
    /// Parent process.
    pub parent: i32,
    /// Tracer, 0 for none.
    pub tracer: i32,
    /// Real, effective, saved and file-system user.
    pub users: [u32; 4],
    /// Real, effective, saved and file-system group.
    pub groups: [u32; 4],
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: u32,
    /// Number of system-call filters.
    pub filters: u32,
    /// Signals with a handler, bit *n* − 1 for signal *n*.
    pub caught: u64,
    /// Descriptors for which the kernel's table has room.
    pub descriptor_slots: u64,
    /// Locked memory, KiB.
    pub locked_kib: u64,
    /// Ignored signals, bit *n* − 1 for signal *n*.
    pub ignored: u64,
    /// Blocked signals of this thread.
    pub blocked: u64,
    /// It gets no privileges by executing a program (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// It has memory of its own: false for threads of the kernel and for zombies.
    pub has_memory: bool,
}

impl Status {
    /// Reads it for a process or thread.
    pub fn read(tid: i32) -> io::Result<Status> {
        read_text(format!("/proc/{tid}/status")).map(|text| Status::parse(&text))
    }

    fn parse(text: &str) -> Status {
        let mut status = Status { state: '?', ..Status::default() };
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            let number = || value.split_whitespace().next().and_then(|word| word.parse::<i64>().ok()).unwrap_or(0);
            let mask = || u64::from_str_radix(value, 16).unwrap_or(0);
            let ids = || {
                let mut ids = [0; 4];
                for (id, word) in ids.iter_mut().zip(value.split_whitespace()) {
                    *id = word.parse().unwrap_or(0);
                }
                ids
            };
            match key {
                "Name" => status.name = value.to_owned(),
                "State" => status.state = value.chars().next().unwrap_or('?'),
                "Tgid" => status.process = number() as i32,
                "PPid" => status.parent = number() as i32,
                "TracerPid" => status.tracer = number() as i32,
                "Uid" => status.users = ids(),
                "Gid" => status.groups = ids(),
                "Seccomp" => status.seccomp = number() as u32,
                "Seccomp_filters" => status.filters = number() as u32,
                "SigCgt" => status.caught = mask(),
                "FDSize" => status.descriptor_slots = number() as u64,
                "VmLck" => status.locked_kib = number() as u64,
                "VmSize" => status.has_memory = true,
                "NoNewPrivs" => status.no_new_privileges = number() != 0,
                "SigIgn" => status.ignored = mask(),
                "SigBlk" => status.blocked = mask(),
                _ => {}
            }
        }
        status
    }
}

/// A file of `/proc` with names in it: of programs, threads and paths, which may hold any bytes.
///
/// # Errors
/// What the system says.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A limit of a process, by its name in `/proc/PID/limits`.
pub fn limit_of(pid: i32, name: &str) -> Option<Rlimit> {
    let limits = read_text(format!("/proc/{pid}/limits")).ok()?;
    let mut values = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut next = || values.next().map(|value| value.parse::<u64>().ok());
    Some(Rlimit { current: next()?, maximum: next()? })
}

/// Threads of a process, by number. Empty if it is gone.
pub fn threads(pid: i32) -> Vec<i32> {
    numbered(&format!("/proc/{pid}/task"))
}

/// All processes, by number.
pub fn all() -> Vec<i32> {
    numbered("/proc")
}

/// Entries of a folder whose names are numbers, ascending.
fn numbered(folder: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut numbers: Vec<i32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The first thread of a process that `is_wanted`. One listing leaves threads out while others end: that there is none is known
/// once two are equal.
pub fn find_thread(pid: i32, is_wanted: impl Fn(i32) -> bool) -> Option<i32> {
    let mut last = Vec::new();
    loop {
        let listed = threads(pid);
        let found = listed.iter().copied().find(|&tid| is_wanted(tid));
        if found.is_some() || listed == last {
            return found;
        }
        last = listed;
    }
}

/// Whether a process is there and has not ended: its first thread may have, while others go on.
pub fn runs(pid: i32) -> bool {
    is_alive(pid) || find_thread(pid, is_alive).is_some()
}

/// Whether a thread is there and has not ended.
pub fn is_alive(tid: i32) -> bool {
    !matches!(state(tid), 'Z' | 'X')
}

/// State of a thread, `X` if it is gone, `?` if that can't be read. Cheaper than [`Status::read`].
pub fn state(tid: i32) -> char {
    let line = match read_text(format!("/proc/{tid}/stat")) {
        Ok(line) => line,
        Err(error) if is_gone(&error) => return 'X',
        Err(_) => return '?',
    };
    // The name stands in parentheses and may hold any character.
    line.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next()).unwrap_or('X')
}

/// Whether a file of `/proc` can't be read because its task is gone: a lack of descriptors or memory says nothing of the task.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Whether a task runs in the kernel alone.
pub fn is_kernel_thread(pid: i32) -> bool {
    const KERNEL_THREAD: u32 = 0x0020_0000;
    has_flag(pid, KERNEL_THREAD)
}

/// Whether a thread is there and not on its way out.
pub fn is_not_ending(tid: i32) -> bool {
    is_alive(tid) && !is_ending(tid)
}

/// Whether a task is on its way out: it loses its memory, its descriptors, and is seen to have ended, in this order.
pub fn is_ending(tid: i32) -> bool {
    const EXITING: u32 = 0x0000_0004;
    has_flag(tid, EXITING)
}

/// By the flags of the kernel (`PF_`, proc_pid_stat(5), field 9).
fn has_flag(tid: i32, flag: u32) -> bool {
    let Ok(line) = read_text(format!("/proc/{tid}/stat")) else { return false };
    let flags = line.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & flag != 0)
}

/// Function of the kernel in which a thread sleeps, for messages.
pub fn wait_place(tid: i32) -> String {
    fs::read_to_string(format!("/proc/{tid}/wchan"))
        .ok()
        .filter(|place| !place.is_empty() && place != "0")
        .unwrap_or_else(|| "unknown place".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_status() {
        let pid = std::process::id() as i32;
        let status = Status::read(pid).unwrap();
        assert_eq!((status.process, status.tracer, status.has_memory), (pid, 0, true));
        assert_eq!(status.users[1], rustix::process::geteuid().as_raw());
        assert!(threads(pid).contains(&pid));
    }

    /// A thread that was taken for ended would stand for ever.
    #[test]
    fn what_cannot_be_read_has_not_ended() {
        let system = |number| io::Error::from_raw_os_error(number);
        assert!(is_gone(&system(libc::ENOENT)) && is_gone(&system(libc::ESRCH)));
        assert!(!is_gone(&system(libc::EMFILE)) && !is_gone(&system(libc::ENFILE)) && !is_gone(&system(libc::ENOMEM)));
        assert_eq!(state(i32::MAX), 'X');
        assert_ne!(state(std::process::id() as i32), 'X');
    }

    #[test]
    fn names_that_imitate_fields() {
        let status =
            Status::parse("Name:\tx: State:\tZ\nState:\tS (sleeping)\nTracerPid:\t12\nSigIgn:\t0000000000000010\n");
        assert_eq!((status.state, status.tracer, status.ignored, status.has_memory), ('S', 12, 0x10, false));
    }
}
