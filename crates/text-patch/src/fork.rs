//! What a child made by fork must do before it toggles.
//!
//! Writable aliases of code are shared memory: what a child stores there changes its parent's code. So aliases made by
//! [`crate::writable`] are given anew to a child by [`after_fork`], which the child calls (from an atfork handler,
//! say) before its first toggle. A child that has not is recognized by a page that the kernel clears in children, and
//! its toggles through aliases are refused ([`Refusal::Forked`]). Private text (opened by page protection or
//! `/proc/self/mem`) is copied by the kernel: toggles work at once. Serialization in the parent does not reach the
//! child, and need not: they share no code then.
//!
//! A child of vfork, or a thread made by clone, shares the parent's memory and is not a child in this sense.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::syscall::{self, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::{Refusal, alias, batch, word};

/// Address of a word that is 1 here and 0 in children; 0 if none is needed yet.
static GUARD: AtomicU64 = AtomicU64::new(0);

/// True in a child of a fork that has not called [`after_fork`].
#[inline]
pub fn is_foreign_child() -> bool {
    let guard = GUARD.load(Ordering::Relaxed);
    // SAFETY: the guard's page is never unmapped, and changes by atomic stores and the kernel's clearing only.
    guard != 0 && unsafe { &*(guard as *const AtomicU64) }.load(Ordering::Relaxed) == 0
}

/// Sets the guard up: from now on children are recognized. Done by [`crate::writable::open_for_toggling`] for its aliases;
/// call it for aliases of your own making.
///
/// # Errors
/// [`Refusal::System`] where the kernel can't clear memory in children (before 4.14).
pub fn guard() -> Result<(), Refusal> {
    if GUARD.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let system = |call| move |errno: syscall::Errno| Refusal::System { call, errno: errno.0 };
    // SAFETY: a new mapping.
    let page = unsafe { syscall::mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) }
        .map_err(system("mmap"))?;
    syscall::wipe_on_fork(page, 4096).map_err(system("madvise(MADV_WIPEONFORK)"))?;
    // SAFETY: the page is ours, and was just mapped.
    unsafe { &*(page as *const AtomicU64) }.store(1, Ordering::Release);
    if GUARD.compare_exchange(0, page, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: another thread was first; nobody knows this page.
        unsafe { syscall::munmap(page, 4096) };
    }
    Ok(())
}

/// Gives this child of a fork its own copy of all aliases made by this crate, at the same addresses, and completes a
/// batch or word patch that was under way in the parent. The child has one thread as yet.
///
/// # Errors
/// [`Refusal::System`] if memory can't be mapped; toggles stay refused then.
pub fn after_fork() -> Result<(), Refusal> {
    alias::renew()?;
    let guard = GUARD.load(Ordering::Relaxed);
    if guard != 0 {
        // SAFETY: as above.
        unsafe { &*(guard as *const AtomicU64) }.store(1, Ordering::Release);
    }
    batch::complete_after_fork();
    word::complete_after_fork();
    Ok(())
}
