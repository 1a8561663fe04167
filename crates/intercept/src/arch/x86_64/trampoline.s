# Stubs and the paired-call trampoline.
#
# Contract of a stub at its entry: a function call of the C convention in progress; [rsp] is the return address.
#   preserved : every register but r11 and the flags (which the convention leaves undefined at a call)
#   clobbered : r11, flags
# No x87, vector or mask register is touched by the fast paths. The slow paths save xmm0-xmm7 (arguments) or
# xmm0-xmm1 (results) around Rust code compiled for baseline SSE2, whose legacy encodings keep the upper halves.
#
# Count path of stub i (3 loads, 1 read-modify-write):
#   counters = fs:[tls]; if (--counters[i].countdown > 0) goto *targets[i]; else goto enter(i)
#
# Timed path: take a frame, pop the return address into it, `call` the target (its return address lands in the same
# stack slot, so stack arguments stay where they are), push the saved address back, `ret`: every call meets its ret.
# rbx holds the frame across the call; the callee preserves it by the C convention.
#
# Unwinding through the call: the return address and rbx are read from the frame by expression; CFA is rsp+8 with rsp
# restored by a val_expression of its own, so that no two frames share a CFA (libgcc's second phase compares them).


    .section .tdata, "awT", @progbits
    .p2align 3
    .hidden transect_tls_counters
    .globl transect_tls_counters
    .type transect_tls_counters, @object
    .size transect_tls_counters, 8
transect_tls_counters:
    .quad transect_boot_counters
    .hidden transect_tls_thread
    .globl transect_tls_thread
    .type transect_tls_thread, @object
    .size transect_tls_thread, 8
transect_tls_thread:
    .quad 0

    .section .bss.transect, "aw", @nobits
    .p2align 12
    .hidden transect_boot_counters
    .globl transect_boot_counters
transect_boot_counters:          # a thread without record counts here: countdown <= 0 leads to `enter`, which makes one
    .skip {SLOTS} * 64
    .hidden transect_ended_counters
    .globl transect_ended_counters
transect_ended_counters:         # a thread past its last destructor counts here: it gets no record again
    .skip {SLOTS} * 64
    .hidden transect_targets
    .globl transect_targets
transect_targets:                # where stub i goes; the loader binds lazy slots here
    .skip {SLOTS} * 8
    .hidden transect_flags
    .globl transect_flags
transect_flags:                  # non-zero: slow entry
    .skip {SLOTS}
    .p2align 3
    .hidden transect_edges
    .globl transect_edges
transect_edges:                  # u16 calling object, u16 called object
    .skip {SLOTS} * 4
    .hidden transect_reciprocals
    .globl transect_reciprocals
transect_reciprocals:            # 2^20 / max(1, n)
    .skip 4096 * 8
    .hidden transect_active
    .globl transect_active
transect_active:                 # address of the process' active-thread clock
    .skip 8
    .hidden transect_epoch
    .globl transect_epoch
transect_epoch:                  # time stamp at the start of the recording
    .skip 8
    .hidden transect_empty
    .globl transect_empty
transect_empty:                  # ticks that an empty timed call shows
    .skip 8
    .hidden transect_parallel
    .globl transect_parallel
transect_parallel:               # non-zero once a second thread exists
    .skip 8

    .section .text.transect, "ax", @progbits
    .p2align 6
    .hidden transect_stubs
    .globl transect_stubs
    .type transect_stubs, @function
    .cfi_startproc
transect_stubs:
    .set transect_i, 0
    .rept {SLOTS}
    mov r11, qword ptr [rip + transect_tls_counters@GOTTPOFF]
    mov r11, qword ptr fs:[r11]
    dec dword ptr [r11 + transect_i * 64]
    jle 0f
    jmp qword ptr [rip + transect_targets + transect_i * 8]
0:  mov r11d, transect_i
    jmp transect_enter
    .p2align 4
    .set transect_i, transect_i + 1
    .endr
    .cfi_endproc
    .size transect_stubs, . - transect_stubs

# ∫ dt / max(1, active) at time rax -> rdx. Clobbers rax, rcx, r11.
    .macro INTEGRAL
    mov r11, qword ptr [rip + transect_active]
    sub rax, qword ptr [rip + transect_epoch]
777: mov rcx, qword ptr [r11]
    mov rdx, qword ptr [r11 + 8]
    cmp rcx, qword ptr [r11]
    jne 777b
    mov r11d, ecx
    and r11d, 0xfff
    shr rcx, 12
    sub rax, rcx
    jns 778f
    xor eax, eax
