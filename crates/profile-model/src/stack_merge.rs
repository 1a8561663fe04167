//! Stacks in the place of others: those that are equal then are one row, with the samples and waits of all.

use std::collections::HashMap;

use crate::{CallStack, CodeAddress, SchedSample, SchedTables, StackId};

/// A call stack and the addresses that are kept of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocatedStack {
    /// Its frames.
    pub stack: CallStack,
    /// Position of a frame and its address, as in [`CodeAddress`]; ascending.
    pub addresses: Vec<(u32, i64)>,
}

impl SchedTables {
    /// The stacks with their addresses, in the order of their rows.
    pub fn located_stacks(&self) -> Vec<LocatedStack> {
        let located = |stack: &CallStack| LocatedStack { stack: stack.clone(), addresses: Vec::new() };
        let mut stacks: Vec<LocatedStack> = self.stacks.iter().map(located).collect();
        for &CodeAddress { stack, depth, address } in &self.addresses {
            if let Some(stack) = stacks.get_mut(stack as usize) {
                stack.addresses.push((depth, address));
            }
        }
        stacks
    }

    /// Forgets the addresses: stacks that differ in nothing else become one, as readers expect it.
    pub fn forget_addresses(&mut self) {
        if self.addresses.is_empty() {
            return;
        }
        self.addresses.clear();
        let stacks = self.located_stacks();
        self.replace_stacks(stacks);
    }

    /// The number that each stack has once addresses are forgotten.
    pub fn numbers_without_addresses(&self) -> Vec<StackId> {
        if self.addresses.is_empty() {
            return (0..self.stacks.len() as StackId).collect();
        }
        let without = |stack: &CallStack| LocatedStack { stack: stack.clone(), addresses: Vec::new() };
        merged(self.stacks.iter().map(without).collect(), &self.spins()).numbers
    }

    /// Puts a stack in the place of each, in the order of their rows. Equal ones become one row, and the samples of one thread,
    /// stack and degree of parallelism, too.
    pub fn replace_stacks(&mut self, stacks: Vec<LocatedStack>) {
        let Merged { stacks, addresses, numbers } = merged(stacks, &self.spins());
        (self.stacks, self.addresses) = (stacks, addresses);
        self.renumber_stacks(&numbers);
        self.merge_samples();
    }

    /// Whether each stack is that of a loop that waits: it is another one than the same outside of it.
    fn spins(&self) -> Vec<bool> {
        let mut spins = vec![false; self.stacks.len()];
        for sample in self.samples.iter().filter(|sample| sample.spin) {
            spins.get_mut(sample.stack as usize).into_iter().for_each(|spin| *spin = true);
        }
        spins
    }

    fn renumber_stacks(&mut self, numbers: &[StackId]) {
        self.each_stack_number(|stack| *stack = numbers.get(*stack as usize).copied().unwrap_or(*stack));
    }

    /// Leaves out stacks that nothing refers to.
    pub fn drop_unused_stacks(&mut self) {
        let mut used = vec![false; self.stacks.len()];
        let instructions = std::mem::take(&mut self.instructions);
        self.each_stack_number(|stack| used.get_mut(*stack as usize).into_iter().for_each(|used| *used = true));
        self.instructions = instructions;
        let mut next = 0;
        let number = |used: &bool| {
            next += StackId::from(*used);
            next.saturating_sub(1)
        };
        let numbers: Vec<StackId> = used.iter().map(number).collect();
        let is_used = |stack: StackId| used.get(stack as usize).copied().unwrap_or(false);
        let mut row = 0;
        self.stacks.retain(|_| {
            row += 1;
            is_used(row - 1)
        });
        self.addresses.retain(|at| is_used(at.stack));
        self.instructions.retain(|at| is_used(at.stack));
        self.addresses.iter_mut().for_each(|at| at.stack = numbers[at.stack as usize]);
        self.renumber_stacks(&numbers);
    }

    /// Calls `each` with every reference to a stack, but for those of [`SchedTables::addresses`].
    fn each_stack_number(&mut self, mut each: impl FnMut(&mut StackId)) {
        self.samples.iter_mut().for_each(|sample| each(&mut sample.stack));
        self.instructions.iter_mut().for_each(|at| each(&mut at.stack));
        self.moments.iter_mut().for_each(|moment| each(&mut moment.stack));
        for wait in &mut self.waits {
            let others = [&mut wait.holder, &mut wait.waker].into_iter().flatten().map(|other| &mut other.stack);
            [&mut wait.stack].into_iter().chain(others).flatten().for_each(&mut each);
        }
    }

