//! Follows a process by pid for a second and prints what was recorded: a first look at a machine.
use std::time::{Duration, Instant};

use transect_bpf_collect::{SchedCollector, SchedSettings, Storage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid: i32 = std::env::args().nth(1).ok_or("a pid")?.parse()?;
    let seconds: f64 = std::env::args().nth(2).map_or(Ok(1.0), |text| text.parse())?;
    let settings = SchedSettings {
        cpus: 2,
        min_parallelism: 2,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        wait_budget: 0,
        stack_depth: 100,
        sample_hz: if std::env::args().nth(3).is_none() { 999 } else { 0 },
        per_process: false,
        waits: std::env::args().nth(3).is_none(),
        stacks: std::env::args().nth(3).is_none(),
        publish_threads: false,
        launched_only: false,
        system_calls: std::env::args().nth(4).is_some(),
        kernel_halves: false,
        preemptions: false,
        event: Default::default(),
    };
    let mut storage = Storage::default();
    let counts = std::cell::RefCell::new([0u64; 8]);
    let bytes_seen = std::cell::Cell::new(0);
    let mut collector = SchedCollector::load(&mut storage, &settings, &[], |bytes| {
        counts.borrow_mut()[bytes[0] as usize & 7] += 1;
        bytes_seen.set(bytes_seen.get() + bytes.len());
    })?;
    collector.follow_process(pid)?;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        collector.consume()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{:?}", collector.audit()?);
    println!("{:?}", collector.audit()?);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let totals = collector.totals(now)?;
    let threads = collector.open_threads(now)?;
    println!("{totals:?}");
    for thread in &threads {
        println!("{thread:?}");
    }
    let sum: u64 = threads.iter().map(|thread| thread.task.criticality).sum();
    println!("sum {} busy {}", sum as f64 / 65536.0, totals[0].busy_ns);
    for total in collector.system_call_totals(now)?.calls {
        println!("{total:?}");
    }
    println!("records by type {:?}, {} bytes; {:?}", counts.borrow(), bytes_seen.get(), collector.lost());
    Ok(())
}
