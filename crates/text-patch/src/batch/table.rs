//! The windows that are being written, for the handlers of signals: published before the first store, taken back when
//! nobody reads them any more.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crate::Window;
use crate::arch::{store, syscall};
use crate::emulate::{self, Effect};
use crate::tasks;

/// A signal's handler reads these through a pointer, so they stay where they are while published.
pub struct Table {
    windows: *const Window,
    count: usize,
    /// Threads that met INT3.
    trapped: AtomicU64,
}

static CURRENT: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());
static READERS: AtomicU32 = AtomicU32::new(0);

impl Table {
    /// A table of windows sorted by address.
    pub fn new(windows: &[Window]) -> Self {
        Self { windows: windows.as_ptr(), count: windows.len(), trapped: AtomicU64::new(0) }
    }

    /// Threads that met INT3 and were led around it.
    pub fn trapped(&self) -> usize {
        self.trapped.load(Ordering::Relaxed) as usize
    }

    fn window(&self, i: usize) -> &Window {
        // SAFETY: `i < count`; the slice outlives the table's publication, and nobody changes it meanwhile.
        unsafe { &*self.windows.add(i) }
    }

    /// The window that holds `address`, its end included if `end`.
    fn find(&self, address: u64, end: bool) -> Option<&Window> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.window(middle).address <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let window = self.window(low.checked_sub(1)?);
        (address - window.address < u64::from(window.length) + u64::from(end)).then_some(window)
    }

    /// True if `address` is in a window or directly behind one.
    pub fn touches(&self, address: u64) -> bool {
        self.find(address, true).is_some()
    }

    /// Where a thread must go on whose program counter is at an interior start of a window.
    pub fn moved(&self, pc: u64) -> Option<u64> {
        let window = self.find(pc, false)?;
        let i = (pc - window.address) as usize;
        (i != 0 && window.starts >> i & 1 != 0 && window.moves[i] != 0).then(|| window.moves[i])
    }

    /// What a thread must do that met INT3 at `address`.
    fn lead(&self, address: u64) -> Option<Effect> {
        let window = self.find(address, false)?;
        let i = (address - window.address) as usize;
        if i != 0 {
            return self.moved(address).map(Effect::Go);
        }
        first_effect(window)
    }

    /// Moves program counters in signal frames on a stack from `sp` upwards: threads inside of an application's handler
    /// will return to them. A frame is known by a program counter, flags and segments in a row, as the kernel lays
    /// them. Returns how many were moved.
    pub fn move_saved(&self, sp: u64) -> usize {
        // Handlers seldom have deeper stacks; and little at a time, for this may run on a small alternate stack.
        const DEPTH: u64 = 128 << 10;
        const PIECE: u64 = 512;
        let mut moved = 0;
        let mut from = sp & !7;
        for _ in 0..4 {
            let end = (from & !(PIECE - 1)) + DEPTH;
            let mut other_stack = 0;
            let mut at = from;
            let mut behind = [0u64, 0, 0]; // the three words before
            while at < end {
                let mut piece = core::mem::MaybeUninit::<[u8; PIECE as usize]>::uninit();
                let length = (PIECE - at % PIECE) as usize;
                // SAFETY: bytes may be uninitialized: only those that were read are looked at.
                let buffer = unsafe { core::slice::from_raw_parts_mut(piece.as_mut_ptr().cast::<u8>(), length) };
                let Ok(n) = syscall::read_own_memory(at, buffer) else { break };
                for i in 0..n / 8 {
                    // SAFETY: read before.
                    let word = unsafe { store::load_8(buffer.as_ptr() as u64 + i as u64 * 8) };
                    let [stack, pc, flags] = behind;
                    // cs is 0x33 in 64-bit code; bit 1 of the flags is always set, the upper half never.
                    if word & 0xFFFF == 0x33 && flags >> 22 == 0 && flags & 2 != 0 {
                        if let Some(target) = self.moved(pc) {
                            // SAFETY: a saved register of a frame that nobody returns through while its handler runs.
                            unsafe { store::store_8(at + i as u64 * 8 - 16, target) };
                            moved += 1;
                        }
                        if !(from..end).contains(&stack) {
                            other_stack = stack;
                        }
                    }
                    behind = [pc, flags, word];
                }
                if n < length {
                    break;
                }
                at += length as u64;
            }
            if other_stack == 0 || other_stack % 8 != 0 {
                break;
            }
            from = other_stack;
        }
        moved
    }
}

