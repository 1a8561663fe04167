/*
 * The kernel's types and fields that the collectors read, by name: offsets are relocated at load time from the running
 * kernel's type information (CO-RE), so only what is read is here, in any order.
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

/* Of the kernel's BPF interface (linux/bpf.h), whose headers a -target bpf compilation does not find everywhere. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_NO_PREALLOC = 1u << 0, BPF_F_MMAPABLE = 1u << 10 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

/* The saved registers as programs of the perf_event type get them (a stable layout of x86-64). */
struct bpf_perf_event_data {
	struct {
		__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
	} regs;
	__u64 sample_period;
};

struct bpf_spin_lock {
	__u32 val;
};

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct pt_regs {
	unsigned long r15, bx, r10, r8, ax, dx, si, di, bp, orig_ax, ip, sp;
};

struct thread_info {
	__u32 status;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct qstr {
	__u64 hash_len;
	const unsigned char *name;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	__u16 i_mode;
	unsigned long i_ino;
	__s64 i_size;
	struct super_block *i_sb;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	struct socket *sk_socket;
};

struct socket {
	struct file *file;
	struct sock *sk;
};

struct sockaddr_un {
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct kernfs_node {
	__u64 id;
	struct kernfs_node *parent;
};

struct kernfs_node___6_15 { /* renamed by commit 633488947ef6 */
	struct kernfs_node *__parent;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_entity {
	__u64 sum_exec_runtime, prev_sum_exec_runtime; /* the second is of when it got its CPU */
	unsigned char sched_delayed; /* since 6.12, commit 152e11f6df29: blocked, but still queued */
};

struct signal_struct {
	int nr_threads;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
};

struct maple_tree {
	void *ma_root;
};

struct mm_struct {
	struct maple_tree mm_mt;
	unsigned long start_code, end_code;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_flags, vm_pgoff;
	struct file *vm_file;
};

struct cpumask {
	unsigned long bits[4];
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	void *stack;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	int prio;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	int exit_state;
	int pagefault_disabled;
	struct sched_entity se;
	int pid, tgid;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct files_struct *files;
	struct css_set *cgroups;
	struct mm_struct *mm;
	char comm[16];
};

struct bpf_iter_meta {
	void *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct linux_binprm;

#ifdef __bpf__
#pragma clang attribute pop
#endif

#endif
