//! Events of feature regions: the handler at a no-op in this process, whose own memory plays the recorder's file.
#![allow(unsafe_code, reason = "calls generated code")]

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use transect_event_abi::region_arena::{
    EVENT_END, EVENT_KIND_SHIFT, POLICY_COUNT, REGION_FILE_SIZE, REGION_MAGIC, REGION_VERSION, RING_FULL, RINGS_OFFSET,
    RegionEvent, RegionHeader, RingRecord, THREADS_OFFSET, thread_hash,
};
use transect_probe::frame::transect_probe_globals;
use transect_probe::trampoline::{self, Call, Request};
use transect_probe::{Descriptor, Handler};

/// glibc's place of a thread's number.
const TID_OFFSET: u64 = 0x2d0;

static ALONE: Mutex<()> = Mutex::new(());

fn map(bytes: usize, protection: ProtFlags) -> u64 {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping touches nothing that exists.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags).unwrap() as u64 }
}

/// The file: one for all tests, since the globals are.
fn file() -> u64 {
    static FILE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *FILE.get_or_init(|| {
        let base = map(REGION_FILE_SIZE as usize, ProtFlags::READ | ProtFlags::WRITE);
        let header = header(base);
        header.version.store(REGION_VERSION, Relaxed);
        header.policy.store(POLICY_COUNT, Relaxed);
        header.recording.store(1, Relaxed);
        header.magic.store(REGION_MAGIC, Release);
        transect_probe_globals.regions.store(base, Relaxed);
        transect_probe_globals.tid_offset.store(TID_OFFSET, Relaxed);
        base
    })
}

fn header(base: u64) -> &'static RegionHeader {
    // SAFETY: mapped by `file()`, zero is a valid header.
    unsafe { &*(base as *const RegionHeader) }
}

fn slot(index: usize) -> &'static AtomicU64 {
    // SAFETY: inside of the mapping.
    unsafe { &*((file() + THREADS_OFFSET) as *const AtomicU64).add(index) }
}

/// The ring of this thread.
fn ring() -> &'static RingRecord {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let first = thread_hash(tid);
    let number = (first..first + 64).map(|index| slot(index).load(Acquire)).find(|value| *value as u32 == tid).unwrap();
    // SAFETY: inside of the mapping.
    unsafe { &*((file() + RINGS_OFFSET) as *const RingRecord).add((number >> 32) as usize - 1) }
}

fn event(ring: &RingRecord, place: u64) -> &'static RegionEvent {
    // SAFETY: the ring's own places.
    unsafe { &*(ring.events.load(Relaxed) as *const RegionEvent).add(place as usize) }
}

/// A function of `rounds` calls of one region site: registers hold values that it checks, 128 bytes below its stack
/// pointer too. Gives the sum of what is wrong.
fn looped(id: u64) -> extern "C" fn(u64) -> u64 {
    let page = map(8192, ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC);
    // mov [rsp-8], rdi; mov rcx, rdi; mov rax, 7; mov rdx, 8; mov rsi, 9; mov r8, 10; mov r9, 11
    let mut code = vec![
        0x48, 0x89, 0x7C, 0x24, 0xF8, 0x48, 0x89, 0xF9, 0x48, 0xC7, 0xC0, 7, 0, 0, 0, 0x48, 0xC7, 0xC2, 8, 0, 0, 0,
        0x48, 0xC7, 0xC6, 9, 0, 0, 0, 0x49, 0xC7, 0xC0, 10, 0, 0, 0, 0x49, 0xC7, 0xC1, 11, 0, 0, 0,
    ];
    let site = code.len();
    // The site; dec rcx; jnz site
    code.extend([0x0F, 0x1F, 0x44, 0, 0, 0x48, 0xFF, 0xC9, 0x75, 0xF6]);
    // rax = rax-7 + rdx-8 + rsi-9 + r8-10 + r9-11 + rdi-[rsp-8]: lea rax, [rax+rdx]; add rax, rsi; add rax, r8; add rax, r9;
    // sub rax, 45; add rax, rdi; sub rax, [rsp-8]; ret
    code.extend([
        0x48, 0x8D, 0x04, 0x10, 0x48, 0x01, 0xF0, 0x4C, 0x01, 0xC0, 0x4C, 0x01, 0xC8, 0x48, 0x83, 0xE8, 45, 0x48, 0x01,
        0xF8, 0x48, 0x2B, 0x44, 0x24, 0xF8, 0xC3,
    ]);
    let block = page + 4096;
    let at = page + site as u64;
    let request = Request { block, code: &[], fixups: &[], resume: Some(at + 5), call: Call::Region };
    let built = trampoline::build(&request).unwrap();
    code[site..site + 5].copy_from_slice(&trampoline::jump(at, block + trampoline::WORD as u64).unwrap());
    // SAFETY: the mapping is two pages long and ours.
    unsafe {
        std::ptr::copy_nonoverlapping(code.as_ptr(), page as *mut u8, code.len());
        std::ptr::copy_nonoverlapping(built.bytes.as_ptr(), block as *mut u8, built.length);
    }
    // SAFETY: the block begins with its descriptor.
    let descriptor = unsafe { &*(block as *const Descriptor) };
    descriptor.enter.store(Handler::Region.address(), Relaxed);
    descriptor.user_exit.store(id, Relaxed);
    // SAFETY: 8-aligned, within the block.
    unsafe { &*((block + trampoline::WORD as u64) as *const AtomicU64) }.store(built.on, Relaxed);
    // SAFETY: follows the C convention.
    unsafe { std::mem::transmute::<u64, extern "C" fn(u64) -> u64>(page) }
}

