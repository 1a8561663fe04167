//! Exact timing of functions of a running program: jumps are written to the entries of one function and a few of its
//! callees for a moment, and taken away again.
//!
//! A window:
//!
//! 1. While the program runs: plans, trampolines, and rules that say from where a callee's calls count.
//! 2. One stop of all threads: calls of the functions that are open already are found on the stacks, by unwind tables,
//!    and noted as if they had begun now (`open_calls`); the jumps are written. So a function that is entered once for
//!    the whole run, like `main`, has its whole window.
//! 3. The program runs. Handlers note each thread's sums ([`transect_probe::scope`]).
//! 4. One stop: calls that are still open are counted with their part, all return addresses are put back, the original
//!    bytes too.
//!
//! A function that ends in a jump to another one (a tail call) is timed until that one returns.

mod children;
mod held_stack;
mod open_calls;
mod thread_scopes;
mod window;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transect_attach::{AttachError, StopTimes, Target};
use transect_calibrate::ScopedCall;
use transect_call_walk::{Function, FunctionTimer, Request, Timing, Untimed, UntimedReason};
use transect_probe_plan::{Event, ExitSupport, FunctionTable, PlanOptions, plan_in};
use transect_profile_model::UserTiming;

use crate::RecordError;
use crate::launch::find_beside;
pub use crate::probe_session::SkipReason;
use crate::probe_session::{GUARD_NAME, Guard, ProbeSession, SiteId, SiteState, skip_reason};
use children::Children;
use held_stack::FrameRules;
use thread_scopes::ThreadScopes;
use window::{Window, put_back};

/// File name of the image that is loaded into the process.
const PROBE_AGENT_FILE: &str = "libtransect_probe_agent.so";

/// How often it is looked, when all is taken out, whether threads have left the trampolines.
const TRIES: u32 = 20;

/// Why a process' functions are not timed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotTimed {
    /// The reason.
    pub error: RecordError,
    /// How the process ended, as wait(2) tells it, if it did meanwhile and nobody else heard of it.
    pub exit_status: Option<i32>,
}

impl NotTimed {
    /// It may be possible later.
    pub fn is_for_now(&self) -> bool {
        matches!(&self.error, RecordError::Attach(error) if is_for_now(error))
    }
}

/// A function that can be timed.
#[derive(Debug, Clone)]
struct Timable {
    site: SiteId,
    /// All of its code, in the process' addresses.
    code: Vec<Range<u64>>,
}

/// Times functions of one process. To be used from one thread, for the kernel binds a tracer to one.
pub struct UserTimer {
    session: ProbeSession,
    components: Vec<PathBuf>,
    threads: Option<BTreeSet<i32>>,
    /// By the object's index.
    tables: HashMap<usize, FunctionTable>,
    timable: HashMap<Function, Result<Timable, UntimedReason>>,
    rules: FrameRules,
    scopes: ThreadScopes,
    costs: ScopedCall,
    ticks_per_ns: f64,
    /// Sites that are not ours: somebody had put probes there before.
    foreign: BTreeSet<SiteId>,
    /// How long the guard held a thread at most, ns.
    prepared_ns: u64,
    inserted: u64,
    window: Option<Window>,
    /// Found when a window was to begin: there are no more.
    skip_reason: Option<SkipReason>,
    children: Children,
    /// When the last window closed, a thread was in a trampoline: its return address may have been taken after that.
    on_the_way: bool,
    last_window: (u64, u64),
    guard: Option<Guard>,
    finished: bool,
}

impl UserTimer {
    /// Loads the probe agent into a process, with one short stop of one thread. `components[i]` is the path, as the
    /// process sees it, of component number i.
    ///
    /// # Errors
    /// If the process can't be attached to, with the reason; it is untouched then.
    pub fn attach(pid: i32, components: Vec<PathBuf>) -> Result<UserTimer, NotTimed> {
        let agent = find_beside(PROBE_AGENT_FILE).map_err(|error| NotTimed { error, exit_status: None })?;
        UserTimer::attach_with(pid, components, &agent)
    }

    /// The same with the agent's file named.
    ///
    /// # Errors
    /// As [`UserTimer::attach`].
    pub fn attach_with(pid: i32, components: Vec<PathBuf>, agent: &Path) -> Result<UserTimer, NotTimed> {
        let target = Target::open(pid).map_err(|error| NotTimed { error: error.into(), exit_status: None })?;
        let ending = target.ending();
        UserTimer::attach_to(target, components, agent)
            .map_err(|error| NotTimed { error, exit_status: ending.exit_status() })
    }

