//! Loops that wait for another thread, told from their instructions.
//!
//! A loop makes progress by what it carries from one turn to the next: a counter, a pointer, a sum, memory that it
//! changes. One that carries nothing does the same in every turn until somebody else changes the memory that it reads:
//! it waits. A `pause` says so outright.

mod body;
mod carried;
pub mod runtime;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use transect_binary_info::Object;

use body::Body;

/// Loops are looked for this far from the instruction, bytes.
const REACH: u64 = 256;
/// Instructions of a loop.
const MAX_INSTRUCTIONS: usize = 64;
/// Functions in which a thread waits for messages, or Go's for a goroutine to run, by asking again and again.
const POLLING: &[&str] = &[
    "opal_progress",
    "ompi_sync_wait_mt",
    "ompi_request_wait_completion",
    "MPID_Progress_wait",
    "MPIDI_CH3I_Progress",
    "MPIDI_Progress_test",
    "MPIR_Progress_wait",
    "ucp_worker_progress",
    "uct_worker_progress",
    "runtime.findRunnable",
    "runtime.sysmon",
];
/// Functions that give the CPU away: only who waits does.
const YIELDING: &[&str] = &["sched_yield", "__sched_yield", "thrd_yield", "pthread_yield"];
/// Frames from the leaf on among which they are looked for.
const FRAMES: usize = 10;

/// True if the functions on a stack, leaf first, tell that the thread waits by polling or yielding.
pub fn is_polling<'a>(functions: impl Iterator<Item = &'a str>) -> bool {
    functions
        .take(FRAMES)
        .enumerate()
        .any(|(depth, function)| POLLING.contains(&function) || depth == 0 && YIELDING.contains(&function))
}

/// True if the instruction at `vaddr` is in a small loop that waits.
pub fn is_waiting_loop(object: &Object, vaddr: u64) -> bool {
    let Some(after) = object.bytes_from(vaddr) else { return false };
    let bytes = |from: u64| object.bytes_from(from);
    innermost(after, vaddr, bytes).is_some_and(|body| body.waits())
}

/// The smallest loop around `vaddr`, whose code from there on is `after`; `bytes` gives the code from an address on.
fn innermost<'a>(after: &[u8], vaddr: u64, bytes: impl Fn(u64) -> Option<&'a [u8]>) -> Option<Body> {
    let after = &after[..after.len().min(REACH as usize)];
    let mut decoder = Decoder::with_ip(64, after, vaddr, DecoderOptions::NONE);
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            break;
        }
        if matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
            let (top, end) = (instruction.near_branch_target(), instruction.next_ip());
            if top <= vaddr && end - top <= REACH {
                found.push((top, end));
            }
        }
    }
    found.sort_by_key(|(top, end)| end - top);
    found.into_iter().find_map(|(top, end)| {
        let code = bytes(top)?.get(..(end - top) as usize)?;
        Body::decode(code, top).filter(|body| body.has(vaddr))
    })
}

#[cfg(test)]
mod tests;
