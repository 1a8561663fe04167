//! Values that the kernel's programs wrote, out of their bytes.
#![allow(unsafe_code)]

use crate::skeleton::types::{sched_application, sched_sample, sched_slot, sched_task, sched_unknown_code, sched_wait};

/// A C structure of integers and arrays of them.
///
/// # Safety
/// Every bit pattern must be a value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: generated from C structures that hold integers, arrays of integers and structures of them, no pointers, no
// booleans, no enumerations (sched_abi.h, sched_state.h, sched_maps.h).
unsafe impl Plain for sched_application {}
// SAFETY: as above.
unsafe impl Plain for sched_slot {}
// SAFETY: as above.
unsafe impl Plain for sched_task {}
// SAFETY: as above.
unsafe impl Plain for sched_wait {}
// SAFETY: as above.
unsafe impl Plain for sched_sample {}
// SAFETY: as above.
unsafe impl Plain for sched_unknown_code {}

/// The value at the beginning of `bytes`; `None` if they are too few.
pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: there are enough bytes, `read_unaligned` asks for no alignment, and every bit pattern is a `T` (Plain).
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
