use std::collections::BTreeMap;

use transect_profile_model::{
    Component, Latency, LatencyBucket, LatencySampling, LatencySession, LatencySlice, Loss, LossKind, Metric, Process,
    Profile, Timing,
};

use super::empty;
use super::large::Random;

const SECOND: i64 = 1_000_000_000;
/// Slices of time.
const SLICES: i64 = 120;

/// Twelve seconds of a service of two processes: functions with a heavy tail, with two modes, one that becomes slow in
/// mid-run, two of one name, one without name, one that never returns, one that is never called.
pub fn latency_service() -> Profile {
    let paths = [
        "/opt/svc/bin/service",
        "/opt/svc/lib/libcodec.so.2",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/opt/svc/lib/libvendor.so",
    ];
    let mut builder = Builder::new(&paths, 12 * SECOND);
    let [service, codec, c, vendor] = [0, 1, 2, 3];
    let main = builder.function(0, service, "main", "main", ("src/main.cc", 12));
    builder.profile.latency[main].calls_seen = 1;
    builder.profile.latency[main].calls_estimated = Some(1);
    for process in [0, 1] {
        let parse = builder.function(process, service, "parse_request", "parse_request", ("src/parse.c", 88));
        builder.sample(parse, 9, 3_300, |random, _| Some(spread(random, 1_450, 9)));
    }
    let handle = builder.function(
        0,
        service,
        "Server::handle(Request const&)",
        "_ZN6Server6handleERK7Request",
        ("src/server.cc", 204),
    );
    builder.sample(handle, 9, 116_000, |random, _| {
        Some(if random.below(40) == 0 { spread(random, 24_000_000, 6) } else { spread(random, 62_000, 5) })
    });
    let encode =
        builder.function(0, codec, "Codec::encode(Frame const&)", "_ZN5Codec6encodeERK5Frame", ("lib/codec.cc", 310));
    builder.sample(encode, 9, 22_500, |random, time| {
        Some(spread(random, if time < 7 * SECOND { 41_000 } else { 186_000 }, 4))
    });
    let quantize = builder.function(0, codec, "quantize(short*, int)", "_Z8quantizePsi", ("lib/quantize.cc", 17));
    builder.sample(quantize, 10, 22, |random, _| Some(spread(random, 37, 6)));
    let lookup = builder.function(0, service, "cache_lookup", "cache_lookup", ("src/cache.c", 40));
    builder.sample(lookup, 10, 5_100, |random, time| {
        let hit = random.below(10) < 7 + (time / SECOND % 3) as u64;
        Some(if hit { spread(random, 85, 5) } else { spread(random, 19_000, 4) })
    });
    let idle = builder.function(0, service, "log_statistics", "log_statistics", ("", 0));
    builder.sample(idle, 1, 1_000_000, |random, time| {
        (time / (SECOND / 10) % 20 == 0).then(|| spread(random, 310_000, 3))
    });
    for (address, file) in [(0x9100, "src/pool.c"), (0x9400, "src/cache.c")] {
        let reset = builder.function(0, service, "reset", "reset", (file, 9));
        builder.profile.latency[reset].address = address;
        builder.sample(reset, 2, 5_000, |random, _| Some(spread(random, 240, 4)));
    }
    let unnamed = builder.function(0, vendor, "sub_4f30", "", ("", 0));
    builder.sample(unnamed, 8, 17_500, |random, _| Some(spread(random, 5_300, 7)));
    let copy = builder.function(0, c, "memcpy", "memcpy", ("", 0));
    builder.sample(copy, 10, 17, |random, _| Some(spread(random, 14, 9)));
    builder.function(0, service, "never_called", "never_called", ("src/main.cc", 400));

    let mut profile = builder.profile();
    let refused = |place: &str, count, reason: &str| Loss {
        what: LossKind::SkippedFunctions,
        place: place.into(),
        count,
        reason: reason.into(),
    };
    profile.loss = vec![
        refused("libcodec.so.2", 14, "shorter than a jump"),
        refused("libc.so.6", 131, "a jump leads into the window"),
    ];
    profile
}

