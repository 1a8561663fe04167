//! Objects, plans and launches, against compilers, objdump and damaged files.

mod debug_symbols;
mod disassembly;
mod go_functions;
mod launch_check;
mod linkage_kinds;
mod objdump_agreement;
mod plan_file;
mod toolchain;
