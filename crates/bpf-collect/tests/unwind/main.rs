//! User stacks unwound in the kernel, against call chains that are known.
#![allow(missing_docs)]

mod debugger;
mod programs;
mod stack_reader;
mod symbols;
