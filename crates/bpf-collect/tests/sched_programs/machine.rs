//! A machine with CPUs, a run queue and threads that block, wake, fork, exec and end at random. It knows what
//! really happens, and tells the programs as the kernel would: every event at its place in the kernel's order.

use crate::kernel::{Fields, Kernel, Request, TASKS};
use crate::model::{Event, Reported};

const TASK_INTERRUPTIBLE: u32 = 1;
const TASK_DEAD: u32 = 0x80;
const TASK_NEW: u32 = 0x800;

/// What a random step does; numbers choose among what is there.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Block {
        cpu: usize,
        delayed: bool,
    },
    /// Another CPU wakes the thread while this one is still in its switch.
    BlockWoken {
        cpu: usize,
        waker: usize,
    },
    Preempt {
        cpu: usize,
        voluntary: bool,
    },
    Wake {
        cpu: usize,
        target: usize,
    },
    /// A wake-up of a thread that is about to block, so that it doesn't.
    AbortBlock {
        cpu: usize,
    },
    PickUp {
        cpu: usize,
    },
    Fork {
        cpu: usize,
        thread: bool,
    },
    Exit {
        cpu: usize,
    },
    /// `leader_late`: the process's first thread leaves its CPU only after it.
    Exec {
        cpu: usize,
        leader_late: bool,
    },
    Sample {
        cpu: usize,
    },
}

/// One random step, after a pause.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub pause: u64,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running,
    Queued,
    Blocked,
    Dead,
}

#[derive(Clone, Debug)]
struct Task {
    state: State,
    delayed: bool,
    tid: u32,
    /// Its process's first task.
    leader: usize,
    /// Of the programs, 0 if it is not followed.
    number: u32,
    /// In the truth: its process's first task, or 0 where all count together.
    application: usize,
}

/// A thread that was followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Followed {
    pub place: usize,
    pub number: u32,
    /// As the truth numbers it, and as the programs do.
    pub application: usize,
    pub kernel_application: u32,
    /// Not from its birth on: it was active when the machine was looked over.
    pub found_active: bool,
}

/// Which of the kernel's events reach the programs: those whose place in the pattern says so. An empty one loses none.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    pub pattern: Vec<bool>,
    next: usize,
}

impl Delivery {
    pub fn new(pattern: Vec<bool>) -> Self {
        Self { pattern, next: 0 }
    }

    fn arrives(&mut self) -> bool {
        self.next += 1;
        self.pattern.is_empty() || self.pattern[self.next % self.pattern.len()]
    }
}

/// Task 0 is the idle task; it also stands for interrupts.
pub struct Machine {
    pub kernel: Kernel,
    pub delivery: Delivery,
    pub followed: Vec<Followed>,
    /// What became of the followed threads: application and event, in the order in which the programs heard of it.
    pub events: Vec<(usize, Event)>,
    processes_apart: bool,
    tasks: Vec<Task>,
    running: Vec<usize>,
    queue: Vec<usize>,
    /// What each CPU's clock is off by.
    skew: Vec<i64>,
    now: u64,
    /// As the CPU shows it on which things happen now.
    shown: u64,
    next_tid: u32,
}

/// The process that is followed, and its first task's place.
pub const PROCESS: u32 = 1000;
pub const FIRST: usize = 1;

impl Machine {
    /// One thread of the process to follow is queued, and one of a process outside.
    pub fn new(processes_apart: bool, skew: Vec<i64>) -> Self {
        let idle = Task { state: State::Running, delayed: false, tid: 0, leader: 0, number: 0, application: 0 };
        let mut machine = Self {
            kernel: Kernel::new(skew.len() as u32, processes_apart),
            delivery: Delivery::default(),
            followed: Vec::new(),
            events: Vec::new(),
            processes_apart,
            tasks: vec![idle],
            running: vec![0; skew.len()],
            queue: Vec::new(),
            skew,
            now: 1_000_000_000,
            shown: 1_000_000_000,
            next_tid: PROCESS,
        };
        machine.kernel.new_task(0, 0, 0, 0);
        for place in [FIRST, FIRST + 1] {
            machine.add(place, 0);
            machine.become_queued(place);
        }
        machine
    }

