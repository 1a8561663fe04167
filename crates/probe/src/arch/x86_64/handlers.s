# Handlers: what a trampoline calls at a probe (see `trampoline.rs` for the code around these calls).
#
# Contract of an entry handler
#   at entry : [rsp] = P, an address in the trampoline; the four bytes before P are the displacement, counted from P, of
#              the site's descriptor. [rsp+8] = the function's return address (its *slot*) if the site is an entry.
#   preserved: every register but the flags, vector and x87 registers included. The C convention would allow less, but
#              callers compiled with -fipa-ra and assembly with private conventions rely on more.
#   result   : CF = 1: a frame holds the return address and the trampoline shall make the paired call.
#
# Contract of an exit handler
#   at entry : [rsp] = P as above, but the displacement leads to `Descriptor::exit`; [rsp+8] = the slot, whose content is
#              dead. On return [rsp+8] holds the return address again.
#   preserved: every register but the flags.
#
# DF is clear and not changed. Nothing below the handlers' own rsp is assumed to survive; nothing above [rsp+8] is written.
#
# A frame is found by its slot alone: keys[hash(slot >> 12)] = slot >> 12, linear probing, entries are never removed;
# the frame of a slot is pool[index][(slot & 0xfff) / 8]. Only the insertion of a stack page is a locked instruction.
#
# A function that is reached by a tail call out of a timed one finds a return site of ours in its slot: the slot's frame
# is open, and holds the true return address. Then the inner call is not timed (CF = 0).

    .section .text.transect_probe, "ax", @progbits

# rax = slot >> 12, rdi = slot -> rcx = frame; clobbers rdx, r8d (rounds). Jumps to \fail if the table is full.
    .macro FIND_OR_INSERT fail
    imul ecx, eax, 0x9E3779B1
    shr ecx, 8
    mov r8d, 64
90: and ecx, dword ptr [rip + {globals} + {G_MASK}]
    mov rdx, qword ptr [rip + {globals} + {G_KEYS}]
    lea rdx, [rdx + rcx * 8]
    cmp qword ptr [rdx], rax
    je 93f
    cmp qword ptr [rdx], 0
    je 91f
    inc ecx
    dec r8d
    jnz 90b
    jmp \fail
91: mov r9, rax                      # the key; cmpxchg compares with rax = 0
    xor eax, eax
    lock cmpxchg qword ptr [rdx], r9
    mov rax, r9
    je 93f
    jmp 90b                          # somebody else took the entry: look at it again
93: shl rcx, 14
    add rcx, qword ptr [rip + {globals} + {G_POOL}]
    mov edx, edi
    and edx, 0xff8
    lea rcx, [rcx + rdx * 4]
    .endm

# rdi = slot, rcx = its frame -> rax = the return address; clobbers rdx, r8. Jumps to tail if the frame is open: if the
# slot holds our return site. Where another tool takes return addresses too (`Globals::layered`), it may have put its own
# site over ours before it went on to a tail-called function: then any frame that no exit has closed counts as open.
    .macro RETURN_ADDRESS tail
    mov r8, [rcx + {F_DESCRIPTOR}]
    test r8, qword ptr [rip + {globals} + {G_LAYERED}]
    jnz \tail
    mov rax, [rdi]
    mov rdx, rax
    sub rdx, r8
    cmp rdx, {CAPACITY}
    jbe \tail
    .endm

# rdi = slot -> rcx = frame; clobbers rax, rdx, r8. Jumps to \fail if the stack page is unknown.
    .macro FIND fail
    mov rax, rdi
    shr rax, 12
    imul ecx, eax, 0x9E3779B1
    shr ecx, 8
    mov r8d, 65
90: dec r8d
    jz \fail
    and ecx, dword ptr [rip + {globals} + {G_MASK}]
    mov rdx, qword ptr [rip + {globals} + {G_KEYS}]
    cmp qword ptr [rdx + rcx * 8], rax
    je 93f
    inc ecx
    jmp 90b
93: shl rcx, 14
    add rcx, qword ptr [rip + {globals} + {G_POOL}]
    mov edx, edi
    and edx, 0xff8
    lea rcx, [rcx + rdx * 4]
    .endm

# rsi = descriptor -> rdx = this thread's shard of the site's counters. Threads are told apart by their stacks.
    .macro SHARD
    mov rdx, rsp
    shr rdx, 17
    imul edx, edx, 0x9E3779B1
    shr edx, 28
    shl rdx, {SHARD_SHIFT}
    add rdx, qword ptr [rsi + {D_COUNTERS}]
    .endm

# Jumps to \none if a thread of the process may not read the clock.
    .macro HAS_CLOCK none
    cmp qword ptr [rip + {globals} + {G_NO_CLOCK}], 0
    jne \none
    .endm

# Jumps to \child in a forked child that is to be left alone; clobbers \scratch.
    .macro UNLESS_CHILD child, scratch
    mov \scratch, qword ptr [rip + {globals} + {G_NOT_A_CHILD}]
    test \scratch, \scratch
    jz 78f
    cmp qword ptr [\scratch], 0
    je \child
78:
    .endm

    .macro FUNCTION name
    .p2align 4
    .hidden \name
    .globl \name
    .type \name, @function
\name:
    .endm

# ---- nothing: the cost of a probe itself
    FUNCTION transect_probe_nothing
    clc
    ret

