//! Exact times of system calls, and numbers of page faults, by thread (`bpf/system_call_time.h`).

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags};

use crate::bpf_link;
use crate::error::CollectError;
use crate::plain;
use crate::skeleton::types::{
    sched_slot, sched_thread, system_call_entries, system_call_state, system_call_sum, thread_clocks,
};
use crate::skeleton::{OpenSchedCriticalitySkel, SchedCriticalitySkel};
use crate::system_call_sums::{OWN, ROW_KERNEL_FAULTS, ROW_THREAD, ROW_USER_FAULTS, Rows, Sum, gather};
use crate::traced_program::LoadedProgram;

/// The 32-bit interface's numbers have this bit in the programs' sums.
const COMPAT: u32 = 0x2000_0000;
/// Greater numbers are no system calls (`SYSTEM_CALL_PAUSED` and above).
const PAUSED: u32 = 0xffff_fffd;
const NONE: u32 = 0xffff_ffff;
/// `SYSTEM_CALL_COUNTED`: the open call is not timed.
const COUNTED: u32 = 0;

/// A system call of x86-64 or of the 32-bit interface, which numbers its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SystemCall {
    /// Its number.
    pub number: u32,
    /// It is the 32-bit interface's.
    pub compat: bool,
}

impl SystemCall {
    /// From the field `call` of a wait or a sample: the call whose exact time holds it.
    pub fn of_record(call: u32) -> CallOfRecord {
        match call {
            NONE | OWN => CallOfRecord::Outside,
            PAUSED..NONE => CallOfRecord::Unknown,
            raw => CallOfRecord::Inside(Self::from_raw(raw)),
        }
    }

    pub(crate) fn from_raw(raw: u32) -> Self {
        Self { number: raw & !COMPAT, compat: raw & COMPAT != 0 }
    }
}

/// Where a wait or a sample belongs among the exact times of system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOfRecord {
    /// In this call's time.
    Inside(SystemCall),
    /// In none's: the program's own code, a fault of it, or what the kernel does before and after a call (signals, the
    /// last part of `close`). So is what the flow agent calls.
    Outside,
    /// System calls were not counted then, or it is not known.
    Unknown,
}

/// Time by what the thread did, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clocks {
    /// On a CPU.
    pub running_ns: u64,
    /// Runnable.
    pub runnable_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
}

impl Clocks {
    /// All of it.
    pub fn wall_ns(&self) -> u64 {
        self.running_ns + self.runnable_ns + self.blocked_ns
    }
}

/// What one thread did in one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemCallTotal {
    /// Task number of the thread.
    pub task: u32,
    /// Which call. What goes on as `restart_syscall` counts as the call that was interrupted.
    pub call: SystemCall,
    /// Calls made, the open one included. A child's first return out of its parent's call is time without a count.
    pub count: u64,
    /// How long: measured where the call blocked, and for all calls that come less than 50,000 times a second on the thread;
    /// of faster ones some are timed, chosen by chance, and stand for the others. These never come to more than what the
    /// thread's time leaves for them.
    pub time: Clocks,
}

/// A thread whose calls were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSystemCalls {
    /// Its task number.
    pub task: u32,
    /// How long they were counted: its life while the counting was on, of which its calls' times are parts.
    pub counted: Clocks,
    /// Page faults in its own code.
    pub user_faults: u64,
    /// Page faults in the kernel, in its name.
    pub kernel_faults: u64,
}

/// System calls that the programs have met on all CPUs, each of which they have delayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemCallEntries {
    /// Of threads that are followed.
    pub followed: u64,
    /// Of all others of the machine.
    pub others: u64,
}

/// See [`crate::SchedCollector::system_call_totals`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemCallTotals {
    /// By thread and call.
    pub calls: Vec<SystemCallTotal>,
    /// The threads.
    pub threads: Vec<ThreadSystemCalls>,
    /// Sums of ended threads that did not fit in the kernel's map.
    pub lost: u64,
}

/// Programs that count system calls.
#[derive(Debug)]
pub(crate) struct SystemCallPrograms {
    pub begin: LoadedProgram,
    pub end: LoadedProgram,
    /// The one that runs over all threads for whoever reads it.
    pub tasks: OwnedFd,
    /// Those that count page faults, where the kernel tells of them.
    pub faults: Vec<LoadedProgram>,
}

