//! Loading the scheduler collector: its maps, and then its programs. Nearly all the time of it the kernel zeroes maps and
//! verifies programs, one after the other; so that is done in several threads, while the tables of unwind rules are made.
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, Map, MapCore, MapHandle, MapMut, MapType, OpenMapMut, OpenObject};

use crate::collector::{SchedSettings, online_processors};
use crate::error::CollectError;
use crate::kernel_types::KernelTypes;
use crate::perf_event::{self, SampledEvent};
use crate::requirement::has_fault_tracepoints;
use crate::sampling_period::ProcessorTimers;
use crate::skeleton::{self, OpenSchedCriticalitySkel, SchedCriticalitySkel, SchedCriticalitySkelBuilder};
use crate::system_call_time::SystemCallCounter;
use crate::unwind_table::{UnwindMaps, UnwindTables};

/// What is loaded.
pub(crate) struct Loaded<'a> {
    /// All maps. Only this one's variables are those that the programs see.
    pub maps: SchedCriticalitySkel<'a>,
    /// Programs that are attached when they are wanted: those of [`Part::SystemCalls`].
    pub system_calls: SchedCriticalitySkel<'a>,
    /// The others are attached.
    pub links: Vec<Link>,
    pub timers: ProcessorTimers,
    /// Why there are no samples although they were wanted.
    pub samples_refused: Option<CollectError>,
    /// The one that runs over all threads for whoever reads it.
    pub tasks: Link,
    pub tables: UnwindTables,
    /// Page faults can be counted.
    pub faults_counted: bool,
}

/// What one copy of the programs' object is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Maps,
    /// Who runs: the scheduler's switches, samples.
    Switches,
    SystemCalls,
    /// Who comes, goes and is woken; runs over all threads.
    Threads,
}

/// Loads everything. Of `program`, which will be launched, tables are made meanwhile.
pub(crate) fn load<'a>(
    [for_maps, for_system_calls]: &'a mut [MaybeUninit<OpenObject>; 2],
    settings: &SchedSettings,
    program: Option<&Path>,
) -> Result<Loaded<'a>, CollectError> {
    // What is refused is told by who asked, not by the library.
    libbpf_rs::set_print(None);
    let (maps, faults_counted, tables, system_calls, switches, threads) = thread::scope(|scope| {
        let types = scope.spawn(|| {
            // Beside the maps, which take longer: both look through all of the kernel's types.
            (KernelTypes::of_programs(skeleton::object()), settings.system_calls && has_fault_tracepoints())
        });
        let none = KernelTypes::none();
        let mut maps = open(for_maps, settings, Part::Maps, none.as_ref())?;
        make_large_maps(&mut maps)?;
        let maps = maps.load().map_err(CollectError::Load)?;
        let tables = tables(&maps)?;
        if let Some(program) = program {
            tables.prepare_program(program);
        }
        let (types, faults_counted) = types.join().unwrap_or_default();
        let shared: Vec<Map<'_>> = maps.object().maps().collect();
        let shared: Vec<(&OsStr, BorrowedFd<'_>)> = shared.iter().map(|map| (map.name(), map.as_fd())).collect();
        let (system_calls, switches, threads) = thread::scope(|scope| {
            let switches = scope.spawn(|| {
                let mut storage = MaybeUninit::uninit();
                attach_switches(&part(&mut storage, settings, Part::Switches, types.as_ref(), &shared)?, settings)
            });
            let threads = scope.spawn(|| {
                let mut storage = MaybeUninit::uninit();
                attach_threads(&part(&mut storage, settings, Part::Threads, types.as_ref(), &shared)?)
            });
            let system_calls = part(for_system_calls, settings, Part::SystemCalls, types.as_ref(), &shared);
            (system_calls, switches.join(), threads.join())
        });
        drop(shared);
        Ok::<_, CollectError>((maps, faults_counted, tables, system_calls, switches, threads))
    })?;
    let ended = |_| CollectError::Nothing("the thread that loads programs".to_owned());
    let (mut links, tasks) = threads.map_err(ended).flatten()?;
    let switches = switches.map_err(ended).flatten()?;
    links.extend(switches.links);
    let (timers, samples_refused) = (switches.timers, switches.samples_refused);
    Ok(Loaded { maps, system_calls: system_calls?, links, timers, samples_refused, tasks, tables, faults_counted })
}

