//! Takes in the records of the kernel's collector while the program runs, in bounded memory.
//!
//! Records of different CPUs come in the order in which they were reserved; what one names (a task, a stack) may
//! come later than it, or never.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::{
    FRACTION_BITS, MalformedRecord, Record, Stack, sched_brief, sched_sample, sched_task, sched_wait, task_event,
};
use transect_bpf_collect::{ApplicationTotals, Lost, MappingEvents, OpenThread, SchedSettings};

use super::address_space::AddressSpaces;
use super::brief::BriefWaits;
use super::call_stack::{NO_STACK, RawStacks};
use super::cause::Causes;
use super::collected::{Collected, Gathered, MetProcesses};
use super::kernel_symbols::{KernelSymbols, SymbolSource};
use super::kind::Call;
use super::mapped_file::MappedFiles;
use super::mapping_log::MappingLog;
use super::module::ReadFiles;
use super::object::{NO_OBJECT, ObjectNumber, Objects};
use super::place::{Place, PlaceId, Places};
use super::processes::Processes;
use super::read_ahead::ReadAhead;
use super::sample::{RawTimedSample, SampleKey, SampleSum, Samples};
use super::task::RawTasks;
use super::timeline::{RawSlice, RawWait, RawWaits, SliceRuns};
use super::wait_rows::Seen;
use crate::error::RecordError;

mod of_user;

/// What the collector knows at the end.
#[derive(Debug, Default)]
pub struct Totals {
    /// Applications: one, or one for each process.
    pub applications: Vec<ApplicationTotals>,
    /// Threads that still live.
    pub open: Vec<OpenThread>,
    /// What the kernel's part could not keep.
    pub lost: Lost,
    /// Largest difference between the counted and the real number of active threads.
    pub drift: u64,
    /// Last instant observed, ns of the monotonic clock.
    pub now: u64,
    /// Why there are no samples although they were wanted.
    pub without_samples: Option<String>,
}

/// The records so far.
#[derive(Debug)]
pub struct Collection {
    gathered: Gathered,
    spaces: AddressSpaces,
    /// Addresses in the kernel by place; the same few come again and again.
    kernel_places: HashMap<u64, PlaceId>,
    scratch: (Vec<PlaceId>, Vec<PlaceId>),
}

/// A recording that has ended, or one up to an instant. Any thread can make tables of it.
#[derive(Debug)]
pub struct SoFar {
    gathered: Gathered,
    met: MetProcesses,
    totals: Totals,
}

impl SoFar {
    /// Names all places, tells the kinds of all waits.
    ///
    /// # Errors
    /// If rows that were put aside can't be read again.
    pub fn tables(self) -> Result<Collected, RecordError> {
        self.gathered.collected(&self.totals, self.met)
    }
}

impl Collection {
    /// An empty one; `origin` is the recording's start, ns of the monotonic clock. Rows that are too many for memory are
    /// put aside in files in `folder`, which have no names there.
    ///
    /// # Errors
    /// If no file can be made there.
    pub fn new(settings: &SchedSettings, origin: u64, folder: &Path) -> Result<Self, RecordError> {
        let file = |source| RecordError::Read { path: folder.to_owned(), source };
        Ok(Self {
            gathered: Gathered {
                settings: *settings,
                sample_period: 1_000_000_000 / u64::from(settings.sample_hz.max(1)),
                origin,
                tasks: RawTasks::default(),
                places: Places::default(),
                stacks: RawStacks::default(),
                files: MappedFiles::default(),
                kernel: SymbolSource::open(),
                read: ReadFiles::default(),
                objects: Objects::default(),
                causes: Causes::default(),
                seen: Seen::default(),
                waited: HashMap::default(),
                slept: HashMap::default(),
                idle: HashMap::default(),
                samples: Samples::default(),
                waits: RawWaits::new(folder).map_err(file)?,
                slices: SliceRuns::new(folder).map_err(file)?,
                brief: BriefWaits::default(),
                brief_waits: 0,
                malformed: 0,
                critical_slices: 0,
                slice_count: 0,
            },
            spaces: AddressSpaces::default(),
            kernel_places: HashMap::default(),
            scratch: Default::default(),
        })
    }

    /// From now on the timer takes one sample where it took `times`.
    pub fn sample_less(&mut self, times: u32) {
        self.gathered.sample_period *= u64::from(times.max(1));
    }

