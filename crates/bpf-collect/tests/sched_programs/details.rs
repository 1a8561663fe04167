//! What records say of single waits, and to whom threads are counted.

use transect_bpf_collect::record::{Record, sched_task, sched_wait, task_event};

use crate::kernel::{Fields, Kernel, Request, SOCKET, USER_WORDS};

const FUTEX: i64 = 202;
const FUTEX_WAITV: i64 = 449;
const RECVFROM: i64 = 45;
const FUTEX_PRIVATE: u64 = 128;
const BLOCKED: Fields = Fields { state: 1, on_cpu: true, on_rq: false, delayed: false, exiting: false };
const RUNNING: Fields = Fields { state: 0, on_cpu: true, on_rq: true, delayed: false, exiting: false };

/// A process whose threads run, with these numbers; the first is its leader. Task `n` has the n-th of them.
fn process(tids: &[u32], apart: bool) -> Kernel {
    let mut kernel = Kernel::new(8, apart);
    kernel.new_task(0, 0, 0, 0);
    for (index, &tid) in (1..).zip(tids) {
        kernel.new_task(index, tid, 1, 0);
        kernel.set_task(index, RUNNING);
    }
    kernel.set_now(1_000_000);
    kernel
}

fn follow(kernel: &mut Kernel, tids: &[u32]) {
    for index in 1..=tids.len() {
        kernel.iterate(index, Request::Follow, tids[0]);
    }
    kernel.iterate_end(Request::Follow);
}

fn followed(tids: &[u32]) -> Kernel {
    let mut kernel = process(tids, false);
    follow(&mut kernel, tids);
    kernel
}

/// The thread waits in this call until `waker` wakes it.
fn wait(kernel: &mut Kernel, index: usize, waker: usize, call: i64, arguments: [u64; 2]) -> sched_wait {
    kernel.set_call(index, call, arguments);
    kernel.set_task(index, BLOCKED);
    kernel.switch(false, index, 0);
    kernel.waking(waker, index);
    kernel.wakeup(index, false);
    kernel.set_task(index, RUNNING);
    kernel.switch(false, 0, index);
    let mut waits = Vec::new();
    kernel.records(|record| waits.extend(if let Record::Wait(wait) = record { Some(wait) } else { None }));
    waits.pop().unwrap()
}

#[test]
fn states_of_rwlocks_are_no_owners() {
    let mut kernel = followed(&[1, 2, 3, 4, 5]);
    let number = |kernel: &Kernel, index: usize| kernel.thread(index).task;
    let mut holder = |words: &[u32], operation: u64| {
        kernel.set_user_words(words);
        let holder = wait(&mut kernel, 5, 0, FUTEX, [USER_WORDS, operation]).holder;
        (1..=5).find(|&index| number(&kernel, index) == holder)
    };
    // What a reader and a writer wait for, the writer being thread 4.
    assert_eq!(holder(&[3, 0, 0, 0, 4], FUTEX_PRIVATE), Some(4));
    assert_eq!(holder(&[3, 0, 0, 4], FUTEX_PRIVATE), Some(4));
    // The lock is shared between processes.
    assert_eq!(holder(&[3, 0, 0, 4, 1], 0), Some(4));
    assert_eq!(holder(&[2, 0, 0, 0, 0], FUTEX_PRIVATE), None, "readers hold it");
    // A mutex, one whose owner is not written yet, and a robust one.
    assert_eq!(holder(&[2, 1, 3, 1], FUTEX_PRIVATE), Some(3));
    assert_eq!(holder(&[2, 1, 0, 1, 1], FUTEX_PRIVATE), None);
    assert_eq!(holder(&[0x8000_0002, 1, 0, 1], FUTEX_PRIVATE), Some(2));
    assert_eq!(holder(&[4, 1, 0, 1], FUTEX_PRIVATE), Some(4));
}

#[test]
fn a_wait_for_one_of_many_words_is_named_by_the_first() {
    let mut kernel = followed(&[1000]);
    kernel.set_user_words(&[0, 0, 0x5000, 0x7f00, 2, 0]);
    let found = wait(&mut kernel, 1, 0, FUTEX_WAITV, [USER_WORDS, 6]);
    assert_eq!(found.arguments[..2], [0x7f00_0000_5000, 6]);
    assert_eq!(wait(&mut kernel, 1, 0, FUTEX_WAITV, [8, 6]).arguments[0], 0, "not readable");
}