/// Counts system calls: its programs are attached while their links live.
pub(crate) struct SystemCallCounter {
    /// None if it was loaded without them.
    programs: Option<SystemCallPrograms>,
    links: Vec<OwnedFd>,
    /// Threads that have ended.
    ended: Rows,
}

impl SystemCallCounter {
    /// Before loading: maps that are not `wanted` are small.
    pub(crate) fn prepare(open: &mut OpenSchedCriticalitySkel<'_>, wanted: bool) -> Result<(), CollectError> {
        if !wanted {
            open.maps.system_call_states.set_max_entries(1).map_err(CollectError::Load)?;
            open.maps.system_call_rows.set_max_entries(1).map_err(CollectError::Load)?;
        }
        Ok(())
    }

    pub(crate) fn new(programs: Option<SystemCallPrograms>) -> Self {
        Self { programs, links: Vec::new(), ended: Rows::new() }
    }

    pub(crate) fn count(&mut self, skeleton: &mut SchedCriticalitySkel<'_>, on: bool) -> Result<(), CollectError> {
        let Some(programs) = &self.programs else {
            return Err(CollectError::Nothing("system calls: the collector was loaded without them".to_owned()));
        };
        if on != self.links.is_empty() {
            return Ok(());
        }
        if on {
            if let Some(state) = skeleton.maps.bss_data.as_deref_mut() {
                state.system_calls_after_task = state.last_task;
                state.system_calls_on = 1;
            }
            // Ends before beginnings: what is seen to begin is seen to end.
            for program in [&programs.end, &programs.begin].into_iter().chain(&programs.faults) {
                self.links.push(program.attach()?);
            }
            self.meet_threads(skeleton)
        } else {
            self.links.clear();
            if let Some(state) = skeleton.maps.bss_data.as_deref_mut() {
                state.system_calls_on = 0;
            }
            self.run(skeleton, 0)
        }
    }

    /// Ends counting; what was counted is kept.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Threads began to be followed: learns which call each is in.
    pub(crate) fn meet_threads(&mut self, skeleton: &mut SchedCriticalitySkel<'_>) -> Result<(), CollectError> {
        if self.links.is_empty() { Ok(()) } else { self.run(skeleton, 1) }
    }

    /// Runs the program over all threads of the machine.
    fn run(&self, skeleton: &mut SchedCriticalitySkel<'_>, request: u32) -> Result<(), CollectError> {
        let Some(programs) = &self.programs else { return Ok(()) };
        if let Some(state) = skeleton.maps.bss_data.as_deref_mut() {
            state.system_calls_request = request;
        }
        bpf_link::run_iterator(programs.tasks.as_fd()).map(drop).map_err(|why| CollectError::Read(why.into()))
    }

    pub(crate) fn entries(&self, skeleton: &SchedCriticalitySkel<'_>) -> Result<SystemCallEntries, CollectError> {
        let found = skeleton.maps.system_call_entries.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let cpus = found.map_err(CollectError::Read)?.unwrap_or_default();
        let mut sum = SystemCallEntries::default();
        for cpu in cpus.iter().filter_map(|bytes| plain::read::<system_call_entries>(bytes)) {
            sum.followed += cpu.followed;
            sum.others += cpu.others;
        }
        Ok(sum)
    }

    pub(crate) fn totals(
        &mut self,
        skeleton: &SchedCriticalitySkel<'_>,
        now: u64,
    ) -> Result<SystemCallTotals, CollectError> {
        let Some(state) = skeleton.maps.bss_data.as_deref().filter(|_| self.programs.is_some()) else {
            return Ok(SystemCallTotals::default());
        };
        let lost = state.system_calls_lost;
        let mut rows = self.take_ended(skeleton)?;
        for number in 1..=state.last_slot.min(skeleton.maps.slots.max_entries() - 1) {
            let slot: Option<sched_slot> = value(&skeleton.maps.slots, number)?;
            let Some(slot) = slot.filter(|slot| slot.task != 0) else { continue };
            let Some(state): Option<system_call_state> = value(&skeleton.maps.system_call_states, number)? else {
                continue;
            };
            if state.task == slot.task {
                add_thread(&mut rows, &state, &clocks_at(&slot.thread, now));
            }
        }
        rows.extend(self.ended.iter().map(|(key, sum)| (*key, *sum)));
        Ok(gather(&rows, lost))
    }

