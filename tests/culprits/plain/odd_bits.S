// A hot function in assembler: uint64_t odd_bits(const uint64_t *words, size_t count), how many words have an odd number
// of bits, found bit by bit. odd_words.c calls it.
    .text
    .globl odd_bits
    .type odd_bits, @function
odd_bits:
    .cfi_startproc
    xor %eax, %eax
    test %rsi, %rsi
    je 4f
1:  mov (%rdi), %rdx
    xor %ecx, %ecx
2:  mov %rdx, %r8       // culprit
    and $1, %r8d        // culprit
    xor %r8, %rcx       // culprit
    shr $1, %rdx        // culprit
    jne 2b              // culprit
    add %rcx, %rax
    add $8, %rdi
    dec %rsi
    jne 1b
4:  ret
    .cfi_endproc
    .size odd_bits, . - odd_bits
    .section .note.GNU-stack, "", @progbits