    /// The program may use so many CPUs; parallelism below `min_parallelism` is low.
    pub fn set_cpus(&mut self, cpus: u32, min_parallelism: u32) {
        self.gathered.settings = SchedSettings { cpus, min_parallelism, ..self.gathered.settings };
    }

    /// The kernel tells of processes' mappings there: also of processes that end before they are looked at.
    pub fn follow_mappings(&mut self, events: Rc<RefCell<MappingEvents>>) {
        self.spaces.follow(MappingLog::of(events));
    }

    /// Takes in one record.
    pub fn accept(&mut self, record: Record<'_>) {
        match record {
            Record::Task(task) => self.task(&task),
            Record::Stack(stack) => self.stack(&stack),
            Record::Wait(wait) => self.wait(&wait),
            Record::Sample(sample) => self.sample(&sample),
            Record::Brief(brief) => self.brief(&brief),
            // Criticality counts a thread that could go on as active; only a walk has these told.
            Record::Preempted(_) => {}
            Record::UnknownCode(unknown) => {
                let g = &mut self.gathered;
                self.spaces.meet(unknown.tgid, unknown.address, &mut g.files);
            }
        }
    }

    /// Counts a record that could not be read.
    pub fn reject(&mut self, _: &MalformedRecord) {
        self.gathered.malformed += 1;
    }

    /// What has time until the ring is empty.
    pub fn between(&mut self) {
        self.spaces.forget_ended();
    }

    /// Addresses in the kernel whose functions will be named: none if their names may not be known.
    pub fn kernel_addresses(&self) -> Vec<u64> {
        if !self.gathered.kernel.shows_addresses() {
            return Vec::new();
        }
        self.gathered.places.all().iter().filter_map(Place::kernel_address).collect()
    }

    /// What the functions at these addresses are, as the kernel prints it.
    pub fn name_kernel(&mut self, addresses: &[u64], lines: &str) {
        self.gathered.kernel.know(KernelSymbols::of_printed(addresses, lines));
    }

    /// Files that stacks lie in are read by `ahead`.
    pub(super) fn read_ahead(&self, ahead: &mut ReadAhead) {
        ahead.look(self.gathered.places.all(), &self.gathered.files);
    }

    /// Files that others have read need not be read again.
    pub(crate) fn know_files(&mut self, files: ReadFiles) {
        self.gathered.read = files;
    }

    /// Turns everything into tables: names all places, tells the kinds of all waits. To be called while the programs in
    /// the kernel are still loaded.
    ///
    /// # Errors
    /// If rows that were put aside can't be read again.
    pub fn finish(mut self, mut totals: Totals) -> Result<Collected, RecordError> {
        self.close(&mut totals);
        let met = self.met(totals.now);
        SoFar { gathered: self.gathered, met, totals }.tables()
    }

    /// What there is now, while more comes. `kernel`: what is at the addresses of [`Collection::kernel_addresses`].
    pub fn so_far(&mut self, mut totals: Totals, kernel: Option<KernelSymbols>) -> SoFar {
        let copy = self.gathered.so_far();
        let mut original = std::mem::replace(&mut self.gathered, copy);
        // Mappings that are read now name files by their numbers there.
        std::mem::swap(&mut original.files, &mut self.gathered.files);
        self.close(&mut totals);
        let met = self.met(totals.now);
        let mut gathered = std::mem::replace(&mut self.gathered, original);
        self.gathered.files = std::mem::take(&mut gathered.files);
        gathered.files = self.gathered.files.clone();
        kernel.into_iter().for_each(|symbols| gathered.kernel.know(symbols));
        SoFar { gathered, met, totals }
    }

    /// The recording ends here: what is open counts as far as it has come.
    fn close(&mut self, totals: &mut Totals) {
        give_open_idle(totals);
        for open in &totals.open {
            if let Some(brief) = &open.brief {
                self.brief(brief);
            }
            if let Some(wait) = &open.wait {
                self.wait(wait);
            }
            self.gathered.tasks.update(&sched_task { event: task_event::BORN, ..open.task });
        }
        self.last_slices(totals.now);
        self.gathered.brief_waits = self.gathered.brief.count;
        std::mem::take(&mut self.gathered.brief).divide_into(&mut self.gathered.waits);
    }

    fn met(&mut self, now: u64) -> MetProcesses {
        let g = &mut self.gathered;
        let processes = Processes::of(&g.tasks, &mut self.spaces, &mut g.files, g.origin, now);
        MetProcesses { processes, owners: self.spaces.owners.clone(), unseen: self.spaces.unseen }
    }