    fn attach_to(target: Target, components: Vec<PathBuf>, agent: &Path) -> Result<UserTimer, RecordError> {
        let pid = target.pid();
        if let Some(skip_reason) = skip_reason(&target, &target.mappings()?) {
            return Err(RecordError::Untimable(skip_reason));
        }
        let clock = crate::clock::Clock::start();
        let costs = transect_calibrate::scoped_call();
        // Before anything of the process is touched.
        let mut guard = Guard::start(pid, agent).ok();
        if let Some(why) = guard.as_mut().and_then(|guard| guard.refused.take()) {
            return Err(RecordError::Unguarded(why));
        }
        if let Some(tid) = guard.as_mut().and_then(|guard| guard.stuck.take()) {
            let wait = "its guard could not".to_owned();
            return Err(AttachError::Unstoppable { pid, tid, wait }.into());
        }
        let prepared_ns = guard.as_ref().and_then(|guard| guard.held_ns).unwrap_or(0);
        let session = ProbeSession::begin(target, agent)?;
        let foreign: BTreeSet<SiteId> = (0..session.sites.len() as SiteId)
            .filter(|&id| session.sites[id as usize].state == SiteState::Installed)
            .collect();
        let mut timer = UserTimer {
            scopes: ThreadScopes::at(session.places.scopes),
            session,
            components,
            threads: None,
            tables: HashMap::new(),
            timable: HashMap::new(),
            rules: FrameRules::default(),
            costs,
            ticks_per_ns: clock.rate(),
            foreign,
            prepared_ns,
            inserted: 0,
            window: None,
            skip_reason: None,
            children: Children::default(),
            on_the_way: false,
            last_window: (0, 0),
            guard,
            finished: false,
        };
        let objects = 0..timer.session.objects.len();
        timer.session.install_unwinder_probes(objects)?;
        Ok(timer)
    }

    /// The components' table has grown.
    pub fn set_components(&mut self, components: Vec<PathBuf>) {
        self.components = components;
        // What could not be found may be there now.
        self.timable.retain(|_, found| found.is_ok());
    }

    /// Only the time of these threads is added up; all are timed. Of threads that are born and end within a window it
    /// can't be told which they were: they count.
    pub fn set_threads(&mut self, threads: Option<BTreeSet<i32>>) {
        self.threads = threads;
    }

    /// Why its functions may not be timed any more.
    pub fn skip_reason(&self) -> Option<&SkipReason> {
        self.skip_reason.as_ref()
    }

    /// How functions are timed.
    pub fn timing(&self) -> UserTiming {
        UserTiming::Probes
    }

    /// How often and how long threads were held since the process was prepared.
    pub fn stop_times(&self) -> StopTimes {
        self.session.stop_times()
    }

    /// The longest time that threads were held so far, ns.
    pub fn longest_stop_ns(&self) -> u64 {
        self.session.stop_times().longest_ns.max(self.prepared_ns)
    }

    /// When the last window began and ended, by the time stamp counter.
    pub fn last_window(&self) -> (u64, u64) {
        self.last_window
    }

    /// Probes inserted so far.
    pub fn probes_inserted(&self) -> u64 {
        self.inserted
    }

    /// Takes everything out of the process, in forked children, too. Gives how the process ended, as wait(2) tells it, if
    /// this timer is all that heard of it.
    ///
    /// # Errors
    /// If threads can't be stopped.
    pub fn finish(mut self) -> Result<Option<i32>, RecordError> {
        let ending = self.session.target().ending();
        let taken = self.take_out();
        // Letting go of the process may hear of its end, too.
        drop(self);
        match ending.exit_status() {
            None => Ok(taken.map(|()| None)?),
            status => Ok(status),
        }
    }

