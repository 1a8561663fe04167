//! Samples of a user's own processes: performance events that need no privileges where `kernel.perf_event_paranoid` is 2
//! or less. User code only; each sample has the registers and the top of the stack, for who unwinds it later. Beside them
//! what is needed to make sense of them: births and ends of threads, mappings of code, and when each thread ran.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_DUMMY, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_REGS_USER,
    PERF_SAMPLE_STACK_USER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use crate::clock::monotonic_ns;
use crate::perf_event;
use crate::perf_record::{COMM, COMM_EXEC, CodeMapping, LOST, MMAP2, code_mapping, half, text, word};
use crate::record_ring::RecordRing;
use crate::sampling_period::{self, SamplingPeriod};

/// Bytes of stack with each sample where they come fast.
pub const STACK_BYTES: u32 = 8192;
/// Where they don't: buffers of paths, tables and the like in the frame of some caller's caller.
const MOST_STACK_BYTES: u32 = 4 * STACK_BYTES;
/// Samples a second for which there is room with that much stack: as many bytes as four times so many with little.
const SLOW_HZ: u32 = 250;
/// Half a megabyte for each CPU, which is what a user without privileges may have: 7 samples or more.
const DATA_PAGES: usize = 64;
/// The same where there are no samples: some 4,000 births, ends and switches.
const LIVES_PAGES: usize = 32;
/// Of linux/asm/perf_regs.h: bx, bp, sp, ip.
const REGISTERS: u64 = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8;
/// In place of a thread.
const WHOLE_MACHINE: i32 = -1;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;
/// The same of an event of the whole machine, with the other thread of the switch before its trailer.
const SWITCH_CPU_WIDE: u32 = 15;
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_PREEMPTED: u16 = 1 << 14;
/// Thread and time behind every record but samples.
const TRAILER: usize = 16;

/// What was seen of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRecord {
    /// ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Process.
    pub tgid: i32,
    /// Thread.
    pub tid: i32,
    /// What.
    pub seen: Seen,
}

/// See [`ThreadRecord`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It ran here.
    Sample {
        /// CPU time that it stands for, ns.
        period: u64,
        /// Those that unwinding needs.
        registers: Registers,
        /// The stack from the stack pointer on.
        stack: Vec<u8>,
    },
    /// It began; the other is who made it.
    Born {
        /// Process that made it.
        parent: i32,
        /// Its thread that did.
        by: i32,
    },
    /// It has ended.
    Ended,
    /// It got a CPU.
    Runs,
    /// It left its CPU.
    Stops {
        /// It would have gone on.
        preempted: bool,
    },
    /// Its name is another one now; `program`: because it runs another program.
    Named {
        /// The name.
        name: String,
        /// It runs another program.
        program: bool,
    },
    /// Code is mapped.
    Mapped(CodeMapping),
    /// So many records found no room.
    Lost(u64),
}

/// Of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub bp: u64,
    /// rbx: where the flow agent's trampolines keep what leads to the caller.
    pub bx: u64,
}

/// Threads that are sampled.
#[derive(Debug)]
pub struct ThreadSamples {
    /// One for each CPU.
    rings: Vec<RecordRing>,
    /// The other events that write to them.
    events: Vec<OwnedFd>,
    period: SamplingPeriod,
    /// The threads that the events were opened for. Those that they make have events with the period of that moment, and their
    /// samples name it; these name the first one for good.
    first: Vec<i32>,
    /// Periods of their events, ns, since when (`CLOCK_MONOTONIC`, ns): the latest last.
    periods: VecDeque<(u64, u64)>,
}

/// Periods that are remembered: samples are read soon.
const MOST_PERIODS: usize = 64;

impl ThreadSamples {
    /// Samples these threads, and all that they make from now on, `hertz` times a second of CPU time. `on_exec`: from
    /// the moment on in which the process becomes another program.
    ///
    /// # Errors
    /// If the kernel refuses: no permission, too many descriptors or too much memory.
    pub fn start(tids: &[i32], hertz: u32, on_exec: bool) -> io::Result<Self> {
        let mut period = SamplingPeriod::of(hertz);
        // From the beginning on: threads that are made later keep theirs.
        let first = period.draw();
        let stack = if hertz <= SLOW_HZ { MOST_STACK_BYTES } else { STACK_BYTES };
        let mut samples =
            Self::of(tids, period, DATA_PAGES, on_exec, |tid, cpu| open(tid, cpu, first, stack, on_exec))?;
        samples.events.extend(tids.iter().filter_map(|&tid| open_mark(tid).ok()));
        Ok(samples)
    }

