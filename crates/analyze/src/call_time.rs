//! Where the time of calls and components was: on a CPU, runnable or blocked, and in whose code. Calls are timed by the wall
//! clock and belong to who was called through a linkage table; samples and waits of the same recording tell the rest.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{ApiClass, ComponentId, Profile, Space, StackId, Task, TaskId, bare_name};

use crate::criticality::is_agent;
use crate::names::executable_of;

/// Fewer samples and waits do not tell how a call's time divides.
const LEAST: f64 = 10.0;
/// Standard deviations by which samples may differ from the truth by chance.
const CHANCE: f64 = 2.0;

/// So many are none.
const CONTRADICTS: f64 = 3.0;
/// Samples are no surer than this part of their time, however many there are.
const UNEVEN: f64 = 0.02;

/// Deviation of a time in the queue, in proportion, by that of a time on a CPU.
const QUEUE_UNSURE: f64 = 3.0;

/// A time is not known that can be more than its least by this factor.
const LEAST_SURE: f64 = 1.5;

/// More of the time than this is not taken to be like the rest for being seen without a stack.
const MOST_UNPLACED: f64 = 0.1;

/// How a time divides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Times {
    on_cpu: f64,
    runnable: f64,
    blocked: f64,
    /// Samples and waits that it is known by.
    seen: f64,
}

/// ns on a CPU, runnable and blocked: together exactly the time that was divided.
pub(crate) type Divided = [i64; 3];

impl Times {
    fn add(&mut self, other: Times) {
        self.on_cpu += other.on_cpu;
        self.runnable += other.runnable;
        self.blocked += other.blocked;
        self.seen += other.seen;
    }

    /// The same, longer by this factor.
    pub fn times(&self, factor: f64) -> Times {
        let [on_cpu, runnable, blocked] = [self.on_cpu, self.runnable, self.blocked].map(|ns| ns * factor);
        Times { on_cpu, runnable, blocked, ..*self }
    }

    /// All of it, ns, if this contradicts `ns` by more than chance.
    pub fn instead_of(&self, ns: i64, one_ns: f64) -> Option<f64> {
        let all = self.on_cpu + self.runnable + self.blocked;
        let deviation = one_ns * self.seen.max(1.0).sqrt();
        ((ns as f64 - all).abs() > CONTRADICTS * deviation.max(all * UNEVEN)).then_some(all)
    }

    /// Divides the time of calls that wait: all of it in which samples did not see their thread active.
    pub fn divide_waiting(&self, ns: i64) -> Divided {
        let active = self.on_cpu + self.runnable;
        let times = if active > ns as f64 { ns as f64 / active } else { 1.0 };
        let (on_cpu, runnable) = ((self.on_cpu * times) as i64, (self.runnable * times) as i64);
        [on_cpu, runnable, ns - on_cpu - runnable]
    }

    /// The same of threads that were blocked no longer than this altogether: what is more was active where no sample is, as in
    /// the kernel for who may not sample it. It divides as their active time does.
    fn divide_waiting_of(&self, ns: i64, threads: Times) -> Divided {
        let [on_cpu, runnable, blocked] = self.divide_waiting(ns);
        let active = (blocked - threads.blocked as i64).max(0);
        let queued = active as f64 * threads.runnable / (threads.on_cpu + threads.runnable).max(1.0);
        [on_cpu + active - queued as i64, runnable + queued as i64, blocked - active]
    }

    /// Whether times of threads alone tell how much of `ns` in calls of theirs was on a CPU, to a third: no more than they had of it,
    /// no less than they could not have waited. Most calls that wait are on one in the kernel, where a user's samples see nothing.
    fn tell_on_cpu(&self, ns: i64) -> bool {
        let least = ns as f64 - self.blocked - self.runnable;
        let most = self.on_cpu.min(ns as f64);
        least * LEAST_SURE >= most
    }

    /// Divides other time; `None` if too little was seen of it. All that threads were active for was seen, so that what is more
    /// than that by no chance is waiting without a stack.
    pub fn divide(&self, ns: i64) -> Option<Divided> {
        let all = self.on_cpu + self.runnable + self.blocked;
        if self.seen < LEAST || all <= 0.0 {
            return None;
        }
        let times = (ns as f64 / all).min(1.0 + CHANCE / self.seen.sqrt());
        let on_cpu = (self.on_cpu * times).max(self.on_cpu_within(ns as f64, all));
        let others = (all * times - on_cpu) / (self.runnable + self.blocked).max(1.0);
        let (on_cpu, runnable) = (on_cpu as i64, (self.runnable * others) as i64);
        Some([on_cpu, runnable, ns - on_cpu - runnable])
    }