    fn take_out(&mut self) -> Result<(), AttachError> {
        if self.finished {
            return Ok(());
        }
        if self.window.is_some() {
            let _ = self.close_window();
        }
        self.children.clean_waiting(&self.session);
        // It takes a thread some nanoseconds on a CPU.
        for _ in 0..TRIES {
            if !self.on_the_way {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            self.on_the_way = put_back(&self.session).unwrap_or(false);
        }
        let result = match self.session.leave_but(&self.foreign) {
            Err(error) if error.is_gone() => Ok(()),
            result => result.map(drop),
        };
        self.finished = result.is_ok();
        if let (true, Some(guard)) = (self.finished, self.guard.take()) {
            guard.dismiss();
        }
        result
    }

    /// Lets go of threads that could not be stopped and have woken; false if some have not.
    pub fn finish_unfinished(&self) -> bool {
        self.session.target().finish_unfinished()
    }

    /// The object that is component number `component`.
    fn object_of(&mut self, component: u32) -> Result<usize, UntimedReason> {
        let path = self
            .components
            .get(component as usize)
            .ok_or_else(|| UntimedReason::Refused("its component is unknown".to_owned()))?
            .clone();
        let find = |session: &ProbeSession| session.objects.iter().position(|o| o.path == path && !o.code.is_empty());
        if let Some(index) = find(&self.session) {
            return Ok(index);
        }
        self.follow_objects().map_err(|error| gone(&error))?;
        find(&self.session).ok_or_else(|| UntimedReason::Refused(format!("{} is not loaded", path.display())))
    }

    /// Looks at objects that have come or gone; unwinders among them get their probes.
    fn follow_objects(&mut self) -> Result<(), AttachError> {
        let fresh = self.session.look_at_objects()?;
        self.rules.forget();
        let session = &self.session;
        let is_there = |timable: &Timable| session.sites[timable.site as usize].state != SiteState::Gone;
        self.timable.retain(|_, found| found.as_ref().is_ok_and(is_there));
        self.session.install_unwinder_probes(fresh)
    }

    fn table(&mut self, object: usize) -> &FunctionTable {
        let session = &self.session;
        self.tables.entry(object).or_insert_with(|| FunctionTable::of(&session.objects[object].object))
    }

    fn timable(&mut self, function: Function) -> Result<Timable, UntimedReason> {
        if let Some(known) = self.timable.get(&function) {
            return known.clone();
        }
        let found = self.plan(function);
        self.timable.insert(function, found.clone());
        found
    }

    /// Plans and builds a function's probe; no text is written.
    fn plan(&mut self, function: Function) -> Result<Timable, UntimedReason> {
        let refused = |reason: &str| Err(UntimedReason::Refused(reason.to_owned()));
        let Function::User { component, address } = function else {
            return refused("it is no function of the program's own files");
        };
        let object = self.object_of(component)?;
        let table = self.table(object).clone();
        let Some(index) = table.at(address) else { return refused("no function is known to begin there") };
        let ranges = table.ranges(index);
        let wanted = |f: &transect_probe_plan::Function| f.vaddr == address;
        let loaded = &self.session.objects[object];
        let plan = plan_in(&loaded.object, table, &PlanOptions { wanted: Some(&wanted), ..PlanOptions::default() });
        let place = |site: &&transect_probe_plan::Site| {
            site.event == Event::Entry && plan.functions[site.function as usize].vaddr == address
        };
        let Some(site) = plan.sites.iter().find(place) else {
            let reason = plan.refused.first().map_or("no probe can be there".to_owned(), |r| r.reason.to_string());
            return Err(UntimedReason::Refused(reason));
        };
        if site.exit != ExitSupport::PairedCall {
            return refused("its return can't be observed");
        }
        let owner = plan.functions[site.function as usize].clone();
        let bias = loaded.bias;
        let id = match self.session.prepare_site(object, &owner, site) {
            Ok(Some(id)) => id,
            Ok(None) => return refused("there is no room near its code"),
            Err(error) => return Err(gone(&error)),
        };
        let there = &self.session.sites[id as usize];
        if !there.can_time || there.return_site == 0 {
            return refused("its calls can't be timed");
        }
        if self.foreign.contains(&id) {
            return refused("a probe of another command is there");
        }
        let code = ranges.into_iter().map(|r| r.start.wrapping_add(bias)..r.end.wrapping_add(bias)).collect();
        Ok(Timable { site: id, code })
    }

    /// Puts the window's probes in.
    fn open_window(&mut self, request: &Request) -> Result<Vec<Untimed>, UntimedReason> {
        // Planning would make room in the new program for the old one's probes.
        if self.session.target().memory().read_u64(self.session.globals).is_err() {
            return Err(UntimedReason::Gone("it has ended, or another program runs in its place".to_owned()));
        }
        // To try it would hold up the others for seconds.
        if !self.finish_unfinished() {
            return Err(UntimedReason::Later("a thread can't be stopped still".to_owned()));
        }
        if self.window.is_some()
            && let Err(reason @ UntimedReason::Later(_)) = self.close_window()
        {
            return Err(reason);
        }
        let window = Window::open(self, request)?;
        let untimed = window.untimed.clone();
        self.window = Some(window);
        Ok(untimed)
    }

    fn close_window(&mut self) -> Result<Timing, UntimedReason> {
        match self.window.take() {
            Some(window) => {
                let sums = window.close(self);
                match sums {
                    Ok((sums, end)) => Ok(window.conclude(self, sums, end)),
                    Err(reason) => {
                        // Its probes are in: they are taken out before anything else.
                        if matches!(reason, UntimedReason::Later(_)) {
                            self.window = Some(window);
                        }
                        Err(reason)
                    }
                }
            }
            None => Err(UntimedReason::Gone("nothing is being timed".to_owned())),
        }
    }

    fn ticks(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 * self.ticks_per_ns
    }
}

impl FunctionTimer for UserTimer {
    fn begin(&mut self, request: &Request) -> Result<Vec<Untimed>, UntimedReason> {
        self.open_window(request)
    }

    fn end(&mut self) -> Result<Timing, UntimedReason> {
        self.close_window()
    }
}

impl Drop for UserTimer {
    fn drop(&mut self) {
        // Who drops it can do nothing about an error; the guard tries again.
        let _ = self.take_out();
    }
}

fn gone(error: &AttachError) -> UntimedReason {
    if is_for_now(error) { UntimedReason::Later(error.to_string()) } else { UntimedReason::Gone(error.to_string()) }
}

/// A thread is asleep uninterruptibly, or held by a guard that waits until it can be let go.
fn is_for_now(error: &AttachError) -> bool {
    match error {
        AttachError::Unstoppable { .. } => true,
        AttachError::Traced { name, .. } => name.as_bytes() == GUARD_NAME.to_bytes(),
        _ => false,
    }
}