    pub fn places(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_alive(&self, place: usize) -> bool {
        self.tasks[place].state != State::Dead
    }

    /// Active and followed, of an application.
    pub fn active(&self, application: usize) -> usize {
        let active = |task: &&Task| matches!(task.state, State::Running | State::Queued);
        let counted = |task: &&Task| task.number != 0 && task.application == application;
        self.tasks[1..].iter().filter(active).filter(counted).count()
    }

    /// A time after everything that happened, whatever CPU shows it.
    pub fn end(&self) -> u64 {
        self.now + 1_000_000
    }

    /// The processes and threads that there are count from now on; `between` may let other things happen meanwhile.
    pub fn follow(&mut self, mut between: impl FnMut(&mut Self)) {
        let mut place = 1;
        while place < self.tasks.len() {
            self.on(0, 1);
            self.kernel.iterate(place, Request::Follow, PROCESS);
            let task = &self.tasks[place];
            if self.tasks[task.leader].tid == PROCESS && task.number == 0 && task.state != State::Dead {
                let active = task.state != State::Blocked;
                self.note_followed(place, active);
                self.tell(place, if active { Reported::Active } else { Reported::Blocked });
            }
            between(self);
            place += 1;
        }
        self.kernel.iterate_end(Request::Follow);
    }

    /// Threads that the programs counted wrongly.
    pub fn audit(&mut self) -> u64 {
        self.on(0, 1);
        for place in (1..self.tasks.len()).filter(|place| self.tasks[*place].state != State::Dead).collect::<Vec<_>>() {
            self.kernel.iterate(place, Request::Audit, 0);
        }
        self.kernel.iterate_end(Request::Audit);
        self.kernel.strays()
    }

    pub fn step(&mut self, step: &Step) {
        let cpus = self.skew.len();
        let cpu = |number: usize| number % cpus;
        match step.action {
            Action::Block { cpu: k, delayed } => self.block(cpu(k), step.pause, delayed),
            Action::BlockWoken { cpu: k, waker } => self.block_woken(cpu(k), step.pause, cpu(waker)),
            Action::Preempt { cpu: k, voluntary } => self.preempt(cpu(k), step.pause, !voluntary),
            Action::Wake { cpu: k, target } => self.wake_any(cpu(k), step.pause, target),
            Action::AbortBlock { cpu: k } => self.abort_block(cpu(k), step.pause),
            Action::PickUp { cpu: k } => self.pick_up(cpu(k), step.pause),
            Action::Fork { cpu: k, thread } => self.fork(cpu(k), step.pause, thread),
            Action::Exit { cpu: k } => self.exit(cpu(k), step.pause),
            Action::Exec { cpu: k, leader_late } => self.exec(cpu(k), step.pause, leader_late),
            Action::Sample { cpu: k } => {
                self.on(cpu(k), step.pause);
                self.kernel.sample(self.running[cpu(k)]);
            }
        }
    }

    /// What follows happens on this CPU, after a pause.
    fn on(&mut self, cpu: usize, pause: u64) {
        self.now += pause;
        self.shown = self.now.saturating_add_signed(self.skew[cpu]);
        self.kernel.set_now(self.shown);
    }

    fn add(&mut self, leader: usize, parent: usize) -> usize {
        let place = self.tasks.len();
        let tid = self.next_tid;
        self.next_tid += 1;
        let application = if self.processes_apart { leader } else { 0 };
        self.tasks.push(Task { state: State::Blocked, delayed: false, tid, leader, number: 0, application });
        self.kernel.new_task(place, tid, leader, parent);
        self.kernel.set_task(place, Fields { state: TASK_NEW, ..Fields::default() });
        place
    }

    fn note_followed(&mut self, place: usize, found_active: bool) {
        let found = self.kernel.thread(place);
        assert_ne!(found.task, 0, "thread {place} is not followed");
        let task = &mut self.tasks[place];
        task.number = found.task;
        self.followed.push(Followed {
            place,
            number: found.task,
            application: task.application,
            kernel_application: found.application,
            found_active,
        });
    }

    fn tell(&mut self, place: usize, told: Reported) {
        let task = &self.tasks[place];
        if task.number != 0 {
            self.events.push((task.application, Event { now: self.shown, thread: place, told }));
        }
    }

    /// Shows the programs a task's state.
    fn show(&mut self, place: usize) {
        if place == 0 {
            return;
        }
        let Task { state, delayed, .. } = self.tasks[place];
        self.kernel.set_task(
            place,
            match state {
                State::Running => Fields { on_cpu: true, on_rq: true, ..Fields::default() },
                State::Queued => Fields { on_rq: true, ..Fields::default() },
                State::Blocked => Fields { state: TASK_INTERRUPTIBLE, on_rq: delayed, delayed, ..Fields::default() },
                State::Dead => Fields { state: TASK_DEAD, exiting: true, ..Fields::default() },
            },
        );
    }

    fn become_queued(&mut self, place: usize) {
        self.tasks[place].state = State::Queued;
        self.queue.push(place);
        self.show(place);
    }

    /// The CPU goes on to `next`; its thread is in the state `left` from now on.
    fn switch(&mut self, cpu: usize, preempt: bool, left: State, delayed: bool, next: usize) {
        let prev = self.running[cpu];
        if prev != 0 {
            self.tasks[prev].state = left;
            self.tasks[prev].delayed = delayed;
            self.show(prev);
            // It is still on the CPU at the tracepoint.
            let state = match left {
                State::Blocked => TASK_INTERRUPTIBLE,
                State::Dead => TASK_DEAD,
                State::Running | State::Queued => 0,
            };
            let fields = Fields {
                state,
                on_cpu: true,
                on_rq: delayed || left == State::Queued,
                delayed,
                exiting: left == State::Dead,
            };
            self.kernel.set_task(prev, fields);
        }
        if self.delivery.arrives() {
            self.kernel.switch(preempt, prev, next);
        }
        if prev != 0 && matches!(left, State::Blocked | State::Dead) {
            self.tell(prev, Reported::Blocked);
        }
        if prev != 0 && left == State::Queued {
            self.queue.push(prev);
        }
        self.show(prev);
        if next != 0 {
            self.tasks[next].state = State::Running;
            self.show(next);
        }
        self.running[cpu] = next;
    }

    fn take_next(&mut self) -> usize {
        if self.queue.is_empty() { 0 } else { self.queue.remove(0) }
    }

    fn block(&mut self, cpu: usize, pause: u64, delayed: bool) {
        if self.running[cpu] != 0 {
            self.on(cpu, pause);
            let next = self.take_next();
            self.switch(cpu, false, State::Blocked, delayed, next);
        }
    }

    fn block_woken(&mut self, cpu: usize, pause: u64, other: usize) {
        let place = self.running[cpu];
        if place == 0 || other == cpu {
            return;
        }
        self.on(cpu, pause);
        let next = self.take_next();
        if self.delivery.arrives() {
            let woken = self.now.saturating_add_signed(self.skew[other]) + 1;
            self.kernel.prepare_race(self.running[other], place, woken);
        }
        self.switch(cpu, false, State::Blocked, false, next);
        self.on(other, 1);
        self.kernel.race();
        self.become_queued(place);
        if self.delivery.arrives() {
            self.kernel.wakeup(place, false);
        }
        self.tell(place, Reported::Active);
    }

    fn preempt(&mut self, cpu: usize, pause: u64, preempt: bool) {
        if self.running[cpu] != 0 {
            self.on(cpu, pause);
            let next = self.take_next();
            self.switch(cpu, preempt, State::Queued, false, next);
        }
    }

    fn wake_any(&mut self, cpu: usize, pause: u64, target: usize) {
        let blocked: Vec<usize> =
            (1..self.tasks.len()).filter(|place| self.tasks[*place].state == State::Blocked).collect();
        if !blocked.is_empty() {
            self.on(cpu, pause);
            self.wake(cpu, blocked[target % blocked.len()]);
        }
    }

    fn wake(&mut self, cpu: usize, target: usize) {
        let waker = self.running[cpu];
        if self.delivery.arrives() {
            self.kernel.waking(waker, target);
        }
        self.tasks[target].delayed = false;
        self.become_queued(target);
        if self.delivery.arrives() {
            self.kernel.wakeup(target, false);
        }
        self.tell(target, Reported::Active);
    }

    /// Woken between "I will block" and the switch: no switch follows.
    fn abort_block(&mut self, cpu: usize, pause: u64) {
        let place = self.running[cpu];
        if place != 0 {
            self.on(cpu, pause);
            let about = Fields { state: TASK_INTERRUPTIBLE, on_cpu: true, on_rq: true, ..Fields::default() };
            self.kernel.set_task(place, about);
            if self.delivery.arrives() {
                self.kernel.waking(0, place);
            }
            self.show(place);
            if self.delivery.arrives() {
                self.kernel.wakeup(place, false);
            }
        }
    }

    fn pick_up(&mut self, cpu: usize, pause: u64) {
        if self.running[cpu] == 0 && !self.queue.is_empty() {
            self.on(cpu, pause);
            let next = self.take_next();
            self.switch(cpu, false, State::Running, false, next);
        }
    }

    fn fork(&mut self, cpu: usize, pause: u64, thread: bool) {
        let maker = self.running[cpu];
        if maker == 0 || self.tasks.len() == TASKS {
            return;
        }
        self.on(cpu, pause);
        let leader = if thread { self.tasks[maker].leader } else { self.tasks.len() };
        let place = self.add(leader, self.tasks[maker].leader);
        if thread {
            self.tasks[place].application = self.tasks[maker].application;
        }
        if self.delivery.arrives() {
            self.kernel.newtask(maker, place, thread);
            if self.tasks[maker].number != 0 {
                self.note_followed(place, false);
            }
        }
        self.become_queued(place);
        if self.delivery.arrives() {
            self.kernel.wakeup(place, true);
        }
        self.tell(place, Reported::Active);
    }

    fn exit(&mut self, cpu: usize, pause: u64) {
        // The process's first thread ends last: so it is with most programs.
        let place = self.running[cpu];
        if place > FIRST + 1 && !self.is_found_before_its_threads(place) {
            self.on(cpu, pause);
            let next = self.take_next();
            self.switch(cpu, false, State::Dead, false, next);
        }
    }

    /// A process's first thread that is followed while another of its threads is still to be found. Which application that
    /// one belongs to is open once the first is gone.
    fn is_found_before_its_threads(&self, place: usize) -> bool {
        let other = |other: &Task| other.leader == place && other.number == 0 && other.state != State::Dead;
        let first = &self.tasks[place];
        self.processes_apart && first.leader == place && first.number != 0 && self.tasks.iter().any(other)
    }

    /// The other threads of the process are killed first; the one that called takes its process's number over.
    fn exec(&mut self, cpu: usize, pause: u64, leader_late: bool) {
        let place = self.running[cpu];
        if place == 0 {
            return;
        }
        let leader = self.tasks[place].leader;
        let others: Vec<usize> = (1..self.tasks.len())
            .filter(|other| *other != place && self.tasks[*other].leader == leader && self.is_alive(*other))
            .collect();
        self.on(cpu, pause);
        for other in &others {
            if self.tasks[*other].state == State::Blocked {
                self.wake(cpu, *other);
            }
        }
        let mut late = None;
        if !others.is_empty() {
            self.switch(cpu, false, State::Blocked, false, 0);
            for other in &others {
                let home = match self.running.iter().position(|running| running == other) {
                    Some(home) => home,
                    None => {
                        self.queue.retain(|queued| queued != other);
                        self.on(cpu, 1);
                        if *other == leader && leader_late && late.is_none() {
                            // It has told everybody that it is gone, but still has to leave its CPU.
                            late = Some(*other);
                            continue;
                        }
                        self.switch(cpu, false, State::Running, false, *other);
                        cpu
                    }
                };
                self.on(home, 1);
                self.switch(home, false, State::Dead, false, 0);
            }
            self.wake(cpu, place);
            self.queue.retain(|queued| *queued != place);
            self.on(cpu, 1);
            self.switch(cpu, false, State::Running, false, place);
        }
        if leader != place {
            let number = self.tasks[leader].tid;
            self.tasks[leader].tid = std::mem::replace(&mut self.tasks[place].tid, number);
            self.tasks[place].leader = place;
            self.kernel.take_over(place);
        }
        if self.delivery.arrives() {
            self.kernel.exec(place);
            if leader != place {
                // The programs look at their clock to fill the thread's new record: nothing changes, but from here on it
                // does not go back, as after any event.
                self.tell(place, Reported::Active);
            }
        }
        if let Some(leader) = late {
            self.switch(cpu, true, State::Queued, false, leader);
            self.on(cpu, 1);
            self.queue.retain(|queued| *queued != place);
            self.switch(cpu, false, State::Dead, false, place);
        }
    }
}
