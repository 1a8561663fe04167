//! Times reading a profile and computing every view of it: `read_and_analyze FOLDER [ROUNDS]`.

use std::path::Path;
use std::time::Instant;

use transect_analyze::{Selection, full_report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: read_and_analyze FOLDER [ROUNDS]")?;
    let rounds: usize = arguments.next().map_or(Ok(15), |rounds| rounds.parse())?;
    let mut read_ms = Vec::new();
    let mut analyze_ms = Vec::new();
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        let profile = transect_profile_store::read(Path::new(&folder))?;
        let middle = Instant::now();
        let report = full_report(&profile, &Selection::default());
        read_ms.push((middle - start).as_secs_f64() * 1e3);
        analyze_ms.push(middle.elapsed().as_secs_f64() * 1e3);
        std::hint::black_box(report);
    }
    for (what, mut ms) in [("read", read_ms), ("analyze", analyze_ms)] {
        ms.sort_by(f64::total_cmp);
        println!("{what:8} ms: min {:.1}  median {:.1}  max {:.1}", ms[0], ms[ms.len() / 2], ms[ms.len() - 1]);
    }
    Ok(())
}
