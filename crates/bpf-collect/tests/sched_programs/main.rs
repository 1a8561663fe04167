//! The scheduler collector's programs themselves, compiled for user space and driven by a machine that does what
//! machines do, against the exact model of what criticality is.

mod details;
#[allow(unsafe_code)]
mod kernel;
mod machine;
#[path = "../sched_state/model.rs"]
mod model;

use std::collections::{BTreeMap, BTreeSet};

use machine::{Action, Delivery, Machine, Step};
use model::{Begin, Event, truth};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Signed;
use proptest::prelude::*;
use transect_bpf_collect::record::{Record, task_event};

const NS: u64 = 1 << 16;

fn action() -> impl Strategy<Value = Action> {
    let cpu = 0usize..8;
    prop_oneof![
        10 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, delayed)| Action::Block { cpu, delayed }),
        3 => (cpu.clone(), cpu.clone()).prop_map(|(cpu, waker)| Action::BlockWoken { cpu, waker }),
        4 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, voluntary)| Action::Preempt { cpu, voluntary }),
        10 => (cpu.clone(), 0usize..64).prop_map(|(cpu, target)| Action::Wake { cpu, target }),
        1 => cpu.clone().prop_map(|cpu| Action::AbortBlock { cpu }),
        10 => cpu.clone().prop_map(|cpu| Action::PickUp { cpu }),
        4 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, thread)| Action::Fork { cpu, thread }),
        2 => cpu.clone().prop_map(|cpu| Action::Exit { cpu }),
        1 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, leader_late)| Action::Exec { cpu, leader_late }),
        4 => cpu.prop_map(|cpu| Action::Sample { cpu }),
    ]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![1 => Just(0u64), 3 => 1u64..20, 6 => 20u64..1_000_000, 1 => 1_000_000u64..10_000_000_000];
    prop::collection::vec((pause, action()).prop_map(|(pause, action)| Step { pause, action }), 0..most)
}

/// What each CPU's clock is off by.
fn skew() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(-2_000i64..2_000, 1..5)
}

/// What the records told, by task number.
#[derive(Default)]
struct Records {
    exits: BTreeMap<u32, u64>,
    unattributed: BTreeMap<u32, u64>,
    weights: BTreeMap<u32, u64>,
    idle: BTreeMap<u32, u64>,
    waits: BTreeMap<u32, Waits>,
}

/// Waits of a thread that are over, and the slices before them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Waits {
    count: u64,
    ns: u64,
    active_ns: u64,
}

impl Waits {
    fn add(&mut self, count: u64, ns: u64, active_ns: u64) {
        self.count += count;
        self.ns += ns;
        self.active_ns += active_ns;
    }
}

impl Records {
    fn of(machine: &mut Machine) -> Self {
        let mut told = Self::default();
        machine.kernel.records(|record| match record {
            Record::Task(task) if task.event == task_event::EXIT => {
                assert_eq!(told.exits.insert(task.task, task.criticality), None, "one thread ended twice");
                told.unattributed.insert(task.task, task.unattributed);
            }
            Record::Wait(wait) => {
                *told.idle.entry(wait.task).or_default() += wait.idle;
                let slice = wait.slice_begin != 0 && wait.slice_begin < wait.begin;
                told.waits.entry(wait.task).or_default().add(
                    1,
                    wait.end - wait.begin,
                    if slice { wait.begin - wait.slice_begin } else { 0 },
                );
            }
            Record::Brief(brief) => {
                *told.idle.entry(brief.task).or_default() += brief.idle;
                told.waits.entry(brief.task).or_default().add(brief.count, brief.ns, brief.active_ns);
            }
            Record::Sample(sample) => *told.weights.entry(sample.task).or_default() += sample.criticality,
            _ => {}
        });
        told
    }
}

