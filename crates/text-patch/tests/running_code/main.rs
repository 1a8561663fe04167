//! Patching of code that threads execute, each case in a process of its own.
#![allow(unsafe_code)]

mod batches;
#[path = "../code/mod.rs"]
mod code;
mod forks;
mod pages;
mod signals;
mod surroundings;
mod toggles;
mod words;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use code::{Page, SHAPES, bytes_at, call, function, window};
use transect_text_patch::batch::{BatchPolicy, BatchReport, Method, apply, examine};
use transect_text_patch::form::{CALL, JUMP, NOP5, off_form, transfer};
use transect_text_patch::word::{
    Pacing, WordPatch, fetches_lines_whole, finish_patch, finish_patch_at, finish_patches, patch, start_patch,
};
use transect_text_patch::writable::{Access, open_for_toggling};
use transect_text_patch::{CallSite, Refusal, SiteState, Window, fork, trap};

use batches::*;
use forks::*;
use pages::*;
use signals::*;
use surroundings::*;
use toggles::*;
use words::*;

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("batches_under_fire_by_traps", || batches_under_fire(Method::Trap)),
    ("batches_under_fire_by_stopping", || batches_under_fire(Method::Stop)),
    ("signals_at_1_khz_during_batches", signals_during_batches),
    ("a_thread_parked_inside_of_a_window_is_moved", parked_inside),
    ("a_thread_in_a_handler_over_a_window_is_moved", parked_in_handler),
    ("threads_come_and_go_during_batches", threads_come_and_go),
    ("every_back_end_writes_and_restores_sealed_memory", back_ends),
    ("text_of_the_executable_is_patched_and_restored", text_of_the_executable),
    ("w_xor_x_policy", w_xor_x),
    ("refusals_leave_the_text_alone", refusals),
    ("a_thread_that_blocks_sigtrap", blocked_sigtrap),
    ("a_thread_that_blocks_all_signals", blocked_signals),
    ("the_applications_trap_handler_is_served", applications_handler),
    ("an_applications_handler_set_later_is_served", applications_later_handler),
    ("the_default_action_of_an_int3_is_kept", default_action),
    ("a_traced_process_stops_its_threads", traced),
    ("under_gdb_nothing_stops", under_gdb),
    ("a_system_call_filter_without_membarrier", without_membarrier),
    ("the_first_thread_has_ended", first_thread_ended),
    ("a_single_thread_needs_no_int3", single_thread),
    ("fork_with_private_text", fork_private),
    ("fork_with_an_alias", fork_alias),
    ("fork_in_the_middle_of_batches", fork_during_batches),
    ("words_at_every_place_under_fire", words_under_fire),
    ("whole_words_at_every_place_under_fire", words_at_every_place),
    ("halves_of_a_word_are_never_mixed", halves_of_a_word),
    ("prepared_pages_need_no_system_call", no_system_call),
    ("prepared_pages_come_and_go", pages_come_and_go),
    ("words_of_forked_children", words_of_forked_children),
    ("faults_of_the_program_are_passed_on", faults_of_the_program),
    ("word_patches_contend_and_overlap", words_contend),
    ("pending_patches_emulate", pending_patches),
    ("toggles_in_a_shared_word", shared_word),
    ("toggles_refuse_foreign_bytes", foreign_toggle),
    ("toggle_in_text_through_an_alias_under_fire", alias_under_fire),
];

fn main() {
    if std::env::var_os("TRANSECT_UNDER_GDB").is_some() {
        return debugged();
    }
    let cases = transect_testkit::Cases::asked_for();
    if cases.listed(CASES.iter().map(|(name, _)| *name)) {
        return;
    }
    let mut failed = Vec::new();
    for (name, case) in CASES {
        if !cases.chosen(name) {
            continue;
        }
        // SAFETY: this process has one thread, so the child may do anything.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain calls.
            unsafe { libc::alarm(300) };
            case();
            std::process::exit(0);
        }
        let begun = Instant::now();
        let status = wait_for(child);
        let ok = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        println!("test {name} ... {} ({:.2} s)", if ok { "ok" } else { "FAILED" }, begun.elapsed().as_secs_f64());
        if !ok {
            println!("  status {status:#x}");
            failed.push(*name);
        }
    }
    println!("{} failed {failed:?}", failed.len());
    std::process::exit(i32::from(!failed.is_empty()));
}

fn wait_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

