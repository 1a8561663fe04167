//! The recorder's shared memory as this process sees it.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::api_table::{ApiEntry, hash};
use transect_event_abi::arena::{
    API_TABLE_OFFSET, ARENA_MAGIC, ARENA_SIZE, ARENA_VERSION, ArenaHeader, EXTENT_FREE, EXTENT_SIZE, EXTENT_SPARE,
};

use crate::arch::syscall as sys;
use crate::{address_limit, extent_map};

static HEAD: AtomicU64 = AtomicU64::new(0);

/// Maps the arena's head from an open descriptor, and closes that. Returns false if this is not an arena of our version, or has no
/// room. `handed_on`: the limit of the address space has room for it, as the parent was recorded.
pub fn map(fd: i64, handed_on: bool) -> bool {
    // Of a limit that can't be lifted and is not ours, an eighth is taken at most.
    let fits = address_limit::lift(2 * ARENA_SIZE as u64)
        || handed_on
        || sys::address_space_limit() / 8 >= LEAST_EXTENTS * EXTENT_SIZE as u64;
    let mapped = fits && extent_map::start(fd);
    sys::close(fd);
    if !mapped {
        return false;
    }
    let at = extent_map::address(0);
    // SAFETY: the mapping of extent 0.
    let header = unsafe { &*(at as *const ArenaHeader) };
    if header.magic != ARENA_MAGIC || header.version != ARENA_VERSION {
        // SAFETY: nothing refers to it yet.
        unsafe { extent_map::end() };
        return false;
    }
    HEAD.store(at as u64, Ordering::Release);
    true
}

/// The arena's header.
pub fn header() -> &'static ArenaHeader {
    // SAFETY: called after `map` succeeded; never unmapped.
    unsafe { &*(HEAD.load(Ordering::Relaxed) as *const ArenaHeader) }
}

/// Extents kept for threads to come once no more are mapped.
const SPARES: usize = 4;
static SPARE: [AtomicU64; SPARES] = [const { AtomicU64::new(0) }; SPARES];
static LIMITED: AtomicU64 = AtomicU64::new(0);

/// The head, the process', its first thread's and the spares.
const LEAST_EXTENTS: u64 = 3 + SPARES as u64;

/// From here on no more extents are mapped but a few spares: the address space is limited.
pub fn keep_spares() {
    if LIMITED.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    for cell in &SPARE {
        let spare = header().take(EXTENT_SPARE).filter(|&index| extent_map::map(index) || give_back(index));
        cell.store(spare.unwrap_or(0).into(), Ordering::Relaxed);
    }
}

/// Takes an extent for this process. `None` when there is none left for it, or it can't be mapped.
pub fn allocate(kind: u32) -> Option<u32> {
    let limited = LIMITED.load(Ordering::Acquire) != 0;
    let can_use = |index| extent_map::is_mapped(index) || !limited && extent_map::map(index);
    let index = header().take(kind).filter(|&index| can_use(index) || give_back(index));
    // Parent and children of a fork have the same list: who changes the kind, in shared memory, has the extent.
    let spare = |&index: &u32| {
        let kind_of = &header().kind[index as usize];
        index != 0 && kind_of.compare_exchange(EXTENT_SPARE, kind, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let index = index.or_else(|| SPARE.iter().map(|cell| cell.load(Ordering::Relaxed) as u32).find(spare));
    if index.is_none() {
        header().extents_refused.fetch_add(1, Ordering::Relaxed);
    }
    index
}

/// Puts an extent that was not used on the free list; false, for it is not taken.
fn give_back(index: u32) -> bool {
    header().kind[index as usize].store(EXTENT_FREE, Ordering::Release);
    header().put_free(index);
    false
}

/// What the API table says about a name.
pub fn api(name: &[u8]) -> Option<&'static ApiEntry> {
    let len = header().api_table_len as usize;
    if len == 0 || name.is_empty() {
        return None;
    }
    let wanted = hash(name);
    let mut i = wanted as usize & (len - 1);
    for _ in 0..len {
        // SAFETY: the recorder wrote `api_table_len` entries before it started any program.
        let entry = unsafe { &*(extent_map::address(0).add(API_TABLE_OFFSET) as *const ApiEntry).add(i) };
        if entry.hash == 0 {
            return None;
        }
        if entry.hash == wanted
            && name.len() <= entry.name.len()
            && entry.name[..name.len()] == *name
            && (name.len() == entry.name.len() || entry.name[name.len()] == 0)
        {
            return Some(entry);
        }
        i = (i + 1) & (len - 1);
    }
    None
}

/// True if a symbol is to be traced.
pub fn is_traced(name: &[u8]) -> bool {
    let patterns = &header().trace;
    let patterns = &patterns[..patterns.iter().position(|&b| b == 0).unwrap_or(0)];
    !patterns.is_empty() && patterns.split(|&b| b == b'\n').any(|p| glob(p, name))
}

/// Matches `*` (any run) and `?` (one byte).
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&b) if b == b'?' || b == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    p = after;
                    t = from + 1;
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs_match_as_in_a_shell() {
        for (pattern, text, expected) in [
            ("read", "read", true),
            ("read", "readv", false),
            ("str*", "strlen", true),
            ("*mutex*lock", "pthread_mutex_unlock", true),
            ("*mutex_lock", "pthread_mutex_unlock", false),
            ("?ead", "read", true),
            ("", "x", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
