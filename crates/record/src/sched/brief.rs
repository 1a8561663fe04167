//! Brief waits: where threads block too often for a record each, a random sample of the short waits is recorded; the others
//! are summed by thread. The sample says what they were for, in proportion.

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::{sched_brief, sched_wait};

use super::call_stack::NO_STACK;
use super::cause::UNKNOWN_CAUSE;
use super::timeline::{MergeKey, RawWait, RawWaits};

/// More different waits don't stand for others: some 5 MB.
const MAX_SHARES: usize = 50_000;
/// With fewer chosen waits a thread's are taken to be divided like those of all threads at the places where it waits, too: of one or two
/// its own would be all that it did.
const ENOUGH: f64 = 16.0;

/// What a thread's waits that were left out amount to, exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    begin: u64,
    end: u64,
    count: u64,
    ns: u64,
    idle_ns: u64,
}

/// How many that were left out waits of one kind stand for: estimates.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// Waits that were chosen, of which the rest is.
    chosen: f64,
    count: f64,
    ns: f64,
    holder_gain_ns: f64,
    waker_gain_ns: f64,
}

/// Stack and cause of a wait, whosever it was.
type Spot = (u32, u32);

/// All brief waits.
#[derive(Debug, Clone, Default)]
pub struct BriefWaits {
    sums: HashMap<u32, Sums>,
    shares: HashMap<MergeKey, Share>,
    /// How often a thread was told to wait so, chosen or not.
    met: HashMap<MergeKey, f64>,
    /// Waits that were summed up.
    pub count: u64,
}

impl BriefWaits {
    /// Takes in sums of a thread.
    pub fn add(&mut self, brief: &sched_brief) {
        let sums = self.sums.entry(brief.task).or_default();
        sums.begin = if sums.count == 0 { brief.begin } else { sums.begin.min(brief.begin) };
        sums.end = sums.end.max(brief.end);
        sums.count += brief.count;
        sums.ns += brief.ns;
        sums.idle_ns += brief.idle;
        self.count += brief.count;
    }

    /// A wait that was told: with `chance` (of 2^32) it stands for others.
    pub fn meet(&mut self, record: &sched_wait, wait: &RawWait) {
        let length = wait.end - wait.begin;
        let key = wait.key();
        if self.met.len() < MAX_SHARES && wait.stack != NO_STACK {
            *self.met.entry(key).or_default() += 1.0;
        }
        if record.chance == 0 {
            return;
        }
        if self.shares.len() >= MAX_SHARES && !self.shares.contains_key(&key) {
            return;
        }
        // Chosen with this chance, it stands for itself and so many more.
        let others = 4_294_967_296.0 / f64::from(record.chance) - 1.0;
        let share = self.shares.entry(key).or_default();
        share.chosen += 1.0;
        share.count += others;
        share.ns += others * length as f64;
        share.holder_gain_ns += others * wait.holder_gain_ns as f64;
        share.waker_gain_ns += others * wait.waker_gain_ns as f64;
    }

    /// What all threads' chosen waits stand for, by place.
    fn by_spot(&self) -> HashMap<Spot, Share> {
        let mut spots: HashMap<Spot, Share> = HashMap::default();
        for (key, share) in &self.shares {
            let sum = spots.entry(spot(key)).or_default();
            sum.count += share.count;
            sum.ns += share.ns;
        }
        spots
    }

