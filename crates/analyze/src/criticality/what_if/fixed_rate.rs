//! Threads that wake at a fixed rate: they sleep less if they work longer, and more if they work less.

use transect_profile_model::{SchedTables, WaitKind};

use super::timeline::Timelines;

/// Fewer waits tell nothing.
const LEAST: usize = 8;
/// More tell nothing new.
const MOST: usize = 5_000;
/// Time asleep must make up for this part of a change of the time awake.
const SLOPE: f64 = -0.6;
/// Work that varies by less than this part of the period shows no slope.
const VARIATION: f64 = 0.01;
/// Work that is always the same shows by its period: a multiple of this, ns, ...
const WHOLE_PERIOD: f64 = 1e6;
/// ... while the wait is none of this.
const WHOLE_WAIT: f64 = 1e5;
/// How precisely.
const PRECISION: f64 = 3e3;

/// Per thread whether its sleeps, and its waits for what is outside of the program, end at a fixed rate.
pub(super) fn fixed_rate(tables: &SchedTables, timelines: &Timelines) -> Vec<bool> {
    timelines.single.iter().map(|rows| is_fixed(tables, rows)).collect()
}

fn is_fixed(tables: &SchedTables, rows: &[u32]) -> bool {
    // Work since the wake-up before, and the wait after it.
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for pair in rows.windows(2).take(MOST) {
        let (before, wait) = (&tables.waits[pair[0] as usize], &tables.waits[pair[1] as usize]);
        if is_timed(wait.kind) && wait.waker.is_none() && wait.holder.is_none() {
            pairs.push(((wait.begin_ns - before.end_ns) as f64, wait.ns as f64));
        }
    }
    if pairs.len() < LEAST {
        return false;
    }
    let count = pairs.len() as f64;
    let mean = |value: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
    let (work, wait) = (mean(&|p| p.0), mean(&|p| p.1));
    let variance = mean(&|p| (p.0 - work).powi(2));
    let covariance = mean(&|p| (p.0 - work) * (p.1 - wait));
    let period = work + wait;
    if variance.sqrt() > VARIATION * period {
        return covariance / variance < SLOPE;
    }
    let off = |value: f64, whole: f64| (value - (value / whole).round().max(1.0) * whole).abs();
    work > 10.0 * PRECISION && off(period, WHOLE_PERIOD) < PRECISION && off(wait, WHOLE_WAIT) > 3.0 * PRECISION
}

fn is_timed(kind: WaitKind) -> bool {
    matches!(kind, WaitKind::Sleep | WaitKind::Poll | WaitKind::Socket | WaitKind::Pipe)
}