# ---- counter tier
    FUNCTION transect_probe_count
    push rsi
    push rdx
    mov rsi, [rsp + 16]
    movsxd rdx, dword ptr [rsi - 4]
    add rsi, rdx
    UNLESS_CHILD 1f, rdx
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
1:  pop rdx
    pop rsi
    clc
    ret

# What the timing entries use.
    .macro SAVE_SEVEN
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    .endm

    .macro RESTORE_SEVEN
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    .endm

# ---- time: every call while the probe is on
    FUNCTION transect_probe_time_enter
    SAVE_SEVEN
    mov rsi, [rsp + 56]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    UNLESS_CHILD .Luntimed, rdx
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
.Ltimed:                             # rsi = descriptor, seven registers on the stack, P at +56, the slot at +64
    HAS_CLOCK .Lno_clock
    lea rdi, [rsp + 64]
    mov rax, rdi
    shr rax, 12
    FIND_OR_INSERT .Lno_frame
    RETURN_ADDRESS .Luntimed
    mov [rcx + {F_RETURN}], rax
    mov [rcx + {F_DESCRIPTOR}], rsi
    mov rdx, [rsi + {D_RECORD}]
    mov edx, [rdx + {R_WINDOW}]
    mov [rcx + {F_COOKIE}], rdx      # in which window it began
    lfence                           # rdtsc waits for nothing: what came before is the caller's
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [rcx + {F_START}], rax
    RESTORE_SEVEN
    stc
    ret
.Lno_frame:
    mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_UNTIMED}]
.Luntimed:
    RESTORE_SEVEN
    clc
    ret
.Lno_clock:
    mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_UNREAD}]
    jmp .Luntimed

# rdi = a site's record: notes its first call since the controller switched it on, for what has passed since then says nothing
# of how often it is called. Clobbers rax, rdx, r8.
    .macro FIRST_CALL
    test byte ptr [rdi + {R_ARMED}], {NOT_CALLED}
    jz 94f
    HAS_CLOCK 94f
    rdtsc
    shl rdx, 32
    or rdx, rax
    mov r8, rdx
    and r8, ~{NOT_CALLED}
    mov rax, [rdi + {R_ARMED}]
    test al, {NOT_CALLED}
    jz 94f
    lock cmpxchg [rdi + {R_ARMED}], r8
    jne 94f                          # another thread was first
    sub rdx, rax
    shr rdx, {UNTIL_FIRST_SHIFT}
    lock add [rdi + {R_UNTIL_FIRST}], edx
94:
    .endm

# ---- latency: as many calls as the controller has granted, then the probe switches itself off
    FUNCTION transect_probe_latency_enter
    SAVE_SEVEN
    mov rsi, [rsp + 56]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    UNLESS_CHILD .Luntimed, rdx
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
    mov rdi, [rsi + {D_RECORD}]
    FIRST_CALL
    lock dec dword ptr [rdi + {R_REMAINING}]
    jns .Ltimed
.Lused_up:                           # rsi = descriptor, rdi = its record
    # Used up. The word is a line of code of this probe alone, 8-aligned: one plain store switches it. Somebody who
    # grants more at this moment may find the probe off for one epoch; nothing else can happen.
    mov rax, [rdi + {R_OFF}]
    mov rdx, [rdi + {R_WORD}]
    cmp [rdx], rax
    je .Luntimed
    mov [rdx], rax
    HAS_CLOCK .Luntimed              # nor does it ask to be switched on again
    mov rax, [rip + {globals} + {G_HEADER}]
    mov edx, [rsi + {D_ID}]
    mov byte ptr [rax + rdx + {DISARMED}], 1
    rdtsc
    shl rdx, 32
    or rax, rdx
    xor edx, edx
    xchg [rdi + {R_ARMED}], rdx      # of several threads that come here at once one takes the time
    test rdx, rdx
    jz .Luntimed
    sub rax, rdx
    lock add [rdi + {R_ON_TICKS}], rax
    mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_SELF_TOGGLES}]
    jmp .Luntimed

# rsi = descriptor, rax = what a call took: counts it. Clobbers rax, rcx, rdx, rdi.
    .macro SAMPLE
    SHARD
    lock inc qword ptr [rdx + {S_SAMPLES}]
    lock add qword ptr [rdx + {S_TICKS}], rax
    mov rdi, [rsi + {D_RECORD}]
    mov rdx, rax
    mov rax, [rdi + {R_MAX}]
70: cmp rax, rdx
    jae 71f
    lock cmpxchg [rdi + {R_MAX}], rdx
    jne 70b
71: mov rax, rdx
    mov ecx, eax                     # bucket: exact below 8, then 8 per power of two
    cmp rax, 8
    jb 72f
    bsr rcx, rax
    sub ecx, 3
    shr rdx, cl
    and edx, 7
    lea ecx, [rdx + rcx * 8 + 8]
    cmp ecx, {BUCKETS}
    jb 72f
    mov ecx, {BUCKETS} - 1
72: mov rdx, [rsi + {D_HISTOGRAM}]
    lock inc dword ptr [rdx + rcx * 4]
    .endm

