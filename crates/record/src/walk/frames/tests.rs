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

/// The functions of a stack in a program's files, which are given leaf first, in a system call or not.
fn of_files(files: &[&str]) -> Vec<String> {
    let mut frames = Frames::new(SymbolSource::of(tempfile::tempfile().unwrap()), true);
    frames.add_files(files.iter().map(|path| MappedFile::named(path)).collect(), Vec::new());
    let place = |file| Place::File { file: file as u32, offset: 0x1000, returns: file > 0 };
    let kernel = vec![Place::Kernel { address: 0xffff_ffff_8100_0000, returns: false }];
    let user = (0..files.len()).map(place).collect();
    frames.add_stack(&NewStack { number: 1, complete: true, kernel, user });
    let path = frames.path(1, OUTSIDE).unwrap();
    path.iter().map(|step| frames.function_of(step.function).name.clone()).collect()
}

#[test]
fn the_agents_own_start_is_overhead() {
    let (agent, loader) = ("/usr/lib/transect/libtransect_agent.so", "/lib64/ld-linux-x86-64.so.2");
    assert_eq!(of_files(&[agent, loader]), [RECORDING_OVERHEAD]);
    assert_eq!(of_files(&["/lib/libc.so.6", agent, loader]), [RECORDING_OVERHEAD]);
    assert_eq!(of_files(&[agent]), [RECORDING_OVERHEAD], "cut off above the agent");
    // At a call of the program's the time is the program's.
    for program in [&[agent, "/bin/app"][..], &["/lib/libc.so.6", agent, "/bin/app"], &[loader, "/bin/app"], &[loader]]
    {
        assert!(!of_files(program).contains(&RECORDING_OVERHEAD.to_owned()), "{program:?}");
    }
}

#[test]
fn a_stack_that_ends_in_a_return_trampoline_has_no_beginning() {
    let mut frames = Frames::new(SymbolSource::of(tempfile::tempfile().unwrap()), true);
    frames.add_files(vec![MappedFile::named("/bin/app")], Vec::new());
    let app = Place::File { file: 0, offset: 0x1000, returns: false };
    let memory = Place::Memory { tgid: 7, address: 0x5555_0000_3075, returns: true };
    for (number, user, complete) in
        [(1, vec![app, memory], false), (2, vec![memory, app], true), (3, vec![memory], true)]
    {
        frames.add_stack(&NewStack { number, complete: true, kernel: Vec::new(), user });
        assert_eq!(frames.is_complete(number), complete, "stack {number}");
    }
}