    /// The time on a CPU where all of it, of which more was seen than `ns`, has to fit into that. Most is taken off what is known
    /// least (least squares): time in the queue comes in few long pieces, of which few stacks tell.
    fn on_cpu_within(&self, ns: f64, all: f64) -> f64 {
        let squares: f64 =
            [self.on_cpu, self.runnable * QUEUE_UNSURE, self.blocked].iter().map(|part| part * part).sum();
        (self.on_cpu - (all - ns).max(0.0) * self.on_cpu * self.on_cpu / squares).min(ns)
    }
}

/// See above.
#[derive(Debug, Default)]
pub(crate) struct CallTimes {
    /// Of calls, by the number of their flow.
    flows: FxHashMap<u32, Times>,
    /// Of threads that made calls of a flow, exact.
    threads: FxHashMap<u32, Times>,
    /// There are samples of whoever made the calls.
    known: bool,
    /// They are of user code alone, and nobody saw who was without a CPU when.
    estimated: bool,
    /// Of components' own code, by component.
    pub components: Vec<Times>,
    /// Time on a CPU or runnable that calls through linkage tables count for the first, and in which the second's code ran,
    /// called by a pointer, ns.
    pub elsewhere: FxHashMap<(ComponentId, ComponentId), f64>,
    /// With a call of the first component into the second open, of however many APIs.
    pub edges: FxHashMap<(ComponentId, ComponentId), Times>,
}

/// What a stack says, whoever has it.
struct Read {
    /// Flows whose calls are open, each once.
    flows: Vec<u32>,
    /// Pairs of components of these, each once.
    edges: Vec<(ComponentId, ComponentId)>,
    /// For whom its time counts by linkage; `None`: the executable.
    counted: Option<ComponentId>,
    /// Whose code runs.
    code: Option<ComponentId>,
    /// A call that waits is open, whose time counts as waiting.
    waits: bool,
}

impl CallTimes {
    /// Of a profile; `flow_of_row` are the numbers of its flows by row. Nothing is known without samples or calls.
    pub fn new(profile: &Profile, flow_of_row: &[u32]) -> Self {
        let mut times = Self { components: vec![Times::default(); profile.components.len()], ..Self::default() };
        if profile.flows.is_empty() || profile.sched.samples.is_empty() {
            return times;
        }
        times.known = true;
        times.estimated = profile.meta.criticality.as_ref().is_some_and(|session| session.estimate);
        let mut index: FxHashMap<(ComponentId, ComponentId, &str), (u32, ApiClass)> = FxHashMap::default();
        for (flow, &number) in profile.flows.iter().zip(flow_of_row) {
            index.insert((flow.caller, flow.callee, bare_name(&flow.api)), (number, flow.class));
        }
        times.threads = of_threads(profile, flow_of_row);
        let processes: FxHashSet<u32> = profile.threads.iter().map(|thread| thread.process).collect();
        let executables: Vec<_> = profile.processes.iter().map(|process| executable_of(profile, process)).collect();
        let mut read: FxHashMap<StackId, Read> = FxHashMap::default();
        for (task, stack, time) in active(profile) {
            let Some(task) = profile.sched.tasks.get(task as usize) else { continue };
            let executable = executables.get(task.process as usize).copied().flatten();
            let stack = read.entry(stack).or_insert_with(|| read_stack(profile, stack, &index));
            // Who makes no calls has no flows, though its stacks may look like others'.
            if processes.contains(&task.process) {
                times.add(stack, time, executable);
            } else {
                times.add_code(stack.code, None, time, executable);
            }
        }
        for wait in profile.sched.waits.iter() {
            let (Some(stack), Some(task)) = (wait.stack, task_with_calls(profile, wait.task, &processes)) else {
                continue;
            };
            let time = Times { blocked: wait.ns as f64, seen: wait.count as f64, ..Times::default() };
            let stack = read.entry(stack).or_insert_with(|| read_stack(profile, stack, &index));
            times.add(stack, time, executables[task.process as usize]);
        }
        times
    }