# ---- exit of both
    FUNCTION transect_probe_time_exit
    push rax
    push rdx
    push rcx
    push rsi
    push rdi
    push r8
    xor esi, esi
    HAS_CLOCK 5f
    lfence                           # out of order it is read before the function's last instructions are done
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rsi, rax                     # now, 0 if that is not known
5:  lea rdi, [rsp + 56]              # the slot
    FIND .Llost
    mov rax, [rcx + {F_RETURN}]
    mov [rdi], rax
    mov rax, rsi
    mov r8, [rcx + {F_DESCRIPTOR}]
    mov qword ptr [rcx + {F_DESCRIPTOR}], 0
    mov rdx, [rcx + {F_START}]
    test rdx, rdx                    # 0: a user's entry handler made the frame, and was swapped for timing since
    jz 6f
    UNLESS_CHILD 6f, rsi             # it was called before the fork
    test rax, rax
    jz 7f
    sub rax, rdx
    mov rsi, r8
    cmp qword ptr [rcx + {F_COOKIE}], {FIRST_WINDOW}
    jne 8f
    SHARD
    mov ecx, 1
    shl rcx, {FIRST_SHIFT}
    add rcx, rax
    lock add qword ptr [rdx + {S_FIRST}], rcx
8:  SAMPLE
6:  pop r8
    pop rdi
    pop rsi
    pop rcx
    pop rdx
    pop rax
    ret
7:  mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_UNREAD}]
    jmp 6b
.Llost:                              # our frames were overwritten: there is no way on
    mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_LOST}]
    ud2

# rax = what a thread is known by -> r10 = its `ThreadScope`; clobbers rcx, r8, r9.
    .macro THREAD_SCOPE fail
    imul ecx, eax, 0x9E3779B1
    shr ecx, {HASH_SHIFT}
    mov r8d, {SEARCH}
80: mov r10, rcx
    shl r10, 8
    add r10, qword ptr [rip + {globals} + {G_SCOPES}]
    cmp qword ptr [r10], rax
    je 83f
    cmp qword ptr [r10], 0
    je 81f
    inc ecx
    and ecx, {THREADS} - 1
    dec r8d
    jnz 80b
    jmp \fail
81: mov r9, rax
    xor eax, eax
    lock cmpxchg qword ptr [r10], r9
    mov rax, r9
    je 83f
    jmp 80b
83:
    .endm

# ---- latency in what the kernel keeps of the thread: its CPU time, its page faults
#
# Both are read by a raw system call, which leaves errno and all registers but rax, rcx and r11 alone. What handlers
# themselves use between their first and their last reading is added to the thread's `own`, and amounts are readings less
# `own`: so the callers of a measured call are not charged for its measuring. Of a used time that leaves, of each measured
# callee, the ways into the first and out of the last system call.
#
# A filter of system calls may end the program for a call that it does not know. So when the program asks for one
# (`prctl_enter`, `syscall_enter`), `confined` is set first, and no reading is made any more. Threads are known by their
# number, which every program has at any time; it is the frame's cookie, too: a call that returns on another thread than it
# began on has no amount, nor has one that returns in a forked child, for which the kernel begins at 0.

# -> rax = the thread's number; clobbers rcx, r11.
    .macro READ_TID
    mov eax, 186                     # gettid
    syscall
    .endm

# -> rax = the thread's CPU time, ns; clobbers rcx, rdi, rsi, r11.
    .macro READ_CPU
    sub rsp, 16
    mov eax, 228                     # clock_gettime
    mov edi, 3                       # CLOCK_THREAD_CPUTIME_ID
    mov rsi, rsp
    syscall
    imul rax, qword ptr [rsp], 1000000000
    add rax, [rsp + 8]
    add rsp, 16
    .endm

# -> rax = the thread's page faults, minor and major; clobbers rcx, rdi, rsi, r11.
    .macro READ_FAULTS
    sub rsp, 144
    mov eax, 98                      # getrusage
    mov edi, 1                       # RUSAGE_THREAD
    mov rsi, rsp
    syscall
    mov rax, [rsp + 64]
    add rax, [rsp + 72]
    add rsp, 144
    .endm

    .macro METERED_ENTER read
    SAVE_SEVEN
    UNLESS_CHILD .Luntimed, rax
    push r10
    push r11
    mov rax, [rip + {globals} + {G_HEADER}]
    cmp dword ptr [rax + {H_CONFINED}], 0
    jne 73f
    \read
    push rax                         # the first reading
    mov rsi, [rsp + 80]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
    mov rdi, [rsi + {D_RECORD}]
    FIRST_CALL
    lock dec dword ptr [rdi + {R_REMAINING}]
    js 74f
    READ_TID
    THREAD_SCOPE 75f
    lea rdi, [rsp + 88]              # the slot
    mov rax, rdi
    shr rax, 12
    FIND_OR_INSERT 75f
    RETURN_ADDRESS 76f
    mov [rcx + {F_RETURN}], rax
    mov [rcx + {F_DESCRIPTOR}], rsi
    mov rax, [r10]
    mov [rcx + {F_COOKIE}], rax
    mov r9, rcx
    \read
    pop rdx
    sub rdx, rax
    sub [r10 + {T_OWN}], rdx
    sub rax, [r10 + {T_OWN}]
    mov [r9 + {F_START}], rax
    pop r11
    pop r10
    RESTORE_SEVEN
    stc
    ret
