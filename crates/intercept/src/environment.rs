//! The program's environment: the agent's entry in `LD_PRELOAD` is hidden from the program and handed on to children.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::process::unprofiled;

use crate::arch::syscall as sys;
use crate::elf::bytes_until_zero;
use crate::{address_limit, arena, spawn};

const NAME: &[u8] = b"LD_PRELOAD=";
/// What stands beside a recording's agent: a link to its memory.
pub const ARENA_FILE: &[u8] = b"arena\0";

/// Address of libc's `environ`.
static ENVIRON: AtomicU64 = AtomicU64::new(0);
static LENT: AtomicU32 = AtomicU32::new(0);
static LENT_ARRAY: AtomicU64 = AtomicU64::new(0);
static OWN_ARRAY: AtomicU64 = AtomicU64::new(0);

/// Notes where libc keeps `environ`.
pub fn know(environ: u64) {
    ENVIRON.store(environ, Ordering::Relaxed);
}

fn own() -> *mut *const *const u8 {
    ENVIRON.load(Ordering::Relaxed) as *mut *const *const u8
}

/// The program's environment array; null if unknown.
pub fn current() -> *const *const u8 {
    let at = own();
    // SAFETY: libc's own variable.
    if at.is_null() { core::ptr::null() } else { unsafe { *at } }
}

/// The agent's path as it stands in `LD_PRELOAD`.
pub fn agent_path() -> &'static [u8] {
    let path = &arena::header().agent_path;
    &path[..path.iter().position(|&b| b == 0).unwrap_or(0)]
}

/// Entries of an environment array.
///
/// # Safety
/// `array` is null or a null-terminated array of zero-terminated strings.
pub unsafe fn entries(array: *const *const u8) -> impl Iterator<Item = &'static [u8]> {
    let mut at = array;
    // SAFETY: see above.
    core::iter::from_fn(move || unsafe {
        if at.is_null() || (*at).is_null() {
            return None;
        }
        let entry = bytes_until_zero(*at);
        at = at.add(1);
        Some(entry)
    })
}

/// Takes an entry out of the environment: what stands behind `name`, which ends with `=`.
///
/// # Safety
/// As for [`hide`].
pub unsafe fn take(array: *mut *const u8, name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: as in `hide`.
    unsafe {
        let at = entries(array.cast_const()).position(|entry| entry.starts_with(name))?;
        let value = &bytes_until_zero(*array.add(at))[name.len()..];
        remove(array, at);
        Some(value)
    }
}

/// Takes the entry at `at` out of an array of entries.
unsafe fn remove(array: *mut *const u8, at: usize) {
    // SAFETY: as in `hide`.
    unsafe {
        let mut j = at;
        while !(*array.add(j)).is_null() {
            *array.add(j) = *array.add(j + 1);
            j += 1;
        }
    }
}

/// Removes the agent from the environment the program sees. Runs before the program's first code.
///
/// # Safety
/// `array` is null or the environment on the initial stack, and no other thread exists.
pub unsafe fn hide(array: *mut *const u8) {
    if array.is_null() {
        return;
    }
    // SAFETY: one thread, before constructors; strings and array lie on the initial stack and are the program's to
    // change. The agent stands last in the list, put there by the recorder.
    unsafe {
        let mut i = 0;
        while !(*array.add(i)).is_null() {
            let entry = *array.add(i);
            let text = bytes_until_zero(entry);
            if text.starts_with(NAME) && text.ends_with(agent_path()) {
                let keep = text.len() - agent_path().len();
                // A sanitizer runtime that the recorder put first goes with it.
                let alone = text[NAME.len()..keep].strip_suffix(b":").is_some_and(is_runtime);
                if keep == NAME.len() || alone {
                    remove(array, i);
                } else {
                    // Without the separator before it.
                    *entry.add(keep - 1).cast_mut() = 0;
                }
                return;
            }
            i += 1;
        }
    }
}

/// `libasan.so.8` and its like, by file name alone, as the recorder writes it.
fn is_runtime(entry: &[u8]) -> bool {
    [&b"libasan.so."[..], b"libtsan.so.", b"libhwasan.so."]
        .iter()
        .any(|p| entry.strip_prefix(*p).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)))
}

/// Memory for copies of environments, used again by the next one: its owner sees to it that nobody reads the old copy
/// any more.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Buffer {
    address: u64,
    size: u64,
}

impl Buffer {
    /// No memory yet.
    pub const fn none() -> Self {
        Buffer { address: 0, size: 0 }
    }

    /// Makes room for `size` bytes; null if there is no memory.
    fn room(&mut self, size: u64) -> *mut u8 {
        if size > self.size {
            let size = (size + 4095) & !4095;
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            let at = unsafe {
                sys::mmap(0, size, sys::PROT_READ | sys::PROT_WRITE, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, -1, 0)
            };
            if at <= 0 {
                return core::ptr::null_mut();
            }
            if self.address != 0 {
                // SAFETY: see the type: nobody reads the old copy.
                unsafe { sys::munmap(self.address, self.size) };
            }
            *self = Buffer { address: at as u64, size };
        }
        self.address as *mut u8
    }
}

