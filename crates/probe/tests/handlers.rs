//! Trampolines and handlers at work in this process: a small function of our own is displaced, probed and called.
#![allow(unsafe_code, reason = "calls generated code")]

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use transect_event_abi::probe_arena as arena;
use transect_event_abi::thread::{HISTOGRAM_BUCKETS, bucket};
use transect_probe::descriptor::{Registers, WANTS_EXIT};
use transect_probe::frame::{self, Places, transect_probe_globals};
use transect_probe::trampoline::{self, Call, Request};
use transect_probe::{Descriptor, Handler, scope, unwind};

fn map(bytes: usize, protection: ProtFlags) -> u64 {
    // SAFETY: a new mapping touches nothing that exists.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).unwrap() as u64 }
}

/// An arena of one site, in this process' own memory.
struct Arena {
    base: u64,
}

impl Arena {
    fn header(&self) -> &arena::ProbeHeader {
        // SAFETY: mapped by `arena()`, zero is a valid header.
        unsafe { &*(self.base as *const arena::ProbeHeader) }
    }
    fn record(&self, site: usize) -> &arena::SiteRecord {
        // SAFETY: as above.
        unsafe { &*((self.base + arena::SITES_OFFSET) as *const arena::SiteRecord).add(site) }
    }
    fn calls(&self, site: usize) -> (u64, u64) {
        let mut sum = (0, 0);
        for shard in 0..arena::SHARDS {
            let index = shard * arena::SITE_CAPACITY + site;
            // SAFETY: as above.
            let c = unsafe { &*((self.base + arena::SHARDS_OFFSET) as *const arena::SiteCounters).add(index) };
            sum.0 += c.calls.load(Ordering::Relaxed);
            sum.1 += c.samples.load(Ordering::Relaxed);
        }
        sum
    }
    /// Samples of the first window, and their ticks.
    fn first(&self, site: usize) -> (u64, u64) {
        (0..arena::SHARDS).fold((0, 0), |sum, shard| {
            let index = shard * arena::SITE_CAPACITY + site;
            // SAFETY: as above.
            let c = unsafe { &*((self.base + arena::SHARDS_OFFSET) as *const arena::SiteCounters).add(index) };
            let first = c.first.load(Ordering::Relaxed);
            (sum.0 + (first >> arena::FIRST_SHIFT), sum.1 + (first & ((1 << arena::FIRST_SHIFT) - 1)))
        })
    }
    fn histogram(&self, site: usize) -> Vec<u32> {
        let at = (self.base + arena::HISTOGRAMS_OFFSET + site as u64 * arena::HISTOGRAM_SIZE) as *const u32;
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(at, HISTOGRAM_BUCKETS).to_vec() }
    }
}

/// One for all tests, since the globals are.
fn shared() -> &'static Arena {
    static ARENA: std::sync::OnceLock<Arena> = std::sync::OnceLock::new();
    ARENA.get_or_init(|| {
        let base = map(arena::CODE_OFFSET as usize, ProtFlags::READ | ProtFlags::WRITE);
        let (keys, pool, pages) = frame::map().unwrap();
        let scopes = map(scope::SCOPES_SIZE as usize, ProtFlags::READ | ProtFlags::WRITE);
        transect_probe_globals.set(&Places { header: base, keys, pool, pages, stack_end: 0, layered: false, scopes });
        Arena { base }
    })
}

/// A probed copy of `code`, which is displaced whole.
struct Probed {
    descriptor: &'static Descriptor,
    word: &'static AtomicU64,
    on: u64,
    off: u64,
    function: u64,
}

fn probe(code: &[u8], id: usize, call: Call) -> Probed {
    let shared = shared();
    let block = map(4096, ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC);
    let built = trampoline::build(&Request { block, code, fixups: &[], resume: None, call }).unwrap();
    // SAFETY: the mapping is a page long and ours.
    unsafe { std::ptr::copy_nonoverlapping(built.bytes.as_ptr(), block as *mut u8, built.length) };
    // SAFETY: the block begins with its descriptor.
    let descriptor: &'static Descriptor = unsafe { &*(block as *const Descriptor) };
    descriptor.id.store(id as u32, Ordering::Relaxed);
    descriptor.record.store(shared.record(id) as *const _ as u64, Ordering::Relaxed);
    descriptor.counters.store(shared.base + arena::SHARDS_OFFSET + id as u64 * 32, Ordering::Relaxed);
    let histogram = shared.base + arena::HISTOGRAMS_OFFSET + id as u64 * arena::HISTOGRAM_SIZE;
    descriptor.histogram.store(histogram, Ordering::Relaxed);
    descriptor.exit.store(Handler::TimeExit.address(), Ordering::Relaxed);
    let word = block + trampoline::WORD as u64;
    let record = shared.record(id);
    record.word.store(word, Ordering::Relaxed);
    record.on.store(built.on, Ordering::Relaxed);
    record.off.store(built.off, Ordering::Relaxed);
    // SAFETY: 8-aligned, within the block.
    let word_ref = unsafe { &*(word as *const AtomicU64) };
    Probed { descriptor, word: word_ref, on: built.on, off: built.off, function: word }
}

