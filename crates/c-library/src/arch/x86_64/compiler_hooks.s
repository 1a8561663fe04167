# The compiler's hooks, as they are called before their call site has a trampoline of its own.
#
#   void hook(rdi function, rsi call_site)   C convention; the return address tells the call site
#
# A hook is called with the stack as the compiler left it: aligned, as for any C function.

    .section .text.transect_compiler_hooks, "ax", @progbits
    .p2align 4
    .hidden transect_hook_enter
    .globl transect_hook_enter
    .type transect_hook_enter, @function
transect_hook_enter:
    mov rdx, [rsp]
    xor ecx, ecx
    jmp {met}

    .p2align 4
    .hidden transect_hook_exit
    .globl transect_hook_exit
    .type transect_hook_exit, @function
transect_hook_exit:
    mov rdx, [rsp]
    mov ecx, 1
    jmp {met}
