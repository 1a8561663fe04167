//! Locks: acquisitions, contention and hold time per lock and calling place.
//!
//! Whether a lock is held is read from the lock itself before the call (glibc's layouts), so an uncontended
//! acquisition costs one table entry and no time stamps; contended ones are always timed, and those of locks that are held
//! long; the others now and then, each standing for the ones between. `--timing full` times them all.

use core::sync::atomic::{AtomicU32, Ordering};

use transect_event_abi::api_table::handler;
use transect_event_abi::thread::{FlowCounters, LOCK_CAPACITY, LOCKS_OFFSET, LockRecord};

use crate::enter::Registers;
use crate::frame::{CONTENDED, Frame, PRESERVING};
use crate::slot::{self, Kind};
use crate::thread::ThreadState;
use crate::{active, arch, arena, hold, period};

/// One in so many uncontended acquisitions (on average) is timed at least, and its hold time taken.
const SAMPLE: u32 = 1024;

/// More of them are where acquisitions are rarer: about one in so long on a CPU, and as many releases, which costs 1 %; microseconds.
const SPACING_US: u64 = 100;

/// The first acquisitions at a place are all timed: there may be no more.
const FIRST: u64 = 16;

/// An acquisition of a lock that looked free waited, if it took longer; nanoseconds.
const LOST_RACE_NS: u64 = 500;

/// `__lock` of a glibc mutex that somebody waits or has waited for, and the kinds of mutexes that use it so: normal,
/// recursive and error checking ones, neither robust nor with priorities. Adaptive ones spin before.
const WAITED_FOR: u32 = 2;
const PLAIN_KINDS: u32 = 2;
const KIND_OFFSET: u64 = 16;
/// What says what kind a mutex is, without what is asked of transactional memory and process sharing.
const KIND_MASK: u32 = 0x7f;

/// `PTHREAD_MUTEX_RECURSIVE_NP` among the bits that tell the four basic kinds apart.
const RECURSIVE: u32 = 1;
const RECURSIVE_MASK: u32 = 3;

/// Bits of `__readers` in glibc's `struct __pthread_rwlock_arch_t`: writers have their turn; a writer has the lock, waits for
/// those that read, or was given the lock and has not woken up yet (then nobody is named in `__cur_writer`). Readers are counted
/// from `RWLOCK_READER` on.
const RWLOCK_WRITE_PHASE: u32 = 1;
/// Bit of a writer among those of a rwlock's readers.
pub const RWLOCK_WRITER: u32 = 2;
const RWLOCK_READER: u32 = 8;
/// Where its kind is, and the kind whose readers let waiting writers pass.
const RWLOCK_KIND: u64 = 48;
const RWLOCK_WRITERS_FIRST: u32 = 2;

static GLIBC: AtomicU32 = AtomicU32::new(0);

/// The program's libc is glibc: lock words can be read.
pub fn know_glibc() {
    GLIBC.store(1, Ordering::Relaxed);
}

/// Where samples are among the calls of one kind.
#[repr(C)]
pub struct Gap {
    /// Calls from one sample to the next.
    calls: u32,
    /// When the last one was, ticks.
    since: u64,
}

impl Gap {
    /// The first call is one.
    pub const fn none() -> Self {
        Gap { calls: 0, since: 0 }
    }

    /// A sample is taken: the calls that it stands for, itself included. The next gap follows the rate of these calls in the time
    /// in which their thread has a CPU, `on_cpu` of all, is shorter where they come `often`, and is random, for lock and unlock calls come in patterns that a fixed
    /// stride would fall in step with.
    fn end(&mut self, random: &mut u32, on_cpu: u32, often: u64) -> u32 {
        let ended = self.calls.max(1);
        let now = arch::ticks();
        let took = period::while_on_cpu(now.saturating_sub(self.since), on_cpu).max(1);
        self.since = now;
        let spacing = SPACING_US * arena::header().ticks_per_us as u64 / often;
        let mean = (ended as u64 * spacing / took).clamp(1, SAMPLE as u64 / often);
        *random = period::random(*random);
        self.calls = 1 + ((*random as u64 * (2 * mean - 1)) >> 32) as u32;
        ended
    }
}

