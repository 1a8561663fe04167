//! What loading the collectors takes, what to do where it is missing, and how to be rid of it afterwards.
//!
//! Loading takes `CAP_BPF` and `CAP_PERFMON` in the initial user namespace, and the kernel's type information. Nothing
//! after it does: maps and the ring buffer are used through their descriptors (kernels 6.0 and newer let anybody do
//! that; with `kernel.unprivileged_bpf_disabled=0` older ones do as well).

#[allow(unsafe_code)]
mod all_threads;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// What loading needs.
const NEEDED: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// What a recorder that runs as root keeps after loading; see [`drop_after_load`].
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::SYSLOG);

/// Why the collectors can't be loaded, or privileges not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Capabilities are missing; the command that grants them can help.
    #[error(
        "recording from the kernel needs {missing}, which this process does not have; grant it once with `{grant}`, or \
         run it with sudo"
    )]
    Capabilities {
        /// What is missing, by name.
        missing: String,
        /// The command.
        grant: String,
    },
    /// The executable has them, and the kernel did not grant them.
    #[error(
        "recording from the kernel needs {missing}; {executable} has been granted it, but {obstacle}, so the kernel \
         ignores that"
    )]
    Ignored {
        /// What is missing, by name.
        missing: String,
        /// This command.
        executable: PathBuf,
        /// What stands in the way.
        obstacle: &'static str,
    },
    /// Capabilities of a container do not count.
    #[error(
        "recording from the kernel needs cap_bpf and cap_perfmon of the machine; this process is in a user namespace \
         (a rootless container?), whose capabilities do not count: run it outside"
    )]
    UserNamespace,
    /// The kernel's own types are not known.
    #[error(
        "recording from the kernel needs the kernel's type information, /sys/kernel/btf/vmlinux, and this kernel was \
         built without it (CONFIG_DEBUG_INFO_BTF): boot another one; `transect run` needs no such help"
    )]
    NoTypeInformation,
    /// The kernel is locked down.
    #[error(
        "the kernel is locked down (confidentiality): BPF programs may not read its memory, so nothing can be \
         recorded from it; boot with `lockdown=integrity` or without"
    )]
    LockedDown,
    /// Capabilities belong to threads, and some did not drop theirs when told to.
    #[error("capabilities can't be dropped: {0} threads of this process keep theirs")]
    Threads(usize),
    /// The kernel refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> PrivilegeError {
    move |source| PrivilegeError::System { what, source: source.into() }
}

/// Facts that decide whether the collectors can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privileges {
    /// Capabilities needed and not permitted to this thread.
    pub missing: CapabilitySet,
    /// Whether this process is in the initial user namespace.
    pub initial_namespace: bool,
    /// Whether the executable has been granted them (file capabilities), whatever came of it.
    pub granted: bool,
    /// Whether `no_new_privs` is set: file capabilities are ignored.
    pub no_new_privileges: bool,
    /// Whether the kernel's type information can be read.
    pub type_information: bool,
    /// Whether the kernel is locked down so far that BPF programs may not read its memory.
    pub confidential: bool,
}

impl Privileges {
    /// Looks at this thread, its executable and the kernel.
    ///
    /// # Errors
    /// If the kernel does not tell its capabilities.
    pub fn of_this_thread() -> Result<Privileges, PrivilegeError> {
        let sets = capabilities(None).map_err(system("read this thread's capabilities"))?;
        let missing = if sets.permitted.contains(CapabilitySet::SYS_ADMIN) {
            CapabilitySet::empty()
        } else {
            NEEDED - sets.permitted
        };
        let mut value = [0u8; 64];
        let granted =
            rustix::fs::getxattr(executable(), "security.capability", &mut value[..]).is_ok_and(|length| length > 0);
        Ok(Privileges {
            missing,
            initial_namespace: in_initial_namespace(),
            granted,
            no_new_privileges: rustix::thread::no_new_privs().unwrap_or(false),
            type_information: fs::metadata("/sys/kernel/btf/vmlinux").is_ok(),
            confidential: fs::read_to_string("/sys/kernel/security/lockdown")
                .is_ok_and(|text| text.contains("[confidentiality]")),
        })
    }

    /// What stands in the way, the first thing first.
    ///
    /// # Errors
    /// If anything does.
    pub fn verdict(&self) -> Result<(), PrivilegeError> {
        if !self.type_information {
            return Err(PrivilegeError::NoTypeInformation);
        }
        if !self.initial_namespace {
            return Err(PrivilegeError::UserNamespace);
        }
        if !self.missing.is_empty() {
            let missing = names(self.missing);
            if self.granted {
                let obstacle = if self.no_new_privileges {
                    "the shell, container or sandbox that started it has set no_new_privs"
                } else {
                    "its file system is mounted nosuid, it is being traced, or the container's bounding set lacks it"
                };
                return Err(PrivilegeError::Ignored { missing, executable: executable(), obstacle });
            }
            return Err(PrivilegeError::Capabilities { missing, grant: grant_command(&executable()) });
        }
        if self.confidential {
            return Err(PrivilegeError::LockedDown);
        }
        Ok(())
    }
}

