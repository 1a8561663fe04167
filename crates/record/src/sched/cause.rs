//! Why a thread blocked, as far as its registers tell: what the kind of a wait is told from, beside its stack.

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::sched_wait;

use super::kind::{Blocked, Call, KernelWait, NUMBER_FUTEX, UserWait, locks_with_inheritance};
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
    /// The object.
    pub object: ObjectNumber,
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
            [u32::from(first != 0), u32::from(second != 0), 0, 0]
        };
        let system_call = i32::try_from(wait.system_call).unwrap_or(-2);
        Self { system_call, arguments, owner, object_type: wait.object.r#type, held: wait.held != 0, object }
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
        let unknown =
            Cause { system_call: -2, arguments: [0; 4], owner: 0, object_type: 0, held: false, object: NO_OBJECT };
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
    use transect_profile_model::WaitKind;

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
