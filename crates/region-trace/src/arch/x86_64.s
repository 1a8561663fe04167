# What the calls at sites lead to.
#
# Contract of transect_region_begin, _end and _restore
#   at entry : [rsp] = return address; the site is the call of five bytes before it. The stack below is free, and need not
#              be aligned.
#   preserved: every register but the flags, vector and x87 registers included.
#
# An event: look whether there is room, read the clock, take a place by xadd (a signal handler that comes between has
# events of its own), fill it in, `what` last.

    .section .tbss, "awT", @nobits
    .p2align 3
    .hidden transect_region_ring
    .type transect_region_ring, @object
    .size transect_region_ring, 16
transect_region_ring:                # this thread's RingRecord, 0 until its first event, and the process that it was got in
    .zero 16

# Before the constructors of the program itself.
    .section .init_array.00090, "aw", @init_array
    .p2align 3
    .quad {start}

    .section .text.transect_region, "ax", @progbits

    .macro REGION_EVENT name, kind
    .p2align 5
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
    cmp byte ptr [rip + {active}], 0
    jne 1f
    ret
1:  push rax
    .cfi_adjust_cfa_offset 8
    push rcx
    .cfi_adjust_cfa_offset 8
    push rdx
    .cfi_adjust_cfa_offset 8
    push rsi
    .cfi_adjust_cfa_offset 8
    mov rcx, qword ptr [rip + transect_region_ring@GOTTPOFF]
    mov rax, qword ptr [rip + {living}]
    mov rcx, qword ptr fs:[rcx]
    cmp dword ptr [rax], 0           # a child of fork, or the agent is to be told
    je 5f
    test rcx, rcx
    jz 5f
    mov rax, qword ptr [rcx + {WRITTEN}]
    cmp rax, qword ptr [rcx + {LOOK_AT}]
    jae 5f
2:  rdtsc
    shl rdx, 32
    or rdx, rax
    mov eax, 1
    xadd qword ptr [rcx + {WRITTEN}], rax
    and eax, {LAST}
    mov rsi, qword ptr [rcx + {EVENTS}]
    lea rax, [rax + rax * 2]
    lea rsi, [rsi + rax * 8]
    mov qword ptr [rsi + {TICKS}], rdx
    lea rax, [rsp + 40]
    mov qword ptr [rsi + {STACK}], rax
    mov rax, qword ptr [rsp + 32]
    sub rax, 5
    .if \kind
    movabs rdx, \kind << {KIND_SHIFT}
    or rax, rdx
    .endif
    mov qword ptr [rsi + {WHAT}], rax
4:  pop rsi
    .cfi_adjust_cfa_offset -8
    pop rdx
    .cfi_adjust_cfa_offset -8
    pop rcx
    .cfi_adjust_cfa_offset -8
    pop rax
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_adjust_cfa_offset 32
5:  cmp qword ptr [rip + {hook}], 0
    jne 6f
55: call transect_region_look
    test rcx, rcx
    jnz 2b
    jmp 4b
6:  push rdi                         # calls between components are counted by region: tell the agent first
    .cfi_adjust_cfa_offset 8
    mov rdi, qword ptr [rsp + 40]
    sub rdi, 5
    .if \kind == {RESTORE}
    push rcx
    .cfi_adjust_cfa_offset 8
    call transect_region_restored
    mov edx, ecx
    pop rcx
    .cfi_adjust_cfa_offset -8
    .else
    xor edx, edx
    .endif
    .if \kind
    movabs rsi, \kind << {KIND_SHIFT}
    or rdi, rsi
    .endif
    lea rsi, [rsp + 48]
    call qword ptr [rip + {hook}]
    pop rdi
    .cfi_adjust_cfa_offset -8
    mov rax, qword ptr [rip + {living}]
    cmp dword ptr [rax + 4], 0       # a child of fork, this time truly
    je 55b
    test rcx, rcx
    jz 55b
    mov rax, qword ptr [rcx + {WRITTEN}]
    cmp rax, qword ptr [rcx + {LOOK_AT}]
    jb 2b
    jmp 55b
    .cfi_endproc
    .size \name, . - \name
    .endm

    REGION_EVENT transect_region_begin, {BEGIN}
    REGION_EVENT transect_region_end, {END}
    REGION_EVENT transect_region_restore, {RESTORE}

# -> rax = the address of the agent's code for sites of regions, 0 without agent. The word that holds it is weak: the
# loader has resolved it before any code runs.
    .weak transect_flow_region_hook
    .type transect_flow_region_hook, @object
    .p2align 4
    .globl transect_region_agent
    .hidden transect_region_agent
    .type transect_region_agent, @function
transect_region_agent:
    .cfi_startproc
    mov rax, qword ptr [rip + transect_flow_region_hook@GOTPCREL]
    test rax, rax
    jz 1f
    mov rax, qword ptr [rax]
1:  ret
    .cfi_endproc
    .size transect_region_agent, . - transect_region_agent

# A function of Rust, for baseline SSE2, from anywhere: nothing but what is said below changes.
    .macro CALL_RUST name, function, with_ring
    .p2align 4
    .type \name, @function
\name:
    .cfi_startproc
    push rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    push rdi
    push r8
    push r9
    push r10
    push r11
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
    cld
    .if \with_ring
    mov rdi, qword ptr fs:[0]
    add rdi, qword ptr [rip + transect_region_ring@GOTTPOFF]
    .endif
    call \function
    mov rcx, rax
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
    lea rsp, [rbp - 40]
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rbp
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm

# -> rcx = the ring, 0 if the event is not to be written; clobbers rax, rdx, rsi.
    CALL_RUST transect_region_look, {look}, 1

# rdi = the address of a restoring site -> rcx = how many regions of the frame stay open; clobbers rax, rdx, rsi.
    CALL_RUST transect_region_restored, {restored}, 0

    .section .note.GNU-stack, "", @progbits
