//! What every other library takes from libc or the language's run time.

core::arch::global_asm!(include_str!("x86_64.s"));
