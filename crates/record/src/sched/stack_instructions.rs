//! Instructions at which the frames of stacks were met: stacks that differ in them only have one name.

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{StackId, StackInstruction};

use super::call_stack::{NO_STACK, StackNumber};
use super::sample::Samples;

/// How often a stack was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Met {
    samples: i64,
    running_ns: i64,
    blocked_ns: i64,
}

/// The stacks at which threads were met, by number.
#[derive(Debug, Default)]
pub struct MetStacks(HashMap<StackNumber, Met>);

impl MetStacks {
    /// By samples and by what was waited (a count and ns) at each.
    pub fn of(samples: &Samples, waited: &HashMap<(u32, StackNumber), (u64, u64)>) -> Self {
        let mut met: HashMap<StackNumber, Met> = HashMap::default();
        for moment in &samples.moments {
            let met = met.entry(moment.stack).or_default();
            met.samples += 1;
            met.running_ns = met.running_ns.saturating_add(moment.period.max(1) as i64);
        }
        for (&(_, stack), &(_, ns)) in waited {
            let met = met.entry(stack).or_default();
            met.blocked_ns = met.blocked_ns.saturating_add(ns as i64);
        }
        // With these threads left their CPUs, or samples were thinned out.
        for key in samples.sums.keys() {
            met.entry(key.stack).or_default();
        }
        met.remove(&NO_STACK);
        Self(met)
    }

    /// `None`: only other threads' waits name it.
    pub fn get(&self, number: StackNumber) -> Option<Met> {
        self.0.get(&number).copied()
    }
}

/// Where the frames of one stack are, root first.
#[derive(Debug, Default)]
pub struct FrameAddresses {
    /// Frames that are at an instruction of a file.
    known: Vec<(usize, u64)>,
    /// Those whose function or line is not known.
    unnamed: Vec<(usize, u64)>,
}

impl FrameAddresses {
    /// The frame at this depth, which comes next, is there.
    pub fn push(&mut self, depth: usize, address: Option<u64>) {
        self.known.extend(address.map(|address| (depth, address)));
    }

    /// The function or line of the frame at this depth, which comes next, is not known.
    pub fn push_unnamed(&mut self, depth: usize, address: Option<u64>) {
        self.unnamed.extend(address.map(|address| (depth, address)));
    }

    /// A frame of which no address is known is put at this depth.
    pub fn insert(&mut self, depth: usize) {
        self.each().filter(|(at, _)| *at >= depth).for_each(|(at, _)| *at += 1);
    }

    /// The root is left out.
    pub fn remove_root(&mut self) {
        self.known.retain(|(at, _)| *at > 0);
        self.unnamed.retain(|(at, _)| *at > 0);
        self.each().for_each(|(at, _)| *at -= 1);
    }

    /// Addresses whose function or line is not known.
    pub fn take_unnamed(&mut self) -> Vec<(u32, i64)> {
        let unnamed = std::mem::take(&mut self.unnamed);
        unnamed.into_iter().map(|(depth, address)| (depth as u32, address.cast_signed())).collect()
    }

    fn each(&mut self) -> impl Iterator<Item = &mut (usize, u64)> {
        self.known.iter_mut().chain(&mut self.unnamed)
    }
}

/// Of all stacks.
#[derive(Debug, Default)]
pub struct StackInstructions {
    sums: HashMap<(StackId, u32, u64), Met>,
    /// Frames of stacks for whose instruction there was no room.
    pub refused: u64,
}

/// More are not kept: some 40 MB.
const MAX_ROWS: usize = 500_000;

impl StackInstructions {
    /// A stack with this row was met there.
    pub fn add(&mut self, row: StackId, frames: &FrameAddresses, met: Option<Met>) {
        let Some(met) = met else { return };
        for &(depth, address) in &frames.known {
            let key = (row, depth as u32, address);
            if self.sums.len() >= MAX_ROWS && !self.sums.contains_key(&key) {
                self.refused += 1;
                continue;
            }
            let sum = self.sums.entry(key).or_default();
            sum.samples += met.samples;
            sum.running_ns = sum.running_ns.saturating_add(met.running_ns);
            sum.blocked_ns = sum.blocked_ns.saturating_add(met.blocked_ns);
        }
    }

    /// Its rows, sorted.
    pub fn take_rows(&mut self) -> Vec<StackInstruction> {
        let row = |((stack, depth, address), met): ((StackId, u32, u64), Met)| {
            let Met { samples, running_ns, blocked_ns } = met;
            StackInstruction { stack, depth, address, samples, running_ns, blocked_ns }
        };
        let mut rows: Vec<StackInstruction> = std::mem::take(&mut self.sums).into_iter().map(row).collect();
        rows.sort_unstable_by_key(|row| (row.stack, row.depth, row.address));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_addresses_where_others_come_and_go() {
        let mut frames = FrameAddresses::default();
        [(0, Some(0x10)), (1, None), (2, Some(0x30)), (4, Some(0x50))]
            .into_iter()
            .for_each(|(depth, address)| frames.push(depth, address));
        [(0, Some(0x10)), (1, None), (4, Some(0x50))]
            .into_iter()
            .for_each(|(depth, address)| frames.push_unnamed(depth, address));
        frames.insert(2);
        assert_eq!(frames.known, [(0, 0x10), (3, 0x30), (5, 0x50)]);
        frames.remove_root();
        assert_eq!(frames.known, [(2, 0x30), (4, 0x50)]);
        assert_eq!(frames.take_unnamed(), [(4, 0x50)]);
        let met = |samples| Some(Met { samples, running_ns: 1000 * samples, blocked_ns: 7 });
        let mut all = StackInstructions::default();
        all.add(3, &frames, met(2));
        all.add(3, &frames, met(1));
        all.add(4, &frames, None);
        let row = |depth, address| StackInstruction {
            stack: 3,
            depth,
            address,
            samples: 3,
            running_ns: 3000,
            blocked_ns: 14,
        };
        assert_eq!(all.take_rows(), [row(2, 0x30), row(4, 0x50)]);
    }
}