/// Makes sure that the collectors can be loaded: what is permitted becomes effective.
///
/// # Errors
/// If anything stands in the way; the message says what to do.
pub fn prepare_to_load() -> Result<(), PrivilegeError> {
    Privileges::of_this_thread()?.verdict()?;
    let sets = capabilities(None).map_err(system("read this thread's capabilities"))?;
    let effective = sets.effective | (sets.permitted & (NEEDED | CapabilitySet::SYS_ADMIN));
    set_capabilities(None, CapabilitySets { effective, ..sets }).map_err(system("raise capabilities"))
}

/// Whether this thread may look into processes of all users.
pub fn sees_all_processes() -> bool {
    capabilities(None).is_ok_and(|sets| sets.permitted.contains(CapabilitySet::SYS_PTRACE))
}

/// The command that lets anybody who may run `executable` record scheduler events.
pub fn grant_command(executable: &Path) -> String {
    let path = executable.display().to_string();
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+,=@%:".contains(c));
    let path = if plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
    format!("sudo setcap cap_bpf,cap_perfmon=ep {path}")
}

/// Drops every capability that is not needed once the collectors are loaded, in all threads of the process, and returns
/// what is kept. Other threads are notified by a signal (SIGURG, which is ignored unless somebody asks for it): system calls
/// they wait in may return `EINTR`. A program that is to have what the recorder was given must be forked before.
///
/// Nothing is kept but by root. There the kernel compares: a process may look at another one (`/proc/PID/maps`, `exe`,
/// memory) if it has all capabilities that the other one has, or `CAP_SYS_PTRACE`. Programs that root starts have all, so
/// that one is kept; `CAP_DAC_READ_SEARCH` for executables and libraries below folders of other users; `CAP_KILL` to pass
/// signals on to a program that has changed its user; `CAP_SYS_NICE` to be first in line for a CPU while threads are
/// held; `CAP_CHECKPOINT_RESTORE` for programs and libraries that are mapped and have no path any more
/// (`/proc/PID/map_files`); `CAP_SYSLOG` for the names of the kernel's functions; and `CAP_DAC_OVERRIDE` only if one of the `writes` (paths of
/// files or folders to be made) lies in a folder that root may not write to by its owner or mode.
///
/// Neither the bounding, inheritable and ambient sets nor `no_new_privs` or the securebits are touched: a program that is
/// launched later gets from exec what it would have got anyhow.
///
/// # Errors
/// If the kernel refuses, or a thread does not answer.
pub fn drop_after_load(writes: &[&Path]) -> Result<CapabilitySet, PrivilegeError> {
    drop_but(CapabilitySet::empty(), writes)
}

/// As [`drop_after_load`], but keeps what loading needs: for who attaches more programs later.
///
/// # Errors
/// As there.
pub fn drop_but_loading(writes: &[&Path]) -> Result<CapabilitySet, PrivilegeError> {
    drop_but(NEEDED, writes)
}

/// Drops what the executable was granted (file capabilities), unless root runs it: for who needs nothing of it. Programs of
/// the same user can look into a process only if they have all capabilities that it has, and the agent opens the recording's
/// memory through `/proc`.
///
/// # Errors
/// As of [`drop_after_load`].
pub fn drop_granted() -> Result<(), PrivilegeError> {
    let sets = capabilities(None).map_err(system("read this thread's capabilities"))?;
    if rustix::process::geteuid().is_root() || sets.permitted.is_empty() {
        return Ok(());
    }
    drop_after_load(&[]).map(drop)
}

fn drop_but(wanted: CapabilitySet, writes: &[&Path]) -> Result<CapabilitySet, PrivilegeError> {
    let sets = capabilities(None).map_err(system("read this thread's capabilities"))?;
    let mut kept = wanted & sets.permitted;
    if rustix::process::geteuid().is_root() {
        kept |= KEPT_BY_ROOT & sets.permitted;
    }
    let overrides = CapabilitySet::DAC_OVERRIDE & sets.permitted;
    if !kept.is_empty() && !overrides.is_empty() {
        let trial = CapabilitySets { effective: kept, permitted: kept | overrides, inheritable: sets.inheritable };
        set_capabilities(None, trial).map_err(system("drop capabilities"))?;
        if writes.iter().any(|path| !may_write(path)) {
            kept |= overrides;
        }
    }
    all_threads::keep_only(kept)?;
    if kept.is_empty() {
        // A process with file capabilities is closed to its own user: the agent in the program could not open the
        // recording's memory through /proc/PID/fd. There is nothing left to protect.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
            .map_err(system("open this process to its user"))?;
    }
    Ok(kept)
}

