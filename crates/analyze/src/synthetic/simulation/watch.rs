//! What the scheduler collector would have seen.

use transect_profile_model::{
    CallStack, Component, Origin, Parallelism, Process, SchedSample, SchedSession, Slice, Space, StackFrame, Task,
    TimedSample, WaitKind,
};

use super::super::empty;
use super::machine::{Machine, SAMPLING, State};
use super::{INSTANT, Recording};

impl Machine<'_> {
    pub(super) fn close_slice(&mut self, id: usize, wait: i32) {
        let thread = &mut self.threads[id];
        let ended = if thread.state == State::Blocked { thread.blocked_at } else { self.now };
        self.tables.slices.push(Slice {
            task: id as u32,
            start_ns: thread.slice_at * INSTANT,
            active_ns: (ended - thread.slice_at) * INSTANT,
            runnable_ns: 0,
            criticality_ns: (thread.criticality - thread.sliced) >> 16,
            wait,
        });
        thread.sliced = thread.criticality;
        thread.active_sliced = thread.active_ns;
    }

    pub(super) fn sample(&mut self, id: usize, n: i32) {
        let stack = self.stack(id, None);
        let thread = &mut self.threads[id];
        let sum = self.samples.entry((id as u32, stack, n, thread.spinning)).or_default();
        sum.0 += 1;
        sum.1 += thread.criticality - thread.sampled;
        sum.2 += thread.active_ns - thread.active_sampled;
        (thread.sampled, thread.active_sampled) = (thread.criticality, thread.active_ns);
        self.tables.moments.push(TimedSample {
            time_ns: (self.now - 1) * INSTANT,
            task: id as u32,
            stack,
            period_ns: INSTANT,
        });
    }

    pub(super) fn root(id: usize) -> &'static str {
        if id == 0 { "main" } else { "worker_main" }
    }

    /// The stack of a thread at the step that it is in.
    pub(super) fn stack(&mut self, id: usize, api: Option<&'static str>) -> u32 {
        let steps = &self.program.threads[id].steps;
        let at = if self.threads[id].left > 0.0 || self.threads[id].spinning {
            self.threads[id].next.saturating_sub(1)
        } else {
            self.threads[id].next
        };
        let at = steps.get(at.min(steps.len().saturating_sub(1))).map_or("main", |step| step.0);
        self.intern(Self::root(id), at, api)
    }

    /// The stack of a blocked thread.
    pub(super) fn stack_before(&mut self, id: usize, api: &'static str) -> u32 {
        let steps = &self.program.threads[id].steps;
        let again = matches!(self.threads[id].kind, WaitKind::Mutex | WaitKind::Condition);
        let at = self.threads[id].next - usize::from(!again);
        self.intern(Self::root(id), steps[at].0, Some(api))
    }

    pub(super) fn intern(&mut self, root: &'static str, at: &'static str, api: Option<&'static str>) -> u32 {
        let mut frames = vec![self.frame(root, 0)];
        if at != root {
            frames.push(self.frame(at, 0));
        }
        frames.extend(api.map(|api| self.frame(api, 1)));
        let next = self.stacks.len() as u32;
        let tables = &mut self.tables;
        *self.stacks.entry(frames.clone()).or_insert_with(|| {
            tables.stacks.push(CallStack { frames, complete: true, linked: 0 });
            next
        })
    }

    pub(super) fn frame(&mut self, function: &'static str, component: u32) -> u32 {
        let next = self.frames.len() as u32;
        let tables = &mut self.tables;
        *self.frames.entry((function, component)).or_insert_with(|| {
            let file = if component == 0 { "program.c" } else { "" };
            tables.frames.push(StackFrame {
                function: function.into(),
                component: Some(component),
                file: file.into(),
                line: if component == 0 { 10 + next as i32 } else { 0 },
                inlined: false,
                space: Space::User,
            });
            next
        })
    }

    pub(super) fn finish(mut self) -> Recording {
        let end_ns = self.now * INSTANT;
        for id in 0..self.threads.len() {
            match self.threads[id].state {
                State::Blocked => self.wake(id, Some(0)),
                State::Active => self.close_slice(id, -1),
                _ => {}
            }
        }
        let mut tables = self.tables;
        for ((task, stack, n, spin), (samples, criticality, active_ns)) in self.samples {
            let origin = Origin::Sample;
            let criticality_ns = criticality >> 16;
            tables.samples.push(SchedSample { task, stack, n, origin, samples, criticality_ns, active_ns, spin });
        }
        let sampled =
            |id: usize| tables.samples.iter().filter(|s| s.task as usize == id).map(|s| s.criticality_ns).sum::<i64>();
        for (id, thread) in self.threads.iter().enumerate() {
            let name = &self.program.threads[id].name;
            let ended = if thread.state == State::Done { thread.ended } else { self.now };
            let blocked: i64 = tables.waits.iter().filter(|w| w.task as usize == id).map(|w| w.ns).sum();
            tables.tasks.push(Task {
                process: 0,
                tid: 5_000 + id as i32,
                name: name.clone(),
                group: if id == 0 { "main".into() } else { name.trim_end_matches(char::is_numeric).into() },
                parent: thread.parent,
                start_ns: thread.started * INSTANT,
                end_ns: ended * INSTANT,
                criticality_ns: thread.criticality >> 16,
                running_ns: thread.running_ns,
                runnable_ns: thread.active_ns - thread.running_ns,
                blocked_ns: blocked,
                unattributed_ns: (thread.criticality >> 16) - sampled(id),
                allowed_cpus: self.program.threads[id].cpu.map_or_else(String::new, |cpu| cpu.to_string()),
                nice: 0,
            });
        }
        let levels = self.levels.iter().enumerate().filter(|&(_, &time)| time > 0);
        tables.parallelism =
            levels.map(|(n, time)| Parallelism { process: None, n: n as i32, ns: time * INSTANT }).collect();
        let idle_ns = self.levels[0] * INSTANT;
        let mut profile = empty();
        profile.meta.wall_ns = end_ns;
        profile.meta.collectors = vec!["sched".into()];
        profile.meta.machine.cpus = self.program.cpus as u32;
        profile.meta.criticality = Some(SchedSession {
            estimate: false,
            per_process: false,
            cpus: self.program.cpus as i64,
            sample_hz: 1_000_000_000 / (INSTANT * SAMPLING as i64),
            min_parallelism: self.program.cpus as i64,
            stack_depth: 64,
            busy_ns: end_ns - idle_ns,
            idle_ns,
            unattributed_ns: tables.tasks.iter().map(|task| task.unattributed_ns).sum(),
            drift: 0,
            slices: tables.slices.len() as i64,
            critical_slices: tables.slices.len() as i64,
            start_ns: 0,
            end_ns,
        });
        let component = |path: &str, executable| Component {
            path: path.into(),
            build_id: String::new(),
            executable,
            synthetic: false,
            static_in: None,
        };
        profile.components = vec![component("/opt/app/bin/app", true), component("/usr/lib/libc.so.6", false)];
        profile.processes = vec![Process {
            pid: 5_000,
            parent_pid: 1,
            executable: "/opt/app/bin/app".into(),
            start_ns: 0,
            wall_ns: end_ns,
        }];
        profile.sched = tables;
        Recording { profile, elapsed_ns: end_ns }
    }
}