/// Makes the maps that the kernel takes longest to zero, in two threads.
fn make_large_maps(open: &mut OpenSchedCriticalitySkel<'_>) -> Result<(), CollectError> {
    const LARGE: u64 = 4 << 20;
    let is_large = |map: &OpenMapMut<'_>| {
        // A ring buffer has no keys, and as many bytes as entries.
        map.key_size() > 0 && u64::from(map.max_entries()) * u64::from(map.value_size()) >= LARGE
    };
    let mut maps: Vec<OpenMapMut<'_>> = open.open_object_mut().maps_mut().filter(is_large).collect();
    let shapes: Vec<_> = maps
        .iter()
        .map(|map| (map.map_type(), map.name(), map.key_size(), map.value_size(), map.max_entries(), map.map_flags()))
        .collect();
    let make = |shapes: &[_]| -> Vec<libbpf_rs::Result<MapHandle>> {
        shapes
            .iter()
            .map(|&(kind, name, key, value, entries, map_flags): &(MapType, &OsStr, u32, u32, u32, u32)| {
                let sz = size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t;
                let options = libbpf_sys::bpf_map_create_opts { sz, map_flags, ..Default::default() };
                MapHandle::create(kind, Some(name), key, value, entries, &options)
            })
            .collect()
    };
    let (one, other) = shapes.split_at(shapes.len() / 2);
    let made = thread::scope(|scope| {
        let beside = scope.spawn(|| make(other));
        let mut made = make(one);
        made.extend(beside.join().unwrap_or_default());
        made
    });
    for (map, made) in maps.iter_mut().zip(made) {
        map.reuse_fd(made.map_err(CollectError::Load)?.as_fd()).map_err(CollectError::Load)?;
    }
    Ok(())
}

/// Opens the object for one part.
fn open<'a>(
    storage: &'a mut MaybeUninit<OpenObject>,
    settings: &SchedSettings,
    part: Part,
    types: Option<&KernelTypes>,
) -> Result<OpenSchedCriticalitySkel<'a>, CollectError> {
    let mut builder = SchedCriticalitySkelBuilder::default();
    if let Some(types) = types {
        builder.object_builder_mut().btf_custom_path(types.path()).map_err(CollectError::Load)?;
    }
    let mut open = builder.open(storage).map_err(CollectError::Load)?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.wait_budget = settings.wait_budget;
        constants.stack_period = settings.stack_period_ns;
        constants.timed_samples = settings.event == SampledEvent::CpuClock;
        constants.kernel_halves = settings.kernel_halves;
        constants.with_queued = settings.sample_hz > 0 && settings.stacks;
        constants.with_preemptions = settings.preemptions && settings.stacks;
        constants.stack_depth = settings.stack_depth.clamp(1, SchedSettings::MAX_STACK_DEPTH);
        constants.per_process = settings.per_process.into();
        constants.with_waits = settings.waits.into();
        constants.with_stacks = settings.stacks.into();
        constants.publish_threads = settings.publish_threads.into();
        constants.only_launched = settings.launched_only;
        constants.with_system_calls = settings.system_calls.into();
        constants.recorder_namespace =
            fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino() as u32).unwrap_or(0);
    }
    if let Some(state) = open.maps.bss_data.as_deref_mut() {
        state.processors = settings.processors.max(1);
        state.min_parallelism = settings.min_parallelism;
    }
    let progs = &mut open.progs;
    for program in [&mut progs.on_switch, &mut progs.on_sample] {
        program.set_autoload(part == Part::Switches);
    }
    for program in
        [&mut progs.on_wakeup, &mut progs.on_wakeup_new, &mut progs.on_new_task, &mut progs.on_exec, &mut progs.on_task]
    {
        program.set_autoload(part == Part::Threads);
    }
    // Who woke whom is part of the waits.
    progs.on_waking.set_autoload(part == Part::Threads && settings.waits);
    progs.on_cgroup_attach.set_autoload(part == Part::Threads && !settings.launched_only);
    SystemCallCounter::prepare(&mut open, settings.system_calls, part == Part::SystemCalls)?;
    Ok(open)
}