    /// What one sample or wait of components' own code stands for, ns; `None` if there are too few to contradict anything.
    pub fn of_one(&self) -> Option<f64> {
        let mut all = Times::default();
        self.components.iter().for_each(|times| all.add(*times));
        (all.seen >= LEAST * 3.0).then(|| (all.on_cpu + all.runnable + all.blocked) / all.seen)
    }

    /// How many times as long as what was seen in components `whole` is, which they are parts of: a little more or less, for what
    /// was seen without a stack is in none.
    pub fn unplaced(&self, whole: i64) -> f64 {
        let seen: f64 = self.components.iter().map(|times| times.on_cpu + times.runnable + times.blocked).sum();
        if seen > 0.0 { (whole as f64 / seen).clamp(1.0 - MOST_UNPLACED, 1.0 + MOST_UNPLACED) } else { 1.0 }
    }

    /// How `ns` in calls of this flow divide. `None` if it is not known.
    pub fn of_flow(&self, number: u32, class: ApiClass, ns: Option<i64>) -> Option<Divided> {
        let (Some(ns), true) = (ns, self.known) else { return None };
        let times = self.flows.get(&number).copied().unwrap_or_default();
        if class == ApiClass::Compute {
            return times.divide(ns);
        }
        let threads = self.threads.get(&number);
        if self.estimated && !threads.is_some_and(|threads| threads.tell_on_cpu(ns)) {
            return None;
        }
        let divided = threads.map_or_else(|| times.divide_waiting(ns), |&of| times.divide_waiting_of(ns, of));
        // Who waits is on a CPU before and after: if no sample met that, it is too short to be known.
        (divided[0] > 0 || ns == 0).then_some(divided)
    }

    fn add(&mut self, stack: &Read, time: Times, executable: Option<ComponentId>) {
        for flow in &stack.flows {
            self.flows.entry(*flow).or_default().add(time);
        }
        for edge in &stack.edges {
            self.edges.entry(*edge).or_default().add(time);
        }
        if !stack.waits {
            self.add_code(stack.code, stack.counted, time, executable);
        }
    }

    fn add_code(
        &mut self,
        code: Option<ComponentId>,
        counted: Option<ComponentId>,
        time: Times,
        executable: Option<ComponentId>,
    ) {
        let Some(code) = code else { return };
        self.components[code as usize].add(time);
        if let Some(counted) = counted.or(executable).filter(|&counted| counted != code) {
            *self.elsewhere.entry((counted, code)).or_default() += time.on_cpu + time.runnable;
        }
    }
}

/// How each thread's time on a CPU and runnable, which are known exactly, divide among its stacks: the first by the timer's
/// samples, the whole by the active time that its rows stand for.
fn active(profile: &Profile) -> impl Iterator<Item = (TaskId, StackId, Times)> + '_ {
    #[derive(Default)]
    struct Sums {
        on_cpu: f64,
        active: f64,
        seen: f64,
    }
    let tables = &profile.sched;
    let mut stacks: FxHashMap<(TaskId, StackId), Sums> = FxHashMap::default();
    for sample in &tables.samples {
        stacks.entry((sample.task, sample.stack)).or_default().active += sample.active_ns as f64;
    }
    for moment in &tables.moments {
        let sums = stacks.entry((moment.task, moment.stack)).or_default();
        sums.on_cpu += moment.period_ns as f64;
        sums.seen += 1.0;
    }
    let mut of_task: FxHashMap<TaskId, Sums> = FxHashMap::default();
    for (&(task, _), sums) in &stacks {
        let all = of_task.entry(task).or_default();
        all.on_cpu += sums.on_cpu;
        all.active += sums.active;
    }
    let task = |task: TaskId| tables.tasks.get(task as usize);
    // What samples of the timer don't tell of a thread that they never met, its active time does.
    let on_cpu = move |id: TaskId, sums: &Sums, all: &Sums| {
        let running = task(id).map_or(0.0, |task| task.running_ns as f64);
        running * if all.on_cpu > 0.0 { sums.on_cpu / all.on_cpu } else { sums.active / all.active.max(1.0) }
    };
    let rest = move |id: TaskId, sums: &Sums, all: &Sums| {
        let length = task(id).map_or(0.0, |task| (task.running_ns + task.runnable_ns) as f64);
        (length * sums.active / all.active.max(1.0) - on_cpu(id, sums, all)).max(0.0)
    };
    let mut rests: FxHashMap<TaskId, f64> = FxHashMap::default();
    for (&(id, _), sums) in &stacks {
        *rests.entry(id).or_default() += rest(id, sums, &of_task[&id]);
    }
    stacks.into_iter().map(move |((id, stack), sums)| {
        let all = &of_task[&id];
        let runnable = task(id).map_or(0.0, |task| task.runnable_ns as f64);
        let part = rest(id, &sums, all) / rests[&id].max(1.0);
        (id, stack, Times { on_cpu: on_cpu(id, &sums, all), runnable: runnable * part, blocked: 0.0, seen: sums.seen })
    })
}

