//! The timer of kernel functions.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

use libbpf_rs::{MapCore, MapFlags};

use transect_call_walk::{Function, FunctionTimer, MOST_KERNEL, Request, Timed, Timing, Untimed, UntimedReason};
use transect_profile_model::KernelTiming;

use super::kernel_functions::KernelFunctions;
use super::programs::{Probe, Programs, SharedMaps};
use super::refusal;
use super::trial::trial;
use super::types::{bss, code_range, timed_function, timed_sums, timed_thread};
use crate::clock::monotonic_ns;
use crate::error::CollectError;
use crate::skeleton::types::sched_slot;
use crate::system_call_time::{clocks_at, value};
use crate::{SchedCollector, plain, skeleton};

const ROWS: usize = MOST_KERNEL;
const NO_SYSTEM_CALL: u32 = u32::MAX;
/// A short function of every kernel.
const CALIBRATED: &str = "__x64_sys_getppid";
/// The same in the kernel's type information, which has one name for all that are the same code.
const CALIBRATED_TYPES: [&str; 3] = [CALIBRATED, "__do_sys_getppid", "__ia32_sys_getppid"];

/// A kind of probes that can't be used here, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTiming {
    /// Which.
    pub timing: KernelTiming,
    /// The reason, for people.
    pub why: String,
}

/// What a probe costs, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Cost {
    /// Of it between the two clock readings: seen in the function's own time.
    inside: f64,
    /// All of it: seen in the caller's.
    whole: f64,
}

/// A window that is open.
struct Window {
    number: u32,
    /// Row by row: the function, and its parent's row.
    rows: Vec<(Function, usize)>,
    /// Where the request's callees are among the rows; `None` for those that can't be timed.
    callees: Vec<Option<usize>>,
    untimed: Vec<Untimed>,
    began: u64,
    /// Live until the window is dropped.
    _probes: Vec<Probe>,
}

/// What was counted of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counted {
    calls: u64,
    hits: u64,
    running: u64,
    active: u64,
    blocked: u64,
}

/// Times functions of the kernel by probes: see [`FunctionTimer`]. Everything is taken away when it is dropped, and by the
/// kernel itself if this process is killed.
pub struct KernelFunctionTimer {
    timing: KernelTiming,
    programs: Programs,
    shared: SharedMaps,
    functions: KernelFunctions,
    system_call_name: Box<dyn Fn(u32) -> Option<String> + Send>,
    cost: Cost,
    system_call_cost: Cost,
    threads: Option<BTreeSet<u32>>,
    windows: u32,
    window: Option<Window>,
    missed: u64,
}

impl std::fmt::Debug for KernelFunctionTimer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KernelFunctionTimer").field("timing", &self.timing).finish_non_exhaustive()
    }
}

impl KernelFunctionTimer {
    /// Makes a timer of the wanted kind, or of the best that can be had here. `system_call_name` tells a system call's name
    /// by its number, as in its function `__x64_sys_…`. Gives also the kinds that were tried and can't be used; without a
    /// timer that is all of them.
    ///
    /// Must be called before privileges are given up, and needs them until it is dropped: each probe is attached anew.
    pub fn load(
        collector: &SchedCollector<'_>,
        wanted: Option<KernelTiming>,
        system_call_name: impl Fn(u32) -> Option<String> + Send + 'static,
    ) -> (Option<Self>, Vec<RefusedTiming>) {
        let mut refused = Vec::new();
        // Found out if it is needed: reading them takes 40 ms.
        let functions = LazyCell::new(|| KernelFunctions::read().map_err(|why| why.to_string()));
        let mut names: Option<Box<dyn Fn(u32) -> Option<String> + Send>> = Some(Box::new(system_call_name));
        for timing in KernelTiming::ALL {
            if timing == KernelTiming::Sampling || wanted.is_some_and(|wanted| wanted != timing) {
                continue;
            }
            match Self::try_load(collector, &functions, timing) {
                Ok(mut timer) => {
                    if let Some(names) = names.take() {
                        timer.system_call_name = names;
                    }
                    return (Some(timer), refused);
                }
                Err(why) => refused.push(RefusedTiming { timing, why }),
            }
        }
        (None, refused)
    }

