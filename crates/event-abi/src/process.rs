//! The extent of one process: its objects, its linkage slots and the clock of active threads.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Linkage slots per process, slot 0 excluded.
pub const SLOT_CAPACITY: usize = 65536;
/// Objects per process.
pub const OBJECT_CAPACITY: usize = 2048;
/// Offset of the [`ObjectRecord`] array in the extent.
pub const OBJECTS_OFFSET: usize = 64 << 10;
/// Offset of the [`SlotRecord`] array.
pub const SLOTS_OFFSET: usize = OBJECTS_OFFSET + OBJECT_CAPACITY * size_of::<ObjectRecord>();
/// Offset of the pool of names asked for with dlsym (zero-terminated strings).
pub const NAMES_OFFSET: usize = SLOTS_OFFSET + SLOT_CAPACITY * size_of::<SlotRecord>();
/// Size of the name pool.
pub const NAMES_CAPACITY: usize = 512 << 10;
/// Offset of the byte sums per slot (`AtomicU64`).
pub const BYTES_OFFSET: usize = NAMES_OFFSET + NAMES_CAPACITY;

/// Process is alive, as far as it knows itself.
pub const PROCESS_LIVE: u32 = 1;

/// Head of a process extent.
#[repr(C)]
pub struct ProcessHeader {
    /// Process id.
    pub pid: AtomicU32,
    /// Parent's process id.
    pub parent_pid: AtomicU32,
    /// A `PROCESS_` value.
    pub state: AtomicU32,
    /// Objects registered.
    pub object_count: AtomicU32,
    /// Slots handed out; slot 0 is never used.
    pub slot_count: AtomicU32,
    /// Bytes used in the name pool.
    pub names_used: AtomicU32,
    /// Time stamp counter at start.
    pub start_ticks: AtomicU64,
    /// Packed state of the active-thread clock: `(ticks since epoch) << 12 | active threads`. With
    /// [`ProcessHeader::active_integral`] one 16-byte unit, changed only by a 16-byte compare-and-swap.
    pub active_packed: AtomicU64,
    /// ∫ dt / max(1, n) up to the time in `active_packed`, ticks.
    pub active_integral: AtomicU64,
    /// Children that run without the agent, by [`unprofiled`] reason.
    pub unprofiled: [AtomicU32; 10],
    /// Calls that found no frame.
    pub frames_refused: AtomicU64,
    /// Slots that found no number left.
    pub slots_refused: AtomicU64,
    /// Histograms handed out (see `thread::HISTOGRAMS_OFFSET`).
    pub histogram_count: AtomicU32,
    /// Cost of one timed call, ticks, measured at start.
    pub timed_call_ticks: AtomicU32,
    /// Time stamp difference that an empty timed call shows, ticks, measured at start.
    pub empty_call_ticks: AtomicU32,
    /// Cost of one timed call that goes through Rust, ticks, measured at start.
    pub sampled_call_ticks: AtomicU32,
    /// What the hold time of a lock shows that is held for nothing, in 1/[`HOLD_SCALE`] ticks, measured at start.
    pub empty_hold: AtomicU32,
    /// How much of a longer hold is hidden in that, because what is done in it goes on meanwhile, in the same unit.
    pub hidden_hold: AtomicU32,
    /// Calls made by threads past their last destructor, in no flow.
    pub late_calls: AtomicU64,
    /// Whose clock of active threads is used: a `CLOCK_` value.
    pub clock: AtomicU32,
    /// Its application with [`CLOCK_KERNEL`].
    pub application: AtomicU32,
    /// Objects loaded after the program restricted its system calls, whose calls are not counted: at most at once.
    pub confined_objects: AtomicU32,
    /// Not 0 once a thread may not read the time stamp counter: from then on calls are counted only.
    pub clock_gone: AtomicU32,
    /// What the agent has taken to start and to hook objects, ticks.
    pub setup_ticks: AtomicU64,
    /// When the program ran the agent's destructor, ticks: its end, if it ends by `exit`. Zero before.
    pub end_ticks: AtomicU64,
    /// Executable path, zero-terminated.
    pub executable: [u8; 1024],
}

/// See [`ProcessHeader::empty_hold`].
pub const HOLD_SCALE: u32 = 16;

/// The agent counts active threads itself.
pub const CLOCK_OWN: u32 = 0;
/// The scheduler collector does ([`crate::published`]).
pub const CLOCK_KERNEL: u32 = 1;
/// The scheduler collector does, but its pages could not be had: the agent counts itself.
pub const CLOCK_LOST: u32 = 2;

/// Limit of the stack (`ulimit -s`) from which the agent is loaded into a program, bytes: with less the loader may run out of it
/// by one library more, of any kind, since the kernel begins a stack up to 8 KiB below its end.
pub const LEAST_STACK: u64 = 64 << 10;