73: lock inc qword ptr [rax + {H_UNREAD}]
    pop r11
    pop r10
    mov rsi, [rsp + 56]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
    mov rdi, [rsi + {D_RECORD}]
    lock dec dword ptr [rdi + {R_REMAINING}]
    js .Lused_up
    jmp .Luntimed
74: add rsp, 8
    pop r11
    pop r10
    jmp .Lused_up
75: add rsp, 8
    pop r11
    pop r10
    jmp .Lno_frame
76: add rsp, 8
    pop r11
    pop r10
    jmp .Luntimed
    .endm

    .macro METERED_EXIT read
    push rax
    push rdx
    push rcx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    xor r9d, r9d
    mov rax, [rip + {globals} + {G_HEADER}]
    cmp dword ptr [rax + {H_CONFINED}], 0
    jne 73f
    \read
    mov r9, rax
    READ_TID
    xchg rax, r9
73: push rax                         # the first reading; r9 = the thread, 0 if nothing was read
    lea rdi, [rsp + 88]              # the slot
    FIND .Llost
    mov rax, [rcx + {F_RETURN}]
    mov [rdi], rax
    mov rsi, [rcx + {F_DESCRIPTOR}]
    mov qword ptr [rcx + {F_DESCRIPTOR}], 0
    mov rdi, [rcx + {F_START}]
    UNLESS_CHILD 75f, rax
    mov rax, r9
    cmp rax, [rcx + {F_COOKIE}]
    jne 74f
    THREAD_SCOPE 74f
    mov rax, [rsp]
    sub rax, [r10 + {T_OWN}]
    sub rax, rdi
    js 74f
    SAMPLE
    \read
    sub rax, [rsp]
    add [r10 + {T_OWN}], rax
    jmp 75f
74: mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_UNREAD}]
75: add rsp, 8
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rcx
    pop rdx
    pop rax
    ret
    .endm

    FUNCTION transect_probe_cpu_enter
    METERED_ENTER READ_CPU

    FUNCTION transect_probe_cpu_exit
    METERED_EXIT READ_CPU

    FUNCTION transect_probe_faults_enter
    METERED_ENTER READ_FAULTS

    FUNCTION transect_probe_faults_exit
    METERED_EXIT READ_FAULTS

# int prctl(int option, ...): 22 is PR_SET_SECCOMP, 59 PR_SET_SYSCALL_USER_DISPATCH, 26 PR_SET_TSC, whose 2 makes the clock
# end who reads it; strict seccomp, 1, does that, too.
    FUNCTION transect_probe_prctl_enter
    cmp edi, 22
    je .Lseccomp
    cmp edi, 59
    je .Lconfined
    cmp edi, 26
    jne 1f
    cmp esi, 2
    jne 1f
    mov qword ptr [rip + {globals} + {G_NO_CLOCK}], 1
1:  clc
    ret
.Lseccomp:
    cmp esi, 1
    jne .Lconfined
.Lstrict:
    mov qword ptr [rip + {globals} + {G_NO_CLOCK}], 1
.Lconfined:
    push rax
    mov rax, [rip + {globals} + {G_HEADER}]
    mov dword ptr [rax + {H_CONFINED}], 1
    pop rax
    clc
    ret

# long syscall(long number, ...): 317 is seccomp, whose 0 is strict mode, 157 prctl.
    FUNCTION transect_probe_syscall_enter
    cmp rdi, 317
    je 2f
    cmp rdi, 157
    jne 1f
    cmp esi, 22
    je 3f
    cmp esi, 59
    je .Lconfined
    cmp esi, 26
    jne 1f
    cmp edx, 2
    jne 1f
    mov qword ptr [rip + {globals} + {G_NO_CLOCK}], 1
1:  clc
    ret
2:  test esi, esi
    jz .Lstrict
    jmp .Lconfined
3:  cmp edx, 1
    je .Lstrict
    jmp .Lconfined

# ---- a function and its callees, for a while: the walk
#
# The one function (the *parent*) is timed from its outermost entry to that one's return, on each thread; a callee is
# timed if it returns into the parent's code while the parent is being timed, and no callee is open. What a thread is in
# is kept in its `ThreadScope`, found by the thread pointer (`fs:[0]` points to itself: the controller has looked), which
# it alone writes: no instruction is locked but for a thread's first call. "Open" means that the slot is not 0. An entry
# at or above the open slot says that the open call was left without a return.
#
# A function that is left by a jump to a callee has its return site in the callee's slot: the callee is open from then on,
# without a frame of its own, and both end at the same return.

# -> rax = now; clobbers rdx.
    .macro NOW
    rdtsc
    shl rdx, 32
    or rax, rdx
    .endm

# -> r10 = this thread's scope; clobbers rax, rcx, r8, r9.
    .macro THREAD fail
    mov rax, qword ptr fs:[0]
    THREAD_SCOPE \fail
    .endm

    FUNCTION transect_probe_scope_enter
    SAVE_SEVEN
    push r10
    mov rsi, [rsp + 64]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    lea rdi, [rsp + 72]
    THREAD .Lscope_lost
    mov rdx, [r10 + {T_PARENT_SLOT}]
    test rdx, rdx
    jz 1f
    cmp rdi, rdx
    jb .Lscope_miss                  # it has called itself
