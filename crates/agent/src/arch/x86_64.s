# Contract: the C functions of these names, by the C convention. Only the agent links them: elsewhere libc has them.

    .section .text.transect_runtime, "ax", @progbits
# Memory functions of our own: the agent has no library to take them from. Hidden, so nobody is interposed.
    .p2align 4
    .hidden memcpy
    .globl memcpy
    .type memcpy, @function
memcpy:
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret
    .hidden memmove
    .globl memmove
    .type memmove, @function
memmove:
    mov rax, rdi
    mov rcx, rdx
    mov r8, rdi
    sub r8, rsi
    cmp r8, rdx
    jb 1f
    rep movsb
    ret
1:  std
    lea rdi, [rdi + rcx - 1]
    lea rsi, [rsi + rcx - 1]
    rep movsb
    cld
    ret
    .hidden memset
    .globl memset
    .type memset, @function
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret
    .hidden memcmp
    .globl memcmp
    .type memcmp, @function
memcmp:
    xor eax, eax
    xor ecx, ecx
1:  cmp rcx, rdx
    je 2f
    movzx eax, byte ptr [rdi + rcx]
    movzx r8d, byte ptr [rsi + rcx]
    inc rcx
    sub eax, r8d
    je 1b
2:  ret
    .hidden bcmp
    .globl bcmp
    .type bcmp, @function
bcmp:
    jmp memcmp
    .hidden strlen
    .globl strlen
    .type strlen, @function
strlen:
    xor eax, eax
1:  cmp byte ptr [rdi + rax], 0
    je 2f
    inc rax
    jmp 1b
2:  ret

# Named by unwind tables of the core library; nothing unwinds through the agent's Rust code.
    .hidden rust_eh_personality
    .globl rust_eh_personality
    .type rust_eh_personality, @function
rust_eh_personality:
    mov eax, 8
    ret
