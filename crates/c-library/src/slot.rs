//! The slot of a site: what toggling needs, all of it atomic, in memory that is never unmapped.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use transect_text_patch::CallSite;

use crate::site_info::SiteInfo;

/// Values of [`Slot::state`], as `enum transect_state`.
pub mod state {
    /// Known; the text is as it was.
    pub const FOUND: u32 = 0;
    /// Can be toggled.
    pub const INSTALLED: u32 = 1;
    /// Its object was unloaded.
    pub const GONE: u32 = 2;
    /// The original bytes are back.
    pub const RESTORED: u32 = 3;
}

/// Values of [`Slot::kind`].
pub mod kind {
    /// A jump stands in the text; the trampoline's first word switches.
    pub const TRAMPOLINE: u32 = 0;
    /// The site's own bytes in the text switch.
    pub const TEXT: u32 = 1;
    /// A flag that the library's own code reads.
    pub const FLAG: u32 = 2;
}

/// See the module.
#[repr(C, align(128))]
pub struct Slot {
    /// A [`state`].
    pub state: AtomicU32,
    /// A [`kind`].
    pub kind: AtomicU32,
    /// Where the word that switches is written.
    pub word: AtomicU64,
    /// Its value while on.
    pub on: AtomicU64,
    /// Its value while off.
    pub off: AtomicU64,
    /// Address at which the descriptor is written; 0 before the first installation.
    pub descriptor: AtomicU64,
    /// For [`kind::TEXT`].
    pub call_site: AtomicPtr<CallSite>,
    /// Metadata.
    pub info: AtomicPtr<SiteInfo>,
    /// The handler's number.
    pub handler: AtomicU32,
    /// For [`kind::TEXT`]: what it was last asked to be. For [`kind::FLAG`]: the flag.
    pub wanted: AtomicU32,
    /// Address where the block is executed.
    pub block: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == 128);

impl Slot {
    /// Metadata, if the site exists.
    pub fn info(&self) -> Option<&'static SiteInfo> {
        // SAFETY: set once, from a leaked box.
        unsafe { self.info.load(std::sync::atomic::Ordering::Acquire).as_ref() }
    }
}
