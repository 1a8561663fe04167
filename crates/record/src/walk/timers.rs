//! Who times what: functions of the program by probes in it, functions of the kernel by the kernel's own means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rustc_hash::FxHashMap as HashMap;
use transect_attach::finish_left;
use transect_bpf_collect::function_time::KernelFunctionTimer;
use transect_call_walk::{Function, FunctionTimer, Request, Timing, UntimedReason};
use transect_profile_model::{KernelTiming, Metric, UserTiming};

use super::settings::{WalkSettings, WalkSpace};
use super::state::WalkState;
use super::user_timing::{NotTimed, UserTimer};
use crate::error::RecordError;
use crate::sched::SchedRecording;

/// What timing did.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimingFacts {
    pub kernel: KernelTiming,
    pub user: Option<UserTiming>,
    pub probes_live: u64,
    pub probes_inserted: u64,
    pub longest_stop_ns: u64,
}

impl TimingFacts {
    /// What a timer of the program did counts, too.
    fn add(&mut self, timer: &UserTimer) {
        self.longest_stop_ns = self.longest_stop_ns.max(timer.longest_stop_ns());
        self.probes_inserted += timer.probes_inserted();
    }
}

impl Default for TimingFacts {
    fn default() -> Self {
        Self { kernel: KernelTiming::Sampling, user: None, probes_live: 0, probes_inserted: 0, longest_stop_ns: 0 }
    }
}

/// Whether functions are timed at all: what is timed is wall time.
fn times(settings: &WalkSettings) -> bool {
    settings.probes && settings.metric == Metric::Wall && !settings.critical
}

/// Whose window is open.
#[derive(Debug, Clone, Copy)]
enum Running {
    Kernel,
    /// Process.
    User(i32),
}

/// The timers of one walk.
pub(super) struct Timers {
    user: bool,
    kernel: Option<KernelFunctionTimer>,
    /// By process; why there is none where that was tried in vain.
    of_processes: HashMap<i32, Result<UserTimer, NotTimed>>,
    running: Option<Running>,
    facts: TimingFacts,
    /// How often a process was not timed for a while, and why.
    postponed: BTreeMap<i32, (u64, String)>,
    /// How processes ended whose timer was given up before that.
    heard: HashMap<i32, i32>,
}

impl Timers {
    /// The timer of the kernel's functions, if one is wanted and can be had. Privileges are needed as long as it exists.
    ///
    /// # Errors
    /// If the kernel does not do what was asked for by name.
    pub fn kernel_timer(
        settings: &WalkSettings,
        recording: &SchedRecording,
    ) -> Result<Option<KernelFunctionTimer>, RecordError> {
        let wanted = settings.kernel_timing;
        if !times(settings) || settings.space == WalkSpace::User || wanted == Some(KernelTiming::Sampling) {
            return Ok(None);
        }
        let (timer, refused) = recording.kernel_timer(wanted)?;
        match (timer, wanted) {
            (None, Some(wanted)) => {
                let why = refused.into_iter().find(|refused| refused.timing == wanted);
                let why = why.map_or_else(|| "it is not known here".to_owned(), |refused| refused.why);
                Err(RecordError::KernelTiming { timing: wanted.as_str(), why })
            }
            (timer, _) => Ok(timer),
        }
    }

    /// Timers of the program are not made before they are needed.
    pub fn new(settings: &WalkSettings, kernel: Option<KernelFunctionTimer>) -> Self {
        let user = Timers::wants_user(settings);
        let mut facts = TimingFacts::default();
        if let Some(kernel) = &kernel {
            facts.kernel = kernel.timing();
        }
        Self {
            user,
            kernel,
            of_processes: HashMap::default(),
            running: None,
            facts,
            postponed: BTreeMap::new(),
            heard: HashMap::default(),
        }
    }

    /// Whether functions of the program are to be timed.
    pub fn wants_user(settings: &WalkSettings) -> bool {
        times(settings) && settings.space != WalkSpace::Kernel
    }

    /// Whether functions of the program can be timed.
    pub fn times_user(&self) -> bool {
        self.user
    }

    /// Whether functions of the kernel can be timed.
    pub fn times_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Begins a window.
    ///
    /// # Errors
    /// If nothing of it can be timed.
    pub fn begin(&mut self, request: &Request, state: &mut WalkState) -> Result<(), UntimedReason> {
        let begun = self.begin_window(request, state);
        self.note_postponed(state.trees[request.group].key.tgid, begun.as_ref().err());
        begun
    }

    fn note_postponed(&mut self, tgid: i32, reason: Option<&UntimedReason>) {
        if let Some(UntimedReason::Later(why)) = reason {
            self.postponed.entry(tgid).or_insert_with(|| (0, why.clone())).0 += 1;
        }
    }