/// A profile of `functions` functions, of which one in ten is hot. The same number gives the same profile.
pub fn large_latency(functions: usize) -> Profile {
    let paths: Vec<String> = (0..30).map(|n| format!("/usr/lib/x86_64-linux-gnu/libpart{n:02}.so.{n}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut builder = Builder::new(&paths, 60 * SECOND);
    for n in 0..functions {
        let name = format!("part::Stage{:03}::step_{n}(Buffer const&, unsigned long)", n % 97);
        let id = builder.function(0, (n % paths.len()) as u32, &name, &format!("_ZN4part{n}"), ("stage.cc", n as i32));
        let typical = 12_i64 << (n * 7 % 21);
        let rare = n % 10 != 0;
        builder.sample(id, if rare { 1 } else { 10 }, 1, |random, _| {
            (!rare || random.below(12) == 0).then(|| spread(random, typical, 3 + (n as u64 % 9)))
        });
        // As many calls as make a plausible part of the run.
        let latency = &mut builder.profile.latency[id];
        let part = if rare { 4_000 } else { 10 } + n as i64 % 400;
        let calls = 60 * SECOND / part * latency.samples / latency.total.max(1);
        latency.calls_estimated = Some(calls.max(latency.calls_seen));
    }
    builder.profile()
}

/// A duration around `typical`, skewed towards longer ones.
fn spread(random: &mut Random, typical: i64, width: u64) -> i64 {
    let sum: u64 = (0..4).map(|_| random.below(100 * width)).sum();
    let skew = if random.below(20) == 0 { random.below(200 * width) } else { 0 };
    let thousandths = (1_000 + (sum + skew) as i64 - 200 * width as i64).max(300);
    (typical * thousandths / 1_000).max(1)
}

struct Builder {
    profile: Profile,
    random: Random,
    cells: BTreeMap<(u32, i64, i64, i64), i64>,
}

impl Builder {
    fn new(components: &[&str], wall_ns: i64) -> Self {
        let mut profile = empty();
        profile.components = components
            .iter()
            .enumerate()
            .map(|(id, path)| Component {
                path: (*path).into(),
                build_id: format!("{id:040x}"),
                executable: id == 0,
                synthetic: false,
                static_in: None,
            })
            .collect();
        let process =
            |pid, parent_pid| Process { pid, parent_pid, executable: components[0].into(), start_ns: 0, wall_ns };
        profile.processes = vec![process(5_000, 1), process(5_001, 5_000)];
        profile.meta.command = vec![components[0].into(), "--workers".into(), "2".into()];
        profile.meta.wall_ns = wall_ns;
        profile.meta.collectors = vec!["latency".into()];
        profile.meta.timing = Timing::Count;
        profile.meta.overhead_estimate = 0.0147;
        Self { profile, random: Random(7), cells: BTreeMap::new() }
    }

    fn function(&mut self, process: u32, component: u32, name: &str, symbol: &str, line: (&str, i32)) -> usize {
        self.profile.latency.push(Latency {
            process,
            component,
            function: name.into(),
            symbol: symbol.into(),
            address: 0x1000 + if process == 0 { self.profile.latency.len() as i64 * 64 } else { 64 },
            file: line.0.into(),
            line: line.1,
            calls_seen: 0,
            samples: 0,
            total: 0,
            total_estimated: None,
            max: 0,
            calls_estimated: Some(0),
            calls_error: Some(0),
            histogram: Vec::new(),
        });
        self.profile.latency.len() - 1
    }

    /// Samples up to `most` calls in each of the slices; the probe is on for `on` millionths of the time.
    fn sample(&mut self, id: usize, most: u64, on: i64, mut duration: impl FnMut(&mut Random, i64) -> Option<i64>) {
        let wall_ns = self.profile.meta.wall_ns;
        let width = wall_ns / SLICES;
        let latency = &mut self.profile.latency[id];
        let mut histogram: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for slice in 0..SLICES {
            for _ in 0..most {
                let Some(ns) = duration(&mut self.random, slice * width) else { continue };
                let (low, high) = bounds(ns);
                *histogram.entry((low, high)).or_default() += 1;
                *self.cells.entry((id as u32, slice * width, low, high)).or_default() += 1;
                latency.samples += 1;
                latency.total += ns;
                latency.max = latency.max.max(ns);
            }
        }
        latency.calls_seen = latency.samples;
        latency.calls_estimated = Some(latency.calls_seen * 1_000_000 / on);
        latency.calls_error = Some(latency.calls_seen * (1_000_000 - on) / on / 20);
        latency.histogram =
            histogram.into_iter().map(|((low, high), count)| LatencyBucket { low, high, count }).collect();
    }

    fn profile(self) -> Profile {
        let Self { mut profile, cells, .. } = self;
        let width = profile.meta.wall_ns / SLICES;
        profile.latency_slices = cells
            .into_iter()
            .map(|((latency, start_ns, low, high), count)| LatencySlice {
                latency,
                start_ns,
                end_ns: start_ns + width,
                bucket: LatencyBucket { low, high, count },
            })
            .collect();
        let samples: i64 = profile.latency.iter().map(|latency| latency.samples).sum();
        let seconds = profile.meta.wall_ns as f64 / SECOND as f64;
        let toggles = samples / 4;
        profile.meta.latency = Some(LatencySession {
            metric: Metric::Wall,
            sampling: LatencySampling::Budget { share: 0.02 },
            epoch_ns: 10_000_000,
            measured_ns: profile.meta.wall_ns,
            probes_installed: profile.latency.len() as i64 + 2_400,
            probes_active: profile.latency.iter().filter(|latency| latency.calls_seen > 0).count() as i64,
            sites_refused: 145,
            toggles,
            toggles_per_second: toggles as f64 / seconds,
            samples,
            samples_per_second: samples as f64 / seconds,
            toggling_share: 0.000_8,
            empty_ns: 16.7,
            hidden_ns: 0.0,
            thread_ns: 0,
            stops: 3,
            longest_stop_ns: 412_000,
            total_stop_ns: 803_000,
            abandoned: 4,
            untimed: 0,
            unread: 0,
        });
        profile
    }
}

/// The agent's buckets on a clock of one tick per nanosecond.
fn bounds(ns: i64) -> (i64, i64) {
    if ns < 8 {
        return (ns, ns + 1);
    }
    let step = 1 << (60 - ns.leading_zeros());
    (ns / step * step, ns / step * step + step)
}
