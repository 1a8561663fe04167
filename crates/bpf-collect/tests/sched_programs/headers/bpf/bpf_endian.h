#ifndef TRANSECT_TEST_BPF_ENDIAN_H
#define TRANSECT_TEST_BPF_ENDIAN_H

#define bpf_ntohs(value) __builtin_bswap16(value)

#endif
