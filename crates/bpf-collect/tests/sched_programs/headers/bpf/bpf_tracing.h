/* Programs with the arguments of their tracepoint, for a test in user space: plain functions. */
#ifndef TRANSECT_TEST_BPF_TRACING_H
#define TRANSECT_TEST_BPF_TRACING_H

#define BPF_PROG(name, ...) name(void *ctx, __VA_ARGS__)

#endif