778: lea rcx, [rip + transect_reciprocals]
    imul rax, qword ptr [rcx + r11 * 8]
    shr rax, 20
    add rdx, rax
    .endm

# Calls Rust, which counts on an aligned stack; callers in assembly may have left it as they liked. Clobbers rax.
# \low and \high: distance from rsp to the CFA as a two-byte ULEB128.
    .macro CALL_ALIGNED function, low, high
    mov rax, rsp
    and rsp, -16
    sub rsp, 16
    mov qword ptr [rsp], rax
    .cfi_remember_state
    .cfi_escape 0x0f, 6, 0x77, 0, 0x06, 0x23, \low, \high
    call \function
    mov rsp, qword ptr [rsp]
    .cfi_restore_state
    .endm

# Rules while the frame in rbx holds the return address: see the top of the file. Their end is spelled `.cfi_offset 16`:
# libgcc takes `.cfi_restore` as "unsaved", not as the rule the CIE began with.
    .macro CFI_IN_FRAME
    .cfi_def_cfa rsp, 8
    .cfi_escape 0x10, 16, 2, 0x73, {F_RET}
    .cfi_escape 0x10, 3, 2, 0x73, {F_RBX}
    .cfi_escape 0x16, 7, 2, 0x77, 0
    .endm

    .p2align 6
    .hidden transect_enter
    .globl transect_enter
    .type transect_enter, @function
transect_enter:
    .cfi_startproc
    push rax
    .cfi_adjust_cfa_offset 8
    lea rax, [rip + transect_flags]
    movzx eax, byte ptr [rax + r11]
    cmp eax, 2
    jae 10f
    push rdx
    .cfi_adjust_cfa_offset 8
    push rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    push rcx
    .cfi_adjust_cfa_offset 8
    test eax, eax
    jnz 9f
    mov rbx, qword ptr [rip + transect_tls_thread@GOTTPOFF]
    mov rbx, qword ptr fs:[rbx]
    test rbx, rbx
    jz 9f
    lea rdx, [rip + transect_return_site]
    cmp qword ptr [rsp + 32], rdx
    je 9f
    mov rcx, qword ptr [rip + transect_tls_counters@GOTTPOFF]
    mov rcx, qword ptr fs:[rcx]
    mov edx, r11d
    shl rdx, 6
    add rcx, rdx
    cmp dword ptr [rcx + {C_PERIOD}], 1
    jne 9f
    mov rdx, qword ptr [rbx + {T_TOP}]
    lea rax, [rsp + 32]
    cmp qword ptr [rdx + {F_SP}], rax
    jbe 9f
1:  mov rax, qword ptr [rbx + {T_FREE}]
    test rax, rax
    jz 9f
    mov rdx, qword ptr [rax + {F_NEXT}]
    cmpxchg qword ptr [rbx + {T_FREE}], rdx
    jne 1b
    inc dword ptr [rcx]
    inc qword ptr [rcx + {C_ISSUED}]
    inc word ptr [rcx + {C_DEPTH}]
    mov qword ptr [rax + {F_RECORD}], rcx
    mov edx, r11d
    mov qword ptr [rax + {F_SLOT}], rdx
    mov dword ptr [rax + {F_WEIGHT}], 1
    mov dword ptr [rax + {F_OPEN}], 1
    mov qword ptr [rax + {F_CHILD}], 0
    lea rcx, [rip + transect_targets]
    lea rcx, [rcx + rdx * 8]
    mov qword ptr [rax + {F_TARGET}], rcx
    mov rdx, qword ptr [rbx + {T_TOP}]
    mov qword ptr [rax + {F_PARENT}], rdx
    lea rdx, [rsp + 32]
    mov qword ptr [rax + {F_SP}], rdx
    mov qword ptr [rbx + {T_TOP}], rax
    mov rbx, rax
    pop rcx
    .cfi_adjust_cfa_offset -8
    pop qword ptr [rbx + {F_RBX}]
    .cfi_adjust_cfa_offset -8
    .cfi_escape 0x10, 3, 2, 0x73, {F_RBX}
    pop qword ptr [rbx + {F_RDX}]
    .cfi_adjust_cfa_offset -8
    pop qword ptr [rbx + {F_RAX}]
    .cfi_adjust_cfa_offset -8
    pop qword ptr [rbx + {F_RET}]
    CFI_IN_FRAME
transect_call:
    # The caller's loads in flight are the caller's.
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov qword ptr [rbx + {F_START}], rax
    cmp byte ptr [rip + transect_parallel], 0
    jne 8f
    sub rax, qword ptr [rip + transect_epoch]
    mov qword ptr [rbx + {F_INTEGRAL}], rax
