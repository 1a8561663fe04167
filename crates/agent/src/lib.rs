//! The agent: starts interception in the program it is loaded into, nothing else.
//!
//! It needs no library (`-nostdlib`), is initialised before all other objects (`-z initfirst`), and finds its
//! configuration beside its own path.
#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    transect_intercept::arch::syscall::write_stderr(b"transect: internal error in the agent\n");
    transect_intercept::arch::syscall::exit_group(125)
}

#[allow(unsafe_code)]
mod arch;

/// What sites of feature regions find by name ([`transect_event_abi::context`]).
#[allow(unsafe_code)]
mod export {
    /// See [`transect_event_abi::context::HOOK_SYMBOL`].
    // SAFETY: a name that no program uses.
    #[unsafe(no_mangle)]
    pub static transect_flow_region_hook: unsafe extern "C" fn() = transect_intercept::arch::transect_flow_region;
}

pub use export::transect_flow_region_hook;

/// The constructor and the destructor.
#[allow(unsafe_code)]
mod lifetime {
    extern "C" fn init() {
        // SAFETY: the loader calls constructors once, and this one first.
        unsafe { transect_intercept::start::start() };
    }

    // SAFETY: `.init_array` holds addresses of functions to be called at load; this one fits.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static INIT: extern "C" fn() = init;

    extern "C" fn end() {
        transect_intercept::process::note_end();
    }

    // SAFETY: `.fini_array` holds addresses of functions to be called when the program ends; this one fits.
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static END: extern "C" fn() = end;
}
