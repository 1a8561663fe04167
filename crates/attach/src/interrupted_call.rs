//! System calls that give up with EINTR when they are interrupted by anything, a tracer's stop included. What has been
//! interrupted by a stop alone is made to start again; if a signal handler runs, EINTR stands.
//!
//! A call with a timeout of its own would wait the whole of it once more. It starts again with what is left: the register
//! with its timeout is changed, for code behind a call of the C library reads none of these registers. How long the
//! thread has slept is read from its scheduler's clock, which stood when it fell asleep and goes on with the interruption.

use std::fs;
use std::time::Duration;

use crate::memory::Memory;
use crate::process::read_text;
use crate::ptrace::Registers;

const GIVES_UP: [libc::c_long; 20] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
];
/// The kernel's own mark: start again unless a handler runs.
const RESTART_UNLESS_HANDLED: u64 = -514i64 as u64;
/// What code may keep below its stack pointer.
const RED_ZONE: u64 = 128;
const PAGE: u64 = 4096;

/// A thread asleep in a call with a timeout of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asleep {
    call: libc::c_long,
    arguments: [u64; 6],
    last_run: LastRun,
}

/// What the scheduler knows of a thread's last time on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastRun {
    /// By the clock of that CPU's scheduler.
    at: Duration,
    cpu: u32,
    /// How often it has gone to sleep.
    sleeps: u64,
}

impl Asleep {
    /// Looks at a thread that is about to be interrupted; `None` if it is in no such call.
    pub fn look(tid: i32) -> Option<Asleep> {
        let text = fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
        // "running" when it does not sleep.
        let mut fields = text.split(' ');
        let call = fields.next()?.parse().ok()?;
        timeout_register(call)?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(fields.next()?.trim().strip_prefix("0x")?, 16).ok()?;
        }
        Some(Asleep { call, arguments, last_run: LastRun::read(tid)? })
    }

    /// How long it slept, now that it stands. `None` where this may be another call than the one it slept in: that one
    /// can have ended, and the thread have begun the next, before it was interrupted.
    fn lasted(self, tid: i32, registers: &Registers) -> Option<Duration> {
        let now = LastRun::read(tid)?;
        let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
        // To stand still is one more sleep. Clocks of different CPUs are not compared.
        let same = registers.orig_rax == self.call as u64
            && arguments == self.arguments
            && now.sleeps == self.last_run.sleeps + 1
            && now.cpu == self.last_run.cpu;
        same.then(|| now.at.checked_sub(self.last_run.at)).flatten()
    }
}

impl LastRun {
    fn read(tid: i32) -> Option<LastRun> {
        let sched = read_text(format!("/proc/{tid}/sched")).ok()?;
        let stat = read_text(format!("/proc/{tid}/stat")).ok()?;
        // Behind the name, which may hold anything.
        let cpu = stat.rsplit_once(") ")?.1.split(' ').nth(36)?.parse().ok()?;
        Some(LastRun { at: last_on_cpu(&sched)?, cpu, sleeps: field(&sched, "nr_voluntary_switches")?.parse().ok()? })
    }
}

/// The value of a line `name : value` of `/proc/TID/sched`.
fn field<'a>(sched: &'a str, name: &str) -> Option<&'a str> {
    let line = sched.lines().find(|line| line.starts_with(name))?;
    Some(line.rsplit_once(':')?.1.trim())
}

/// `se.exec_start`, milliseconds: when the thread last had a CPU.
fn last_on_cpu(sched: &str) -> Option<Duration> {
    let (whole, part) = field(sched, "se.exec_start")?.split_once('.')?;
    Some(Duration::from_millis(whole.parse().ok()?) + Duration::from_nanos(part.get(..6)?.parse().ok()?))
}

/// Where a timeout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    /// In a register, milliseconds.
    Milliseconds,
    /// In memory that a register points to, seconds and nanoseconds.
    Pointed,
}

/// Which of the registers an argument is in.
type Argument = fn(&mut Registers) -> &mut u64;

fn timeout_register(call: libc::c_long) -> Option<(Timeout, Argument)> {
    match call {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Some((Timeout::Milliseconds, |r| &mut r.r10)),
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => Some((Timeout::Pointed, |r| &mut r.r10)),
        libc::SYS_rt_sigtimedwait => Some((Timeout::Pointed, |r| &mut r.rdx)),
        libc::SYS_io_getevents => Some((Timeout::Pointed, |r| &mut r.r8)),
        _ => None,
    }
}

/// Makes the call start again in which a thread was interrupted; false if it starts again by itself, or was in none.
pub(crate) fn restart(tid: i32, registers: &mut Registers, asleep: Option<Asleep>, memory: &Memory) -> bool {
    let gave_up = registers.rax == -i64::from(libc::EINTR) as u64;
    let call = registers.orig_rax as libc::c_long;
    let restart = gave_up && call >= 0 && GIVES_UP.contains(&call);
    if restart {
        registers.rax = RESTART_UNLESS_HANDLED;
        if let Some(slept) = asleep.and_then(|asleep| asleep.lasted(tid, registers)) {
            let _ = shorten(registers, slept, memory);
        }
    }
    restart
}

