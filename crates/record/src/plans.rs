//! Answers to the agent's requests for linkage plans.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::thread::futex;
use transect_binary_info::PlanCache;
use transect_event_abi::arena::{REQUEST_DONE, REQUEST_FAILED, REQUEST_POSTED};

use crate::arena::Arena;
use crate::static_components::StaticComponents;

/// Makes plans on demand.
pub struct Plans<'a> {
    cache: PlanCache,
    statics: Option<&'a StaticComponents>,
}

impl<'a> Plans<'a> {
    /// With a cache directory of one's own, or the user's, and what the recording knows of static components.
    pub fn new(cache: PlanCache, statics: Option<&'a StaticComponents>) -> Plans<'a> {
        Plans { cache, statics }
    }

    /// Answers the request in the mailbox, if there is one.
    pub fn answer(&self, arena: &Arena) {
        let request = &arena.header().request;
        if request.state.load(Ordering::Acquire) != REQUEST_POSTED {
            // An asker that died holds the mailbox: free it.
            let owner = request.owner.load(Ordering::Acquire);
            if owner != 0 && !Path::new(&format!("/proc/{owner}")).exists() {
                let _ = request.owner.compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
            return;
        }
        let bytes: Vec<u8> =
            request.path.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).take_while(|&b| b != 0).collect();
        let path = PathBuf::from(OsStr::from_bytes(&bytes));
        let done = self.cache.ensure(&path).is_ok();
        if let Some(statics) = self.statics {
            statics.ensure(&path);
        }
        let state = if done { REQUEST_DONE } else { REQUEST_FAILED };
        let _ = request.state.compare_exchange(REQUEST_POSTED, state, Ordering::AcqRel, Ordering::Relaxed);
        let _ = futex::wake(&request.state, futex::Flags::empty(), i32::MAX as u32);
    }
}
