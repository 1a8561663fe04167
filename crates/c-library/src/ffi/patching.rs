//! Patching of words, calls and windows of the program's own.