#[test]
fn events_say_when_where_and_how_deep() {
    let _alone = ALONE.lock().unwrap();
    file();
    let what = EVENT_END << EVENT_KIND_SHIFT | 0x1234;
    let run = looped(what);
    std::thread::spawn(move || {
        assert_eq!(run(100), 0, "registers or red zone are damaged");
        let ring = ring();
        assert_eq!(ring.written.load(Acquire), 100);
        let mut last = ring.start_ticks.load(Relaxed);
        let marker = 0u64;
        let here = &raw const marker as u64;
        for place in 0..100 {
            let event = event(ring, place);
            assert_eq!(event.what.load(Acquire), what);
            assert!(event.ticks.load(Relaxed) >= last);
            last = event.ticks.load(Relaxed);
            assert!(event.stack.load(Relaxed).abs_diff(here) < 4096);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn a_full_ring_counts() {
    let _alone = ALONE.lock().unwrap();
    file();
    let run = looped(1);
    std::thread::spawn(move || {
        assert_eq!(run(RING_FULL + 1000), 0);
        let ring = ring();
        assert_eq!(ring.written.load(Acquire), RING_FULL);
        assert_eq!(ring.dropped.load(Relaxed), 1000);
        // Room again.
        ring.read.store(RING_FULL, Release);
        run(10);
        assert_eq!(ring.written.load(Acquire), RING_FULL + 10);
    })
    .join()
    .unwrap();
}

#[test]
fn threads_whose_places_are_taken_find_others() {
    let _alone = ALONE.lock().unwrap();
    file();
    let run = looped(1);
    std::thread::spawn(move || {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let first = thread_hash(tid);
        for index in first..first + 5 {
            let _ = slot(index).compare_exchange(0, 0x7fff_0000 + index as u64, Relaxed, Relaxed);
        }
        assert_eq!(run(50), 0);
        assert_eq!(ring().written.load(Acquire), 50);
    })
    .join()
    .unwrap();
}

#[test]
#[ignore = "prints what an event costs; cargo test --release -p transect-probe --test region -- --ignored --nocapture"]
fn cost_of_an_event() {
    let _alone = ALONE.lock().unwrap();
    file();
    let run = looped(1);
    let ticks = || {
        // SAFETY: reading the clock has no requirement.
        unsafe { core::arch::x86_64::_rdtsc() }
    };
    let best = |work: &dyn Fn()| {
        let round = || {
            let start = ticks();
            work();
            ticks() - start
        };
        (0..200).map(|_| round()).min().unwrap() as f64 / 10_000.0
    };
    let clock = best(&|| {
        for _ in 0..10_000 {
            std::hint::black_box(ticks());
        }
    });
    run(1);
    let ring = ring();
    let event = best(&|| {
        ring.read.store(ring.written.load(Relaxed), Release);
        run(10_000);
    });
    assert_eq!(ring.written.load(Relaxed), 2_000_001);
    let start = (std::time::Instant::now(), ticks());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let rate = (ticks() - start.1) as f64 / start.0.elapsed().as_nanos() as f64;
    eprintln!(
        "event {:.1} ns, clock read {:.1} ns, over it {:.1} ns",
        event / rate,
        clock / rate,
        (event - clock) / rate
    );
}