    /// Makes one row of the samples of one thread, stack and degree of parallelism.
    pub fn merge_samples(&mut self) {
        let key = |sample: &SchedSample| (sample.task, sample.stack, sample.n, sample.origin, sample.spin);
        self.samples.sort_by_key(key);
        self.samples.dedup_by(|row, kept| {
            let same = key(row) == key(kept);
            if same {
                kept.samples = kept.samples.saturating_add(row.samples);
                kept.criticality_ns = kept.criticality_ns.saturating_add(row.criticality_ns);
                kept.active_ns = kept.active_ns.saturating_add(row.active_ns);
            }
            same
        });
    }
}

/// Stacks, equal ones once.
struct Merged {
    stacks: Vec<CallStack>,
    addresses: Vec<CodeAddress>,
    /// The row that each has become.
    numbers: Vec<StackId>,
}

fn merged(stacks: Vec<LocatedStack>, spins: &[bool]) -> Merged {
    let mut known: HashMap<(LocatedStack, bool), StackId> = HashMap::new();
    let mut merged = Merged { stacks: Vec::new(), addresses: Vec::new(), numbers: Vec::with_capacity(stacks.len()) };
    for (located, &spin) in stacks.into_iter().zip(spins) {
        let Merged { stacks, addresses, numbers } = &mut merged;
        let number = *known.entry((located, spin)).or_insert_with_key(|(located, _)| {
            let stack = stacks.len() as StackId;
            stacks.push(located.stack.clone());
            let kept = located.addresses.iter();
            addresses.extend(kept.map(|&(depth, address)| CodeAddress { stack, depth, address }));
            stack
        });
        numbers.push(number);
    }
    merged
}

#[cfg(test)]
mod tests {
    use crate::{Origin, OtherThread, SchedWait, TimedSample, WaitKind};

    use super::*;

    #[test]
    fn stacks_that_differ_in_addresses_alone_become_one() {
        let stack = |frames: &[u32]| CallStack { frames: frames.to_vec(), complete: true, linked: 0 };
        let sample = |stack, spin| SchedSample {
            task: 0,
            stack,
            n: 1,
            origin: Origin::Sample,
            samples: 1,
            criticality_ns: 10,
            active_ns: 100,
            spin,
        };
        let address = |stack, address| CodeAddress { stack, depth: 1, address };
        let wait = SchedWait {
            task: 0,
            kind: WaitKind::Other,
            object: "".into(),
            stack: Some(2),
            holder: None,
            waker: Some(OtherThread { task: 0, stack: Some(1) }),
            count: 1,
            begin_ns: 0,
            end_ns: 1,
            ns: 1,
            idle_ns: 0,
            holder_gain_ns: 0,
        };
        let mut tables = SchedTables {
            stacks: vec![stack(&[0, 1]), stack(&[0, 1]), stack(&[0]), stack(&[0, 1])],
            addresses: vec![address(0, 0x10), address(1, 0x20), address(3, 0x10)],
            samples: vec![sample(0, false), sample(1, false), sample(2, false), sample(3, true)],
            moments: vec![TimedSample { time_ns: 5, task: 0, stack: 2, period_ns: 1 }],
            waits: vec![wait],
            ..SchedTables::default()
        };
        assert_eq!(tables.numbers_without_addresses(), [0, 0, 1, 2]);
        tables.forget_addresses();
        assert_eq!(tables.stacks, [stack(&[0, 1]), stack(&[0]), stack(&[0, 1])]);
        let sums: Vec<_> = tables.samples.iter().map(|s| (s.stack, s.samples, s.active_ns, s.spin)).collect();
        assert_eq!(sums, [(0, 2, 200, false), (1, 1, 100, false), (2, 1, 100, true)]);
        assert_eq!(tables.moments[0].stack, 1);
        assert_eq!((tables.waits[0].stack, tables.waits[0].waker.unwrap().stack), (Some(1), Some(0)));
        assert!(tables.addresses.is_empty());
        // Of what nothing refers to nothing is left.
        tables.samples.retain(|sample| sample.stack == 2);
        tables.waits.clear();
        tables.moments.clear();
        tables.addresses = vec![address(0, 1), address(2, 3)];
        tables.drop_unused_stacks();
        assert_eq!((tables.stacks.len(), tables.samples[0].stack), (1, 0));
        assert_eq!(tables.addresses, [address(0, 3)]);
    }
}
