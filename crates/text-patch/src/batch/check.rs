//! What can be checked of a window before it is written.

use super::table;
use crate::arch::shadow_stack_active;
use crate::form::{CALL, JUMP};
use crate::{Refusal, WINDOW_CAPACITY, Window, emulate, maps};

impl Window {
    /// The window that undoes this one, to be applied while its new instruction is one jump or call.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut moves = [0; WINDOW_CAPACITY];
        moves[0] = self.address;
        Self { address: self.address, length: self.length, old: self.new, new: self.old, starts: 1, moves }
    }

    /// Checks the description, and that a thread that meets INT3 at its beginning can be led on.
    ///
    /// # Errors
    /// [`Refusal::Malformed`], [`Refusal::TooShort`], [`Refusal::JumpTargetInside`], [`Refusal::NotEmulatable`],
    /// [`Refusal::ShadowStack`].
    pub fn check(&self) -> Result<(), Refusal> {
        let address = self.address;
        let length = usize::from(self.length);
        if length == 0 || length > WINDOW_CAPACITY || self.starts & 1 == 0 || self.starts >> length != 0 {
            return Err(Refusal::Malformed { address });
        }
        if matches!(self.new[0], CALL | JUMP) && length < 5 {
            return Err(Refusal::TooShort { address, length: self.length });
        }
        if (1..length).any(|i| self.starts >> i & 1 != 0 && self.moves[i] == 0) {
            return Err(Refusal::Malformed { address });
        }
        let inside = |target: u64| target > address && target - address < length as u64;
        if self.new[0] == JUMP
            && let Some(emulate::Effect::Go(target)) = emulate::effect(&self.new[..length], address)
            && inside(target)
        {
            return Err(Refusal::JumpTargetInside { address });
        }
        if self.moves.iter().take(length).any(|&target| inside(target)) {
            return Err(Refusal::JumpTargetInside { address });
        }
        match table::first_effect(self) {
            None => Err(Refusal::NotEmulatable { address }),
            Some(effect) if effect.uses_return_address() && shadow_stack_active() => {
                Err(Refusal::ShadowStack { address })
            }
            Some(_) => Ok(()),
        }
    }

    /// Compares what stands in memory: true for the old bytes, false for the new ones.
    pub(super) fn is_old(&self) -> Result<bool, Refusal> {
        let length = usize::from(self.length);
        // SAFETY: callers of `examine` and `apply` vouch that windows are mapped.
        let found = unsafe { core::slice::from_raw_parts(self.address as *const u8, length) };
        if *found == self.old[..length] {
            return Ok(true);
        }
        if *found == self.new[..length] {
            return Ok(false);
        }
        let i = (0..length).find(|&i| found[i] != self.old[i]).unwrap_or(0);
        Err(Refusal::ForeignBytes { address: self.address + i as u64, expected: self.old[i], found: found[i] })
    }
}

pub(super) fn sort(windows: &mut [Window]) {
    if !windows.is_sorted_by_key(|window| window.address) {
        windows.sort_unstable_by_key(|window| window.address);
    }
}

pub(super) fn end_of(window: &Window) -> u64 {
    window.address + u64::from(window.length)
}

pub(super) fn mapped(windows: &[Window]) -> Result<(), Refusal> {
    // Opens nothing: only asks the kernel what is mapped executable.
    let mut next = 0;
    let mut reached = 0;
    let mut refused = Ok(());
    maps::each_mapping(&mut |mapping| {
        while next < windows.len() && windows[next].address < mapping.end {
            let window = &windows[next];
            if (window.address < mapping.start && reached != mapping.start) || !mapping.executable() {
                refused = Err(Refusal::NotExecutable { address: window.address });
                return false;
            }
            if end_of(window) > mapping.end {
                reached = mapping.end;
                break;
            }
            next += 1;
        }
        next < windows.len()
    })?;
    refused?;
    windows.get(next).map_or(Ok(()), |window| Err(Refusal::NotExecutable { address: window.address }))
}

/// Examines windows as a batch would, without changing anything: `refused` is called with the index (after sorting by
/// address) of each one that a batch would refuse.
pub fn examine(windows: &mut [Window], refused: &mut dyn FnMut(usize, Refusal)) {
    sort(windows);
    // One look at the mappings for all: they are many lines of text in a large program.
    let all_mapped = mapped(windows).is_ok();
    for i in 0..windows.len() {
        let window = &windows[i];
        let overlap = || match windows.get(i + 1) {
            Some(next) if next.address < end_of(window) => {
                Err(Refusal::Overlap { address: window.address, other: next.address })
            }
            _ => Ok(()),
        };
        let checked = window
            .check()
            .and_then(|()| overlap())
            .and_then(|()| if all_mapped { Ok(()) } else { mapped(core::slice::from_ref(window)) })
            .and_then(|()| window.is_old().map(|_| ()));
        if let Err(refusal) = checked {
            refused(i, refusal);
        }
    }
}
