//! The plan of one object's *static components*: parts of its text that are to be seen as components of their own
//! (a statically linked library, a namespace, a folder of sources).
//!
//! Written by the recorder for one recording, as a file: [`StaticHeader`], then the arrays in the order of its counts,
//! then the region image, then zero-terminated names. The agent maps the region within ±2 GiB of the object, fills in
//! [`StaticFixup`]s, and writes a jump over the first instructions of each [`StaticFunction`]. All fields are
//! little-endian.
//!
//! The region begins with `data_length` bytes of data: a [`StaticRegion`], one [`StaticEntry`] with its slot words per
//! function, one 8-byte cell per [`StaticTwin`]; then the code.

/// `b"TRSTATC1"` as a little-endian integer.
pub const STATIC_MAGIC: u64 = u64::from_le_bytes(*b"TRSTATC1");
/// Layout version.
pub const STATIC_VERSION: u32 = 2;
/// Static components of one object; 0 is the rest of the object.
pub const STATIC_COMPONENT_CAPACITY: usize = 250;
/// Longest window.
pub const STATIC_WINDOW_CAPACITY: usize = 24;

/// Start of a static plan file.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticHeader {
    /// [`STATIC_MAGIC`].
    pub magic: u64,
    /// [`STATIC_VERSION`].
    pub version: u32,
    /// Number of components: ids 1 to this; their names are the first names.
    pub component_count: u32,
    /// Number of [`StaticFunction`] records.
    pub function_count: u32,
    /// Number of [`StaticRange`] records.
    pub range_count: u32,
    /// Number of [`StaticFixup`] records.
    pub fixup_count: u32,
    /// Number of [`StaticTwin`] records.
    pub twin_count: u32,
    /// Number of [`StaticSite`] records.
    pub site_count: u32,
    /// Bytes of the region image, a multiple of the page size.
    pub region_length: u32,
    /// Bytes of data at the region's start, a multiple of the page size; what follows is code.
    pub data_length: u32,
    /// Bytes of names.
    pub names_length: u32,
    /// Unrelocated address of the first byte of text.
    pub text_start: u64,
    /// Bytes from there to the end of the last executable segment.
    pub text_length: u64,
}

/// Head of the region.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticRegion {
    /// Address one past the start of the object's text: subtracted from return addresses, which lie behind the call.
    pub first_return: u64,
    /// Bytes of text.
    pub text_length: u64,
    /// Address of the byte map: the component of each byte of text.
    pub map: u64,
    /// Where entries go that need more than counting.
    pub enter: u64,
}

/// What the entry code of a function knows of it; followed by a `u32` for each calling component of the object (0 = the
/// rest): 64 times the slot number, 0 while there is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticEntry {
    /// Address of the displaced instructions: the function, past its entry code.
    pub displaced: u64,
    /// Address of the function.
    pub entry: u64,
    /// Index of the object in the process.
    pub object: u32,
    /// Id of its component.
    pub component: u32,
    /// Index in the function array.
    pub function: u32,
    /// Zero.
    pub reserved: u32,
}

/// Only counted, never timed: it looks at its return address, or returns twice.
pub const STATIC_COUNT_ONLY: u32 = 1;
/// Every call takes a frame, whatever the timing: the function may jump on to another one through a pointer, whose caller
/// only the frame tells.
pub const STATIC_FRAMED: u32 = 2;

/// One function whose entry is intercepted.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticFunction {
    /// Unrelocated address of the function.
    pub vaddr: u64,
    /// Unrelocated address of the window (after `endbr64`).
    pub window_vaddr: u64,
    /// Offset of the entry code in the region.
    pub code: u32,
    /// Offset of the displaced instructions.
    pub displaced: u32,
    /// Offset of its [`StaticEntry`].
    pub entry: u32,
    /// Its component's id.
    pub component: u32,
    /// Offset of its symbol in the names.
    pub name: u32,
    /// [`STATIC_COUNT_ONLY`], [`STATIC_FRAMED`].
    pub flags: u32,
    /// Bytes of the window, at least five.
    pub window_length: u32,
    /// Zero.
    pub reserved: u32,
    /// What must stand there.
    pub original: [u8; STATIC_WINDOW_CAPACITY],
}

/// A stretch of text that belongs to a component.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticRange {
    /// Unrelocated address.
    pub vaddr: u64,
    /// Bytes.
    pub length: u32,
    /// The component's id.
    pub component: u32,
}

/// [`StaticFixup::kind`]: distance to an address of the object.
pub const FIXUP_OBJECT: u32 = 0;
/// [`StaticFixup::kind`]: thread-local offset of the counters.
pub const FIXUP_COUNTERS: u32 = 1;

/// Four bytes in the region to be filled in.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticFixup {
    /// Their offset in the region.
    pub at: u32,
    /// Offset that a distance counts from.
    pub from: u32,
    /// A `FIXUP_` value.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// Unrelocated address in the object.
    pub target: u64,
}

/// A linkage slot as one static component calls through it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticTwin {
    /// Unrelocated address of the object's slot.
    pub slot_vaddr: u64,
    /// The calling component's id.
    pub component: u32,
    /// Index of its symbol in the object's dynamic symbol table.
    pub symbol: u32,
    /// Offset of its cell in the region.
    pub cell: u32,
    /// Zero.
    pub reserved: u32,
}

/// [`StaticSite::twin`] of a direct call or jump to a function with entry code.
pub const SITE_DIRECT: u32 = u32::MAX;
/// [`StaticSite::twin`] of a direct jump to the object's linkage table, for a symbol that the object itself defines: to
/// be redirected if no other object's definition comes first.
pub const SITE_OWN_ENTRY: u32 = u32::MAX - 1;
/// The same for a `jmp *slot(%rip)`, whose six bytes become a direct jump.
pub const SITE_OWN_SLOT: u32 = u32::MAX - 2;
/// [`StaticSite::twin`] of a jump like those two among displaced instructions, which goes through a cell of the region:
/// `displacement_vaddr` is the cell's offset, `old_target` that of code that goes the file's way.
pub const SITE_OWN_CELL: u32 = u32::MAX - 3;

/// A call or jump that is redirected into the region.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticSite {
    /// Unrelocated address of its displacement, which ends the instruction.
    pub displacement_vaddr: u64,
    /// Where it leads in the file, unrelocated.
    pub old_target: u64,
    /// Where it shall lead: offset in the region.
    pub target: u32,
    /// Index of its [`StaticTwin`], or a `SITE_` value.
    pub twin: u32,
    /// Index in the dynamic symbol table ([`SITE_OWN_ENTRY`], [`SITE_OWN_SLOT`], [`SITE_OWN_CELL`]); else 0.
    pub symbol: u32,
    /// 1: a load of the slot, to be redirected only if the slot holds a stub: then nobody compares what is loaded.
    pub load: u32,
}

const _: () = assert!(size_of::<StaticHeader>() == 64);
const _: () = assert!(size_of::<StaticRegion>() == 32);
const _: () = assert!(size_of::<StaticEntry>() == 32);
const _: () = assert!(size_of::<StaticFunction>() == 72);
const _: () = assert!(size_of::<StaticRange>() == 16);
const _: () = assert!(size_of::<StaticFixup>() == 24);
const _: () = assert!(size_of::<StaticTwin>() == 24);
const _: () = assert!(size_of::<StaticSite>() == 32);