/// Slots of releases that the stubs count by themselves while no hold time is being taken; [`RELEASES_NOTED`] of them.
static RELEASES: [AtomicU32; 32] = [const { AtomicU32::new(0) }; 32];
static RELEASES_NOTED: AtomicU32 = AtomicU32::new(0);

/// A slot of releases was made.
pub fn note_release(slot: u32) {
    let at = RELEASES_NOTED.fetch_add(1, Ordering::Relaxed) as usize;
    if let Some(place) = RELEASES.get(at) {
        place.store(slot, Ordering::Release);
    }
}

/// Slots of releases so far are none of the program's.
pub fn forget_releases() {
    RELEASES_NOTED.store(0, Ordering::Relaxed);
}

/// True if a thread's releases need not enter before the next sample: none of its locks' hold times is being taken, and all
/// slots are known by which one could be released.
unsafe fn may_lease(state: *const ThreadState, slot: u32) -> bool {
    // SAFETY: `state` is the calling thread's.
    unsafe {
        RELEASES_NOTED.load(Ordering::Relaxed) as usize <= RELEASES.len()
            && arch::transect_flags[slot as usize].load(Ordering::Relaxed) == slot::QUICK_RELEASE
            && slot::kind(slot).flags == 0
            && (*state).contexts.is_none()
            && (*state).holds.is_empty()
    }
}

/// From now on each release of the calling thread enters: a hold time is being taken, or counters change with regions.
///
/// # Safety
/// The calling thread has counters of its own.
pub unsafe fn end_leases() {
    let noted = (RELEASES_NOTED.load(Ordering::Relaxed) as usize).min(RELEASES.len());
    for place in &RELEASES[..noted] {
        // SAFETY: the thread's own counters, which have a place for each slot.
        unsafe { change_lease(arch::counters().add(place.load(Ordering::Acquire) as usize), 1) };
    }
}

/// The stub counts so many calls, the one that enters included; those that it has counted are the gap that ends.
unsafe fn change_lease(c: *mut FlowCounters, calls: u32) {
    // SAFETY: counters of the calling thread; single read-modify-writes, each whole before a signal handler's.
    unsafe {
        let (period, left) = ((*c).period.load(Ordering::Relaxed), (*c).countdown.load(Ordering::Relaxed) as i32);
        if period == 0 || period == u32::MAX || left < 1 {
            return;
        }
        let by = i64::from(calls) - i64::from(left);
        arch::add_own_u64(&(*c).issued, by as u64);
        arch::add_own_u32(&(*c).countdown, by as u32);
        (*c).period.store((i64::from(period) + by).max(1) as u32, Ordering::Relaxed);
    }
}

/// True if contention is read from the locks themselves.
pub fn knows() -> bool {
    GLIBC.load(Ordering::Relaxed) != 0
}

/// Some releases are timed ([`Gap`]), or each: what this one stands for, or `None` to count it only. `counted` were counted
/// by the stub, this one included.
///
/// # Safety
/// `state` and `c` are the calling thread's, `c` of this slot.
pub unsafe fn sample_release(state: *mut ThreadState, c: *mut FlowCounters, slot: u32, counted: u32) -> Option<u32> {
    // SAFETY: see above.
    unsafe {
        if slot::is_full() {
            return Some(1);
        }
        let s = &mut *state;
        if counted > 1 {
            s.release_gap.calls = counted;
        } else if s.release_countdown > 0 {
            s.release_countdown -= 1;
            return None;
        }
        let ended = s.release_gap.end(&mut s.random, s.on_cpu, 1);
        if may_lease(state, slot) {
            change_lease(c, s.release_gap.calls);
            // What is counted until then is in the lease.
            s.release_gap.calls = 0;
            s.release_countdown = 0;
        } else {
            change_lease(c, 1);
            s.release_countdown = s.release_gap.calls - 1;
        }
        Some(ended)
    }
}

