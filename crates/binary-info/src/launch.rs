//! Whether a command can be profiled, decided before it is launched.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{BinaryError, Identity, LastLink, LibcKind, Object, open_plain};

/// How many `#!` lines the kernel follows.
const SCRIPT_DEPTH: usize = 5;
/// How much of a script's first line the kernel reads.
const SCRIPT_LINE: usize = 256;

/// A command that can be profiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTarget {
    /// The file that the command names, found through `PATH` if it has no slash.
    pub command: PathBuf,
    /// The ELF executable that will run: the command itself, or the interpreter of the script that it is.
    pub object: PathBuf,
    /// C library of the executable.
    pub libc: LibcKind,
}

/// Why a command can't be profiled; the message says what can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No such command.
    #[error("{command}: not found{}", if command.contains('/') { "" } else { " in PATH" })]
    NotFound {
        /// As the user wrote it.
        command: String,
    },
    /// The file exists and can't be executed.
    #[error("{path}: not executable (chmod +x it, or name its interpreter)", path = path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// A folder.
    #[error("{path} is a directory, not a program", path = path.display())]
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// Neither an ELF executable nor a script with a `#!` line.
    #[error("{path} is neither an ELF executable nor a script with a #! line; name its interpreter", path = path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// A script's interpreter is missing.
    #[error("{script}: its interpreter {interpreter} was not found", script = script.display())]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// What its first line names.
        interpreter: String,
    },
    /// Statically linked.
    #[error(
        "{path} is statically linked: calls inside it pass no linkage table, so there are no flows to see. What works: \
         link it dynamically (without -static or -static-pie; for Rust's musl targets -C target-feature=-crt-static), \
         or find where its time goes with `transect walk`, `transect criticality` or `transect latency`, which need no \
         linkage table",
        path = path.display()
    )]
    Static {
        /// The executable.
        path: PathBuf,
    },
    /// The dynamic loader as a command: it loads what it runs itself, and is entered before libraries can be.
    #[error(
        "{path} is the dynamic loader: calls can't be counted in a program that it is told to run. What works: \
         run the program itself, with LD_LIBRARY_PATH for --library-path and --argv0 by `exec -a`",
        path = path.display()
    )]
    Loader {
        /// The loader.
        path: PathBuf,
    },
    /// Set-uid, set-gid or with file capabilities.
    #[error(
        "{path} is {what}: the loader ignores preloaded libraries in a program with raised privileges, so it can't be \
         profiled. What works: profile a copy without them (`cp {path} /tmp/` drops them), as the user it needs",
        path = path.display()
    )]
    Privileged {
        /// The executable.
        path: PathBuf,
        /// `set-uid`, `set-gid`, or how else it gains privileges.
        what: &'static str,
    },
    /// Of another machine or class.
    #[error("{path} is {found}: Transect profiles x86-64 programs. What works: a 64-bit build of it", path = path.display())]
    WrongMachine {
        /// The executable.
        path: PathBuf,
        /// Class and machine in words.
        found: String,
    },
    /// The file could not be read as an object.
    #[error(transparent)]
    Object(BinaryError),
}

impl LaunchError {
    /// The program can run, and be recorded by who needs no agent in it.
    pub fn can_run(&self) -> bool {
        matches!(self, Self::Static { .. } | Self::Loader { .. })
    }

    /// The exit status with which env(1) and shells report such a failure: 127 for what was not found, 126 for what
    /// can't be executed, 125 for what could run but not be profiled.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. }
            | Self::Directory { .. }
            | Self::NotElf { .. }
            | Self::NoInterpreter { .. }
            | Self::Object(BinaryError::NotElf { .. } | BinaryError::Damaged { .. }) => 126,
            _ => 125,
        }
    }
}

/// Finds what `command` would execute, and whether it can be profiled. A command without a slash is looked up in
/// `PATH`; scripts are followed to their interpreter.
///
/// # Errors
/// A [`LaunchError`] for everything that can't be profiled.
pub fn inspect_launch(command: impl AsRef<Path>) -> Result<LaunchTarget, LaunchError> {
    let command = find(command.as_ref())?;
    let mut object = command.clone();
    for _ in 0..=SCRIPT_DEPTH {
        let head = first_bytes(&object)?;
        match script_interpreter(&head) {
            Some(interpreter) => {
                let next = PathBuf::from(std::ffi::OsStr::from_bytes(interpreter));
                if !next.is_file() {
                    let interpreter = next.display().to_string();
                    return Err(LaunchError::NoInterpreter { script: object, interpreter });
                }
                object = next;
            }
            None => return inspect_object(command, object, &head),
        }
    }
    Err(LaunchError::NotElf { path: object })
}

