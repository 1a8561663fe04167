use std::cell::RefCell;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut, OpenObject, RingBuffer, RingBufferBuilder};

use crate::bpf_link;
use crate::error::CollectError;
use crate::function_time::SharedMaps;
use crate::loaded_later::LoadedLater;
use crate::loading::{self, Loaded};
use crate::mapping_events::MappingEvents;
use crate::perf_event::SampledEvent;
use crate::sampling_period::CpuTimers;
use crate::skeleton::SchedCriticalitySkel;
use crate::skeleton::types::{sched_audit, sched_lost};
use crate::system_call_time::{SystemCallCounter, SystemCallEntries, SystemCallTotals};
use crate::totals::{ApplicationTotals, OpenThread};
use crate::unwind_table::{UnwindStatistics, UnwindTables};
use crate::unwound_process::UnwoundProcesses;

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedSettings {
    /// CPUs that the program may use: *P*.
    pub cpus: u32,
    /// Stacks are taken whenever fewer threads than this remain active; at higher parallelism at most one of a thread
    /// in each [`SchedSettings::stack_period_ns`].
    pub min_parallelism: u32,
    /// At high parallelism a thread's stacks are at least this far apart, ns.
    pub stack_period_ns: u64,
    /// The stack of a wait has its kernel half also where the system call's arguments say all about it.
    pub kernel_halves: bool,
    /// Record each preemption with the stack that it met: half a millisecond apart at least in one thread.
    pub preemptions: bool,
    /// What samples are taken by.
    pub event: SampledEvent,
    /// Frames of a stack, at most [`SchedSettings::MAX_STACK_DEPTH`].
    pub stack_depth: u32,
    /// Samples a second and CPU; 0 for none.
    pub sample_hz: u32,
    /// Each process is an application of its own, instead of all together.
    pub per_process: bool,
    /// Record each wait and what it is for; without, criticality alone.
    pub waits: bool,
    /// Time that describing waits may take, ns a second and CPU. Beyond it those that are described are chosen at
    /// random, the longer they are expected to be the likelier, and short ones among the others are summed up by thread.
    /// 0: all are described.
    pub wait_budget: u32,
    /// Take stacks at all.
    pub stacks: bool,
    /// Publish what each thread gains to the flow agent.
    pub publish_threads: bool,
    /// Nothing is followed but a program that is launched ([`SchedCollector::follow_launched`]) and what comes of it: what
    /// finds threads that run already is not loaded.
    pub launched_only: bool,
    /// Count exact times of system calls, and page faults: see [`SchedCollector::system_call_totals`].
    pub system_calls: bool,
}

impl SchedSettings {
    /// Frames that fit in a record.
    pub const MAX_STACK_DEPTH: u32 = 127;
    /// A stack a millisecond and thread.
    pub const STACK_PERIOD_NS: u64 = 1_000_000;
}

/// What an audit found: see [`SchedCollector::audit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// Threads followed.
    pub followed: u64,
    /// Of them active, by the scheduler's own word.
    pub active: u64,
    /// Threads that were counted otherwise in this audit and the one before, without any event between. They are
    /// counted rightly from now on.
    pub strays: u64,
}

/// Records and states that could not be kept, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Threads that were not followed, since too many lived at once: the number of active threads is too low.
    pub threads: u64,
    /// Processes that counted as part of the first, since there were too many.
    pub applications: u64,
    /// Waits whose record did not fit in the ring buffer. Their criticality is kept.
    pub waits: u64,
    /// Samples without room; the thread's next sample has their weight.
    pub samples: u64,
    /// Samples that met the clock while it changed; the thread's next sample has their weight.
    pub busy_samples: u64,
    /// Threads for which the pages that the flow agent reads had no room: their flows have no criticality.
    pub unpublished: u64,
    /// Stacks without room; the waits and samples that name them have none.
    pub stacks: u64,
    /// Births, changes and ends of threads without room.
    pub tasks: u64,
    /// Mappings of code without room: addresses there may have no names if their process ends soon.
    pub mappings: u64,
}