2:  mov rax, qword ptr [rbx + {F_RAX}]
    mov rdx, qword ptr [rbx + {F_RDX}]
    mov r11, qword ptr [rbx + {F_TARGET}]
    call qword ptr [r11]
    .hidden transect_return_site
    .globl transect_return_site
transect_return_site:
    mov qword ptr [rbx + {F_RAX}], rax
    mov qword ptr [rbx + {F_RDX}], rdx
    test dword ptr [rbx + {F_FLAGS}], {PRESERVE}
    jnz 98f
    # rdtsc does not wait for earlier loads: out of order it is read before the callee has ended.
    lfence
    rdtsc
    .cfi_remember_state
    push qword ptr [rbx + {F_RET}]
    .cfi_offset 16, -8
    .cfi_restore rsp
    .cfi_def_cfa rsp, 8
    shl rdx, 32
    or rax, rdx
    mov r10, qword ptr [rip + transect_tls_thread@GOTTPOFF]
    mov r10, qword ptr fs:[r10]
    test r10, r10
    jz 7f
    cmp dword ptr [rbx + {F_FLAGS}], 0
    jne 7f
    # frames above this one were left by a jump: Rust frees them
    cmp qword ptr [r10 + {T_TOP}], rbx
    jne 7f
    # the enclosing call's callee did not make this call, or is not known yet: Rust finds out
    mov rdx, qword ptr [rbx + {F_PARENT}]
    mov edx, dword ptr [rdx + {F_SLOT}]
    test edx, edx
    jz 16f
    lea rcx, [rip + transect_edges]
    mov r8d, dword ptr [rbx + {F_SLOT}]
    movzx r8d, word ptr [rcx + r8 * 4]
    cmp r8w, word ptr [rcx + rdx * 4 + 2]
    jne 7f
16:
    mov r8, qword ptr [rbx + {F_RECORD}]
    # a call of the same flow is open around it: Rust knows what of it counts
    cmp word ptr [r8 + {C_DEPTH}], 1
    jne 7f
    # last timed call closer than tau: hot, a longer period may be due
    mov r9, rax
    shr r9, 8
    mov ecx, dword ptr [r8 + {C_LAST}]
    mov edx, r9d
    sub edx, ecx
    cmp edx, dword ptr [r10 + {T_TAU}]
    jb 7f
    mov dword ptr [r8 + {C_LAST}], r9d
    mov rsi, rax
    sub rsi, qword ptr [rbx + {F_START}]
    xor edi, edi
    sub rsi, qword ptr [rip + transect_empty]
    cmovb rsi, rdi
    mov rdi, rsi
    cmp byte ptr [rip + transect_parallel], 0
    je 3f
    INTEGRAL
    sub rdx, qword ptr [rbx + {F_INTEGRAL}]
    # what was taken off the duration is taken off here too, divided by the threads active now
    mov rax, qword ptr [rcx + r11 * 8]
    imul rax, qword ptr [rip + transect_empty]
    shr rax, 20
    xor ecx, ecx
    sub rdx, rax
    cmovb rdx, rcx
    cmp rdx, rdi
    cmovb rdi, rdx
3:  # rsi = ticks, rdi = attributed ticks
    dec word ptr [r8 + {C_DEPTH}]
    add qword ptr [r8 + {C_TOTAL}], rsi
    add qword ptr [r8 + {C_ATTRIBUTED}], rdi
    inc qword ptr [r8 + {C_TIMED}]
    mov rcx, rsi
    sub rcx, qword ptr [rbx + {F_CHILD}]
    add qword ptr [r8 + {C_OWN}], rcx
    mov rdx, qword ptr [rbx + {F_PARENT}]
    mov qword ptr [r10 + {T_TOP}], rdx
    mov ecx, dword ptr [rdx + {F_SLOT}]
    test ecx, ecx
    jz 6f
    # made by its callee: see above
    add qword ptr [rdx + {F_CHILD}], rsi
5:  mov r8, qword ptr [rbx + {F_RAX}]
    mov r9, qword ptr [rbx + {F_RDX}]
    mov rcx, qword ptr [rbx + {F_RBX}]
    # from here on a signal handler may take the frame
    .cfi_register rbx, rcx
    mov dword ptr [rbx + {F_OPEN}], 0
    mov rax, qword ptr [r10 + {T_FREE}]
55: mov qword ptr [rbx + {F_NEXT}], rax
    cmpxchg qword ptr [r10 + {T_FREE}], rbx
    jne 55b
    mov rax, r8
    mov rdx, r9
    mov rbx, rcx
    .cfi_restore rbx
    ret
    .cfi_restore_state
    .cfi_remember_state
    .cfi_offset 16, -8
    .cfi_restore rsp
    .cfi_def_cfa rsp, 8
