//! A program that counts and times its own functions while its threads run.
//!
//!     cargo run --release -p transect-c-library --example probe_own_functions

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use transect::Error;
use transect::probe::{Action, Options, Probes};

#[inline(never)]
fn parse(text: &str) -> u64 {
    black_box(text).split(',').filter_map(|word| word.parse::<u64>().ok()).sum()
}

#[inline(never)]
fn handle(request: u64) -> u64 {
    let text = format!("{request},{},{}", request * 2, request * 3);
    black_box(parse(&text))
}

fn main() -> Result<(), Error> {
    let probes = Probes::start(&Options::default())?;
    let timed = probes.at(handle as *const ())?;
    let counted = probes.at(parse as *const ())?;
    timed.set_action(Action::Time)?;
    counted.set_action(Action::Count)?;

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut request = 0;
                while !stop.load(Ordering::Relaxed) {
                    handle(request);
                    request += 1;
                }
            });
        }
        // Both functions are being executed while they are changed.
        let result = probes.install(&[timed, counted]).and_then(|()| {
            for round in 1..=3 {
                timed.activate()?;
                counted.activate()?;
                std::thread::sleep(std::time::Duration::from_millis(50));
                timed.deactivate()?;
                counted.deactivate()?;
                println!("after round {round}: {} calls of {}", counted.calls(), counted.function()?);
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        result
    })?;

    let times = timed.times()?;
    println!(
        "{}: {} calls timed, mean {} ns, median {} ns, 99 % below {} ns, at most {} ns",
        timed.function()?,
        times.timed,
        times.mean_ns,
        times.p50_ns,
        times.p99_ns,
        times.max_ns
    );
    // Exact while nothing else runs: a hundred calls are a hundred.
    counted.reset()?;
    counted.activate()?;
    (0..100).for_each(|i| {
        handle(i);
    });
    println!("{} of 100 calls counted", counted.calls());
    probes.restore_all()
}
