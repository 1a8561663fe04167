//! What stacks in the kernel are shown as.

use std::io::{Seek, Write};

use super::*;

/// `SYSTEM_CALL_NONE`.
const OUTSIDE: u32 = u32::MAX;

/// The functions of a stack in the kernel that is given leaf first, root first.
fn shown_as(stack: &[&str], call: u32) -> (Vec<String>, bool) {
    let mut table = tempfile::tempfile().unwrap();
    let address = |at: usize| 0xffff_ffff_8100_0000 + at as u64 * 0x100;
    for (at, name) in stack.iter().enumerate() {
        writeln!(table, "{:x} T {name}", address(at)).unwrap();
    }
    table.rewind().unwrap();
    let mut frames = Frames::new(SymbolSource::of(table), true);
    let kernel = (0..stack.len()).map(|at| Place::Kernel { address: address(at), returns: false }).collect();
    frames.add_stack(&NewStack { number: 1, complete: true, kernel, user: Vec::new() });
    let path = frames.path(1, call).unwrap();
    let names = path.iter().map(|step| frames.function_of(step.function).name.clone()).collect();
    (names, frames.is_held(1))
}

#[test]
fn a_signal_that_stops_is_told_whatever_brought_it_in() {
    let stopped = ["schedule", "do_signal_stop", "get_signal", "exit_to_user_mode_loop", "asm_sysvec_reschedule_ipi"];
    assert_eq!(shown_as(&stopped, OUTSIDE).0, ["get_signal", "do_signal_stop"]);
    let preempted = ["schedule", "exit_to_user_mode_loop", "asm_sysvec_reschedule_ipi"];
    assert!(shown_as(&preempted, OUTSIDE).0.is_empty());
}

#[test]
fn a_call_that_goes_on_is_that_call() {
    let poll = syscalls::Sysno::poll.id().cast_unsigned();
    let began = ["schedule", "do_sys_poll", "__x64_sys_poll", "do_syscall_64"];
    let goes_on = ["schedule", "do_sys_poll", "do_restart_poll", "__x64_sys_restart_syscall", "do_syscall_64"];
    assert_eq!(shown_as(&began, poll).0, ["poll", "do_sys_poll"]);
    assert_eq!(shown_as(&goes_on, poll).0, ["poll", "do_sys_poll"]);
}

#[test]
fn a_call_of_several_functions_is_one_frame() {
    let twice = ["vfs_fsync_range", "__do_sys_msync", "__x64_sys_msync", "do_syscall_64"];
    assert_eq!(shown_as(&twice, OUTSIDE).0, ["msync", "vfs_fsync_range"]);
    let jumped = ["vfs_fsync_range", "__do_sys_msync", "do_syscall_64"];
    assert_eq!(shown_as(&jumped, OUTSIDE).0, ["msync", "vfs_fsync_range"]);
}

#[test]
fn a_thread_that_a_tracer_holds_is_told() {
    assert!(shown_as(&["schedule", "ptrace_stop", "get_signal", "exit_to_user_mode_loop"], OUTSIDE).1);
    assert!(!shown_as(&["schedule", "do_signal_stop", "get_signal", "exit_to_user_mode_loop"], OUTSIDE).1);
}
