//! Limits of the address space: the agent's own mappings come on top of what the program allows itself.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::syscall as sys;
use crate::confinement::confined;
use crate::enter::Registers;
use crate::{arena, dlsym, slot};

const RLIMIT_AS: u64 = 9;
/// No limit (`RLIM_INFINITY`).
const NONE: u64 = u64::MAX;
/// Name of the entry by which a program that is started learns the limit that its parent has set for itself.
pub const ENTRY: &[u8] = b"TRANSECT_ADDRESS_SPACE=";
/// Digits of two limits and what stands between them.
const DIGITS: usize = 33;

/// Soft and hard limit, bytes.
pub type Limit = [u64; 2];

/// Bytes of the agent's own image.
static IMAGE: AtomicU64 = AtomicU64::new(0);
/// Bytes on top of the program's limit: fixed by the first one, for a hard limit can't be raised again.
static OWN: AtomicU64 = AtomicU64::new(0);
/// The limit as the program knows it, and what the kernel has in its place; the latter is zero while they are the same.
static SHOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static IN_FORCE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn load(pair: &[AtomicU64; 2]) -> Limit {
    [pair[0].load(Ordering::Acquire), pair[1].load(Ordering::Acquire)]
}

fn store(pair: &[AtomicU64; 2], limit: Limit) {
    pair[0].store(limit[0], Ordering::Release);
    pair[1].store(limit[1], Ordering::Release);
}

/// What the program is shown in place of `real`. A limit that somebody else has set is shown as it is.
fn shown(real: Limit, in_force: Limit, given: Limit) -> Limit {
    let one = |i: usize| if in_force[i] != 0 && real[i] == in_force[i] { given[i] } else { real[i] };
    [one(0), one(1)]
}

/// `wanted` with `own` bytes more of each.
fn raised(wanted: Limit, own: u64) -> Limit {
    wanted.map(|limit| if limit == NONE { NONE } else { limit.saturating_add(own) })
}

/// `wanted` as far as the hard limit lets it be raised.
fn raised_within(wanted: Limit, own: u64, hard: u64) -> Limit {
    let [soft, most] = raised(wanted, own);
    [soft.min(most.min(hard)), most.min(hard)]
}

/// Notes the size of the agent's image.
pub fn know_image(bytes: u64) {
    IMAGE.store(bytes, Ordering::Relaxed);
}

/// Lifts a limit from outside for as long as the agent starts; false if that is not permitted. [`settle`] ends it.
pub fn lift(room: u64) -> bool {
    let Some(real) = sys::limit(RLIMIT_AS) else { return true };
    if real[0] == NONE {
        return true;
    }
    let all = raised(real, room);
    let soft = [all[0], real[1]];
    let Some(new) = [all, soft].into_iter().find(|&new| sys::set_limit(RLIMIT_AS, new)) else { return false };
    store(&SHOWN, real);
    store(&IN_FORCE, new);
    true
}

/// The start is over: the limit that the program came with is in force, or `handed_on` if its parent set that for itself.
pub fn settle(handed_on: Option<Limit>) {
    let Some(real) = sys::limit(RLIMIT_AS) else { return };
    match handed_on.or_else(given) {
        Some(wanted) => drop(set(wanted, real)),
        // What could not be lifted.
        None if real[0] != NONE => arena::keep_spares(),
        None => {}
    }
}

/// The agent does not work here: the program has the room that its parent's limit gives it beside the agent's image.
pub fn give_up(handed_on: Option<Limit>) {
    put_back();
    if let Some(wanted) = handed_on {
        sys::set_limit(RLIMIT_AS, raised(wanted, IMAGE.load(Ordering::Relaxed)));
    }
}

/// Puts `wanted` with the agent's own size into force, as far as permitted; false if it is not.
fn set(wanted: Limit, real: Limit) -> bool {
    if wanted[0] != NONE {
        // Its spares need room, too.
        arena::keep_spares();
    }
    if OWN.load(Ordering::Acquire) == 0 {
        OWN.store(IMAGE.load(Ordering::Relaxed) + sys::mapped(), Ordering::Release);
    }
    let own = OWN.load(Ordering::Acquire);
    let hard = shown(real, load(&IN_FORCE), load(&SHOWN))[1];
    let mut new = raised(wanted, own);
    let mut done = sys::set_limit(RLIMIT_AS, new);
    if !done && wanted[0] <= wanted[1] && wanted[1] <= hard {
        // Without us the program may do so, and we may not raise it.
        new = raised_within(wanted, own, real[1]);
        done = sys::set_limit(RLIMIT_AS, new);
    }
    if done {
        store(&SHOWN, wanted);
        store(&IN_FORCE, new);
    }
    done
}

/// The limit as the program knows it, if the kernel's is another one.
fn given() -> Option<Limit> {
    let in_force = load(&IN_FORCE);
    // The system call is made only where there was a limit.
    if in_force[0] == 0 || confined() {
        return None;
    }
    let real = sys::limit(RLIMIT_AS)?;
    let given = shown(real, in_force, load(&SHOWN));
    (given != real).then_some(given)
}

/// The limit is the program's own again: the agent does not work here, or a program without it takes this one's place.
pub fn put_back() {
    if let Some(given) = given() {
        sys::set_limit(RLIMIT_AS, given);
    }
}

