//! The image that is loaded into a process to hold its probes' handlers.
#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
