use serde::ser::{Serialize, SerializeMap, Serializer};
use transect_profile_model::{LatencyBucket, Metric};

/// What the calls of one function took, entry to return, of all processes together (or of one, with `--by process`).
///
/// Amounts are in the unit of [`LatencyRow::metric`]. Percentiles are of the samples, interpolated inside a histogram
/// bucket: they are off by less than a bucket, an eighth of the amount, or 1 where that is more. Mean and maximum are
/// exact.
///
/// As JSON the keys of amounts end in `_ns` if they are times (`mean_ns`), and do not if they are counts (`mean`).
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyRow {
    /// Demangled name.
    pub function: String,
    /// Component that holds it (display name).
    pub component: String,
    /// Calls that met the probe switched on.
    pub calls_seen: i64,
    /// Calls that were timed.
    pub samples: i64,
    /// What amounts are of.
    pub metric: Metric,
    /// Mean of the samples; `None` without samples: no call has returned while it was timed.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<i64>,
    /// 90th percentile.
    pub p90: Option<i64>,
    /// 99th percentile.
    pub p99: Option<i64>,
    /// The largest.
    pub max: Option<i64>,
    /// Estimated number of all calls, those included that came while the probe was switched off. `None` if unknown.
    pub calls_estimated: Option<i64>,
    /// The 95 % interval about it; `None` if unknown.
    pub calls_between: Option<(i64, i64)>,
    /// Estimated sum of all calls, recursive calls each for itself: calls that were not seen took what those seen about the
    /// same time took, at most the time that the threads had. `None` where only bounds are known: if it is not known how many
    /// calls there were, or if most of the sum is calls too short to be told from nothing.
    pub total: Option<i64>,
    /// The 95 % interval about it begins here; `None` if unknown.
    pub total_low: Option<i64>,
    /// It ends here; `None` if unknown.
    pub total_high: Option<i64>,
    /// Raw symbol name; empty if there is none.
    pub symbol: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: i32,
    /// Virtual address in the component.
    pub address: i64,
    /// Process id, with `--by process`.
    pub process: Option<i32>,
    /// The samples by size, for renderers; not a key of the JSON object.
    pub histogram: Vec<LatencyBucket>,
}

impl LatencyRow {
    /// What rows are ordered by: the estimated sum, or the bound that is known of it.
    pub fn ranked_total(&self) -> Option<i64> {
        self.total.or(self.total_high).or(self.total_low)
    }
}

/// Keys of mean, median, 90th and 99th percentile, maximum, total and its interval.
const TIMES: [&str; 8] =
    ["mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns", "total_ns", "total_low_ns", "total_high_ns"];
const COUNTS: [&str; 8] = ["mean", "p50", "p90", "p99", "max", "total", "total_low", "total_high"];

impl Serialize for LatencyRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_time = self.metric.is_time();
        let [mean, p50, p90, p99, max, total, low, high] = if is_time { TIMES } else { COUNTS };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("function", &self.function)?;
        map.serialize_entry("component", &self.component)?;
        map.serialize_entry("calls_seen", &self.calls_seen)?;
        map.serialize_entry("samples", &self.samples)?;
        if is_time {
            map.serialize_entry(mean, &self.mean.map(|ns| ns.round() as i64))?;
        } else {
            map.serialize_entry(mean, &self.mean.map(|count| (count * 1e3).round() / 1e3))?;
        }
        for (key, amount) in [(p50, self.p50), (p90, self.p90), (p99, self.p99), (max, self.max)] {
            map.serialize_entry(key, &amount)?;
        }
        map.serialize_entry("calls_estimated", &self.calls_estimated)?;
        map.serialize_entry(total, &self.total)?;
        map.serialize_entry("symbol", &self.symbol)?;
        map.serialize_entry("file", &self.file)?;
        map.serialize_entry("line", &self.line)?;
        map.serialize_entry("address", &self.address)?;
        map.serialize_entry("calls_low", &self.calls_between.map(|between| between.0))?;
        map.serialize_entry("calls_high", &self.calls_between.map(|between| between.1))?;
        map.serialize_entry(low, &self.total_low)?;
        map.serialize_entry(high, &self.total_high)?;
        if let Some(process) = self.process {
            map.serialize_entry("process", &process)?;
        }
        map.end()
    }
}
