# Reaches slots by their distance from the global offset table, as the medium and large code models do.
    .globl main
    .type main, @function
main:
    .cfi_startproc
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    leaq _GLOBAL_OFFSET_TABLE_(%rip), %rbx
    movq only_loaded@GOT(%rbx), %rdi
    call take@PLT
    call only_called@PLT
    call only_loaded@PLT
    popq %rbx
    ret
    .cfi_endproc
    .section .note.GNU-stack,"",@progbits
