# Stubs of the image that counts calls in a process that runs already.
#
# Contract of a stub at its entry: a function call of the C convention in progress; [rsp] is the return address.
#   preserved : every register but r11 and the flags (which the convention leaves undefined at a call)
#   clobbered : r11, flags
# It makes no frame: nothing of it is on the stack while the callee runs, so it can be taken out as soon as no thread stands in it.
#
# Whose counters: the thread's number, which its C library keeps in its control block, is the index of a table. The image has no
# thread-local memory (the loader does not know it), and a word in somebody else's could be a former thread's.

    .section .bss.transect, "aw", @nobits
    .p2align 12
    .hidden transect_flow_targets
    .globl transect_flow_targets
    .type transect_flow_targets, @object
    .size transect_flow_targets, {SLOTS} * 8
transect_flow_targets:
    .skip {SLOTS} * 8
    .hidden transect_flow_lost
    .globl transect_flow_lost
transect_flow_lost:              # what nobody reads: calls of children
    .skip {SLOTS} * 64
    .p2align 6
    .hidden transect_flow_settings
    .globl transect_flow_settings
    .type transect_flow_settings, @object
    .size transect_flow_settings, {SETTINGS_SIZE}
transect_flow_settings:
    .skip {SETTINGS_SIZE}

    .section .text.transect, "ax", @progbits
    .p2align 6
    .hidden transect_flow_stubs
    .globl transect_flow_stubs
    .type transect_flow_stubs, @function
    .cfi_startproc
transect_flow_stubs:
    .set transect_i, 0
    .rept {SLOTS}
    mov r11, qword ptr [rip + transect_flow_settings + {NUMBER}]
    mov r11d, dword ptr fs:[r11]
    and r11d, {LAST_THREAD}
    shl r11d, 3
    add r11, qword ptr [rip + transect_flow_settings + {TABLE}]
    mov r11, qword ptr [r11]
    test r11, r11
    jz 0f
    inc qword ptr [r11 + transect_i * 64 + {ISSUED}]
    jmp qword ptr [rip + transect_flow_targets + transect_i * 8]
0:  mov r11d, transect_i
    jmp transect_flow_enter
    .p2align 6
    .set transect_i, transect_i + 1
    .endr
    .cfi_endproc
    .size transect_flow_stubs, . - transect_flow_stubs

# A thread's first call, of slot r11d: it gets its counters, then goes on as any other.
    .hidden transect_flow_enter
    .globl transect_flow_enter
    .type transect_flow_enter, @function
transect_flow_enter:
    .cfi_startproc
    push rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    sub rsp, 136
    and rsp, -16
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    movaps xmmword ptr [rsp + 16 * \n], xmm\n
    .endr
    mov edi, r11d
    call {enter}
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    movaps xmm\n, xmmword ptr [rsp + 16 * \n]
    .endr
    mov rax, qword ptr [rbp - 8]
    mov rcx, qword ptr [rbp - 16]
    mov rdx, qword ptr [rbp - 24]
    mov rsi, qword ptr [rbp - 32]
    mov rdi, qword ptr [rbp - 40]
    mov r8, qword ptr [rbp - 48]
    mov r9, qword ptr [rbp - 56]
    mov r10, qword ptr [rbp - 64]
    mov r11, qword ptr [rbp - 72]
    mov rsp, rbp
    pop rbp
    .cfi_def_cfa rsp, 8
    .cfi_restore rbp
    push rax
    .cfi_adjust_cfa_offset 8
    lea rax, [rip + transect_flow_targets]
    mov r11, qword ptr [rax + r11 * 8]
    pop rax
    .cfi_adjust_cfa_offset -8
    jmp r11
    .cfi_endproc
