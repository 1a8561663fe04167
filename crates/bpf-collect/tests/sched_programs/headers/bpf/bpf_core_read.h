/* Reads of the kernel's memory, for a test in user space: it is our own. */
#ifndef TRANSECT_TEST_BPF_CORE_READ_H
#define TRANSECT_TEST_BPF_CORE_READ_H

#define MOCK_READ_1(from, a) ((from)->a)
#define MOCK_READ_2(from, a, b) ((from)->a->b)
#define MOCK_READ_3(from, a, b, c) ((from)->a->b->c)
#define MOCK_READ_4(from, a, b, c, d) ((from)->a->b->c->d)
#define MOCK_READ_N(a, b, c, d, name, ...) name
#define BPF_CORE_READ(from, ...) \
	MOCK_READ_N(__VA_ARGS__, MOCK_READ_4, MOCK_READ_3, MOCK_READ_2, MOCK_READ_1)(from, __VA_ARGS__)
#define BPF_CORE_READ_INTO(to, from, ...) \
	__builtin_memcpy(to, &BPF_CORE_READ(from, __VA_ARGS__), sizeof(BPF_CORE_READ(from, __VA_ARGS__)))
#define bpf_core_read(to, size, from) bpf_probe_read_kernel(to, size, (void *)(from))

#endif