/// Entries of the cache through which the trampoline counts uncontended acquisitions.
pub const QUICK_ENTRIES: usize = 32;
/// Where a lock and its caller are there: the product's highest bits (Knuth's multiplicative hashing). Return addresses of two
/// calls often have their lowest bits in common.
pub const QUICK_FACTOR: u32 = 0x9e37_79b1;
/// See [`QUICK_FACTOR`].
pub const QUICK_SHIFT: u32 = 32 - QUICK_ENTRIES.ilog2();

/// Cached place of a lock's record.
#[repr(C)]
pub struct Quick {
    object: u64,
    caller: u64,
    record: *const LockRecord,
    reserved: u64,
}

impl Quick {
    /// An empty entry.
    pub const fn none() -> Self {
        Quick { object: 0, caller: 0, record: core::ptr::null(), reserved: 0 }
    }
}

/// What is done with an acquisition.
pub enum Attempt {
    /// Counted, not timed.
    Counted,
    /// To be timed.
    Timed {
        /// Acquisitions it stands for.
        weight: u32,
        /// The lock was held.
        contended: bool,
    },
}

/// True for handlers that acquire a lock.
pub fn acquires(handler: u8) -> bool {
    matches!(handler, handler::LOCK_ACQUIRE | handler::SPIN_ACQUIRE | handler::READ_ACQUIRE | handler::WRITE_ACQUIRE)
}

/// A word of a lock.
///
/// # Safety
/// The program has passed the lock's address to the lock's own function, which reads the same words.
unsafe fn word(object: u64, offset: u64) -> u32 {
    // SAFETY: see above.
    unsafe { (*((object + offset) as *const AtomicU32)).load(Ordering::Relaxed) }
}

/// Is the lock held, so that the call would wait? `None` if its layout is unknown.
unsafe fn is_held(state: *mut ThreadState, handler: u8, object: u64) -> Option<bool> {
    if GLIBC.load(Ordering::Relaxed) == 0 || object < 4096 {
        return None;
    }
    // SAFETY: the program passes this address to the lock's own function, which reads the same words.
    unsafe {
        let word = |offset| word(object, offset);
        Some(match handler {
            // struct __pthread_mutex_s: lock, count, owner
            handler::LOCK_ACQUIRE => word(0) != 0 && word(8) != (*(*state).header).tid.load(Ordering::Relaxed),
            // pthread_spinlock_t on x86: 1 = free
            handler::SPIN_ACQUIRE => word(0) as i32 <= 0,
            handler::READ_ACQUIRE => keeps_readers_out(word(0), word(RWLOCK_KIND)),
            _ => word(0) & RWLOCK_WRITER != 0 || word(0) >= RWLOCK_READER,
        })
    }
}

/// A rwlock with these `__readers`, of this kind, lets no reader in.
fn keeps_readers_out(readers: u32, kind: u32) -> bool {
    readers & RWLOCK_WRITER != 0
        && (readers & RWLOCK_WRITE_PHASE != 0 || kind == RWLOCK_WRITERS_FIRST && readers >= RWLOCK_READER)
}

