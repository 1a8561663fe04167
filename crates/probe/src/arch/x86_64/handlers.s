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
# DF is clear and stays so. Nothing below the handlers' own rsp is assumed to survive; nothing above [rsp+8] is written.
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
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
    pop rdx
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
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
.Ltimed:                             # rsi = descriptor, seven registers on the stack, P at +56, the slot at +64
    lea rdi, [rsp + 64]
    mov rax, rdi
    shr rax, 12
    FIND_OR_INSERT .Lno_frame
    RETURN_ADDRESS .Luntimed
    mov [rcx + {F_RETURN}], rax
    mov [rcx + {F_DESCRIPTOR}], rsi
    mov qword ptr [rcx + {F_COOKIE}], 0
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

# ---- latency: as many calls as the controller has granted, then the probe switches itself off
    FUNCTION transect_probe_latency_enter
    SAVE_SEVEN
    mov rsi, [rsp + 56]
    movsxd rax, dword ptr [rsi - 4]
    add rsi, rax
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
    mov rdi, [rsi + {D_RECORD}]
    lock dec dword ptr [rdi + {R_REMAINING}]
    jns .Ltimed
    # Used up. The word is a line of code of this probe alone, 8-aligned: one plain store switches it. Somebody who
    # grants more at this moment may find the probe off for one epoch; nothing else can happen.
    mov rax, [rdi + {R_OFF}]
    mov rdx, [rdi + {R_WORD}]
    cmp [rdx], rax
    je .Luntimed
    mov [rdx], rax
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

# ---- exit of both
    FUNCTION transect_probe_time_exit
    push rax
    push rdx
    push rcx
    push rsi
    push rdi
    push r8
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rsi, rax                     # now
    lea rdi, [rsp + 56]              # the slot
    FIND .Llost
    mov rax, [rcx + {F_RETURN}]
    mov [rdi], rax
    mov rax, rsi
    mov r8, [rcx + {F_DESCRIPTOR}]
    mov qword ptr [rcx + {F_DESCRIPTOR}], 0
    mov rdx, [rcx + {F_START}]
    test rdx, rdx                    # 0: a user's entry handler made the frame, and was swapped for timing since
    jz 6f
    sub rax, rdx
    mov rsi, r8
    SHARD
    lock inc qword ptr [rdx + {S_SAMPLES}]
    lock add qword ptr [rdx + {S_TICKS}], rax
    mov rdi, [rsi + {D_RECORD}]
    cmp [rdi + {R_MAX}], rax
    jb .Lnew_maximum
2:  mov ecx, eax                     # bucket: exact below 8, then 8 per power of two
    cmp rax, 8
    jb 3f
    bsr rcx, rax
    sub ecx, 3
    mov rdx, rax
    shr rdx, cl
    and edx, 7
    lea ecx, [rdx + rcx * 8 + 8]
    cmp ecx, {BUCKETS}
    jb 3f
    mov ecx, {BUCKETS} - 1
3:  mov rdx, [rsi + {D_HISTOGRAM}]
    lock inc dword ptr [rdx + rcx * 4]
6:  pop r8
    pop rdi
    pop rsi
    pop rcx
    pop rdx
    pop rax
    ret
.Lnew_maximum:
    mov rdx, rax
    mov rax, [rdi + {R_MAX}]
4:  cmp rax, rdx
    jae 5f
    lock cmpxchg [rdi + {R_MAX}], rdx
    jne 4b
5:  mov rax, rdx
    jmp 2b
.Llost:                              # our frames were overwritten: there is no way on
    mov rax, [rip + {globals} + {G_HEADER}]
    lock inc qword ptr [rax + {H_LOST}]
    ud2

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

# ---- entries only, called straight from the word
#
# Where no exit is wanted, the word itself is `call handler` (E8): no jump to P and none back. The return address is
# T+5, so the descriptor lies {WORD_END} bytes before it. Otherwise the contract of an entry handler; CF is not looked at.

    FUNCTION transect_probe_count_direct
    push rsi
    push rdx
    mov rsi, [rsp + 16]
    sub rsi, {WORD_END}
    SHARD
    lock inc qword ptr [rdx + {S_CALLS}]
    pop rdx
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