/// Memory that the loaded programs' handles lie in; must outlive the [`SchedCollector`].
pub struct Storage(MaybeUninit<OpenObject>);

impl Default for Storage {
    fn default() -> Self {
        Self(MaybeUninit::uninit())
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Storage")
    }
}

/// Records the scheduler's events of chosen processes and their descendants ("GAPP", ICPE '20).
///
/// `CGROUP2_SUPER_MAGIC` of statfs(2).
const CGROUP2_MAGIC: rustix::fs::FsWord = 0x6367_7270;

/// Loading needs `CAP_BPF` and `CAP_PERFMON` (see [`crate::privilege`]); everything after it needs neither. Records
/// wait in a ring buffer of 8 MiB until [`SchedCollector::consume`] takes them: call it at least every few
/// milliseconds. What is not taken in time is lost in detail, not in criticality. Dropping it ends the recording.
pub struct SchedCollector<'a> {
    records: RingBuffer<'a>,
    // Programs run as long as their links live.
    links: Vec<OwnedFd>,
    timers: CpuTimers,
    tasks: LoadedLater,
    names: OwnedFd,
    tables: Rc<UnwindTables>,
    mappings: Rc<RefCell<MappingEvents>>,
    samples_refused: Option<CollectError>,
    system_calls: SystemCallCounter,
    /// Their tables were begun while the collector was loaded.
    prepared: Vec<PathBuf>,
    /// Maps and variables.
    skeleton: SchedCriticalitySkel<'a>,
}

impl std::fmt::Debug for SchedCollector<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SchedCollector")
    }
}