#[test]
fn a_datagram_socket_has_the_peer_that_it_has_now() {
    let mut kernel = followed(&[1000]);
    let found = [(0, 0), (0, 0), (9, 53), (8, 53), (0, 0)].map(|(address, port)| {
        kernel.connect(address, port);
        let object = wait(&mut kernel, 1, 0, RECVFROM, [SOCKET, 0]).object;
        (object.peer[0], object.peer_port)
    });
    assert_eq!(found, [(0, 0), (0, 0), (9, 53), (8, 53), (0, 0)]);
}

#[test]
fn a_wakers_stack_holds_for_one_system_call() {
    let mut kernel = followed(&[1000, 1001, 1002]);
    kernel.set_with_stacks(true);
    kernel.set_call(2, FUTEX, [USER_WORDS, 129]);
    let woken = |kernel: &mut Kernel| wait(kernel, 1, 2, FUTEX, [USER_WORDS, FUTEX_PRIVATE]).waker_stack;
    // Without code a stack that is taken is none.
    assert_eq!(woken(&mut kernel), 0);
    kernel.set_burst_stack(2, 77);
    assert_eq!(woken(&mut kernel), 77, "a broadcast goes on");
    assert_eq!(kernel.answer(2), 77, "somebody waited for it");
    for (call, arguments) in [(FUTEX, [USER_WORDS + 8, 129]), (FUTEX, [USER_WORDS, 133]), (1, [USER_WORDS, 129])] {
        kernel.set_call(2, FUTEX, [USER_WORDS, 129]);
        woken(&mut kernel);
        kernel.set_burst_stack(2, 77);
        kernel.set_call(2, call, arguments);
        assert_eq!(woken(&mut kernel), 0, "{call} {arguments:x?} is another one");
    }
}

/// Time without a CPU is the wait's that came before, or the place's where the CPU was lost, never that of
/// what happens to be sampled next.
#[test]
fn queued_time_has_the_stack_from_before_it() {
    const MS: u64 = 1_000_000;
    let mut kernel = followed(&[1000]);
    kernel.set_with_queued(true);
    // The first is queued for 10 ms after a wait, the second after a wait without a stack, the third lost its CPU;
    // the fourth did so soon after the last time, when no stack is taken; the fifth is queued for 1 ms, the sixth not at all.
    let cases = [
        (77, 0, true, 10),
        (0, 0, true, 10),
        (0, 78, false, 10),
        (79, 0, false, 10),
        (77, 0, true, 1),
        (77, 0, true, 0),
    ];
    let mut now = MS;
    let mut told = Vec::new();
    for (wait, preempted, blocks, queued) in cases {
        if blocks {
            kernel.set_call(1, FUTEX, [USER_WORDS, FUTEX_PRIVATE]);
            kernel.set_task(1, BLOCKED);
            kernel.switch(false, 1, 0);
            kernel.set_now(now + MS);
            kernel.waking(0, 1);
            kernel.wakeup(1, false);
        } else {
            kernel.set_now(now + MS);
            kernel.switch(true, 1, 0);
        }
        kernel.set_queued_stack(1, wait, preempted);
        kernel.set_task(1, RUNNING);
        now += (1 + queued) * MS;
        kernel.set_now(now);
        kernel.switch(false, 0, 1);
        let before = told.len();
        kernel.records(|record| {
            told.extend(if let Record::Sample(sample) = record {
                Some((sample.stack, sample.active_ns / MS))
            } else {
                None
            });
        });
        told.truncate(before + 1);
        if told.len() == before {
            told.push((0, 0));
        }
        // A timer's sample takes what is left.
        kernel.sample(1);
        kernel.records(|_| {});
    }
    // What the third ran before is the next sample's.
    assert_eq!(told, [(77, 10), (0, 0), (78, 10), (0, 0), (77, 1), (0, 0)]);
}