    /// No samples: births, ends, names and switches of these threads, and of all that they make from now on. Who may look at the whole machine
    /// hears of all threads, which costs the program least: an event of a thread's own is copied, for each CPU, to every
    /// thread that it makes.
    ///
    /// # Errors
    /// As [`ThreadSamples::start`].
    pub fn lives(tids: &[i32]) -> io::Result<Self> {
        let of = |tids: &[i32]| Self::of(tids, SamplingPeriod::of(1), LIVES_PAGES, false, open_lives);
        of(&[WHOLE_MACHINE]).or_else(|_| of(tids))
    }

    fn of(
        tids: &[i32],
        period: SamplingPeriod,
        pages: usize,
        on_exec: bool,
        open: impl Fn(i32, u32) -> io::Result<OwnedFd>,
    ) -> io::Result<Self> {
        let first = tids.to_vec();
        let mut samples = Self { rings: Vec::new(), events: Vec::new(), period, first, periods: VecDeque::new() };
        for cpu in crate::collector::online_cpus() {
            let mut ring: Option<RecordRing> = None;
            for &tid in tids {
                let event = match open(tid, cpu) {
                    Ok(event) => event,
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) && tids.len() > 1 => continue,
                    Err(error) => return Err(error),
                };
                match &ring {
                    None => ring = Some(RecordRing::of(event, pages)?),
                    Some(ring) => {
                        let to = ring.event().as_raw_fd();
                        // SAFETY: an ioctl on two descriptors that are open.
                        if unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), to) } < 0 {
                            return Err(io::Error::last_os_error());
                        }
                        samples.events.push(event);
                    }
                }
            }
            samples.rings.extend(ring);
        }
        if !on_exec {
            samples.each_event(|event| {
                // SAFETY: an ioctl without arguments on a descriptor that is open.
                unsafe { perf_event_open_sys::ioctls::ENABLE(event.as_raw_fd(), 0) };
            });
        }
        Ok(samples)
    }

    fn each_event(&self, each: impl Fn(&OwnedFd)) {
        self.rings.iter().map(RecordRing::event).chain(&self.events).for_each(each);
    }

    /// Gives what there is to `each`; of one thread on one CPU in order.
    pub fn read(&mut self, mut each: impl FnMut(ThreadRecord)) {
        let Self { rings, first, periods, .. } = self;
        for ring in rings {
            ring.read(|kind, misc, body| {
                let Some(mut record) = decode(kind, misc, body) else { return };
                if let Seen::Sample { period, .. } = &mut record.seen
                    && first.contains(&record.tid)
                    && let Some((_, now)) = periods.iter().rev().find(|(since, _)| *since <= record.time)
                {
                    *period = *now;
                }
                each(record);
            });
        }
    }

    /// Changes the time to the next samples at random, a quarter up or down, so that they don't keep step with what the
    /// program does at even times.
    pub fn jitter(&mut self) {
        let period = self.period.draw();
        self.each_event(|event| sampling_period::set(event.as_fd(), period));
        self.periods.push_back((monotonic_ns(), period));
        if self.periods.len() > MOST_PERIODS {
            self.periods.pop_front();
        }
    }
}

/// Whether the kernel lets this user sample its own processes.
///
/// # Errors
/// Its reason.
pub fn is_permitted() -> io::Result<()> {
    let cpu = crate::collector::online_cpus().first().copied().unwrap_or(0);
    open(0, cpu, 1_000_000_000, STACK_BYTES, false).map(drop)
}

/// `kernel.perf_event_paranoid`, for messages.
pub fn paranoid() -> String {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .map_or_else(|_| "not readable".to_owned(), |text| text.trim().to_owned())
}