    fn try_load<F: FnOnce() -> Result<KernelFunctions, String>>(
        collector: &SchedCollector<'_>,
        functions: &LazyCell<Result<KernelFunctions, String>, F>,
        timing: KernelTiming,
    ) -> Result<Self, String> {
        let address = |all: &KernelFunctions| {
            all.named(CALIBRATED).first().copied().ok_or_else(|| format!("the kernel has no {CALIBRATED}"))
        };
        let known = || LazyCell::force(functions).as_ref().map_err(String::clone);
        trial(timing, &CALIBRATED_TYPES, || known().and_then(address).map_err(io::Error::other))
            .map_err(|why| refusal::of_kind(timing, &why))?;
        let functions = known()?;
        let calibrated = address(functions)?;
        let shared = collector.shared_maps().map_err(|why| why.to_string())?;
        let programs = Programs::load(&shared, timing).map_err(|why| refusal::of_kind(timing, &why.into_io()))?;
        let mut timer = Self {
            timing,
            programs,
            shared,
            functions: functions.clone(),
            system_call_name: Box::new(|_| None),
            cost: Cost::default(),
            system_call_cost: Cost::default(),
            threads: None,
            windows: 0,
            window: None,
            missed: 0,
        };
        timer.calibrate(calibrated)?;
        Ok(timer)
    }

    /// Which kind of probes it uses.
    pub fn timing(&self) -> KernelTiming {
        self.timing
    }

    /// What timing one call costs its thread, ns.
    pub fn cost_ns(&self) -> f64 {
        self.cost.whole
    }

    /// Only these threads, by task number, count in the answers from now on; `None`: all that are followed.
    pub fn only(&mut self, threads: Option<BTreeSet<u32>>) {
        self.threads = threads;
    }

    /// Returns that were not seen, of all windows so far: their calls ended when that was noticed.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The functions that it knows.
    pub fn functions(&self) -> &KernelFunctions {
        &self.functions
    }