impl Probed {
    fn with(self, handler: Handler) -> Probed {
        self.descriptor.enter.store(handler.address(), Ordering::Relaxed);
        self.word.store(self.on, Ordering::Relaxed);
        self
    }
    fn add(&self, a: u64, b: u64) -> u64 {
        // SAFETY: the code under test follows the C convention.
        let f: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(self.function) };
        f(a, b)
    }
}

/// `lea rax, [rdi+rsi]; ret`
const ADD: [u8; 5] = [0x48, 0x8D, 0x04, 0x37, 0xC3];

#[test]
fn a_probe_that_is_off_costs_nothing_and_counts_nothing() {
    let probed = probe(&ADD, 1, Call::Paired).with(Handler::Count);
    probed.word.store(probed.off, Ordering::Relaxed);
    assert_eq!(probed.add(2, 3), 5);
    assert_eq!(shared().calls(1), (0, 0));
}

#[test]
fn counts_are_exact_with_many_threads() {
    let probed = probe(&ADD, 2, Call::Paired).with(Handler::Count);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10_000).for_each(|i| assert_eq!(probed.add(i, 1), i + 1)));
        }
    });
    assert_eq!(shared().calls(2), (80_000, 0));
}

#[test]
fn timed_calls_return_and_are_in_the_histogram() {
    let probed = probe(&ADD, 3, Call::Paired).with(Handler::TimeEnter);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10_000).for_each(|i| assert_eq!(probed.add(i, 1), i + 1)));
        }
    });
    assert_eq!(shared().calls(3), (80_000, 80_000));
    let histogram = shared().histogram(3);
    assert_eq!(histogram.iter().sum::<u32>(), 80_000);
    let last = histogram.iter().rposition(|&n| n > 0).unwrap();
    assert_eq!(last, bucket(shared().record(3).max_ticks.load(Ordering::Relaxed)));
}

#[test]
fn a_latency_probe_switches_itself_off_after_its_samples() {
    let probed = probe(&ADD, 4, Call::Paired).with(Handler::LatencyEnter);
    let record = shared().record(4);
    record.armed_at.store(1 << 20 | arena::NOT_CALLED, Ordering::Relaxed);
    record.remaining.store(10, Ordering::Relaxed);
    (0..100).for_each(|i| assert_eq!(probed.add(i, 1), i + 1));
    assert_eq!(shared().calls(4), (11, 10));
    assert_eq!(probed.word.load(Ordering::Relaxed), probed.off);
    assert_eq!(record.armed_at.load(Ordering::Relaxed), 0);
    assert!(record.on_ticks.load(Ordering::Relaxed) > 0);
    // The clock began long before, and it was not called until now.
    assert!(record.until_first.load(Ordering::Relaxed) > 0);
    assert!(record.on_ticks.load(Ordering::Relaxed) < 1 << 32, "not from when it was switched on");
    // SAFETY: within the arena's mapping.
    assert_eq!(unsafe { *((shared().base + arena::DISARMED_OFFSET + 4) as *const u8) }, 1);
}

#[test]
fn a_call_belongs_to_the_window_in_which_it_began() {
    const SITE: usize = 11;
    /// The probe is switched on anew while the call is open.
    extern "C" fn next_window() {
        shared().record(SITE).window.fetch_add(1, Ordering::Relaxed);
    }
    let mut code = vec![0x48, 0xB8];
    code.extend((next_window as *const () as u64).to_le_bytes());
    code.extend([0x48, 0x83, 0xEC, 8, 0xFF, 0xD0, 0x48, 0x83, 0xC4, 8, 0xC3]); // sub rsp,8; call rax; add rsp,8; ret
    let probed = probe(&code, SITE, Call::Paired).with(Handler::LatencyEnter);
    let record = shared().record(SITE);
    record.window.store(arena::FIRST_WINDOW, Ordering::Relaxed);
    record.remaining.store(10, Ordering::Relaxed);
    probed.add(0, 0);
    let (samples, ticks) = shared().first(SITE);
    assert_eq!((samples, ticks), (1, record.max_ticks.load(Ordering::Relaxed)));
    for _ in 0..3 {
        probed.add(0, 0);
    }
    assert_eq!(shared().first(SITE), (samples, ticks));
    assert_eq!(shared().calls(SITE), (4, 4));
}

#[test]
fn recursion_nests_frames() {
    // f(n, _) = n == 0 ? 0 : 1 + f(n - 1): calls through its own probe.
    let mut code = vec![0x48, 0x31, 0xC0, 0x48, 0x85, 0xFF, 0x74, 0]; // xor eax,eax; test rdi,rdi; jz end
    code.extend([0x48, 0xFF, 0xCF, 0xE8, 0, 0, 0, 0, 0x48, 0xFF, 0xC0]); // dec rdi; call T; inc rax
    let end = code.len();
    code.push(0xC3);
    code[7] = (end - 8) as u8;
    let call_end = 16_i32;
    code[12..16].copy_from_slice(&(-(call_end + 5_i32)).to_le_bytes());
    let probed = probe(&code, 5, Call::Paired).with(Handler::TimeEnter);
    assert_eq!(probed.add(1000, 0), 1000);
    assert_eq!(shared().calls(5), (1001, 1001));
}

