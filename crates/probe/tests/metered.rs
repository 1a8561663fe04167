//! Handlers that read what the kernel keeps of a thread. They share one arena, so it is one test.
#![allow(unsafe_code, reason = "calls generated code")]

use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use transect_event_abi::probe_arena as arena;
use transect_probe::frame::{self, Places, transect_probe_globals};
use transect_probe::trampoline::{self, Call, Request};
use transect_probe::{Descriptor, Handler, scope};

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const PAGES: u64 = 50;

fn map(bytes: usize, protection: ProtFlags) -> u64 {
    // SAFETY: a new mapping touches nothing that exists.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).unwrap() as u64 }
}

/// `jmp rdi`: what is probed is whatever it is given, with the same arguments.
const JUMP: [u8; 2] = [0xFF, 0xE7];

/// `ret`
const RETURN: [u8; 1] = [0xC3];

/// What a probed call executes; it gets itself, then two arguments.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Body(extern "C" fn(Body, u64, u64));

type ProbedCall = extern "C" fn(Body, u64, u64);

struct Probed {
    base: u64,
    site: u64,
    function: ProbedCall,
}

impl Probed {
    fn new(base: u64, site: u64, enter: Handler, exit: Handler) -> Probed {
        Probed::with_code(base, site, enter, exit, &JUMP)
    }

    fn with_code(base: u64, site: u64, enter: Handler, exit: Handler, code: &[u8]) -> Probed {
        let block = map(4096, READ_WRITE | ProtFlags::EXEC);
        let request = Request { block, code, fixups: &[], resume: None, call: Call::Paired };
        let built = trampoline::build(&request).unwrap();
        // SAFETY: the mapping is a page long and ours.
        unsafe { std::ptr::copy_nonoverlapping(built.bytes.as_ptr(), block as *mut u8, built.length) };
        // SAFETY: the block begins with its descriptor.
        let descriptor = unsafe { &*(block as *const Descriptor) };
        let word = block + trampoline::WORD as u64;
        let record = base + arena::SITES_OFFSET + site * 128;
        descriptor.record.store(record, Relaxed);
        descriptor.counters.store(base + arena::SHARDS_OFFSET + site * 32, Relaxed);
        descriptor.histogram.store(base + arena::HISTOGRAMS_OFFSET + site * arena::HISTOGRAM_SIZE, Relaxed);
        descriptor.enter.store(enter.address(), Relaxed);
        descriptor.exit.store(exit.address(), Relaxed);
        // SAFETY: 8-aligned, within the block.
        unsafe { (*(word as *const std::sync::atomic::AtomicU64)).store(built.on, Relaxed) };
        // SAFETY: the code at the word is the trampoline, and follows the C convention.
        let probed = Probed { base, site, function: unsafe { std::mem::transmute::<u64, ProbedCall>(word) } };
        probed.record().remaining.store(i32::MAX, Relaxed);
        probed
    }

    fn record(&self) -> &arena::SiteRecord {
        // SAFETY: within the arena, whose fields are atomic.
        unsafe { &*((self.base + arena::SITES_OFFSET) as *const arena::SiteRecord).add(self.site as usize) }
    }

    /// Samples and their sum.
    fn samples(&self) -> (u64, u64) {
        (0..arena::SHARDS).fold((0, 0), |(samples, sum), shard| {
            let index = shard * arena::SITE_CAPACITY + self.site as usize;
            // SAFETY: as above.
            let c = unsafe { &*((self.base + arena::SHARDS_OFFSET) as *const arena::SiteCounters).add(index) };
            (samples + c.samples.load(Relaxed), sum + c.ticks.load(Relaxed))
        })
    }
}

extern "C" fn touch(_: Body, pages: u64, _: u64) {
    let at = map(pages as usize * 4096, READ_WRITE);
    // SAFETY: the mapping is ours, and so long; small pages make one fault each.
    unsafe {
        rustix::mm::madvise(at as *mut _, pages as usize * 4096, rustix::mm::Advice::LinuxNoHugepage).unwrap();
        (0..pages).for_each(|page| ((at + page * 4096) as *mut u8).write_volatile(1));
        munmap(at as *mut _, pages as usize * 4096).unwrap();
    }
}

fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

extern "C" fn burn(_: Body, ns: u64, _: u64) {
    let end = cpu_ns() + ns;
    while cpu_ns() < end {}
}

extern "C" fn nap(_: Body, ns: u64, _: u64) {
    std::thread::sleep(std::time::Duration::from_nanos(ns));
}

/// Calls `touch` through the probe at `address`, `times` times.
extern "C" fn call_inner(_: Body, probed: u64, times: u64) {
    // SAFETY: the caller passes a live `Probed`.
    let inner = unsafe { &*(probed as *const Probed) };
    (0..times).for_each(|_| (inner.function)(Body(touch), PAGES, 0));
}

extern "C" fn fork_inside(_: Body, _: u64, _: u64) {
    // SAFETY: the child returns through the probe, looks at atomics and ends without the runtime.
    unsafe { fork() };
}

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

