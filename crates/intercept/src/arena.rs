//! The recorder's shared memory as this process sees it.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use transect_event_abi::api_table::{ApiEntry, hash};
use transect_event_abi::arena::{
    API_TABLE_OFFSET, ARENA_MAGIC, ARENA_SIZE, ARENA_VERSION, ArenaHeader, EXTENT_CONTEXT, EXTENT_FREE, EXTENT_SIZE,
    EXTENT_SPARE, EXTENT_THREAD,
};

use crate::address_limit;
use crate::arch::syscall as sys;

static BASE: AtomicU64 = AtomicU64::new(0);
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Where the first extent is mapped of an arena whose extents are mapped one by one: far from what loaders, heaps, stacks and
/// sanitizers use, for to reserve its addresses would count as address space, too.
const SPARSE_BASE: u64 = 0x3000_0000_0000;
/// The arena's descriptor while its extents are mapped one by one, until the reserve is given up; -1 otherwise.
static SPARSE: AtomicI64 = AtomicI64::new(-1);

/// Maps one extent at its place in an arena that begins at `base`.
fn map_extent(base: u64, index: u32, fd: i64) -> bool {
    let offset = u64::from(index) * EXTENT_SIZE as u64;
    let flags = sys::MAP_SHARED | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
    let rights = sys::PROT_READ | sys::PROT_WRITE;
    // SAFETY: a mapping of a shared file where nothing is.
    let at = unsafe { sys::mmap(base + offset, EXTENT_SIZE as u64, rights, flags, fd, offset) };
    if at > 0 && at as u64 != base + offset {
        // A kernel without MAP_FIXED_NOREPLACE took it as a hint.
        // SAFETY: just mapped.
        unsafe { sys::munmap(at as u64, EXTENT_SIZE as u64) };
    }
    at as u64 == base + offset
}

/// Maps the arena from an open descriptor, and closes that now or when the reserve is given up. Returns false if this is not
/// an arena of our version, or has no room. `handed_on`: the limit of the address space has room for it, as the parent was recorded.
pub fn map(fd: i64, handed_on: bool) -> bool {
    const RIGHTS: u64 = sys::PROT_READ | sys::PROT_WRITE;
    let mut size = ARENA_SIZE as u64;
    let at = if address_limit::lift(size) {
        // SAFETY: a fresh mapping of a shared file at an address of the kernel's choice.
        unsafe { sys::mmap(0, size, RIGHTS, sys::MAP_SHARED | sys::MAP_NORESERVE, fd, 0) }
    } else {
        // A limit that can't be lifted: of one that is not ours an eighth is taken at most.
        size = EXTENT_SIZE as u64;
        let fits = handed_on || sys::address_space_limit() / 8 >= LEAST_EXTENTS * size;
        if fits && map_extent(SPARSE_BASE, 0, fd) { SPARSE_BASE as i64 } else { -1 }
    };
    if at <= 0 {
        sys::close(fd);
        return false;
    }
    if size == EXTENT_SIZE as u64 {
        SPARSE.store(fd, Ordering::Relaxed);
    } else {
        sys::close(fd);
    }
    sys::dont_dump(at as u64, size);
    // SAFETY: extent 0 is within the mapping.
    let header = unsafe { &*(at as *const ArenaHeader) };
    if header.magic != ARENA_MAGIC || header.version != ARENA_VERSION {
        // SAFETY: nothing refers to it yet.
        unsafe { sys::munmap(at as u64, size) };
        close_sparse();
        return false;
    }
    MAPPED.store(ARENA_SIZE as u64 / EXTENT_SIZE as u64, Ordering::Relaxed);
    BASE.store(at as u64, Ordering::Release);
    true
}

/// The arena's header.
pub fn header() -> &'static ArenaHeader {
    // SAFETY: called after `map` succeeded; never unmapped.
    unsafe { &*(BASE.load(Ordering::Relaxed) as *const ArenaHeader) }
}

/// First byte of an extent.
pub fn extent(index: u32) -> *mut u8 {
    (BASE.load(Ordering::Relaxed) + index as u64 * EXTENT_SIZE as u64) as *mut u8
}

/// Index of the extent that holds an address.
pub fn extent_of(address: *const u8) -> u32 {
    ((address as u64 - BASE.load(Ordering::Relaxed)) / EXTENT_SIZE as u64) as u32
}

/// Index of the extent that holds `address`; `None` if it is not in the arena.
pub fn extent_at(address: *const u8) -> Option<u32> {
    let index = (address as u64).wrapping_sub(BASE.load(Ordering::Relaxed)) / EXTENT_SIZE as u64;
    (index < transect_event_abi::arena::EXTENT_COUNT as u64).then_some(index as u32)
}