6:  # outermost
    mov rcx, qword ptr [r10 + {T_HEADER}]
    add qword ptr [rcx + {H_OUTERMOST}], rsi
    add qword ptr [rcx + {H_OUTERMOST_ATTRIBUTED}], rdi
    jmp 5b
7:  # slow exit: rax = now, rbx = frame, [rsp] = return address
    sub rsp, 40
    .cfi_adjust_cfa_offset 40
    movups xmmword ptr [rsp], xmm0
    movups xmmword ptr [rsp + 16], xmm1
    mov rdi, rbx
    mov rsi, rax
    CALL_ALIGNED {slow_exit}, 0xb0, 0x00 # 48
    movups xmm0, xmmword ptr [rsp]
    movups xmm1, xmmword ptr [rsp + 16]
    add rsp, 40
    .cfi_adjust_cfa_offset -40
    mov r10, rax
    test rax, rax
    jz 71f
    cmp qword ptr [r10 + {T_STAMP}], 0
    je 5b
    # a lock is held from here on: as 5, then the time
    mov r8, qword ptr [rbx + {F_RAX}]
    mov r9, qword ptr [rbx + {F_RDX}]
    mov rcx, qword ptr [rbx + {F_RBX}]
    .cfi_remember_state
    .cfi_register rbx, rcx
    mov dword ptr [rbx + {F_OPEN}], 0
    mov rax, qword ptr [r10 + {T_FREE}]
70: mov qword ptr [rbx + {F_NEXT}], rax
    cmpxchg qword ptr [r10 + {T_FREE}], rbx
    jne 70b
    mov rbx, rcx
    .cfi_restore rbx
    mov rcx, qword ptr [r10 + {T_STAMP}]
    mov qword ptr [r10 + {T_STAMP}], 0
    # a signal handler may have come first
    test rcx, rcx
    jz 72f
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov qword ptr [rcx], rax
    # see DITHER in hold.rs
    mov ecx, dword ptr [r10 + {T_DITHER}]
73: dec ecx
    jnz 73b
    lfence
72: mov rax, r8
    mov rdx, r9
    ret
    .cfi_restore_state
71: # the thread's record is gone: leave the frame to reclaiming
    mov rax, qword ptr [rbx + {F_RAX}]
    mov rdx, qword ptr [rbx + {F_RDX}]
    mov rbx, qword ptr [rbx + {F_RBX}]
    ret
    .cfi_restore_state
# Where open calls return once the clock may not be read.
    .cfi_remember_state
    .hidden transect_quiet_return_site
    .globl transect_quiet_return_site
    nop
transect_quiet_return_site:
    mov r11, qword ptr [rbx + {F_KEPT}]
    push qword ptr [rbx + {F_RET}]
    .cfi_offset 16, -8
    .cfi_restore rsp
    .cfi_def_cfa rsp, 8
    mov rbx, qword ptr [rbx + {F_RBX}]
    .cfi_restore rbx
    ret
    .cfi_restore_state
8:  # parallel: note the active-thread integral at the start (rcx may hold the fourth argument)
    mov qword ptr [rbx + {F_SCRATCH}], rcx
    INTEGRAL
    mov qword ptr [rbx + {F_INTEGRAL}], rdx
    mov rcx, qword ptr [rbx + {F_SCRATCH}]
    jmp 2b
