//! Time without a CPU that other programs had. The timer meets threads on a CPU alone, so that a piece's samples say what it
//! computes; but who waits for a disk again and again queues for a CPU after each wait, and that time goes with the wait.

use rustc_hash::FxHashMap;
use transect_profile_model::TaskId;

use super::super::Source;
use super::trace::Trace;

/// Samples of a thread below which nothing is said of its shares.
const LEAST: f64 = 10.0;
/// Halvings until a share is met to 1e-6.
const STEPS: usize = 20;

/// Weights of a thread's samples: by share, and in the end all.
type Sums = FxHashMap<TaskId, Vec<f64>>;

/// Raises the shares (`width` of each piece) of candidates that wait to their part of the time for which threads were active, by
/// as much of the queueing as other programs caused. `bits`: which shares a stack counts for.
pub(super) fn level<I: Iterator<Item = usize>>(
    source: &Source<'_>,
    trace: &Trace,
    (shares, width): (&mut [f32], usize),
    waits: &[bool],
    bits: impl Fn(u32) -> I,
) {
    if source.contention.of_queue <= 0.0 {
        return;
    }
    let tables = source.tables;
    let add = |sums: &mut Sums, task: TaskId, stack: u32, weight: f64| {
        let sums = sums.entry(task).or_insert_with(|| vec![0.0; width + 1]);
        bits(stack).for_each(|bit| sums[bit] += weight);
        sums[width] += weight;
    };
    let mut active = Sums::default();
    for sample in tables.samples.iter().filter(|sample| sample.active_ns > 0) {
        add(&mut active, sample.task, sample.stack, sample.active_ns as f64);
    }
    let (mut on_cpu, mut here) = (Sums::default(), Sums::default());
    let mut met: FxHashMap<TaskId, f64> = FxHashMap::default();
    for moment in &tables.moments {
        let weight = moment.period_ns as f64;
        add(&mut on_cpu, moment.task, moment.stack, weight);
        if (trace.start_ns..trace.end_ns).contains(&moment.time_ns) {
            add(&mut here, moment.task, moment.stack, weight);
            *met.entry(moment.task).or_default() += 1.0;
        }
    }
    let mut first = 0;
    while first < trace.pieces.len() {
        let task = trace.pieces[first].task;
        let count = trace.pieces[first..].iter().take_while(|piece| piece.task == task).count();
        let pieces = first..first + count;
        first += count;
        let known = met.get(&task).copied().unwrap_or(0.0);
        let (Some(active), Some(on_cpu), Some(here)) = (active.get(&task), on_cpu.get(&task), here.get(&task)) else {
            continue;
        };
        if known < LEAST {
            continue;
        }
        for code in (0..width).filter(|&code| waits.get(code) == Some(&true)) {
            let share = |sums: &[f64]| (sums[code] / sums[width].max(1.0)).clamp(0.5 / known, 1.0 - 0.5 / known);
            let wanted = of_odds(odds(share(here)) * odds(share(active)) / odds(share(on_cpu)));
            if wanted <= share(here) {
                continue;
            }
            let wanted = share(here) + (wanted - share(here)) * source.contention.of_queue;
            let works: Vec<f64> = pieces.clone().map(|piece| trace.pieces[piece].work()).collect();
            let of = |piece: usize| f64::from(shares[piece * width + code]);
            let parts: Vec<(f64, f64)> =
                works.iter().zip(pieces.clone()).map(|(&work, piece)| (work, of(piece))).collect();
            let factor = factor(&parts, wanted);
            for (piece, (_, share)) in pieces.clone().zip(parts) {
                shares[piece * width + code] = scaled(share, factor) as f32;
            }
        }
    }
}

fn odds(share: f64) -> f64 {
    share / (1.0 - share)
}

fn of_odds(odds: f64) -> f64 {
    odds / (1.0 + odds)
}

/// The share whose odds are `factor` times as large.
fn scaled(share: f64, factor: f64) -> f64 {
    factor * share / (factor * share + 1.0 - share)
}

/// The factor on the odds of all shares (work, share) that makes them the part `wanted` of all work.
fn factor(parts: &[(f64, f64)], wanted: f64) -> f64 {
    let all: f64 = parts.iter().map(|(work, _)| work).sum();
    let part = |factor: f64| parts.iter().map(|&(work, share)| work * scaled(share, factor)).sum::<f64>();
    let (mut low, mut high) = (-10.0_f64, 10.0_f64);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if part(middle.exp()) < wanted * all { low = middle } else { high = middle }
    }
    f64::midpoint(low, high).exp()
}

#[cfg(test)]
mod tests {
    use super::{factor, scaled};

    #[test]
    fn shares_add_up_to_the_part_wanted() {
        let parts = [(100.0, 0.1), (300.0, 0.5), (50.0, 0.9)];
        for wanted in [0.02, 0.3, 0.97] {
            let factor = factor(&parts, wanted);
            let part: f64 = parts.iter().map(|&(work, share)| work * scaled(share, factor)).sum();
            assert!((part / 450.0 - wanted).abs() < 1e-4, "{part} {wanted}");
        }
        assert!((factor(&[(10.0, 0.25)], 0.25) - 1.0).abs() < 1e-3);
    }
}
