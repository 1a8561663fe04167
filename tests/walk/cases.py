"""The suite: programs, and the chain that the walk must find in each.

Chains were determined without the walk: the user half is the program's source; on CPUs the kernel half is what
`perf record -g` shows at a quarter of the time and more (Linux 6.18), off CPUs what `bpftrace` takes as stack at
sched_switch, and the source of 6.1 and 6.12 where names differ.
"""
import dataclasses

# In these a thread calls the scheduler on behalf of what is above them: a chain may end in either.
SCHEDULERS = set("schedule_timeout schedule_timeout_uninterruptible schedule_hrtimeout_range schedule_hrtimeout_range_clock schedule_hrtimeout "
                 "io_schedule io_schedule_timeout schedule_preempt_disabled wait_woken poll_schedule_timeout poll_freewait "
                 "bit_wait_io bit_wait do_nanosleep rwsem_down_write_slowpath rwbase_write_lock".split())
# Inlined everywhere: where the work of all is done.
INLINED = {"truth_mixed", "burn"}
ENDS = ("function", "waiting", "spread", "nothing-above-threshold")
FUTEX_WAIT = "futex_do_wait|futex_wait_queue|futex_wait_queue_me"
LIBC_START = {"_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "clone3", "__clone3", "start_thread"}


@dataclasses.dataclass
class Chain:
    """One chain: `path` are names that must come in this order ("a|b": either; "k:read": the kernel's, "u:read": the
    program's), others may be between. `closed`: it ends with the last name (or in the scheduler below it)."""

    path: list
    group: str = "main"
    child: bool = False  # of a process that the program forked
    ends: tuple = ()
    waiting: str = ""  # regular expressions
    woken: str = ""
    closed: bool = False
    # Shares that a function has on this path, of what the program measures of the function as a whole.
    part: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    name: str
    command: list
    chains: list
    options: list = dataclasses.field(default_factory=list)
    disk: bool = False  # needs a file system on a disk
    seconds: float = 2.0
    frames: int = 0  # at least so many, where names are absent
    end_share: str = ""  # a truth that the last frame's share must be, where names are absent
    end_part: float = 1.0
    calls_sampled: bool = False  # system calls come too fast to count them all
    only_chain: bool = False  # nothing else of this group may be above the threshold
    most_cost: float = 0  # what a walk may add to the CPU time of one operation, counted in instructions


def calls(mode, path, name=None, program="system-calls", **more):
    case = {key: more.pop(key) for key in ("options", "disk", "seconds", "only_chain", "most_cost", "calls_sampled") if key in more}
    chains = more.pop("chains", None) or [Chain(["main", *path], **more)]
    return Case(name or f"system call: {mode}", [program, mode], chains, **case)


def shape(mode, *paths, program="shapes", name=None, **more):
    chains = [Chain(["main", *path], ends=more.pop("ends", ("function",)), closed=True, part=more.get("part", {})) for path in paths]
    more.pop("part", None)
    return Case(name or f"shape: {mode}", [program, mode], chains, **more)


def talk(kind, path, waiting):
    return Case(f"talk: {kind}", ["talk", kind], [
        Chain(["main", *path], ends=("waiting",), waiting=waiting, woken="answerer", closed=True),
        Chain(["main", "answer_all", "think"], child=True, ends=("function",)),
    ])


FAULT = ["asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "__handle_mm_fault", "do_anonymous_page"]
DEEP = ["Scene::draw", "Scene::draw_line", "first_pass", "GammaShader::shade", "slow_gamma"]
BUFFERED_WRITE = ["k:pwrite64", "vfs_write", "ext4_buffered_write_iter|shmem_file_write_iter|generic_file_write_iter", "generic_perform_write",
                  "ext4_da_write_begin|ext4_da_write_end|shmem_write_begin|shmem_get_folio_gfp|copy_page_from_iter_atomic|copy_folio_from_iter_atomic"]


def deep(program, name, **more):
    return Case(name, [program], [Chain(["main", *DEEP], ends=("function",), closed=True, part={"slow_gamma": 0.9, "FlatShader::shade": 0.9})], **more)


CASES = [
    # -- The workloads with their fixes -------------------------------------------------------------------------------
    Case("proxy: files are created, filled and unlinked", ["proxy-server"],
         [Chain(["main", "main_loop", "serve_request", "swap_out", "u:pwrite|pwrite64", *BUFFERED_WRITE])], disk=True),
    Case("proxy: the helper's queue is full", ["proxy-server", "--fixed=1"],
         [Chain(["main", "main_loop", "serve_request", "redirect", "wait_for_helper", "u:poll", "k:poll", "do_sys_poll"],
                ends=("waiting",), waiting="poll", woken="url-helper", closed=True)]),
    Case("proxy: with a longer queue it serves", ["proxy-server", "--fixed=2"],
         # Which of the two is longer depends on the machine.
         [Chain(["main", "main_loop", "serve_request", "swap_out|parse_request"])], seconds=1.5),
    Case("out of core: page faults from a file", ["out-of-core"],
         [Chain(["main", "visit", "sum_chunk", "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "__handle_mm_fault", "__do_fault",
                 "filemap_fault", "filemap_read_folio|__folio_lock_or_retry|folio_wait_bit_common"])], disk=True),
    Case("fsync log: each record waits for the disk", ["fsync-log"],
         [Chain(["main", "append_record", "flush_log", "u:fsync", "k:fsync", "ext4_sync_file"], ends=("waiting",), waiting="file-sync|disk", closed=False)], disk=True),
    Case("fsync log: with a group of records they are made", ["fsync-log", "--fixed"],
         [Chain(["main", "make_record"], ends=("function",), closed=True)], disk=True),
    Case("pipe ping-pong: the asker waits, the answerer computes", ["pipe-ping-pong"], [
        Chain(["main", "await_answer", "u:read", "k:read", "vfs_read", "anon_pipe_read|pipe_read"],
              ends=("waiting",), waiting="pipe", woken="answerer", closed=True),
        Chain(["main", "answerer", "compute_answer"], child=True, ends=("function",)),
    ], most_cost=1.0),
    # How the time divides among making, removing and the disk depends on the disk: in some places a chain is worth just a quarter.
    Case("directory lock: two chains into the kernel's lock", ["directory-lock"], options=["--threshold", "10%"], chains=[
        Chain(["spooler", "make_file", "u:open|open64", "k:openat", "do_sys_openat2|do_sys_open", "do_filp_open", "path_openat", "down_write|rwsem_down_write_slowpath"],
              group="spooler", ends=("waiting",), waiting="kernel-lock|lock", woken="spooler", closed=True),
        Chain(["spooler", "remove_file", "u:unlink", "k:unlink", "do_unlinkat", "down_write|rwsem_down_write_slowpath"], group="spooler",
              ends=("waiting",), waiting="kernel-lock|lock", woken="spooler", closed=True),
        Chain(["main", "pthread_join|__pthread_clockjoin_ex", "k:futex", "do_futex", "futex_wait", FUTEX_WAIT], ends=("waiting",), waiting="join", woken="spooler",
              closed=True),
    ], disk=True),
    deep("deep-call", "deep call: behind pointers and virtual calls"),
    Case("deep call: fixed, the other shader holds the time", ["deep-call", "--fixed"],
         [Chain(["main", "Scene::draw", "Scene::draw_line", "first_pass", "FlatShader::shade"], ends=("function",), closed=True,
                part={"FlatShader::shade": 0.9, "slow_gamma": 0.9})]),
    # -- How it was built -----------------------------------------------------------------------------------------------
    deep("deep-call-static", "built: static"),
    deep("deep-call-O0", "built: without optimisation"),
    deep("deep-call-packed", "built: not position-independent, one segment"),
    Case("built: stripped", ["deep-call-stripped"], [Chain([], ends=("function",))], frames=4, end_share="slow_gamma", end_part=0.9),
    Case("built: static and stripped", ["deep-call-static-stripped"], [Chain([], ends=("function",))], frames=4, end_share="slow_gamma",
         end_part=0.9),
    shape("recursion", ["recursion", "descend", "bottom"], program="shapes-static", name="built: static, recursion"),
    shape("two-heavy", ["two_heavy", "left_half"], ["two_heavy", "right_half"], program="shapes-frame-pointer", name="built: frame pointers and no unwind tables"),
    calls("pread", ["read_cached", "pread|pread64|__libc_pread64", "k:pread64", "vfs_read", "filemap_read|shmem_file_read_iter"], name="built: static, into the kernel",
          program="system-calls-static", most_cost=0.05),
    shape("two-heavy", ["two_heavy", "left_half"], ["two_heavy", "right_half"], program="shapes-musl", name="built: static with musl"),
    # -- Shapes of calling ------------------------------------------------------------------------------------------------
    shape("recursion", ["recursion", "descend", "bottom"]),
    Case("shape: deep", ["shapes", "deep"], [Chain(["plunge", "seabed"], ends=("function",), closed=True), Chain(["main", "deep", "beach"], ends=("function",), closed=True)]),
    shape("mutual", ["mutual", "even", "odd", "bottom"]),
    shape("sandwich", ["sandwich", "again", "inner_work"]),
    shape("tail-calls", ["tail_calls", "final_step"]),
    shape("inlined", ["inlined|checksum", "inlined_hash"]),
    shape("two-heavy", ["two_heavy", "left_half"], ["two_heavy", "right_half"]),
    shape("spread", ["spread"], ends=("spread",)),
    shape("near-threshold", ["near_threshold", "thirty"]),
    shape("even-times", ["even_times", "morning"], ["even_times", "evening"], options=["--no-probes"]),
    shape("short-calls", ["short_calls", "tiny"]),
    shape("phases", ["phases", "late_phase"], ["phases", "early_phase"]),
    shape("sort", ["sort_numbers", "qsort|qsort_r", "by_mixed_value"]),
    shape("dispatch", ["dispatch", "handler_b"]),
    shape("plugin", ["use_plugin", "plugin_entry", "plugin_work"]),
    shape("generated", ["call_generated", "generated_loop"]),
    Case("C++: exceptions", ["throwing", "exceptions"],
         [Chain(["main", "checks::attempt", "checks::validate", "__cxa_throw", "_Unwind_RaiseException"])]),
    Case("C++: templates", ["throwing", "templates"], [Chain(["main", "templates", "Kernel::apply"], ends=("function",), closed=True)]),
    Case("C++: strings in a map", ["throwing", "strings"], [Chain(["main", "strings"], ends=("function",))]),
    # -- System calls on a CPU ----------------------------------------------------------------------------------------
    calls("pread", ["read_cached", "u:pread|pread64", "k:pread64", "vfs_read", "filemap_read|shmem_file_read_iter", "copy_page_to_iter|_copy_to_iter|copy_folio_to_iter"]),
    calls("stat", ["stat_files", "u:stat|stat64|fstatat|fstatat64", "k:newfstatat", "vfs_fstatat", "vfs_statx", "filename_lookup", "path_lookupat", "link_path_walk"]),
    calls("getdents", ["list_directory", "u:syscall", "k:getdents64", "iterate_dir", "ext4_readdir|dcache_readdir|offset_readdir"]),
    calls("tmpfs-write", ["write_memory_file", "u:pwrite|pwrite64", "k:pwrite64", "vfs_write", "shmem_file_write_iter|generic_file_write_iter", "generic_perform_write",
                          # With others at work on its memory, to mark a page as written takes longest.
                          "copy_folio_from_iter_atomic|copy_page_from_iter_atomic|shmem_write_end"]),
    calls("proc-maps", ["read_maps", "u:read", "k:read", "vfs_read", "seq_read", "seq_read_iter", "show_map", "show_map_vma"]),
    calls("sendfile", ["send_whole_file", "u:sendfile|sendfile64", "k:sendfile64", "do_sendfile", "do_splice_direct", "splice_direct_to_actor", "direct_splice_actor",
                       "iter_file_splice_write", "shmem_file_write_iter|generic_file_write_iter", "generic_perform_write"]),
    calls("splice", ["splice_in", "u:splice", "k:splice", "do_splice"]),
    calls("getrandom", ["random_bytes", "u:getrandom", "k:getrandom", "get_random_bytes_user", "chacha_block_generic|chacha_block_generic_arch", "chacha_permute"],
          ends=("function",)),
    calls("touch", ["touch_new_files", "u:open|open64", "k:openat", "do_sys_openat2", "do_filp_open", "path_openat"]),
    calls("mmap", None, chains=[
        Chain(["main", "map_and_unmap", "u:munmap", "k:munmap", "__vm_munmap", "do_vmi_munmap", "do_vmi_align_munmap"]),
        Chain(["main", "map_and_unmap", "u:mmap|mmap64", "k:mmap"])]),
    calls("memset", ["fill_new_memory", "memset|__memset_.*", *FAULT]),
    calls("mprotect", ["change_protection_again", "u:mprotect", "k:mprotect", "do_mprotect_pkey", "mprotect_fixup", "change_protection", "change_pte_range|change_protection"]),
    calls("brk", ["grow_heap", *FAULT]),
    calls("madvise", ["throw_away", *FAULT]),
    calls("poll", ["poll_many", "u:poll", "k:poll", "do_sys_poll"]),
    calls("select", ["select_many", "u:select", "k:pselect6|select", "do_pselect|core_sys_select|kern_select", "do_select"]),
    calls("getppid", ["ask_often", "u:getppid", "k:getppid"], calls_sampled=True),
    calls("signal", ["raise_signal", "u:raise", "handle"], ends=("function",), closed=True),
    # -- Processes and threads -------------------------------------------------------------------------------------------------
    calls("fork", ["fork_child", "u:fork", "k:clone", "kernel_clone", "copy_process", "dup_mm|dup_mmap|copy_page_range", "copy_page_range"]),
    # For the program to begin and for its end: which is longer depends on the machine.
    calls("exec", ["run_program", "u:waitpid|wait4|__waitpid|vfork", "k:wait4|vfork", "kernel_wait4|kernel_clone", "do_wait|wait_for_completion_state|wait_for_vfork_done"],
          ends=("waiting",), waiting="child"),
    calls("child", None, chains=[
        Chain(["main", "wait_for_child", "u:waitpid|wait4|__waitpid", "k:wait4", "kernel_wait4", "do_wait"], ends=("waiting",), waiting="child",
              woken="worker-child", closed=True),
        Chain(["main", "wait_for_child", "handle"], child=True, ends=("function",))]),
    # To begin a thread and to wait for it: which is longer depends on the machine.
    calls("thread", ["start_thread_and_join", "pthread_create|pthread_join|__pthread_clockjoin_ex"], name="threads: each joined at once"),
    Case("threads: groups by name", ["threads", "groups"], [
        Chain(["parser", "parse_text", "burn"], group="parser", ends=("function",)),
        Chain(["writer", "write_out", "u:usleep|nanosleep|clock_nanosleep", "k:clock_nanosleep", "hrtimer_nanosleep", "do_nanosleep"], group="writer",
              ends=("waiting",), waiting="sleep", woken="^interrupt$", closed=True),
        Chain(["main", "pthread_join|__pthread_clockjoin_ex", "k:futex", "do_futex", "futex_wait", FUTEX_WAIT], ends=("waiting",), waiting="join", closed=True)]),
    Case("threads: a mutex", ["threads", "mutex"], [
        Chain(["contender", "take_lock", "pthread_mutex_lock", "k:futex", "do_futex", "futex_wait", FUTEX_WAIT], group="contender",
              ends=("waiting",), waiting="mutex", woken="contender", closed=True)]),
    Case("threads: a condition", ["threads", "condition"], [
        Chain(["consumer", "pthread_cond_wait", "k:futex", "do_futex", "futex_wait", FUTEX_WAIT], group="consumer",
              ends=("waiting",), waiting="condition", woken="producer", closed=True)]),
    Case("threads: a barrier", ["threads", "barrier"], [
        Chain(["fast", "meet", "pthread_barrier_wait", "k:futex", "do_futex", "futex_wait", FUTEX_WAIT], group="fast",
              ends=("waiting",), waiting="barrier", woken="slow", closed=True),
        Chain(["slow", "slow_part", "u:usleep|nanosleep|clock_nanosleep", "k:clock_nanosleep"], group="slow", ends=("waiting",), waiting="sleep")]),
    Case("threads: spinning", ["threads", "spin"], [Chain(["spinner", "spin_on_flag"], group="spinner", ends=("function",))]),
    Case("forking server", ["forking-server"], [
        Chain(["main", "accept_request", "u:waitpid|wait4|__waitpid", "k:wait4", "kernel_wait4", "do_wait"], ends=("waiting",),
              waiting="child", woken="forking-server", closed=True)]),
    # -- Waiting -----------------------------------------------------------------------------------------------------------------
    calls("epoll", ["await_events", "u:epoll_wait", "k:epoll_wait", "do_epoll_wait"], ends=("waiting",), waiting="poll|epoll", closed=True),
    calls("sleep", ["sleep_a_little", "u:nanosleep|clock_nanosleep", "k:clock_nanosleep", "hrtimer_nanosleep", "do_nanosleep"], ends=("waiting",), waiting="sleep", woken="^interrupt$",
          closed=True),
    calls("idle", ["poll_nothing", "u:poll", "k:poll", "do_sys_poll"], ends=("waiting",), waiting="poll|sleep", closed=True),
    calls("idle", None, name="idle program by CPU time", options=["--metric", "cpu"],
          chains=[Chain([], ends=("nothing-above-threshold", "spread", "function"))]),
    calls("flock", ["lock_file", "u:flock", "k:flock", "locks_lock_inode_wait|flock_lock_inode_wait|locks_lock_file_wait"], ends=("waiting",), woken="lock-holder", closed=True),
    calls("direct-read", ["read_direct", "u:pread|pread64", "k:pread64", "vfs_read", "ext4_file_read_iter", "iomap_dio_rw", "__iomap_dio_rw"], ends=("waiting",),
          waiting="file-read|disk|other", closed=False, disk=True),
    talk("unix", ["await_reply", "u:recv", "k:recvfrom", "__sys_recvfrom", "unix_stream_recvmsg", "unix_stream_read_generic"], "socket"),
    talk("tcp", ["await_reply", "u:recv", "k:recvfrom", "__sys_recvfrom", "tcp_recvmsg", "tcp_recvmsg_locked", "sk_wait_data"], "socket"),
    talk("udp", ["await_reply", "u:recv", "k:recvfrom", "__sys_recvfrom", "udp_recvmsg", "__skb_recv_udp", "__skb_wait_for_more_packets"], "socket"),
    talk("queue", ["await_message", "u:msgrcv", "k:msgrcv", "do_msgrcv"], ""),
    talk("semaphore", ["await_semaphore", "change", "u:semop|semtimedop", "k:semtimedop|semop", "__do_semtimedop"], ""),
]

# One case for each kind of place that a chain can end in and each way of building a program: `--quick` runs these.
QUICK = set("""
proxy: the helper's queue is full
out of core: page faults from a file
fsync log: each record waits for the disk
pipe ping-pong: the asker waits, the answerer computes
directory lock: two chains into the kernel's lock
deep call: behind pointers and virtual calls
built: stripped
built: static, into the kernel
built: frame pointers and no unwind tables
built: static with musl
shape: recursion
shape: tail-calls
shape: inlined
shape: two-heavy
shape: spread
shape: near-threshold
shape: short-calls
shape: plugin
shape: generated
C++: templates
system call: pread
system call: mmap
system call: memset
system call: getppid
system call: child
threads: groups by name
threads: a mutex
threads: a barrier
threads: spinning
system call: sleep
idle program by CPU time
talk: tcp
""".strip().splitlines())
assert QUICK <= {case.name for case in CASES}