# Return from a function of a static component: its caller may know which registers it changes (GCC's -fipa-ra), so all
# but the flags are handed on as the function left them; r11, which the call needed, as it was before.
98: lfence
    rdtsc
    .cfi_remember_state
    push qword ptr [rbx + {F_RET}]
    .cfi_offset 16, -8
    .cfi_restore rsp
    .cfi_def_cfa rsp, 8
    shl rdx, 32
    or rax, rdx
    sub rsp, 344
    .cfi_adjust_cfa_offset 344
    movups xmmword ptr [rsp], xmm0
    movups xmmword ptr [rsp + 16], xmm1
    movups xmmword ptr [rsp + 32], xmm2
    movups xmmword ptr [rsp + 48], xmm3
    movups xmmword ptr [rsp + 64], xmm4
    movups xmmword ptr [rsp + 80], xmm5
    movups xmmword ptr [rsp + 96], xmm6
    movups xmmword ptr [rsp + 112], xmm7
    movups xmmword ptr [rsp + 128], xmm8
    movups xmmword ptr [rsp + 144], xmm9
    movups xmmword ptr [rsp + 160], xmm10
    movups xmmword ptr [rsp + 176], xmm11
    movups xmmword ptr [rsp + 192], xmm12
    movups xmmword ptr [rsp + 208], xmm13
    movups xmmword ptr [rsp + 224], xmm14
    movups xmmword ptr [rsp + 240], xmm15
    mov qword ptr [rsp + 256], rcx
    mov qword ptr [rsp + 264], rsi
    mov qword ptr [rsp + 272], rdi
    mov qword ptr [rsp + 280], r8
    mov qword ptr [rsp + 288], r9
    mov qword ptr [rsp + 296], r10
    mov rdi, rbx
    mov rsi, rax
    CALL_ALIGNED {slow_exit}, 0xe0, 0x02 # 352
    mov rcx, qword ptr [rbx + {F_RAX}]
    mov qword ptr [rsp + 304], rcx
    mov rcx, qword ptr [rbx + {F_RDX}]
    mov qword ptr [rsp + 312], rcx
    mov rcx, qword ptr [rbx + {F_KEPT}]
    mov qword ptr [rsp + 320], rcx
    mov rcx, qword ptr [rbx + {F_RBX}]
    mov qword ptr [rsp + 328], rcx
    # from here on a signal handler may take the frame
    .cfi_rel_offset rbx, 328
    mov r10, rax
    test rax, rax
    jz 97f
    mov dword ptr [rbx + {F_OPEN}], 0
    mov rax, qword ptr [r10 + {T_FREE}]
96: mov qword ptr [rbx + {F_NEXT}], rax
    cmpxchg qword ptr [r10 + {T_FREE}], rbx
    jne 96b
97: movups xmm0, xmmword ptr [rsp]
    movups xmm1, xmmword ptr [rsp + 16]
    movups xmm2, xmmword ptr [rsp + 32]
    movups xmm3, xmmword ptr [rsp + 48]
    movups xmm4, xmmword ptr [rsp + 64]
    movups xmm5, xmmword ptr [rsp + 80]
    movups xmm6, xmmword ptr [rsp + 96]
    movups xmm7, xmmword ptr [rsp + 112]
    movups xmm8, xmmword ptr [rsp + 128]
    movups xmm9, xmmword ptr [rsp + 144]
    movups xmm10, xmmword ptr [rsp + 160]
    movups xmm11, xmmword ptr [rsp + 176]
    movups xmm12, xmmword ptr [rsp + 192]
    movups xmm13, xmmword ptr [rsp + 208]
    movups xmm14, xmmword ptr [rsp + 224]
    movups xmm15, xmmword ptr [rsp + 240]
    mov rcx, qword ptr [rsp + 256]
    mov rsi, qword ptr [rsp + 264]
    mov rdi, qword ptr [rsp + 272]
    mov r8, qword ptr [rsp + 280]
    mov r9, qword ptr [rsp + 288]
    mov r10, qword ptr [rsp + 296]
    mov rax, qword ptr [rsp + 304]
    mov rdx, qword ptr [rsp + 312]
    mov r11, qword ptr [rsp + 320]
    mov rbx, qword ptr [rsp + 328]
    .cfi_restore rbx
    add rsp, 344
    .cfi_adjust_cfa_offset -344
    ret
    .cfi_restore_state
    .cfi_endproc

# Entry of a function of a static component that needs more than counting. Jumped to by its entry code (in the region
# near the object), which has pushed rax and rcx above the return address.
#   in        : eax = calling component's id, with bit 8 set if the call is not counted yet, 0x1ff = not of this object;
#               rcx = its StaticEntry
#   preserved : everything but the flags (and r11 in a timed call, until its return): the caller may be compiled for
#               this very function (-fipa-ra), or the function be assembly with arguments where it likes
    .p2align 4
    .hidden transect_static_enter
    .globl transect_static_enter
    .type transect_static_enter, @function
