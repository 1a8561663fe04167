//! A process of its own that outlives the walker for as long as it takes to leave the program clean: when the walker is
//! killed, it puts the original bytes and return addresses back.
//!
//! It also makes the arena and loads the agent, for these are system calls made by a thread of the program in our name:
//! who is killed in the middle of one leaves the thread without its registers.
//!
//! It is forked off, has a session of its own (Ctrl-C and the end of a terminal don't reach it), and waits for the end
//! of a pipe. Where it may not trace the program (Yama allows that to ancestors only), functions are not timed:
//! nothing would take the jumps away.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{ForkResult, fork, setsid};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use transect_attach::{Arena, AttachError, Image, LaunchEvent, Target, finish_left};
use transect_event_abi::probe_arena::{SITE_GONE, SITE_INSTALLED};
use transect_probe::Descriptor;
use transect_probe::trampoline::WORD;

use super::ProbeSession;
use super::adopt::restore_left;
use super::leaving::Leaving;
use super::writer::writer;

/// The guard's name, as others see it.
pub const NAME: &CStr = c"transect-guard";
/// How long it is tried to reach the program after the walker's end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for threads that wake.
const LOOK: Duration = Duration::from_millis(2);
/// The highest ordinary priority, which threads have while they are being stopped.
const FIRST: i32 = -20;
/// The walker has taken everything out itself.
const DISMISSED: u8 = b'D';
/// A launched process may come to have probes.
const WATCHED: u8 = b'W';
/// A launched process has ended.
const ENDED: u8 = b'E';

/// The process is prepared; eight bytes of nanoseconds follow.
const PREPARED: u8 = b'P';
/// The guard may not trace; the reason follows.
const REFUSED: u8 = b'R';
/// A thread can't be stopped at the moment; its number follows.
const STUCK: u8 = b'L';

/// The walker's end of it.
#[derive(Debug)]
pub struct Guard {
    pipe: File,
    /// How long the program was held while it was prepared, ns; `None` if that has not worked.
    pub held_ns: Option<u64>,
    /// Why it may not trace the program: who kills the walker then leaves the walker's jumps in it.
    pub refused: Option<String>,
    /// A thread that could not be stopped, so that the process is not prepared.
    pub stuck: Option<i32>,
}

