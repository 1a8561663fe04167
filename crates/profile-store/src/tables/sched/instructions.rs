use transect_profile_model::{Profile, StackFrame, StackInstruction};

use super::super::{component, file_name, id, int64, optional_int64, text};
use super::stack_addresses::StackNumbers;
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns<'a>(profile: &'a Profile, numbers: &StackNumbers) -> Vec<Column<'a>> {
    let rows = profile.sched.instructions.as_slice();
    vec![
        id("stack_id", rows, |a| numbers.row(a.stack)),
        optional_int64("located_id", rows, |a| numbers.located(Some(a.stack))),
        id("depth", rows, |a| a.depth),
        int64("address", rows, |a| a.address.cast_signed()),
        // The function's name, which would be half of the table, is in `stacks`.
        text("component", rows, |a| {
            let component = frame(profile, a).and_then(|frame| frame.component).map(|id| component(profile, id));
            component.map_or("", |component| file_name(&component.path))
        }),
        int64("samples", rows, |a| a.samples),
        int64("running_ns", rows, |a| a.running_ns),
        int64("blocked_ns", rows, |a| a.blocked_ns),
    ]
}

fn frame<'a>(profile: &'a Profile, address: &StackInstruction) -> Option<&'a StackFrame> {
    let stack = profile.sched.stacks.get(address.stack as usize)?;
    profile.sched.frames.get(*stack.frames.get(address.depth as usize)? as usize)
}

/// Whether the frame that the row is of does not exist.
pub(crate) fn is_dangling(profile: &Profile, address: &StackInstruction) -> bool {
    frame(profile, address).is_none()
}

pub(crate) fn read(table: &TableReader, depths: &[usize]) -> Result<Vec<StackInstruction>, StoreError> {
    let stacks = table.ids("stack_id", depths.len())?;
    let depth = table.ids("depth", usize::MAX)?;
    let mut address = table.int64("address")?.into_iter();
    let mut samples = table.int64("samples")?.into_iter();
    let mut running_ns = table.int64("running_ns")?.into_iter();
    let mut blocked_ns = table.int64("blocked_ns")?.into_iter();
    let mut rows = Vec::with_capacity(stacks.len());
    for (row, (stack, depth)) in stacks.into_iter().zip(depth).enumerate() {
        if depth as usize >= depths[stack as usize] {
            return Err(table.bad_row(row, "its stack has no such frame"));
        }
        let (Some(address), Some(samples), Some(running_ns), Some(blocked_ns)) =
            (address.next(), samples.next(), running_ns.next(), blocked_ns.next())
        else {
            break;
        };
        let address = address.cast_unsigned();
        rows.push(StackInstruction { stack, depth, address, samples, running_ns, blocked_ns });
    }
    Ok(rows)
}
