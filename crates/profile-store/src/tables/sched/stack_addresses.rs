use std::collections::BTreeMap;

use transect_profile_model::{CallStack, CodeAddress, Profile, StackId};

use super::super::{id, int64};
use crate::StoreError;
use crate::column::{Column, TableReader};

/// Stacks as other tables number them, without addresses; which of those that differ in addresses is meant stands beside.
pub(crate) struct StackNumbers {
    /// By the profile's number.
    rows: Vec<StackId>,
    /// By the profile's number: whether addresses are kept of it.
    located: Vec<bool>,
}

impl StackNumbers {
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut located = vec![false; profile.sched.stacks.len()];
        for at in &profile.sched.addresses {
            located.get_mut(at.stack as usize).into_iter().for_each(|located| *located = true);
        }
        Self { rows: profile.sched.numbers_without_addresses(), located }
    }

    /// Row of a stack.
    pub(super) fn row(&self, stack: StackId) -> StackId {
        self.rows.get(stack as usize).copied().unwrap_or(stack)
    }

    /// Number of its addresses.
    pub(super) fn located(&self, stack: Option<StackId>) -> Option<i64> {
        stack.filter(|&stack| self.located.get(stack as usize).copied().unwrap_or(false)).map(i64::from)
    }

    /// One stack of each row.
    pub(super) fn stacks<'a>(&self, profile: &'a Profile) -> impl Iterator<Item = &'a CallStack> {
        let mut next = 0;
        let first = self.rows.iter().zip(&profile.sched.stacks).filter(move |(row, _)| {
            let is_first = **row == next;
            next += StackId::from(is_first);
            is_first
        });
        first.map(|(_, stack)| stack).collect::<Vec<_>>().into_iter()
    }
}

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.sched.addresses.as_slice();
    vec![id("located_id", rows, |a| a.stack), id("depth", rows, |a| a.depth), int64("address", rows, |a| a.address)]
}

/// Depths and addresses by their number.
pub(crate) type Addresses = BTreeMap<u32, Vec<(u32, i64)>>;

pub(crate) fn read(table: &TableReader) -> Result<Addresses, StoreError> {
    let depths = table.int32("depth")?;
    let rows = table.ids("located_id", usize::MAX)?.into_iter().zip(depths).zip(table.int64("address")?);
    let mut addresses = Addresses::new();
    for (row, ((located, depth), address)) in rows.enumerate() {
        let of = addresses.entry(located).or_default();
        let depth = u32::try_from(depth).ok().filter(|depth| of.last().is_none_or(|(last, _)| last < depth));
        of.push((depth.ok_or_else(|| table.bad_row(row, "addresses of stacks out of order"))?, address));
    }
    Ok(addresses)
}

/// Puts the stacks with their addresses where tables refer to them.
pub(crate) struct Relocation<'a> {
    pub addresses: &'a Addresses,
    pub stacks: &'a mut Vec<CallStack>,
    pub located: &'a mut Vec<CodeAddress>,
    known: BTreeMap<(u32, StackId), StackId>,
}

impl<'a> Relocation<'a> {
    pub(crate) fn new(
        addresses: &'a Addresses,
        stacks: &'a mut Vec<CallStack>,
        located: &'a mut Vec<CodeAddress>,
    ) -> Self {
        Self { addresses, stacks, located, known: BTreeMap::new() }
    }

    /// Stacks of rows, and the column of the same rows that tells which addresses they had.
    pub(crate) fn apply<'r>(
        &mut self,
        stacks: impl Iterator<Item = Option<&'r mut StackId>>,
        table: &TableReader,
        column: &str,
    ) -> Result<(), StoreError> {
        if !table.has(column) {
            return Ok(());
        }
        for (stack, located) in stacks.zip(table.optional_int64(column)?) {
            let located = located.and_then(|located| u32::try_from(located).ok());
            if let (Some(stack), Some(located)) = (stack, located) {
                *stack = self.stack(*stack, located);
            }
        }
        Ok(())
    }

    fn stack(&mut self, row: StackId, located: u32) -> StackId {
        let Some(addresses) = self.addresses.get(&located) else { return row };
        *self.known.entry((located, row)).or_insert_with(|| {
            let number = self.stacks.len() as StackId;
            self.stacks.extend(self.stacks.get(row as usize).cloned());
            let at = |&(depth, address)| CodeAddress { stack: number, depth, address };
            self.located.extend(addresses.iter().map(at));
            number
        })
    }
}