    /// Adds all to `waits`: each thread's sums exactly, divided in proportion to what its chosen waits stand for.
    pub fn divide_into(self, waits: &mut RawWaits) {
        let spots = self.by_spot();
        let mut shares: Vec<(MergeKey, Share)> = self.shares.into_iter().collect();
        shares.sort_unstable_by_key(|(key, _)| *key);
        let mut met: Vec<(MergeKey, f64)> = self.met.into_iter().collect();
        met.sort_unstable_by_key(|(key, _)| *key);
        for (task, sums) in self.sums {
            let first = shares.partition_point(|(key, _)| key[0] < task);
            let own = shares[first..].iter().take_while(|(key, _)| key[0] == task);
            let first = met.partition_point(|(key, _)| key[0] < task);
            let length = met[first..].partition_point(|(key, _)| key[0] == task);
            let all = like_all(&met[first..first + length], &spots);
            let own = blended(own.copied().collect(), all, sums.count as f64);
            let unknown = RawWait {
                task,
                stack: NO_STACK,
                cause: UNKNOWN_CAUSE,
                holder: 0,
                holder_stack: NO_STACK,
                waker: 0,
                waker_stack: NO_STACK,
                begin: sums.begin,
                end: sums.end,
                idle_ns: 0,
                holder_gain_ns: 0,
                waker_gain_ns: 0,
            };
            let (all_count, all_ns) =
                own.iter().fold((0.0, 0.0), |all, (_, share)| (all.0 + share.count, all.1 + share.ns));
            if all_count <= 0.0 || all_ns <= 0.0 {
                waits.add_sum(RawWait { idle_ns: sums.idle_ns, ..unknown }, sums.count, sums.ns);
                continue;
            }
            // Whole numbers that add up: each row gets what the rows up to it should have, less what they got.
            let (mut count_so_far, mut ns_so_far) = (0.0, 0.0);
            let mut given = Sums::default();
            for (key, share) in &own {
                count_so_far += share.count;
                ns_so_far += share.ns;
                let part = |whole: u64, ratio: f64, given: u64| {
                    ((whole as f64 * ratio.min(1.0)).round() as u64).min(whole).saturating_sub(given)
                };
                let count = part(sums.count, count_so_far / all_count, given.count);
                let ns = part(sums.ns, ns_so_far / all_ns, given.ns);
                let idle_ns = part(sums.idle_ns, ns_so_far / all_ns, given.idle_ns);
                given.count += count;
                given.ns += ns;
                given.idle_ns += idle_ns;
                let scaled = |gain_ns: f64| (gain_ns * (sums.ns as f64 / all_ns)) as u64;
                if count > 0 || ns > 0 {
                    let sum = RawWait {
                        idle_ns,
                        holder_gain_ns: scaled(share.holder_gain_ns),
                        waker_gain_ns: scaled(share.waker_gain_ns),
                        ..RawWait::with_key(key, &unknown)
                    };
                    waits.add_sum(sum, count, ns);
                }
            }
            let (count, ns, idle_ns) = (sums.count - given.count, sums.ns - given.ns, sums.idle_ns - given.idle_ns);
            if count > 0 || ns > 0 || idle_ns > 0 {
                waits.add_sum(RawWait { idle_ns, ..unknown }, count, ns);
            }
        }
    }
}

fn spot([_, stack, cause, ..]: &MergeKey) -> Spot {
    (*stack, *cause)
}

/// The places of all threads where this one waits, each divided as its waits there that were told are among holders and wakers.
fn like_all(met: &[(MergeKey, f64)], spots: &HashMap<Spot, Share>) -> Vec<(MergeKey, Share)> {
    let mut told: HashMap<Spot, f64> = HashMap::default();
    for (key, count) in met {
        *told.entry(spot(key)).or_default() += count;
    }
    let part = |(key, count): &(MergeKey, f64)| {
        let (share, part) = (spots.get(&spot(key))?, count / told[&spot(key)]);
        Some((*key, Share { count: share.count * part, ns: share.ns * part, ..Share::default() }))
    };
    met.iter().filter_map(part).collect()
}