/// What a thread does that meets INT3 at a window's beginning.
pub fn first_effect(window: &Window) -> Option<Effect> {
    if window.moves[0] != 0 && window.moves[0] != window.address {
        return Some(Effect::Go(window.moves[0]));
    }
    let length = usize::from(window.length);
    emulate::effect(window.old.get(..length)?, window.address)
        .or_else(|| emulate::effect(window.new.get(..length)?, window.address))
}

/// Shows a table to the handlers of signals.
///
/// # Safety
/// The table and its windows stay as they are until [`take_back`].
pub unsafe fn publish(table: &Table) {
    CURRENT.store(core::ptr::from_ref(table).cast_mut(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Takes the table back and waits until no handler reads it.
pub fn take_back() {
    CURRENT.store(core::ptr::null_mut(), Ordering::SeqCst);
    while READERS.load(Ordering::SeqCst) != 0 {
        syscall::sched_yield();
    }
}

/// Runs `look` on the published table, if there is one.
pub fn with_current<T>(look: impl FnOnce(&Table) -> Option<T>) -> Option<T> {
    READERS.fetch_add(1, Ordering::SeqCst);
    let table = CURRENT.load(Ordering::SeqCst);
    // SAFETY: the one who takes it back waits for readers.
    let found = unsafe { table.as_ref() }.and_then(look);
    READERS.fetch_sub(1, Ordering::SeqCst);
    found
}

/// For the handler of SIGTRAP: what to do about INT3 at `address`.
pub fn lead(address: u64) -> Option<Effect> {
    with_current(|table| {
        let effect = table.lead(address)?;
        table.trapped.fetch_add(1, Ordering::Relaxed);
        Some(effect)
    })
}

/// True if no batch is at work.
#[inline]
pub fn is_empty() -> bool {
    CURRENT.load(Ordering::SeqCst).is_null()
}

/// True if a batch writes to this range at the moment.
pub fn overlaps(start: u64, end: u64) -> bool {
    with_current(|table| (start..end).any(|address| table.find(address, false).is_some()).then_some(())).is_some()
}

/// In a fork's child: writes the rest of a batch that was under way in the parent, of whose threads only this one lives
/// here.
pub fn complete_after_fork() {
    READERS.store(0, Ordering::SeqCst); // the parent's other threads
    // It is published until all is written: what is called here may hold INT3.
    // SAFETY: the parent's table, copied with all memory while it was published.
    let Some(table) = (unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }) else { return };
    let range = |i: usize| {
        let window = table.window(i);
        (window.address, window.address + u64::from(window.length))
    };
    let opened = crate::writable::Writer::open(table.count, &range, crate::writable::Access::Auto);
    let Ok(mut writer) = opened else { return };
    let mask = syscall::signal_mask(syscall::SignalMask::Set, !tasks::signal_bit(crate::arch::signal::SIGTRAP));
    for i in 0..table.count {
        let window = table.window(i);
        // SAFETY: no other thread exists.
        unsafe {
            writer.bytes(window.address + 1, &window.new[1..usize::from(window.length)]);
            writer.byte(window.address, window.new[0]);
        }
    }
    crate::arch::serialize_here();
    CURRENT.store(core::ptr::null_mut(), Ordering::SeqCst);
    writer.close();
    syscall::signal_mask(syscall::SignalMask::Set, mask);
}
