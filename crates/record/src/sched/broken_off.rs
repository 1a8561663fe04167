//! Stacks that broke off at code whose unwinding tables were not loaded yet, as at a program's start. Where all whole stacks that
//! begin alike go on alike, they do so, too.

use rustc_hash::FxHashMap;
use transect_bpf_collect::record::stack_flags;

use super::call_stack::{RawStack, RawStacks, StackNumber};
use super::place::PlaceId;

/// Places that both must have: the innermost one is often a system call of libc's, which all make.
const LEAST: usize = 2;

/// How stacks that broke off go on.
pub(super) struct BrokenOff<'a>(FxHashMap<StackNumber, &'a [PlaceId]>);

impl<'a> BrokenOff<'a> {
    pub fn of(stacks: &'a RawStacks) -> Self {
        let all = || (1..stacks.len() as StackNumber).filter_map(|number| Some((number, stacks.get(number)?)));
        let is_whole = |stack: &RawStack<'_>| stack.flags & stack_flags::COMPLETE != 0;
        let broke_off = |stack: &RawStack<'_>| !is_whole(stack) && stack.flags & stack_flags::UNKNOWN_CODE != 0;
        let start = |stack: &RawStack<'a>| stack.user.get(..LEAST);
        let mut whole: FxHashMap<&[PlaceId], Vec<&[PlaceId]>> = FxHashMap::default();
        all().filter(|(_, stack)| broke_off(stack)).filter_map(|(_, stack)| start(&stack)).for_each(|start| {
            whole.entry(start).or_default();
        });
        for (_, stack) in all().filter(|(_, stack)| is_whole(stack)) {
            if let Some(same) = start(&stack).and_then(|start| whole.get_mut(start)) {
                same.push(stack.user);
            }
        }
        for same in whole.values_mut() {
            same.sort_unstable();
            same.dedup();
        }
        let rest = |(number, stack): (StackNumber, RawStack<'a>)| {
            let mut rests = whole.get(start(&stack)?)?.iter().filter_map(|other| other.strip_prefix(stack.user));
            let rest = rests.next()?;
            rests.all(|other| other == rest).then_some((number, rest))
        };
        Self(all().filter(|(_, stack)| broke_off(stack)).filter_map(rest).collect())
    }

    /// The places from where the stack broke off, leaf first, if they are known.
    pub fn rest(&self, number: StackNumber) -> Option<&'a [PlaceId]> {
        self.0.get(&number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_goes_on_as_all_whole_ones_that_begin_alike() {
        let mut stacks = RawStacks::default();
        let broken = stack_flags::UNKNOWN_CODE;
        stacks.insert(1, broken, &[], &[10, 20]);
        stacks.insert(2, stack_flags::COMPLETE, &[7], &[10, 20, 30, 40]);
        stacks.insert(3, stack_flags::COMPLETE, &[8], &[10, 20, 30, 40]);
        stacks.insert(4, broken, &[], &[10, 21]);
        stacks.insert(5, stack_flags::COMPLETE, &[], &[10, 21, 30, 40]);
        stacks.insert(6, stack_flags::COMPLETE, &[], &[10, 21, 31, 40]);
        stacks.insert(7, broken, &[], &[10, 21, 31]);
        stacks.insert(8, broken, &[], &[10]);
        stacks.insert(9, stack_flags::TRUNCATED, &[], &[10, 20]);
        let found = BrokenOff::of(&stacks);
        let rest = |hash: u64| found.rest(stacks.clone().number(hash));
        assert_eq!(rest(1), Some(&[30, 40][..]));
        assert_eq!((rest(4), rest(8), rest(9)), (None, None, None), "callers differ, are too few, or are too many");
        assert_eq!(rest(7), Some(&[40][..]));
    }
}
