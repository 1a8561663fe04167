//! Why a thread blocked, as far as its registers tell: what the kind of a wait is told from, beside its stack.

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::{sched_wait, waker_context};
use transect_profile_model::WaitKind;

use super::kind::{Blocked, Call, KernelWait, MAKES_FILE, NUMBER_FUTEX, UserWait, locks_with_inheritance, open_flags};
use super::object::{NO_OBJECT, ObjectNumber, Objects, RawObject};

/// Number of a [`Cause`] in [`Causes`].
pub type CauseNumber = u32;
/// Stands for causes that found no room.
pub const UNKNOWN_CAUSE: CauseNumber = 0;

/// What is left of a wait's registers: only what tells kinds and objects apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cause {
    /// Number of the system call; -1: none, -2: unknown.
    system_call: i32,
    /// Of a futex its operation, the value if it is a lock's mark or the owner's, and whether there is a time limit;
    /// of other calls whether an argument is other than zero.
    arguments: [u32; 4],
    /// 1 if an owner is known; then a value of 1 is the owner itself.
    owner: i32,
    object_type: u32,
    /// It was stopped.
    held: bool,
    /// Its time limit ended it.
    timed_out: bool,
    /// The object.
    pub object: ObjectNumber,
}

/// poll, whose third argument is a time limit in milliseconds; epoll_wait and epoll_pwait, whose fourth is.
const POLL: i64 = 7;
const EPOLL_WAITS: [i64; 2] = [232, 281];
/// Part of a time limit that may pass before the thread blocks.
const BEFORE: u64 = 50;

/// The time limit of a wait for events, as far as its registers tell it, ns. Those of select and ppoll are in memory.
pub fn time_limit(wait: &sched_wait) -> Option<u64> {
    let limit = match wait.system_call {
        POLL => wait.arguments[2],
        call if EPOLL_WAITS.contains(&call) => wait.arguments[3],
        _ => return None,
    };
    u64::try_from(limit as i32).ok().filter(|ms| *ms > 0).map(|ms| ms * 1_000_000)
}

fn is_timed_out(wait: &sched_wait) -> bool {
    let by_thread = matches!(wait.waker_context, waker_context::TASK | waker_context::OTHER_TASK);
    if wait.system_call == NUMBER_FUTEX {
        // No device wakes who waits for a word in memory: a timer did.
        return wait.arguments[3] != 0 && wait.waker_context == waker_context::INTERRUPT;
    }
    !by_thread && time_limit(wait).is_some_and(|limit| wait.end.saturating_sub(wait.begin) >= limit - limit / BEFORE)
}

/// A value that is neither a mark nor the owner.
const ANY_VALUE: u32 = 0;
/// The mark of a lock that is held and waited for.
const CONTENDED: u32 = 2;

impl Cause {
    /// True if it is a word in memory that is waited for.
    pub fn is_futex(&self) -> bool {
        Call::of(self.system_call.into()) == Call::Futex
    }

    /// True if it is a word in which the kernel itself keeps the owner (`FUTEX_LOCK_PI`, futex(2)).
    pub fn inherits_priority(&self) -> bool {
        i64::from(self.system_call) == NUMBER_FUTEX && locks_with_inheritance(self.arguments[1].into())
    }

    fn of(wait: &sched_wait, object: ObjectNumber) -> Self {
        let owner = i32::from(wait.owner_tid != 0);
        let [first, second, third, fourth] = wait.arguments;
        let arguments = if Call::of(wait.system_call) == Call::Futex {
            let value = match third as u32 {
                value if owner != 0 && value == wait.owner_tid.unsigned_abs() => owner.unsigned_abs(),
                CONTENDED => CONTENDED,
                _ => ANY_VALUE,
            };
            [1, second as u32, value, u32::from(fourth != 0)]
        } else {
            let mut rest = [u32::from(first != 0), u32::from(second != 0), 0, 0];
            if let Some(place) = open_flags(wait.system_call) {
                rest[place] = wait.arguments[place] as u32 & MAKES_FILE;
            }
            rest
        };
        let system_call = i32::try_from(wait.system_call).unwrap_or(-2);
        let (object_type, held, timed_out) = (wait.object.r#type, wait.held != 0, is_timed_out(wait));
        Self { system_call, arguments, owner, object_type, held, timed_out, object }
    }

    /// True if its time limit ended it, where that is what the thread waited for.
    pub fn is_time_limit(&self, kind: WaitKind) -> bool {
        self.timed_out && matches!(kind, WaitKind::Poll | WaitKind::Semaphore)
    }

    /// What is known of a thread that blocked for this cause with a stack that tells `user` and `kernel`.
    pub fn blocked<'a>(&self, objects: &'a Objects, user: Option<UserWait>, kernel: Option<KernelWait>) -> Blocked<'a> {
        let object_name = match objects.get(self.object) {
            RawObject::Named(name) => name,
            _ => "",
        };
        Blocked {
            system_call: self.system_call.into(),
            arguments: self.arguments.map(u64::from),
            object: self.object_type,
            object_name,
            owner: self.owner,
            held: self.held,
            user,
            kernel,
        }
    }
}