/// A lock is about to be acquired.
///
/// # Safety
/// `state` is the calling thread's; `r` are the registers of the call.
pub unsafe fn attempt(state: *mut ThreadState, slot: u32, kind: Kind, r: &Registers) -> Attempt {
    // SAFETY: see above.
    unsafe {
        let contended = match is_held(state, kind.handler, r.rdi) {
            None => return Attempt::Timed { weight: 1, contended: false },
            Some(held) => held,
        };
        if contended {
            let waits = kind.waits_for_lock();
            return if waits { Attempt::Timed { weight: 1, contended } } else { Attempt::Counted };
        }
        let record = find(state, r.rdi, r.ret, slot);
        if slot::is_full() || record.is_some_and(is_always_timed) {
            return Attempt::Timed { weight: 1, contended };
        }
        if (*state).hold_countdown == 0 {
            let often = record.map_or(1, hold::spread);
            let ended = (*state).hold_gap.end(&mut (*state).random, (*state).on_cpu, often);
            (*state).hold_countdown = (*state).hold_gap.calls - 1;
            return Attempt::Timed { weight: ended, contended };
        }
        (*state).hold_countdown -= 1;
        if let Some(l) = record {
            (*state).quick[quick_index(r.rdi, r.ret)] = Quick { object: r.rdi, caller: r.ret, record: l, reserved: 0 };
            l.acquisitions.store(l.acquisitions.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        Attempt::Counted
    }
}

/// A timed acquisition has returned.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn acquired(state: *mut ThreadState, frame: &Frame, now: u64) {
    // SAFETY: see above; the entry of `held` is this thread's.
    unsafe {
        const ETIMEDOUT: u32 = 110;
        const EOWNERDEAD: u32 = 130;
        let in_vain = frame.rax as u32 == ETIMEDOUT && slot::kind(frame.slot).waits_for_lock();
        if !in_vain && !matches!(frame.rax as u32, 0 | EOWNERDEAD) {
            // Another has it.
            return;
        }
        let Some(l) = find(state, frame.object, frame.ret, frame.slot) else { return };
        let add = |cell: &core::sync::atomic::AtomicU64, by: u64| {
            cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        };
        add(&l.acquisitions, 1);
        let waited = now.saturating_sub(frame.start);
        if in_vain {
            // It waited, found the lock held to the end, and holds nothing.
            add(&l.contended, 1);
            add(&l.wait, waited);
            return;
        }
        if frame.flags & CONTENDED != 0 {
            add(&l.contended, 1);
            add(&l.wait, waited);
        } else if waited > LOST_RACE_NS * arena::header().ticks_per_us as u64 / 1000
            && knows()
            && active::parallel()
            && slot::kind(frame.slot).waits_for_lock()
            && may_have_waited(frame)
        {
            // It was free when we looked and taken when the call came: as often among those not timed.
            // The sample stands for acquisitions of all locks; for this one at most for those it had.
            let room = l.acquisitions.load(Ordering::Relaxed).saturating_sub(l.contended.load(Ordering::Relaxed));
            let k = (frame.weight as u64).min(room).max(1);
            let usual = waited.min(crate::period::outlier(0, arena::header().ticks_per_us as u64));
            let sum = waited + usual * (k - 1);
            add(&l.contended, k);
            add(&l.wait, sum);
            crate::wait::note(state, frame.slot, frame.object, sum, k as u32);
        }
        if slot::kind(frame.slot).handler == handler::LOCK_ACQUIRE && is_nested(frame.object) {
            return;
        }
        // All that found it held are timed. One that did not stands for those counted since the last one.
        let since =
            l.acquisitions.load(Ordering::Relaxed).saturating_sub(l.held_samples.load(Ordering::Relaxed)).max(1);
        let calls = if frame.flags & CONTENDED != 0 { 1 } else { since };
        hold::begin(state, frame.object, l, calls, frame.flags & PRESERVING == 0);
    }
}

/// The calling thread holds the mutex more than once: it is a recursive one.
///
/// # Safety
/// The program has just passed this address to the lock's own function.
pub unsafe fn is_nested(object: u64) -> bool {
    if !knows() || object < 4096 {
        return false;
    }
    // SAFETY: the program has just passed this address to the lock's own function, which read the same words.
    unsafe {
        let word = |offset| word(object, offset);
        // struct __pthread_mutex_s: lock, count; a normal one counts nothing.
        word(KIND_OFFSET) & RECURSIVE_MASK == RECURSIVE && word(4) > 1
    }
}

/// False if the mutex itself says that its acquisition, which took long, met nobody: the thread lost its CPU, or a page was
/// not there.
unsafe fn may_have_waited(frame: &Frame) -> bool {
    if slot::kind(frame.slot).handler != handler::LOCK_ACQUIRE || frame.object < 4096 {
        return true;
    }
    // SAFETY: the program has just passed this address to the lock's own function, which read the same words.
    unsafe {
        let word = |offset| word(frame.object, offset);
        word(KIND_OFFSET) & KIND_MASK > PLAIN_KINDS || word(0) == WAITED_FOR
    }
}

fn is_always_timed(l: &LockRecord) -> bool {
    l.acquisitions.load(Ordering::Relaxed) < FIRST || hold::is_long(l)
}

/// The trampoline counts the lock's acquisitions no more by itself.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn forget_quick(state: *mut ThreadState, object: u64, l: &LockRecord) {
    // SAFETY: see above.
    let quick = unsafe { &mut (*state).quick[quick_index(object, l.caller.load(Ordering::Relaxed))] };
    if core::ptr::eq(quick.record, l) {
        *quick = Quick::none();
    }
}