/// The entry by which a program that is started learns the limit: name, value, zero.
pub fn entry() -> Option<[u8; ENTRY.len() + DIGITS + 1]> {
    let [soft, hard] = given()?;
    let mut text = [0; ENTRY.len() + DIGITS + 1];
    text[..ENTRY.len()].copy_from_slice(ENTRY);
    for (start, limit) in [(ENTRY.len(), soft), (ENTRY.len() + 17, hard)] {
        for i in 0..16 {
            text[start + i] = b"0123456789abcdef"[(limit >> (60 - 4 * i)) as usize & 15];
        }
    }
    text[ENTRY.len() + 16] = b':';
    Some(text)
}

/// The limit in an entry's value.
pub fn parse(value: &[u8]) -> Option<Limit> {
    let number =
        |digits: &[u8]| digits.iter().try_fold(0u64, |n, &b| Some(n << 4 | u64::from(char::from(b).to_digit(16)?)));
    if value.len() != DIGITS || value[16] != b':' {
        return None;
    }
    Some([number(&value[..16])?, number(&value[17..])?])
}

/// `prlimit(process, resource, new, old)`; the others are like it. Where the limit is of this process' address space, the call
/// is made here and its result returned in place of the call's own.
///
/// # Safety
/// `r` holds the arguments of the call through `slot`; `new` and `old` are those arguments of it that point to limits.
unsafe fn call(slot: u32, r: &mut Registers, own: bool, resource: u64, new: u64, old: u64) {
    let readable = |at: u64| at == 0 || sys::readable(at);
    if resource as u32 != RLIMIT_AS as u32 || !own || confined() || !readable(new) || !readable(old) {
        return;
    }
    if !dlsym::can_answer() || slot::target(slot) == 0 {
        return;
    }
    // SAFETY: see above; the program's limits can be read, and the function is the one that the program calls.
    unsafe {
        let real: extern "C" fn(u64, u64, u64, u64) -> u64 = core::mem::transmute(slot::target(slot));
        let Some(before) = sys::limit(RLIMIT_AS) else { return };
        let before_shown = shown(before, load(&IN_FORCE), load(&SHOWN));
        let wanted = (new != 0).then(|| (new as *const Limit).read_unaligned());
        let mut result = 0;
        if wanted.is_none_or(|wanted| !set(wanted, before)) {
            // Reads, or fails: with the values that fail here as the program's do without us.
            let mut values = wanted.map(|wanted| raised(wanted, OWN.load(Ordering::Acquire)));
            let changed = values.as_mut().map_or(0, |values| values.as_mut_ptr() as u64);
            let with = |given: u64| if given != 0 && given == new { changed } else { given };
            result = real(r.rdi, with(r.rsi), with(r.rdx), r.rcx);
        }
        if old != 0 && result as u32 == 0 {
            (old as *mut Limit).write_unaligned(before_shown);
        }
        dlsym::answer_with(r, result);
    }
}

/// `setrlimit(resource, new)`.
///
/// # Safety
/// `r` holds the arguments of the call through `slot`.
pub unsafe fn set_call(slot: u32, r: &mut Registers) {
    // SAFETY: as this function's.
    unsafe { call(slot, r, true, r.rdi, r.rsi, 0) };
}

/// `getrlimit(resource, old)`.
///
/// # Safety
/// As for [`set_call`].
pub unsafe fn get_call(slot: u32, r: &mut Registers) {
    // SAFETY: as this function's.
    unsafe { call(slot, r, true, r.rdi, 0, r.rsi) };
}

/// `prlimit(process, resource, new, old)`.
///
/// # Safety
/// As for [`set_call`].
pub unsafe fn process_call(slot: u32, r: &mut Registers) {
    let own = r.rdi as u32 == 0 || !confined() && r.rdi as u32 == sys::getpid();
    // SAFETY: as this function's.
    unsafe { call(slot, r, own, r.rsi, r.rdx, r.rcx) };
}

#[cfg(test)]
mod tests {
    use super::{NONE, parse, raised, raised_within, shown};

    #[test]
    fn a_program_sees_what_it_set_and_what_others_set() {
        assert_eq!(shown([150, 150], [150, 150], [100, 100]), [100, 100]);
        assert_eq!(shown([120, 150], [150, 150], [100, 100]), [120, 100], "somebody lowered the soft one");
        assert_eq!(shown([150, 150], [0, 0], [0, 0]), [150, 150], "nothing was set");
    }

    #[test]
    fn limits_are_raised_as_far_as_permitted() {
        assert_eq!(raised([100, NONE], 50), [150, NONE]);
        assert_eq!(raised([100, NONE - 1], 50), [150, NONE]);
        assert_eq!(raised_within([100, 120], 50, 130), [130, 130]);
        assert_eq!(raised_within([100, NONE], 50, NONE), [150, NONE]);
    }

    #[test]
    fn limits_are_handed_on() {
        assert_eq!(parse(b"0000000010000000:ffffffffffffffff"), Some([1 << 28, NONE]));
        for bad in [&b""[..], b"1:2", b"0000000010000000-ffffffffffffffff", b"000000001000000g:ffffffffffffffff"] {
            assert_eq!(parse(bad), None);
        }
    }
}
