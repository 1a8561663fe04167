/*
 * The kernel's types and fields that the collectors read, by name: offsets are relocated at load time from the running
 * kernel's type information (CO-RE).
 */
#ifndef TRANSECT_KERNEL_TYPES_H
#define TRANSECT_KERNEL_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

#endif