fn open(tid: i32, cpu: u32, period: u64, stack: u32, on_exec: bool) -> io::Result<OwnedFd> {
    let fields = PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_PERIOD
        | PERF_SAMPLE_REGS_USER
        | PERF_SAMPLE_STACK_USER;
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        sample_type: u64::from(fields),
        sample_regs_user: REGISTERS,
        sample_stack_user: stack,
        clockid: rustix::time::ClockId::Monotonic as i32,
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = period;
    attributes.set_disabled(1);
    attributes.set_enable_on_exec(on_exec.into());
    attributes.set_inherit(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_task(1);
    attributes.set_context_switch(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    perf_event::open_with(attributes, tid, cpu)
}

/// An event that new threads get and new processes don't. Between a thread and a process that it has made the kernel swaps
/// all events if they are the same, and with them the time to the next sample: who makes one process after the other for a
/// moment would begin anew with each of them, and never be sampled. (Linux 5.13.)
fn open_mark(tid: i32) -> io::Result<OwnedFd> {
    let mut attributes =
        perf_event_attr { type_: PERF_TYPE_SOFTWARE, config: u64::from(PERF_COUNT_SW_DUMMY), ..Default::default() };
    attributes.set_disabled(1);
    attributes.set_inherit(1);
    attributes.set_inherit_thread(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    perf_event::open_of_thread(attributes, tid)
}

fn open_lives(tid: i32, cpu: u32) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME),
        clockid: rustix::time::ClockId::Monotonic as i32,
        ..Default::default()
    };
    attributes.set_disabled(1);
    attributes.set_inherit((tid != WHOLE_MACHINE).into());
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_task(1);
    attributes.set_context_switch(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    perf_event::open_with(attributes, tid, cpu)
}

/// Reads the body of a record, which follows its header; the fields are those that `open` asks for.
fn decode(kind: u32, misc: u16, body: &[u8]) -> Option<ThreadRecord> {
    if kind == SAMPLE {
        return sample(body);
    }
    let at = body.len().checked_sub(TRAILER)?;
    let (tgid, tid, time) = (half(body, at)?.cast_signed(), half(body, at + 4)?.cast_signed(), word(body, at + 8)?);
    let record = |tgid, tid, seen| Some(ThreadRecord { time, tgid, tid, seen });
    match kind {
        LOST => record(tgid, tid, Seen::Lost(word(body, 8)?)),
        SWITCH | SWITCH_CPU_WIDE if misc & SWITCH_OUT == 0 => record(tgid, tid, Seen::Runs),
        SWITCH | SWITCH_CPU_WIDE => record(tgid, tid, Seen::Stops { preempted: misc & SWITCH_PREEMPTED != 0 }),
        COMM => {
            let seen = Seen::Named { name: text(body.get(8..at)?), program: misc & COMM_EXEC != 0 };
            record(half(body, 0)?.cast_signed(), half(body, 4)?.cast_signed(), seen)
        }
        FORK | EXIT => {
            let (parent, by) = (half(body, 4)?.cast_signed(), half(body, 12)?.cast_signed());
            let seen = if kind == EXIT { Seen::Ended } else { Seen::Born { parent, by } };
            record(half(body, 0)?.cast_signed(), half(body, 8)?.cast_signed(), seen)
        }
        MMAP2 => {
            let seen = Seen::Mapped(code_mapping(body, at)?);
            record(half(body, 0)?.cast_signed(), half(body, 4)?.cast_signed(), seen)
        }
        _ => None,
    }
}

/// ip, pid and tid, time, period, registers (kind and four words), stack (size, bytes, how many of them count).
fn sample(body: &[u8]) -> Option<ThreadRecord> {
    let (tgid, tid) = (half(body, 8)?.cast_signed(), half(body, 12)?.cast_signed());
    let (time, period) = (word(body, 16)?, word(body, 24)?);
    if word(body, 32)? == 0 {
        // A thread of the kernel, or one whose registers can't be had: no stack.
        let registers = Registers { ip: word(body, 0)?, sp: 0, bp: 0, bx: 0 };
        return Some(ThreadRecord { time, tgid, tid, seen: Seen::Sample { period, registers, stack: Vec::new() } });
    }
    let registers = Registers { bx: word(body, 40)?, bp: word(body, 48)?, sp: word(body, 56)?, ip: word(body, 64)? };
    let size = usize::try_from(word(body, 72)?).ok()?;
    let stack = body.get(80..80 + size)?;
    let filled = if size == 0 { 0 } else { usize::try_from(word(body, 80 + size)?).ok()?.min(size) };
    let stack = stack[..filled].to_vec();
    Some(ThreadRecord { time, tgid, tid, seen: Seen::Sample { period, registers, stack } })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_is_seen_from_its_first_instruction_to_its_end() {
        if let Err(error) = is_permitted() {
            println!("NOT RUN: {error}");
            return;
        }
        // Waits for its input, so that it is there when it is looked at, and becomes another program then.
        let script = "read line; exec awk 'BEGIN { for (i = 0; i < 3000000; i++) n += i % 7 }'";
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut samples = ThreadSamples::start(&[pid], 499, true).unwrap();
        drop(child.stdin.take());
        let (mut stacks, mut mapped, mut runs, mut stops, mut ended) = (0, 0, 0, 0, false);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !ended && std::time::Instant::now() < deadline {
            samples.jitter();
            samples.read(|record| {
                assert_eq!((record.tgid, record.tid), (pid, pid));
                match record.seen {
                    Seen::Sample { stack, registers, period } => {
                        stacks += 1;
                        assert!(!stack.is_empty() && registers.sp > 4096 && registers.ip > 4096 && period > 0);
                    }
                    Seen::Mapped { .. } => mapped += 1,
                    Seen::Runs => runs += 1,
                    Seen::Stops { .. } => stops += 1,
                    Seen::Ended => ended = true,
                    _ => {}
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(ended && stacks > 10 && mapped > 1, "{stacks} {mapped}");
        assert!(i64::abs(runs - stops) <= 1, "{runs} {stops}");
    }

    /// It works for a few tenths of a millisecond between them: each sample begins anew if they take its events along.
    #[test]
    fn who_makes_many_processes_is_sampled() {
        if let Err(error) = is_permitted() {
            println!("NOT RUN: {error}");
            return;
        }
        let script = "read line; i=0; while [ $i -lt 1500 ]; do (:); j=0; while [ $j -lt 100 ]; do j=$((j+1)); done; \
                      i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut samples = ThreadSamples::start(&[pid], 499, false).unwrap();
        drop(child.stdin.take());
        let (mut taken, mut ended) = (0, false);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !ended && std::time::Instant::now() < deadline {
            samples.read(|record| match record.seen {
                Seen::Sample { .. } if record.tid == pid => taken += 1,
                Seen::Ended if record.tid == pid => ended = true,
                _ => {}
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let user: u64 = status.rsplit_once(") ").unwrap().1.split(' ').nth(11).unwrap().parse().unwrap();
        child.wait().unwrap();
        // A tick is 10 ms, of which five samples are due.
        assert!(ended && taken * 3 > user * 5, "{taken} samples in {user} ticks");
    }

    #[test]
    fn lives_of_threads_are_told_without_samples() {
        if let Err(error) = is_permitted() {
            println!("NOT RUN: {error}");
            return;
        }
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let mut lives = ThreadSamples::lives(&[own]).unwrap();
        let tids: Vec<i32> = (0..50)
            .map(|_| std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get()).join().unwrap())
            .collect();
        let (mut born, mut ended) = (Vec::new(), Vec::new());
        // Tests beside this one have threads, too.
        let ours = |record: &ThreadRecord| tids.contains(&record.tid);
        // A thread is joined a moment before it has ended.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while ended.len() < tids.len() && std::time::Instant::now() < deadline {
            lives.read(|record| match record.seen {
                Seen::Born { .. } if ours(&record) => born.push(record.tid),
                Seen::Ended if ours(&record) => ended.push(record.tid),
                Seen::Born { .. } | Seen::Named { .. } | Seen::Ended | Seen::Runs | Seen::Stops { .. } => {}
                other => panic!("{other:?}"),
            });
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        born.sort_unstable();
        ended.sort_unstable();
        let mut tids = tids;
        tids.sort_unstable();
        assert_eq!((born, ended), (tids.clone(), tids));
    }
}
