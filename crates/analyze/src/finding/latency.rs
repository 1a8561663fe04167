//! Functions whose calls differ widely in duration, or that became slower or faster in mid-run.

use transect_profile_model::{LatencyId, LatencySlice, Profile};

use super::words::{count, percent, shell, time};
use super::{FindingKind, FindingRow};
use crate::Selection;
use crate::latency::{Distribution, Sum, measured_ns, sums};
use crate::prepared::Prepared;

/// Fewer samples than this say little about a 99th percentile: it would rest on one or two of them.
const LEAST_SAMPLES: i64 = 300;
/// 99th percentile over median from which a tail is heavy. Cache misses and interrupts alone make 10 to 20.
const TAIL_RATIO: i64 = 50;
/// Part of a function's time in its slowest hundredth of calls from which the tail is worth looking at first.
const TAIL_SHARE: f64 = 0.30;
/// Shorter durations differ by what timing itself cannot tell, ns; ratios take them as this.
const NOISE_NS: i64 = 20;
/// Share of the measured time that a finding must concern.
const LEAST_PERCENT: f64 = 1.0;
/// Median after over median before (or the other way round) that counts as a shift.
const SHIFT_RATIO: f64 = 2.0;
/// Medians that differ by less, ns, may do so by the probes of what the function calls, which are switched on now and then and add
/// some hundred ns each.
const INNER_PROBES_NS: f64 = 5_000.0;
/// Slices needed on each side of a shift, and samples in each of them.
const SHIFT_SLICES: usize = 4;
const SHIFT_SAMPLES: i64 = 3;
/// Part of the slices on each side that must lie on their side of the middle: noise and alternation are no shift.
const SHIFT_AGREEMENT: f64 = 0.9;
/// A slow function makes its callers slow: more than these would be the same news again.
const MOST: usize = 3;

pub(super) fn find(prepared: &Prepared<'_>, findings: &mut Vec<FindingRow>) {
    let profile = prepared.profile;
    // What is said here is said of time.
    let is_time = profile.meta.latency.as_ref().is_none_or(|session| session.metric.is_time());
    if profile.latency.is_empty() || !is_time {
        return;
    }
    let sums = sums(prepared, &Selection::default());
    let measured = measured_ns(profile).max(1) as f64;
    let share = |ns: f64| (ns * 100.0 / measured).min(100.0);

    let mut tails: Vec<(f64, FindingRow)> = Vec::new();
    let mut shifts: Vec<(f64, FindingRow)> = Vec::new();
    let slices = slices_of(profile);
    // Of a sum that is not known nothing is said.
    let known = |sum: &&Sum<'_>| sum.time(profile.meta.latency.as_ref()).estimate.is_some();
    for sum in sums.iter().filter(known).filter(|sum| share(sum.total) >= LEAST_PERCENT) {
        if let Some(shift) = sum.ids.iter().find_map(|&id| shift(slices.get(id as usize)?)) {
            // What the slower part takes more than the faster one would have.
            let slower = sum.total * (1.0 - 1.0 / shift.ratio().max(1.0 / shift.ratio()));
            shifts.push((share(slower), shift_row(prepared, sum, &shift, share(slower))));
        }
        let distribution = Distribution::new(&sum.histogram, sum.max);
        let (Some(p50), Some(p99)) = (distribution.quantile(0.50), distribution.quantile(0.99)) else { continue };
        let tail = distribution.time_of_slowest(0.01);
        let cost = share(sum.total * tail);
        let heavy = p99 >= p50.max(NOISE_NS).saturating_mul(TAIL_RATIO) && tail >= TAIL_SHARE;
        if distribution.samples() >= LEAST_SAMPLES && heavy && cost >= LEAST_PERCENT {
            tails.push((cost, tail_row(prepared, sum, (p50, p99), tail, cost)));
        }
    }
    for mut rows in [tails, shifts] {
        rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.finding.cmp(&b.1.finding)));
        findings.extend(rows.into_iter().take(MOST).map(|(_, row)| row));
    }
}

fn tail_row(prepared: &Prepared<'_>, sum: &Sum<'_>, (p50, p99): (i64, i64), tail: f64, cost: f64) -> FindingRow {
    FindingRow {
        finding: format!("{} is slow now and then", name(sum)),
        evidence: format!(
            "median {}, 99th percentile {} ({} times as long), maximum {}, of {} samples; the slowest hundredth of its \
             calls takes {} of its time",
            time(p50),
            time(p99),
            count(p99 / p50.max(1)),
            time(sum.max),
            count(sum.samples),
            percent(tail * 100.0),
        ),
        view: "latency".to_owned(),
        next: format!(
            "See when it is slow in the picture of the HTML page (--html FILE): --view latency {}; which callee is \
             slow with it: --view latency --sort p99",
            options(prepared, sum)
        ),
        kind: FindingKind::HeavyTail,
        percent: cost,
        ..FindingRow::default()
    }
}