/// Where many threads share a CPU, few of their waits for it have a record; those stand for all, in proportion, and a
/// timer's samples take none of that.
#[test]
fn queued_time_of_many_is_told_in_part() {
    const MS: u64 = 1_000_000;
    const ROUNDS: u64 = 3_000;
    let tids: Vec<u32> = (1000..1008).collect();
    let mut kernel = followed(&tids);
    kernel.set_with_queued(true);
    let (mut count, mut sums) = (0, [0, 0]);
    let mut sampled = 0;
    for round in 0..ROUNDS {
        let begin = (1 + 4 * round) * MS;
        kernel.set_now(begin);
        // Four lose their CPU for 1 ms, four elsewhere for 3 ms.
        for index in 1..=8 {
            kernel.switch(true, index, 0);
            kernel.set_queued_stack(index, 0, if index <= 4 { 77 } else { 78 });
        }
        for index in 1..=8 {
            kernel.set_now(begin + if index <= 4 { MS } else { 3 * MS });
            kernel.switch(false, 0, index);
        }
        kernel.records(|record| {
            if let Record::Sample(sample) = record {
                count += 1;
                sums[usize::from(sample.stack == 78)] += sample.active_ns;
            }
        });
        kernel.sample(1);
        kernel.records(|record| sampled += if let Record::Sample(sample) = record { sample.active_ns } else { 0 });
    }
    assert!((ROUNDS * 3..ROUNDS * 5).contains(&count), "{count} records of {}, a thousand a second may be", 8 * ROUNDS);
    for (sum, truth) in sums.into_iter().zip([4 * MS * ROUNDS, 12 * MS * ROUNDS]) {
        assert!(sum.abs_diff(truth) < truth / 20, "{sum} ns instead of {truth}");
    }
    assert!(
        sampled < 3 * MS * ROUNDS * 21 / 20,
        "{sampled} ns in a timer's samples of one that runs for {}",
        3 * MS * ROUNDS
    );
}

#[test]
fn exec_by_another_thread_exchanges_the_numbers() {
    let mut kernel = followed(&[1000, 1001]);
    let (leader, caller) = (kernel.thread(1), kernel.thread(2));
    assert_eq!((kernel.named(1000, 1000), kernel.named(0, 1001)), (leader.task, caller.task));
    kernel.take_over(2);
    kernel.exec(2);
    let names = [(1000, 1000), (0, 1000), (1000, 1001), (0, 1001)].map(|(tgid, tid)| kernel.named(tgid, tid));
    assert_eq!(names, [caller.task, caller.task, 0, 0]);
    // The leader leaves its CPU only now.
    assert_eq!(kernel.thread(1).task, leader.task);
    kernel.set_task(1, Fields { state: 0x80, on_cpu: true, exiting: true, ..Fields::default() });
    kernel.switch(false, 1, 0);
    assert_eq!((kernel.live_threads(), kernel.clock(0, 2_000_000).active), (1, 1));
    assert_eq!(kernel.named(1000, 1000), caller.task);
}

#[test]
fn threads_are_of_one_application_without_their_first() {
    let tids = [1000, 1001, 1002];
    let mut kernel = process(&tids, true);
    kernel.set_task(1, Fields { state: 0x80, exiting: true, ..Fields::default() });
    follow(&mut kernel, &tids);
    let [first, second, third] = [1, 2, 3].map(|index| kernel.thread(index));
    assert_eq!(first.task, 0);
    assert!(second.task != 0 && third.task != 0);
    assert_eq!(second.application, third.application);
}

#[test]
fn threads_that_are_not_published_are_counted() {
    let tids = [1000, 1001, 1002];
    let mut kernel = process(&tids, false);
    follow(&mut kernel, &tids[..1]);
    assert_eq!(kernel.unpublished(), 0);
    kernel.fill_published();
    follow(&mut kernel, &tids);
    assert_eq!(kernel.unpublished(), 2);
}

