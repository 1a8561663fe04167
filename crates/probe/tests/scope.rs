//! A function and its callees timed together: little programs of our own are probed and called, and what the handlers
//! have noted is compared with what was called, and with clocks read around the calls.
#![allow(unsafe_code, reason = "calls generated code")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use transect_event_abi::probe_arena as arena;
use transect_probe::frame::{self, Places, transect_probe_globals};
use transect_probe::scope::{SCOPES_SIZE, THREADS, ThreadScope};
use transect_probe::trampoline::{self, CAPACITY, Call, Request};
use transect_probe::{Descriptor, Handler, unwind};
use transect_testkit::judged;

fn map(bytes: usize, protection: ProtFlags) -> u64 {
    // SAFETY: a new mapping touches nothing that exists.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).unwrap() as u64 }
}

/// An arena for all tests, since the globals are; one test at a time.
fn arena_base() -> u64 {
    static BASE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *BASE.get_or_init(|| {
        let base = map(arena::CODE_OFFSET as usize, ProtFlags::READ | ProtFlags::WRITE);
        let scopes = map(SCOPES_SIZE as usize, ProtFlags::READ | ProtFlags::WRITE);
        let (keys, pool, pages) = frame::map().unwrap();
        transect_probe_globals.set(&Places { header: base, keys, pool, pages, stack_end: 0, layered: false, scopes });
        base
    })
}

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|e| e.into_inner());
    arena_base();
    for scope in scopes() {
        for word in 1..8 {
            // SAFETY: one of the entry's first eight words, all of them atomic.
            unsafe { &*(std::ptr::from_ref(scope).cast::<AtomicU64>()).add(word) }.store(0, Relaxed);
        }
        for word in scope.callee_ticks.iter().chain(&scope.callee_calls).chain([
            &scope.parent_left,
            &scope.callee_left,
            &scope.thrown_at,
        ]) {
            word.store(0, Relaxed);
        }
    }
    guard
}

fn scopes() -> &'static [ThreadScope] {
    // SAFETY: mapped by `arena_base`, zero is valid.
    unsafe { std::slice::from_raw_parts(transect_probe_globals.scopes.load(Relaxed) as *const ThreadScope, THREADS) }
}

/// Parent's (calls, ticks), each callee's (calls, ticks), calls left of the parent and of callees.
type Noted = ((u64, u64), [(u64, u64); 4], u64, u64);

/// What all threads have noted.
fn noted() -> Noted {
    let mut sum = ((0, 0), [(0, 0); 4], 0, 0);
    for s in scopes() {
        sum.0.0 += s.parent_calls.load(Relaxed);
        sum.0.1 += s.parent_ticks.load(Relaxed);
        for i in 0..4 {
            sum.1[i].0 += s.callee_calls[i].load(Relaxed);
            sum.1[i].1 += s.callee_ticks[i].load(Relaxed);
        }
        sum.2 += s.parent_left.load(Relaxed);
        sum.3 += s.callee_left.load(Relaxed);
    }
    sum
}

struct Probed {
    block: u64,
    descriptor: &'static Descriptor,
    rules: &'static arena::CallerRules,
    word: &'static AtomicU64,
    on: u64,
    off: u64,
    /// Address to call.
    function: u64,
}