transect_static_enter:
    .cfi_startproc
    .cfi_def_cfa_offset 24
    sub rsp, 328
    .cfi_adjust_cfa_offset 328
    mov qword ptr [rsp + 256], r11
    mov qword ptr [rsp + 264], rcx
    mov qword ptr [rsp + 272], rdi
    mov qword ptr [rsp + 280], rsi
    mov qword ptr [rsp + 288], rdx
    mov r11, qword ptr [rsp + 328]
    mov qword ptr [rsp + 296], r11
    mov qword ptr [rsp + 304], r8
    mov qword ptr [rsp + 312], r9
    mov r11, qword ptr [rsp + 336]
    mov qword ptr [rsp + 320], r11
    mov qword ptr [rsp + 328], r10
    movups xmmword ptr [rsp], xmm0
    movups xmmword ptr [rsp + 16], xmm1
    movups xmmword ptr [rsp + 32], xmm2
    movups xmmword ptr [rsp + 48], xmm3
    movups xmmword ptr [rsp + 64], xmm4
    movups xmmword ptr [rsp + 80], xmm5
    movups xmmword ptr [rsp + 96], xmm6
    movups xmmword ptr [rsp + 112], xmm7
    movups xmmword ptr [rsp + 128], xmm8
    movups xmmword ptr [rsp + 144], xmm9
    movups xmmword ptr [rsp + 160], xmm10
    movups xmmword ptr [rsp + 176], xmm11
    movups xmmword ptr [rsp + 192], xmm12
    movups xmmword ptr [rsp + 208], xmm13
    movups xmmword ptr [rsp + 224], xmm14
    movups xmmword ptr [rsp + 240], xmm15
    mov rdi, rcx
    mov esi, eax
    lea rdx, [rsp + 272]
    mov rcx, rbx
    CALL_ALIGNED {static_enter}, 0xe0, 0x02 # 352
    movups xmm0, xmmword ptr [rsp]
    movups xmm1, xmmword ptr [rsp + 16]
    movups xmm2, xmmword ptr [rsp + 32]
    movups xmm3, xmmword ptr [rsp + 48]
    movups xmm4, xmmword ptr [rsp + 64]
    movups xmm5, xmmword ptr [rsp + 80]
    movups xmm6, xmmword ptr [rsp + 96]
    movups xmm7, xmmword ptr [rsp + 112]
    movups xmm8, xmmword ptr [rsp + 128]
    movups xmm9, xmmword ptr [rsp + 144]
    movups xmm10, xmmword ptr [rsp + 160]
    movups xmm11, xmmword ptr [rsp + 176]
    movups xmm12, xmmword ptr [rsp + 192]
    movups xmm13, xmmword ptr [rsp + 208]
    movups xmm14, xmmword ptr [rsp + 224]
    movups xmm15, xmmword ptr [rsp + 240]
    mov rdi, qword ptr [rsp + 272]
    mov rsi, qword ptr [rsp + 280]
    mov rcx, qword ptr [rsp + 296]
    mov r8, qword ptr [rsp + 304]
    mov r9, qword ptr [rsp + 312]
    mov r10, qword ptr [rsp + 328]
    test rax, rax
    jz 1f
    # rax = frame; it already holds the return address and rbx
    mov rdx, qword ptr [rsp + 256]
    mov qword ptr [rax + {F_KEPT}], rdx
    mov rdx, qword ptr [rsp + 288]
    mov qword ptr [rax + {F_RDX}], rdx
    mov rdx, qword ptr [rsp + 320]
    mov qword ptr [rax + {F_RAX}], rdx
    mov rbx, rax
    .cfi_escape 0x10, 3, 2, 0x73, {F_RBX}
    lea rsp, [rsp + 352]
    .cfi_remember_state
    CFI_IN_FRAME
    jmp transect_call
    .cfi_restore_state
    .cfi_restore rbx
    .cfi_def_cfa rsp, 352
1:  # pass through; the jump's word lies below the stack, where signals leave 128 bytes alone
    mov rdx, qword ptr [rsp + 264]
    mov rdx, qword ptr [rdx]
    mov qword ptr [rsp + 336], rdx
    mov r11, qword ptr [rsp + 256]
    mov rdx, qword ptr [rsp + 288]
    mov rax, qword ptr [rsp + 320]
    lea rsp, [rsp + 344]
    .cfi_def_cfa_offset 8
    jmp qword ptr [rsp - 8]
    .cfi_endproc

    .cfi_startproc
    .cfi_def_cfa_offset 40
    .cfi_rel_offset rbx, 8
# eax = 2: mutex acquisition, 3: release, 4: acquisition of an rwlock to read, 5: `syscall`. Uncontended and not sampled: count,
# go on. The stub's count is the call's; the countdown goes below zero until the next slow entry grants a lease.
    .cfi_def_cfa_offset 16
    .cfi_restore rbx
10: push rcx
    .cfi_adjust_cfa_offset 8
    mov rcx, qword ptr [rip + transect_tls_thread@GOTTPOFF]
    mov rcx, qword ptr fs:[rcx]
    test rcx, rcx
    jz 14f
    cmp eax, 5
    je 16f
    cmp eax, 3
    mov rax, rdi
    je 12f
    ja 13f
    cmp dword ptr [rdi], 0
    jne 14f