/// Reasons for a child without agent: indices of [`ProcessHeader::unprofiled`].
pub mod unprofiled {
    /// Not a 64-bit x86 ELF program.
    pub const WRONG_CLASS: usize = 0;
    /// Statically linked.
    pub const STATIC: usize = 1;
    /// Set-user-id or set-group-id.
    pub const SETUID: usize = 2;
    /// The agent can't be reached from there (chroot, mount namespace).
    pub const UNREACHABLE: usize = 3;
    /// Following is switched off.
    pub const NOT_FOLLOWED: usize = 4;
    /// No memory left for its records.
    pub const NO_EXTENT: usize = 5;
    /// The program had asked for a filter of its system calls, which may end it for those of the agent.
    pub const CONFINED: usize = 6;
    /// Less than [`super::LEAST_STACK`] of stack.
    pub const SMALL_STACK: usize = 7;
    /// All descriptors are in use: the loader could not open the agent, and would say so.
    pub const NO_DESCRIPTOR: usize = 8;
    /// Another recording begins there: a program has one agent.
    pub const RECORDED: usize = 9;
}

const _: () = assert!(core::mem::offset_of!(ProcessHeader, active_packed) == 32);
const _: () = assert!(size_of::<ProcessHeader>() <= OBJECTS_OFFSET);

/// Object's code was hooked.
pub const OBJECT_HOOKED: u32 = 1;
/// Object has been unloaded.
pub const OBJECT_GONE: u32 = 2;
/// No plan could be had: only `DT_JMPREL` slots are hooked.
pub const OBJECT_NO_PLAN: u32 = 4;
/// The loader, the vDSO or the agent.
pub const OBJECT_SYNTHETIC: u32 = 8;
/// The executable.
pub const OBJECT_EXECUTABLE: u32 = 16;
/// A static component: a part of another object, without an address range of its own.
pub const OBJECT_STATIC: u32 = 32;
/// In a namespace of its own (`dlmopen`): known by name, not hooked.
pub const OBJECT_APART: u32 = 64;

/// One ELF object of the process.
#[repr(C)]
pub struct ObjectRecord {
    /// Load bias.
    pub base: AtomicU64,
    /// First address.
    pub start: AtomicU64,
    /// One past the last address.
    pub end: AtomicU64,
    /// `OBJECT_` bits.
    pub flags: AtomicU32,
    /// Bytes of the build-id.
    pub build_id_len: u32,
    /// GNU build-id.
    pub build_id: [u8; 32],
    /// Slots hooked.
    pub hooked: AtomicU32,
    /// Slots left because their address is taken.
    pub address_taken: AtomicU32,
    /// Slots refused for their calling convention or capacity; of an [`OBJECT_APART`] all.
    pub refused: AtomicU32,
    /// Slots left for want of a plan.
    pub unplanned: AtomicU32,
    /// Slots whose calls stay inside the object.
    pub internal: AtomicU32,
    /// First slot number of the object and how many it has, for reloads.
    pub first_slot: AtomicU32,
    /// Number of slots.
    pub slot_count: AtomicU32,
    /// Index of the object that a static component is part of, plus one; else 0.
    pub parent_plus_one: AtomicU32,
    /// Path, zero-terminated.
    pub path: [u8; 928],
}

const _: () = assert!(size_of::<ObjectRecord>() == 1024);

/// Slot was made for a dlsym result.
pub const SLOT_DLSYM: u8 = 1;
/// Calls stay inside the object: no longer hooked, not to be reported.
pub const SLOT_INTERNAL: u8 = 2;
/// A later dlsym requester shares this slot.
pub const SLOT_SHARED: u8 = 4;
/// Slot stands for a function of a static component: its symbol is that of `target`'s address in the callee.
pub const SLOT_STATIC: u8 = 8;
/// Every call takes a frame, whatever the timing.
pub const SLOT_FRAMED: u8 = 16;

/// One linkage slot.
#[repr(C)]
pub struct SlotRecord {
    /// Index of the calling object.
    pub caller: AtomicU16,
    /// Index of the object that holds the target plus one; 0 = unknown.
    pub callee_plus_one: AtomicU16,
    /// Index in the caller's dynamic symbol table, or offset in the name pool ([`SLOT_DLSYM`]).
    pub symbol: AtomicU32,
    /// Class, handler, `SLOT_` flags, size argument: one byte each, lowest first.
    pub kind: AtomicU32,
    /// Histogram number plus one; 0 = none.
    pub histogram_plus_one: AtomicU32,
    /// Address of the target once known.
    pub target: AtomicU64,
    /// Address of the slot itself.
    pub address: AtomicU64,
}

const _: () = assert!(size_of::<SlotRecord>() == 32);
const _: () = assert!(BYTES_OFFSET + SLOT_CAPACITY * 8 <= crate::arena::EXTENT_SIZE);
