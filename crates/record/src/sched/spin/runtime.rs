//! Waiting inside of runtimes for parallel programs: OpenMP, TBB, MPI.
//!
//! A runtime's thread that has nothing to do goes round a loop of several hundred bytes that looks for tasks, asks the
//! clock, pauses, yields, and in the end sleeps. That loop's own instructions don't tell that it waits, and most samples
//! are in what it calls. What tells is a `pause` anywhere in the loop, as long as only the runtime's code runs inside:
//! tasks are the program's code.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// Files of runtimes whose threads wait by asking again and again, by the start of their names.
const FILES: &[&str] = &[
    "libomp",
    "libiomp",
    "libgomp",
    "libtbb",
    "libmpi",
    "libmpich",
    "libopen-pal",
    "libucp",
    "libucs",
    "libuct",
    "libpsm",
    "libfabric",
];
/// Their functions where they are linked into a program, by the start of their names.
const FUNCTIONS: &[&str] =
    &["__kmp_", "__kmpc_", "gomp_", "GOMP_", "tbb::", "opal_", "ompi_", "PMPI_", "MPID_", "MPIDI_", "ucp_", "uct_"];
/// What such a loop calls outside of the runtime, by the start of the name.
const CALLED: &[&str] =
    &["sched_yield", "__sched_yield", "clock_gettime", "__clock_gettime", "__vdso_", "[vdso]", "gettimeofday"];
/// Longer functions are not looked at, bytes.
const LONGEST: u64 = 16 << 10;

/// True if a function belongs to such a runtime: by the name of its file, without folders, or its own.
pub fn is_runtime(file: &str, function: &str) -> bool {
    FILES.iter().any(|start| file.starts_with(start)) || FUNCTIONS.iter().any(|start| function.starts_with(start))
}

/// True for what a waiting loop calls and comes back from: who yields the CPU and asks for the time.
pub fn is_called_while_waiting(function: &str) -> bool {
    CALLED.iter().any(|start| function.starts_with(start))
}

/// True if the byte at `vaddr` is in an instruction of a loop, of any size, that somewhere pauses. `code` is that of the
/// function at `function`.
pub fn loop_pauses(code: &[u8], function: Range<u64>, vaddr: u64) -> bool {
    if function.end - function.start > LONGEST || !function.contains(&vaddr) {
        return false;
    }
    let code = &code[..code.len().min((function.end - function.start) as usize)];
    let instructions: Vec<Instruction> =
        Decoder::with_ip(64, code, function.start, DecoderOptions::NONE).into_iter().collect();
    let after = instructions.partition_point(|instruction| instruction.ip() <= vaddr);
    let Some(at) = after.checked_sub(1).filter(|&at| !instructions[at].is_invalid()) else { return false };
    let pauses = |instruction: &Instruction| {
        instruction.code() == Code::Pause || matches!(instruction.mnemonic(), Mnemonic::Tpause | Mnemonic::Umwait)
    };
    if !instructions.iter().any(pauses) {
        return false;
    }
    let number = |address: u64| instructions.binary_search_by_key(&address, Instruction::ip).ok();
    let next = |from: usize| -> [Option<usize>; 2] {
        let instruction = &instructions[from];
        let following = Some(from + 1).filter(|&next| next < instructions.len() && !instructions[next].is_invalid());
        match instruction.flow_control() {
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => [None, None],
            FlowControl::UnconditionalBranch => [None, number(instruction.near_branch_target())],
            FlowControl::ConditionalBranch => [following, number(instruction.near_branch_target())],
            _ => [following, None],
        }
    };
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); instructions.len()];
    for from in 0..instructions.len() {
        next(from).into_iter().flatten().for_each(|to| before[to].push(from));
    }
    let ahead = reached(at, instructions.len(), |from| next(from).into_iter().flatten().collect());
    let behind = reached(at, instructions.len(), |to| before[to].clone());
    (0..instructions.len()).any(|i| ahead[i] && behind[i] && pauses(&instructions[i]))
}

/// What can be reached from `start` in one step or more.
fn reached(start: usize, count: usize, steps: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
    let mut found = vec![false; count];
    let mut open = steps(start);
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut found[at], true) {
            open.extend(steps(at));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `f: mov; L: call g; test; jz out; pause; jmp L; out: ret`.
    const WAITS: &[u8] = &[
        0x89, 0xf8, // mov eax, edi
        0xe8, 0, 1, 0, 0, // call
        0x85, 0xc0, // test eax, eax
        0x74, 0x04, // jz out
        0xf3, 0x90, // pause
        0xeb, 0xf3, // jmp the call
        0xc3, // ret
    ];

    #[test]
    fn the_caller_of_a_function_in_a_loop_that_pauses_waits() {
        let function = 0x1000..0x1000 + WAITS.len() as u64;
        for (vaddr, waits) in [(0x1000, false), (0x1006, true), (0x1007, true), (0x100b, true), (0x100f, false)] {
            assert_eq!(loop_pauses(WAITS, function.clone(), vaddr), waits, "{vaddr:#x}");
        }
        assert!(!loop_pauses(WAITS, function, 0x2000));
    }

    #[test]
    fn a_loop_without_pause_works() {
        let mut code = WAITS.to_vec();
        code[11..13].copy_from_slice(&[0x66, 0x90]);
        assert!(!loop_pauses(&code, 0x1000..0x1010, 0x1006));
    }

    #[test]
    fn runtimes_are_known_by_file_or_function() {
        assert!(is_runtime("libomp.so.5", "sub_7bdb0") && is_runtime("program", "__kmp_wait_template"));
        assert!(!is_runtime("program", "main") && !is_runtime("libc.so.6", "sched_yield"));
        assert!(is_called_while_waiting("__vdso_clock_gettime") && !is_called_while_waiting("malloc"));
    }
}
