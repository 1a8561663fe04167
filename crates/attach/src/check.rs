//! What forbids attaching, found out before anything is touched.

use std::fs;
use std::io::Read;

use crate::error::AttachError;
use crate::process::{Status, find_thread, is_not_ending, runs};

/// Refuses processes that can't be attached to for reasons that `/proc` shows.
pub fn check(pid: i32) -> Result<Status, AttachError> {
    if pid <= 0 {
        return Err(AttachError::NoSuchProcess { pid });
    }
    if pid == std::process::id() as i32 {
        return Err(AttachError::Itself { pid });
    }
    let status = Status::read(pid).map_err(|_| AttachError::NoSuchProcess { pid })?;
    if status.process != pid {
        return Err(AttachError::IsThread { tid: pid, pid: status.process });
    }
    if !status.has_memory {
        return match status.state {
            // A first thread that has ended while others go on looks like a zombie too.
            'Z' | 'X' if runs(pid) => check_machine(pid).map(|()| status),
            'Z' | 'X' => Err(AttachError::Zombie { pid, parent: status.parent }),
            _ if crate::process::is_kernel_thread(pid) => Err(AttachError::KernelThread { pid, name: status.name }),
            // Its memory goes a moment before it is seen to have ended.
            _ => Err(AttachError::Exited { pid }),
        };
    }
    if status.tracer != 0 && status.tracer != own_thread() {
        return Err(traced(pid, status.tracer));
    }
    check_machine(pid)?;
    Ok(status)
}

pub(crate) fn own_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// `tracer`: a thread, as the kernel names it; users know its process.
pub(crate) fn traced(pid: i32, tracer: i32) -> AttachError {
    let tracer = Status::read(tracer).map_or(tracer, |status| status.process);
    let name = Status::read(tracer).map(|s| s.name).unwrap_or_else(|_| "in another container".to_owned());
    AttachError::Traced { pid, tracer, name }
}

/// The machine type stands in the executable; a path is not trusted, the link in `/proc` is the file itself.
fn check_machine(pid: i32) -> Result<(), AttachError> {
    let task = find_thread(pid, is_not_ending).unwrap_or(pid);
    let mut head = [0u8; 20];
    // Not readable means not permitted, which tracing will say better.
    let Ok(mut file) = fs::File::open(format!("/proc/{task}/exe")) else { return Ok(()) };
    if file.read_exact(&mut head).is_err() {
        return Ok(());
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let found = match (head[4], machine) {
        (2, 62) => return Ok(()),
        (1, 3) => "a 32-bit x86 program".to_owned(),
        (1, 62) => "an x32 program (32-bit pointers)".to_owned(),
        (class, machine) => format!("a program of ELF class {class}, machine {machine}"),
    };
    Err(AttachError::ForeignMachine { pid, found })
}

/// Finds the reason why the kernel said EPERM to `operation`.
pub fn explain_permission(pid: i32, operation: &'static str) -> AttachError {
    let Ok(status) = Status::read(pid) else { return AttachError::Exited { pid } };
    if status.tracer != 0 && status.tracer != own_thread() {
        return traced(pid, status.tracer);
    }
    let own = Status::read(std::process::id() as i32).unwrap_or_default();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().and_then(|t| t.trim().parse().ok());
    let namespaces = [pid, std::process::id() as i32].map(|p| fs::read_link(format!("/proc/{p}/ns/user")).ok());
    Facts {
        pid,
        operation,
        users: status.users,
        groups: status.groups,
        own_user: own.users[1],
        own_group: own.groups[1],
        scope,
        same_user_namespace: match namespaces {
            [Some(theirs), Some(ours)] => theirs == ours,
            // The link of a process that may not be traced is not readable. In the first namespace every user is
            // known; in another one, a process of an unknown user is from outside.
            _ => fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.trim_end().ends_with(" 4294967295")),
        },
    }
    .explain()
}

/// What is known when the kernel has said no.
struct Facts {
    pid: i32,
    operation: &'static str,
    users: [u32; 4],
    groups: [u32; 4],
    own_user: u32,
    own_group: u32,
    scope: Option<u32>,
    same_user_namespace: bool,
}

impl Facts {
    fn explain(self) -> AttachError {
        let pid = self.pid;
        let root = self.own_user == 0;
        if !root && self.users[..3].iter().any(|u| *u != self.own_user) {
            let owner = if self.users[..3].iter().all(|u| *u == self.users[0]) {
                format!("user {}", self.users[0])
            } else {
                format!("users {}, {}, {} (set-user-id)", self.users[0], self.users[1], self.users[2])
            };
            return AttachError::OtherUser { pid, owner, own: format!("user {}", self.own_user) };
        }
        match self.scope {
            Some(scope @ 1) if !root => {
                return AttachError::PtraceScope {
                    pid,
                    scope,
                    advice: "run this command as root, or let it start the program (transect probe COMMAND -- PROGRAM), \
                             or allow it with: sysctl kernel.yama.ptrace_scope=0",
                };
            }
            Some(scope @ 2) if !root => {
                return AttachError::PtraceScope {
                    pid,
                    scope,
                    advice: "run this command as root, or allow it with: sysctl kernel.yama.ptrace_scope=0",
                };
            }
            Some(scope @ 3..) => {
                return AttachError::PtraceScope {
                    pid,
                    scope,
                    advice: "nobody may attach to anything until the next boot; then boot with another value of \
                             kernel.yama.ptrace_scope, or link the program with libtransect",
                };
            }
            _ => {}
        }
        if !self.same_user_namespace {
            return AttachError::UserNamespace { pid };
        }
        if !root && self.groups[..3].iter().all(|g| *g == self.own_group) {
            return AttachError::Undumpable { pid };
        }
        AttachError::Forbidden { pid, operation: self.operation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            pid: 7,
            operation: "seize",
            users: [1000; 4],
            groups: [1000; 4],
            own_user: 1000,
            own_group: 1000,
            scope: None,
            same_user_namespace: true,
        }
    }

    #[test]
    fn each_cause_has_its_own_message() {
        let other = Facts { users: [0; 4], ..facts() }.explain();
        assert!(matches!(&other, AttachError::OtherUser { owner, .. } if owner == "user 0"), "{other}");
        for scope in 1..=3 {
            let message = Facts { scope: Some(scope), ..facts() }.explain().to_string();
            assert!(message.contains(&format!("kernel.yama.ptrace_scope = {scope}")), "{message}");
        }
        // Root is not stopped by 1 and 2.
        let root = Facts { own_user: 0, scope: Some(2), ..facts() }.explain();
        assert!(matches!(root, AttachError::Forbidden { .. }));
        assert!(matches!(Facts { same_user_namespace: false, ..facts() }.explain(), AttachError::UserNamespace { .. }));
        assert!(matches!(facts().explain(), AttachError::Undumpable { .. }));
    }

    #[test]
    fn refused_without_being_touched() {
        assert!(matches!(check(0), Err(AttachError::NoSuchProcess { .. })));
        assert!(matches!(check(i32::MAX), Err(AttachError::NoSuchProcess { .. })));
        assert!(matches!(check(std::process::id() as i32), Err(AttachError::Itself { .. })));
        assert!(
            matches!(check(2), Err(AttachError::KernelThread { .. } | AttachError::NoSuchProcess { .. }))
                || cfg!(not(target_os = "linux"))
        );
    }
}
