//! The image that is mapped into a running process to count its calls between components: a stub for each linkage slot, which
//! adds one to a counter of the calling thread and goes on to where the slot led.
//!
//! No system call, no lock, no library, no thread-local storage, and nothing left on a stack: a filter of system calls does not
//! matter, and the image can be taken out once no thread stands in it. The recorder writes all tables from outside.
#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Nothing in here panics; there is nobody to tell.
    loop {
        core::hint::spin_loop();
    }
}

#[allow(unsafe_code)]
mod arch;

pub use arch::transect_flow_image;

/// A thread's first call.
#[allow(unsafe_code)]
mod enter {
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use transect_event_abi::arena::{ArenaHeader, EXTENT_SIZE, EXTENT_THREAD};
    use transect_event_abi::flow_image::THREADS;
    use transect_event_abi::process::{ProcessHeader, unprofiled};
    use transect_event_abi::thread::{COUNTERS_OFFSET, FlowCounters, THREAD_LIVE, ThreadHeader};

    use crate::arch;

    /// Whether this process has said that it is a child which nobody records.
    static SAID: AtomicU32 = AtomicU32::new(0);

    /// Counts a call through `slot` on a thread that had no counters.
    ///
    /// # Safety
    /// Called by a stub's way in only: the settings have been filled in.
    pub unsafe extern "C" fn enter(slot: u32) {
        // SAFETY: the table and the arena are mapped for as long as the image; a cell is written by its thread alone, and a
        // signal handler's call that comes between makes counters of its own, which the recorder adds up.
        unsafe {
            let number = arch::number();
            let table = arch::settings().table.load(Ordering::Relaxed) as *const AtomicU64;
            let cell = &*table.add(number as usize);
            let known = cell.load(Ordering::Relaxed) as *mut FlowCounters;
            let counters = if known.is_null() { begin(number, &*table.add(THREADS)) } else { known };
            if counters.is_null() {
                return;
            }
            cell.store(counters as u64, Ordering::Relaxed);
            arch::add_one(&(*counters.add(slot as usize)).issued);
        }
    }

    /// Counters for the calling thread; null if there is no room at the moment: then this call is in no flow.
    unsafe fn begin(number: u32, not_a_child: &AtomicU64) -> *mut FlowCounters {
        let settings = arch::settings();
        let arena = settings.arena.load(Ordering::Relaxed) as *mut u8;
        let process = settings.process.load(Ordering::Relaxed);
        // SAFETY: all of the arena is mapped; its extent 0 begins with the header, and the process has an extent.
        let (head, own) = unsafe {
            let own = arena.add(process as usize * EXTENT_SIZE);
            (&*arena.cast::<ArenaHeader>(), &*own.cast::<ProcessHeader>())
        };
        if not_a_child.load(Ordering::Relaxed) == 0 {
            if SAID.swap(1, Ordering::Relaxed) == 0 {
                own.unprofiled[unprofiled::NOT_FOLLOWED].fetch_add(1, Ordering::Relaxed);
            }
            return arch::lost();
        }
        let Some(index) = head.take(EXTENT_THREAD) else {
            own.late_calls.fetch_add(1, Ordering::Relaxed);
            return core::ptr::null_mut();
        };
        // SAFETY: the extent was taken for this thread just now.
        unsafe {
            let extent = arena.add(index as usize * EXTENT_SIZE);
            let thread = &*extent.cast::<ThreadHeader>();
            thread.process.store(process as u32, Ordering::Relaxed);
            thread.tid.store(number, Ordering::Relaxed);
            thread.state.store(THREAD_LIVE, Ordering::Release);
            extent.add(COUNTERS_OFFSET).cast()
        }
    }
}
