//! Tests against objects of hand-written assembly and of C and C++ with sites by hand: the truth stands in the sources.

mod assembled;
mod control_flow;
mod exceptions;
mod sections;
