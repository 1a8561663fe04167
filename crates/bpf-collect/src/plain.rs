//! Values that the kernel's programs wrote, out of their bytes.
#![allow(unsafe_code)]

use crate::skeleton::types::{
    sched_application, sched_brief, sched_preempted, sched_sample, sched_slot, sched_task, sched_unknown_code,
    sched_wait, system_call_entries, system_call_state, system_call_sum,
};

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
// SAFETY: as above.
unsafe impl Plain for sched_brief {}
// SAFETY: as above.
unsafe impl Plain for sched_preempted {}

// SAFETY: as above (function_time.h).
unsafe impl Plain for crate::function_time::types::bss {}
// SAFETY: as above.
unsafe impl Plain for crate::function_time::types::timed_thread {}
// SAFETY: as above.
unsafe impl Plain for crate::function_time::types::timed_sums {}
// SAFETY: as above (the collector's variables).
unsafe impl Plain for crate::skeleton::types::bss {}
// SAFETY: as above (system_call_time.h).
unsafe impl Plain for system_call_state {}
// SAFETY: as above.
unsafe impl Plain for system_call_sum {}
// SAFETY: as above.
unsafe impl Plain for system_call_entries {}

/// The value whose first bytes these are; the map that holds a program's variables ends where the last one does, without the
/// structure's padding.
pub(crate) fn read_padded<T: Plain>(bytes: &[u8]) -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let size = bytes.len().min(size_of::<T>());
    // SAFETY: both have `size` bytes and are apart; zero bytes and any others are a `T` (Plain).
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), size);
        value.assume_init()
    }
}

/// The bytes of a value.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `value` lives as long as what is returned; the types are C structures whose padding their definitions fill
    // with fields, or that came from the kernel's bytes by `read`, so that every byte is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// The value at the beginning of `bytes`; `None` if they are too few.
pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: there are enough bytes, `read_unaligned` asks for no alignment, and every bit pattern is a `T` (Plain).
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
