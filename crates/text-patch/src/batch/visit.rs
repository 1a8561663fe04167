//! Visiting the other threads by signal: to move program counters out of windows, or to stop the threads meanwhile.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::table;
use crate::arch::serialize_here;
use crate::arch::signal::{
    self, Action, SA_ONSTACK, SA_RESTART, SA_RESTORER, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGTRAP, SignalInfo, UserContext,
};
use crate::arch::syscall::{self, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::tasks::{self, Whereabouts, signal_bit};
use crate::{Refusal, batch::BatchPolicy};

/// Known, not yet sent a signal.
const KNOWN: u32 = 0;
/// Sent a signal.
const SENT: u32 = 1;
/// Has answered, has ended, or need not be visited.
const DONE: u32 = 2;

const CAPACITY: usize = 65_536;

struct Slot {
    tid: AtomicU32,
    state: AtomicU32,
}

/// One visit to all threads.
pub struct Visit {
    slots: *const Slot,
    count: AtomicU32,
    /// Raised by every answer; a futex word.
    answers: AtomicU32,
    /// Threads that stop wait until this is 1; a futex word.
    released: AtomicU32,
    /// Threads stop instead of going on.
    stop: bool,
    moved: AtomicU32,
    signalled: u32,
    policy: BatchPolicy,
    me: u32,
}

static CURRENT: AtomicPtr<Visit> = AtomicPtr::new(core::ptr::null_mut());
static VISITORS: AtomicU32 = AtomicU32::new(0);
/// The application's action of the signal: handler, flags, restorer, mask.
static APPLICATION: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn application_action() -> Action {
    let [handler, flags, restorer, mask] = &APPLICATION;
    Action {
        handler: handler.load(Ordering::Relaxed) as usize,
        flags: flags.load(Ordering::Relaxed),
        restorer: restorer.load(Ordering::Relaxed) as usize,
        mask: mask.load(Ordering::Relaxed),
    }
}

impl Visit {
    /// Prepares a visit: memory for the threads' answers, and the signal's handler once [`Self::begin`] is called.
    pub fn new(stop: bool, policy: &BatchPolicy) -> Result<Self, Refusal> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: a new mapping, zeroed: all slots free.
        let slots =
            unsafe { syscall::mmap(0, (CAPACITY * size_of::<Slot>()) as u64, PROT_READ | PROT_WRITE, flags, -1, 0) }
                .map_err(|errno| Refusal::System { call: "mmap", errno: errno.0 })?;
        Ok(Self {
            slots: slots as *const Slot,
            count: AtomicU32::new(0),
            answers: AtomicU32::new(0),
            released: AtomicU32::new(0),
            stop,
            moved: AtomicU32::new(0),
            signalled: 0,
            policy: *policy,
            me: syscall::gettid(),
        })
    }

    /// Threads moved, threads sent a signal.
    pub fn figures(&self) -> (usize, usize) {
        (self.moved.load(Ordering::Relaxed) as usize, self.signalled as usize)
    }

    fn slots(&self) -> &[Slot] {
        // SAFETY: mapped by `new` until drop; `count` ≤ CAPACITY.
        unsafe { core::slice::from_raw_parts(self.slots, self.count.load(Ordering::Acquire) as usize) }
    }

    /// Installs the handler and shows this visit to it.
    ///
    /// # Safety
    /// The visit does not move until [`Self::end`].
    pub unsafe fn begin(&self) -> Result<(), Refusal> {
        let handler: signal::Handler = on_visit;
        let action = Action {
            handler: handler as *const () as usize,
            flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART,
            restorer: signal::restorer(),
            mask: !signal_bit(SIGTRAP),
        };
        CURRENT.store(core::ptr::from_ref(self).cast_mut(), Ordering::SeqCst);
        let mut before = Action::default();
        // SAFETY: the handler may run at any instruction of any thread.
        let result = unsafe {
            syscall::signal_action(self.policy.signal, None, Some(&mut before))
                .and_then(|()| syscall::signal_action(self.policy.signal, Some(&action), None))
        };
        if before.handler != action.handler {
            for (place, value) in
                APPLICATION.iter().zip([before.handler as u64, before.flags, before.restorer as u64, before.mask])
            {
                place.store(value, Ordering::Relaxed);
            }
        }
        result.map_err(|errno| Refusal::System { call: "sigaction", errno: errno.0 })
    }

    /// Takes the handler back, unless a thread has yet to take the signal (whose default action might be to die).
    pub fn end(&self) {
        CURRENT.store(core::ptr::null_mut(), Ordering::SeqCst);
        while VISITORS.load(Ordering::SeqCst) != 0 {
            syscall::sched_yield();
        }
        if self.slots().iter().all(|slot| slot.state.load(Ordering::Relaxed) != SENT) {
            // SAFETY: the application's own action.
            let _ = unsafe { syscall::signal_action(self.policy.signal, Some(&application_action()), None) };
        }
    }

    /// Takes note of threads not seen before; true if there were any.
    fn discover(&self) -> Result<bool, Refusal> {
        let before = self.slots().len();
        let mut full = false;
        tasks::each_thread(&mut |tid| {
            if tid == self.me || self.slots().iter().any(|slot| slot.tid.load(Ordering::Relaxed) == tid) {
                return;
            }
            let count = self.slots().len();
            if count == CAPACITY {
                full = true;
                return;
            }
            // SAFETY: mapped by `new`, not yet among the slots.
            unsafe { &*self.slots.add(count) }.tid.store(tid, Ordering::Relaxed);
            self.count.store(count as u32 + 1, Ordering::Release);
        })?;
        if full {
            Err(Refusal::System { call: "visiting threads", errno: 7 })
        } else {
            Ok(self.slots().len() != before)
        }
    }

    /// Sends the signal to one thread, or finds that it needs no visit.
    fn visit(&mut self, i: usize) {
        let signal = self.policy.signal;
        let slot = &self.slots()[i];
        let tid = slot.tid.load(Ordering::Relaxed);
        match tasks::whereabouts(tid) {
            Whereabouts::Gone => return slot.state.store(DONE, Ordering::Release),
            // After INT3 was written and all were serialized, a thread outside of the windows can't get past their
            // beginnings: no need to interrupt its system call.
            Whereabouts::Waiting { pc, sp } if !self.stop => {
                let outside = table::with_current(|table| (!table.touches(pc)).then(|| table.move_saved(sp)));
                if let Some(moved) = outside {
                    self.moved.fetch_add(moved as u32, Ordering::Relaxed);
                    return slot.state.store(DONE, Ordering::Release);
                }
            }
            _ => {}
        }
        match tasks::blocked_signals(tid) {
            None => slot.state.store(DONE, Ordering::Release),
            Some(mask) if mask & signal_bit(signal) != 0 => {
                if self.policy.allow_blocked {
                    slot.state.store(DONE, Ordering::Release);
                }
            }
            Some(_) => {
                slot.state.store(SENT, Ordering::Release);
                if syscall::signal_thread(tid, signal).is_err() {
                    slot.state.store(DONE, Ordering::Release);
                } else {
                    self.signalled += 1;
                }
            }
        }
    }

    /// Visits all threads, those included that are born meanwhile; returns when all have answered.
    ///
    /// # Errors
    /// [`Refusal::SignalBlocked`] or [`Refusal::NoAnswer`] after `patience` nanoseconds.
    pub fn all(&mut self, patience: u64) -> Result<(), Refusal> {
        let begun = syscall::monotonic_nanos();
        loop {
            let seen = self.answers.load(Ordering::Acquire);
            let news = self.discover()?;
            let mut open = None;
            let mut stuck = self.stop;
            for i in 0..self.slots().len() {
                if self.slots()[i].state.load(Ordering::Acquire) == KNOWN {
                    self.visit(i);
                }
                let slot = &self.slots()[i];
                let (tid, state) = (slot.tid.load(Ordering::Relaxed), slot.state.load(Ordering::Acquire));
                if state != DONE {
                    open = Some(tid);
                    stuck &= state == KNOWN && matches!(tasks::whereabouts(tid), Whereabouts::Waiting { .. });
                }
            }
            let Some(tid) = open else {
                if news {
                    continue; // who was born while we looked?
                }
                return Ok(());
            };
            // A thread that blocks the signal and waits may wait for a lock that a stopped thread holds.
            let elapsed = syscall::monotonic_nanos() - begun;
            if elapsed > patience || (stuck && elapsed > 3_000_000) {
                let blocked = tasks::blocked_signals(tid).unwrap_or(0) & signal_bit(self.policy.signal) != 0;
                return Err(if blocked {
                    Refusal::SignalBlocked { tid, signal: self.policy.signal }
                } else {
                    Refusal::NoAnswer { tid }
                });
            }
            syscall::futex_wait(&self.answers, seen, 200_000);
            for slot in self.slots() {
                let ended = || tasks::whereabouts(slot.tid.load(Ordering::Relaxed)) == Whereabouts::Gone;
                if slot.state.load(Ordering::Acquire) == SENT && self.answers.load(Ordering::Acquire) == seen && ended()
                {
                    slot.state.store(DONE, Ordering::Release);
                }
            }
        }
    }

    /// Lets stopped threads go on.
    pub fn release(&self) {
        self.released.store(1, Ordering::SeqCst);
        syscall::futex_wake(&self.released);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; handlers have left (`end`).
        unsafe { syscall::munmap(self.slots as u64, (CAPACITY * size_of::<Slot>()) as u64) };
    }
}