15: cmp dword ptr [rcx + {T_HOLD}], 0
    je 14f
    shr rax, 5
    xor rax, rdi
    shr rax, 4
    xor rax, qword ptr [rsp + 16]
    imul eax, eax, {Q_FACTOR}
    shr eax, {Q_SHIFT}
    shl eax, 5
    lea rax, [rcx + rax + {T_QUICK}]
    cmp qword ptr [rax], rdi
    jne 14f
    mov rcx, qword ptr [rsp + 16]
    cmp qword ptr [rax + 8], rcx
    jne 14f
    mov rcx, qword ptr [rax + 16]
    inc qword ptr [rcx + {L_ACQUISITIONS}]
    mov rcx, qword ptr [rip + transect_tls_thread@GOTTPOFF]
    mov rcx, qword ptr fs:[rcx]
    dec dword ptr [rcx + {T_HOLD}]
11: pop rcx
    .cfi_adjust_cfa_offset -8
    lea rax, [rip + transect_targets]
    mov r11, qword ptr [rax + r11 * 8]
    pop rax
    .cfi_adjust_cfa_offset -8
    jmp r11
    .cfi_def_cfa_offset 24
12: shr rax, 5
    xor rax, rdi
    shr rax, 4
    and eax, 7
    lea eax, [rax + rax * 2]
    cmp qword ptr [rcx + rax * 8 + {T_HELD}], rdi
    je 17f
    cmp dword ptr [rcx + {T_RELEASE}], 0
    je 14f
    dec dword ptr [rcx + {T_RELEASE}]
    jmp 11b
17: # its hold time is being taken, and ends here
    push rdx
    .cfi_adjust_cfa_offset 8
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov qword ptr [rcx + {T_RELEASED}], rax
    pop rdx
    .cfi_adjust_cfa_offset -8
    jmp 14f
13: test dword ptr [rdi], {RWLOCK_WRITER}
    je 15b
    jmp 14f
16: # `syscall`: one of a number that is looked at, or a gap that ends, is Rust's business
    cmp rdi, {NUMBERS}
    jae 14f
    lea rax, [rip + {system_calls}]
    cmp byte ptr [rax + rdi], 0
    jne 14f
    mov rcx, qword ptr [rip + transect_tls_counters@GOTTPOFF]
    mov rcx, qword ptr fs:[rcx]
    mov eax, r11d
    shl eax, 6
    add rcx, rax
    mov eax, dword ptr [rcx]
    neg eax
    js 14f
    cmp eax, dword ptr [rcx + {C_PERIOD}]
    jb 11b
14: pop rcx
    .cfi_adjust_cfa_offset -8
    pop rax
    .cfi_adjust_cfa_offset -8
    jmp transect_enter_slow
    .cfi_def_cfa_offset 40
    .cfi_rel_offset rbx, 8
9:  pop rcx
    .cfi_adjust_cfa_offset -8
    pop rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    pop rdx
    .cfi_adjust_cfa_offset -8
    pop rax
    .cfi_adjust_cfa_offset -8
    .hidden transect_enter_slow
    .globl transect_enter_slow
transect_enter_slow:
    sub rsp, 200
    .cfi_adjust_cfa_offset 200
    movups xmmword ptr [rsp], xmm0
    movups xmmword ptr [rsp + 16], xmm1
    movups xmmword ptr [rsp + 32], xmm2
    movups xmmword ptr [rsp + 48], xmm3
    movups xmmword ptr [rsp + 64], xmm4
    movups xmmword ptr [rsp + 80], xmm5
    movups xmmword ptr [rsp + 96], xmm6
    movups xmmword ptr [rsp + 112], xmm7
    mov qword ptr [rsp + 128], rdi
    mov qword ptr [rsp + 136], rsi
    mov qword ptr [rsp + 144], rdx
    mov qword ptr [rsp + 152], rcx
    mov qword ptr [rsp + 160], r8
    mov qword ptr [rsp + 168], r9
    mov qword ptr [rsp + 176], rax
    mov qword ptr [rsp + 184], r10
    mov qword ptr [rsp + 192], r11
    mov edi, r11d
    lea rsi, [rsp + 128]
    mov rdx, rbx
    CALL_ALIGNED {slow_enter}, 0xd0, 0x01 # 208
    movups xmm0, xmmword ptr [rsp]
    movups xmm1, xmmword ptr [rsp + 16]
    movups xmm2, xmmword ptr [rsp + 32]
    movups xmm3, xmmword ptr [rsp + 48]
    movups xmm4, xmmword ptr [rsp + 64]
    movups xmm5, xmmword ptr [rsp + 80]
    movups xmm6, xmmword ptr [rsp + 96]
    movups xmm7, xmmword ptr [rsp + 112]
    mov rdi, qword ptr [rsp + 128]
    mov rsi, qword ptr [rsp + 136]
    mov rcx, qword ptr [rsp + 152]
    mov r8, qword ptr [rsp + 160]
    mov r9, qword ptr [rsp + 168]
    mov r10, qword ptr [rsp + 184]
    mov r11, qword ptr [rsp + 192]
    test rax, rax
    jz 1f
    # rax = frame; it already holds the return address and rbx
    mov rdx, qword ptr [rsp + 144]
    mov qword ptr [rax + {F_RDX}], rdx
    mov rdx, qword ptr [rsp + 176]
    mov qword ptr [rax + {F_RAX}], rdx
    mov rbx, rax
    .cfi_escape 0x10, 3, 2, 0x73, {F_RBX}
    add rsp, 208
    .cfi_remember_state
    CFI_IN_FRAME
    jmp transect_call
    .cfi_restore_state
    .cfi_restore rbx
    .cfi_def_cfa rsp, 208
