//! The first moments of a launched process: it waits until it is traced, then executes the program.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::child_signal::ChildSignal;
use crate::error::AttachError;
use crate::ptrace::{self, Waited};

/// Everything that exec needs, made before the fork: the child may not allocate.
pub struct Prepared {
    program: String,
    /// Files to try in turn.
    files: Vec<CString>,
    arguments: Vec<CString>,
    /// Entries of its environment; `None`: this process'.
    environment: Option<Vec<CString>>,
}

/// A child that waits for permission to go on.
pub struct Started {
    pid: i32,
    program: String,
    go: File,
    failure: File,
}

impl Prepared {
    pub fn new(command: &[OsString], environment: Option<Vec<CString>>) -> Result<Prepared, AttachError> {
        let program = command.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        let invalid = |kind: io::ErrorKind| AttachError::Start { program: program.clone(), source: kind.into() };
        let name = command.first().filter(|name| !name.is_empty()).ok_or_else(|| invalid(io::ErrorKind::NotFound))?;
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| invalid(io::ErrorKind::InvalidInput));
        let files = if name.as_bytes().contains(&b'/') {
            vec![text(name.as_bytes())?]
        } else {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
            let paths = std::env::split_paths(&path).map(|folder| folder.join(name));
            paths.map(|file| text(file.as_os_str().as_bytes())).collect::<Result<_, _>>()?
        };
        let arguments = command.iter().map(|a| text(a.as_bytes())).collect::<Result<_, _>>()?;
        Ok(Prepared { program, files, arguments, environment })
    }

    pub fn fork(&self, signals: &ChildSignal) -> Result<Started, AttachError> {
        let fail = |source: io::Error| AttachError::Start { program: self.program.clone(), source };
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
        let (failure, report) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
        // What a file without `#!` is run with, as execvp does.
        let shell = c"/bin/sh";
        let pointers: Vec<_> = self.arguments.iter().map(|a| a.as_ptr()).chain([null()]).collect();
        let variables: Option<Vec<_>> =
            self.environment.as_ref().map(|entries| entries.iter().map(|e| e.as_ptr()).chain([null()]).collect());
        let mut script: Vec<_> = [shell.as_ptr(), null()].into_iter().chain(pointers[1..].iter().copied()).collect();
        // SAFETY: the child calls async-signal-safe functions only, on memory prepared here.
        match unsafe { libc::fork() } {
            -1 => Err(fail(io::Error::last_os_error())),
            0 => {
                signals.restore();
                // Else it would wait for itself where we end without letting it go.
                drop(go);
                // SAFETY: as above; every array ends with a null pointer, and `environ` is not changed meanwhile, for
                // this process has one thread.
                unsafe { self.execute(&wait, &report, &pointers, variables.as_deref(), &mut script) }
            }
            pid => {
                drop((wait, report));
                Ok(Started { pid, program: self.program.clone(), go: go.into(), failure: failure.into() })
            }
        }
    }

    /// # Safety
    /// In a fork's child; the arrays end with null pointers.
    unsafe fn execute(
        &self,
        wait: &OwnedFd,
        report: &OwnedFd,
        arguments: &[*const libc::c_char],
        variables: Option<&[*const libc::c_char]>,
        script: &mut [*const libc::c_char],
    ) -> ! {
        unsafe extern "C" {
            static environ: *const *const libc::c_char;
        }
        // SAFETY: by this function's contract; buffers are locals.
        unsafe {
            let mut byte = 0u8;
            if libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
            crate::inherited::restore();
            let variables = variables.map_or(environ, <[_]>::as_ptr);
            let mut worst = libc::ENOENT;
            for file in &self.files {
                libc::execve(file.as_ptr(), arguments.as_ptr(), variables);
                let mut error = *libc::__errno_location();
                if error == libc::ENOEXEC {
                    script[1] = file.as_ptr();
                    libc::execve(script[0], script.as_ptr(), variables);
                    error = libc::ENOEXEC;
                }
                match error {
                    libc::ENOENT | libc::ENOTDIR => {}
                    libc::EACCES => worst = error,
                    _ => {
                        worst = error;
                        break;
                    }
                }
            }
            libc::write(report.as_raw_fd(), (&raw const worst).cast(), 4);
            libc::_exit(127)
        }
    }
}

impl Started {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// It will not execute anything.
    pub fn abandon(self) {
        drop(self.go);
        let _ = ptrace::wait(self.pid, true);
    }

    /// Lets it execute the program. It stands at its exec event then.
    pub fn let_go(mut self) -> Result<(), AttachError> {
        let fail = |program: String, source: io::Error| AttachError::Start { program, source };
        if let Err(error) = self.go.write_all(&[1]) {
            return Err(fail(self.program, error));
        }
        let mut word = [0; 4];
        self.pass_signals_on();
        // The end of the pipe comes with a successful exec.
        match self.failure.read_exact(&mut word) {
            Ok(()) => {
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(word));
                let _ = ptrace::wait(self.pid, true);
                Err(fail(self.program, error))
            }
            Err(_) => Ok(()),
        }
    }

    /// Waits until it has executed the program or failed to. It is traced: a signal that arrives before stops it, and is passed on.
    fn pass_signals_on(&self) {
        let patience = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        while poll(&mut [PollFd::new(&self.failure, PollFlags::IN)], Some(&patience)) != Ok(1) {
            // The exec event belongs to whoever follows the program.
            if !matches!(ptrace::peek(self.pid), Waited::Signal(_) | Waited::Interrupted | Waited::GroupStop(_)) {
                continue;
            }
            let _ = match ptrace::wait(self.pid, false) {
                Ok((_, Waited::Signal(signal))) => ptrace::go_on(self.pid, signal),
                Ok((_, Waited::GroupStop(_))) => ptrace::listen(self.pid),
                _ => ptrace::go_on(self.pid, 0),
            };
        }
    }
}