    fn task(&mut self, record: &sched_task) {
        let g = &mut self.gathered;
        g.tasks.update(record);
        let leader = record.tid == record.tgid;
        if record.event == task_event::SEEDED && leader && super::listening::listens(record.tgid) {
            g.tasks.listens(record.task);
        }
        match record.event {
            task_event::SEEDED if leader => self.spaces.met(record.tgid, record.time, &mut g.files),
            task_event::BORN if leader => self.spaces.born(record.tgid, record.parent_tgid, &mut g.files),
            task_event::EXEC => self.spaces.replaced(record.tgid, record.time, &mut g.files),
            task_event::EXIT if leader => self.spaces.ended(record.tgid),
            _ => {}
        }
    }

    /// For each thread the slice that its end, or the recording's, ends; and the criticality since its last sample,
    /// which its last stack stands for.
    fn last_slices(&mut self, now: u64) {
        let g = &mut self.gathered;
        for (number, task) in g.tasks.all().filter(|(_, task)| task.known) {
            let record = &task.record;
            let start = task.last_wait_end.max(task.begin);
            let end = if task.end != 0 { task.end } else { now };
            if end > start {
                let length = end - start;
                // What is left of the totals; more than its length where records of slices were lost.
                let criticality = record.criticality.saturating_sub(task.slices_criticality) >> FRACTION_BITS;
                let runnable_ns = record.runnable_ns.saturating_sub(task.slices_runnable).min(length);
                let criticality_ns = criticality.min(length);
                g.slices.push(RawSlice { task: number, start, end, runnable_ns, criticality_ns, wait: None });
                g.slice_count += 1;
            }
            let left = if g.settings.sample_hz == 0 {
                // Those of brief waits have no stack of their own.
                record.criticality.saturating_sub(task.slices_criticality) + task.brief_criticality
            } else {
                record.unattributed
            };
            if task.last_stack != NO_STACK && left > 0 {
                let key = SampleKey { task: number, stack: task.last_stack, n: task.last_n, stack_top: true };
                g.samples.add(key, SampleSum { count: 0, criticality: left, active_ns: 0 });
            }
        }
    }

    fn stack(&mut self, stack: &Stack<'_>) {
        let g = &mut self.gathered;
        // Sent again where the kernel's part could not remember that it had been.
        if g.stacks.has(stack.id) {
            return;
        }
        let (kernel, user) = &mut self.scratch;
        kernel.clear();
        user.clear();
        for (depth, address) in stack.kernel().enumerate() {
            let number = match self.kernel_places.get(&address) {
                Some(&number) if depth > 0 => Some(number),
                _ => g.places.number(Place::Kernel { address, returns: depth > 0 }),
            };
            if let Some(number) = number.filter(|_| depth > 0) {
                self.kernel_places.insert(address, number);
            }
            kernel.extend(number);
        }
        for (depth, address) in stack.user().enumerate() {
            let place = self.spaces.place(stack.tgid, address, depth > 0, &mut g.files);
            user.extend(g.places.number(place));
        }
        if kernel.len() < stack.kernel().len() || user.len() < stack.user().len() {
            g.stacks.refused += 1;
            return;
        }
        g.stacks.insert(stack.id, stack.flags, kernel, user);
    }

