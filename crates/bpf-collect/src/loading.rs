//! Loading the scheduler collector: its maps, and then its programs. Nearly all the time of it the kernel zeroes maps and
//! verifies programs; so both are done in several threads. Beside the maps the object is prepared, and beside the programs the
//! tables of unwind rules are made.
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, MapMut, OpenObject, OpenProgramMut};
use transect_event_abi::published::OWN_CALL_MARK;

use crate::collector::{SchedSettings, online_cpus};
use crate::error::CollectError;
use crate::kernel_types::{KernelTypes, StructureFile};
use crate::large_map::LargeMaps;
use crate::loaded_later::LoadedLater;
use crate::perf_event::{self, SampledEvent};
use crate::sampling_period::CpuTimers;
use crate::skeleton::{self, OpenSchedCriticalitySkel, SchedCriticalitySkel, SchedCriticalitySkelBuilder};
use crate::system_call_time::{SystemCallCounter, SystemCallPrograms};
use crate::traced_program::{self, LoadedProgram, PreparedProgram};
use crate::unwind_table::{UnwindMaps, UnwindTables};

/// What is loaded.
pub(crate) struct Loaded<'a> {
    /// All maps, and the programs' variables.
    pub maps: SchedCriticalitySkel<'a>,
    /// Programs that are attached when they are wanted. None if they are not.
    pub system_calls: Option<SystemCallPrograms>,
    /// The others are attached.
    pub links: Vec<OwnedFd>,
    pub timers: CpuTimers,
    /// Why there are no samples although they were wanted.
    pub samples_refused: Option<CollectError>,
    /// The one that runs over all threads for whoever reads it.
    pub tasks: LoadedLater,
    /// The one that prints names of the kernel's functions.
    pub names: OwnedFd,
    pub tables: UnwindTables,
}

/// Loads everything. Of `programs`, which will be launched or mapped, tables are made meanwhile.
pub(crate) fn load<'a>(
    storage: &'a mut MaybeUninit<OpenObject>,
    settings: &SchedSettings,
    programs: &[PathBuf],
) -> Result<Loaded<'a>, CollectError> {
    // The caller reports what fails, not the library.
    libbpf_rs::set_print(None);
    let structures = StructureFile::new().map_err(|why| CollectError::Load(why.into()))?;
    let (mut open, large, mut prepared) = thread::scope(|scope| {
        // It looks through all of the kernel's types.
        let read = || KernelTypes::read(skeleton::object(), &structures);
        let types = thread::Builder::new().spawn_scoped(scope, read);
        let mut builder = SchedCriticalitySkelBuilder::default();
        builder.object_builder_mut().btf_custom_path(structures.path()).map_err(CollectError::Load)?;
        let mut open = builder.open(storage).map_err(CollectError::Load)?;
        set(&mut open, settings);
        SystemCallCounter::prepare(&mut open, settings.system_calls)?;
        if !settings.per_process {
            open.maps.applications.set_max_entries(1).map_err(CollectError::Load)?;
        }
        let large = LargeMaps::stand_in(&mut open)?;
        let (large, prepared) = large.make(|| {
            let types = match types {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads them ended")))
                }
                Err(_) => read(),
            };
            let types = types.map_err(CollectError::NoTypes)?;
            let wanted = |program: &OpenProgramMut<'_>| is_wanted(&program.name().to_string_lossy(), settings, &types);
            traced_program::prepare(open.open_object_mut(), wanted, &types)
        })?;
        Ok::<_, CollectError>((open, large, prepared))
    })?;
    large.take_places(&mut open)?;
    let maps = open.load().map_err(CollectError::Load)?;
    // Of a program that is launched threads are only counted again, a second after it began.
    let later = prepared.iter().position(|one| settings.launched_only && one.name() == "on_task");
    let later = later.map(|at| prepared.swap_remove(at));
    let (mut loaded, tables) = verify(prepared, || {
        let tables = tables(&maps)?;
        programs.iter().for_each(|program| tables.prepare_program(program));
        Ok(tables)
    })?;
    let mut take = |name: &str| loaded.iter().position(|one| one.name() == name).map(|at| loaded.swap_remove(at));
    let missing = |name: &str| CollectError::Nothing(format!("the kernel's program {name}"));
    let mut links = Vec::new();
    for name in ALWAYS {
        if let Some(program) = take(name) {
            links.push(program.attach()?);
        }
    }
    let names = take("on_names").ok_or_else(|| missing("on_names"))?.attach()?;
    let tasks = match later {
        Some(program) => LoadedLater::load(program)?,
        None => LoadedLater::loaded(take("on_task").ok_or_else(|| missing("on_task"))?.attach()?),
    };
    let samples = take("on_sample").map(|program| attach_samples(&program, settings)).transpose()?;
    let samples = samples.unwrap_or_else(|| Samples::none(settings));
    links.extend(samples.links);
    let (timers, samples_refused) = (samples.timers, samples.refused);
    let mut system_calls = None;
    if settings.system_calls {
        let mut of_name = |name: &str| take(name).ok_or_else(|| missing(name));
        system_calls = Some(SystemCallPrograms {
            begin: of_name("on_system_call")?,
            end: of_name("on_system_call_end")?,
            tasks: of_name("on_system_call_task")?.attach()?,
            faults: [of_name("on_user_fault"), of_name("on_kernel_fault")].into_iter().flatten().collect(),
        });
    }
    Ok(Loaded { maps, system_calls, links, timers, samples_refused, tasks, names, tables })
}

