//! Loads the collector as `record` does beside flows, a given number of times, and prints how long each took.
use std::time::Instant;

use transect_bpf_collect::{SchedCollector, SchedSettings, Storage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let times: usize = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    let settings = SchedSettings {
        cpus: 2,
        min_parallelism: 2,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        wait_budget: 10_000_000,
        stack_depth: SchedSettings::MAX_STACK_DEPTH,
        sample_hz: 499,
        per_process: false,
        waits: true,
        stacks: true,
        publish_threads: true,
        launched_only: true,
        system_calls: true,
        kernel_halves: true,
        preemptions: true,
        event: Default::default(),
    };
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let (began, used) = (Instant::now(), cpu_time());
        let mut storage = Storage::default();
        let collector = SchedCollector::load(&mut storage, &settings, &["/bin/true".into()], |_| {})?;
        wall.push(began.elapsed().as_secs_f64() * 1000.0);
        cpu.push(cpu_time() - used);
        drop(collector);
    }
    for (name, mut values) in [("wall", wall), ("CPU", cpu)] {
        values.sort_by(f64::total_cmp);
        println!("{name}: minimum {:.1}, median {:.1} ms", values[0], values[values.len() / 2]);
    }
    Ok(())
}

/// Of this process, ms.
fn cpu_time() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
