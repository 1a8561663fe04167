/* What a thread waits for: the registers it entered the kernel with, the descriptor's object, the lock's owner. */
#ifndef TRANSECT_SCHED_WAIT_H
#define TRANSECT_SCHED_WAIT_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_follow.h"
#include "sched_slot.h"
#include "sched_stack.h"

#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFLNK 0120000

#define SOCK_DGRAM 2
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

#define TS_COMPAT 2
#define PF_IO_WORKER 0x10
#define TASK_HELD 0xc /* __TASK_STOPPED | __TASK_TRACED */
#define SYSTEM_CALL_CLONE 56
#define SYSTEM_CALL_FORK 57
#define SYSTEM_CALL_VFORK 58
#define SYSTEM_CALL_FUTEX 202
#define SYSTEM_CALL_CLONE3 435
#define SYSTEM_CALL_FUTEX_WAITV 449
#define FUTEX_COMMAND 127
#define FUTEX_PRIVATE 128
#define FUTEX_TID_MASK 0x3fffffff
#define FUTEX_WAITERS 0x80000000
#define RWLOCK_STATES 3 /* the greatest word of a glibc rwlock that is waited for */

/* System calls of x86-64 whose first argument is a descriptor and that can block, by number. */
static const __u64 takes_descriptor[8] = {
	/* read write close lseek(no) ioctl pread64 pwrite64 readv writev; sendfile connect accept sendto recvfrom sendmsg
	 * recvmsg */
	1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 16 | 1ULL << 17 | 1ULL << 18 | 1ULL << 19 | 1ULL << 20 | 1ULL << 40 |
		1ULL << 42 | 1ULL << 43 | 1ULL << 44 | 1ULL << 45 | 1ULL << 46 | 1ULL << 47,
	/* fcntl flock fsync fdatasync ftruncate getdents */
	1ULL << (72 - 64) | 1ULL << (73 - 64) | 1ULL << (74 - 64) | 1ULL << (75 - 64) | 1ULL << (77 - 64) |
		1ULL << (78 - 64),
	0,
	/* getdents64 epoll_wait */
	1ULL << (217 - 192) | 1ULL << (232 - 192),
	/* sync_file_range epoll_pwait fallocate accept4 preadv pwritev recvmmsg syncfs sendmmsg */
	1ULL << (277 - 256) | 1ULL << (281 - 256) | 1ULL << (285 - 256) | 1ULL << (288 - 256) |
		1ULL << (295 - 256) | 1ULL << (296 - 256) | 1ULL << (299 - 256) | 1ULL << (306 - 256) | 1ULL << (307 - 256),
	/* copy_file_range preadv2 pwritev2 */
	1ULL << (326 - 320) | 1ULL << (327 - 320) | 1ULL << (328 - 320),
	/* io_uring_enter epoll_pwait2 */
	1ULL << (426 - 384) | 1ULL << (441 - 384),
	0,
};

SCHED_INLINE bool first_argument_is_descriptor(__s64 number)
{
	return number >= 0 && number < 512 && (takes_descriptor[(number >> 6) & 7] >> (number & 63) & 1);
}