    /// Measures on this thread, with a function that does nothing, what a probe costs.
    fn calibrate(&mut self, address: u64) -> Result<(), String> {
        const CALLS: u32 = 2_000;
        const TIMES: usize = 5;
        let getppid_number = 110;
        let loops = || {
            let start = Instant::now();
            for _ in 0..CALLS {
                let _ = std::hint::black_box(rustix::process::getppid());
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        };
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let bare = least(&(0..TIMES).map(|_| loops()).collect::<Vec<_>>());
        for function in [Function::Kernel { address }, Function::SystemCall { number: getppid_number }] {
            let mut probe = Some(match function {
                Function::Kernel { .. } => self
                    .programs
                    .attach(0, address, &self.functions.names(address).collect::<Vec<_>>())
                    .map_err(|why| refusal::of_kind(self.timing, &why))?,
                _ => self.programs.attach_system_calls(true).map_err(|why| why.to_string())?,
            });
            let (mut inside, mut whole) = (Vec::new(), Vec::new());
            for _ in 0..TIMES {
                let rows = [(function, 0)];
                let (number, _) = self.open_window(&rows, Some(rustix::thread::gettid().as_raw_nonzero().get()))?;
                whole.push((loops() - bare).max(0.0));
                let control = self.close_window()?;
                self.missed += control.timed_missed;
                let own: Option<timed_thread> =
                    value(&self.programs.map("timed_threads").map_err(|why| why.to_string())?, 0)
                        .map_err(|why| why.to_string())?;
                if let Some(own) = own.filter(|own| own.window == number && own.sums.sums[0].calls > 0) {
                    inside.push(own.sums.sums[0].time.active as f64 / own.sums.sums[0].calls as f64);
                }
            }
            drop(probe.take());
            // In another pid namespace this thread is not found: half of it is inside, then.
            let whole = least(&whole);
            let inside = if inside.is_empty() { whole / 2.0 } else { least(&inside) };
            let cost = Cost { inside, whole: whole.max(inside) };
            match function {
                Function::Kernel { .. } => self.cost = cost,
                _ => self.system_call_cost = cost,
            }
        }
        Ok(())
    }

    /// Pieces of code from which a function's callees are called.
    fn code_of(&self, function: Function) -> Vec<code_range> {
        let code = |begin: u64| {
            let (_, begin, end) = self.functions.at(begin)?;
            Some(code_range { begin, end })
        };
        match function {
            Function::Kernel { address } => {
                let name = self.functions.at(address).map(|found| found.0.to_owned()).unwrap_or_default();
                let cold = self.functions.named(&format!("{name}.cold"));
                std::iter::once(address).chain(cold).filter_map(code).collect()
            }
            Function::SystemCall { number } => {
                let name = (self.system_call_name)(number).unwrap_or_default();
                ["__x64_sys_", "__do_sys_", "__se_sys_"]
                    .iter()
                    .map(|prefix| format!("{prefix}{name}"))
                    // Wrappers end in jumps: who is called by one returns to what called the wrapper.
                    .chain(["x64_sys_call".to_owned(), "do_syscall_64".to_owned()])
                    .flat_map(|name| self.functions.named(&name))
                    .filter_map(code)
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Counting begins; nothing is read of earlier windows. Gives the window's number, and when that was.
    fn open_window(&mut self, rows: &[(Function, usize)], calibrated: Option<i32>) -> Result<(u32, u64), String> {
        let mut control: bss = self.programs.control().map_err(|why| why.to_string())?;
        self.windows += 1;
        control.window = 0;
        control.newest_task = self.newest_task().map_err(|why| why.to_string())?;
        control.calibrated_pid = calibrated.unwrap_or(0);
        control.timed_missed = 0;
        control.functions = Default::default();
        for row in &mut control.functions {
            row.parent = u32::MAX;
            row.system_call = NO_SYSTEM_CALL;
        }
        for (row, &(function, parent)) in rows.iter().enumerate() {
            let filled: &mut timed_function = &mut control.functions[row];
            filled.parent = if row == 0 { u32::MAX } else { parent as u32 };
            match function {
                Function::Kernel { address } => {
                    if let Some((_, begin, end)) = self.functions.at(address) {
                        filled.code = code_range { begin, end };
                    }
                }
                Function::SystemCall { number } => filled.system_call = number,
                _ => {}
            }
            if row > 0 {
                let code = self.code_of(rows[parent].0);
                for (to, from) in filled.caller.iter_mut().zip(code) {
                    *to = from;
                }
            }
        }
        self.programs.set_control(&control).map_err(|why| why.to_string())?;
        control.window = self.windows;
        control.window_began = monotonic_ns();
        self.programs.set_control(&control).map_err(|why| why.to_string())?;
        Ok((self.windows, control.window_began))
    }

    /// Counting ends.
    fn close_window(&mut self) -> Result<bss, String> {
        let mut control = self.programs.control().map_err(|why| why.to_string())?;
        let found = control;
        control.window = 0;
        control.calibrated_pid = 0;
        self.programs.set_control(&control).map_err(|why| why.to_string())?;
        Ok(found)
    }

    /// The scheduler collector's variables.
    fn collector_state(&self) -> Result<skeleton::types::bss, CollectError> {
        let bytes = self.shared.state.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(CollectError::Read)?;
        Ok(plain::read_padded(&bytes.unwrap_or_default()))
    }

    fn newest_task(&self) -> Result<u32, CollectError> {
        Ok(self.collector_state()?.last_task)
    }

    fn last_slot(&self) -> Result<u32, CollectError> {
        Ok(self.collector_state()?.last_slot.min(self.shared.slots.max_entries() - 1))
    }

    /// What was counted by thread, up to `now`: open calls count with their part.
    fn counted(&self, window: u32, now: u64) -> Result<BTreeMap<u32, [Counted; ROWS]>, CollectError> {
        let mut counted: BTreeMap<u32, [Counted; ROWS]> = BTreeMap::new();
        let mut add = |task: u32, sums: &timed_sums| {
            let rows = counted.entry(task).or_default();
            for (row, sum) in rows.iter_mut().zip(&sums.sums) {
                row.calls += sum.calls;
                row.hits += sum.hits;
                row.running += sum.time.running;
                row.active += sum.time.active;
                row.blocked += sum.time.blocked;
            }
        };
        let ended = self.programs.map("timed_ended")?;
        for key in ended.keys() {
            let sums = ended.lookup_and_delete(&key).map_err(CollectError::Read)?;
            let Some(sums) = sums.as_deref().and_then(plain::read::<timed_sums>) else { continue };
            if let (true, Some(&task)) = (sums.window == window, key.first_chunk()) {
                add(u32::from_ne_bytes(task), &sums);
            }
        }
        let threads = self.programs.map("timed_threads")?;
        for number in 1..=self.last_slot()? {
            let Some(thread): Option<timed_thread> = value(&threads, number)? else { continue };
            if thread.window != window {
                continue;
            }
            let mut sums = thread.sums;
            let slot: Option<sched_slot> = value(&self.shared.slots, number)?;
            if let Some(slot) = slot.filter(|slot| slot.task == thread.task) {
                let clocks = clocks_at(&slot.thread, now);
                for (sum, call) in sums.sums.iter_mut().zip(&thread.calls).filter(|(_, call)| call.depth > 0) {
                    sum.calls += 1;
                    sum.time.running += clocks.running.saturating_sub(call.entered.running);
                    sum.time.active += clocks.active.saturating_sub(call.entered.active);
                    sum.time.blocked += clocks.blocked.saturating_sub(call.entered.blocked);
                }
            }
            add(thread.task, &sums);
        }
        Ok(counted)
    }

    /// Why no probe can be at a function, if that is known beforehand.
    fn refusal(&self, function: Function) -> Option<UntimedReason> {
        let refused = |why: &str| Some(UntimedReason::Refused(why.to_owned()));
        match function {
            Function::Kernel { address } => match self.functions.at(address) {
                None => refused("it is no function of the kernel"),
                Some((_, begin, _)) if begin != address => refused("no function begins there"),
                Some((name, ..)) if self.timing == KernelTiming::Fentry && self.functions.named(name).len() > 1 => {
                    refused("several functions have its name")
                }
                Some(_) => None,
            },
            Function::SystemCall { .. } => None,
            Function::Exception { .. } => refused("entries of faults and interrupts can't be probed"),
            _ => refused("it is not a function of the kernel"),
        }
    }

    fn attach(&self, row: usize, function: Function) -> Result<Probe, UntimedReason> {
        let failed = |why: String| UntimedReason::Refused(why);
        match function {
            Function::Kernel { address } => {
                let names: Vec<&str> = self.functions.names(address).collect();
                self.programs.attach(row, address, &names).map_err(|why| failed(refusal::of_function(&why)))
            }
            _ => self.programs.attach_system_calls(true).map_err(|why| failed(why.to_string())),
        }
    }
}

impl FunctionTimer for KernelFunctionTimer {
    fn begin(&mut self, request: &Request) -> Result<Vec<Untimed>, UntimedReason> {
        self.window = None;
        if let Some(why) = self.refusal(request.parent) {
            return Err(why);
        }
        let mut probes = vec![self.attach(0, request.parent)?];
        if matches!(request.parent, Function::Kernel { .. }) {
            let ends = self.programs.attach_system_calls(false);
            probes.push(ends.map_err(|why| UntimedReason::Refused(why.to_string()))?);
        }
        let mut rows = vec![(request.parent, 0)];
        let mut callees: Vec<Option<usize>> = Vec::new();
        let mut untimed = Vec::new();
        for callee in &request.callees {
            let parent = match callee.within {
                None => Some(0),
                Some(earlier) => callees.get(earlier).copied().flatten(),
            };
            let row = rows.len();
            let attached = match (self.refusal(callee.function), parent) {
                (Some(why), _) => Err(why),
                // Before its caller, for which there was no room either.
                (None, _) if row >= ROWS => Err(UntimedReason::TooMany),
                (None, None) => Err(UntimedReason::Refused("its caller can't be timed".to_owned())),
                (None, Some(parent)) => match self.attach(row, callee.function) {
                    Ok(probe) => {
                        probes.push(probe);
                        rows.push((callee.function, parent));
                        Ok(row)
                    }
                    Err(why) => Err(why),
                },
            };
            if let Err(reason) = &attached {
                untimed.push(Untimed { function: callee.function, reason: reason.clone() });
            }
            callees.push(attached.ok());
        }
        let gone = |why: String| UntimedReason::Gone(why);
        let (number, began) = self.open_window(&rows, None).map_err(gone)?;
        self.programs.look_at_stacks().map_err(|why| gone(why.to_string()))?;
        self.window = Some(Window { number, rows, callees, untimed: untimed.clone(), began, _probes: probes });
        Ok(untimed)
    }

    fn end(&mut self) -> Result<Timing, UntimedReason> {
        let gone = |why: String| UntimedReason::Gone(why);
        let window = self.window.take().ok_or_else(|| gone("no window is open".to_owned()))?;
        let control = self.close_window().map_err(gone)?;
        self.missed += control.timed_missed;
        let now = monotonic_ns();
        let counted = self.counted(window.number, now).map_err(|why| gone(why.to_string()))?;
        let mut sums = [Counted::default(); ROWS];
        for (task, rows) in &counted {
            if self.threads.as_ref().is_none_or(|threads| threads.contains(task)) {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    sum.calls += row.calls;
                    sum.hits += row.hits;
                    sum.running += row.running;
                    sum.active += row.active;
                    sum.blocked += row.blocked;
                }
            }
        }
        let timed = |row: usize| {
            let sum = sums[row];
            let own = if row == 0 && matches!(window.rows[0].0, Function::SystemCall { .. }) {
                self.system_call_cost
            } else {
                self.cost
            };
            let mut cost_ns = sum.calls as f64 * own.inside;
            for (other, &(_, parent)) in window.rows.iter().enumerate().skip(1) {
                // Probes inside of it; of one within another one all hits are inside of the parent of both.
                if row == 0 {
                    cost_ns += sums[other].hits as f64 * self.cost.whole;
                } else if parent == row && other != row {
                    cost_ns += sums[other].calls as f64 * self.cost.whole;
                }
            }
            let on_ns = sum.running as f64;
            cost_ns = cost_ns.min(on_ns);
            Timed {
                calls: sum.calls,
                wall_ns: (sum.active + sum.blocked) as f64 - cost_ns,
                on_ns: Some(on_ns - cost_ns),
                runnable_ns: Some(sum.active.saturating_sub(sum.running) as f64),
                cost_ns,
            }
        };
        let mut untimed = window.untimed.clone();
        let callees = window.callees.iter().map(|row| {
            let row = (*row)?;
            let found = timed(row);
            if found.cost_ns > 0.5 * (found.wall_ns + found.cost_ns) && found.calls > 0 {
                untimed.push(Untimed { function: window.rows[row].0, reason: UntimedReason::TooShort });
                return None;
            }
            Some(found)
        });
        let callees = callees.collect();
        Ok(Timing {
            lasted_ns: now.saturating_sub(window.began) as f64,
            parent: Some(timed(0)),
            callees,
            untimed,
            probes: window.rows.len() as u64,
            longest_stop_ns: 0,
        })
    }
}