/// The programs' numbers against what happened, where nothing was lost.
fn check_values(machine: &mut Machine) {
    let told = Records::of(machine);
    let applications: BTreeMap<usize, u32> =
        machine.followed.iter().map(|thread| (thread.application, thread.kernel_application)).collect();
    let live = machine.followed.iter().filter(|thread| machine.is_alive(thread.place)).count();
    assert_eq!(machine.kernel.live_threads(), live as i32, "`--wait-all` waits for the last of them");
    let numbers: BTreeSet<u32> = applications.values().copied().collect();
    assert_eq!(numbers.len(), applications.len(), "two processes are one application");
    for (application, number) in applications {
        let events: Vec<Event> =
            machine.events.iter().filter(|(of, _)| *of == application).map(|(_, event)| *event).collect();
        let end = machine.end();
        let cpus = 1; // `low` is not compared here
        let wanted = truth(machine.places(), cpus, &events, Begin::Found, end);
        let clock = machine.kernel.clock(number, end);
        assert_eq!((clock.busy, clock.idle, clock.active), (wanted.busy, wanted.idle, wanted.active));
        assert!(machine.kernel.is_published(number));
        for (n, ns) in wanted.histogram.iter().enumerate() {
            assert_eq!(machine.kernel.histogram(number, n as u32), *ns, "h[{n}]");
        }
        let tolerance = BigRational::new(BigInt::from(machine.places() * (events.len() + 1)), BigInt::from(NS));
        let mut sum = 0u128;
        for thread in machine.followed.iter().filter(|thread| thread.application == application) {
            let criticality = if machine.is_alive(thread.place) {
                machine.kernel.thread(thread.place).criticality
            } else {
                told.exits[&thread.number]
            };
            sum += u128::from(criticality);
            let wanted = &wanted.threads[thread.place];
            let got = BigRational::new(BigInt::from(criticality), BigInt::from(NS));
            let off = (&got - &wanted.criticality).abs();
            assert!(off <= tolerance, "thread {}: {got} instead of {}", thread.place, wanted.criticality);
            // One that was found blocked has a wait that began before.
            let waited = told.waits.get(&thread.number).map_or(0, |waits| waits.ns);
            assert!(
                waited == wanted.blocked_ns || !thread.found_active && waited > wanted.blocked_ns,
                "waits of thread {}: {waited} instead of {} ns",
                thread.place,
                wanted.blocked_ns
            );
            let idle = told.idle.get(&thread.number).copied().unwrap_or(0);
            // What ended because a thread was found active is no wait's.
            assert!(
                idle == wanted.idle_charged || thread.found_active && idle < wanted.idle_charged,
                "idle time charged to thread {}: {idle} instead of {}",
                thread.place,
                wanted.idle_charged
            );
        }
        let missing = u128::from(clock.busy) * u128::from(NS) - sum;
        assert!(missing < machine.places() as u128, "{missing} / {NS} ns of busy time are nobody's");
    }
    for (number, criticality) in &told.exits {
        let weights = told.weights.get(number).copied().unwrap_or(0);
        let rest = told.unattributed[number];
        // A CPU whose clock is ahead samples a little of what is yet to come.
        assert!(weights + rest >= *criticality && weights + rest <= criticality + 10_000 * NS);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: transect_testkit::cases(24, 3_000), ..ProptestConfig::default() })]

    /// Launched: followed before it does anything.
    #[test]
    fn what_happened_is_what_is_counted(skew in skew(), apart: bool, steps in steps(200)) {
        let mut machine = Machine::new(apart, skew);
        machine.follow(|_| {});
        for step in &steps {
            machine.step(step);
        }
        prop_assert_eq!(machine.audit(), 0);
        prop_assert_eq!(machine.audit(), 0);
        check_values(&mut machine);
    }

    /// However few waits are described, their numbers and times are the same.
    #[test]
    fn brief_waits_add_up(skew in skew(), steps in steps(400)) {
        let mut sums = Vec::new();
        for budget in [0, 1, 1_000_000] {
            let mut machine = Machine::new(false, skew.clone());
            machine.kernel.set_wait_budget(budget);
            machine.follow(|_| {});
            // Close together: most of them are brief.
            for step in &steps {
                machine.step(&Step { pause: step.pause % 50_000, ..*step });
            }
            let told = Records::of(&mut machine);
            let mut waits = told.waits.clone();
            for thread in &machine.followed {
                let (count, ns, active_ns) = machine.kernel.brief(thread.place);
                if count > 0 {
                    waits.entry(thread.number).or_default().add(count, ns, active_ns);
                }
            }
            sums.push((waits, told.exits));
        }
        prop_assert_eq!(&sums[0], &sums[1]);
        prop_assert_eq!(&sums[0], &sums[2]);
    }

    /// Attached to: threads are found one after another while the machine goes on.
    #[test]
    fn a_running_process_is_counted_from_when_it_is_found(
        skew in skew(), apart: bool, before in steps(80), meanwhile in steps(60), after in steps(80)
    ) {
        let mut machine = Machine::new(apart, skew);
        for step in &before {
            machine.step(step);
        }
        // Which application a process is whose first thread was found and is gone by exec before the second is, is open.
        let exec = |step: &&Step| matches!(step.action, Action::Exec { .. });
        let mut meanwhile = meanwhile.iter().filter(|step| !(apart && exec(step)));
        machine.follow(|machine| {
            for step in meanwhile.by_ref().take(3) {
                machine.step(step);
            }
        });
        for step in &after {
            machine.step(step);
        }
        prop_assert_eq!(machine.audit(), 0);
        prop_assert_eq!(machine.audit(), 0);
        check_values(&mut machine);
    }

    /// Events get lost: sums still hold, and three audits later the number of active threads is right.
    #[test]
    fn losses_are_healed(
        skew in skew(), apart: bool, before in steps(150), pattern in prop::collection::vec(prop::bool::weighted(0.8), 1..100)
    ) {
        let mut machine = Machine::new(apart, skew);
        machine.follow(|_| {});
        machine.delivery = Delivery::new(pattern);
        for step in &before {
            machine.step(step);
        }
        machine.delivery = Delivery::default();
        for _ in 0..3 {
            machine.audit();
        }
        prop_assert_eq!(machine.audit(), 0);
        let applications: BTreeMap<usize, u32> =
            machine.followed.iter().map(|thread| (thread.application, thread.kernel_application)).collect();
        let told = Records::of(&mut machine);
        for (application, number) in applications {
            let active = machine.active(application);
            let end = machine.end();
            let clock = machine.kernel.clock(number, end);
            prop_assert_eq!(clock.active as usize, active);
            let sum: u128 = machine.followed.iter().filter(|thread| thread.application == application)
                .map(|thread| match told.exits.get(&thread.number) {
                    Some(criticality) => *criticality,
                    None => machine.kernel.thread(thread.place).criticality,
                })
                .map(u128::from)
                .sum();
            let missing = u128::from(clock.busy) * u128::from(NS) - sum;
            prop_assert!(missing < machine.places() as u128, "{} / {} ns of busy time are nobody's", missing, NS);
        }
    }

    /// A full ring buffer loses records, never criticality.
    #[test]
    fn a_full_ring_loses_no_criticality(skew in skew(), steps in steps(150)) {
        let mut machine = Machine::new(false, skew);
        machine.follow(|_| {});
        machine.kernel.set_ring_full(true);
        for step in &steps {
            machine.step(step);
        }
        let events: Vec<Event> = machine.events.iter().map(|(_, event)| *event).collect();
        let end = machine.end();
        let wanted = truth(machine.places(), 1, &events, Begin::Found, end);
        let clock = machine.kernel.clock(0, end);
        prop_assert_eq!((clock.busy, clock.idle, clock.active), (wanted.busy, wanted.idle, wanted.active));
    }
}