/// The same for who enters the program only when it runs: it may be started by its loader, or have none.
///
/// # Errors
/// As [`inspect_launch`].
pub fn inspect_held_launch(command: impl AsRef<Path>) -> Result<(), LaunchError> {
    match inspect_launch(command) {
        Ok(_) | Err(LaunchError::Loader { .. } | LaunchError::Static { .. }) => Ok(()),
        Err(why) => Err(why),
    }
}

fn inspect_object(command: PathBuf, path: PathBuf, head: &[u8]) -> Result<LaunchTarget, LaunchError> {
    let Some(identity) = Identity::parse(head) else { return Err(LaunchError::NotElf { path }) };
    if !identity.is_x86_64() {
        return Err(LaunchError::WrongMachine { path, found: identity.describe() });
    }
    let object = Object::open(&path).map_err(LaunchError::Object)?;
    // Raised is what the caller has not already: to root a program of root's gives nothing (`secureexec`, execve(2)).
    let owner = fs::metadata(&path).map(|metadata| (metadata.uid(), metadata.gid())).unwrap_or_default();
    let privilege = if object.is_setuid() && owner.0 != rustix::process::getuid().as_raw() {
        Some("set-uid")
    } else if object.is_setgid() && owner.1 != rustix::process::getgid().as_raw() {
        Some("set-gid")
    } else if has_capabilities(&path) && !rustix::process::geteuid().is_root() {
        Some("a file with capabilities")
    } else {
        None
    };
    if let Some(what) = privilege {
        return Err(LaunchError::Privileged { path, what });
    }
    if object.is_static() {
        return Err(LaunchError::Static { path });
    }
    if object.is_loader() {
        return Err(LaunchError::Loader { path });
    }
    Ok(LaunchTarget { command, object: path, libc: object.libc() })
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok_and(|size| size > 0)
}

/// The path of the file that execvp(3) would run.
fn find(command: &Path) -> Result<PathBuf, LaunchError> {
    let not_found = || LaunchError::NotFound { command: command.display().to_string() };
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && mode(path) & 0o111 != 0
    };
    if command.as_os_str().is_empty() {
        return Err(not_found());
    }
    if command.as_os_str().as_bytes().contains(&b'/') {
        return match command {
            path if executable(path) => Ok(path.to_path_buf()),
            path if path.is_dir() => Err(LaunchError::Directory { path: path.to_path_buf() }),
            path if path.exists() => Err(LaunchError::NotExecutable { path: path.to_path_buf() }),
            _ => Err(not_found()),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut seen = None;
    for folder in std::env::split_paths(&search) {
        let path = if folder.as_os_str().is_empty() { Path::new(".").join(command) } else { folder.join(command) };
        if executable(&path) {
            return Ok(path);
        }
        if path.is_file() {
            seen.get_or_insert(path);
        }
    }
    Err(seen.map_or_else(not_found, |path| LaunchError::NotExecutable { path }))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode())
}

fn first_bytes(path: &Path) -> Result<Vec<u8>, LaunchError> {
    let mut head = Vec::new();
    open_plain(path, LastLink::Follow)
        .and_then(|file| file.take(SCRIPT_LINE as u64).read_to_end(&mut head))
        .map_err(|source| LaunchError::Object(BinaryError::Read { path: path.to_path_buf(), source }))?;
    Ok(head)
}

/// The interpreter that a `#!` line names, without its argument.
fn script_interpreter(head: &[u8]) -> Option<&[u8]> {
    let line = head.strip_prefix(b"#!")?;
    let line = &line[..line.iter().position(|&b| b == b'\n' || b == 0).unwrap_or(line.len())];
    let line = line.trim_ascii();
    let word = &line[..line.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(line.len())];
    (!word.is_empty()).then_some(word)
}
