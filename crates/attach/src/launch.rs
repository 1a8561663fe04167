//! Starting a program and following it: each program image is handed over at its first own instruction (the loader has
//! run, `main` has not), where its text can be written before anything of it is executed.
//!
//! A file beginning with `#!`, a shell wrapper, an `exec`, a fork: each new image arrives as an event of its own. How
//! the entry point is reached:
//!
//! 1. At the exec event the thread is let run to the exit of `execve`. A static program stands at its entry already.
//! 2. Else its loader is led to a [`trampoline`], which is taken away when it is met. If the trampoline's signal is blocked
//!    (masks are inherited through exec), the loader is run from system call to system call.
//! 3. If we are killed meanwhile, the program goes on by itself.
//!
//! Between events nothing is held; signals are passed on as they come, stops by job control are stops.

mod child;
mod entry;
pub(crate) mod tracer;
mod trampoline;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, OsString};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::child_signal::ChildSignal;
use crate::error::AttachError;
use crate::process::{Status, state, threads};
use crate::ptrace::{self, Waited};
use crate::target::{Event, Target, finish_left};
use entry::{Entry, Reached};
use tracer::Tracers;

/// What happened to the launched program or its descendants.
#[derive(Debug)]
pub enum LaunchEvent {
    /// A program image stands at its entry point. Stops and writes work on the target as ever; [`Launch::go_on`] lets
    /// it run. What it was before, if it was one of ours, is gone with its arena.
    Image(Target),
    /// A process forked a child that goes on with the same text and shares its parent's arena, if it has one.
    Forked {
        /// The parent.
        parent: i32,
        /// The thread that called it.
        thread: i32,
        /// The child.
        child: i32,
        /// When: the thread has not run since.
        at: Instant,
    },
    /// The first thread of a process has run its last instruction: what it has used can still be asked for. One that was killed
    /// may end without.
    Ending {
        /// The process.
        pid: i32,
    },
    /// A process ended.
    Ended {
        /// Its pid.
        pid: i32,
        /// How.
        status: ExitStatus,
    },
    /// The time is up.
    Nothing,
}

/// A launched program. All of its methods must be called by the thread that started it, and [`Launch::next`] all the
/// time: what happens in the program waits for it.
#[derive(Debug)]
pub struct Launch {
    pid: i32,
    follow: bool,
    processes: BTreeMap<i32, Process>,
    queue: VecDeque<LaunchEvent>,
    noted: Rc<RefCell<Vec<Event>>>,
    signals: ChildSignal,
    tracers: Tracers,
    /// The launched process' end was told.
    over: bool,
    /// For how long threads stood while an event of theirs was looked at.
    held: Duration,
    /// From a thread's event until we look at it, and until it runs again.
    changes: Duration,
    /// When [`Launch::next`] returned last, unless what it told holds its process by itself.
    away_since: Option<Instant>,
}

/// Between two looks for news, if no signal announces them.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// How often it is measured what a thread's stop takes.
const MEASURED_STOPS: usize = 5;

#[derive(Debug, Default)]
struct Process {
    /// On its way from exec to its entry point.
    entry: Option<Entry>,
}

/// From a thread's event to the moment at which it runs again, but for what is done with it: as long as it takes to have a thread
/// that sleeps stop. The least of some, since others may have the CPUs.
fn stop_time(pid: i32) -> Duration {
    let stop = || {
        let began = Instant::now();
        ptrace::interrupt(pid).ok()?;
        let stopped = ptrace::wait(pid, true);
        let took = began.elapsed();
        if let Ok((_, Waited::Signal(signal))) = stopped { ptrace::go_on(pid, signal) } else { ptrace::go_on(pid, 0) }
            .ok()?;
        Some(took)
    };
    (0..MEASURED_STOPS).map_while(|_| stop()).min().unwrap_or_default()
}