    /// Reads the rows that there are in the hash map. Those of threads that have ended are final: they are kept here, and
    /// leave the kernel's map.
    fn take_ended(&mut self, skeleton: &SchedCriticalitySkel<'_>) -> Result<Rows, CollectError> {
        let map = &skeleton.maps.system_call_rows;
        let mut rows = Rows::new();
        for key in map.keys() {
            // It may be another row by now that is not there: nobody but this takes rows away.
            let Some(bytes) = map.lookup(&key, MapFlags::ANY).map_err(CollectError::Read)? else { continue };
            let (Some(sum), Some(&key)) = (plain::read::<system_call_sum>(&bytes), key.first_chunk()) else { continue };
            let key = u64::from_ne_bytes(key);
            rows.entry(((key >> 32) as u32, key as u32)).or_default().merge(&Sum::of(&sum));
        }
        // A thread's last row comes last, so that then all are there; but keys come in no order.
        let ended: Vec<u32> = rows.keys().filter(|key| key.1 == ROW_THREAD).map(|key| key.0).collect();
        for task in ended {
            let numbers: Vec<(u32, u32)> = rows.range((task, 0)..=(task, u32::MAX)).map(|(key, _)| *key).collect();
            for key in numbers {
                let raw = (u64::from(key.0) << 32 | u64::from(key.1)).to_ne_bytes();
                if let Some(bytes) = map.lookup_and_delete(&raw).map_err(CollectError::Read)?
                    && let Some(sum) = plain::read::<system_call_sum>(&bytes)
                {
                    self.ended.entry(key).or_default().merge(&Sum::of(&sum));
                }
                rows.remove(&key);
            }
        }
        Ok(rows)
    }
}

/// The element of an array.
pub(crate) fn value<T: plain::Plain>(map: &impl MapCore, number: u32) -> Result<Option<T>, CollectError> {
    let bytes = map.lookup(&number.to_ne_bytes(), MapFlags::ANY).map_err(CollectError::Read)?;
    Ok(bytes.as_deref().and_then(plain::read))
}

/// As `read_clocks` has it.
pub(crate) fn clocks_at(thread: &sched_thread, now: u64) -> thread_clocks {
    let since = |start: u64| if start > 0 { now.saturating_sub(start) } else { 0 };
    let (mut active, mut blocked) = (thread.active_ns, thread.blocked_ns);
    *(if thread.active != 0 { &mut active } else { &mut blocked }) += since(thread.changed);
    thread_clocks { running: thread.running_ns + since(thread.on_cpu_since), active, blocked }
}

fn difference(from: &thread_clocks, to: &thread_clocks) -> thread_clocks {
    thread_clocks {
        running: to.running.saturating_sub(from.running),
        active: to.active.saturating_sub(from.active),
        blocked: to.blocked.saturating_sub(from.blocked),
    }
}

/// A thread that lives, whose clocks show `now`.
fn add_thread(rows: &mut Rows, state: &system_call_state, now: &thread_clocks) {
    for sum in &state.sums {
        if sum.count > 0 || sum.time.active > 0 || sum.time.blocked > 0 {
            rows.entry((state.task, sum.number)).or_default().merge(&Sum::of(sum));
        }
    }
    let mut counted = Sum::default();
    counted.add(0, &state.counted);
    if state.number != PAUSED {
        counted.add(0, &difference(&state.from, now));
    }
    rows.insert((state.task, ROW_THREAD), counted);
    rows.entry((state.task, ROW_USER_FAULTS)).or_default().count += state.user_faults;
    rows.entry((state.task, ROW_KERNEL_FAULTS)).or_default().count += state.kernel_faults;
    if state.number < PAUSED {
        let timed = state.timing != COUNTED;
        let time = if timed { difference(&state.entered, now) } else { thread_clocks::default() };
        rows.entry((state.task, state.number)).or_default().add(u64::from(state.continued == 0), &time);
    }
}
