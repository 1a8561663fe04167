/* Numbers of threads and processes as a pid namespace has them. */
#ifndef TRANSECT_TASK_NUMBER_H
#define TRANSECT_TASK_NUMBER_H

/* A task's number in the pid namespace; the initial namespace's if it is not in there. */
static __always_inline __s32 number_in(struct task_struct *task, __u32 namespace)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level = BPF_CORE_READ(pid, level), i;
	struct upid *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);

	for (i = 0; i < 8 && i <= level; i++) {
		struct upid *at = (void *)numbers + i * bpf_core_type_size(struct upid);

		if (BPF_CORE_READ(at, ns, ns.inum) == namespace)
			return BPF_CORE_READ(at, nr);
	}
	return BPF_CORE_READ(task, pid);
}

#endif
