//! Displaced instructions compute what the original ones do: both run on the CPU itself, from equal registers
//! and memory, and must leave equal registers, flags and memory and go on at the same address.

mod sandbox;

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sandbox::{ARENA, End, Sandbox, State};
use transect_binary_info::Object;
use transect_probe_plan::{Displaced, PlanOptions, Window, displace, plan};

/// Steps that a window may take.
const STEPS: usize = 60;

/// A source of registers and memory: xorshift64*.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Something that differs.
#[derive(Debug)]
struct Difference {
    what: String,
}

/// Compares `displaced` (of the code at `vaddr` in the sandbox' image, `length` bytes) with the original from each of
/// its instruction starts. The number of runs that ended before the step limit.
fn compare(
    sandbox: &mut Sandbox,
    vaddr: u64,
    length: usize,
    displaced: &Displaced,
    noise: &mut Noise,
) -> Result<usize, Difference> {
    let bias = sandbox.image_at();
    let code_at = sandbox.code_at();
    let mut code = displaced.code.clone();
    let mut fixups = displaced.fixups.clone();
    if !displaced.ends {
        let at = code.len() as u16 + 1;
        code.extend([0xe9, 0, 0, 0, 0]);
        fixups.push(transect_probe_plan::Fixup { at, from: at + 4, target: displaced.resume });
    }
    for fixup in &fixups {
        let distance = fixup.target.wrapping_add(bias).wrapping_sub(code_at + u64::from(fixup.from)).cast_signed();
        let distance = i32::try_from(distance).map_err(|_| Difference { what: "out of reach".into() })?;
        let at = usize::from(fixup.at);
        if code[at..at + 4] != [0; 4] {
            return Err(Difference { what: format!("a fixup at {at} over code") });
        }
        code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }
    sandbox.code()[..code.len()].copy_from_slice(&code);
    let original = vaddr + bias..vaddr + bias + length as u64;
    let moved = code_at..code_at + code.len() as u64;
    let mut finished = 0;
    for &(old, new) in &displaced.starts {
        let start = random_state(sandbox, noise).map_err(failed)?;
        let memory = random_memory(sandbox, noise);
        let touched = image_words(sandbox, displaced);
        let mut run = |at: u64, range: Range<u64>| {
            sandbox.arenas().copy_from_slice(&memory);
            for (place, bytes) in &touched {
                sandbox.image()[place.clone()].copy_from_slice(bytes);
            }
            let mut start = start.clone();
            start.integer.rip = at;
            let (state, end) = sandbox.run(&start, range, STEPS)?;
            let image: Vec<Vec<u8>> =
                touched.iter().map(|(place, _)| sandbox.image()[place.clone()].to_vec()).collect();
            std::io::Result::Ok((state, end, sandbox.arenas().to_vec(), image))
        };
        let first = run(original.start + u64::from(old), original.clone()).map_err(failed)?;
        let second = run(moved.start + u64::from(new), moved.clone()).map_err(failed)?;
        for (place, bytes) in &touched {
            sandbox.image()[place.clone()].copy_from_slice(bytes);
        }
        if first.1 == End::Running || second.1 == End::Running {
            continue;
        }
        let arenas_at = sandbox.data_at();
        differ(&first, &second, &original, displaced, code_at, arenas_at)
            .map_err(|what| Difference { what: format!("from +{old}: {what}") })?;
        finished += 1;
    }
    Ok(finished)
}

fn failed(error: std::io::Error) -> Difference {
    Difference { what: error.to_string() }
}

type Outcome = (State, End, Vec<u8>, Vec<Vec<u8>>);