impl<'a> SchedCollector<'a> {
    /// Loads the programs; nothing is followed yet. Of `programs` that will be launched or mapped the unwind tables are made meanwhile,
    /// as [`SchedCollector::prepare_program`] does. `on_record` gets each record's bytes (see [`crate::record::Record`]) when
    /// [`SchedCollector::consume`] is called.
    ///
    /// # Errors
    /// If the kernel refuses a program or lacks a tracepoint. Where it permits no timers the rest is recorded; see
    /// [`SchedCollector::samples_refused`].
    pub fn load(
        storage: &'a mut Storage,
        settings: &SchedSettings,
        programs: &[PathBuf],
        mut on_record: impl FnMut(&[u8]) + 'a,
    ) -> Result<Self, CollectError> {
        let loaded = loading::load(&mut storage.0, settings, programs)?;
        let Loaded { maps: skeleton, system_calls, links, timers, samples_refused, tasks, names, tables } = loaded;
        let system_calls = SystemCallCounter::new(system_calls);
        let tables = Rc::new(tables);
        let mappings = MappingEvents::open(&online_cpus(), tables.clone());
        let mut unwound = UnwoundProcesses::new(tables.clone());
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.records, move |bytes| {
                unwound.see(bytes);
                on_record(bytes);
                0
            })
            .map_err(CollectError::Load)?;
        let records = builder.build().map_err(CollectError::Load)?;
        let prepared = programs.to_vec();
        let mut collector = Self {
            records,
            links,
            timers,
            tasks,
            names,
            tables,
            mappings,
            samples_refused,
            system_calls,
            prepared,
            skeleton,
        };
        if settings.system_calls {
            collector.count_system_calls(true)?;
        }
        Ok(collector)
    }

    /// Follows a process: its threads that there are now, and all that they and their descendants make from now on.
    /// `pid` is as this process's pid namespace numbers it.
    ///
    /// # Errors
    /// If no such process was found.
    pub fn follow_process(&mut self, pid: i32) -> Result<(), CollectError> {
        let before = self.threads_given();
        self.ask(types::SCHED_REQUEST_FOLLOW, pid, 0)?;
        if self.threads_given() == before {
            return Err(CollectError::Nothing(match Path::new(&format!("/proc/{pid}")).exists() {
                true => format!(
                    "process {pid} is a thread of the kernel, a zombie, or out of this user's reach (as /proc/{pid}/exe is)"
                ),
                false => format!("there is no process {pid}"),
            }));
        }
        self.system_calls.meet_threads(&mut self.skeleton)
    }

    /// Follows the process `pid`, a fork of this one that is held, from the moment on in which it becomes another program
    /// (exec), and all that it makes.
    pub fn follow_launched(&mut self, pid: i32) {
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            state.launched_tgid = pid;
        }
    }

    /// Follows all threads in a cgroup (version 2) and below it, and all that they and their descendants make from now
    /// on, and whoever is moved into it later: see [`SchedCollector::follow_moved`]. There is one such cgroup, the last.
    ///
    /// # Errors
    /// If the folder can't be read. An empty cgroup is none.
    pub fn follow_cgroup(&mut self, folder: &Path) -> Result<(), CollectError> {
        // A cgroup's number is its folder's inode number (kernfs, on 64-bit systems).
        let failed = |source| CollectError::Cgroup { path: folder.to_owned(), source };
        let metadata = fs::metadata(folder).map_err(failed)?;
        // Another folder's number may be that of any cgroup.
        let kind = rustix::fs::statfs(folder).map_err(|source| failed(source.into()))?.f_type;
        if !metadata.is_dir() || kind != CGROUP2_MAGIC {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no cgroup of version 2")));
        }
        self.follow_numbered(metadata.ino())
    }

    /// Follows all threads of programs on this machine, and all that come; not those of this process and its children, nor the
    /// kernel's own.
    ///
    /// # Errors
    /// If the programs can't be run.
    pub fn follow_machine(&mut self) -> Result<(), CollectError> {
        self.follow_numbered(types::SCHED_ROOT_CGROUP)
    }

    fn follow_numbered(&mut self, cgroup: u64) -> Result<(), CollectError> {
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            state.followed_cgroup = cgroup;
        }
        self.ask(types::SCHED_REQUEST_FOLLOW, 0, cgroup)?;
        self.system_calls.meet_threads(&mut self.skeleton)
    }

    /// Follows the other threads of processes that were moved into the cgroup since it was called last; the one that moved
    /// is followed from that moment on.
    ///
    /// # Errors
    /// If the programs can't be run.
    pub fn follow_moved(&mut self) -> Result<(), CollectError> {
        let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() else { return Ok(()) };
        if std::mem::take(&mut state.cgroup_entered) == 0 {
            return Ok(());
        }
        let cgroup = state.followed_cgroup;
        self.ask(types::SCHED_REQUEST_FOLLOW, 0, cgroup)?;
        self.system_calls.meet_threads(&mut self.skeleton)
    }

    /// Compares the counted number of active threads with the scheduler's own, thread by thread.
    ///
    /// # Errors
    /// If the programs can't be run.
    pub fn audit(&mut self) -> Result<Audit, CollectError> {
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            state.audit = sched_audit::default();
        }
        self.ask(types::SCHED_REQUEST_AUDIT, 0, 0)?;
        let found = self.skeleton.maps.bss_data.as_deref().map(|state| state.audit).unwrap_or_default();
        Ok(Audit { followed: found.followed, active: found.active, strays: found.strays })
    }

    /// What processes map, as the kernel tells it; those who read records ask for it when they meet an address that they
    /// don't know.
    pub fn mappings(&self) -> Rc<RefCell<MappingEvents>> {
        self.mappings.clone()
    }

    /// Hands the records that there are to the function given to [`SchedCollector::load`]; does not wait. Returns how
    /// many.
    ///
    /// # Errors
    /// If the ring buffer can't be read.
    pub fn consume(&mut self) -> Result<usize, CollectError> {
        self.timers.jitter();
        // So that there is room for more.
        self.mappings.borrow_mut().collect();
        let taken = self.records.consume_raw();
        usize::try_from(taken).map_err(|_| CollectError::Read(libbpf_rs::Error::from_raw_os_error(-taken)))
    }

    /// From now on timers take samples less often, by the factor `times`. Those of other events stay as they are.
    pub fn sample_less(&mut self, times: u32) {
        self.timers.slow_down(times);
    }

    /// The program may use so many CPUs from now on, and stacks are taken below this parallelism.
    pub fn set_cpus(&mut self, cpus: u32, min_parallelism: u32) {
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            state.cpus = cpus.max(1);
            state.min_parallelism = min_parallelism;
        }
    }

    /// Ends the recording: nothing changes any more, so that what is read from now on belongs together.
    pub fn stop(&mut self) {
        self.links.clear();
        self.timers.clear();
        self.system_calls.detach();
    }

    /// Counts system calls and page faults from now on, or stops counting them until it is wanted again; what was counted
    /// is kept. Counting costs every system call of the machine a little, and those of the threads followed somewhat more.
    ///
    /// # Errors
    /// If the collector was loaded without [`SchedSettings::system_calls`], or the kernel lacks the tracepoints.
    pub fn count_system_calls(&mut self, on: bool) -> Result<(), CollectError> {
        self.system_calls.count(&mut self.skeleton, on)
    }

    /// What threads did in each system call while that was counted, up to `now` (`CLOCK_MONOTONIC`, ns): calls that are open
    /// count, with their part. Ended threads included; sums only grow.
    ///
    /// # Errors
    /// If the maps can't be read.
    pub fn system_call_totals(&mut self, now: u64) -> Result<SystemCallTotals, CollectError> {
        self.system_calls.totals(&self.skeleton, now)
    }

    /// Calls that were delayed so far by being counted, of whatever process.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn system_call_entries(&self) -> Result<SystemCallEntries, CollectError> {
        self.system_calls.entries(&self.skeleton)
    }

    /// Threads followed so far, the ended ones included.
    pub fn threads_given(&self) -> u32 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |state| state.last_task)
    }

    /// Threads followed that have not ended.
    pub fn live_threads(&self) -> u32 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |state| u32::try_from(state.live_threads).unwrap_or(0))
    }

    /// Each application's clock, brought up to `now` (`CLOCK_MONOTONIC`, ns).
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn totals(&self, now: u64) -> Result<Vec<ApplicationTotals>, CollectError> {
        let applications = self.skeleton.maps.bss_data.as_deref().map_or(0, |state| state.last_application);
        let mut totals = Vec::new();
        for number in 0..=applications.min(self.skeleton.maps.applications.max_entries() - 1) {
            let value = self.lookup(&self.skeleton.maps.applications, number)?;
            if let Some(found) = value.as_deref().and_then(|bytes| ApplicationTotals::decode(number, bytes, now)) {
                totals.push(found);
            }
        }
        Ok(totals)
    }

    /// Threads that have not ended, with what they have gained up to `now` (`CLOCK_MONOTONIC`, ns).
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn open_threads(&self, now: u64) -> Result<Vec<OpenThread>, CollectError> {
        let applications = self.totals(now)?;
        let slots = self.skeleton.maps.bss_data.as_deref().map_or(0, |state| state.last_slot);
        let mut threads = Vec::new();
        for number in 1..=slots.min(self.skeleton.maps.slots.max_entries() - 1) {
            let value = self.lookup(&self.skeleton.maps.slots, number)?;
            if let Some(thread) = value.as_deref().and_then(|bytes| OpenThread::decode(bytes, now, &applications)) {
                threads.push(thread);
            }
        }
        Ok(threads)
    }

    /// Why there are no samples although they were wanted.
    pub fn samples_refused(&self) -> Option<&CollectError> {
        self.samples_refused.as_ref()
    }

    /// Waits until the tables by which stacks of the processes followed are unwound are there, at most for `timeout`.
    /// Until then stacks are cut short. Returns whether they are.
    ///
    /// # Errors
    /// If the ring buffer can't be read.
    pub fn wait_for_tables(&mut self, timeout: Duration) -> Result<bool, CollectError> {
        self.consume()?;
        Ok(self.tables.wait_idle(timeout))
    }

    /// A program will be launched: reads the unwind tables of what it will map, for at most `timeout`, so that its
    /// stacks are complete from the beginning.
    pub fn prepare_program(&self, program: &Path, timeout: Duration) {
        if !self.prepared.iter().any(|prepared| prepared == program) {
            self.tables.prepare_program(program);
        }
        self.tables.wait_idle(timeout);
    }

    /// What the unwind tables hold.
    pub fn unwinding(&self) -> UnwindStatistics {
        self.tables.statistics()
    }

    /// What was lost so far.
    pub fn lost(&self) -> Lost {
        let sched_lost { threads, applications, waits, samples, stacks, tasks, published, unpublished } =
            self.skeleton.maps.bss_data.as_deref().map(|state| state.lost).unwrap_or_default();
        let mappings = self.mappings.borrow().lost;
        Lost { threads, applications, waits, samples, busy_samples: published, unpublished, stacks, tasks, mappings }
    }

    /// What the function timer's programs share with these.
    pub(crate) fn shared_maps(&self) -> Result<SharedMaps, CollectError> {
        let handle = |map: &MapMut<'_>| MapHandle::try_from(map).map_err(CollectError::Load);
        let maps = &self.skeleton.maps;
        Ok(SharedMaps {
            slots: handle(&maps.slots)?,
            slot_places: handle(&maps.slot_places)?,
            slot_of_task: handle(&maps.slot_of_task)?,
            state: handle(&maps.bss)?,
        })
    }

    /// The map whose pages the flow agent reads (`sched_published.h`).
    pub fn published(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.published.as_fd()
    }

    fn lookup(&self, map: &impl MapCore, number: u32) -> Result<Option<Vec<u8>>, CollectError> {
        map.lookup(&number.to_ne_bytes(), MapFlags::ANY).map_err(CollectError::Read)
    }

    /// Functions of the kernel at these addresses, a line for each: its name, `+`, the offset and the size; with the name of a
    /// module. As the kernel prints them for itself, be its table of symbols hidden or not.
    ///
    /// # Errors
    /// If the programs can't be run.
    pub fn kernel_functions(&mut self, addresses: &[u64]) -> Result<String, CollectError> {
        let mut lines = String::new();
        for some in addresses.chunks(types::NAMED_ADDRESSES) {
            if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
                state.named_addresses[..some.len()].copy_from_slice(some);
                state.named_count = some.len() as u32;
            }
            let printed = bpf_link::run_iterator(self.names.as_fd());
            lines.push_str(&String::from_utf8_lossy(&printed.map_err(|source| CollectError::Read(source.into()))?));
        }
        Ok(lines)
    }

    /// Waits until all is loaded: what nobody runs at first is loaded beside what goes on. Only then may privileges be dropped.
    ///
    /// # Errors
    /// If the kernel refuses a program.
    pub fn finish_loading(&mut self) -> Result<(), CollectError> {
        self.tasks.wait().map(drop)
    }

    /// Runs the program over all threads of the machine.
    fn ask(&mut self, request: u32, pid: i32, cgroup: u64) -> Result<(), CollectError> {
        let tasks = self.tasks.wait()?;
        let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() else { return Ok(()) };
        state.request = request;
        state.wanted_tgid = pid;
        state.wanted_cgroup = cgroup;
        let outcome = bpf_link::run_iterator(tasks).map(drop);
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            state.request = types::SCHED_REQUEST_NOTHING;
        }
        outcome.map_err(|source| CollectError::Read(source.into()))
    }
}

/// Enumerators of `sched_abi.h` that no structure refers to.
mod types {
    pub(super) const SCHED_REQUEST_NOTHING: u32 = 0;
    pub(super) const SCHED_REQUEST_FOLLOW: u32 = 1;
    pub(super) const SCHED_REQUEST_AUDIT: u32 = 2;
    pub(super) const SCHED_ROOT_CGROUP: u64 = 1;
    /// Of `kernel_names.h`.
    pub(super) const NAMED_ADDRESSES: usize = 128;
}

/// Numbers in `/sys/devices/system/cpu/online`: `0-3,6`.
pub(crate) fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    text.trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}