fn quick_index(object: u64, caller: u64) -> usize {
    ((object >> 4 ^ object >> 9 ^ caller) as u32).wrapping_mul(QUICK_FACTOR) as usize >> QUICK_SHIFT
}

unsafe fn find<'a>(state: *mut ThreadState, object: u64, caller: u64, slot: u32) -> Option<&'a LockRecord> {
    // SAFETY: the table lies in this thread's extent.
    unsafe {
        let h = (*state).header;
        let table = (h as *mut u8).add(LOCKS_OFFSET) as *const LockRecord;
        let mut i = ((object >> 3) ^ caller.wrapping_mul(0x9e37_79b9) ^ (object >> 15)) as usize;
        for _ in 0..16 {
            i &= LOCK_CAPACITY - 1;
            let l = &*table.add(i);
            let used = l.object.load(Ordering::Relaxed);
            if used == 0 {
                let around = (*(*state).top).slot;
                l.caller.store(caller, Ordering::Relaxed);
                l.slots.store(slot as u64 | (around as u64) << 32, Ordering::Relaxed);
                l.object.store(object, Ordering::Relaxed);
                return Some(l);
            }
            if used == object && l.caller.load(Ordering::Relaxed) == caller {
                return Some(l);
            }
            i += 1;
        }
        (*h).locks_refused.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn pthread_rwlock_tryrdlock(lock: *mut [u32; 14]) -> i32;
        fn pthread_rwlock_trywrlock(lock: *mut [u32; 14]) -> i32;
    }

    /// glibc itself says who would wait, whether the writer has named itself or not.
    #[test]
    fn who_waits_for_a_rwlock_is_read_as_glibc_reads_it() {
        for readers in (0..64).filter(|readers| readers & RWLOCK_WRITE_PHASE == 0 || *readers < 8) {
            for (kind, writer) in [(0, 0), (0, 77), (1, 0), (2, 0), (2, 77)] {
                // A writer that waits for those that read, of whom none is left: it has the lock next.
                if readers & 3 == RWLOCK_WRITER && readers < RWLOCK_READER {
                    continue;
                }
                let lock = || {
                    let mut words = [0; 14];
                    (words[0], words[6], words[12]) = (readers, writer, kind);
                    words
                };
                // SAFETY: both get a lock of their own, of glibc's size.
                let (reads, writes) =
                    unsafe { (pthread_rwlock_tryrdlock(&mut lock()) == 0, pthread_rwlock_trywrlock(&mut lock()) == 0) };
                let words = lock();
                let waits = |handler| {
                    GLIBC.store(1, Ordering::Relaxed);
                    // SAFETY: only a mutex' owner is compared with the thread.
                    unsafe { is_held(core::ptr::null_mut(), handler, words.as_ptr() as u64) }
                };
                assert_eq!(waits(handler::READ_ACQUIRE), Some(!reads), "{readers:#b} of kind {kind}, writer {writer}");
                assert_eq!(
                    waits(handler::WRITE_ACQUIRE),
                    Some(!writes),
                    "{readers:#b} of kind {kind}, writer {writer}"
                );
                GLIBC.store(0, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn callers_with_common_bits_have_places_of_their_own() {
        for apart in [0x10, 0x100, 0x1000, 0x10000] {
            let mut used = [false; QUICK_ENTRIES];
            (0..8u64).for_each(|caller| used[quick_index(0x7f61_55ea_3ac8, 0x7f61_5500_1234 + caller * apart)] = true);
            assert!(used.iter().filter(|used| **used).count() >= 6, "{apart:#x} apart");
        }
    }
}