#[test]
fn a_tail_call_of_a_timed_function_returns_to_the_first_caller() {
    // f(n, _) = n == 0 ? 7 : tail f(n - 1), through its own probe.
    let mut code = vec![0xB8, 7, 0, 0, 0, 0x48, 0x85, 0xFF, 0x74, 8]; // mov eax,7; test rdi,rdi; jz end
    code.extend([0x48, 0xFF, 0xCF, 0xE9, 0, 0, 0, 0, 0xC3]); // dec rdi; jmp T; end: ret
    code[14..18].copy_from_slice(&(-(18 + 5_i32)).to_le_bytes());
    let probed = probe(&code, 10, Call::Paired).with(Handler::TimeEnter);
    assert_eq!(probed.add(5, 0), 7);
    assert_eq!(probed.add(0, 0), 7);
    assert_eq!(shared().calls(10), (7, 2));
}

extern "C" fn double_first(id: u32, registers: &mut Registers, _vectors: u64, _cookie: u64) -> u64 {
    assert_eq!(id, 6);
    registers.rdi *= 2;
    registers.rsi + 100
}

extern "C" fn add_cookie(id: u32, registers: &mut Registers, _vectors: u64, cookie: u64) {
    assert_eq!(id, 6);
    registers.rax += cookie;
}

#[test]
fn users_handlers_see_and_change_registers_in_every_tier() {
    for (enter, exit) in [
        (Handler::IntegerEnter, Handler::IntegerExit),
        (Handler::VectorEnter, Handler::VectorExit),
        (Handler::FullEnter, Handler::FullExit),
    ] {
        let probed = probe(&ADD, 6, Call::Paired);
        probed.descriptor.user_enter.store(double_first as *const () as u64, Ordering::Relaxed);
        probed.descriptor.user_exit.store(add_cookie as *const () as u64, Ordering::Relaxed);
        probed.descriptor.flags.store(WANTS_EXIT, Ordering::Relaxed);
        probed.descriptor.exit.store(exit.address(), Ordering::Relaxed);
        let probed = probed.with(enter);
        assert_eq!(probed.add(10, 5), 20 + 5 + 105, "{enter:?}");
    }
}

#[test]
fn all_registers_are_preserved() {
    for (handler, exit) in [
        (Handler::Nothing, Handler::TimeExit),
        (Handler::Count, Handler::TimeExit),
        (Handler::TimeEnter, Handler::TimeExit),
        (Handler::LatencyEnter, Handler::TimeExit),
        (Handler::CpuEnter, Handler::CpuExit),
        (Handler::FaultsEnter, Handler::FaultsExit),
        (Handler::PrctlEnter, Handler::TimeExit),
        (Handler::SyscallEnter, Handler::TimeExit),
    ] {
        let probed = probe(&ADD, 7, Call::Paired).with(handler);
        probed.descriptor.exit.store(exit.address(), Ordering::Relaxed);
        shared().record(7).remaining.store(1, Ordering::Relaxed);
        for _ in 0..3 {
            let (rcx, rdx, r8, r9, r10, r11, rax): (u64, u64, u64, u64, u64, u64, u64);
            // SAFETY: the callee preserves what it is tested for; rdi and rsi are inputs, rax the result.
            unsafe {
                std::arch::asm!("call r12", in("r12") probed.function, in("rdi") 1u64, in("rsi") 2u64,
                    inlateout("rax") 9u64 => rax, inlateout("rcx") 10u64 => rcx, inlateout("rdx") 11u64 => rdx,
                    inlateout("r8") 12u64 => r8, inlateout("r9") 13u64 => r9, inlateout("r10") 14u64 => r10,
                    inlateout("r11") 15u64 => r11);
            }
            assert_eq!((rax, rcx, rdx, r8, r9, r10, r11), (3, 10, 11, 12, 13, 14, 15), "{handler:?}");
        }
    }
}

#[test]
fn an_unwinder_finds_the_true_return_addresses() {
    extern "C" fn look(_id: u32, registers: &mut Registers, _vectors: u64, _cookie: u64) -> u64 {
        unwind::restore(0, registers, 0, 0);
        0
    }
    // The inner function's entry handler restores; outer and inner then return without us.
    let inner = probe(&ADD, 8, Call::Plain);
    inner.descriptor.user_enter.store(look as *const () as u64, Ordering::Relaxed);
    let inner = inner.with(Handler::VectorEnter);
    let mut code = vec![0x48, 0xB8];
    code.extend(inner.function.to_le_bytes());
    code.extend([0x48, 0x83, 0xEC, 8, 0xFF, 0xD0, 0x48, 0x83, 0xC4, 8, 0xC3]); // sub rsp,8; call rax; add rsp,8; ret
    let outer = probe(&code, 9, Call::Paired).with(Handler::TimeEnter);
    assert_eq!(outer.add(4, 5), 9);
    assert_eq!(shared().calls(9), (1, 0));
    assert!(shared().header().abandoned.load(Ordering::Relaxed) >= 1);
}