/// Whether a file or folder could be made or replaced at `path` with the effective capabilities.
fn may_write(path: &Path) -> bool {
    let folder = path.ancestors().skip(1).find(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    [path, folder].into_iter().all(|place| {
        match rustix::fs::accessat(CWD, place, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            // What is not there yet is its folder's affair; a file need not be executable.
            Err(rustix::io::Errno::NOENT) => true,
            Err(_) if place.is_file() => rustix::fs::accessat(CWD, place, Access::WRITE_OK, AtFlags::EACCESS).is_ok(),
            outcome => outcome.is_ok(),
        }
    })
}

/// Variables that the loader takes out of the environment of a program with file capabilities (glibc's "unsecure"
/// ones), and that a program which it launches should find all the same.
const TAKEN_OUT: [&str; 13] = [
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "TMPDIR",
    "TZDIR",
    "LD_",
];

/// What the loader took out of this process' environment, as name and value: to be given to launched programs.
///
/// A process with file capabilities is closed to its own user, and so to itself; it is opened here. While it has
/// capabilities that its user's other processes lack, those may not look into it all the same.
pub fn withheld_environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    use std::os::unix::ffi::OsStringExt;
    let read = || fs::read("/proc/self/environ");
    let original = read().or_else(|_| {
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        read()
    });
    let Ok(original) = original else { return Vec::new() };
    let mut found = Vec::new();
    for entry in original.split(|&b| b == 0) {
        let Some(at) = entry.iter().position(|&b| b == b'=') else { continue };
        let text = String::from_utf8_lossy(&entry[..at]);
        let unsecure =
            text.starts_with("MALLOC_") || TAKEN_OUT.iter().any(|t| text == *t || *t == "LD_" && text.starts_with(t));
        let name = std::ffi::OsString::from_vec(entry[..at].to_vec());
        if unsecure && std::env::var_os(&name).is_none() {
            found.push((name, std::ffi::OsString::from_vec(entry[at + 1..].to_vec())));
        }
    }
    found
}

/// This command's file.
pub fn executable() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("transect"))
}

/// Names as `setcap` knows them, `cap_bpf and cap_perfmon`.
pub fn names(set: CapabilitySet) -> String {
    set.iter_names().map(|(name, _)| format!("cap_{}", name.to_ascii_lowercase())).collect::<Vec<_>>().join(" and ")
}

fn in_initial_namespace() -> bool {
    // The initial namespace maps everybody to itself; another one can't have the whole range.
    fs::read_to_string("/proc/self/uid_map")
        .map_or(true, |map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Privileges {
        Privileges {
            missing: CapabilitySet::empty(),
            initial_namespace: true,
            granted: false,
            no_new_privileges: false,
            type_information: true,
            confidential: false,
        }
    }

    #[test]
    fn each_obstacle_is_named_with_what_to_do() {
        let cases: [(Privileges, &str); 8] = [
            (Privileges { missing: NEEDED, ..well() }, "sudo setcap cap_bpf,cap_perfmon=ep /"),
            (Privileges { missing: NEEDED, ..well() }, "needs cap_perfmon and cap_bpf,"),
            (Privileges { missing: CapabilitySet::BPF, ..well() }, "needs cap_bpf,"),
            (Privileges { missing: NEEDED, granted: true, ..well() }, "nosuid"),
            (Privileges { missing: NEEDED, granted: true, no_new_privileges: true, ..well() }, "no_new_privs"),
            (Privileges { initial_namespace: false, ..well() }, "user namespace"),
            (Privileges { type_information: false, missing: NEEDED, ..well() }, "CONFIG_DEBUG_INFO_BTF"),
            (Privileges { confidential: true, ..well() }, "lockdown=integrity"),
        ];
        for (privileges, words) in cases {
            let message = privileges.verdict().unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
        well().verdict().unwrap();
    }

    #[test]
    fn commands_are_quoted_for_the_shell() {
        for (path, words) in [
            ("/usr/bin/transect", "=ep /usr/bin/transect"),
            ("/home/a b/transect", "=ep '/home/a b/transect'"),
            ("/x/it's", r"=ep '/x/it'\''s'"),
        ] {
            assert!(grant_command(Path::new(path)).ends_with(words), "{path}");
        }
    }
}
