# Stubs between a probe's handler (transect-probe's tiers) and a function written in C.
#
#   u64 transect_stub_enter(edi id, rsi registers, rdx vectors, rcx 0, r8d tier)
#   void transect_stub_exit(edi id, rsi registers, rdx vectors, rcx cookie, r8d tier)
#
# Called with the C convention, and keep it: rbx, rbp, r12-r15 and rsp are preserved. They look the binding of the id
# up (one pointer, so a handler is swapped by one store), and do nothing if
#   - there is none, or it was made for another tier than the one that has called (a swap of tiers under way);
#   - this thread is in a handler already: a handler that runs into a probe must not recurse.
# In the vector tier the caller has saved xmm0-15. C code may also clobber their upper halves (vzeroupper in libc's string
# functions); these are saved here if the CPU says that they are in use. Mask registers and zmm16-31 carry no
# arguments and are not kept in this tier.

    .section .tbss.transect_guard, "awT", @nobits
    .hidden transect_guard
    .globl transect_guard
    .type transect_guard, @object
    .size transect_guard, 8
transect_guard:
    .zero 8

    .section .text.transect_handler_stub, "ax", @progbits

# r10 = binding, r11 = address of the guard's byte less fs base; jumps to \skip.
    .macro FIND_BINDING skip
    mov r10, qword ptr [rip + {bindings}]
    mov eax, edi
    mov r10, qword ptr [r10 + rax * 8]
    test r10, r10
    jz \skip
    mov eax, dword ptr [r10 + {B_TIER}]
    cmp eax, 1
    je 80f
    cmp eax, r8d
    jne \skip
80: mov r11, qword ptr [rip + transect_guard@GOTTPOFF]
    cmp byte ptr fs:[r11], 0
    jne \skip
    .endm

# Calls \function with the guard up. Four words are pushed: with the return address and rbp the stack is aligned.
    .macro CALL_GUARDED function
    push rbp
    mov rbp, rsp
    push r11
    push rax
    mov byte ptr fs:[r11], 1
    cmp dword ptr [r10 + {B_UPPERS}], 0
    je 70f
    cmp dword ptr [rip + {upper_mode}], 1
    jb 70f
    mov r9, rcx
    mov r11, rdx
    mov eax, dword ptr [rip + {upper_mask}]
    ja 71f
    mov ecx, 1
    xgetbv                           # eax = components in use
    and eax, dword ptr [rip + {upper_mask}]
    jz 72f
71: sub rsp, qword ptr [rip + {upper_size}]
    and rsp, -64
    mov [rbp - 16], rax              # what is to be restored
    xor ecx, ecx
    mov [rsp + 512], rcx             # the XSAVE header must be zero
    mov [rsp + 520], rcx
    mov [rsp + 528], rcx
    mov [rsp + 536], rcx
    mov [rsp + 544], rcx
    mov [rsp + 552], rcx
    mov [rsp + 560], rcx
    mov [rsp + 568], rcx
    xor edx, edx
    xsave64 [rsp]
    mov rdx, r11
    mov rcx, r9
    mov r8, r10
    mov r10, rsp
    sub rsp, 16
    mov [rsp], r10
    mov r10, r8
    mov r8, qword ptr [r10 + {B_DATA}]
    \function
    mov r8, rax
    mov rsp, [rsp]
    mov rax, [rbp - 16]
    xor edx, edx
    xrstor64 [rsp]
    mov rax, r8
    jmp 79f
72: mov rdx, r11
    mov rcx, r9
70: mov r8, qword ptr [r10 + {B_DATA}]
    \function
79: mov r11, [rbp - 8]
    mov byte ptr fs:[r11], 0
    mov rsp, rbp
    pop rbp
    .endm

    .macro ENTER_FUNCTION
    mov rcx, r8                      # fourth argument: data
    call [r10 + {B_ENTER}]
    .endm

    .macro EXIT_FUNCTION
    call [r10 + {B_EXIT}]            # fourth: cookie, fifth: data
    .endm

    .p2align 4
    .hidden transect_stub_enter
    .globl transect_stub_enter
    .type transect_stub_enter, @function
transect_stub_enter:
    FIND_BINDING 9f
    cmp qword ptr [r10 + {B_ENTER}], 0
    je 9f
    CALL_GUARDED ENTER_FUNCTION
    ret
9:  xor eax, eax
    ret

    .p2align 4
    .hidden transect_stub_exit
    .globl transect_stub_exit
    .type transect_stub_exit, @function
transect_stub_exit:
    FIND_BINDING 9f
    cmp qword ptr [r10 + {B_EXIT}], 0
    je 9f
    CALL_GUARDED EXIT_FUNCTION
9:  ret

# Address of this thread's guard.
    .p2align 4
    .hidden transect_stub_guard
    .globl transect_stub_guard
    .type transect_stub_guard, @function
transect_stub_guard:
    mov rax, qword ptr fs:[0]
    add rax, qword ptr [rip + transect_guard@GOTTPOFF]
    ret