/// Whether the last of the preloaded is the agent of another recording, which was started inside of this one: it has this one's
/// name, and an arena beside it.
fn is_recorded(preloaded: &'static [u8]) -> bool {
    let last = preloaded.rsplit(|&b| b == b':').next().unwrap_or_default();
    let split = |path: &'static [u8]| path.split_at(path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1));
    let (folder, name) = split(last);
    if folder.is_empty() || name != split(agent_path()).1 {
        return false;
    }
    let mut arena = [0u8; 1024];
    let length = folder.len() + ARENA_FILE.len();
    if length > arena.len() {
        return false;
    }
    arena[..folder.len()].copy_from_slice(folder);
    arena[folder.len()..length].copy_from_slice(ARENA_FILE);
    sys::exists(arena.as_ptr())
}

/// A copy of an environment with the agent in it, and room for `words` more words before it: (those words, the
/// array). `None` if the agent is in it already, or another recording's, or there is no memory.
///
/// # Safety
/// As for [`entries`]; nobody reads `buffer`'s old content any more.
pub unsafe fn with_agent(
    array: *const *const u8,
    buffer: &mut Buffer,
    words: usize,
) -> Option<(*mut u64, *const *const u8)> {
    // SAFETY: see above; writes go to the buffer, whose size is computed first.
    unsafe {
        let (mut count, mut old): (usize, &'static [u8]) = (0, &[]);
        for e in entries(array) {
            count += 1;
            if e.starts_with(NAME) {
                if e.ends_with(agent_path()) {
                    return None;
                }
                old = &e[NAME.len()..];
            }
        }
        if is_recorded(old) {
            spawn::left_behind(unprofiled::RECORDED);
            return None;
        }
        let limit = address_limit::entry();
        let text = NAME.len() + old.len() + 1 + agent_path().len() + 1 + limit.as_ref().map_or(0, |l| l.len());
        let at = buffer.room(((words + count + 3) * 8 + text) as u64);
        if at.is_null() {
            return None;
        }
        let new = at.cast::<*const u8>().add(words);
        let start = at.add((words + count + 3) * 8);
        let mut end = start;
        let mut push = |part: &[u8]| {
            core::ptr::copy_nonoverlapping(part.as_ptr(), end, part.len());
            end = end.add(part.len());
        };
        push(NAME);
        if !old.is_empty() {
            push(old);
            push(b":");
        }
        push(agent_path());
        push(b"\0");
        if let Some(limit) = &limit {
            push(limit);
        }
        let mut n = 0;
        let mut placed = false;
        for e in entries(array) {
            if e.starts_with(NAME) {
                *new.add(n) = start;
                placed = true;
            } else {
                *new.add(n) = e.as_ptr();
            }
            n += 1;
        }
        if !placed {
            *new.add(n) = start;
            n += 1;
        }
        if let Some(limit) = &limit {
            *new.add(n) = end.sub(limit.len());
            n += 1;
        }
        *new.add(n) = core::ptr::null();
        Some((at.cast(), new))
    }
}

/// Copies that were lent and given back, for the next loan. A reader in another thread may still be in the copy of the
/// last loan but one, which is why there are several.
static LOANS: [[AtomicU64; 2]; 8] = [const { [const { AtomicU64::new(0) }; 2] }; 8];
static NEXT_LOAN: AtomicU32 = AtomicU32::new(0);

/// Lends the agent to the program's own environment, for calls inside libc that pass it on (`system`, `popen`).
/// True if [`take_back`] is due.
pub fn lend() -> bool {
    if own().is_null() {
        return false;
    }
    if LENT.fetch_add(1, Ordering::AcqRel) == 0 {
        let loan = &LOANS[NEXT_LOAN.fetch_add(1, Ordering::Relaxed) as usize % LOANS.len()];
        let mut buffer = Buffer { address: loan[0].load(Ordering::Relaxed), size: loan[1].load(Ordering::Relaxed) };
        // SAFETY: libc's environment array; the buffer's last loan ended long ago.
        if let Some((_, array)) = unsafe { with_agent(current(), &mut buffer, 0) } {
            OWN_ARRAY.store(current() as u64, Ordering::Relaxed);
            LENT_ARRAY.store(array as u64, Ordering::Relaxed);
            // SAFETY: one aligned store; readers see the old or the new array.
            unsafe { own().write_volatile(array) };
        }
        loan[0].store(buffer.address, Ordering::Relaxed);
        loan[1].store(buffer.size, Ordering::Relaxed);
    }
    true
}

/// Ends a loan: the program's array is back, unless the program replaced it meanwhile.
pub fn take_back() {
    if LENT.fetch_sub(1, Ordering::AcqRel) == 1 {
        restore();
    }
}

fn restore() {
    let array = LENT_ARRAY.swap(0, Ordering::Relaxed);
    if array != 0 && current() as u64 == array {
        // SAFETY: as in `lend`. The lent array is never unmapped: another thread may be reading it.
        unsafe { own().write_volatile(OWN_ARRAY.load(Ordering::Relaxed) as *const *const u8) };
    }
}

/// In the child of a fork: loans of the parent's other threads end, for nobody else would end them.
pub fn forked() {
    LENT.store(0, Ordering::Relaxed);
    restore();
}
