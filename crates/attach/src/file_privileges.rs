//! Privileges that programs get from their files, and that the kernel withholds from what an ordinary user traces
//! (`LSM_UNSAFE_PTRACE`, security/commoncap.c).

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};

use crate::process::Status;

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const CAPABILITIES: &str = "security.capability";

/// What the file of a traced process' program would give it and has not, in words. `None` if nothing is missing.
pub(crate) fn withheld(pid: i32) -> Option<String> {
    withheld_kind(pid).map(|kind| {
        format!(
            "it ran without its privileges ({kind}), which the kernel gives to no program that an ordinary user traces: leave \
             children alone with --no-follow"
        )
    })
}

fn withheld_kind(pid: i32) -> Option<&'static str> {
    let path = format!("/proc/{pid}/exe");
    let (file, status) = (fs::metadata(&path).ok()?, Status::read(pid).ok()?);
    let mounted_without = statvfs(&path).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    if status.no_new_privileges || mounted_without {
        return None;
    }
    let has_capabilities = || getxattr(&path, CAPABILITIES, &mut [0u8; 64]).is_ok();
    let lacks_capabilities = || !rustix::process::geteuid().is_root() && has_capabilities();
    lacks_identity(file.mode(), (file.uid(), file.gid()), &status)
        .or_else(|| lacks_capabilities().then_some("file capabilities"))
}

/// Whether a process that executed a file with this mode, user and group has not become them.
fn lacks_identity(mode: u32, (user, group): (u32, u32), status: &Status) -> Option<&'static str> {
    // With the group's execution bit off, the other one marks mandatory locks.
    const GROUP: u32 = SET_GROUP | 0o010;
    if mode & SET_USER != 0 && user != status.users[1] {
        Some("set-user-id")
    } else if mode & GROUP == GROUP && group != status.groups[1] {
        Some("set-group-id")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_program_lacks_nothing() {
        assert_eq!(withheld(std::process::id().cast_signed()), None);
    }

    #[test]
    fn a_program_that_did_not_become_its_files_owner_lacks_that() {
        let status = Status { users: [1000; 4], groups: [100; 4], ..Status::default() };
        let became = Status { users: [1000, 0, 0, 0], groups: [100; 4], ..Status::default() };
        assert_eq!(lacks_identity(0o4755, (0, 100), &status), Some("set-user-id"));
        assert_eq!(lacks_identity(0o4755, (0, 100), &became), None);
        assert_eq!(lacks_identity(0o2755, (1000, 42), &status), Some("set-group-id"));
        assert_eq!(lacks_identity(0o2745, (1000, 42), &status), None, "no set-group-id without execution");
        assert_eq!(lacks_identity(0o755, (0, 42), &status), None);
    }
}