impl Launch {
    /// Starts a program; it runs its first instruction when [`Launch::next`] is called. With `follow`, programs that it
    /// executes later, itself or in children, are handed over too, which keeps them traced: a debugger can't attach
    /// then. Programs that trace others or themselves (they import `ptrace`, or a sanitizer in them looks for leaks) are let
    /// go at their entry point.
    ///
    /// # Errors
    /// [`AttachError::Start`] if it can't be executed, or the reason why it can't be traced.
    pub fn start(command: &[OsString], follow: bool) -> Result<Launch, AttachError> {
        Self::start_in(command, None, follow, |_| Ok::<_, AttachError>(()))
    }

    /// As [`Launch::start`], with these entries (`NAME=value`) for an environment; `None`: this process'. `before_exec` is
    /// called once the process exists, which waits for it to return before it becomes the program.
    ///
    /// # Errors
    /// As [`Launch::start`], or that of `before_exec`; then nothing has run.
    pub fn start_in<E: From<AttachError>>(
        command: &[OsString],
        environment: Option<Vec<CString>>,
        follow: bool,
        before_exec: impl FnOnce(i32) -> Result<(), E>,
    ) -> Result<Launch, E> {
        let signals = ChildSignal::block();
        let prepared = child::Prepared::new(command, environment)?;
        // A process with file capabilities is closed to its own user, its copy as well, and could not be traced. Others of
        // the user don't have these capabilities, so that they still can't look into this one.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
        let started = prepared.fork(&signals)?;
        let pid = started.pid();
        if let Err(error) = ptrace::seize(pid, ptrace::FOLLOWED) {
            let reason = match error.raw_os_error() {
                Some(libc::ESRCH) => AttachError::Exited { pid },
                _ => crate::check::explain_permission(pid, "trace a program from its start"),
            };
            started.abandon();
            return Err(reason.into());
        }
        if let Err(error) = before_exec(pid) {
            started.abandon();
            return Err(error);
        }
        let changes = stop_time(pid);
        started.let_go()?;
        let processes = BTreeMap::from([(pid, Process::default())]);
        Ok(Launch {
            pid,
            follow,
            processes,
            queue: VecDeque::new(),
            noted: Rc::default(),
            signals,
            tracers: Tracers::default(),
            over: false,
            held: Duration::ZERO,
            changes,
            away_since: None,
        })
    }

    /// Pid of the launched program.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// For how long threads have stood, about, because they were traced: at signals, births, programs' starts and ends, and while
    /// whoever calls [`Launch::next`] did other things. Not while they stand at an entry point.
    pub fn held(&self) -> Duration {
        self.held
    }

    /// Pids of its processes that are still traced.
    pub fn processes(&self) -> impl Iterator<Item = i32> {
        self.processes.keys().copied()
    }