fn policy(method: Method) -> BatchPolicy {
    BatchPolicy { method, patience: 20_000_000_000, ..BatchPolicy::default() }
}

fn applied(windows: &mut [Window], policy: &BatchPolicy) -> BatchReport {
    // SAFETY: windows over functions made for it.
    unsafe { apply(windows, policy) }.unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn refused(windows: &mut [Window], policy: &BatchPolicy) -> Refusal {
    // SAFETY: as above.
    unsafe { apply(windows, policy) }.expect_err("should be refused")
}

/// Functions of all shapes at all places in a line, the last bytes of pages among them.
fn functions(page: &Page, count: u64) -> Vec<Window> {
    (0..count)
        .map(|i| {
            let address = page.base + i * 128 + 64 - i * 5 % 16;
            function(page, i as usize % SHAPES.len(), address, page.base + page.length as u64 / 2 + i * 64)
        })
        .collect()
}

/// Lets threads end, should the test fail as well.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `patching` while threads call all functions; returns how many calls they made.
fn under_fire(windows: &[Window], threads: usize, patching: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    let calls = AtomicU64::new(0);
    let addresses: Vec<u64> = windows.iter().map(|window| window.address).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut argument = 1u32;
                while !stop.load(Ordering::Relaxed) {
                    for &address in &addresses {
                        assert_eq!(call(address, argument), argument + 1);
                        argument = argument.wrapping_mul(3) & 0xFFFF;
                    }
                    calls.fetch_add(addresses.len() as u64, Ordering::Relaxed);
                }
            });
        }
        let _raise = Raise(&stop);
        patching();
    });
    calls.into_inner()
}

fn install_and_restore(windows: &mut [Window], policy: &BatchPolicy, rounds: usize) -> BatchReport {
    let before: Vec<Vec<u8>> = windows.iter().map(|window| bytes_at(window.address, 19)).collect();
    let mut sum = BatchReport::default();
    windows.sort_by_key(|window| window.address);
    let mut back: Vec<Window> = windows.iter().map(Window::reversed).collect();
    for _ in 0..rounds {
        for report in [applied(windows, policy), applied(&mut back, policy)] {
            assert_eq!((report.written, report.already), (windows.len(), 0));
            sum.moved += report.moved;
            sum.signalled += report.signalled;
            sum.trapped += report.trapped;
            sum.method = report.method;
        }
    }
    let after: Vec<Vec<u8>> = windows.iter().map(|window| bytes_at(window.address, 19)).collect();
    assert!(before.iter().all(|bytes| after.contains(bytes)), "restored bytes differ");
    sum
}

fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: a handler of one or three arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

std::arch::global_asm!(
    ".pushsection .text.transect_test,\"ax\",@progbits",
    ".balign 64",
    ".skip 61, 0xcc",
    ".type transect_test_sled,@function",
    ".type transect_test_function,@function",
    ".globl transect_test_sled",
    "transect_test_sled:",
    ".byte 0x0f, 0x1f, 0x44, 0, 0",
    "lea eax, [rdi + 1]",
    "ret",
    ".globl transect_test_function",
    "transect_test_function:",
    "mov eax, edi",
    "add eax, 1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn transect_test_sled();
    fn transect_test_function();
}

fn text_windows(copies: &Page) -> Vec<Window> {
    let function = transect_test_function as *const () as u64;
    let sled = transect_test_sled as *const () as u64;
    let shapes: [(u64, &[&[u8]], u64); 2] =
        [(function, &[&[0x89, 0xF8], &[0x83, 0xC0, 1]], copies.base), (sled, &[&NOP5], copies.base + 64)];
    shapes
        .iter()
        .map(|&(address, instructions, copy)| {
            copies.put(copy, &instructions.concat());
            let back = copy + 5;
            copies.put(back, &transfer(JUMP, back, address + 5).unwrap());
            window(address, instructions, copy)
        })
        .collect()
}

/// A page within reach of the executable.
fn near_text() -> Page {
    let text = transect_test_sled as *const () as u64;
    for i in 1..1000u64 {
        let hint = (text & !0xFFF) - i * (1 << 20);
        // SAFETY: a new mapping, where nothing is.
        let base = unsafe {
            libc::mmap(
                hint as *mut _,
                4096,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if base != libc::MAP_FAILED {
            return Page { base: base as u64, length: 4096 };
        }
    }
    panic!("no memory near the text");
}
