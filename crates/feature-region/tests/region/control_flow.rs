use transect_feature_region::DoubtKind;

use crate::assembled::assemble;

#[test]
fn nested_regions_and_a_loop() {
    let program = assemble(
        "function work
        place outside
        xorl %eax, %eax
        testl %edi, %edi
        jz 3f
        begin r1
        place inside
        2:
        testl %esi, %esi
        jz 1f
        begin r2, 1
        place deep
        incl %eax
        end r2, 1
        place behind
        nop
        1:
        cmpl $9, %eax
        jl 2b
        end r1
        3:
        place after
        ret
        ends work",
    );
    assert_eq!(program.doubts(), []);
    assert_eq!(program.at("outside"), Some(vec![]));
    assert_eq!(program.at("inside"), Some(vec![1]));
    assert_eq!(program.at("deep"), Some(vec![1, 2]));
    assert_eq!(program.at("behind"), Some(vec![1]));
    assert_eq!(program.at("after"), Some(vec![]));
    assert_eq!(program.map.coverage().1, 0);
}

#[test]
fn callers_are_looked_up_at_the_call() {
    let program = assemble(
        "function callee
        ret
        ends callee
        function stops
        ud2
        ends stops
        function work
        begin r0
        nop
        end r0
        call callee
        place plain
        begin r0
        call callee
        place back
        end r0
        ret
        ends work
        function last
        begin r0
        call stops
        ends last
        function next
        place beyond
        ret
        ends next",
    );
    assert_eq!(program.map.before_return(program.address("back")), Some(&[0][..]));
    assert_eq!(program.map.before_return(program.address("plain")), Some(&[][..]));
    // A call that does not return, and behind it another function.
    assert_eq!(program.at("beyond"), Some(vec![]));
    assert_eq!(program.map.before_return(program.address("beyond")), Some(&[0][..]));
}

#[test]
fn jump_tables_of_distances_and_of_addresses() {
    // The base travels out of a loop and over a call, in a register that calls keep.
    let program = assemble(
        "function other
        ret
        ends other
        function work
        pushq %rbx
        leaq 7f(%rip), %rbx
        1:
        begin r1
        call other
        cmpl $3, %edi
        ja 6f
        movl %edi, %eax
        movslq (%rbx,%rdi,4), %rax
        addq %rbx, %rax
        notrack jmp *%rax
        2: begin r2, 1
        place first
        end r2, 1
        jmp 6f
        3: end r1
        place second
        jmp 1b
        4: begin r2, 1
        place third
        end r2, 1
        5: nop
        6: end r1
        cmpl $1, %esi
        ja 12f
        leaq 8f(%rip), %rcx
        movl %esi, %edx
        movq (%rcx,%rdx,8), %rdx
        jmp *%rdx
        12: popq %rbx
        ret
        10: begin r3
        place computed
        end r3
        jmp 12b
        11: place last
        jmp 12b
        ends work
        .section .rodata
        .balign 4
        7: .long 2b - 7b, 3b - 7b, 4b - 7b, 5b - 7b
        .section .data.rel.ro, \"aw\"
        .balign 8
        8: .quad 10b, 11b",
    );
    assert_eq!(program.doubts(), []);
    assert_eq!(program.at("first"), Some(vec![1, 2]));
    assert_eq!(program.at("second"), Some(vec![]));
    assert_eq!(program.at("third"), Some(vec![1, 2]));
    assert_eq!(program.at("computed"), Some(vec![3]));
    assert_eq!(program.at("last"), Some(vec![]));
}

#[test]
fn a_table_ends_where_one_begins_that_is_found_through_it() {
    // Nothing says how many entries the first table has. Read on, it leads to what stands eight bytes before the second
    // one's places, outside of the region.
    let program = assemble(
        "function work
        leaq 7f(%rip), %rcx
        movslq (%rcx,%rdi,4), %rax
        addq %rcx, %rax
        notrack jmp *%rax
        1: begin r0
        leaq 8f(%rip), %rcx
        movslq (%rcx,%rsi,4), %rax
        addq %rcx, %rax
        notrack jmp *%rax
        2: place outside
        ret
        .fill 8, 1, 0x90
        3: place inside
        end r0
        ret
        4: place inside_too
        end r0
        ret
        ends work
        .section .rodata
        .balign 4
        7: .long 1b - 7b, 2b - 7b
        8: .long 3b - 8b, 4b - 8b
        .text",
    );
    assert_eq!(program.doubts(), []);
    assert_eq!(program.at("outside"), Some(vec![]));
    assert_eq!(program.at("inside"), Some(vec![0]));
    assert_eq!(program.at("inside_too"), Some(vec![0]));
}

