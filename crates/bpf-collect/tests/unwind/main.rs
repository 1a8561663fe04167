//! User stacks unwound in the kernel, against call chains that are known.
#![allow(missing_docs)]

mod programs;
mod symbols;
mod taker;