1:  mov rax, rdi
    shr rax, 12
    FIND_OR_INSERT .Lscope_lost
    RETURN_ADDRESS .Lscope_untimed
    mov r8, [rsi + {D_USER_EXIT}]
    mov rdx, [r10 + {T_PARENT_CALLS}]
    cmp rdx, [r8 + {C_LIMIT}]
    jae .Lscope_used_up
    mov [rcx + {F_RETURN}], rax
    mov [rcx + {F_DESCRIPTOR}], rsi
    mov qword ptr [rcx + {F_COOKIE}], 0
    mov qword ptr [rcx + {F_START}], 0
    cmp qword ptr [r10 + {T_PARENT_SLOT}], 0
    jne .Lscope_left
2:  mov qword ptr [r10 + {T_CALLEE_SLOT}], 0
    inc qword ptr [r10 + {T_PARENT_CALLS}]
    NOW
    mov [r10 + {T_PARENT_START}], rax
    mov [r10 + {T_PARENT_SLOT}], rdi
    pop r10
    RESTORE_SEVEN
    stc
    ret
.Lscope_left:                        # the open call was left without a return: it is known how long it lasted if it threw
    inc qword ptr [r10 + {T_PARENT_LEFT}]
    mov rax, [r10 + {T_THROWN}]
    test rax, rax
    jz 2b
    mov qword ptr [r10 + {T_THROWN}], 0
    mov rdx, rax
    sub rdx, [r10 + {T_PARENT_START}]
    add [r10 + {T_PARENT_TICKS}], rdx
    cmp qword ptr [r10 + {T_CALLEE_SLOT}], 0
    je 2b
    sub rax, [r10 + {T_CALLEE_START}]
    mov rdx, [r10 + {T_CALLEE_INDEX}]
    and edx, 3
    add [r10 + {T_CALLEE_TICKS} + rdx * 8], rax
    jmp 2b

    FUNCTION transect_probe_callee_enter
    SAVE_SEVEN
    push r10
    mov rsi, [rsp + 64]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    mov r8, [rsi + {D_USER_EXIT}]
    mov rdx, [rsp + 72]
    lea rdi, [rsp + 72]
    .set at, {C_CALLERS}
    .rept 4
    mov rax, rdx
    sub rax, [r8 + at]
    cmp rax, [r8 + at + 8]
    jb .Lcallee_called
    .set at, at + 16
    .endr
    .set at, {C_JUMPERS}
    .rept 4
    mov rax, rdx
    sub rax, [r8 + at]
    cmp rax, [r8 + at + 8]
    jb .Lcallee_jumped
    .set at, at + 16
    .endr
.Lscope_miss:                        # rsi = descriptor
    mov r8, [rsi + {D_USER_EXIT}]
    mov rax, [r8 + {C_MISSES}]
    inc rax
    mov [r8 + {C_MISSES}], rax
    cmp rax, [r8 + {C_MISS_LIMIT}]
    jae .Lscope_used_up
.Lscope_untimed:
    pop r10
    RESTORE_SEVEN
    clc
    ret
.Lscope_lost:
    mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_UNTIMED}]
    jmp .Lscope_untimed
.Lscope_used_up:                     # rsi = descriptor, r8 = rules: called too often, it switches itself off
    mov rdi, [rsi + {D_RECORD}]
    mov rax, [rdi + {R_OFF}]
    mov rdx, [rdi + {R_WORD}]
    mov [rdx], rax
    mov dword ptr [r8 + {C_USED_UP}], 1
    jmp .Lscope_untimed
.Lcallee_called:
    THREAD .Lscope_lost
    cmp qword ptr [r10 + {T_PARENT_SLOT}], 0
    je .Lscope_miss
    mov rdx, [r10 + {T_CALLEE_SLOT}]
    test rdx, rdx
    jz 1f
    cmp rdi, rdx
    jb .Lscope_miss                  # inside of a callee
1:  mov rax, rdi
    shr rax, 12
    FIND_OR_INSERT .Lscope_lost
    RETURN_ADDRESS .Lscope_untimed
    mov r8, [rsi + {D_USER_EXIT}]
    mov r9d, [r8 + {C_INDEX}]
    and r9d, 3
    mov rdx, [r10 + {T_CALLEE_CALLS} + r9 * 8]
    cmp rdx, [r8 + {C_LIMIT}]
    jae .Lscope_used_up
    mov [rcx + {F_RETURN}], rax
    mov [rcx + {F_DESCRIPTOR}], rsi
    mov qword ptr [rcx + {F_COOKIE}], 0
    mov qword ptr [rcx + {F_START}], 0
    cmp qword ptr [r10 + {T_CALLEE_SLOT}], 0
    je 2f
    inc qword ptr [r10 + {T_CALLEE_LEFT}]
2:  mov [r10 + {T_CALLEE_INDEX}], r9
    inc qword ptr [r10 + {T_CALLEE_CALLS} + r9 * 8]
    NOW
    mov [r10 + {T_CALLEE_START}], rax
    mov [r10 + {T_CALLEE_SLOT}], rdi
    pop r10
    RESTORE_SEVEN
    stc
    ret
.Lcallee_jumped:
    THREAD .Lscope_lost
    mov r8, [rsi + {D_USER_EXIT}]
    mov ecx, [r8 + {C_INDEX}]
    and ecx, 3
    cmp rdi, [r10 + {T_CALLEE_SLOT}]
    je 1f
    cmp rdi, [r10 + {T_PARENT_SLOT}]
    jne .Lscope_miss
    cmp qword ptr [r10 + {T_CALLEE_SLOT}], 0
    jne .Lscope_miss
    NOW
    jmp 2f
