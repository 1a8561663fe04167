//! Loops that wait for another thread.

use transect_binary_info::Object;

/// True if the instruction at `vaddr` is in such a loop.
pub fn is_waiting_loop(_object: &Object, _vaddr: u64) -> bool {
    false
}
