//! Prints what toggles, batches and serialization cost on this machine, and how often the waiting protocol fails.

use std::sync::atomic::{AtomicBool, Ordering};

use transect_text_patch::measure::{Counters, SPLITS, WaitTrial, install_cost, membarrier_ticks, toggle_cost};
use transect_text_patch::word::Pacing;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("split   on  off  bulk   (ticks, net)");
    for split in 0..SPLITS {
        let cost = toggle_cost(split)?;
        println!("{:>5} {:>4.0} {:>4.0} {:>5.1}", split, cost.on_ticks, cost.off_ticks, cost.bulk_ticks);
    }
    println!("membarrier {} ticks", membarrier_ticks()?);
    for sites in [1_000, 20_000] {
        let cost = install_cost(sites)?;
        println!("{sites} sites: {:.0} ticks a site, {:.0} with checks", cost.protocol_ticks, cost.whole_ticks);
    }
    let count: u64 = std::env::var("TRANSECT_WAIT_TOGGLES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    println!("split cold   wait  toggles failures");
    for split in 1..=4 {
        for cold in [false, true] {
            for pacing in
                [Pacing::Wait(0), Pacing::Wait(500), Pacing::Wait(3000), Pacing::Wait(12000), Pacing::Serialize]
            {
                let trial = WaitTrial::new(split)?;
                let stop = AtomicBool::new(false);
                let mixed = std::thread::scope(|scope| {
                    let executor = scope.spawn(|| {
                        let mut counters = Counters::default();
                        while !stop.load(Ordering::Relaxed) {
                            trial.pass(cold, &mut counters);
                        }
                        counters.mixed
                    });
                    let toggled = trial.toggle(pacing, count);
                    stop.store(true, Ordering::Relaxed);
                    toggled.map(|()| executor.join().expect("executor"))
                })?;
                println!("{split:>5} {cold:>5} {pacing:?} {count} {mixed}");
            }
        }
    }
    Ok(())
}
