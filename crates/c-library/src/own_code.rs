//! Where this library's own code stands: it is never probed.
//!
//! In libtransect.so that is the whole object. In libtransect.a all code was moved to a section named `transect_text`
//! when the archive was made, for which linkers define two symbols; they are weak, so that the shared library and
//! Rust programs do without.

use std::ops::Range;

use crate::loaded_object::LoadedObject;

core::arch::global_asm!(
    "    .section .text.transect_own_code, \"ax\", @progbits",
    "    .weak __start_transect_text",
    "    .weak __stop_transect_text",
    "    .hidden __start_transect_text",
    "    .hidden __stop_transect_text",
    "    .hidden transect_own_start",
    "    .globl transect_own_start",
    "transect_own_start:",
    "    mov rax, qword ptr [rip + __start_transect_text@GOTPCREL]",
    "    ret",
    "    .hidden transect_own_stop",
    "    .globl transect_own_stop",
    "transect_own_stop:",
    "    mov rax, qword ptr [rip + __stop_transect_text@GOTPCREL]",
    "    ret",
);

unsafe extern "C" {
    fn transect_own_start() -> u64;
    fn transect_own_stop() -> u64;
}

/// The library's code, as addresses.
pub fn range(objects: &[LoadedObject]) -> Range<u64> {
    // SAFETY: both load an address and return.
    let (start, stop) = unsafe { (transect_own_start(), transect_own_stop()) };
    if start != 0 && stop > start {
        return start..stop;
    }
    let own = range as *const () as u64;
    objects
        .iter()
        .find(|object| !object.executable && object.start <= own && own < object.end)
        .map_or(0..0, |object| object.start..object.end)
}

/// An address in the library's code.
pub fn some_address() -> u64 {
    some_address as *const () as u64
}