impl Guard {
    /// Starts the guard, which prepares the process: its arena, the agent, room for trampolines.
    ///
    /// # Errors
    /// If there are no processes or descriptors left.
    pub fn start(pid: i32, agent: &Path) -> io::Result<Guard> {
        // Drawn here: both processes go by the same.
        writer();
        let (news, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
        let (mut answer, reply) = {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            (File::from(read), write)
        };
        fork_off(|| watch(pid, agent, news, reply))?;
        let (mut kind, mut held, mut refused, mut tid) = ([0], [0; 8], None, [0; 4]);
        let mut stuck = None;
        let mut held_ns = None;
        match answer.read_exact(&mut kind).map(|()| kind[0]) {
            Ok(PREPARED) => held_ns = answer.read_exact(&mut held).ok().map(|()| u64::from_le_bytes(held)),
            Ok(REFUSED) => {
                let mut why = String::new();
                refused = answer.read_to_string(&mut why).ok().map(|_| why);
            }
            Ok(STUCK) => stuck = answer.read_exact(&mut tid).ok().map(|()| i32::from_le_bytes(tid)),
            _ => {}
        }
        Ok(Guard { pipe: File::from(pipe), held_ns, refused, stuck })
    }

    /// Starts one for a process that is prepared already: `clean` puts everything back, with the descriptors `kept`.
    ///
    /// # Errors
    /// As for [`Guard::start`].
    pub fn of_prepared(pid: i32, kept: &[i32], clean: impl FnMut() -> Result<(), AttachError>) -> io::Result<Guard> {
        let (news, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
        let kept: Vec<i32> = kept.iter().copied().chain([news.as_raw_fd()]).collect();
        fork_off(|| {
            stand_apart(&kept);
            clean_after(pid, news, clean);
        })?;
        Ok(Guard { pipe: File::from(pipe), held_ns: None, refused: None, stuck: None })
    }

    /// Nothing is left to be done.
    pub fn dismiss(mut self) {
        let _ = self.pipe.write_all(&[DISMISSED]);
    }
}

/// The guard of what a launched program comes to be: its processes are traced by the walker until that is gone.
///
/// Without it (no processes or descriptors are left) all but the cleaning works. Dropped without [`LaunchGuard::dismiss`] it cleans.
#[derive(Debug)]
pub struct LaunchGuard {
    pipe: Option<File>,
}

impl LaunchGuard {
    /// Starts it; `agent` is the image that is mapped into the processes.
    pub fn start(agent: &Path) -> LaunchGuard {
        writer();
        let start = || -> io::Result<File> {
            let (news, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
            fork_off(|| watch_launched(agent, news))?;
            Ok(File::from(pipe))
        };
        LaunchGuard { pipe: start().ok() }
    }

    /// Keeps up with which processes there are.
    pub fn follow(&mut self, event: &LaunchEvent) {
        match event {
            LaunchEvent::Nothing | LaunchEvent::Ending { .. } => {}
            LaunchEvent::Image(target) => self.watch(target.pid()),
            LaunchEvent::Forked { child, .. } => self.watch(*child),
            LaunchEvent::Ended { pid, .. } => self.tell(ENDED, *pid),
        }
    }

    /// A process that may come to have probes.
    pub fn watch(&mut self, pid: i32) {
        self.tell(WATCHED, pid);
    }

    fn tell(&mut self, what: u8, pid: i32) {
        let [a, b, c, d] = pid.to_le_bytes();
        // A guard that was killed is one that is missing.
        let _ = self.pipe.as_mut().map(|pipe| pipe.write_all(&[what, a, b, c, d]));
    }

    /// Nothing is left to be done.
    pub fn dismiss(mut self) {
        self.tell(DISMISSED, 0);
    }
}

/// Has a process of its own do `life`. What that owns is closed here.
fn fork_off(life: impl FnOnce()) -> io::Result<()> {
    // SAFETY: the child goes on with one thread and calls nothing that could wait for a lock of another one but
    // malloc, which glibc makes usable in children. It never returns from here.
    match unsafe { fork() }? {
        ForkResult::Child => {
            // Twice, so that the walker has no child of which it would have to hear.
            // SAFETY: as above.
            if let Ok(ForkResult::Child) = unsafe { fork() } {
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
            }
            // SAFETY: ends this process without running anything of the walker's.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            let _ = nix::sys::wait::waitpid(child, None);
        }
    }
    Ok(())
}

/// No signal that is meant for the walker ends this process, which keeps only these descriptors.
fn stand_apart(kept: &[i32]) {
    let _ = setsid();
    for name in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE, Signal::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code.
        let _ = unsafe { signal(name, SigHandler::SigIgn) };
    }
    let _ = rustix::thread::set_name(NAME);
    close_all_but(kept);
}

/// Opens a running process; while the guard of a killed recorder is at work there, that is waited for.
///
/// # Errors
/// As [`Target::open`].
pub fn open_cleaned(pid: i32) -> Result<Target, AttachError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let target = Target::open(pid);
        let cleaner = match &target {
            Err(AttachError::Traced { name, .. }) => name.as_bytes() == NAME.to_bytes(),
            Ok(target) => match Arena::find(target) {
                Err(AttachError::Controlled { controller, .. }) => is_guard(controller),
                _ => false,
            },
            _ => false,
        };
        if !cleaner || Instant::now() > deadline {
            return target;
        }
        std::thread::sleep(LOOK);
    }
}

fn is_guard(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.strip_suffix(b"\n") == Some(NAME.to_bytes()))
}

