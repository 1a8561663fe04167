//! All functions of this process' libc that have room for a jump are led through copies of their first instructions,
//! while threads use them: what the patcher itself might call is among them. Then the text is as in the file again.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use transect_binary_info::Object;
use transect_probe_plan::{Displaced, PlanOptions, ProviderKind, Window as Planned, plan};
use transect_text_patch::batch::{BatchPolicy, Method, apply, examine};
use transect_text_patch::form::{JUMP, transfer};
use transect_text_patch::{WINDOW_CAPACITY, Window};

struct Library {
    path: String,
    bias: u64,
    text: std::ops::Range<u64>,
    text_offset: u64,
}

fn libc_mapping() -> Option<Library> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut bias = None;
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let Some(path) = fields.get(5).filter(|path| path.ends_with("/libc.so.6")) else { continue };
        let (start, end) = fields[0].split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        let offset = u64::from_str_radix(fields[2], 16).unwrap();
        bias.get_or_insert(start - offset);
        if fields[1].contains('x') {
            return Some(Library { path: path.to_string(), bias: bias?, text: start..end, text_offset: offset });
        }
    }
    None
}

fn near(address: u64, size: usize) -> u64 {
    for i in 1..1024u64 {
        let hint = (address & !0xFFFF) - i * (1 << 20) - size as u64;
        // SAFETY: a new mapping, where nothing is.
        let base = unsafe {
            libc::mmap(
                hint as *mut _,
                size,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if base != libc::MAP_FAILED {
            return base as u64;
        }
    }
    panic!("no memory near libc");
}

/// Copies of the displaced instructions, each with a count of its uses, and the windows that lead to them.
struct Copies {
    at: u64,
    counter: u64,
}

impl Copies {
    fn place(&mut self, vaddr: u64, bias: u64, original: &[u8], displaced: &Displaced) -> Window {
        let address = vaddr + bias;
        // lea rsp, [rsp - 128]; pushfq; inc qword [rip + counter]; popfq; lea rsp, [rsp + 128]
        let head = self.at;
        let mut code = vec![0x48, 0x8D, 0x64, 0x24, 0x80, 0x9C, 0x48, 0xFF, 0x05];
        let displacement = (self.counter as i64 - (head as i64 + code.len() as i64 + 4)) as i32;
        code.extend(displacement.to_le_bytes());
        code.extend([0x9D, 0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0]);
        let body = head + code.len() as u64;
        let mut relocated = displaced.code.clone();
        for fixup in &displaced.fixups {
            let from = body + u64::from(fixup.from);
            let value = i32::try_from((fixup.target + bias).wrapping_sub(from) as i64).unwrap();
            let at = usize::from(fixup.at);
            relocated[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        code.extend(relocated);
        if !displaced.ends {
            let from = head + code.len() as u64;
            code.extend(transfer(JUMP, from, displaced.resume + bias).unwrap());
        }
        // SAFETY: memory made for it.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), head as *mut u8, code.len()) };
        self.at += (code.len() as u64).next_multiple_of(16);
        let mut window = Window {
            address,
            length: original.len() as u8,
            old: [0; WINDOW_CAPACITY],
            new: [0x06; WINDOW_CAPACITY],
            starts: 0,
            moves: [0; WINDOW_CAPACITY],
        };
        window.old[..original.len()].copy_from_slice(original);
        window.new[..5].copy_from_slice(&transfer(JUMP, address, head).unwrap());
        for &(start, offset) in &displaced.starts {
            window.starts |= 1 << start;
            window.moves[usize::from(start)] = body + u64::from(offset);
        }
        window
    }
}

/// Something of everything: memory, strings, numbers, files, locks, time, environment, directories.
fn work(round: u64) -> u64 {
    let mut sum = 0u64;
    let mut map = HashMap::new();
    for i in 0..200u64 {
        let mut text = String::new();
        write!(text, "{:x} {:.6} {}", i * round, (i as f64).sqrt(), "x".repeat((i % 67) as usize)).unwrap();
        sum = sum.wrapping_add(text.bytes().map(u64::from).sum());
        map.insert(text, vec![i as u8; (i * 13 % 5000) as usize]);
    }
    let mut keys: Vec<_> = map.into_iter().collect();
    keys.sort();
    sum = sum.wrapping_add(keys.iter().map(|(key, value)| (key.len() * value.len()) as u64).sum());
    let folder = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/limits").unwrap();
    // SAFETY: calls of libc with buffers of ours.
    unsafe {
        let mut buffer = [0u8; 256];
        let n = libc::snprintf(
            buffer.as_mut_ptr().cast(),
            256,
            c"%d %s %5.3f %lx".as_ptr(),
            42,
            c"abc".as_ptr(),
            2.5f64,
            sum,
        );
        sum = sum.wrapping_add(libc::strlen(buffer.as_ptr().cast()) as u64).wrapping_sub(n as u64);
        sum = sum.wrapping_add(libc::strtoul(c"1234".as_ptr(), std::ptr::null_mut(), 10));
        let mut numbers: Vec<i32> = (0..300).map(|i| i * 7919 % 1009).collect();
        extern "C" fn order(a: *const libc::c_void, b: *const libc::c_void) -> i32 {
            // SAFETY: qsort passes elements.
            unsafe { *a.cast::<i32>() - *b.cast::<i32>() }
        }
        libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(order));
        assert!(numbers.is_sorted());
        let now = libc::time(std::ptr::null_mut());
        let mut broken: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&raw const now, &raw mut broken);
        assert!(broken.tm_year > 100);
        assert!(!libc::getenv(c"PATH".as_ptr()).is_null());
    }
    sum + (folder > 0) as u64 + (maps.len() > 10) as u64
}

fn file_text(library: &Library) -> Vec<u8> {
    let file = std::fs::read(&library.path).unwrap();
    let from = library.text_offset as usize;
    let length = ((library.text.end - library.text.start) as usize).min(file.len() - from);
    file[from..from + length].to_vec()
}

fn memory_text(library: &Library) -> Vec<u8> {
    // SAFETY: mapped text.
    let text = unsafe {
        std::slice::from_raw_parts(library.text.start as *const u8, (library.text.end - library.text.start) as usize)
    };
    text.to_vec()
}

fn main() {
    let cases = transect_testkit::Cases::asked_for();
    if cases.listed(["all_functions_of_libc"]) || !cases.chosen("all_functions_of_libc") {
        return;
    }
    let Some(library) = libc_mapping() else {
        println!("NOT RUN: no libc.so.6 in this process");
        return;
    };
    let begun = Instant::now();
    let object = Object::open(&library.path).expect("libc can be read");
    let options = PlanOptions { providers: vec![ProviderKind::Entry], ..PlanOptions::default() };
    let plan = plan(&object, &options);
    let base = near(library.text.start, 2 << 20);
    let mut copies = Copies { at: base + 4096, counter: base };
    let mut windows: Vec<Window> = plan
        .sites
        .iter()
        .filter_map(|site| match &site.window {
            Planned::Displaced { original, displaced } => {
                Some(copies.place(site.vaddr, library.bias, original, displaced))
            }
            _ => None,
        })
        .collect();
    println!("{} functions, {} windows, planned in {:?}", plan.functions.len(), windows.len(), begun.elapsed());
    assert!(windows.len() > 2000);
    let mut refused = Vec::new();
    examine(&mut windows, &mut |i, refusal| refused.push((i, refusal)));
    assert!(refused.is_empty(), "{refused:?}");
    // SAFETY: written by the copies from now on.
    let uses = unsafe { &*(base as *const AtomicU64) };
    let expected: Vec<u64> = (0..4).map(work).collect();
    let mut back: Vec<Window> = windows.iter().map(Window::reversed).collect();
    for (what, method, threads, births) in [
        ("alone", Method::Auto, 0, false),
        ("threads, by traps", Method::Trap, 3, false),
        ("threads, stopped", Method::Stop, 3, false),
        ("threads that make threads, stopped", Method::Stop, 2, true),
    ] {
        let stop = AtomicBool::new(false);
        let rounds = AtomicU64::new(0);
        let before = uses.load(Ordering::Relaxed);
        let policy = BatchPolicy { method, patience: 5_000_000_000, ..BatchPolicy::default() };
        std::thread::scope(|scope| {
            let (expected, stop, rounds) = (&expected, &stop, &rounds);
            for thread in 0..threads {
                scope.spawn(move || {
                    let mut round = thread;
                    while !stop.load(Ordering::Relaxed) {
                        round = (round + 1) % 4;
                        if births {
                            let sum = std::thread::spawn(move || work(round as u64)).join().unwrap();
                            assert_eq!(sum, expected[round]);
                        } else {
                            assert_eq!(work(round as u64), expected[round]);
                        }
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            if !births {
                // Making a thread blocks SIGTRAP for a moment; let them begin.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            for cycle in 0..5 {
                // SAFETY: the plan's windows, over libc's text as it is in the file.
                let report = unsafe { apply(&mut windows, &policy) }.unwrap_or_else(|refusal| panic!("{refusal}"));
                assert_eq!(report.written, windows.len());
                if cycle == 0 {
                    println!(
                        "{what}: {:?}, {} ticks a site, {} whole; signalled {}, moved {}, trapped {}",
                        report.method,
                        report.ticks / report.written as u64,
                        report.whole_ticks / report.written as u64,
                        report.signalled,
                        report.moved,
                        report.trapped
                    );
                }
                assert_eq!(work(3), expected[3]);
                std::io::stdout().flush().unwrap();
                // SAFETY: as above.
                let report = unsafe { apply(&mut back, &policy) }.unwrap_or_else(|refusal| panic!("{refusal}"));
                assert_eq!(report.written, back.len());
                assert_eq!(work(2), expected[2]);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(uses.load(Ordering::Relaxed) > before + 1000, "the copies were not executed");
        assert!(memory_text(&library).starts_with(&file_text(&library)), "text differs from the file");
        println!("  {} rounds of work, {} uses of copies", rounds.into_inner(), uses.load(Ordering::Relaxed) - before);
    }
}