1:  NOW                              # one callee has left for another
    mov rdx, rax
    sub rdx, [r10 + {T_CALLEE_START}]
    mov r8, [r10 + {T_CALLEE_INDEX}]
    and r8d, 3
    add [r10 + {T_CALLEE_TICKS} + r8 * 8], rdx
2:  mov [r10 + {T_CALLEE_INDEX}], rcx
    inc qword ptr [r10 + {T_CALLEE_CALLS} + rcx * 8]
    mov [r10 + {T_CALLEE_START}], rax
    mov [r10 + {T_CALLEE_SLOT}], rdi
    jmp .Lscope_untimed

    FUNCTION transect_probe_scope_exit
    push rax
    push rdx
    push rcx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    NOW
    mov rsi, rax
    lea rdi, [rsp + 72]              # the slot
    FIND .Llost
    mov rax, [rcx + {F_RETURN}]
    mov [rdi], rax
    mov qword ptr [rcx + {F_DESCRIPTOR}], 0
    THREAD 3f
    cmp rdi, [r10 + {T_CALLEE_SLOT}]
    jne 1f
    mov rax, rsi
    sub rax, [r10 + {T_CALLEE_START}]
    mov rcx, [r10 + {T_CALLEE_INDEX}]
    and ecx, 3
    mov qword ptr [r10 + {T_CALLEE_SLOT}], 0
    add [r10 + {T_CALLEE_TICKS} + rcx * 8], rax
1:  cmp rdi, [r10 + {T_PARENT_SLOT}]
    jne 3f
    sub rsi, [r10 + {T_PARENT_START}]
    cmp qword ptr [r10 + {T_CALLEE_SLOT}], 0
    je 2f
    inc qword ptr [r10 + {T_CALLEE_LEFT}]
    mov qword ptr [r10 + {T_CALLEE_SLOT}], 0
2:  mov qword ptr [r10 + {T_PARENT_SLOT}], 0
    mov qword ptr [r10 + {T_THROWN}], 0
    add [r10 + {T_PARENT_TICKS}], rsi
3:  pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rcx
    pop rdx
    pop rax
    ret

# ---- handlers of the user, in three tiers
#
#   u64 handler(u32 id, struct registers *integers, void *vectors, u64 cookie, u32 tier)
#
# `integers` lies at: rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, P, return address; what the handler writes there
# is what the program goes on with. What an entry's handler returns comes back as `cookie` at the exit. `tier` (1, 2, 3)
# tells a function that serves all tiers which one has called it, since `enter` and `user_enter` are two words.

    .macro SAVE_INTEGERS
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    push rbp
    mov rbp, rsp
    .endm

    .macro RESTORE_INTEGERS
    mov rsp, rbp
    pop rbp
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    .endm

# rax = descriptor of the entry handler at work
    .macro ENTRY_DESCRIPTOR
    mov rax, [rbp + 80]
    movsxd rcx, dword ptr [rax - 4]
    add rax, rcx
    .endm

# After the user's entry handler: rax = its cookie. A site whose exit is wanted gets a frame.
    .macro FINISH_ENTRY
    mov r10, rax
    ENTRY_DESCRIPTOR
    test dword ptr [rax + {D_FLAGS}], {D_WANTS_EXIT}
    jnz 94f
95: RESTORE_INTEGERS
    clc
    ret
94: mov rsi, rax
    lea rdi, [rbp + 88]
    mov rax, rdi
    shr rax, 12
    FIND_OR_INSERT 96f
    RETURN_ADDRESS 95b
    mov [rcx + {F_RETURN}], rax
    mov [rcx + {F_DESCRIPTOR}], rsi
    mov [rcx + {F_COOKIE}], r10
    mov qword ptr [rcx + {F_START}], 0
    RESTORE_INTEGERS
    stc
    ret
96: mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_UNTIMED}]
    jmp 95b
    .endm