extern "C" fn on_visit(number: i32, info: *mut SignalInfo, context: *mut UserContext) {
    VISITORS.fetch_add(1, Ordering::SeqCst);
    let visit = CURRENT.load(Ordering::SeqCst);
    // SAFETY: `end` waits for visitors before the visit goes away.
    let ours = unsafe { visit.as_ref() }.is_some_and(|visit| {
        // SAFETY: the kernel's frame, nobody else refers to it.
        answer(visit, unsafe { &mut *context })
    });
    VISITORS.fetch_sub(1, Ordering::SeqCst);
    if !ours {
        let action = application_action();
        if !matches!(action.handler, SIG_DFL | SIG_IGN) {
            // SAFETY: the application's handler and what the kernel has passed.
            unsafe {
                syscall::signal_mask(
                    syscall::SignalMask::Set,
                    (*context).mask | action.mask | signal_bit(number as u8),
                );
                signal::call_handler(&action, number, info, context);
            }
        }
    }
}

/// In the thread visited; false if it wasn't sent a signal by us.
fn answer(visit: &Visit, context: &mut UserContext) -> bool {
    let me = syscall::gettid();
    let Some(slot) = visit.slots().iter().find(|slot| slot.tid.load(Ordering::Relaxed) == me) else { return false };
    if slot.state.load(Ordering::Acquire) != SENT {
        return false;
    }
    let registers = &mut context.registers;
    let moved = table::with_current(|table| {
        let mut moved = table.move_saved(registers.rsp);
        if let Some(target) = table.moved(registers.rip) {
            registers.rip = target;
            moved += 1;
        }
        Some(moved)
    });
    visit.moved.fetch_add(moved.unwrap_or(0) as u32, Ordering::Relaxed);
    serialize_here();
    slot.state.store(DONE, Ordering::Release);
    visit.answers.fetch_add(1, Ordering::Release);
    syscall::futex_wake(&visit.answers);
    if visit.stop {
        while visit.released.load(Ordering::Acquire) == 0 {
            syscall::futex_wait(&visit.released, 0, 100_000_000);
        }
        serialize_here();
    }
    true
}