fn shift_row(prepared: &Prepared<'_>, sum: &Sum<'_>, shift: &Shift, cost: f64) -> FindingRow {
    let (word, ratio) =
        if shift.after > shift.before { ("slower", shift.ratio()) } else { ("faster", 1.0 / shift.ratio()) };
    FindingRow {
        finding: format!("{} becomes {ratio:.1} times {word} in mid-run", name(sum)),
        evidence: format!(
            "median {} until {} after the start, {} from then on",
            time(shift.before.round() as i64),
            time(shift.at_ns),
            time(shift.after.round() as i64),
        ),
        view: "latency".to_owned(),
        next: format!(
            "Look for what changed then (size of the data, other work, another phase), with the picture of the HTML \
             page (--html FILE): --view latency {}",
            options(prepared, sum)
        ),
        kind: FindingKind::LatencyShift,
        percent: cost,
        ..FindingRow::default()
    }
}

/// Name without the parameter list.
fn name<'a>(sum: &Sum<'a>) -> &'a str {
    let function = sum.first.function.as_str();
    function.split_once('(').map_or(function, |(bare, _)| if bare.is_empty() { function } else { bare })
}

/// `--component … --api …`, quoted for a shell.
fn options(prepared: &Prepared<'_>, sum: &Sum<'_>) -> String {
    format!("--component {} --api {}", shell(prepared.names.get(sum.first.component)), shell(&sum.first.function))
}

/// Slices of each function, in order of time.
fn slices_of(profile: &Profile) -> Vec<Vec<&LatencySlice>> {
    let mut slices: Vec<Vec<&LatencySlice>> = vec![Vec::new(); profile.latency.len()];
    for slice in &profile.latency_slices {
        let id: LatencyId = slice.latency;
        if let Some(of) = slices.get_mut(id as usize) {
            of.push(slice);
        }
    }
    slices.iter_mut().for_each(|of| of.sort_by_key(|slice| (slice.start_ns, slice.bucket.low)));
    slices
}

/// From when on a function's median was another.
struct Shift {
    at_ns: i64,
    before: f64,
    after: f64,
}

impl Shift {
    fn ratio(&self) -> f64 {
        self.after.max(NOISE_NS as f64) / self.before.max(NOISE_NS as f64)
    }
}

/// The split of time after which medians differ most, if they differ enough and all along.
fn shift(slices: &[&LatencySlice]) -> Option<Shift> {
    let medians: Vec<(i64, f64)> = slices.chunk_by(|a, b| a.start_ns == b.start_ns).filter_map(median).collect();
    if medians.len() < 2 * SHIFT_SLICES {
        return None;
    }
    // The split of least squares on logarithms: one pass over running sums.
    let logs: Vec<f64> = medians.iter().map(|&(_, ns)| ns.max(NOISE_NS as f64).ln()).collect();
    let all: f64 = logs.iter().sum();
    let mut sum = 0.0;
    let mut best: Option<(f64, usize)> = None;
    for (at, log) in logs.iter().enumerate() {
        if at >= SHIFT_SLICES && at + SHIFT_SLICES <= logs.len() {
            let (before, after) = (at as f64, (logs.len() - at) as f64);
            let gain = (sum / before - (all - sum) / after).powi(2) * before * after;
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, at));
            }
        }
        sum += log;
    }
    let (_, at) = best?;
    let middle_of = |part: &[(i64, f64)]| {
        let mut values: Vec<f64> = part.iter().map(|&(_, ns)| ns).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let shift = Shift { at_ns: medians[at].0, before: middle_of(&medians[..at]), after: middle_of(&medians[at..]) };
    let ratio = shift.ratio();
    if ratio.max(1.0 / ratio) < SHIFT_RATIO || (shift.after - shift.before).abs() < INNER_PROBES_NS {
        return None;
    }
    let border = (shift.before.max(NOISE_NS as f64) * shift.after.max(NOISE_NS as f64)).sqrt();
    let agreeing = |part: &[(i64, f64)], above: bool| {
        part.iter().filter(|&&(_, ns)| (ns > border) == above).count() as f64 >= SHIFT_AGREEMENT * part.len() as f64
    };
    (agreeing(&medians[..at], ratio < 1.0) && agreeing(&medians[at..], ratio > 1.0)).then_some(shift)
}

/// Start and median of one slice; `None` if it has too few samples.
fn median(cells: &[&LatencySlice]) -> Option<(i64, f64)> {
    let buckets: Vec<_> = cells.iter().map(|slice| slice.bucket).collect();
    let longest = buckets.iter().map(|bucket| bucket.high).max()?;
    let distribution = Distribution::new(&buckets, longest);
    let median = distribution.quantile(0.5)?;
    (distribution.samples() >= SHIFT_SAMPLES).then_some((cells[0].start_ns, median as f64))
}