# At an exit: puts the return address back. rax = descriptor, rcx = cookie.
    .macro BEGIN_EXIT
    lea rdi, [rbp + 88]
    FIND .Llost
    mov rax, [rcx + {F_RETURN}]
    mov [rdi], rax
    mov rax, [rcx + {F_DESCRIPTOR}]
    mov qword ptr [rcx + {F_DESCRIPTOR}], 0
    mov rcx, [rcx + {F_COOKIE}]
    .endm

    FUNCTION transect_probe_integer_enter
    SAVE_INTEGERS
    ENTRY_DESCRIPTOR
    and rsp, -16
    mov edi, [rax + {D_ID}]
    mov rsi, rbp
    xor edx, edx
    xor ecx, ecx
    mov r8d, 1
    call [rax + {D_USER_ENTER}]
    FINISH_ENTRY

    FUNCTION transect_probe_integer_exit
    SAVE_INTEGERS
    BEGIN_EXIT
    and rsp, -16
    mov edi, [rax + {D_ID}]
    mov rsi, rbp
    xor edx, edx
    mov r8d, 1
    call [rax + {D_USER_EXIT}]
    RESTORE_INTEGERS
    ret

    .macro SAVE_VECTORS
    sub rsp, 256
    and rsp, -16
    movaps [rsp], xmm0
    movaps [rsp + 16], xmm1
    movaps [rsp + 32], xmm2
    movaps [rsp + 48], xmm3
    movaps [rsp + 64], xmm4
    movaps [rsp + 80], xmm5
    movaps [rsp + 96], xmm6
    movaps [rsp + 112], xmm7
    movaps [rsp + 128], xmm8
    movaps [rsp + 144], xmm9
    movaps [rsp + 160], xmm10
    movaps [rsp + 176], xmm11
    movaps [rsp + 192], xmm12
    movaps [rsp + 208], xmm13
    movaps [rsp + 224], xmm14
    movaps [rsp + 240], xmm15
    .endm

    .macro RESTORE_VECTORS
    movaps xmm0, [rsp]
    movaps xmm1, [rsp + 16]
    movaps xmm2, [rsp + 32]
    movaps xmm3, [rsp + 48]
    movaps xmm4, [rsp + 64]
    movaps xmm5, [rsp + 80]
    movaps xmm6, [rsp + 96]
    movaps xmm7, [rsp + 112]
    movaps xmm8, [rsp + 128]
    movaps xmm9, [rsp + 144]
    movaps xmm10, [rsp + 160]
    movaps xmm11, [rsp + 176]
    movaps xmm12, [rsp + 192]
    movaps xmm13, [rsp + 208]
    movaps xmm14, [rsp + 224]
    movaps xmm15, [rsp + 240]
    .endm

# The vector tier saves xmm0-15; legacy SSE encodings keep the upper halves, so a handler compiled for baseline x86-64
# may use them freely. `vectors` = xmm0..15, 16 bytes each.
    FUNCTION transect_probe_vector_enter
    SAVE_INTEGERS
    ENTRY_DESCRIPTOR
    SAVE_VECTORS
    mov edi, [rax + {D_ID}]
    mov rsi, rbp
    mov rdx, rsp
    xor ecx, ecx
    mov r8d, 2
    call [rax + {D_USER_ENTER}]
    RESTORE_VECTORS
    FINISH_ENTRY

    FUNCTION transect_probe_vector_exit
    SAVE_INTEGERS
    BEGIN_EXIT
    SAVE_VECTORS
    mov edi, [rax + {D_ID}]
    mov rsi, rbp
    mov rdx, rsp
    mov r8d, 2
    call [rax + {D_USER_EXIT}]
    RESTORE_VECTORS
    RESTORE_INTEGERS
    ret

# The full tier saves everything that XSAVE knows. `vectors` = rflags, rbx, r12, r13, r14, r15, rsp at the probe, 0,
# and from +64 on the XSAVE area (its standard form). What the handler writes to rflags or rsp is not used.
    .macro RESTORE_ALL
    pop r11
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    add rsp, 16
    mov r9, rax
    mov eax, dword ptr [rip + {globals} + {G_XSAVE_MASK}]
    mov edx, dword ptr [rip + {globals} + {G_XSAVE_MASK} + 4]
    xrstor64 [rsp]
    mov rax, r9
    .endm

# r11 = the flags at the probe.
    .macro SAVE_ALL
    lea r10, [rbp + 88]              # the stack pointer at the probe
    sub rsp, qword ptr [rip + {globals} + {G_XSAVE_SIZE}]
    and rsp, -64
    mov r9, rax
    mov r8, rcx
    xor eax, eax                     # the XSAVE header must be zero
    mov [rsp + 512], rax
    mov [rsp + 520], rax
    mov [rsp + 528], rax
    mov [rsp + 536], rax
    mov [rsp + 544], rax
    mov [rsp + 552], rax
    mov [rsp + 560], rax
    mov [rsp + 568], rax
    mov eax, dword ptr [rip + {globals} + {G_XSAVE_MASK}]
    mov edx, dword ptr [rip + {globals} + {G_XSAVE_MASK} + 4]
    xsave64 [rsp]
    mov rcx, r8
    mov rax, r9
    push 0
    push r10
    push r15
    push r14
    push r13
    push r12
    push rbx
    push r11
    .endm

    FUNCTION transect_probe_full_enter
    SAVE_INTEGERS
    pushfq                           # before any instruction that sets flags
    pop r11
    ENTRY_DESCRIPTOR
    SAVE_ALL
    mov edi, [rax + {D_ID}]
    mov rsi, rbp
    mov rdx, rsp
    xor ecx, ecx
    mov r8d, 3
    call [rax + {D_USER_ENTER}]
    RESTORE_ALL
    FINISH_ENTRY

    FUNCTION transect_probe_full_exit
    SAVE_INTEGERS
    pushfq
    pop r11
    BEGIN_EXIT
    SAVE_ALL
    mov edi, [rax + {D_ID}]
    mov rsi, rbp
    mov rdx, rsp
    mov r8d, 3
    call [rax + {D_USER_EXIT}]
    RESTORE_ALL
    RESTORE_INTEGERS
    ret

