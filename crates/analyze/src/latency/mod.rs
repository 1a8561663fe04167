//! Latency of functions, from sampled calls.

mod distribution;
mod heat_map;
mod row;
mod sum;

use transect_profile_model::{Metric, Profile};

pub(crate) use distribution::Distribution;
pub use heat_map::{HeatMapFunction, LatencyHeatMap, latency_heat_map};
pub use row::LatencyRow;
pub(crate) use sum::{Sum, sums};

use crate::prepared::Prepared;
use crate::{Selection, SortKey};

/// The latency view, largest estimated total first. Functions that were not called while their probe was on are left
/// out. `selection.component` and `selection.api` name component and function; `min_percent` is the share of the
/// measured time, of counts that of the largest total.
pub fn latency(profile: &Profile, selection: &Selection) -> Vec<LatencyRow> {
    of(&Prepared::new(profile), selection)
}

pub(crate) fn of(prepared: &Prepared<'_>, selection: &Selection) -> Vec<LatencyRow> {
    ranked(prepared, selection).into_iter().map(|(row, _)| row).collect()
}

/// Rows in the view's order, each with what it is the sum of.
fn ranked<'a>(prepared: &Prepared<'a>, selection: &Selection) -> Vec<(LatencyRow, Sum<'a>)> {
    let mut rows: Vec<(LatencyRow, Sum<'a>)> = sums(prepared, selection)
        .into_iter()
        .filter(|sum| sum.calls_seen > 0 || sum.samples > 0)
        .map(|sum| (row(&sum, prepared), sum))
        .collect();
    if let Some(least) = selection.min_percent {
        let whole = if metric(prepared.profile).is_time() {
            measured_ns(prepared.profile)
        } else {
            rows.iter().filter_map(|(row, _)| row.ranked_total()).max().unwrap_or(0)
        };
        rows.retain(|(row, _)| row.ranked_total().is_some_and(|total| total as f64 * 100.0 >= least * whole as f64));
    }
    let value = |row: &LatencyRow| match selection.sort.unwrap_or_default() {
        SortKey::Total | SortKey::SelfTime | SortKey::Attributed | SortKey::Wait | SortKey::Bytes => {
            row.ranked_total().map(|total| total as f64)
        }
        SortKey::Calls => Some(row.calls_estimated.unwrap_or(row.calls_seen) as f64),
        SortKey::Mean => row.mean,
        SortKey::P99 => row.p99.map(|amount| amount as f64),
        SortKey::Max => row.max.map(|amount| amount as f64),
        SortKey::Name => None,
    };
    rows.sort_by(|(a, _), (b, _)| {
        let name = |row: &LatencyRow| (row.function.clone(), row.component.clone(), row.address, row.process);
        let order = value(b).unwrap_or(-1.0).total_cmp(&value(a).unwrap_or(-1.0));
        order.then_with(|| name(a).cmp(&name(b)))
    });
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    rows
}

fn row(sum: &Sum<'_>, prepared: &Prepared<'_>) -> LatencyRow {
    let distribution = Distribution::new(&sum.histogram, sum.max);
    let sampled = |amount: i64| (sum.samples > 0).then_some(amount);
    let total = sum.time(prepared.profile.meta.latency.as_ref());
    LatencyRow {
        function: sum.first.function.clone(),
        component: prepared.names.get(sum.first.component).to_owned(),
        calls_seen: sum.calls_seen,
        samples: sum.samples,
        metric: metric(prepared.profile),
        mean: sum.mean(),
        p50: distribution.quantile(0.50),
        p90: distribution.quantile(0.90),
        p99: distribution.quantile(0.99),
        max: sampled(sum.max),
        calls_estimated: sum.calls_estimated,
        calls_between: sum
            .calls_estimated
            .zip(sum.squared_errors)
            .map(|(calls, squares)| between(calls as f64, squares.0, sum.calls_seen.max(sum.samples) as f64)),
        total: total.estimate,
        total_low: total.low,
        total_high: total.high,
        symbol: sum.first.symbol.clone(),
        file: sum.first.file.clone(),
        line: sum.first.line,
        address: sum.first.address,
        process: sum.process,
        histogram: sum.histogram.clone(),
    }
}

/// An interval about an estimate, given the square of its half width and what is known to be there.
fn between(estimate: f64, squared_error: f64, least: f64) -> (i64, i64) {
    let error = squared_error.sqrt();
    ((estimate - error).max(least).round() as i64, (estimate + error).round() as i64)
}

/// What the calls of a profile were measured in.
pub fn metric(profile: &Profile) -> Metric {
    profile.meta.latency.as_ref().map(|session| session.metric).unwrap_or_default()
}

/// What rates and shares of latencies refer to, ns.
pub(crate) fn measured_ns(profile: &Profile) -> i64 {
    profile
        .meta
        .latency
        .as_ref()
        .map(|session| session.measured_ns)
        .filter(|&ns| ns > 0)
        .unwrap_or(profile.meta.wall_ns)
}

#[cfg(test)]
mod tests {
    use transect_profile_model::Profile;

    use super::*;
    use crate::synthetic::{large_latency, latency_service};

    fn find<'a>(rows: &'a [LatencyRow], function: &str) -> &'a LatencyRow {
        rows.iter().find(|row| row.function == function).unwrap_or_else(|| panic!("no {function}"))
    }

    #[test]
    fn percentiles_ascend_and_stay_below_the_maximum() {
        for profile in [latency_service(), large_latency(300)] {
            let rows = latency(&profile, &Selection::default());
            assert!(!rows.is_empty());
            assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.total)));
            for row in rows.iter().filter(|row| row.samples > 0) {
                let [p50, p90, p99, max] = [row.p50, row.p90, row.p99, row.max].map(Option::unwrap);
                assert!(0 <= p50 && p50 <= p90 && p90 <= p99 && p99 <= max, "{row:?}");
                assert!(row.mean.unwrap() <= max as f64);
                assert_eq!(row.histogram.iter().map(|bucket| bucket.count).sum::<i64>(), row.samples);
            }
        }
    }

    #[test]
    fn time_is_estimated_for_all_calls() {
        let mut profile = latency_service();
        profile.latency = vec![profile.latency[1].clone()];
        profile.latency_slices.clear();
        profile.latency[0].calls_estimated = Some(12_345_678);
        let of = |profile: &Profile| latency(profile, &Selection::default()).remove(0);
        let row = of(&profile);
        assert_eq!(row.calls_estimated, Some(12_345_678));
        let expected = row.mean.unwrap() * 12_345_678.0;
        assert!((row.total.unwrap() as f64 / expected - 1.0).abs() < 0.01);
        profile.latency[0].calls_estimated = Some(1);
        assert_eq!(of(&profile).calls_estimated, Some(row.calls_seen), "never less than what was seen");
        profile.latency[0].calls_estimated = None;
        assert_eq!(of(&profile).calls_estimated, None);
        let bounded = of(&profile);
        let sampled = (row.mean.unwrap() * row.samples as f64).round() as i64;
        assert_eq!(
            (bounded.total, bounded.total_low, bounded.total_high),
            (None, Some(sampled), None),
            "at least that"
        );
    }

    #[test]
    fn time_of_calls_that_show_the_same_as_nothing_is_a_bound() {
        let mut profile = latency_service();
        profile.latency = vec![profile.latency[1].clone()];
        profile.latency_slices.clear();
        let session = profile.meta.latency.as_mut().unwrap();
        (session.hidden_ns, session.thread_ns) = (13.0, 2_000_000_000);
        let row = &mut profile.latency[0];
        let bucket = |low, high, count| transect_profile_model::LatencyBucket { low, high, count };
        (row.samples, row.calls_seen, row.total) = (1_000, 1_000, 8_000);
        (row.calls_estimated, row.calls_error, row.total_estimated) = (Some(100_000_000), Some(10_000_000), None);
        row.histogram = vec![bucket(7, 9, 1_000)];
        let of = |profile: &Profile| latency(profile, &Selection::default()).remove(0);
        let short = of(&profile);
        assert_eq!((short.total, short.total_low), (None, Some(0)));
        // 13 ns each, and no more than the threads had.
        assert!((1_300_000_000..1_500_000_000).contains(&short.total_high.unwrap()), "{short:?}");
        profile.meta.latency.as_mut().unwrap().thread_ns = 1_000_000_000;
        assert_eq!(of(&profile).total_high, Some(1_000_000_000));
        // Most of the time is in calls that are long enough.
        profile.meta.latency.as_mut().unwrap().thread_ns = 0;
        let row = &mut profile.latency[0];
        (row.samples, row.calls_seen, row.total) = (1_100, 1_100, 108_000);
        row.histogram.push(bucket(990, 1_010, 100));
        let mixed = of(&profile);
        assert!(mixed.total.is_some() && mixed.total_low < mixed.total && mixed.total < mixed.total_high, "{mixed:?}");
    }

    #[test]
    fn the_recorders_estimate_of_the_sum_counts() {
        let mut profile = latency_service();
        profile.latency = vec![profile.latency[1].clone()];
        profile.latency_slices.clear();
        profile.latency[0].total_estimated = Some(1_234_567);
        assert_eq!(latency(&profile, &Selection::default())[0].total, Some(1_234_567));
    }

    #[test]
    fn processes_are_added_up_or_told_apart() {
        let profile = latency_service();
        let sum = |rows: &[LatencyRow]| {
            let of: Vec<_> = rows.iter().filter(|row| row.function == "parse_request").collect();
            (of.len(), of.iter().map(|row| row.samples).sum::<i64>())
        };
        let together = sum(&latency(&profile, &Selection::default()));
        let by = Selection { by: crate::Dimensions { process: true, ..Default::default() }, ..Selection::default() };
        let apart = sum(&latency(&profile, &by));
        assert_eq!((together.0, apart.0), (1, 2));
        assert_eq!(together.1, apart.1);
        assert!(latency(&profile, &by).iter().all(|row| row.process.is_some()));
    }

    #[test]
    fn functions_of_one_name_are_rows_of_their_own() {
        let rows = latency(&latency_service(), &Selection { api: Some("reset".into()), ..Selection::default() });
        assert_eq!(rows.len(), 2);
        assert_ne!(rows[0].address, rows[1].address);
    }

    #[test]
    fn what_was_not_called_is_left_out_and_what_did_not_return_has_no_times() {
        let rows = latency(&latency_service(), &Selection::default());
        assert!(rows.iter().all(|row| row.function != "never_called"));
        let main = find(&rows, "main");
        assert_eq!((main.calls_seen, main.samples), (1, 0));
        assert_eq!((main.mean, main.p50, main.max, main.total), (None, None, None, None));
    }

    #[test]
    fn selections_narrow_and_sort() {
        let profile = latency_service();
        let rows = |selection: Selection| latency(&profile, &selection);
        let names = |rows: &[LatencyRow]| rows.iter().map(|row| row.function.clone()).collect::<Vec<_>>();
        let selection = || Selection::default();
        assert!(rows(Selection { component: Some("libcodec".into()), ..selection() }).len() >= 2);
        let encode = rows(Selection { api: Some("Codec::encode*".into()), ..selection() });
        assert_eq!(names(&encode), ["Codec::encode(Frame const&)"]);
        let slowest = rows(Selection { sort: Some(SortKey::Max), top: Some(3), ..selection() });
        assert!(slowest.is_sorted_by_key(|row| std::cmp::Reverse(row.max)) && slowest.len() == 3);
        let by_name = rows(Selection { sort: Some(SortKey::Name), ..selection() });
        assert!(names(&by_name).is_sorted());
        let heavy = rows(Selection { min_percent: Some(5.0), ..selection() });
        assert!(!heavy.is_empty() && heavy.len() < by_name.len());
    }
}
