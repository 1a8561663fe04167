//! The results as text.

use std::fmt::Write;

use crate::Calibration;
use crate::toggle::SPLITS;
use crate::wait::WaitFailures;

/// Tables for a terminal of 80 columns.
pub fn text(c: &Calibration) -> String {
    let mut out = String::new();
    let ns = |ticks: f64| ticks / c.ticks_per_ns;
    let _ = writeln!(out, "Clock       {:.1} ticks a read, {:.4} ticks per ns", c.clock_ticks, c.ticks_per_ns);
    let _ = match c.membarrier_ticks {
        Some(ticks) => {
            writeln!(out, "membarrier  {ticks:.0} ticks ({:.1} us), one other thread running", ns(ticks) / 1e3)
        }
        None => writeln!(out, "membarrier  refused by the kernel: code can't be installed while other threads run"),
    };
    let _ = writeln!(out, "\nSwitching a site, ticks\n");
    let _ = writeln!(out, "  split at a line's end        on     off    in bulk");
    for row in &c.toggle {
        let split = match row.split {
            0 => "no".to_owned(),
            n => format!("{n} + {}", 5 - n),
        };
        let _ = writeln!(out, "  {split:<24} {:>6.1}  {:>6.1}  {:>9.1}", row.on_ticks, row.off_ticks, row.bulk_ticks);
    }
    let _ = writeln!(out, "\nPassing a probe, ticks over the call without it\n");
    let _ = writeln!(out, "  tier             at a no-op   at an entry   able to see the return");
    for row in &c.probe {
        let _ = writeln!(
            out,
            "  {:<16} {:>10.1}   {:>11.1}   {:>22.1}",
            row.tier, row.ticks, row.entry_ticks, row.paired_ticks
        );
    }
    wait_table(&mut out, c);
    out
}

fn wait_table(out: &mut String, c: &Calibration) {
    let _ = writeln!(out, "\nMixed instructions under the waiting protocol, per million toggles\n");
    let _ = writeln!(out, "                     lines in cache              second line evicted");
    let _ = writeln!(out, "  wait, ticks    1+4    2+3    3+2    4+1       1+4    2+3    3+2    4+1   no split");
    let mut waits: Vec<u64> = c.wait_curve.iter().filter_map(|row| row.wait_ticks).collect();
    waits.dedup();
    for wait in waits {
        let rows = c.wait_curve.iter().filter(|row| row.wait_ticks == Some(wait));
        line(out, &wait.to_string(), rows);
    }
    line(out, "membarrier", c.serialized.iter());
    let sum = |rows: &[WaitFailures]| {
        rows.iter().fold((0, 0), |(toggles, failures), row| (toggles + row.toggles, failures + row.failures))
    };
    let straddlers: Vec<_> = c.wait_curve.iter().filter(|row| row.split != 0).cloned().collect();
    let (toggles, failures) = sum(&straddlers);
    let (serialized, serialized_failures) = sum(&c.serialized);
    let _ = writeln!(out);
    let _ = match straddlers.iter().filter(|row| row.failures > 0).filter_map(|row| row.wait_ticks).max() {
        Some(worst) => writeln!(
            out,
            "{failures} failures in {toggles} toggles with waits, the longest such wait {worst} ticks. No length of\n\
             wait is proven safe by this: longer ones fail more rarely."
        ),
        None => writeln!(
            out,
            "No failure in {toggles} toggles with waits: this machine shows none at any wait in so short a\ntime, which \
             is no proof that there are none."
        ),
    };
    let _ =
        writeln!(out, "{serialized_failures} failures in {serialized} toggles with membarrier in place of the waits.");
    if c.cpus < 2 {
        let _ = writeln!(
            out,
            "This process may use one CPU only: no code runs while it is changed, and the table\nmeans nothing."
        );
    }
}

fn line<'a>(out: &mut String, name: &str, rows: impl Iterator<Item = &'a WaitFailures> + Clone) {
    let rate = |split: u8, cold: bool| {
        let row = rows.clone().find(|row| row.split == split && row.cold == cold);
        row.map_or("-".to_owned(), |row| match row.failures {
            0 => "0".to_owned(),
            n => format!("{:.0}", (n as f64 * 1e6 / row.toggles.max(1) as f64).max(1.0)),
        })
    };
    let _ = write!(out, "  {name:>11}");
    for cold in [false, true] {
        for &split in &SPLITS[1..] {
            let _ = write!(out, " {:>6}", rate(split, cold));
        }
        let _ = write!(out, "{}", if cold { "" } else { "   " });
    }
    let _ = writeln!(out, "   {:>8}", rate(0, true));
}