/// A probed copy of `code`, with the arena's record and rules number `id`.
fn probe(code: &[u8], id: usize, handler: Handler) -> Probed {
    let base = arena_base();
    let block = map(4096, ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC);
    let built = trampoline::build(&Request { block, code, fixups: &[], resume: None, call: Call::Paired }).unwrap();
    // SAFETY: the mapping is a page long and ours; the block begins with its descriptor; arena and records are mapped.
    let (descriptor, record, rules, word) = unsafe {
        std::ptr::copy_nonoverlapping(built.bytes.as_ptr(), block as *mut u8, built.length);
        (
            &*(block as *const Descriptor),
            &*((base + arena::SITES_OFFSET) as *const arena::SiteRecord).add(id),
            &*((base + arena::RULES_OFFSET) as *const arena::CallerRules).add(id),
            &*((block + trampoline::WORD as u64) as *const AtomicU64),
        )
    };
    descriptor.id.store(id as u32, Relaxed);
    descriptor.record.store(std::ptr::from_ref(record) as u64, Relaxed);
    descriptor.counters.store(base + arena::SHARDS_OFFSET + id as u64 * 32, Relaxed);
    descriptor.histogram.store(base + arena::HISTOGRAMS_OFFSET + id as u64 * arena::HISTOGRAM_SIZE, Relaxed);
    descriptor.enter.store(handler.address(), Relaxed);
    descriptor.exit.store(Handler::ScopeExit.address(), Relaxed);
    descriptor.user_exit.store(std::ptr::from_ref(rules) as u64, Relaxed);
    record.word.store(word.as_ptr() as u64, Relaxed);
    record.off.store(built.off, Relaxed);
    rules.limit.store(u64::MAX, Relaxed);
    rules.miss_limit.store(u64::MAX, Relaxed);
    rules.misses.store(0, Relaxed);
    rules.used_up.store(0, Relaxed);
    for range in rules.callers.iter().chain(&rules.jumpers) {
        range.size.store(0, Relaxed);
    }
    word.store(built.on, Relaxed);
    Probed { block, descriptor, rules, word, on: built.on, off: built.off, function: block + trampoline::WORD as u64 }
}

impl Probed {
    /// Counts calls that return into the block of `parent`, and jumps out of the blocks `jumpers`.
    fn called_by(self, index: u32, parent: &Probed, jumpers: &[&Probed]) -> Probed {
        self.rules.index.store(index, Relaxed);
        self.rules.callers[0].low.store(parent.block + trampoline::BODY as u64, Relaxed);
        // Behind the displaced code lies the trampoline's own call.
        self.rules.callers[0].size.store(parent.code_size() as u64, Relaxed);
        for (range, jumper) in self.rules.jumpers.iter().zip(jumpers) {
            range.low.store(jumper.block, Relaxed);
            range.size.store(CAPACITY as u64, Relaxed);
        }
        self
    }

    /// Bytes up to the first call through the descriptor (FF 15), 16-aligned.
    fn code_size(&self) -> usize {
        // SAFETY: the block is mapped.
        let bytes = unsafe { std::slice::from_raw_parts((self.block + trampoline::BODY as u64) as *const u8, 200) };
        bytes.windows(2).position(|w| w == [0xFF, 0x15]).unwrap()
    }

    fn call(&self, a: u64, b: u64) -> u64 {
        // SAFETY: the code under test follows the C convention.
        let f: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(self.function) };
        f(a, b)
    }
}

/// Code that does: for each of `steps`: call of an address with rdi, rsi kept; then ret or a jump to the last.
fn caller(calls: &[u64], jump: Option<u64>) -> Vec<u8> {
    let mut code = vec![0x57, 0x56, 0x48, 0x83, 0xEC, 0x08]; // push rdi; push rsi; sub rsp,8
    for target in calls {
        code.extend([0x48, 0x8B, 0x7C, 0x24, 0x10]); // mov rdi,[rsp+16]
        code.extend([0x48, 0xB8]);
        code.extend(target.to_le_bytes());
        code.extend([0xFF, 0xD0]); // mov rax, target; call rax
    }
    code.extend([0x48, 0x83, 0xC4, 0x08, 0x5E, 0x5F]); // add rsp,8; pop rsi; pop rdi
    match jump {
        Some(target) => {
            code.extend([0x48, 0xB8]);
            code.extend(target.to_le_bytes());
            code.extend([0xFF, 0xE0]);
        }
        None => code.push(0xC3),
    }
    code
}

/// Spins for rdi rounds: dec rdi; jnz; mov rax, rsi; ret.
const SPIN: [u8; 11] = [0x48, 0xFF, 0xC7, 0x48, 0xFF, 0xCF, 0x75, 0xFB, 0x89, 0xF0, 0xC3];
const ADD: [u8; 5] = [0x48, 0x8D, 0x04, 0x37, 0xC3];

