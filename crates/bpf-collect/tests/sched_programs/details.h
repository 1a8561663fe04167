/* What tests of single waits set and look at; part of kernel.c. */

#define USER_WORDS 0x10000ul /* address of the program's memory */

static __u32 user_words[16];

/* One datagram socket, as descriptor 5 of whoever uses it. */
#define SOCKET 5
static struct sock sock = { .__sk_common = { .skc_family = AF_INET }, .sk_type = SOCK_DGRAM };
static struct socket socket_of_file = { .sk = &sock };
static struct super_block super_block;
static struct inode socket_inode = { .i_mode = S_IFSOCK, .i_ino = 77, .i_sb = &super_block };
static struct dentry socket_name;
static struct file socket_file = { .f_path = { .dentry = &socket_name }, .f_inode = &socket_inode,
				   .private_data = &socket_of_file };
static struct file *open_files[SOCKET + 1] = { [SOCKET] = &socket_file };
static struct fdtable descriptors = { .max_fds = SOCKET + 1, .fd = open_files };
static struct files_struct files = { .fdt = &descriptors };

void kernel_set_user_words(const __u32 *words, __u32 count)
{
	memset(user_words, 0, sizeof(user_words));
	memcpy(user_words, words, count * sizeof(*words));
}

/* The registers with which the thread is in a system call. */
void kernel_set_call(__u32 index, __s64 number, __u64 first, __u64 second)
{
	struct mock_task *mock = &tasks[index];

	mock->registers.orig_ax = number;
	mock->registers.di = first;
	mock->registers.si = second;
	mock->task.files = &files;
}

/* By the kernel's own account the thread has had its CPU for so long since it got it. */
void kernel_set_ran(__u32 index, __u64 ns)
{
	tasks[index].task.se.prev_sum_exec_runtime = 0;
	tasks[index].task.se.sum_exec_runtime = ns;
}

void kernel_connect(__u32 address, __u16 port)
{
	sock.__sk_common.skc_daddr = address;
	sock.__sk_common.skc_dport = __builtin_bswap16(port);
}

void kernel_set_with_stacks(int stacks)
{
	with_stacks = stacks;
}

void kernel_set_with_queued(int queued)
{
	with_queued = queued;
}

/* The wait that has just ended, or the preemption, had this stack. */
void kernel_set_queued_stack(__u32 index, __u64 wait, __u64 preempted)
{
	struct sched_slot *slot = slot_of(&tasks[index].task);

	slot->wait.stack = wait;
	slot->preempted_stack = preempted;
	slot->preempted_since = preempted ? bpf_ktime_get_ns() : 0;
}

/* The thread's last wake-up had this stack, and somebody waits for one. */
void kernel_set_burst_stack(__u32 index, __u64 id)
{
	struct sched_slot *slot = slot_of(&tasks[index].task);

	slot->burst_stack = id;
	slot->stack_wanted = 1;
}

/* The stack for those who wanted it; 0 if it was not answered. */
__u64 kernel_answer(__u32 index)
{
	struct sched_slot *slot = slot_of(&tasks[index].task);

	return slot->stack_wanted ? 0 : slot->answer_stack;
}

void kernel_fill_published(void)
{
	struct sched_published *pages = published_pages();
	__u32 i;

	for (i = 0; i < SCHED_PUBLISHED_THREADS; i++)
		pages->threads[i].key = ~0ull;
}

__u64 kernel_unpublished(void)
{
	return lost.unpublished;
}

/* The task number of a thread id, in a process or in any; 0 if none has it. */
__u32 kernel_named(__s32 tgid, __s32 tid)
{
	__u64 key = tid_key(tgid, tid);
	__u32 *number = bpf_map_lookup_elem(&slot_by_tid, &key);
	struct sched_slot *slot = number ? slot_numbered(*number) : 0;

	return slot ? slot->task : 0;
}