/// Takes what was slept off the call's timeout. `None`: it is as it was. So is one that has passed: it has ended its
/// call, and what was interrupted is the next call, with the same arguments.
fn shorten(registers: &mut Registers, slept: Duration, memory: &Memory) -> Option<()> {
    let (kind, register) = timeout_register(registers.orig_rax as libc::c_long)?;
    let stack = registers.rsp;
    let argument = register(registers);
    match kind {
        // Negative: for ever.
        Timeout::Milliseconds => {
            let all = Some(*argument as i32).filter(|all| *all > 0)?;
            let slept = i32::try_from(slept.as_millis()).ok()?;
            *argument = Some(all - slept).filter(|left| *left > 0)? as u64;
        }
        Timeout::Pointed => {
            let mut bytes = [0; 16];
            memory.read(Some(*argument).filter(|at| *at != 0)?, &mut bytes).ok()?;
            let (seconds, nanoseconds) = bytes.split_at(8);
            let seconds = u64::from_le_bytes(seconds.try_into().ok()?);
            let nanoseconds = u64::from_le_bytes(nanoseconds.try_into().ok()?);
            let all = Duration::new(i64::try_from(seconds).ok()? as u64, u32::try_from(nanoseconds).ok()?);
            let left = all.checked_sub(slept).filter(|left| !left.is_zero())?;
            // The program's own may be read again by it. The kernel reads this one before anything else uses the stack.
            let place = stack.checked_sub(RED_ZONE + 16)? & !15;
            if place / PAGE != stack / PAGE {
                return None;
            }
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&left.as_secs().to_le_bytes());
            bytes[8..].copy_from_slice(&u64::from(left.subsec_nanos()).to_le_bytes());
            memory.write(place, &bytes).ok()?;
            *argument = place;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_tells_when_a_thread_fell_asleep() {
        let text = "sleep (7, #threads: 1)\n------\nse.exec_start      :      70484649.358722\nse.vruntime : 1.0\n";
        assert_eq!(last_on_cpu(text), Some(Duration::from_nanos(70_484_649_358_722)));
        assert_eq!(last_on_cpu("no such line"), None);
    }

    #[test]
    fn what_was_slept_in_an_earlier_call_is_not_the_next_ones() {
        let (tid, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = tid.send(rustix::thread::gettid().as_raw_nonzero().get());
            loop {
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let tid = told.recv().unwrap();
        let look = || Some((LastRun::read(tid)?, read_text(format!("/proc/{tid}/stat")).ok()?.contains(") S ")));
        let (asleep, _) = std::iter::repeat_with(look).flatten().find(|(_, sleeps)| *sleeps).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let mut registers = crate::ptrace::no_registers();
        let arguments = [0; 6];
        let call = libc::SYS_epoll_wait;
        registers.orig_rax = call as u64;
        assert_eq!(Asleep { call, arguments, last_run: asleep }.lasted(tid, &registers), None);
        // One that has only come to stand since.
        let now = LastRun { sleeps: LastRun::read(tid).unwrap().sleeps - 1, ..asleep };
        let same = Asleep { call, arguments, last_run: now };
        registers.r10 = 1;
        assert_eq!(same.lasted(tid, &registers), None, "other arguments");
    }

    #[test]
    fn a_timeout_is_shortened_by_what_was_slept_unless_it_has_passed() {
        let memory = Memory::open(std::process::id() as i32).unwrap();
        let left = |timeout: i32, slept| {
            let mut registers = crate::ptrace::no_registers();
            (registers.orig_rax, registers.r10) = (libc::SYS_epoll_wait as u64, timeout as u64);
            let _ = shorten(&mut registers, Duration::from_millis(slept), &memory);
            registers.r10 as i32
        };
        assert_eq!((left(1000, 300), left(1000, 1500), left(-1, 300), left(0, 300)), (700, 1000, -1, 0));
    }

    #[test]
    fn a_timeout_in_memory_is_left_there_and_a_shorter_one_put_below_the_red_zone() {
        let memory = Memory::open(std::process::id() as i32).unwrap();
        let timeout = [1u64, 500_000_000];
        let stack = [0u64; 1024];
        let mut registers = crate::ptrace::no_registers();
        registers.orig_rax = libc::SYS_rt_sigtimedwait as u64;
        registers.rdx = timeout.as_ptr() as u64;
        registers.rsp = (stack.as_ptr() as u64 + 4095) / PAGE * PAGE + 2048;
        shorten(&mut registers, Duration::from_millis(600), &memory).unwrap();
        let mut bytes = [0; 16];
        memory.read(registers.rdx, &mut bytes).unwrap();
        assert_eq!(bytes[..8], 0u64.to_le_bytes());
        assert_eq!(bytes[8..], 900_000_000u64.to_le_bytes());
        assert!(registers.rdx + 16 <= registers.rsp - RED_ZONE);
        assert_eq!(timeout, [1, 500_000_000]);
    }
}
