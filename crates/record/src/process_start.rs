//! Starting a process in two steps: it exists, and is held until what watches it is ready; then it becomes the program.
//!
//! In between the recorder can name the process to a collector in the kernel and drop its own privileges, while the
//! program keeps what it would have had: it was forked before. (The standard library's `spawn` returns only after
//! exec; and where it prefers posix_spawn, that leaves glibc's two internal signals ignored in the child, which a
//! program could notice.)

use std::ffi::{CStr, CString, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::unistd::{ForkResult, execvpe, fork};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::error::RecordError;
use crate::launch::BeforeExec;

/// A process that was started here.
#[derive(Debug)]
pub struct Launched {
    pid: Pid,
}

impl Launched {
    /// Starts `command`, looked up in `PATH` as a shell does, with this process' streams and environment, in which the
    /// `variables` are set.
    ///
    /// # Errors
    /// If there is no such program or it can't be started, or `before_exec` fails: then nothing has run.
    pub fn start(
        command: &[OsString],
        variables: &[(OsString, OsString)],
        before_exec: BeforeExec<'_>,
    ) -> Result<Launched, RecordError> {
        let program = command.first().ok_or(RecordError::NoCommand)?.to_string_lossy().into_owned();
        let failed = |source: io::Error| RecordError::Spawn { program: program.clone(), source };
        let arguments: Vec<CString> = command
            .iter()
            .map(|a| CString::new(a.as_bytes()).map_err(|_| failed(io::ErrorKind::InvalidInput.into())))
            .collect::<Result<_, _>>()?;
        let environment = environment(variables);
        let (held, go) = io::pipe().map_err(failed)?;
        let (mut outcome, report) = io::pipe().map_err(failed)?;
        // SAFETY: the child calls nothing but what is safe after fork in a process of several threads: no memory is
        // allocated, and it ends in exec or _exit.
        let launched = match unsafe { fork() }.map_err(|e| failed(e.into()))? {
            ForkResult::Child => become_program(&arguments, &environment, held, go, report),
            ForkResult::Parent { child } => {
                Launched { pid: Pid::from_raw(child.as_raw()).ok_or_else(|| failed(io::ErrorKind::Other.into()))? }
            }
        };
        drop((held, report));
        let mut go = go;
        if let Err(error) = before_exec(launched.pid.as_raw_nonzero().get()) {
            drop(go);
            let _ = launched.wait();
            return Err(error);
        }
        let _ = go.write_all(&[1]);
        drop(go);
        let mut number = [0u8; 4];
        match outcome.read_exact(&mut number) {
            // Closed by exec.
            Err(_) => Ok(launched),
            Ok(()) => {
                let _ = launched.wait();
                Err(failed(io::Error::from_raw_os_error(i32::from_le_bytes(number))))
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// If somebody else has waited for it.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                // A thread of ours that stopped it for a sample may have been told first.
                Err(rustix::io::Errno::CHILD) => {
                    let told = told_to_another_thread(self.pid);
                    return told.map(ExitStatus::from_raw).ok_or_else(|| rustix::io::Errno::CHILD.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How a process ended whose end another thread of ours was told: it notes that in the next moment, if it has not yet.
fn told_to_another_thread(pid: rustix::process::Pid) -> Option<i32> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = transect_attach::take_end(pid.as_raw_nonzero().get()) {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// This process' environment as it stands, in its order and with whatever else is in it, and `variables` set.
pub fn environment(variables: &[(OsString, OsString)]) -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const std::ffi::c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: libc's own array of strings, which this process does not change after its start.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    for (name, value) in variables {
        let mut text = name.as_bytes().to_vec();
        text.push(b'=');
        let old = entries.iter().position(|e| e.to_bytes().starts_with(&text));
        text.extend(value.as_bytes());
        let Ok(new) = CString::new(text) else { continue };
        match old {
            Some(old) => entries[old] = new,
            None => entries.push(new),
        }
    }
    entries
}

/// The child: waits for its go, and becomes the program.
fn become_program(
    arguments: &[CString],
    environment: &[CString],
    mut held: PipeReader,
    go: PipeWriter,
    mut report: PipeWriter,
) -> ! {
    drop(go);
    let mut word = [0u8; 1];
    if matches!(held.read(&mut word), Ok(1)) {
        transect_attach::restore_inherited();
        let Err(error) = execvpe(&arguments[0], arguments, environment);
        let _ = report.write_all(&(error as i32).to_le_bytes());
    }
    // SAFETY: ends the process without running what the recorder has registered for its own end.
    unsafe { nix::libc::_exit(127) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_program_begins_after_it_was_announced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let script = format!("echo $$ > {}", file.display());
        let mut announced = 0;
        let launched = Launched::start(&words(&["sh", "-c", &script]), &[], &mut |pid| {
            announced = pid;
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!file.exists());
            Ok(())
        })
        .unwrap();
        assert_eq!(launched.id() as i32, announced);
        assert_eq!(launched.wait().unwrap().code(), Some(0));
        assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), announced.to_string());
    }

    #[test]
    fn what_can_t_be_started_says_why() {
        for (command, kind) in
            [(&["/no/such/program"][..], io::ErrorKind::NotFound), (&["/etc/passwd"], io::ErrorKind::PermissionDenied)]
        {
            match Launched::start(&words(command), &[], &mut |_| Ok(())) {
                Err(RecordError::Spawn { source, .. }) => assert_eq!(source.kind(), kind),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_refusal_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let command = words(&["touch", file.to_str().unwrap()]);
        let outcome = Launched::start(&command, &[], &mut |_| Err(RecordError::NoCommand));
        assert!(matches!(outcome, Err(RecordError::NoCommand)));
        assert!(!file.exists());
    }

    #[test]
    fn signals_are_as_this_process_was_started_with() {
        // By a shell: nothing blocked, SIGPIPE (13) not ignored.
        let script = "grep -q 'SigBlk:.0000000000000000' /proc/self/status || exit 1
            ignored=$(sed -n 's/SigIgn:.//p' /proc/self/status)
            [ $((0x$ignored & 0x1000)) = 0 ] || exit 2
            kill -9 $$";
        let launched = Launched::start(&words(&["sh", "-c", script]), &[], &mut |_| Ok(())).unwrap();
        let status = launched.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (None, Some(9)));
    }
    #[test]
    fn variables_are_set_beside_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("variables");
        let script = format!("echo \"$PATH $ADDED\" > {}", file.display());
        let variables = [("ADDED".into(), "a=b c".into())];
        Launched::start(&words(&["sh", "-c", &script]), &variables, &mut |_| Ok(())).unwrap().wait().unwrap();
        let expected = format!("{} a=b c\n", std::env::var("PATH").unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    }
}