/// Loads the programs of a part, which share all maps but the one of constants.
fn part<'a>(
    storage: &'a mut MaybeUninit<OpenObject>,
    settings: &SchedSettings,
    part: Part,
    types: Option<&KernelTypes>,
    shared: &[(&OsStr, BorrowedFd<'_>)],
) -> Result<SchedCriticalitySkel<'a>, CollectError> {
    let mut open = open(storage, settings, part, types)?;
    for mut map in open.open_object_mut().maps_mut() {
        let same = shared.iter().find(|(name, _)| *name == map.name() && !name.as_bytes().ends_with(b".rodata"));
        if let Some((_, descriptor)) = same {
            map.reuse_fd(*descriptor).map_err(CollectError::Load)?;
        }
    }
    open.load().map_err(CollectError::Load)
}

/// What came of [`Part::Switches`].
struct Switches {
    links: Vec<Link>,
    timers: ProcessorTimers,
    samples_refused: Option<CollectError>,
}

/// As [`attach_threads`].
fn attach_switches(skeleton: &SchedCriticalitySkel<'_>, settings: &SchedSettings) -> Result<Switches, CollectError> {
    let progs = &skeleton.progs;
    let switch = progs.on_switch.attach_trace();
    let mut links = vec![switch.map_err(|source| CollectError::Attach { name: "sched_switch", source })?];
    let mut samples_refused = None;
    let mut timers = ProcessorTimers::of(settings.sample_hz);
    let processors = if settings.sample_hz > 0 { online_processors() } else { Vec::new() };
    for processor in processors {
        let timer = match perf_event::open(settings.event, processor, settings.sample_hz) {
            Ok(timer) => timer,
            // Without a timer the rest is recorded; without what was asked for there is nothing to tell.
            Err(source) if settings.event != SampledEvent::CpuClock => {
                return Err(CollectError::Event { event: settings.event.as_str(), source });
            }
            Err(source) => {
                samples_refused = Some(CollectError::Samples { processor, source });
                break;
            }
        };
        if settings.event == SampledEvent::CpuClock {
            timers.add(&timer);
        }
        // The link closes the descriptor, so it is given away.
        let link = progs.on_sample.attach_perf_event(timer.into_raw_fd());
        links.push(link.map_err(|source| CollectError::Attach { name: "perf_event", source })?);
    }
    Ok(Switches { links, timers, samples_refused })
}

/// Attaches the programs of that part. They run for as long as the links live, whatever becomes of their object.
fn attach_threads(skeleton: &SchedCriticalitySkel<'_>) -> Result<(Vec<Link>, Link), CollectError> {
    let progs = &skeleton.progs;
    let mut links = Vec::new();
    // Births before the rest, so that no thread is seen whose maker was followed and that isn't.
    for (name, program) in [
        ("task_newtask", &progs.on_new_task),
        ("sched_process_exec", &progs.on_exec),
        ("cgroup_attach_task", &progs.on_cgroup_attach),
        ("sched_wakeup", &progs.on_wakeup),
        ("sched_wakeup_new", &progs.on_wakeup_new),
        ("sched_waking", &progs.on_waking),
    ] {
        if program.autoload() {
            links.push(program.attach_trace().map_err(|source| CollectError::Attach { name, source })?);
        }
    }
    let tasks = progs.on_task.attach_trace().map_err(|source| CollectError::Attach { name: "iter/task", source })?;
    Ok((links, tasks))
}

/// Tables of unwind rules in these maps.
fn tables(maps: &SchedCriticalitySkel<'_>) -> Result<UnwindTables, CollectError> {
    let handle = |map: &MapMut<'_>| MapHandle::try_from(map).map_err(CollectError::Load);
    let maps = &maps.maps;
    Ok(UnwindTables::new(UnwindMaps {
        words: handle(&maps.unwind_words)?,
        mappings: handle(&maps.unwind_mappings)?,
        rules: handle(&maps.unwind_rules)?,
        cache: handle(&maps.unwind_cache)?,
        spaces: handle(&maps.unwind_spaces)?,
        files: handle(&maps.unwind_files)?,
    })?)
}