1:  # pass through: target = targets[slot], read after the arguments are back
    mov rdx, qword ptr [rsp + 144]
    mov rax, qword ptr [rsp + 176]
    add rsp, 200
    .cfi_adjust_cfa_offset -200
    push rax
    .cfi_adjust_cfa_offset 8
    lea rax, [rip + transect_targets]
    mov r11, qword ptr [rax + r11 * 8]
    pop rax
    .cfi_adjust_cfa_offset -8
    jmp r11
    .cfi_endproc

# Called in place of the loader's event hook; the hook itself only returns.
# All registers the C convention leaves to the callee may be clobbered: its caller is C code.
    .p2align 4
    .hidden transect_loader_event
    .globl transect_loader_event
    .type transect_loader_event, @function
transect_loader_event:
    .cfi_startproc
    sub rsp, 8
    .cfi_adjust_cfa_offset 8
    call {loader_event}
    add rsp, 8
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc

# Start routine of a wrapped thread: rdi -> {{routine, argument}}; Rust takes it apart and frees it, then the routine
# is entered with the stack as pthread gave it.
    .p2align 4
    .hidden transect_thread_start
    .globl transect_thread_start
    .type transect_thread_start, @function
transect_thread_start:
    .cfi_startproc
    sub rsp, 24
    .cfi_adjust_cfa_offset 24
    mov rsi, rsp
    call {thread_started}
    mov rdi, qword ptr [rsp + 8]
    mov rax, qword ptr [rsp]
    add rsp, 24
    .cfi_adjust_cfa_offset -24
    jmp rax
    .cfi_endproc

# Where a site of a feature region reports. rdi = kind and address of the site, rsi = stack pointer at the site, edx: see
# `enter_region`.
# preserved : every register, vector registers (their upper halves too: Rust's code for baseline SSE2 leaves them) and
#             the flags included; the 128 bytes below the caller's rsp are not
    .p2align 4
    .hidden transect_flow_region
    .globl transect_flow_region
    .type transect_flow_region, @function
transect_flow_region:
    .cfi_startproc
    pushfq
    .cfi_adjust_cfa_offset 8
    push rax
    .cfi_adjust_cfa_offset 8
    push rcx
    .cfi_adjust_cfa_offset 8
    push rdx
    .cfi_adjust_cfa_offset 8
    push rsi
    .cfi_adjust_cfa_offset 8
    push rdi
    .cfi_adjust_cfa_offset 8
    push r8
    .cfi_adjust_cfa_offset 8
    push r9
    .cfi_adjust_cfa_offset 8
    push r10
    .cfi_adjust_cfa_offset 8
    push r11
    .cfi_adjust_cfa_offset 8
    push rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    sub rsp, 256
    and rsp, -16
    cld
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps xmmword ptr [rsp + 16 * \n], xmm\n
    .endr
    call {enter_region}
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps xmm\n, xmmword ptr [rsp + 16 * \n]
    .endr
    mov rsp, rbp
    .cfi_def_cfa_register rsp
    pop rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    pop r11
    .cfi_adjust_cfa_offset -8
    pop r10
    .cfi_adjust_cfa_offset -8
    pop r9
    .cfi_adjust_cfa_offset -8
    pop r8
    .cfi_adjust_cfa_offset -8
    pop rdi
    .cfi_adjust_cfa_offset -8
    pop rsi
    .cfi_adjust_cfa_offset -8
    pop rdx
    .cfi_adjust_cfa_offset -8
    pop rcx
    .cfi_adjust_cfa_offset -8
    pop rax
    .cfi_adjust_cfa_offset -8
    popfq
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
