//! Toggles sites of every split while threads execute them, and counts mixed instructions: there must be none.
//!
//!     TRANSECT_TOGGLES=1000000000 cargo run --release -p transect-text-patch --example safety
//!
//! Half of the time the lines are hot, half of the time cold (taken out of the caches now and then). Exits with 1 on a
//! mixed instruction; some mixtures kill the process (ud2, int3).

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use transect_text_patch::measure::{Counters, Field, SPLITS};

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
    println!("{failed} mixed instructions in {total} toggles");
    std::process::exit(i32::from(failed > 0));
}