/// Extents kept for threads to come once the reserve is given up.
const SPARES: usize = 4;
static SPARE: [AtomicU64; SPARES] = [const { AtomicU64::new(0) }; SPARES];
static LIMITED: AtomicU64 = AtomicU64::new(0);

/// The head, the process', its first thread's and the spares.
const LEAST_EXTENTS: u64 = 3 + SPARES as u64;

/// No more extents are mapped one by one; false if they were not.
fn close_sparse() -> bool {
    let fd = SPARSE.swap(-1, Ordering::AcqRel);
    if fd >= 0 {
        sys::close(fd);
    }
    fd >= 0
}

/// Unmaps all of the arena but this process' own extents and a few spares.
pub fn give_up_reserve() {
    if LIMITED.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    for cell in &SPARE {
        cell.store(allocate_shared(EXTENT_SPARE).unwrap_or(0) as u64, Ordering::Relaxed);
    }
    if close_sparse() {
        return;
    }
    let own = |index: u32| {
        index == crate::process::extent()
            || SPARE.iter().any(|c| c.load(Ordering::Relaxed) == index as u64)
            || matches!(header().kind[index as usize].load(Ordering::Acquire), EXTENT_THREAD | EXTENT_CONTEXT) && {
                // SAFETY: the first word of a thread's or context's extent is its process; 0 while it is set up, by a thread of
                // ours perhaps.
                let process = unsafe { (*(extent(index) as *const AtomicU32)).load(Ordering::Relaxed) };
                process == 0 || process == crate::process::extent()
            }
    };
    let mapped = MAPPED.load(Ordering::Relaxed) as u32;
    let used = header().next_extent.load(Ordering::Acquire).min(mapped);
    for index in (1..used).filter(|&i| !own(i)) {
        // SAFETY: an extent of another process or of nobody: this process has no pointer into it.
        unsafe { sys::munmap(extent(index) as u64, EXTENT_SIZE as u64) };
    }
    // SAFETY: as above.
    unsafe { sys::munmap(extent(used) as u64, (mapped - used) as u64 * EXTENT_SIZE as u64) };
}

/// Takes an extent for this process. `None` when there is none left for it.
pub fn allocate(kind: u32) -> Option<u32> {
    if LIMITED.load(Ordering::Acquire) == 0 {
        return allocate_shared(kind);
    }
    // Parent and children of a fork have the same list: who changes the kind, in shared memory, has the extent.
    let spare = SPARE.iter().map(|c| c.load(Ordering::Relaxed) as u32).filter(|&i| i != 0).find(|&i| {
        header().kind[i as usize].compare_exchange(EXTENT_SPARE, kind, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    if spare.is_none() {
        header().extents_refused.fetch_add(1, Ordering::Relaxed);
    }
    spare
}

/// Takes an extent: from the free list, else from the end. `None` when the arena is used up, or it can't be mapped.
fn allocate_shared(kind: u32) -> Option<u32> {
    let index = take_shared(kind)?;
    let fd = SPARSE.load(Ordering::Acquire);
    if fd < 0 || map_extent(BASE.load(Ordering::Relaxed), index, fd) {
        return Some(index);
    }
    header().extents_refused.fetch_add(1, Ordering::Relaxed);
    None
}

fn take_shared(kind: u32) -> Option<u32> {
    let h = header();
    let mapped = MAPPED.load(Ordering::Relaxed) as u32;
    loop {
        let head = h.free_extents.load(Ordering::Acquire);
        let index = head as u32;
        if index == 0 || index >= mapped {
            break;
        }
        let next = h.next_free[index as usize].load(Ordering::Relaxed);
        let tagged = ((head >> 32).wrapping_add(1) << 32) | next as u64;
        if h.free_extents.compare_exchange(head, tagged, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            h.kind[index as usize].store(kind, Ordering::Release);
            return Some(index);
        }
    }
    let index = h.next_extent.fetch_add(1, Ordering::AcqRel);
    if index >= mapped {
        h.next_extent.fetch_sub(1, Ordering::AcqRel);
        h.extents_refused.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    debug_assert!(h.kind[index as usize].load(Ordering::Relaxed) == EXTENT_FREE);
    h.kind[index as usize].store(kind, Ordering::Release);
    Some(index)
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
        let entry = unsafe { &*(extent(0).add(API_TABLE_OFFSET) as *const ApiEntry).add(i) };
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