/// The audit makes the thread active; its wait ended then, and is told once, when the thread leaves its CPU.
#[test]
fn a_wait_whose_end_was_missed_is_told_at_the_next_switch() {
    const MS: u64 = 1_000_000;
    let mut kernel = followed(&[1000]);
    let waits = |kernel: &mut Kernel| {
        let mut waits = Vec::new();
        kernel.records(|record| {
            waits.extend(if let Record::Wait(wait) = record { Some((wait.begin, wait.end)) } else { None })
        });
        waits
    };
    kernel.set_call(1, FUTEX, [USER_WORDS, FUTEX_PRIVATE]);
    kernel.set_task(1, BLOCKED);
    kernel.set_now(2 * MS);
    kernel.switch(false, 1, 0);
    kernel.set_task(1, RUNNING);
    for now in [10, 12] {
        kernel.set_now(now * MS);
        kernel.iterate(1, Request::Audit, 0);
        kernel.iterate_end(Request::Audit);
    }
    assert_eq!((kernel.strays(), kernel.clock(0, 13 * MS).active, waits(&mut kernel)), (1, 1, vec![]));
    for (now, told) in [(20, vec![(2 * MS, 12 * MS)]), (30, vec![(20 * MS, 25 * MS)])] {
        kernel.set_task(1, BLOCKED);
        kernel.set_now(now * MS);
        kernel.switch(false, 1, 0);
        assert_eq!(waits(&mut kernel), told);
        kernel.set_now((now + 5) * MS);
        kernel.waking(0, 1);
        kernel.wakeup(1, false);
        kernel.set_task(1, RUNNING);
        kernel.switch(false, 0, 1);
    }
}

/// A thread is woken at 5 ms, is told to have a CPU 3 µs later and ends after 10 µs on it; by the kernel's account it had it for `ran`.
fn ended_after(ran: u64) -> sched_task {
    const WOKEN: u64 = 5_000_000;
    let mut kernel = followed(&[1000, 1001]);
    kernel.set_task(2, BLOCKED);
    kernel.switch(false, 2, 0);
    kernel.set_now(WOKEN);
    kernel.waking(0, 2);
    kernel.wakeup(2, false);
    kernel.set_task(2, RUNNING);
    kernel.set_now(WOKEN + 3_000);
    kernel.switch(false, 0, 2);
    kernel.set_ran(2, ran);
    kernel.set_now(WOKEN + 13_000);
    kernel.set_task(2, Fields { state: 0x80, on_cpu: true, exiting: true, ..Fields::default() });
    kernel.switch(false, 2, 0);
    let mut ended = None;
    kernel.records(|record| {
        if let Record::Task(task) = record
            && task.event == task_event::EXIT
        {
            ended = Some(task);
        }
    });
    ended.unwrap()
}

/// The switch to a thread is told some time after it has begun.
#[test]
fn time_on_a_cpu_begins_by_the_kernels_account() {
    let times = |ran| {
        let ended = ended_after(ran);
        (ended.running_ns, ended.runnable_ns)
    };
    assert_eq!(times(12_000), (12_000, 1_000));
    assert_eq!(times(90_000), (13_000, 0), "not before it was woken");
    assert_eq!(times(9_000), (10_000, 3_000), "interrupts are not counted there");
}

#[test]
fn a_threads_end_tells_where_it_could_run() {
    let ended = ended_after(0);
    assert_eq!((ended.allowed, ended.allowed_count, ended.priority), ([3, 0, 0, 0], 2, 120));
}

/// Where a thread waits for the first time no other wait would have its stack, so that one is described whatever others cost.
#[test]
fn short_waits_cost_no_other_thread_its_first_one() {
    const SHORT: u64 = 10_000;
    let mut kernel = followed(&[1000, 1001]);
    kernel.set_with_stacks(true);
    kernel.set_wait_budget(1_000);
    let mut now = 1_000_000;
    let mut told = [0, 0, 0];
    for index in std::iter::repeat_n(1, 3000).chain([2]) {
        kernel.set_call(index, FUTEX, [USER_WORDS, FUTEX_PRIVATE]);
        kernel.set_task(index, BLOCKED);
        kernel.switch(false, index, 0);
        now += SHORT;
        kernel.set_now(now);
        kernel.waking(0, index);
        kernel.wakeup(index, false);
        kernel.set_task(index, RUNNING);
        kernel.switch(false, 0, index);
        now += SHORT;
        kernel.set_now(now);
        kernel.records(|record| told[index] += usize::from(matches!(record, Record::Wait(_))));
    }
    assert!((16..200).contains(&told[1]), "some of the first thread's 3,000: {told:?}");
    assert_eq!(told[2], 1);
}
