//! Linkage plans: found by build-id and file in the recorder's cache, asked for if absent.

use core::sync::atomic::Ordering;

use transect_event_abi::arena::{PATH_CAPACITY, REQUEST_DONE, REQUEST_IDLE, REQUEST_POSTED};
use transect_event_abi::plan::{PLAN_MAGIC, PLAN_VERSION, PlanHeader, PlanReloc, PlanSite, PlanSum};

use crate::arch::syscall as sys;
use crate::{arena, recorder};

/// How long a program waits for a plan before it goes on without, milliseconds.
const PATIENCE_MS: u64 = 3000;
/// Rounds of waiting for another asker.
const ROUND_MS: u64 = 10;

/// A mapped plan file.
pub struct Plan {
    address: u64,
    length: u64,
    /// Function relocations.
    pub relocs: &'static [PlanReloc],
    /// Call sites of slots that are also loaded.
    pub sites: &'static [PlanSite],
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the slices are private to users of this value, which are done.
        unsafe { sys::munmap(self.address, self.length) };
    }
}

/// A path built without allocation.
pub struct PathBuffer {
    /// The path, zero-terminated.
    pub bytes: [u8; PATH_CAPACITY + 96],
    length: usize,
}

impl PathBuffer {
    /// An empty path.
    pub fn empty() -> Self {
        PathBuffer { bytes: [0; PATH_CAPACITY + 96], length: 0 }
    }

    /// Adds to it what fits.
    pub fn push(&mut self, part: &[u8]) {
        for &b in part {
            if self.length + 1 < self.bytes.len() {
                self.bytes[self.length] = b;
                self.length += 1;
            }
        }
    }
    fn push_hex(&mut self, byte: u8) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.push(&[DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]);
    }
}