#[test]
fn calls_are_measured_in_what_the_kernel_keeps_of_the_thread() {
    let base = map(arena::CODE_OFFSET as usize, READ_WRITE);
    let (keys, pool, pages) = frame::map().unwrap();
    let scopes = map(scope::SCOPES_SIZE as usize, READ_WRITE);
    transect_probe_globals.set(&Places { header: base, keys, pool, pages, stack_end: 0, layered: false, scopes });
    // SAFETY: mapped above, zero is a valid header.
    let header = unsafe { &*(base as *const arena::ProbeHeader) };

    // Faults: what handlers cause themselves (fresh pages of frames, counters, histograms) is nobody's.
    let inner = Probed::new(base, 3_000, Handler::FaultsEnter, Handler::FaultsExit);
    let outer = Probed::new(base, 9_000, Handler::FaultsEnter, Handler::FaultsExit);
    let inner_address = std::ptr::from_ref(&inner) as u64;
    // Pages of code that were never run make faults, too.
    touch(Body(touch), 1, 0);
    for round in 1..=5 {
        (outer.function)(Body(call_inner), inner_address, 10);
        let (samples, faults) = inner.samples();
        assert_eq!(samples, round * 10);
        // The exit handler is run for the first time.
        assert!((samples * PAGES..=samples * PAGES + 3).contains(&faults), "{faults} in {samples} calls");
        let (samples, faults) = outer.samples();
        assert_eq!(samples, round);
        assert!((round * 10 * PAGES..=round * 10 * PAGES + 6).contains(&faults), "{faults} in {samples} outer calls");
    }
    assert_eq!(header.unread.load(Relaxed), 0);

    // CPU time: what burns it has it, what sleeps does not, however busy the machine is.
    let burning = Probed::new(base, 3_001, Handler::CpuEnter, Handler::CpuExit);
    let napping = Probed::new(base, 3_002, Handler::CpuEnter, Handler::CpuExit);
    let own = cpu_ns();
    (0..10).for_each(|_| (burning.function)(Body(burn), 1_000_000, 0));
    let own = cpu_ns() - own;
    let (samples, ns) = burning.samples();
    assert_eq!(samples, 10);
    assert!(ns >= 10_000_000 && ns <= own, "{ns} ns of {own}");
    transect_testkit::judged("CPU time of naps", || {
        let before = napping.samples();
        (0..10).for_each(|_| (napping.function)(Body(nap), 2_000_000, 0));
        let (samples, ns) = napping.samples();
        assert_eq!(samples - before.0, 10);
        let ns = ns - before.1;
        if ns < 10_000_000 { Ok(()) } else { Err(format!("{ns} ns of CPU time in 20 ms of sleep")) }
    });

    // The window of a probe begins with its first call, not when it was switched on: who calls may not have run until then.
    for (site, enter, exit) in [
        (3_005, Handler::CpuEnter, Handler::CpuExit),
        (3_006, Handler::FaultsEnter, Handler::FaultsExit),
        (3_007, Handler::LatencyEnter, Handler::TimeExit),
    ] {
        let probed = Probed::new(base, site, enter, exit);
        // SAFETY: reads a counter.
        let ticks = || unsafe { std::arch::x86_64::_rdtsc() };
        let armed = ticks() | arena::NOT_CALLED;
        probed.record().armed_at.store(armed, Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let before = ticks();
        (probed.function)(Body(burn), 1_000, 0);
        let first = probed.record().armed_at.load(Relaxed);
        assert!(first & arena::NOT_CALLED == 0 && first + arena::NOT_CALLED >= before, "{first} after {before}");
        let until_first = u64::from(probed.record().until_first.load(Relaxed)) << arena::UNTIL_FIRST_SHIFT;
        let passed = first - armed;
        assert!(until_first.abs_diff(passed) <= 2 << arena::UNTIL_FIRST_SHIFT, "{until_first} of {passed}");
        (probed.function)(Body(burn), 1_000, 0);
        assert_eq!(probed.record().armed_at.load(Relaxed), first, "the first call alone is noted");
    }

    // A child of fork has clocks of its own: the call that it returns from can't be measured there.
    let forking = Probed::new(base, 3_003, Handler::CpuEnter, Handler::CpuExit);
    let parent = std::process::id();
    (forking.function)(Body(fork_inside), 0, 0);
    if std::process::id() != parent {
        let right = header.unread.load(Relaxed) == 1 && forking.samples().0 == 0;
        // SAFETY: ends the child at once.
        unsafe { _exit(if right { 42 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call; the test has no other child.
    unsafe { waitpid(-1, &raw mut status, 0) };
    assert_eq!(status, 42 << 8, "the child counts its call as unread");
    assert_eq!((forking.samples().0, header.unread.load(Relaxed)), (1, 0), "the parent's is measured");

    // Who asks for a filter of system calls: nothing is read any more, calls go on.
    let asks = |enter: Handler, number: u64, first: u64| {
        header.confined.store(0, Relaxed);
        let asking = Probed::with_code(base, 3_004, enter, Handler::TimeExit, &RETURN);
        // SAFETY: what is called returns at once, whatever its arguments.
        let call: extern "C" fn(u64, u64) = unsafe { std::mem::transmute(asking.function) };
        call(number, first);
        header.confined.load(Relaxed) == 1
    };
    assert!(!asks(Handler::PrctlEnter, 15, 0) && !asks(Handler::SyscallEnter, 157, 15));
    assert!(!asks(Handler::SyscallEnter, 1, 22));
    assert!(asks(Handler::SyscallEnter, 317, 1) && asks(Handler::SyscallEnter, 157, 59));
    assert!(asks(Handler::PrctlEnter, 22, 2));
    let before = burning.samples().0;
    (burning.function)(Body(burn), 1_000, 0);
    assert_eq!((burning.samples().0, header.unread.load(Relaxed)), (before, 1));
}