# ---- an event of a feature region
#
# At a region site only: the caller has stepped over the red zone, the flags are dead. The thread is known by its number,
# which lies at a fixed place behind the thread pointer; a table leads from there to its ring (`event-abi`, region_arena).
# A static program has no thread pointer at first, and one without libc never: `region::look` asks the kernel then.
# The descriptor's `user_exit` is the event's `what`.

    FUNCTION transect_probe_region_and_flows
    push rdi
    push rsi
    push rdx
    mov rsi, [rsp + 24]
    movsxd rdi, dword ptr [rsi - 4]
    mov edx, [rsi + rdi + {D_HISTOGRAM}]
    mov rdi, [rsi + rdi + {D_USER_EXIT}]
    lea rsi, [rsp + 160]             # three registers, P, the red zone
    call [rip + {globals} + {G_FLOW_REGION}]
    pop rdx
    pop rsi
    pop rdi                          # and on into the event

    FUNCTION transect_probe_region
    push rax
    push rcx
    push rdx
    push rsi
    mov rax, [rip + {globals} + {G_TID_OFFSET}]
    mov rdx, [rip + {globals} + {G_REGIONS}]
    test rax, rax
    js .Lregion_look                 # there may be no thread pointer yet
    mov eax, dword ptr fs:[rax]
    imul ecx, eax, 0x9E3779B1
    shr ecx, {TID_SHIFT}
    mov rsi, [rdx + rcx * 8 + {TIDS}]
    cmp esi, eax
    jne .Lregion_search
1:  shr rsi, 32
    jz .Lregion_look
    mov ecx, esi
    shl rcx, 7
    lea rcx, [rdx + rcx + {RINGS_BEFORE}]
    mov rax, [rcx + {RING_WRITTEN}]
    cmp rax, [rcx + {RING_LOOK_AT}]
    jae .Lregion_look
2:  HAS_CLOCK 3f
    rdtsc
    shl rdx, 32
    or rdx, rax
    mov eax, 1
    xadd [rcx + {RING_WRITTEN}], rax # a signal handler that comes between has places of its own
    and eax, {RING_LAST}
    mov rsi, [rcx + {RING_PLACES}]
    lea rax, [rax + rax * 2]
    lea rsi, [rsi + rax * 8]
    mov [rsi + {E_TICKS}], rdx
    lea rax, [rsp + 168]             # four registers, P, the red zone
    mov [rsi + {E_STACK}], rax
    mov rax, [rsp + 32]
    movsxd rdx, dword ptr [rax - 4]
    mov rax, [rax + rdx + {D_USER_EXIT}]
    mov [rsi + {E_WHAT}], rax        # last: it says that the event is there
3:  pop rsi
    pop rdx
    pop rcx
    pop rax
    ret
.Lregion_search:                     # eax = tid, ecx = place, rdx = the file
    push rdi
    mov edi, {TID_SEARCH}
4:  inc ecx
    and ecx, {TID_LAST}
    mov rsi, [rdx + rcx * 8 + {TIDS}]
    cmp esi, eax
    je 5f
    test rsi, rsi
    jz 6f
    dec edi
    jnz 4b
6:  pop rdi
    jmp .Lregion_look
5:  pop rdi
    jmp 1b
.Lregion_look:                       # a new thread, or time to look how far the recorder is
    mov rax, [rsp + 32]
    movsxd rcx, dword ptr [rax - 4]
    add rax, rcx                     # the descriptor
    push rdi
    push r8
    push r9
    push r10
    push r11
    push rbp
    mov rbp, rsp
    SAVE_VECTORS
    mov rdi, rax
    call {region_look}
    RESTORE_VECTORS
    mov rsp, rbp
    pop rbp
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    mov rcx, rax
    test rax, rax
    jnz 2b
    jmp 3b

# ---- entries only, called straight from the word
#
# Where no exit is wanted, the word itself is `call handler` (E8): no jump to P and none back. The return address is
# T+5, so the descriptor lies {WORD_END} bytes before it. Otherwise the contract of an entry handler; CF is not looked at.

    FUNCTION transect_probe_count_direct
    push rsi
    push rdx
    mov rsi, [rsp + 16]
    sub rsi, {WORD_END}
    UNLESS_CHILD 1f, rdx
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
1:  pop rdx
    pop rsi
    ret

# The integer tier needs no aligned stack: its handlers touch no vector register, nor may what they call.
    FUNCTION transect_probe_integer_direct
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    mov rax, [rsp + 72]
    push rbp
    mov edi, [rax + {D_ID} - {WORD_END}]
    mov rsi, rsp
    xor edx, edx
    xor ecx, ecx
    call [rax + {D_USER_ENTER} - {WORD_END}]
    pop rbp
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    ret

    FUNCTION transect_probe_vector_direct
    SAVE_INTEGERS
    mov rax, [rbp + 80]
    SAVE_VECTORS
    mov edi, [rax + {D_ID} - {WORD_END}]
    mov rsi, rbp
    mov rdx, rsp
    xor ecx, ecx
    call [rax + {D_USER_ENTER} - {WORD_END}]
    RESTORE_VECTORS
    RESTORE_INTEGERS
    ret

    FUNCTION transect_probe_full_direct
    SAVE_INTEGERS
    pushfq
    pop r11
    mov rax, [rbp + 80]
    SAVE_ALL
    mov edi, [rax + {D_ID} - {WORD_END}]
    mov rsi, rbp
    mov rdx, rsp
    xor ecx, ecx
    call [rax + {D_USER_ENTER} - {WORD_END}]
    RESTORE_ALL
    RESTORE_INTEGERS
    ret