/// Waits for the walker's end; true if it has left nothing.
fn is_dismissed(news: OwnedFd) -> bool {
    let mut news = File::from(news);
    loop {
        match news.read(&mut [0]) {
            Ok(1) => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
}

/// The life of a guard of launched programs.
fn watch_launched(agent: &Path, news: OwnedFd) {
    stand_apart(&[news.as_raw_fd()]);
    let (mut news, mut message, mut pids) = (File::from(news), [0; 5], BTreeSet::new());
    while news.read_exact(&mut message).is_ok() {
        let [what, pid @ ..] = message;
        let pid = i32::from_le_bytes(pid);
        match what {
            WATCHED => drop(pids.insert(pid)),
            ENDED => drop(pids.remove(&pid)),
            _ => return,
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while !pids.is_empty() && Instant::now() < deadline {
        pids.retain(|&pid| match clean(pid, agent) {
            // Another recorder is at work there.
            Ok(()) | Err(AttachError::Controlled { .. }) => false,
            Err(AttachError::Unstoppable { .. }) => {
                wait_for_wakers();
                true
            }
            Err(error) => !error.is_end(),
        });
        if !pids.is_empty() {
            // Its threads may be the dead walker's still.
            std::thread::sleep(LOOK);
        }
    }
}

/// The guard's life.
fn watch(pid: i32, agent: &Path, news: OwnedFd, reply: OwnedFd) {
    stand_apart(&[news.as_raw_fd(), reply.as_raw_fd()]);
    let mut reply = File::from(reply);
    let _ = match prepare(pid, agent) {
        Ok(held_ns) => reply.write_all(&[&[PREPARED], &held_ns.to_le_bytes()[..]].concat()),
        Err(error @ (AttachError::PtraceScope { .. } | AttachError::Forbidden { .. })) => {
            reply.write_all(&[&[REFUSED], error.to_string().as_bytes()].concat())
        }
        Err(AttachError::Unstoppable { tid, .. }) => {
            // The walker may not trace it before it is let go.
            let _ = reply.write_all(&[&[STUCK], &tid.to_le_bytes()[..]].concat());
            drop(reply);
            wait_for_wakers();
            return;
        }
        // The walker will meet the same.
        Err(_) => Ok(()),
    };
    drop(reply);
    clean_after(pid, news, || clean(pid, agent));
}

/// Waits for the walker's end and then, if it has left something, has it cleaned.
fn clean_after(pid: i32, news: OwnedFd, mut clean: impl FnMut() -> Result<(), AttachError>) {
    let usual = priority(pid);
    if is_dismissed(news) {
        return;
    }
    give_priority_back(pid, usual);
    let mut deadline = Instant::now() + PATIENCE;
    while let Err(error) = clean() {
        if matches!(error, AttachError::Unstoppable { .. }) {
            // However long it sleeps, the walker's jumps must not stay.
            wait_for_wakers();
            deadline = Instant::now() + PATIENCE;
        }
        if error.is_end() || Instant::now() > deadline {
            return;
        }
        // Its threads may be the dead walker's still, and the arena's lock, too.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until threads that could not be stopped have woken, and been let go.
fn wait_for_wakers() {
    while !finish_left() {
        std::thread::sleep(LOOK);
    }
}

/// A thread's place in the line for CPUs.
fn priority(tid: i32) -> Option<i32> {
    getpriority_process(Some(Pid::from_raw(tid)?)).ok()
}

/// Threads that the walker had put first in line get the usual place back.
fn give_priority_back(pid: i32, usual: Option<i32>) {
    let Some(usual) = usual.filter(|&usual| usual != FIRST) else { return };
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for tid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if priority(tid) == Some(FIRST) {
            let _ = setpriority_process(Pid::from_raw(tid), usual);
        }
    }
}

/// Makes the arena with the agent and trampolines' memory; gives for how long a thread was held at most, ns.
fn prepare(pid: i32, agent: &Path) -> Result<u64, AttachError> {
    let mut session = ProbeSession::begin(Target::open(pid)?, agent)?;
    session.make_regions()?;
    Ok(session.stop_times().longest_ns)
}

/// Puts everything back that the walker has changed in the process. What others have written, before the walker's end or
/// after it, is left alone.
fn clean(pid: i32, agent: &Path) -> Result<(), AttachError> {
    let target = Target::open(pid)?;
    let Some(arena) = Arena::find(&target)? else { return Ok(()) };
    let (mut windows, mut services, mut all) = (Vec::new(), Vec::new(), true);
    for id in 0..arena.site_count() {
        let record = arena.site(id);
        if record.state.load(Relaxed) == SITE_INSTALLED && record.writer.load(Relaxed) != writer() {
            all = false;
            continue;
        }
        let region = arena.regions().into_iter().find(|region| {
            let trampoline = record.trampoline.load(Relaxed);
            (region.address..region.address + region.size).contains(&trampoline)
        });
        let Some(region) = region.filter(|_| record.state.load(Relaxed) != SITE_GONE) else { continue };
        let block = region.file_offset + (record.trampoline.load(Relaxed) - region.address);
        let window = restore_left(&target, record);
        if arena.word(block + offset_of!(Descriptor, user_enter) as u64).load(Relaxed) == 0 {
            arena.word(block + WORD as u64).store(record.off.load(Relaxed), Relaxed);
            windows.extend(window);
        } else {
            // On an unwinder: needed until all return addresses are back.
            services.extend(window);
        }
    }
    let image = Image::read(agent)?;
    let leaving = Leaving { target: &target, arena: &arena, image: &image };
    leaving.leave_children(&windows, &services, all)?;
    leaving.leave(&windows, &services, all).map(drop)
}

/// The walker's descriptors: among them may be the lock of an arena, and the ends of its pipes.
fn close_all_but(kept: &[i32]) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| !kept.contains(descriptor)) {
        // SAFETY: this process uses none of them any more.
        unsafe { nix::libc::close(descriptor) };
    }
}