fn differ(
    first: &Outcome,
    second: &Outcome,
    original: &Range<u64>,
    displaced: &Displaced,
    code_at: u64,
    arenas_at: u64,
) -> Result<(), String> {
    // A call that faults has pushed nothing; displaced, it may have by then. The program is at its end in either case.
    let last = displaced.starts.last().map(|(old, _)| original.start + u64::from(*old));
    if let (End::Signal(_), End::Signal(_)) = (first.1, second.1)
        && displaced.ends
        && last == Some(first.0.integer.rip)
    {
        return Ok(());
    }
    if first.1 != second.1 {
        return Err(format!("ends {:?} at {:x}, {:?}", first.1, first.0.integer.rip, second.1));
    }
    let (a, b) = (&first.0.integer, &second.0.integer);
    // A fault is at the same instruction.
    let wanted = match displaced.starts.iter().find(|(old, _)| original.start + u64::from(*old) == a.rip) {
        Some((_, new)) if matches!(first.1, End::Signal(_)) => code_at + u64::from(*new),
        _ => a.rip,
    };
    if b.rip != wanted {
        return Err(format!("goes on at {:x}, not {wanted:x}", b.rip));
    }
    let registers = |r: &libc::user_regs_struct| {
        [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15, r.fs_base, r.gs_base,
        ]
    };
    if registers(a) != registers(b) {
        return Err(format!("registers {:x?}, {:x?}", registers(a), registers(b)));
    }
    // The trap flag is the debugger's, the resume flag the fault's.
    let flags = !0x1_0100;
    if a.eflags & flags != b.eflags & flags {
        return Err(format!("flags {:x}, {:x}", a.eflags, b.eflags));
    }
    let (v, w) = (&first.0.vector, &second.0.vector);
    if v.xmm_space != w.xmm_space || v.mxcsr != w.mxcsr || v.st_space != w.st_space || v.cwd != w.cwd {
        return Err("vector registers".into());
    }
    // What is below the stack pointer and its red zone after a displaced call is nobody's.
    let top = usize::try_from(a.rsp.wrapping_sub(arenas_at)).unwrap_or(0).min(2 * ARENA);
    let dead = if displaced.ends { top.saturating_sub(16)..top } else { 0..0 };
    let (mut m, mut n) = (first.2.clone(), second.2.clone());
    m[dead.clone()].fill(0);
    n[dead].fill(0);
    if let Some(at) = (0..m.len()).find(|&at| m[at] != n[at]) {
        return Err(format!("memory at {at:x}"));
    }
    if first.3 != second.3 { Err("memory of the image".into()) } else { Ok(()) }
}

/// Registers: most point into the data arena, some are numbers.
fn random_state(sandbox: &Sandbox, noise: &mut Noise) -> std::io::Result<State> {
    let mut state = sandbox.state()?;
    let (data, stack) = (sandbox.data_at(), sandbox.stack_at());
    let mut value = || match noise.next() % 8 {
        0 => noise.next(),
        1 => noise.next() % 64,
        _ => data + ARENA as u64 / 4 + noise.next() % (ARENA as u64 / 2),
    };
    let r = &mut state.integer;
    for register in [
        &mut r.rax, &mut r.rbx, &mut r.rcx, &mut r.rdx, &mut r.rsi, &mut r.rdi, &mut r.rbp, &mut r.r8, &mut r.r9,
        &mut r.r10, &mut r.r11, &mut r.r12, &mut r.r13, &mut r.r14, &mut r.r15,
    ] {
        *register = value();
    }
    r.rsp = stack + ARENA as u64 / 2 + 8;
    // Carry, parity, adjust, zero, sign, overflow.
    r.eflags = 0x202 | noise.next() & 0x8d5;
    state.vector.xmm_space.iter_mut().for_each(|word| *word = noise.next() as u32);
    Ok(state)
}

fn random_memory(sandbox: &mut Sandbox, noise: &mut Noise) -> Vec<u8> {
    let data = sandbox.data_at();
    let size = sandbox.arenas().len();
    let mut memory = Vec::with_capacity(size);
    while memory.len() < size {
        // Pointers into the arena among numbers.
        let n = noise.next();
        let word = if n & 1 == 0 { data + (n >> 1) % ARENA as u64 } else { n };
        memory.extend(word.to_le_bytes());
    }
    memory
}

/// Bytes of the image that the window addresses, as they are.
fn image_words(sandbox: &mut Sandbox, displaced: &Displaced) -> Vec<(Range<usize>, Vec<u8>)> {
    let image = sandbox.image();
    displaced
        .fixups
        .iter()
        .filter_map(|f| {
            let place = f.target as usize..(f.target as usize).checked_add(64)?;
            Some((place.clone(), image.get(place)?.to_vec()))
        })
        .collect()
}

