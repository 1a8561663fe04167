/* The kernel's side of the programs, for a test in user space: see ../../kernel.c. */
#ifndef TRANSECT_TEST_BPF_HELPERS_H
#define TRANSECT_TEST_BPF_HELPERS_H

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[]
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __hidden
#define barrier() __asm__ volatile("" ::: "memory")
#define barrier_var(variable) __asm__ volatile("" : "+r"(variable))
#define bpf_core_field_exists(...) 1
#define bpf_core_type_exists(...) 1
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)

/* A map's kind and sizes, from its definition. */
#define MOCK_NUMBER(map, what) (sizeof(*(map)->what) / sizeof(int))
#define bpf_map_lookup_elem(map, key) \
	mock_lookup(map, MOCK_NUMBER(map, type), MOCK_NUMBER(map, max_entries), sizeof(*(map)->value), key)
#define bpf_map_update_elem(map, key, value_, flags) \
	mock_update(map, MOCK_NUMBER(map, type), MOCK_NUMBER(map, max_entries), sizeof(*(map)->value), key, value_)
#define bpf_map_delete_elem(map, key) mock_delete(map, key)
#define bpf_map_push_elem(map, value, flags) mock_push(value)
#define bpf_map_pop_elem(map, value) mock_pop(value)

void *mock_lookup(void *map, unsigned long type, unsigned long entries, unsigned long size, void *key);
long mock_update(void *map, unsigned long type, unsigned long entries, unsigned long size, void *key, void *value);
long mock_delete(void *map, void *key);
long mock_push(void *value);
long mock_pop(void *value);

struct task_struct;
struct bpf_spin_lock;
void *bpf_task_storage_get(void *map, struct task_struct *task, void *value, __u64 flags);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_prandom_u32(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_task_pt_regs(struct task_struct *task);
void bpf_spin_lock(struct bpf_spin_lock *lock);
void bpf_spin_unlock(struct bpf_spin_lock *lock);
long bpf_ringbuf_output(void *ring, void *data, __u64 size, __u64 flags);
void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags);
void bpf_ringbuf_submit(void *data, __u64 flags);
void bpf_ringbuf_discard(void *data, __u64 flags);
long bpf_get_stack(void *context, void *buffer, __u32 size, __u64 flags);
long bpf_seq_printf(void *sequence, char *format, __u32 size, void *data, __u32 length);
long bpf_loop(__u32 count, void *function, void *context, __u64 flags);
long bpf_probe_read_user(void *to, __u32 size, void *from);
long bpf_probe_read_kernel(void *to, __u32 size, void *from);
long bpf_probe_read_kernel_str(void *to, __u32 size, void *from);

#endif
