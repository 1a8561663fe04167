//! libtransect: probes for C and C++ programs.