/* Whom a socket is connected to. */
static __always_inline __u64 peer_hash(struct sock *sock)
{
	__u64 address[2] = {};

	BPF_CORE_READ_INTO(&address, sock, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	address[0] = hash_frame(address[0], address[1]);
	return hash_frame(address[0], (__u64)BPF_CORE_READ(sock, __sk_common.skc_daddr) << 16 |
					      BPF_CORE_READ(sock, __sk_common.skc_dport));
}

/* A socket's family, ports and peer. */
static __always_inline void describe_socket(struct sched_slot *slot, struct file *file)
{
	struct sched_object *object = &slot->wait.object;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	__u16 family = BPF_CORE_READ(sock, __sk_common.skc_family);

	slot->datagrams = BPF_CORE_READ(sock, sk_type) == SOCK_DGRAM ? (__u64)sock : 0;
	if (slot->datagrams)
		slot->datagrams_peer = peer_hash(sock);
	object->type = SCHED_OBJECT_SOCKET_OTHER;
	if (family == AF_INET || family == AF_INET6) {
		object->type = family == AF_INET ? SCHED_OBJECT_SOCKET_INET : SCHED_OBJECT_SOCKET_INET6;
		object->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
		object->peer_port = bpf_ntohs(BPF_CORE_READ(sock, __sk_common.skc_dport));
		if (family == AF_INET) {
			__be32 peer = BPF_CORE_READ(sock, __sk_common.skc_daddr);

			__builtin_memcpy(object->peer, &peer, sizeof(peer));
		} else {
			BPF_CORE_READ_INTO(&object->peer, sock, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
		}
	} else if (family == AF_UNIX) {
		object->type = SCHED_OBJECT_SOCKET_UNIX;
		if (bpf_core_type_exists(struct unix_sock)) {
			struct unix_sock *own = (struct unix_sock *)sock;
			struct unix_sock *other = (struct unix_sock *)BPF_CORE_READ(own, peer);
			struct unix_address *address = BPF_CORE_READ(own, addr);

			if (!address && other)
				address = BPF_CORE_READ(other, addr);
			/* A name in the abstract begins with a zero. */
			if (address && bpf_probe_read_kernel_str(object->name, sizeof(object->name), &address->name[0].sun_path) == 1 &&
			    bpf_probe_read_kernel_str(object->name + 1, sizeof(object->name) - 1, &address->name[0].sun_path[1]) > 1)
				object->name[0] = '@';
			if (other) {
				__u64 inode = BPF_CORE_READ((struct sock *)other, sk_socket, file, f_inode, i_ino);

				__builtin_memcpy(object->peer, &inode, sizeof(inode));
			}
		}
	}
}

/* What a descriptor of the thread refers to. Threads wait for the same one again and again: what is known of it is kept as
 * long as the descriptor means the same file. Not static: see unwind.bpf.h. */
__noinline int describe_object(struct sched_slot *slot, __s32 descriptor)
{
	struct sched_object *object;
	struct fdtable *table;
	struct file **files;
	struct file *file = 0;
	struct inode *inode;
	__u64 name;
	__u16 mode;

	if (!slot)
		return 0;
	object = &slot->wait.object;
	table = BPF_CORE_READ(task_of(slot), files, fdt);
	files = BPF_CORE_READ(table, fd);
	if (descriptor < 0 || (__u32)descriptor >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), &files[descriptor]) || !file) {
		__builtin_memset(object, 0, sizeof(*object));
		slot->object_file = 0;
		object->fd = descriptor;
		return 0;
	}
	inode = BPF_CORE_READ(file, f_inode);
	/* What was closed and opened again may be at the same addresses: its name tells. */
	name = 0;
	if (object->type == SCHED_OBJECT_FILE || object->type == SCHED_OBJECT_ANONYMOUS || slot->object_file != (__u64)file)
		name = BPF_CORE_READ(file, f_path.dentry, d_name.hash_len);
	if (slot->object_file == (__u64)file && slot->object_inode == (__u64)inode && object->fd == descriptor &&
	    (!name || slot->object_name == name) &&
	    (!slot->datagrams || peer_hash((struct sock *)slot->datagrams) == slot->datagrams_peer))
		return 0;
	slot->datagrams = 0;
	__builtin_memset(object, 0, sizeof(*object));
	slot->object_file = (__u64)file;
	slot->object_inode = (__u64)inode;
	slot->object_name = name;
	object->fd = descriptor;
	mode = BPF_CORE_READ(inode, i_mode);
	object->inode = BPF_CORE_READ(inode, i_ino);
	object->device = BPF_CORE_READ(inode, i_sb, s_dev);
	switch (mode & S_IFMT) {
	case S_IFSOCK:
		describe_socket(slot, file);
		return 0;
	case S_IFIFO:
		object->type = SCHED_OBJECT_PIPE;
		break;
	case S_IFCHR:
		object->type = SCHED_OBJECT_DEVICE;
		break;
	case S_IFREG:
	case S_IFDIR:
	case S_IFBLK:
	case S_IFLNK:
		object->type = SCHED_OBJECT_FILE;
		break;
	default:
		object->type = SCHED_OBJECT_ANONYMOUS;
	}
	bpf_probe_read_kernel_str(object->name, sizeof(object->name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return 0;
}

/* Whether `tid` is a live thread other than the waiter itself: of its process, or of any that is followed if the lock is
 * shared between processes. Then it is the holder. */
__noinline int try_holder(struct sched_slot *slot, __u32 tid, __u32 shared)
{
	struct sched_slot *holder;
	__u32 *number;
	__u64 key;

	if (!slot || !tid || (__s32)tid == slot->ns_tid)
		return 0;
	key = tid_key(shared ? 0 : slot->tgid, tid);
	number = bpf_map_lookup_elem(&slot_by_tid, &key);
	holder = number ? slot_numbered(*number) : 0;
	if (!holder)
		return 0;
	slot->wait.owner_tid = tid;
	slot->wait.holder = holder->task;
	slot->holder_slot = holder->number;
	slot->holder_task = holder->task;
	return 1;
}

/*
 * The owner of the lock that a futex belongs to, from the lock's memory. The futex is
 *   - the word of a priority-inheritance lock, which holds the owner itself (futex(2), FUTEX_LOCK_PI);
 *   - the first word of a glibc mutex, whose third is the owner (nptl, struct __pthread_mutex_s);
 *   - the third or fourth word of a glibc rwlock, whose seventh is the writer (struct __pthread_rwlock_arch_t).
 * Whether it was a mutex or a rwlock at all is told later, by the waiter's stack; other locks name no owner.
 */
static __always_inline void find_owner(struct sched_slot *slot, __u64 address, __u32 operation)
{
	__u32 command = operation & FUTEX_COMMAND;
	bool shared = !(operation & FUTEX_PRIVATE);
	__u32 words[7] = {};

	if (bpf_probe_read_user(words, sizeof(words), (void *)address) &&
	    bpf_probe_read_user(words, 3 * sizeof(words[0]), (void *)address))
		return;
	slot->wait.futex_word = words[0];
	if (command == 6 || command == 11 || command == 13) { /* LOCK_PI, WAIT_REQUEUE_PI, LOCK_PI2 */
		try_holder(slot, words[0] & FUTEX_TID_MASK, shared);
		return;
	}
	/* A mutex, or a rwlock that readers hold. */
	if (words[0] == 2) {
		try_holder(slot, words[2], shared);
		return;
	}
	/* A robust mutex holds its owner in the word itself. In a container threads have numbers as small as a rwlock's states. */
	if ((words[0] & FUTEX_WAITERS || words[0] > RWLOCK_STATES) && try_holder(slot, words[0] & FUTEX_TID_MASK, shared))
		return;
	/* Behind the fourth word's writer comes whether processes share the lock. */
	if (!(shared && words[4] == 1) && try_holder(slot, words[4], shared))
		return;
	try_holder(slot, words[3], shared);
}

/* Whether the arguments of a system call say all about the wait. Elsewhere the kernel's half of the stack tells locks
 * from devices. By number: poll select pause nanosleep wait4 rt_sigtimedwait rt_sigsuspend futex epoll_wait
 * clock_nanosleep waitid pselect6 ppoll epoll_pwait epoll_pwait2. */
SCHED_INLINE bool says_all(const struct sched_wait *wait)
{
	static const __u64 calls[8] = {
		1ULL << 7 | 1ULL << 23 | 1ULL << 34 | 1ULL << 35 | 1ULL << 61,
		0,
		1ULL << (128 - 128) | 1ULL << (130 - 128),
		1ULL << (202 - 192) | 1ULL << (230 - 192) | 1ULL << (232 - 192) | 1ULL << (247 - 192),
		1ULL << (270 - 256) | 1ULL << (271 - 256) | 1ULL << (281 - 256),
		0,
		1ULL << (441 - 384),
		0,
	};
	__s64 number = wait->system_call;

	if (number >= 0 && number < 512 && calls[(number >> 6) & 7] >> (number & 63) & 1)
		return true;
	return wait->object.type >= SCHED_OBJECT_PIPE && wait->object.type <= SCHED_OBJECT_ANONYMOUS;
}

/* What the call of a blocked thread waits for, by its registers, which the wait has already. `current`: the thread is the
 * current one, whose memory can be read. */
static __always_inline void describe_call(struct sched_slot *slot, bool current)
{
	struct sched_wait *wait = &slot->wait;
	__s64 number = wait->system_call;

	wait->futex_word = 0;
	wait->owner_tid = 0;
	wait->holder = 0;
	wait->holder_stack = 0;
	slot->holder_slot = 0;
	slot->undetailed = 0;
	if (first_argument_is_descriptor(number)) {
		describe_object(slot, wait->arguments[0]);
		return;
	}
	wait->object.type = SCHED_OBJECT_NONE;
	slot->object_file = 0;
	if (number == SYSTEM_CALL_FUTEX_WAITV) {
		/* Of several the first names the wait: struct futex_waitv has it as its second word. */
		void *first = (void *)(wait->arguments[0] + sizeof(__u64));

		if (!current || bpf_probe_read_user(&wait->arguments[0], sizeof(__u64), first))
			wait->arguments[0] = 0;
	}
	if (number == SYSTEM_CALL_FUTEX && current)
		find_owner(slot, wait->arguments[0], wait->arguments[1]);
}

/* The number of the call that the thread is in, for its wait: a thread of io_uring's has a copy of its maker's registers; the
 * kernel's half of the stack tells. */
SCHED_INLINE __s64 waiting_call(__s32 number, __u32 status, __u32 flags, __u64 r15)
{
	if (own_call_mark && r15 == own_call_mark)
		return -3;
	return status & TS_COMPAT || flags & PF_IO_WORKER || number < -1 ? -2 : number;
}

/* Fills the wait of the current thread, which blocks, and where its user half stands. */
static __always_inline void describe_wait(struct sched_slot *slot, struct user_registers *user)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct sched_wait *wait = &slot->wait;

	wait->system_call = waiting_call(regs->orig_ax, task->thread_info.status, task->flags, regs->r15);
	wait->arguments[0] = regs->di;
	wait->arguments[1] = regs->si;
	wait->arguments[2] = regs->dx;
	wait->arguments[3] = regs->r10;
	wait->user_ip = regs->ip;
	wait->held = !!(task->__state & TASK_HELD);
	/* glibc's vfork keeps its return address in rdi, since the child uses the same stack. */
	user->ip = wait->system_call == SYSTEM_CALL_VFORK ? regs->di : regs->ip;
	user->sp = regs->sp;
	user->bp = regs->bp;
	user->bx = regs->bx;
	describe_call(slot, true);
}

/* The same for another thread, as far as its registers tell. Not static: see unwind.bpf.h. */
__noinline int describe_other(struct sched_slot *slot)
{
	struct task_struct *task;
	struct pt_regs *regs;
	struct sched_wait *wait;

	if (!slot)
		return 0;
	task = task_of(slot);
	regs = registers_saved(slot);
	wait = &slot->wait;
	wait->system_call = waiting_call(BPF_CORE_READ(regs, orig_ax), BPF_CORE_READ(task, thread_info.status),
					 BPF_CORE_READ(task, flags), BPF_CORE_READ(regs, r15));
	wait->arguments[0] = BPF_CORE_READ(regs, di);
	wait->arguments[1] = BPF_CORE_READ(regs, si);
	wait->arguments[2] = BPF_CORE_READ(regs, dx);
	wait->arguments[3] = BPF_CORE_READ(regs, r10);
	wait->user_ip = BPF_CORE_READ(regs, ip);
	wait->held = !!(BPF_CORE_READ(task, __state) & TASK_HELD);
	describe_call(slot, false);
	return 0;
}

#endif
