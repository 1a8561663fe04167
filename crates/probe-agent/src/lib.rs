//! The image that is loaded into a process to hold its probes' handlers: nothing but `transect-probe`, linked so that
//! it can be mapped by hand. It needs no library and no thread-local storage, and has relative relocations only.
//!
//! Whoever maps it finds everything through the one symbol [`transect_probe_image`].
#![no_std]

use transect_probe::Handler;
use transect_probe::descriptor::Registers;
use transect_probe::frame::{Globals, transect_probe_globals};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Nothing in here panics; there is nobody to tell.
    loop {
        core::hint::spin_loop();
    }
}

/// A handler of the vector tier.
type VectorHandler = extern "C" fn(u32, &Registers, u64, u64) -> u64;

/// What a loader of the image needs: all fields are addresses once relocated.
#[repr(C)]
pub struct ImageTable {
    /// [`Globals`] to fill in before the first site is installed.
    pub globals: &'static Globals,
    /// `transect_probe::unwind::restore`, for `user_enter` of the unwinders' sites.
    pub restore: VectorHandler,
    /// `transect_probe::loader::loader_event`, for `user_enter` of the loader's event function.
    pub loader_event: VectorHandler,
    /// The handlers, in the order of [`Handler::ALL`].
    pub handlers: [unsafe extern "C" fn(); Handler::COUNT],
}

#[allow(unsafe_code)]
mod export {
    use super::{Handler, ImageTable, transect_probe_globals};

    /// See [`ImageTable`].
    // SAFETY: a name that no program uses.
    #[unsafe(no_mangle)]
    pub static transect_probe_image: ImageTable = ImageTable {
        globals: &transect_probe_globals,
        restore: transect_probe::unwind::restore,
        loader_event: transect_probe::loader::loader_event,
        handlers: Handler::CODE,
    };

    // The compiler may call memory functions; here they have nowhere else to come from.
    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(include_str!("../../agent/src/arch/x86_64.s"));
}

pub use export::transect_probe_image;
