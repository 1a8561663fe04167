//! Functions that a process spends its CPU time in, by a short sample: a timer of the kernel's notes where each
//! thread stands, about once per millisecond that it runs.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, Instant};

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use transect_attach::{Mapping, Target};

use crate::RecordError;

/// CPU time between two samples of a thread, ns; not a whole millisecond, so as not to keep step with timers.
const PERIOD_NS: u64 = 1_003_000;
/// How often samples are fetched and new threads looked for.
const ROUND: Duration = Duration::from_millis(50);
/// Bytes of a thread's buffer: 256 samples, of which a round brings 50. Small, for memory of this kind is rationed.
const BUFFER: usize = 4096;
/// Threads watched at most: a descriptor and a buffer each.
const MOST_THREADS: usize = 256;
/// Part of all samples from which a function counts as hot.
const HOT_PART: u64 = 500;
/// Samples that a hot function has at least: one may be chance.
const LEAST: u64 = 2;

/// Device and inode of a mapped file, as [`crate::probe_session::LoadedObject::identity`] has them.
type Identity = ((u32, u32), u64);

/// Where the samples fell.
#[derive(Debug, Clone, Default)]
pub struct Hot {
    /// Samples by file and offset in the file.
    by_file: HashMap<Identity, BTreeMap<u64, u64>>,
    samples: u64,
}

impl Hot {
    /// Whether the function at `offset` of a file, `size` bytes long, has its part of the samples.
    pub fn contains(&self, file: Identity, offset: u64, size: u64) -> bool {
        let Some(offsets) = self.by_file.get(&file) else { return false };
        let samples: u64 = offsets.range(offset..offset.saturating_add(size.max(1))).map(|(_, count)| count).sum();
        samples >= LEAST.max(self.samples / HOT_PART)
    }

    /// Adds those of another process.
    pub fn add_all(&mut self, other: Hot) {
        self.samples += other.samples;
        for (file, offsets) in other.by_file {
            let known = self.by_file.entry(file).or_default();
            offsets.into_iter().for_each(|(offset, count)| *known.entry(offset).or_default() += count);
        }
    }

    /// Samples taken.
    #[cfg(test)]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds `count` samples at an address; `mappings` are in order.
    fn add(&mut self, address: u64, count: u64, mappings: &[Mapping]) {
        self.samples += count;
        let after = mappings.partition_point(|mapping| mapping.start <= address);
        if let Some(mapping) = mappings[..after].last().filter(|m| address < m.end && m.inode != 0) {
            let offset = address - mapping.start + mapping.offset;
            *self.by_file.entry((mapping.device, mapping.inode)).or_default().entry(offset).or_default() += count;
        }
    }
}

/// Samples all threads of a process for `time`, or until it ends.
///
/// # Errors
/// [`RecordError::SamplingDenied`] if the kernel does not let us.
pub fn sample(target: &Target, time: Duration) -> Result<Hot, RecordError> {
    let pid = target.pid();
    let mut samplers: HashMap<i32, Option<Sampler>> = HashMap::new();
    let mut addresses: HashMap<u64, u64> = HashMap::new();
    let end = Instant::now() + time;
    let mut refused = None;
    loop {
        for tid in threads(pid) {
            if samplers.len() < MOST_THREADS && !samplers.contains_key(&tid) {
                // A thread that can't be watched (it has ended, memory is used up) is not tried again.
                samplers.insert(tid, watch(tid).map_err(|error| refused = Some(error)).ok());
            }
        }
        let now = Instant::now();
        let over = now >= end || !target.is_alive();
        if !over {
            std::thread::sleep(ROUND.min(end - now));
        }
        for sampler in samplers.values_mut().flatten() {
            while let Some(record) = sampler.next_record() {
                if let Ok(perf_event::data::Record::Sample(sample)) = record.parse_record()
                    && let Some(address) = sample.ip()
                {
                    *addresses.entry(address).or_default() += 1;
                }
            }
        }
        if over {
            break;
        }
    }
    if let (Some(source), true) = (refused, samplers.values().all(Option::is_none)) {
        return Err(RecordError::SamplingDenied { pid, paranoid: paranoid(), source });
    }
    let mut mappings = target.mappings()?;
    mappings.sort_by_key(|mapping| mapping.start);
    let mut hot = Hot::default();
    for (address, count) in addresses {
        hot.add(address, count, &mappings);
    }
    Ok(hot)
}

fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The CPU clock of one thread, user code only: that needs no more than the right to trace it.
fn watch(tid: i32) -> io::Result<Sampler> {
    let mut sampler = Builder::new(Software::CPU_CLOCK)
        .observe_pid(tid)
        .any_cpu()
        .sample_period(PERIOD_NS)
        .sample(SampleFlag::IP)
        .exclude_kernel(true)
        .exclude_hv(true)
        .build()?
        .sampled(BUFFER)?;
    sampler.enable()?;
    Ok(sampler)
}

/// `kernel.perf_event_paranoid`, for messages.
fn paranoid() -> String {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .map_or_else(|_| "not readable".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Identity = ((8, 1), 42);

    fn hot(samples: &[(u64, u64)]) -> Hot {
        let mut hot = Hot::default();
        for &(offset, count) in samples {
            *hot.by_file.entry(FILE).or_default().entry(offset).or_default() += count;
            hot.samples += count;
        }
        hot
    }

    #[test]
    fn a_function_is_hot_from_two_samples_and_a_five_hundredth_on() {
        let hot = hot(&[(0x1000, 3), (0x1010, 1), (0x2000, 1), (0x3000, 2_000)]);
        assert!(hot.contains(FILE, 0x1000, 0x20), "4 of 2,005");
        assert!(!hot.contains(FILE, 0x1010, 0x20) && !hot.contains(FILE, 0x2000, 0x100), "one is chance");
        assert!(!hot.contains(FILE, 0xff0, 0x10), "the end is not inside");
        assert!(hot.contains(FILE, 0x3000, 0) && !hot.contains(((8, 1), 43), 0x3000, 16));
    }

    /// A child that spins in one function, and a sleeper: what is hot lies in the spinner's text alone.
    #[test]
    fn a_spinning_process_is_hot_where_it_spins_needs_perf_events() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let found = Target::open(child.id() as i32).map_err(RecordError::from).and_then(|target| {
            // On a busy machine it gets little CPU time: as long as it takes.
            let mut hot = Hot::default();
            for round in 0..6 {
                hot = sample(&target, Duration::from_millis(400 << round))?;
                if hot.samples() > 20 {
                    break;
                }
            }
            Ok((hot, target.mappings()))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        match found {
            Ok((hot, mappings)) => {
                assert!(hot.samples() > 20, "{}", hot.samples());
                let shell: u64 = mappings
                    .unwrap()
                    .iter()
                    .filter(|m| {
                        m.executable && m.path.ends_with(std::fs::canonicalize("/bin/sh").unwrap().file_name().unwrap())
                    })
                    .filter_map(|m| hot.by_file.get(&(m.device, m.inode)))
                    .flat_map(BTreeMap::values)
                    .sum();
                assert!(shell * 2 > hot.samples(), "{shell} of {}", hot.samples());
            }
            Err(error) => eprintln!("NOT RUN: {error}"),
        }
    }
}
