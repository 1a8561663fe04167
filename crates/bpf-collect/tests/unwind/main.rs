//! User stacks unwound in the kernel, against call chains that are known.
#![allow(missing_docs)]

mod debugger;
mod programs;
mod symbols;
mod taker;