/// All causes, each once.
#[derive(Debug, Clone)]
pub struct Causes {
    numbers: HashMap<Cause, CauseNumber>,
    all: Vec<Cause>,
    /// Waits whose cause had no room.
    pub refused: u64,
}

/// More are not kept: some 10 MB.
const MAX_CAUSES: usize = 100_000;

impl Default for Causes {
    fn default() -> Self {
        let unknown = Cause {
            system_call: -2,
            arguments: [0; 4],
            owner: 0,
            object_type: 0,
            held: false,
            timed_out: false,
            object: NO_OBJECT,
        };
        Self { numbers: HashMap::from_iter([(unknown, UNKNOWN_CAUSE)]), all: vec![unknown], refused: 0 }
    }
}

impl Causes {
    /// Number of the cause of a wait for `object`.
    pub fn number(&mut self, wait: &sched_wait, object: ObjectNumber) -> CauseNumber {
        let cause = Cause::of(wait, object);
        if let Some(&number) = self.numbers.get(&cause) {
            return number;
        }
        if self.all.len() >= MAX_CAUSES {
            self.refused += 1;
            return UNKNOWN_CAUSE;
        }
        let number = self.all.len() as CauseNumber;
        self.all.push(cause);
        self.numbers.insert(cause, number);
        number
    }

    /// A cause by its number.
    pub fn get(&self, number: CauseNumber) -> &Cause {
        self.all.get(number as usize).unwrap_or(&self.all[0])
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::kind;
    use super::*;

    /// Others have their second argument for something else: `futex_waitv` the number of words.
    #[test]
    fn one_call_alone_tells_an_operation() {
        let inherits = |system_call, second| {
            let wait = sched_wait { system_call, arguments: [7, second, 0, 0], ..Default::default() };
            Cause::of(&wait, NO_OBJECT).inherits_priority()
        };
        assert!(inherits(202, 6) && inherits(202, 139));
        assert!(!inherits(202, 0) && !inherits(449, 6) && !inherits(455, 6));
    }

    #[test]
    fn a_time_limit_that_ran_out_is_told_from_events() {
        let is = |system_call, arguments, ms: u64, waker_context| {
            let wait = sched_wait {
                system_call,
                arguments,
                begin: 7,
                end: 7 + ms * 1_000_000,
                waker_context,
                ..Default::default()
            };
            Cause::of(&wait, NO_OBJECT).timed_out
        };
        use waker_context::{INTERRUPT, NONE, TASK};
        assert!(is(7, [1, 1, 20, 0], 20, INTERRUPT) && is(232, [3, 1, 8, 20], 21, NONE));
        assert!(!is(7, [1, 1, 20, 0], 12, INTERRUPT) && !is(7, [1, 1, u64::from(u32::MAX), 0], 900, INTERRUPT));
        assert!(!is(232, [3, 1, 8, 20], 21, TASK) && !is(1, [3, 1, 8, 20], 21, NONE));
        assert!(is(202, [3, 137, 0, 0x7000], 5, INTERRUPT));
        assert!(!is(202, [3, 137, 0, 0x7000], 5, TASK) && !is(202, [3, 137, 0, 0], 5, INTERRUPT));
        let wait = sched_wait { system_call: 7, arguments: [1, 1, 20, 0], end: 20_000_000, ..Default::default() };
        let cause = Cause::of(&wait, NO_OBJECT);
        assert!(cause.is_time_limit(WaitKind::Poll) && !cause.is_time_limit(WaitKind::Socket));
    }

    /// What is left tells the same kind as the whole.
    #[test]
    fn nothing_that_tells_kinds_apart_is_dropped() {
        let objects = Objects::default();
        for system_call in -2..460 {
            for second in [0, 128, 137, 9 | 256, 6, 139, 0x1000_0000_0000] {
                for (third, owner_tid) in [(0, 0), (2, 0), (2, 9), (77, 77), (1, 0), (1, 77)] {
                    for (first, fourth) in [(0, 0), (7, 0), (0, 5)] {
                        let arguments = [first, second, third, fourth];
                        let wait = sched_wait { system_call, arguments, owner_tid, ..Default::default() };
                        let whole = Blocked { system_call, arguments, owner: owner_tid, ..Default::default() };
                        let cause = Cause::of(&wait, NO_OBJECT);
                        assert_eq!(kind(&cause.blocked(&objects, None, None)), kind(&whole), "{arguments:x?}");
                    }
                }
            }
        }
        let stopped = sched_wait { system_call: 202, held: 1, ..Default::default() };
        assert_eq!(kind(&Cause::of(&stopped, NO_OBJECT).blocked(&objects, None, None)), WaitKind::Signal);
        assert_eq!(kind(&Causes::default().get(UNKNOWN_CAUSE).blocked(&objects, None, None)), WaitKind::Other);
    }
}