/// Programs that run from now on to the end. Births come first, so that no thread is seen whose maker was followed and that
/// isn't.
const ALWAYS: [&str; 7] =
    ["on_new_task", "on_exec", "on_cgroup_attach", "on_wakeup", "on_wakeup_new", "on_waking", "on_switch"];

fn is_wanted(program: &str, settings: &SchedSettings, types: &KernelTypes) -> bool {
    match program {
        "on_sample" => settings.sample_hz > 0,
        // Who woke whom is part of the waits.
        "on_waking" => settings.waits,
        "on_cgroup_attach" => !settings.launched_only,
        "on_system_call" | "on_system_call_end" | "on_system_call_task" => settings.system_calls,
        "on_user_fault" | "on_kernel_fault" => settings.system_calls && types.tracepoint("page_fault_user").is_some(),
        _ => true,
    }
}

/// Does something with each of `what`, in so many threads: whoever is done takes the next. This thread does `first` before.
/// What comes of it is in no order, each with its number.
pub(crate) fn side_by_side<T: Sync, R: Send, F>(
    what: &[T],
    threads: usize,
    make: impl Fn(&T) -> Result<R, CollectError> + Sync,
    first: impl FnOnce() -> Result<F, CollectError>,
) -> Result<(Vec<(usize, R)>, F), CollectError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = what.get(number) else { return Ok::<_, CollectError>(made) };
            made.push((number, make(one)?));
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let first = first()?;
        let mut all = work()?;
        for other in others {
            let ended = |_| CollectError::Nothing("a thread that loads the collector".to_owned());
            all.extend(other.join().map_err(ended)??);
        }
        Ok((all, first))
    })
}

/// Sets the programs' constants and first values.
fn set(open: &mut OpenSchedCriticalitySkel<'_>, settings: &SchedSettings) {
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
        constants.own_call_mark = OWN_CALL_MARK;
        constants.recorder_tgid = std::process::id().cast_signed();
        constants.recorder_namespace =
            fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino() as u32).unwrap_or(0);
    }
    if let Some(state) = open.maps.bss_data.as_deref_mut() {
        state.cpus = settings.cpus.max(1);
        state.min_parallelism = settings.min_parallelism;
    }
}

/// Has the kernel verify programs, several at once. They are in no order. This thread does `first` before.
fn verify<F>(
    mut programs: Vec<PreparedProgram>,
    first: impl FnOnce() -> Result<F, CollectError>,
) -> Result<(Vec<LoadedProgram>, F), CollectError> {
    /// More would mostly wait for the largest program.
    const THREADS: usize = 4;
    programs.sort_by_key(|one| std::cmp::Reverse(one.size()));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let (loaded, first) = side_by_side(&programs, threads, PreparedProgram::load, first)?;
    Ok((loaded.into_iter().map(|(_, program)| program).collect(), first))
}

/// What samples come by.
struct Samples {
    links: Vec<OwnedFd>,
    timers: CpuTimers,
    refused: Option<CollectError>,
}

impl Samples {
    fn none(settings: &SchedSettings) -> Self {
        Self { links: Vec::new(), timers: CpuTimers::of(settings.sample_hz), refused: None }
    }
}

fn attach_samples(program: &LoadedProgram, settings: &SchedSettings) -> Result<Samples, CollectError> {
    let mut samples = Samples::none(settings);
    for cpu in online_cpus() {
        let timer = match perf_event::open(settings.event, cpu, settings.sample_hz) {
            Ok(timer) => timer,
            // Without a timer the rest is recorded; without what was asked for there is nothing to tell.
            Err(source) if settings.event != SampledEvent::CpuClock => {
                return Err(CollectError::Event { event: settings.event.as_str(), source });
            }
            Err(source) => {
                samples.refused = Some(CollectError::Samples { cpu, source });
                break;
            }
        };
        if settings.event == SampledEvent::CpuClock {
            samples.timers.add(&timer);
        }
        // The event lives as long as the link.
        samples.links.push(program.attach_to_event(&timer)?);
    }
    Ok(samples)
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
