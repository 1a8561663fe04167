//! Time that the host of a virtual machine gave to others while this machine's processors had work (`steal` in
//! proc_stat(5)). The program stands still meanwhile, and no event tells so: a thread's CPU clock leaves that time out,
//! times from switch to switch have it.

use transect_profile_model::{Loss, LossKind};

/// Of the time in which the processors had work: less is not worth a word.
const LEAST_SHARE: f64 = 0.01;
/// The kernel counts in ticks of 10 ms.
const LEAST_MS: u64 = 30;

/// Sums since the machine began, ticks.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

/// The machine's counts at the start of a recording.
#[derive(Debug)]
pub struct StolenTime {
    start: Option<Ticks>,
}

impl StolenTime {
    /// Counts from now on.
    pub fn watch() -> Self {
        Self { start: now() }
    }

    /// What was taken since then, ms, as a row of the profile's losses; `None` if it is little or the kernel does not tell.
    pub fn loss(&self) -> Option<Loss> {
        let (start, end) = (self.start?, now()?);
        let stolen = end.stolen.checked_sub(start.stolen)?;
        let work = end.busy.checked_sub(start.busy)? + stolen;
        row(stolen * 1000 / rustix::param::clock_ticks_per_second(), stolen as f64 / work as f64)
    }
}

fn row(stolen_ms: u64, share: f64) -> Option<Loss> {
    (stolen_ms >= LEAST_MS && share >= LEAST_SHARE).then(|| Loss {
        what: LossKind::StolenTime,
        place: "all processors".to_owned(),
        count: stolen_ms as i64,
        reason: format!(
            "the host gave them to others for {:.1} % of the time in which they had work: everything took longer, and \
             times on a processor have it",
            share * 100.0
        ),
    })
}

fn now() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// `cpu user nice system idle iowait irq softirq steal …`; a guest's own time is in `user` and `nice`.
fn parse(stat: &str) -> Option<Ticks> {
    let ticks: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, stolen, ..] = ticks[..] else { return None };
    Some(Ticks { busy: user + nice + system + irq + softirq, stolen })
}

#[cfg(test)]
mod tests {
    use super::{parse, row};

    #[test]
    fn the_kernels_line_is_read() {
        let ticks = parse("cpu  100 20 30 4000 500 6 7 80 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n").unwrap();
        assert_eq!((ticks.busy, ticks.stolen), (163, 80));
        assert!(parse("cpu  1 2 3 4\n").is_none() && parse("").is_none() && parse("intr 1 2\n").is_none());
    }

    #[test]
    fn little_is_not_told() {
        assert_eq!(row(1000, 0.009), None);
        assert_eq!(row(20, 0.5), None);
        let told = row(1230, 0.184).unwrap();
        assert_eq!(told.count, 1230);
        assert!(told.reason.contains("18.4 %"), "{}", told.reason);
    }
}