/// Bytes of an instruction, often one that depends on where it stands.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let rel8 = any::<i8>().prop_map(|d| d as u8);
    let near = -100_000i32..100_000;
    let rip = (prop::sample::select(vec![0x8bu8, 0x89, 0x8d, 0x03, 0x3b, 0x63]), 0u8..8, 0u8..2, near.clone());
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 15),
        2 => (prop::sample::select(vec![0x48u8, 0x4c, 0x49, 0x66, 0x41, 0xc5, 0xf3]), prop::collection::vec(any::<u8>(), 14))
            .prop_map(|(prefix, rest)| [vec![prefix], rest].concat()),
        3 => rip.prop_map(|(opcode, register, wide, d)| {
            let mut bytes = vec![0x40 | wide << 3, opcode, register << 3 | 5];
            bytes.extend(d.to_le_bytes());
            bytes
        }),
        2 => (0x70u8..0x80, rel8.clone()).prop_map(|(opcode, d)| vec![opcode, d]),
        1 => (0xe0u8..0xe4, rel8.clone()).prop_map(|(opcode, d)| vec![opcode, d]),
        1 => rel8.prop_map(|d| vec![0xeb, d]),
        2 => (0x80u8..0x90, near.clone()).prop_map(|(opcode, d)| [vec![0x0f, opcode], d.to_le_bytes().to_vec()].concat()),
        2 => (prop::sample::select(vec![0xe8u8, 0xe9]), near.clone())
            .prop_map(|(opcode, d)| [vec![opcode], d.to_le_bytes().to_vec()].concat()),
        // call and jump through registers and memory, the stack's included
        2 => (prop::sample::select(vec![0xd0u8, 0xd3, 0xe0, 0xe6, 0x10, 0x20, 0x13, 0x50, 0x60]), any::<u8>())
            .prop_map(|(m, d)| vec![0xff, m, d & 0x7f]),
        1 => (prop::sample::select(vec![0x15u8, 0x25]), near).prop_map(|(m, d)| [vec![0xff, m], d.to_le_bytes().to_vec()].concat()),
        1 => any::<u8>().prop_map(|d| vec![0xff, 0x54, 0x24, d & 0x78]),
        1 => Just(vec![0xc3]),
        3 => prop::sample::select(vec![vec![0x55u8], vec![0x41, 0x57], vec![0x48, 0x89, 0xe5], vec![0x48, 0x83, 0xec, 0x28],
            vec![0x31, 0xc0], vec![0x85, 0xff], vec![0xf3, 0x0f, 0x1e, 0xfa], vec![0x90], vec![0x66, 0x90]]),
    ]
}

/// The whole instruction at the start of `bytes` if user code could have it and it gives the same each time.
fn harmless(bytes: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let known = !instruction.is_invalid() && !instruction.is_privileged();
    (known && !is_moody(&instruction)).then(|| &bytes[..instruction.len()])
}

/// Instructions that end the child, change its segments, or answer differently each time; and those that the kernel
/// emulates (`sldt` and its like), after which it steps one too far.
fn is_moody(i: &Instruction) -> bool {
    use Mnemonic as M;
    let flow = matches!(i.flow_control(), FlowControl::Interrupt | FlowControl::XbeginXabortXend);
    let segments = (0..i.op_count()).any(|n| i.op_register(n).is_segment_register());
    // Thread-local memory is not restored.
    let local = matches!(i.segment_prefix(), Register::FS | Register::GS);
    flow || segments
        || local && !matches!(i.op0_kind(), iced_x86::OpKind::Register)
        || matches!(i.code(), Code::Syscall | Code::Sysenter | Code::Int1 | Code::Int3)
        || matches!(
            i.mnemonic(),
            M::Sldt
                | M::Str
                | M::Smsw
                | M::Sgdt
                | M::Sidt
                | M::Rdtsc
                | M::Rdtscp
                | M::Rdrand
                | M::Rdseed
                | M::Cpuid
                | M::Rdpmc
                | M::Rdpid
                | M::Xgetbv
                | M::Wrfsbase
                | M::Wrgsbase
                | M::Xrstor
                | M::Xrstor64
                | M::Fxrstor
                | M::Fxrstor64
                | M::Fldenv
                | M::Frstor
                | M::Fnsave
                | M::Fsave
                | M::Fnstenv
                | M::Fstenv
                | M::Fxsave
                | M::Fxsave64
                | M::Xsave
                | M::Xsave64
                | M::Xsavec
                | M::Xsavec64
                | M::Xsaveopt
                | M::Xsaveopt64
                | M::Wrpkru
                | M::Syscall
                | M::Umwait
                | M::Tpause
                | M::Monitorx
                | M::Mwaitx
                | M::Popfq
                | M::Popf
                | M::Iretq
                | M::Iretd
                | M::Iret
                | M::Enclu
                | M::Ptwrite
                | M::Rdsspq
                | M::Lwpins
                | M::Lwpval
                | M::Vzeroall
                | M::Sysexit
        )
}

/// True if a branch of the window leads back into it, which a plan refuses.
fn leads_back(displaced: &Displaced, window: Range<u64>) -> bool {
    displaced.fixups.iter().any(|f| window.contains(&f.target))
}