/// A thread's own shares, with those of `all` threads in their stead as far as its own are few.
fn blended(own: Vec<(MergeKey, Share)>, all: Vec<(MergeKey, Share)>, count: f64) -> Vec<(MergeKey, Share)> {
    let sum =
        |shares: &[(MergeKey, Share)], of: fn(&Share) -> f64| shares.iter().map(|(_, share)| of(share)).sum::<f64>();
    let known = (sum(&own, |share| share.chosen) / ENOUGH).min(1.0);
    let (own_count, all_count) = (sum(&own, |share| share.count), sum(&all, |share| share.count));
    if known >= 1.0 || all_count <= 0.0 {
        return own;
    }
    let mut sums: HashMap<MergeKey, Share> = HashMap::default();
    for (shares, part) in [(own, known / own_count.max(1.0)), (all, (1.0 - known) / all_count)] {
        for (key, share) in shares {
            let sum = sums.entry(key).or_default();
            sum.count += share.count * part * count;
            sum.ns += share.ns * part * count;
            sum.holder_gain_ns += share.holder_gain_ns * part * count;
            sum.waker_gain_ns += share.waker_gain_ns * part * count;
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(key, _)| *key);
    sums
}

#[cfg(test)]
mod tests {
    use super::super::timeline::WaitSum;
    use super::*;

    fn wait(task: u32, cause: u32, begin: u64, end: u64) -> RawWait {
        let (stack, holder, holder_stack, waker, waker_stack) = (cause * 3, 1, 2, 3, 4);
        RawWait {
            task,
            stack,
            cause,
            holder,
            holder_stack,
            waker,
            waker_stack,
            begin,
            end,
            idle_ns: 1,
            holder_gain_ns: 10,
            waker_gain_ns: 20,
        }
    }

    fn rows(brief: BriefWaits) -> Vec<WaitSum> {
        let folder = tempfile::tempdir().unwrap();
        let mut waits = RawWaits::new(folder.path()).unwrap();
        brief.divide_into(&mut waits);
        waits.sorted().map(|row| row.unwrap().0).collect()
    }

    #[test]
    fn sums_are_divided_as_the_chosen_ones_are_and_stay_exact() {
        let mut brief = BriefWaits::default();
        for (begin, count, ns) in [(1_000, 500, 7_777_777), (9_000, 501, 2_222_224)] {
            brief.add(&sched_brief { task: 7, begin, end: begin + 90, count, ns, idle: 1_001, ..Default::default() });
        }
        let quarter = sched_wait { chance: 1 << 30, ..Default::default() };
        for _ in 0..30 {
            brief.meet(&quarter, &wait(7, 1, 0, 1_000));
        }
        for _ in 0..10 {
            brief.meet(&quarter, &wait(7, 2, 0, 9_000));
        }
        // They stand for nobody: told anyway, another thread's.
        brief.meet(&sched_wait::default(), &wait(7, 3, 0, 1_000));
        brief.meet(&quarter, &wait(8, 5, 0, 1_000));
        assert_eq!(brief.count, 1_001);
        let rows = rows(brief);
        let of = |cause: u32| rows.iter().find(|row| row.wait.cause == cause).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((of(1).count, of(2).count), (751, 250));
        assert_eq!((of(1).ns, of(2).ns), (2_500_000, 7_500_001));
        assert_eq!(of(1).wait.idle_ns + of(2).wait.idle_ns, 2_002);
        assert_eq!((of(1).wait.begin, of(1).wait.end, of(1).wait.stack, of(1).wait.waker), (1_000, 9_090, 3, 3));
    }

    /// One that was chosen by chance in a thread, where others show how its waits divide.
    #[test]
    fn few_chosen_ones_are_no_measure() {
        let mut brief = BriefWaits::default();
        for task in [7, 8] {
            brief.add(&sched_brief { task, begin: 0, end: 1, count: 1_000, ns: 10_000_000, ..Default::default() });
            // Each describes one wait at each place, whatever the chance.
            for cause in [1, 2] {
                brief.meet(&sched_wait::default(), &wait(task, cause, 0, 9_000));
            }
        }
        let quarter = sched_wait { chance: 1 << 30, ..Default::default() };
        brief.meet(&quarter, &wait(7, 2, 0, 100));
        for _ in 0..990 {
            brief.meet(&quarter, &wait(8, 1, 0, 10_000));
        }
        brief.meet(&quarter, &wait(8, 2, 0, 100));
        let rows = rows(brief);
        let of = |task, cause| rows.iter().find(|row| (row.wait.task, row.wait.cause) == (task, cause)).unwrap();
        assert!(of(7, 1).count > 900 && of(7, 1).ns > 9_900_000, "{:?}", of(7, 1));
        assert!(of(7, 2).ns < 100_000, "{:?}", of(7, 2));
        assert_eq!(rows.iter().map(|row| row.ns).sum::<u64>(), 20_000_000);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 2_000);
    }

    #[test]
    fn without_chosen_ones_nothing_is_told_but_the_sums() {
        let mut brief = BriefWaits::default();
        brief.add(&sched_brief { task: 7, begin: 5, end: 50, count: 1, ns: 20, idle: 4, ..Default::default() });
        let rows = rows(brief);
        assert_eq!((rows.len(), rows[0].count, rows[0].ns, rows[0].wait.idle_ns), (1, 1, 20, 4));
        assert_eq!((rows[0].wait.begin, rows[0].wait.end), (30, 50), "one wait ends where they end");
    }
}