fn now() -> u64 {
    // SAFETY: no requirement.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Callees are made before the parent, whose code must know their address: the ranges are filled in afterwards.
fn parent_with(callees: Vec<Probed>, code: impl Fn(&[Probed]) -> Vec<u8>, id: usize) -> (Probed, Vec<Probed>) {
    let parent = probe(&code(&callees), id, Handler::ScopeEnter);
    let callees = callees.into_iter().enumerate().map(|(i, c)| c.called_by(i as u32, &parent, &[])).collect();
    (parent, callees)
}

#[test]
fn only_calls_from_the_parent_count_and_times_are_true() {
    judged("times are true", counts_and_times_of_the_parent);
}

fn counts_and_times_of_the_parent() -> Result<(), String> {
    let _alone = alone();
    let spin = probe(&SPIN, 1, Handler::CalleeEnter);
    let (parent, callees) = parent_with(vec![spin], |c| caller(&[c[0].function, c[0].function], None), 2);
    let mut truth = 0;
    for _ in 0..100 {
        let start = now();
        parent.call(20_000, 7);
        truth += now() - start;
        assert_eq!(callees[0].call(5_000, 7), 7, "not from the parent");
    }
    let ((calls, ticks), callee, left, callee_left) = noted();
    assert_eq!((calls, callee[0].0, left, callee_left), (100, 200, 0, 0));
    assert_eq!(callees[0].rules.misses.load(Relaxed), 100);
    assert!(callee[0].1 < ticks && ticks <= truth, "{} of {ticks} of {truth}", callee[0].1);
    let nearly = |part: u64, whole: u64| part as f64 > whole as f64 * 0.97;
    let near = nearly(ticks, truth) && nearly(callee[0].1, ticks);
    if near { Ok(()) } else { Err(format!("{} of {ticks} of {truth}", callee[0].1)) }
}

#[test]
fn a_call_from_code_that_looks_like_the_parent_does_not_count_while_the_parent_is_not_timed() {
    let _alone = alone();
    let add = probe(&ADD, 1, Handler::CalleeEnter);
    let (parent, callees) = parent_with(vec![add], |c| caller(&[c[0].function], None), 2);
    parent.word.store(parent.off, Relaxed);
    parent.call(1, 2);
    assert_eq!(noted().1[0].0, 0);
    parent.word.store(parent.on, Relaxed);
    parent.call(1, 2);
    assert_eq!(noted().1[0].0, 1);
    assert_eq!(callees[0].rules.misses.load(Relaxed), 1);
}

#[test]
fn recursion_counts_once() {
    let _alone = alone();
    // f(n) = n == 0 ? 0 : 1 + f(n - 1)
    let mut code = vec![0x48, 0x31, 0xC0, 0x48, 0x85, 0xFF, 0x74, 0];
    code.extend([0x48, 0xFF, 0xCF, 0xE8, 0, 0, 0, 0, 0x48, 0xFF, 0xC0]);
    let end = code.len();
    code.push(0xC3);
    code[7] = (end - 8) as u8;
    code[12..16].copy_from_slice(&(-(16 + 5_i32)).to_le_bytes());
    let parent = probe(&code, 3, Handler::ScopeEnter);
    let start = now();
    assert_eq!(parent.call(1000, 0), 1000);
    let truth = now() - start;
    let ((calls, ticks), ..) = noted();
    assert_eq!(calls, 1);
    assert!(ticks <= truth);
    assert_eq!(parent.rules.misses.load(Relaxed), 1000);
    assert_eq!(parent.call(0, 0), 0);
    assert_eq!(noted().0.0, 2);
}

#[test]
fn callees_inside_of_callees_do_not_count() {
    let _alone = alone();
    // Parent calls A, A calls B through code that is part of the parent's range, too: B is inside of A.
    let b = probe(&ADD, 1, Handler::CalleeEnter);
    let a = probe(&caller(&[b.function], None), 2, Handler::CalleeEnter);
    let parent = probe(&caller(&[a.function, b.function], None), 3, Handler::ScopeEnter);
    let a_code = (a.block + trampoline::BODY as u64, a.code_size() as u64);
    let b = b.called_by(1, &parent, &[]);
    b.rules.callers[1].low.store(a_code.0, Relaxed);
    b.rules.callers[1].size.store(a_code.1, Relaxed);
    let _a = a.called_by(0, &parent, &[]);
    for _ in 0..10 {
        parent.call(1, 2);
    }
    let (_, callee, ..) = noted();
    assert_eq!((callee[0].0, callee[1].0), (10, 10));
    assert_eq!(b.rules.misses.load(Relaxed), 10);
}

#[test]
fn a_jump_to_a_callee_counts_until_both_return() {
    judged("jumps to callees", jumps_to_callees);
}

fn jumps_to_callees() -> Result<(), String> {
    let _alone = alone();
    let spin = probe(&SPIN, 1, Handler::CalleeEnter);
    let middle = probe(&caller(&[], Some(spin.function)), 2, Handler::CalleeEnter);
    // Parent jumps to `middle`, which jumps to `spin`.
    let parent = probe(&caller(&[], Some(middle.function)), 3, Handler::ScopeEnter);
    let middle = middle.called_by(0, &parent, &[&parent]);
    let spin = spin.called_by(1, &parent, &[&parent, &middle]);
    for _ in 0..50 {
        assert_eq!(parent.call(20_000, 9), 9);
    }
    let ((calls, ticks), callee, left, callee_left) = noted();
    assert_eq!((calls, callee[0].0, callee[1].0, left, callee_left), (50, 50, 50, 0, 0));
    let near = callee[1].1 as f64 > ticks as f64 * 0.95 && callee[0].1 < ticks / 20;
    let first = if near { Ok(()) } else { Err(format!("{callee:?} of {ticks}")) };
    // A callee that is called and then jumps to another.
    let _parent = probe(&caller(&[middle.function], None), 4, Handler::ScopeEnter);
    let middle = middle.called_by(0, &_parent, &[&_parent]);
    let _spin = spin.called_by(1, &_parent, &[&_parent, &middle]);
    for _ in 0..50 {
        _parent.call(20_000, 9);
    }
    let ((calls, _), callee, left, callee_left) = noted();
    assert_eq!((calls, callee[0].0, callee[1].0, left, callee_left), (100, 100, 100, 0, 0));
    first?;
    if callee[1].1 > callee[0].1 * 20 { Ok(()) } else { Err(format!("{callee:?}")) }
}

#[test]
fn threads_are_told_apart() {
    let _alone = alone();
    let spin = probe(&SPIN, 1, Handler::CalleeEnter);
    let (parent, _callees) = parent_with(vec![spin], |c| caller(&[c[0].function], None), 2);
    std::thread::scope(|scope| {
        for n in 1..=8_u64 {
            let parent = &parent;
            scope.spawn(move || (0..n * 1000).for_each(|i| assert_eq!(parent.call(20, i), i)));
        }
    });
    let ((calls, _), callee, left, callee_left) = noted();
    assert_eq!((calls, callee[0].0, left, callee_left), (36_000, 36_000, 0, 0));
}

#[test]
fn a_limit_switches_off() {
    let _alone = alone();
    let add = probe(&ADD, 1, Handler::CalleeEnter);
    let (parent, callees) = parent_with(vec![add], |c| caller(&[c[0].function], None), 2);
    callees[0].rules.limit.store(10, Relaxed);
    (0..100).for_each(|i| assert_eq!(parent.call(i, 1), i + 1));
    let ((calls, _), callee, ..) = noted();
    assert_eq!((calls, callee[0].0), (100, 10));
    assert_eq!((callees[0].rules.used_up.load(Relaxed), callees[0].word.load(Relaxed)), (1, callees[0].off));
    parent.rules.limit.store(120, Relaxed);
    (0..100).for_each(|i| assert_eq!(parent.call(i, 1), i + 1));
    assert_eq!((noted().0.0, parent.word.load(Relaxed)), (120, parent.off));
    // Misses, too.
    callees[0].rules.miss_limit.store(50, Relaxed);
    callees[0].rules.used_up.store(0, Relaxed);
    callees[0].word.store(callees[0].on, Relaxed);
    (0..100).for_each(|i| assert_eq!(callees[0].call(i, 1), i + 1));
    assert_eq!((callees[0].rules.used_up.load(Relaxed), callees[0].word.load(Relaxed)), (1, callees[0].off));
}

#[test]
fn a_call_left_without_return_gives_way_to_the_next() {
    let _alone = alone();
    let parent = probe(&ADD, 2, Handler::ScopeEnter);
    parent.call(1, 1);
    let scope = scopes().iter().find(|s| s.parent_calls.load(Relaxed) == 1).unwrap();
    // As longjmp leaves it: open, below where the next call stands.
    scope.parent_slot.store(&raw const parent as u64 - 100_000, Relaxed);
    parent.call(1, 1);
    assert_eq!((noted().0.0, noted().2, scope.parent_slot.load(Relaxed)), (2, 1, 0));
    // As an unwinder leaves it: it is known when.
    let before = scope.parent_ticks.load(Relaxed);
    scope.parent_slot.store(&raw const parent as u64 - 100_000, Relaxed);
    scope.parent_start.store(1000, Relaxed);
    scope.thrown_at.store(501_000, Relaxed);
    let start = now();
    parent.call(1, 1);
    let last = now() - start;
    let more = scope.parent_ticks.load(Relaxed) - before;
    assert!((500_000..=500_000 + last).contains(&more), "{more} with a last call of at most {last}");
}

extern "C" fn throw(_id: u32, registers: &mut transect_probe::descriptor::Registers, _v: u64, _c: u64) -> u64 {
    unwind::restore(0, registers, 0, 0);
    0
}

#[test]
fn an_unwinder_notes_the_time() {
    let _alone = alone();
    let inner = probe(&ADD, 1, Handler::VectorEnter);
    inner.descriptor.user_enter.store(throw as *const () as u64, Relaxed);
    inner.descriptor.exit.store(Handler::TimeExit.address(), Relaxed);
    let parent = probe(&caller(&[inner.function], None), 2, Handler::ScopeEnter);
    let start = now();
    assert_eq!(parent.call(4, 5), 9);
    let scope = scopes().iter().find(|s| s.parent_calls.load(Relaxed) == 1).unwrap();
    let thrown = scope.thrown_at.load(Relaxed);
    assert!(thrown > start && thrown < now() && scope.parent_slot.load(Relaxed) != 0);
    parent.call(4, 5);
    let ((calls, ticks), _, left, _) = noted();
    assert_eq!((calls, left), (2, 1));
    assert!(ticks >= thrown - start - 20_000 || ticks > 0);
}

#[test]
fn all_registers_are_preserved() {
    let _alone = alone();
    for handler in [Handler::ScopeEnter, Handler::CalleeEnter] {
        for (limit, misses, open) in
            [(0, 0, 0), (u64::MAX, u64::MAX, 0), (u64::MAX, u64::MAX, u64::MAX), (u64::MAX, 1, 0)]
        {
            let probed = probe(&ADD, 7, handler);
            probed.rules.callers[0].size.store(u64::MAX, Relaxed);
            for _ in 0..3 {
                probed.word.store(probed.on, Relaxed);
                probed.rules.limit.store(limit, Relaxed);
                probed.rules.miss_limit.store(misses, Relaxed);
                for scope in scopes().iter().filter(|s| s.key.load(Relaxed) != 0) {
                    if handler == Handler::CalleeEnter {
                        scope.parent_slot.store(open, Relaxed);
                    }
                }
                let (rcx, rdx, r8, r9, r10, r11, rax): (u64, u64, u64, u64, u64, u64, u64);
                let (rbx, r13, r14, r15): (u64, u64, u64, u64);
                // SAFETY: the callee preserves what it is tested for; rdi and rsi are inputs, rax the result.
                unsafe {
                    std::arch::asm!("push rbx", "mov rbx, 77", "call r12", "mov r12, rbx", "pop rbx",
                        inlateout("r12") probed.function => rbx, in("rdi") 1u64, in("rsi") 2u64,
                        inlateout("rax") 9u64 => rax, inlateout("rcx") 10u64 => rcx, inlateout("rdx") 11u64 => rdx,
                        inlateout("r8") 12u64 => r8, inlateout("r9") 13u64 => r9, inlateout("r10") 14u64 => r10,
                        inlateout("r11") 15u64 => r11, inlateout("r13") 16u64 => r13, inlateout("r14") 17u64 => r14,
                        inlateout("r15") 18u64 => r15);
                }
                assert_eq!((rax, rbx, rcx, rdx, r8, r9, r10, r11), (3, 77, 10, 11, 12, 13, 14, 15), "{handler:?}");
                assert_eq!((r13, r14, r15), (16, 17, 18));
            }
        }
    }
}
