/* Entries that are hard, each with the verdict that belongs to it. */
    .text
    .macro function name
    .globl \name
    .type \name, @function
    .balign 16
\name:
    .cfi_startproc
    .endm
    .macro end name
    .cfi_endproc
    .size \name, .-\name
    .endm

/* Five bytes and more, plain. */
function plain
    push %rbp
    mov %rsp,%rbp
    sub $32,%rsp
    leave
    ret
end plain

/* Too short, padding behind it. */
function short_return
    ret
end short_return

/* Too short, another function right behind it. */
function cramped
    xor %eax,%eax
    ret
    .cfi_endproc
    .size cramped, .-cramped
    .globl cramped_neighbour
    .type cramped_neighbour, @function
cramped_neighbour:
    .cfi_startproc
    mov $7,%eax
    ret
end cramped_neighbour

/* A loop's head behind the first instruction. */
function inner_head
    xor %eax,%eax
1:  inc %eax
    cmp %edi,%eax
    jne 1b
    ret
end inner_head

/* The loop begins with the function. */
function loop_entry
    dec %edi
    mov %edi,%eax
    nopl 0(%rax)
    test %edi,%edi
    jg loop_entry
    ret
end loop_entry

/* The same behind an endbr64, which the loop passes by. */
function loop_behind_endbr
    endbr64
1:  dec %edi
    nopl 0(%rax)
    jg 1b
    ret
end loop_behind_endbr

/* Calls itself: not a loop. */
function recursion
    push %rbx
    mov %edi,%ebx
    sub $1,%edi
    jle 1f
    call recursion
1:  mov %ebx,%eax
    pop %rbx
    ret
end recursion

/* Another function jumps into the first bytes. */
function entered_twice
    mov %rdi,%rax
.Lsecond_entry:
    mov %rsi,%rcx
    rep movsb
    ret
end entered_twice
function second_entry
    lea (%rdi,%rdx),%rax
    jmp .Lsecond_entry
end second_entry

/* A jump table leads into the first bytes. */
function table_entry
    xor %eax,%eax
.Lcase:
    movzbl (%rdi),%ecx
    inc %rdi
    cmp $2,%ecx
    ja 1f
    lea .Ltable(%rip),%rdx
    movslq (%rdx,%rcx,4),%rcx
    add %rdx,%rcx
    jmp *%rcx
1:  ret
.Lother:
    add $100,%eax
    ret
end table_entry
    .section .rodata
    .balign 4
.Ltable:
    .long .Lcase-.Ltable, .Lother-.Ltable, .Lother-.Ltable
    .text

/* A table of addresses leads there. */
function address_table_entry
    xor %eax,%eax
.Laddress_case:
    movzbl (%rdi),%ecx
    inc %rdi
    lea .Laddresses(%rip),%rdx
    jmp *(%rdx,%rcx,8)
.Laddress_other:
    ret
end address_table_entry
    .section .data.rel.ro,"aw"
    .balign 8
.Laddresses:
    .quad .Laddress_case, .Laddress_other
    .text

/* The address of a place in the first bytes is taken. */
function pointer_inside
    xor %eax,%eax
.Lpointed:
    mov $5,%ecx
    ret
end pointer_inside
function takes_pointer
    lea .Lpointed(%rip),%rax
    ret
end takes_pointer

/* A call that would return into the window, one that ends it. */
function call_inside
    call *%rax
    mov $3,%eax
    ret
end call_inside
function call_last
    sub $8,%rsp
    call plain
    add $8,%rsp
    ret
end call_last

/* Looks at its return address; pops it. */
function reads_return
    mov (%rsp),%rax
    mov %rax,(%rdi)
    ret
end reads_return
function pops_return
    pop %rdx
    mov $57,%eax
    push %rdx
    ret
end pops_return
function reads_by_frame
    push %rbp
    mov %rsp,%rbp
    mov 8(%rbp),%rax
    pop %rbp
    ret
end reads_by_frame
function stack_argument
    sub $24,%rsp
    mov 32(%rsp),%rax
    add $24,%rsp
    ret
end stack_argument

/* Restarted at its own address. */
function system_call
    mov %ecx,%r10d
    syscall
    ret
end system_call

/* Nothing that decodes. */
function no_code
    .byte 0x06, 0x06, 0x06, 0x06, 0x06, 0x06
end no_code

/* setjmp's, by name. */
function vfork
    mov $58,%eax
    ret
end vfork
function __restore_rt
    mov $15,%rax
    syscall
end __restore_rt

/* Data that looks like a branch into `guarded`: no instruction. */
function guarded
    push %rbx
    mov %rdi,%rbx
    call plain
    mov %rbx,%rax
    pop %rbx
    ret
end guarded
function looks_like_a_branch
    mov $guarded_distance,%eax
    ret
end looks_like_a_branch
    .set guarded_distance, 0x12345678
    .section .note.GNU-stack,"",@progbits