    /// A handle for a traced process (a fork's child), which is traced on.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn target(&self, pid: i32) -> Result<Target, AttachError> {
        let target = Target::open(pid)?;
        if self.processes.contains_key(&pid) {
            target.keep(self.noted.clone(), None);
        }
        Ok(target)
    }

    /// Waits for the next event, at most `timeout` (forever if `None`). A SIGCHLD that is sent to this thread ends the wait, too.
    ///
    /// # Errors
    /// If the kernel refuses what it should not.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<LaunchEvent, AttachError> {
        let event = self.wait(timeout);
        self.away_since = (!matches!(event, Ok(LaunchEvent::Image(_)))).then(Instant::now);
        event
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<LaunchEvent, AttachError> {
        // A thread whose event is there already has waited for us about as long.
        let mut away = self.away_since.map(|since| since.elapsed()).unwrap_or_default();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut woken = false;
        loop {
            let noted = std::mem::take(&mut *self.noted.borrow_mut());
            for event in noted {
                self.happened(event);
            }
            if let Some(event) = self.queue.pop_front() {
                return Ok(event);
            }
            finish_left();
            match ptrace::wait(-1, false) {
                Ok((_, Waited::Nothing)) => {
                    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                    if left == Some(Duration::ZERO) || woken && left.is_some() {
                        return Ok(LaunchEvent::Nothing);
                    }
                    away = Duration::ZERO;
                    woken = self.signals.wait(left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT));
                }
                Ok((tid, waited)) => {
                    let began = Instant::now();
                    self.handle(tid, waited);
                    self.held += began.elapsed() + self.changes + std::mem::take(&mut away);
                }
                // Killed while something of it was waited for, which heard of that first.
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) && self.ended_unheard() => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    // Everything was let go, and the launched process has ended.
                    if let Some(left) = deadline.map(|d| d.saturating_duration_since(Instant::now())) {
                        std::thread::sleep(left);
                    }
                    return Ok(LaunchEvent::Nothing);
                }
                Err(error) => return Err(AttachError::system(self.pid, "wait for the program")(error)),
            }
        }
    }

    /// Whether processes have ended whose ends were told to someone else in this process.
    fn ended_unheard(&mut self) -> bool {
        let launched = Some(self.pid).filter(|_| !self.over);
        let pids: Vec<i32> = self.processes.keys().copied().chain(launched).collect();
        for pid in pids {
            if let Some(status) = ptrace::take_end(pid) {
                self.happened(Event { tid: pid, event: -1, message: u64::from(status.cast_unsigned()) });
            }
        }
        !self.queue.is_empty()
    }

    /// Ends the launched process, which stands at its entry point: nothing of it shall run.
    pub fn abandon(&mut self) {
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // Until that is heard of it may hold what others wait for, such as a pipe.
        while let Ok(event) = self.next(Some(LONGEST_WAIT)) {
            match event {
                LaunchEvent::Ended { pid, .. } if pid == self.pid => return,
                LaunchEvent::Nothing if state(self.pid) == 'X' => return,
                _ => {}
            }
        }
    }

    /// Lets a process run that stands at its entry point.
    ///
    /// # Errors
    /// If it can't be let go.
    pub fn go_on(&mut self, target: &Target) -> Result<(), AttachError> {
        let pid = target.pid();
        let resting = target.wake();
        if self.follow && !self.tracers.traces(pid) {
            for tid in resting {
                let _ = ptrace::go_on(tid, 0);
            }
            return Ok(());
        }
        target.unkeep();
        if pid != self.pid {
            self.processes.remove(&pid);
        }
        // Threads that constructors have made run and must stand to be let go; the resting ones first, for they may
        // hold what the others wait for.
        let all_rest = threads(pid).iter().all(|tid| resting.contains(tid));
        for tid in resting {
            let _ = ptrace::detach(tid, 0);
        }
        // A stop might meet it when it traces itself.
        if all_rest {
            return Ok(());
        }
        match target.stop_all() {
            Ok(stop) => drop(stop),
            // One that can't be stopped now is let go when it wakes: see `next`.
            Err(error) if error.is_gone() || matches!(error, AttachError::Unstoppable { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn handle(&mut self, tid: i32, waited: Waited) {
        match waited {
            Waited::Nothing => {}
            Waited::Ended(status) => self.happened(Event { tid, event: -1, message: u64::from(status as u32) }),
            Waited::GroupStop(_) => drop(ptrace::listen(tid)),
            Waited::Interrupted => {
                // A birth may be heard of before the event that announces it.
                let (process, parent) = Status::read(tid).map_or((tid, 0), |s| (s.process, s.parent));
                self.known(process, parent);
                self.run(tid, 0);
            }
            Waited::Signal(signal) => self.signal(tid, signal),
            Waited::SystemCall => self.system_call(tid),
            Waited::Event(event) => {
                let message = ptrace::event_message(tid).unwrap_or(0);
                self.happened(Event { tid, event, message });
                if event != libc::PTRACE_EVENT_EXEC {
                    self.run(tid, 0);
                }
            }
        }
    }

    /// What an event means; a thread at an exec event stands, all others were or will be let go on.
    fn happened(&mut self, Event { tid, event, message }: Event) {
        match event {
            -1 if self.processes.remove(&tid).is_some() || tid == self.pid => {
                let status = ExitStatus::from_raw(message as i32);
                self.over |= tid == self.pid;
                self.queue.push_back(LaunchEvent::Ended { pid: tid, status });
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                let (child, at) = (message as i32, Instant::now());
                let parent = self.process_of(tid);
                // Only a clone may make a thread.
                let is_process = event != libc::PTRACE_EVENT_CLONE
                    || Status::read(child).is_ok_and(|status| status.process == child);
                if is_process {
                    self.known(child, parent);
                    if event != libc::PTRACE_EVENT_VFORK {
                        self.queue.push_back(LaunchEvent::Forked { parent, thread: tid, child, at });
                    }
                }
            }
            libc::PTRACE_EVENT_EXIT if self.processes.contains_key(&tid) => {
                self.queue.push_back(LaunchEvent::Ending { pid: tid });
            }
            libc::PTRACE_EVENT_EXEC => match Entry::begin(tid) {
                Ok(entry) => {
                    self.processes.insert(tid, Process { entry: Some(entry) });
                    let _ = ptrace::go_to_system_call(tid, 0);
                }
                // 32 bit, or gone: it runs without us.
                Err(_) => {
                    self.processes.insert(tid, Process::default());
                    let _ = ptrace::go_on(tid, 0);
                }
            },
            _ => {}
        }
    }

    /// Notes a process; a fork's child has a copy of a memory in which our trampoline may stand.
    fn known(&mut self, pid: i32, parent: i32) {
        let entry = self.processes.get(&parent).and_then(|p| p.entry.clone());
        self.processes.entry(pid).or_insert_with(|| Process { entry: entry.map(Entry::inherited) });
    }

    fn signal(&mut self, tid: i32, signal: i32) {
        if signal != trampoline::SIGNAL || !self.at_entry(tid, Entry::signal) {
            self.run(tid, signal);
        }
    }

    fn system_call(&mut self, tid: i32) {
        if !self.at_entry(tid, Entry::system_call) {
            self.run(tid, 0);
        }
    }

    /// Asks the way to the entry point what a stop means; true if it was part of the way.
    fn at_entry(&mut self, tid: i32, judge: fn(&mut Entry, i32) -> Result<Reached, AttachError>) -> bool {
        let pid = self.process_of(tid);
        let Some(entry) = self.processes.get_mut(&pid).and_then(|p| p.entry.as_mut()) else { return false };
        match judge(entry, tid) {
            Ok(Reached::NotOurs) => false,
            Ok(Reached::OnTheWay) => {
                self.run(tid, 0);
                true
            }
            Ok(Reached::Arrived) => {
                let copy = entry.is_inherited();
                self.processes.insert(pid, Process::default());
                match Target::open(pid) {
                    // A fork's child that ran into its parent's trampoline is no new image.
                    Ok(_) | Err(AttachError::Exited { .. }) if copy => self.run(tid, 0),
                    Ok(target) => {
                        target.keep(self.noted.clone(), Some(tid));
                        self.queue.push_back(LaunchEvent::Image(target));
                    }
                    Err(_) => self.run(tid, 0),
                }
                true
            }
            Err(AttachError::Exited { .. }) => true,
            // Its entry can't be reached: it runs without us.
            Err(_) => {
                self.processes.insert(pid, Process::default());
                self.run(tid, 0);
                true
            }
        }
    }

    /// The process of a thread; asks the kernel only where it is not the first one.
    fn process_of(&self, tid: i32) -> i32 {
        if self.processes.contains_key(&tid) { tid } else { Status::read(tid).map_or(tid, |status| status.process) }
    }

    /// Lets a thread go on, from system call to system call where the way to the entry point needs that.
    fn run(&self, tid: i32, signal: i32) {
        let pid = self.process_of(tid);
        let stepping = self.processes.get(&pid).and_then(|p| p.entry.as_ref()).is_some_and(Entry::is_stepping);
        let _ = if stepping { ptrace::go_to_system_call(tid, signal) } else { ptrace::go_on(tid, signal) };
    }
}
