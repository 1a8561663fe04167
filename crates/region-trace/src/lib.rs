//! The runtime of programs with compiled-in events of feature regions (`TRANSECT_SITES=trace`): what the calls at begins
//! and ends of regions lead to. `transect-cc` links one copy into each executable and shared object.
//!
//! It does nothing, and costs a comparison per event, unless the environment names the recorder's memory file. It needs
//! no library: the program may be linked to any libc, or none, statically or not.
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
mod environment;
#[allow(unsafe_code)]
mod runtime;