#[test]
fn nothing_flows_through_calls_that_do_not_return() {
    let program = assemble(
        "function fail
        subq $8, %rsp
        call abort@PLT
        ends fail
        function fail_too
        call fail
        ends fail_too
        function work
        testl %edi, %edi
        jz 1f
        begin r0
        testl %esi, %esi
        jz 2f
        call fail_too
        1: place next
        nop
        testl %edx, %edx
        jz 3f
        call exit@PLT
        2: place region
        end r0
        3: ret
        ends work",
    );
    assert_eq!(program.doubts(), []);
    assert_eq!(program.at("next"), Some(vec![]));
    assert_eq!(program.at("region"), Some(vec![0]));
}

#[test]
fn calls_through_pointers_may_not_return() {
    let program = assemble(
        "function work
        testl %edi, %edi
        jz 1f
        begin r0
        testl %esi, %esi
        jz 2f
        call *%rax
        1: place next
        nop
        ret
        2: place region
        call *%rax
        place behind
        end r0
        ret
        ends work",
    );
    // What is sure stands: the first call can't come back to where nothing is open.
    assert_eq!(program.doubts(), []);
    assert_eq!(program.at("next"), Some(vec![]));
    assert_eq!(program.at("region"), Some(vec![0]));
    assert_eq!(program.at("behind"), Some(vec![0]));
}

#[test]
fn cold_parts_take_the_state_along_the_jump() {
    for cold in ["work.cold", "elsewhere"] {
        // Without a name that says so, the part is known by its unwind entry alone.
        let symbol = if cold == "work.cold" { ".type work.cold, @function\nwork.cold:" } else { "" };
        let size = if cold == "work.cold" { ".size work.cold, . - work.cold" } else { "" };
        let program = assemble(&format!(
            "function work
            pushq %rbx
            .cfi_def_cfa_offset 16
            begin r0
            testl %edi, %edi
            jnz 5f
            1: end r0
            popq %rbx
            .cfi_def_cfa_offset 8
            ret
            ends work
            .section .text.unlikely, \"ax\"
            {symbol}
            .cfi_startproc
            .cfi_def_cfa_offset 16
            .cfi_offset 3, -16
            5: nop
            place cold
            nop
            begin r1
            place deep
            end r1
            jmp 1b
            .cfi_endproc
            {size}"
        ));
        assert_eq!(program.doubts(), [], "{cold}");
        assert_eq!(program.at("cold"), Some(vec![0]), "{cold}");
        assert_eq!(program.at("deep"), Some(vec![0, 1]), "{cold}");
    }
}

#[test]
fn tail_calls_end_the_function() {
    let program = assemble(
        "function other
        place there
        nop
        ret
        ends other
        function work
        begin r0
        testl %edi, %edi
        jz 1f
        end r0
        jmp other
        1: end r0
        jmp *%rax
        ends work",
    );
    assert_eq!(program.doubts(), []);
    assert_eq!(program.at("there"), Some(vec![]));
}

#[test]
fn ways_that_disagree_are_named() {
    let program = assemble(
        "function work
        testl %edi, %edi
        jz 1f
        begin r0
        1: place meeting
        nop
        ret
        ends work
        function left_open
        begin r0
        place open
        ret
        ends left_open
        function turned
        begin r0
        begin r1
        end r0
        place doubtful
        ret
        ends turned",
    );
    assert_eq!(program.at("meeting"), None);
    assert_eq!(program.at("open"), Some(vec![0]));
    assert_eq!(program.at("doubtful"), None);
    assert_eq!(program.doubts(), [DoubtKind::WaysDisagree, DoubtKind::OpenAtExit, DoubtKind::EndsOutOfTurn]);
    assert_eq!(program.map.doubts()[0].vaddr, program.address("meeting"));
    assert_eq!(program.map.doubts()[0].function, "work");
}

#[test]
fn code_that_no_way_leads_to_is_not_guessed() {
    let program = assemble(
        "function work
        begin r0
        end r0
        ret
        place unreached
        nop
        begin r1
        nop
        ret
        ends work
        function plain
        nop
        ret
        ends plain",
    );
    assert_eq!(program.at("unreached"), None);
    assert_eq!(program.at("plain"), Some(vec![]));
    assert_eq!(program.doubts(), [DoubtKind::SiteNotReached]);
}
