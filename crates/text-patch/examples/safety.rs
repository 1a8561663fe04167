//! Toggles sites of every split while threads execute them, patches words at every place of a line, and counts mixed
//! instructions: there must be none.
//!
//!     TRANSECT_TOGGLES=1000000000 cargo run --release -p transect-text-patch --example safety
//!
//! Half of the time the lines are hot, half of the time cold (taken out of the caches now and then). Exits with 1 on a
//! mixed instruction; some mixtures kill the process (ud2, int3).

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use transect_text_patch::measure::{Counters, Field, SPLITS};
use transect_text_patch::page;
use transect_text_patch::word::{WordPatch, patch};
use transect_text_patch::writable::Access;

struct Outcome {
    toggles: u64,
    passes: u64,
    on: u64,
    mixed: u64,
    seconds: f64,
}

fn run(field: &Field, toggles: u64, executors: usize, cold: bool) -> Outcome {
    let stop = AtomicBool::new(false);
    let passes = AtomicU64::new(0);
    let (on, mixed) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let done = std::thread::scope(|scope| {
        for i in 0..executors {
            let (stop, passes, on, mixed) = (&stop, &passes, &on, &mixed);
            scope.spawn(move || {
                let mut counters = Counters::default();
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    field.pass(&mut counters);
                    count += 1;
                    if cold {
                        let sites = field.sites();
                        field.flush(&sites[(count as usize * 7 + i) % sites.len()]);
                    }
                }
                passes.fetch_add(count, Ordering::Relaxed);
                on.fetch_add(counters.on, Ordering::Relaxed);
                mixed.fetch_add(counters.mixed, Ordering::Relaxed);
            });
        }
        let sites = field.sites();
        let (mut done, mut round) = (0u64, 0usize);
        while done < toggles {
            for (i, site) in sites.iter().enumerate() {
                if cold && (i + round) % 16 == 0 {
                    field.flush(site);
                }
                // SAFETY: the field's sites.
                unsafe { site.activate_call() }.expect("activate");
            }
            for (i, site) in sites.iter().enumerate() {
                if cold && (i + round) % 16 == 8 {
                    field.flush(site);
                }
                // SAFETY: as above.
                unsafe { site.deactivate_call() }.expect("deactivate");
            }
            done += 2 * sites.len() as u64;
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
        done
    });
    Outcome {
        toggles: done,
        passes: passes.into_inner(),
        on: on.into_inner(),
        mixed: mixed.into_inner(),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

const VALUES: [u32; 2] = [0x1111_1111, 0x2222_2222];

/// `mov eax, value`.
fn load(value: u32) -> [u8; 8] {
    let v = value.to_le_bytes();
    [0xB8, v[0], v[1], v[2], v[3], 0, 0, 0]
}

/// Patches all bytes of an operand at each place of a line at which one store does it, and some across lines, while
/// threads look at what they get.
fn words(patches: u64, executors: usize, cold: bool) -> Outcome {
    const STRIDE: usize = 320;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: a new mapping, filled with functions that return a value, before anybody calls them.
    let (copy, sites) = unsafe {
        let base = libc::mmap(std::ptr::null_mut(), 1 << 16, protection, flags, -1, 0) as usize;
        assert_ne!(base, libc::MAP_FAILED as usize, "mmap");
        let put = |at: usize| {
            std::ptr::copy_nonoverlapping(load(VALUES[0]).as_ptr(), at as *mut u8, 5);
            ((at + 5) as *mut u8).write(0xC3);
            at as u64
        };
        let all: Vec<u64> = (0..64).map(|i| put(base + 4096 + i * STRIDE + i)).collect();
        (put(base), all)
    };
    let stop = AtomicBool::new(false);
    let (passes, on, mixed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let flush = |site: u64| {
        // SAFETY: mapped for good.
        unsafe { transect_text_patch::arch::flush_line(site) };
    };
    let done = std::thread::scope(|scope| {
        for i in 0..executors {
            let (stop, passes, on, mixed, sites) = (&stop, &passes, &on, &mixed, &sites);
            scope.spawn(move || {
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    for &site in sites {
                        // SAFETY: a function without arguments.
                        let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(site) };
                        let value = function();
                        on.fetch_add(u64::from(value == VALUES[1]), Ordering::Relaxed);
                        mixed.fetch_add(u64::from(!VALUES.contains(&value)), Ordering::Relaxed);
                    }
                    count += 1;
                    if cold {
                        flush(sites[(count as usize * 7 + i) % sites.len()]);
                    }
                }
                passes.fetch_add(count, Ordering::Relaxed);
            });
        }
        let (mut done, mut round) = (0, 0usize);
        while done < patches {
            let (old, new) = (VALUES[round % 2], VALUES[1 - round % 2]);
            for (i, &site) in sites.iter().enumerate() {
                if cold && (i + round / 2) % 16 == 0 {
                    flush(site);
                }
                // Across lines it takes two serializations: now and then.
                if i >= 60 && round / 2 % 64 != 0 {
                    continue;
                }
                let made = page::on_prepared(site, 5, Access::Auto, |alias| {
                    let one =
                        WordPatch { address: site, alias, length: 5, old: load(old), new: load(new), moved: copy };
                    // SAFETY: one instruction of our own; the copy is in one of its forms.
                    unsafe { patch(&one) }
                });
                assert_eq!(made, Ok(true));
                done += 1;
            }
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
        done
    });
    Outcome {
        toggles: done,
        passes: passes.into_inner(),
        on: on.into_inner(),
        mixed: mixed.into_inner(),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

/// Runs the trial; ends the process.
pub fn main() {
    let toggles: u64 = std::env::var("TRANSECT_TOGGLES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000_000);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut failed = 0;
    let mut total = 0;
    println!(
        "{:>8} {:>6} {:>12} {:>14} {:>14} {:>6} {:>8}",
        "alias", "lines", "toggles", "sites passed", "of them on", "mixed", "seconds"
    );
    for two_mappings in [false, true] {
        let field = match Field::new(0..SPLITS, 64, two_mappings) {
            Ok(field) => field,
            Err(refusal) => {
                println!("NOT RUN: {refusal}");
                continue;
            }
        };
        for cold in [false, true] {
            let share = if cold { toggles / 8 } else { toggles * 3 / 8 };
            let outcome = run(&field, share, (cores - 1).max(1), cold);
            total += outcome.toggles;
            failed += outcome.mixed;
            println!(
                "{:>8} {:>6} {:>12} {:>14} {:>14} {:>6} {:>8.1}",
                if two_mappings { "two" } else { "in place" },
                if cold { "cold" } else { "hot" },
                outcome.toggles,
                outcome.passes * field.sites().len() as u64,
                outcome.on,
                outcome.mixed,
                outcome.seconds
            );
        }
    }
    for cold in [false, true] {
        let share = if cold { toggles / 16 } else { toggles / 4 };
        let outcome = words(share, (cores - 1).max(1), cold);
        total += outcome.toggles;
        failed += outcome.mixed;
        println!(
            "{:>8} {:>6} {:>12} {:>14} {:>14} {:>6} {:>8.1}",
            "words",
            if cold { "cold" } else { "hot" },
            outcome.toggles,
            outcome.passes * 64,
            outcome.on,
            outcome.mixed,
            outcome.seconds
        );
    }
    println!("{failed} mixed instructions in {total} toggles and patches");
    std::process::exit(i32::from(failed > 0));
}