/// States of the threads that made calls, by the number of the flow.
fn of_threads(profile: &Profile, flow_of_row: &[u32]) -> FxHashMap<u32, Times> {
    let tasks: FxHashMap<(u32, i32), &Task> =
        profile.sched.tasks.iter().map(|task| ((task.process, task.tid), task)).collect();
    let mut sums: FxHashMap<u32, Times> = FxHashMap::default();
    let mut unknown: FxHashSet<u32> = FxHashSet::default();
    let mut counted: FxHashSet<(u32, u32)> = FxHashSet::default();
    for (flow, &number) in profile.flows.iter().zip(flow_of_row) {
        if !counted.insert((number, flow.thread)) {
            continue;
        }
        let thread = profile.threads.get(flow.thread as usize);
        match thread.and_then(|thread| tasks.get(&(thread.process, thread.tid))) {
            Some(task) => sums.entry(number).or_default().add(Times {
                on_cpu: task.running_ns as f64,
                runnable: task.runnable_ns as f64,
                blocked: task.blocked_ns as f64,
                seen: 0.0,
            }),
            None => drop(unknown.insert(number)),
        }
    }
    sums.retain(|number, _| !unknown.contains(number));
    sums
}

fn task_with_calls<'a>(profile: &'a Profile, task: u32, processes: &FxHashSet<u32>) -> Option<&'a Task> {
    profile.sched.tasks.get(task as usize).filter(|task| processes.contains(&task.process))
}