    fn wait(&mut self, record: &sched_wait) {
        // One that is stopped waits for nothing that its call names.
        let object = if record.held != 0 { NO_OBJECT } else { self.object(record) };
        let g = &mut self.gathered;
        let cause = g.causes.number(record, object);
        let stack = g.stacks.number(record.stack);
        g.seen.add(cause, stack);
        let waited = g.waited.entry((record.task, stack)).or_default();
        let ns = record.end.saturating_sub(record.begin);
        *waited = (waited.0 + 1, waited.1 + ns);
        if Call::of(record.system_call) == Call::Sleep {
            *g.slept.entry(record.task).or_default() += ns;
        }
        if record.idle > 0 {
            *g.idle.entry(stack).or_default() += record.idle;
        }
        let party = |stacks: &mut RawStacks, task: u32, stack: u64| match task {
            0 => (0, NO_STACK),
            task => (task, stacks.number(stack)),
        };
        let (holder, holder_stack) = party(&mut g.stacks, record.holder, record.holder_stack);
        let (waker, waker_stack) = party(&mut g.stacks, record.waker, record.waker_stack);
        let raw = RawWait {
            task: record.task,
            stack,
            cause,
            holder,
            holder_stack,
            waker,
            waker_stack,
            begin: record.begin,
            end: record.end.max(record.begin),
            idle_ns: record.idle,
            holder_gain_ns: record.holder_gain >> FRACTION_BITS,
            waker_gain_ns: record.waker_gain >> FRACTION_BITS,
        };
        g.brief.meet(record, &raw);
        let wait = g.waits.push(raw);
        // A wait that was under way when the recording began has no slice before it.
        let has_slice = record.slice_begin != 0 && record.slice_begin < record.begin;
        if let Some(task) = g.tasks.get_or_add(record.task) {
            if has_slice {
                task.slices_criticality += record.slice_criticality;
                task.slices_runnable += record.slice_runnable_ns;
            }
            task.last_wait_end = task.last_wait_end.max(record.end);
            if stack != NO_STACK && record.end >= task.last_stack_time {
                (task.last_stack, task.last_stack_time, task.last_n) = (stack, record.end, record.n + 1);
            }
        }
        if has_slice {
            g.slice_count += 1;
            g.critical_slices += u64::from(record.n < g.settings.min_parallelism);
            let length = record.begin - record.slice_begin;
            g.slices.push(RawSlice {
                task: record.task,
                start: record.slice_begin,
                end: record.begin,
                runnable_ns: record.slice_runnable_ns.min(length),
                criticality_ns: record.slice_criticality >> FRACTION_BITS,
                wait,
            });
            let key = SampleKey { task: record.task, stack, n: record.n + 1, stack_top: true };
            // Where no timer samples, the whole slice counts for where it ended (GAPP's own way).
            let alone = g.settings.sample_hz == 0;
            let (criticality, active_ns) = if alone { (record.slice_criticality, length) } else { (0, 0) };
            g.samples.add(key, SampleSum { count: 1, criticality, active_ns });
        }
    }

    /// Short waits that are summed up: the slices before them are one, and then the thread waits until the last has ended.
    fn brief(&mut self, record: &sched_brief) {
        let g = &mut self.gathered;
        g.brief.add(record);
        g.slice_count += record.count;
        g.critical_slices += record.low;
        if let Some(task) = g.tasks.get_or_add(record.task) {
            task.slices_criticality += record.criticality;
            task.slices_runnable += record.runnable_ns;
            task.last_wait_end = task.last_wait_end.max(record.end);
            task.brief_criticality += record.criticality;
        }
        if record.active_ns > 0 {
            g.slices.push(RawSlice {
                task: record.task,
                start: record.begin,
                end: record.begin + record.active_ns,
                runnable_ns: record.runnable_ns.min(record.active_ns),
                criticality_ns: record.criticality >> FRACTION_BITS,
                wait: None,
            });
        }
    }

    fn object(&mut self, record: &sched_wait) -> ObjectNumber {
        let g = &mut self.gathered;
        // Without its process an object has its address or the name that the kernel keeps.
        let tgid = g.tasks.get(record.task).map_or(0, |task| task.record.tgid);
        match Call::of(record.system_call) {
            Call::Futex => g.objects.word(tgid, record.arguments[0], &mut self.spaces, &mut g.files),
            _ => g.objects.descriptor(tgid, &record.object),
        }
    }

    fn sample(&mut self, record: &sched_sample) {
        let g = &mut self.gathered;
        let stack = g.stacks.number(record.stack);
        let queued = record.queued != 0;
        let key = SampleKey { task: record.task, stack, n: record.n, stack_top: queued };
        let (criticality, active_ns) = (record.criticality, record.active_ns);
        let sum = SampleSum { count: 1, criticality, active_ns };
        if queued {
            g.samples.add(key, sum);
            return;
        }
        g.samples.add_timed(record.time, key, sum);
        let period = g.sample_period;
        g.samples.note(RawTimedSample { time: record.time, task: record.task, stack, period });
    }
}

/// Idle time that no wait has ended goes to the one that began it: the last of those that are under way. Where none is,
/// the application was over by then.
fn give_open_idle(totals: &mut Totals) {
    for application in totals.applications.iter_mut().filter(|application| application.idle_open_ns > 0) {
        let waits = totals.open.iter_mut().filter(|open| open.task.application == application.application);
        match waits.filter_map(|open| open.wait.as_mut()).max_by_key(|wait| wait.begin) {
            Some(wait) => wait.idle += application.idle_open_ns,
            None => {
                application.idle_ns = application.idle_ns.saturating_sub(application.idle_open_ns);
                if let Some(none_active) = application.histogram.first_mut() {
                    *none_active = none_active.saturating_sub(application.idle_open_ns);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