    fn begin_window(&mut self, request: &Request, state: &mut WalkState) -> Result<(), UntimedReason> {
        let key = state.trees[request.group].key.clone();
        let threads = state.threads.all().iter();
        let ours = threads.filter(|(number, _)| state.group_of(**number) == Some(request.group));
        if !matches!(request.parent, Function::User { .. }) {
            let Some(timer) = &mut self.kernel else {
                return Err(UntimedReason::Refused("it is not timed here".to_owned()));
            };
            timer.only(Some(ours.map(|(number, _)| *number).collect()));
            timer.begin(request)?;
            self.facts.probes_inserted += 1 + request.callees.len() as u64;
            self.running = Some(Running::Kernel);
            return Ok(());
        }
        let threads: BTreeSet<i32> = ours.map(|(_, task)| task.record.tid).collect();
        let paths: Vec<PathBuf> =
            state.frames.naming().components.iter().map(|component| PathBuf::from(&component.path)).collect();
        let attach = || UserTimer::attach(key.tgid, paths.clone());
        let timer = match self.of_processes.entry(key.tgid).or_insert_with(attach) {
            Ok(timer) => timer,
            Err(why) if why.is_for_now() => {
                let reason = UntimedReason::Later(why.to_string());
                // How it ended is heard by nobody else.
                if why.exit_status.is_none() {
                    self.of_processes.remove(&key.tgid);
                }
                return Err(reason);
            }
            Err(why) => return Err(UntimedReason::Gone(why.to_string())),
        };
        timer.set_components(paths);
        timer.set_threads(Some(threads));
        timer.begin(request)?;
        self.facts.user = Some(timer.timing());
        self.running = Some(Running::User(key.tgid));
        Ok(())
    }

    /// Ends the window.
    ///
    /// # Errors
    /// If what was counted can't be read.
    pub fn end(&mut self) -> Result<Timing, UntimedReason> {
        let running = self.running.take();
        let timing = match running {
            Some(Running::Kernel) => self.kernel.as_mut().map(FunctionTimer::end),
            Some(Running::User(tgid)) => {
                self.of_processes.get_mut(&tgid).and_then(|timer| timer.as_mut().ok()).map(FunctionTimer::end)
            }
            None => None,
        };
        let timing = timing.unwrap_or_else(|| Err(UntimedReason::Gone("no window is open".to_owned())));
        if let Some(Running::User(tgid)) = running {
            self.note_postponed(tgid, timing.as_ref().err());
        }
        let timing = timing?;
        self.facts.probes_live = self.facts.probes_live.max(timing.probes);
        Ok(timing)
    }

    /// Lets go of threads that could not be stopped when they were to be, and have woken since: they stand until then.
    pub fn finish_unfinished(&self) {
        for timer in self.of_processes.values().flatten() {
            timer.finish_unfinished();
        }
        finish_left();
    }

    /// A process runs another program: its timer, or the reason why it has none, was the old one's.
    pub fn replaced(&mut self, tgid: i32) {
        let ended = |why: &NotTimed| why.exit_status.is_some();
        if self.of_processes.get(&tgid).is_none_or(|timer| timer.as_ref().err().is_some_and(ended)) {
            return;
        }
        if let Some(Ok(timer)) = self.of_processes.remove(&tgid) {
            self.facts.add(&timer);
            self.heard.extend(timer.finish().ok().flatten().map(|status| (tgid, status)));
        }
    }

    /// What they did.
    pub fn facts(&self) -> TimingFacts {
        let mut facts = self.facts;
        self.of_processes.values().flatten().for_each(|timer| facts.add(timer));
        facts
    }

    /// Returns of the kernel's functions that were not seen.
    pub fn missed(&self) -> u64 {
        self.kernel.as_ref().map_or(0, KernelFunctionTimer::missed)
    }

    /// Takes everything out; tells how processes ended whose end only their timer heard of.
    pub fn finish(self) -> HashMap<i32, i32> {
        let status = |timer: Result<UserTimer, NotTimed>| match timer {
            Ok(timer) => timer.finish().ok().flatten(),
            Err(why) => why.exit_status,
        };
        let mut ends = self.heard;
        ends.extend(self.of_processes.into_iter().filter_map(|(tgid, timer)| Some((tgid, status(timer)?))));
        // Who sleeps still is let go by the kernel at the walker's end.
        finish_left();
        ends
    }

    /// Windows that came to nothing because a thread could not be stopped: process, how many, the first one's reason.
    pub fn postponed(&self) -> Vec<(i32, u64, String)> {
        self.postponed.iter().map(|(tgid, (count, why))| (*tgid, *count, why.clone())).collect()
    }

    /// Why processes have no timer.
    pub fn refused(&self) -> Vec<(i32, String)> {
        let why = |timer: &Result<UserTimer, NotTimed>| match timer {
            Ok(timer) => timer.skip_reason().map(ToString::to_string),
            Err(why) => Some(why.to_string()),
        };
        self.of_processes.iter().filter_map(|(tgid, timer)| Some((*tgid, why(timer)?))).collect()
    }
}