fn read_stack(
    profile: &Profile,
    stack: StackId,
    index: &FxHashMap<(ComponentId, ComponentId, &str), (u32, ApiClass)>,
) -> Read {
    let mut read = Read { flows: Vec::new(), edges: Vec::new(), counted: None, code: None, waits: false };
    let Some(stack) = profile.sched.stacks.get(stack as usize) else { return read };
    for (depth, frame) in stack.frames.iter().enumerate() {
        let Some(frame) = profile.sched.frames.get(*frame as usize).filter(|frame| frame.space == Space::User) else {
            continue;
        };
        let path = |component: ComponentId| profile.components.get(component as usize).map_or("", |c| c.path.as_str());
        let Some(component) = frame.component.filter(|&component| !is_agent(path(component))) else {
            // Code that is in no file.
            read.code = frame.component.and(read.code);
            continue;
        };
        let caller = read.code.replace(component).filter(|&caller| caller != component && stack.is_linked(depth));
        let flow = caller.and_then(|caller| index.get(&(caller, component, bare_name(&frame.function))));
        match flow {
            Some(&(number, class)) => {
                if !read.flows.contains(&number) {
                    read.flows.push(number);
                }
                read.waits |= class.is_wait();
                // Calls that are only counted take no time of their own: one is around all that `main` does.
                if class != ApiClass::CountOnly {
                    let edge = caller.map(|caller| (caller, component));
                    read.edges.extend(edge.filter(|edge| !read.edges.contains(edge)));
                    read.counted = Some(component);
                }
            }
            // A flow by another name.
            None if caller.is_some() => read.counted = Some(component),
            None => {}
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{CallStack, FrameId, StackFrame};

    use super::*;
    use crate::synthetic::image_server;

    /// The executable's start calls the C library, which calls `main`, which calls `memcpy` there.
    #[test]
    fn calls_that_are_only_counted_are_no_time_between_components() {
        let mut profile = image_server();
        let frame = |function: &str, component| StackFrame {
            function: function.into(),
            component: Some(component),
            file: String::new(),
            line: 0,
            inlined: false,
            space: Space::User,
        };
        profile.sched.frames =
            vec![frame("_start", 0), frame("__libc_start_main", 1), frame("main", 0), frame("memcpy", 1)];
        let stack = |frames: &[FrameId]| CallStack { frames: frames.to_vec(), complete: true, linked: 0b1010 };
        profile.sched.stacks = vec![stack(&[0, 1, 2]), stack(&[0, 1, 2, 3])];
        let index = [("__libc_start_main", (0, ApiClass::CountOnly)), ("memcpy", (1, ApiClass::Compute))];
        let index = index.into_iter().map(|(api, flow)| ((0, 1, bare_name(api)), flow)).collect();
        let read = |stack| read_stack(&profile, stack, &index);
        assert_eq!((read(0).edges, read(0).flows, read(0).counted), (vec![], vec![0], None));
        assert_eq!((read(1).edges, read(1).flows, read(1).counted), (vec![(0, 1)], vec![0, 1], Some(1)));
    }

    #[test]
    fn parts_add_up_to_what_is_divided() {
        let times = Times { on_cpu: 1.0, runnable: 1.0, blocked: 1.0, seen: 30.0 };
        let times = Times { on_cpu: 30.0, runnable: 30.0, blocked: 30.0, ..times };
        assert_eq!(times.divide(100), Some([33, 33, 34]));
        // An idle thread's waits had no stack.
        assert_eq!(times.divide(1000), Some([40, 40, 920]));
        // Short processes on busy CPUs: half a second of work, and five in the queue, which is shown by few stacks.
        let crowded = Times { on_cpu: 515.0, runnable: 5500.0, blocked: 0.0, seen: 500.0 };
        assert_eq!(crowded.divide(5250), Some([514, 4735, 1]));
        assert_eq!(crowded.divide(300), Some([300, 0, 0]));
        assert_eq!(Times { seen: 9.0, ..times }.divide(100), None);
        assert_eq!(Times { on_cpu: 3.0, ..Times::default() }.divide_waiting(100), [3, 0, 97]);
        assert_eq!(Times { on_cpu: 150.0, runnable: 50.0, ..times }.divide_waiting(100), [75, 25, 0]);
        // 785 ms in `read`, by threads that were blocked for 60: the rest was work of the kernel, of which no sample tells.
        let threads = Times { on_cpu: 900.0, runnable: 100.0, blocked: 60.0, seen: 0.0 };
        assert_eq!(Times { on_cpu: 44.0, ..Times::default() }.divide_waiting_of(785, threads), [657, 68, 60]);
        let unlimited = Times { blocked: 1000.0, ..threads };
        assert_eq!(Times { on_cpu: 44.0, ..Times::default() }.divide_waiting_of(785, unlimited), [44, 0, 741]);
    }

    #[test]
    fn no_wait_takes_nothing_on_a_cpu() {
        let mut times = CallTimes { known: true, ..CallTimes::default() };
        let met = Times { on_cpu: 2.0, blocked: 90.0, seen: 5.0, ..Times::default() };
        times.flows.extend([(0, Times { on_cpu: 0.0, ..met }), (1, met)]);
        let of = |flow| times.of_flow(flow, ApiClass::Wait, Some(100));
        assert_eq!((of(0), of(1)), (None, Some([2, 0, 98])));
        // Its threads were blocked for less.
        times.threads.insert(0, Times { on_cpu: 30.0, blocked: 95.0, ..Times::default() });
        assert_eq!(times.of_flow(0, ApiClass::Wait, Some(100)), Some([5, 0, 95]));
    }

    #[test]
    fn threads_that_waited_elsewhere_or_computed_tell_nothing_of_a_waiting_calls_cpu() {
        // Computed for 360, slept for 330, was without a CPU for 70: whether 320 in sleeps were 10 or 40 on a CPU nobody knows.
        let threads = Times { on_cpu: 360.0, runnable: 70.0, blocked: 330.0, seen: 0.0 };
        assert!(!threads.tell_on_cpu(320));
        // Read files that were in memory: nearly all of it was on a CPU.
        let reads = Times { on_cpu: 900.0, runnable: 20.0, blocked: 30.0, seen: 0.0 };
        assert!(reads.tell_on_cpu(850) && !reads.tell_on_cpu(100));
    }
}