/// FNV-1a, 64 bits.
fn path_hash(path: &[u8]) -> u64 {
    path.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

/// The plan of an object, waiting for the recorder if it has to be made. `None`: go on without.
pub fn get(path: &[u8], build_id: &[u8]) -> Option<Plan> {
    let dir = &arena::header().plan_dir;
    let file = file_name(&dir[..dir.iter().position(|&b| b == 0).unwrap_or(0)], path, build_id, b".plan");
    if build_id.is_empty() {
        ask(path);
    } else {
        if let Some(plan) = open(&file) {
            return Some(plan);
        }
        if !ask(path) {
            return None;
        }
    }
    open(&file)
}

/// Path of an object's file in a directory: by build-id and what tells files of one build-id apart, or by the object's path
/// if it has none.
pub fn file_name(dir: &[u8], path: &[u8], build_id: &[u8], suffix: &[u8]) -> PathBuffer {
    let mut file = PathBuffer::empty();
    if !build_id.is_empty() {
        file.push(path);
        let stamp = sys::file_stamp(file.bytes.as_ptr()).unwrap_or(0);
        file = PathBuffer::empty();
        file.push(dir);
        file.push(b"/");
        for &b in build_id {
            file.push_hex(b);
        }
        file.push(b"-");
        for b in stamp.to_be_bytes() {
            file.push_hex(b);
        }
    } else {
        file.push(dir);
        file.push(b"/path-");
        for b in path_hash(path).to_be_bytes() {
            file.push_hex(b);
        }
    }
    file.push(suffix);
    file
}

fn open(path: &PathBuffer) -> Option<Plan> {
    let fd = sys::open(path.bytes.as_ptr(), false);
    if fd < 0 {
        return None;
    }
    let mut head = [0u8; size_of::<PlanHeader>()];
    let read = sys::pread(fd, &mut head, 0);
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let magic = word(0) as u64 | (word(4) as u64) << 32;
    let (relocs, sites) = (word(12) as usize, word(16) as usize);
    let length = (size_of::<PlanHeader>() + relocs * size_of::<PlanReloc>() + sites * size_of::<PlanSite>()) as u64;
    if read != head.len() as i64 || magic != PLAN_MAGIC || word(8) != PLAN_VERSION {
        sys::close(fd);
        return None;
    }
    // The file's last byte must be there, else the mapping would end in SIGBUS.
    let whole = length == head.len() as u64 || sys::pread(fd, &mut [0u8; 1], length - 1) == 1;
    // SAFETY: a fresh private mapping.
    let at = if whole { unsafe { sys::mmap(0, length, sys::PROT_READ, sys::MAP_PRIVATE, fd, 0) } } else { -1 };
    sys::close(fd);
    if at <= 0 {
        return None;
    }
    let first = at as u64 + size_of::<PlanHeader>() as u64;
    // SAFETY: the mapping is as long as the header says; plan files are replaced by rename, never truncated.
    let plan = unsafe {
        Plan {
            address: at as u64,
            length,
            relocs: core::slice::from_raw_parts(first as *const PlanReloc, relocs),
            sites: core::slice::from_raw_parts(
                (first + (relocs * size_of::<PlanReloc>()) as u64) as *const PlanSite,
                sites,
            ),
        }
    };
    // SAFETY: records are made of 64-bit words, and the mapping holds nothing else behind its header.
    let words = unsafe { core::slice::from_raw_parts(first as *const u64, (length as usize - head.len()) / 8) };
    let sum = words.iter().fold(PlanSum::of_counts(relocs as u32, sites as u32), |sum, &word| sum.with(word));
    // A damaged plan is asked for again.
    (sum.value() == word(core::mem::offset_of!(PlanHeader, sum))).then_some(plan)
}

/// Opens any file as a plan and looks at all of it.
#[cfg(feature = "fuzzing")]
pub fn fuzz(path: &[u8]) -> Option<(usize, usize)> {
    let mut file = PathBuffer::empty();
    file.push(path);
    let plan = open(&file)?;
    let words = plan.relocs.iter().fold(0u64, |sum, r| sum.wrapping_add(r.first_site.into()));
    core::hint::black_box(plan.sites.iter().fold(words, |sum, s| sum.wrapping_add(s.displacement_vaddr)));
    Some((plan.relocs.len(), plan.sites.len()))
}

/// Asks the recorder for an object's plans; true once they are in place.
pub fn ask(path: &[u8]) -> bool {
    let h = arena::header();
    let request = &h.request;
    if h.recorder_gone.load(Ordering::Relaxed) != 0 || path.is_empty() || path.len() >= PATH_CAPACITY {
        return false;
    }
    let me = sys::gettid();
    let mut waited = 0;
    while request.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        if waited >= PATIENCE_MS || recorder::is_stopped_after(waited) {
            return false;
        }
        let other = request.owner.load(Ordering::Relaxed);
        if other != 0 {
            sys::futex_wait(request.owner.as_ptr(), other, ROUND_MS);
        }
        waited += ROUND_MS;
    }
    for (i, cell) in request.path.iter().enumerate() {
        let mut word = 0u64;
        for j in 0..8 {
            word |= (path.get(i * 8 + j).copied().unwrap_or(0) as u64) << (8 * j);
        }
        cell.store(word, Ordering::Relaxed);
        if i * 8 > path.len() {
            break;
        }
    }
    request.state.store(REQUEST_POSTED, Ordering::Release);
    h.attention.fetch_add(1, Ordering::Release);
    sys::futex_wake(h.attention.as_ptr());
    let mut waited = 0;
    while request.state.load(Ordering::Acquire) == REQUEST_POSTED {
        if !recorder::lives() {
            break;
        }
        if waited >= PATIENCE_MS {
            // Nobody answers: say so once, for all.
            h.recorder_gone.store(1, Ordering::Relaxed);
            break;
        }
        if recorder::is_stopped_after(waited) {
            // It may go on later, and answers then.
            break;
        }
        sys::futex_wait(request.state.as_ptr(), REQUEST_POSTED, ROUND_MS);
        waited += ROUND_MS;
    }
    let done = request.state.swap(REQUEST_IDLE, Ordering::AcqRel) == REQUEST_DONE;
    request.owner.store(0, Ordering::Release);
    sys::futex_wake(request.owner.as_ptr());
    done
}