#[test]
fn random_sequences() {
    let usual = transect_testkit::sized(1_000, 10_000);
    let cases = std::env::var("TRANSECT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let mut sandbox = Sandbox::start(1 << 20).unwrap();
    let (mut compared, mut refused) = (0u64, 0u64);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let sequences = (prop::collection::vec(instruction(), 5), any::<u64>());
    let sandbox = std::cell::RefCell::new(&mut sandbox);
    let counts = std::cell::RefCell::new((&mut compared, &mut refused));
    let result = TestRunner::new(config).run(&sequences, |(sequence, seed)| {
        let code: Vec<u8> = sequence.iter().filter_map(|bytes| harmless(bytes)).flatten().copied().collect();
        let at = 512 << 10;
        let code = [code, vec![0x90; 20]].concat();
        let mut counts = counts.borrow_mut();
        let Ok(window) = displace(&code, at, code.len() as u64, code.len() as u64) else {
            *counts.1 += 1;
            return Ok(());
        };
        // Where a displacement of 32 bits just reaches, it may not reach from elsewhere.
        let far = |f: &transect_probe_plan::Fixup| f.target > 1 << 30;
        if leads_back(&window.displaced, at..at + window.length as u64) || window.displaced.fixups.iter().any(far) {
            return Ok(());
        }
        let mut sandbox = sandbox.borrow_mut();
        sandbox.image()[at as usize..at as usize + code.len()].copy_from_slice(&code);
        let ran = compare(&mut sandbox, at, window.length, &window.displaced, &mut Noise(seed | 1));
        let ran = ran.map_err(|d| TestCaseError::fail(format!("{} in {:02x?}", d.what, &code[..window.length])))?;
        *counts.0 += ran as u64;
        Ok(())
    });
    result.unwrap();
    eprintln!("{compared} runs compared, {refused} sequences refused");
    assert!(compared > u64::from(cases) / 2, "{compared} of {cases}");
}

/// Objects whose entries are displaced and run.
const OBJECTS: &[&str] = &[
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/bin/bash",
    "/usr/bin/git",
    "/usr/bin/python3",
    "/usr/bin/sqlite3",
    "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
];

/// Compares every `stride`th window of the object; runs compared and windows, or `None` if the object isn't there.
fn object_windows(path: &str, stride: usize) -> Option<(usize, usize)> {
    let object = Object::open(path).ok()?;
    let planned = plan(&object, &PlanOptions::default());
    let range = object.address_range();
    // Objects at fixed addresses are moved as others are: the windows don't mind.
    let base = range.start & !0xfff;
    let mut sandbox = Sandbox::start((range.end - base) as usize).unwrap();
    let ranges = object.code_ranges().into_iter().chain(object.data_ranges());
    for part in ranges {
        let bytes = object.bytes_at(part.start).unwrap_or(&[]);
        let size = bytes.len().min((part.end - part.start) as usize);
        let at = (part.start - base) as usize;
        sandbox.image()[at..at + size].copy_from_slice(&bytes[..size]);
    }
    let (mut windows, mut runs) = (0, 0);
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for site in planned.sites.iter().step_by(stride) {
        let Window::Displaced { original, displaced } = &site.window else { continue };
        // Thread-local and random values: the same each time, but for the clock.
        let mut decoder = Decoder::with_ip(64, original, site.vaddr, DecoderOptions::NONE);
        if decoder.iter().any(|i| is_moody(&i)) {
            continue;
        }
        let mut moved = displaced.clone();
        moved.resume -= base;
        moved.fixups.iter_mut().for_each(|f| f.target = f.target.wrapping_sub(base));
        let name = &planned.functions[site.function as usize].name;
        match compare(&mut sandbox, site.vaddr - base, original.len(), &moved, &mut noise) {
            Ok(ran) => runs += ran,
            Err(d) => panic!("{path}: {name} at {:x}: {} ({original:02x?} as {:02x?})", site.vaddr, d.what, moved.code),
        }
        windows += 1;
    }
    Some((windows, runs))
}

fn all_objects(stride: usize) {
    for path in OBJECTS {
        let Some((windows, runs)) = object_windows(path, stride) else {
            eprintln!("NOT RUN: {path} is not there");
            continue;
        };
        eprintln!("{path}: {windows} windows, {runs} runs equal");
        assert!(runs >= windows, "{path}: {runs} runs of {windows} windows");
    }
}

#[test]
fn entries_of_real_programs() {
    all_objects(transect_testkit::sized(72, 24));
}

#[test]
#[ignore = "takes a minute; the full set of windows"]
fn every_entry_of_real_programs() {
    all_objects(1);
}
