//! From a planned site to the bytes that make it a probe: block, window, and what restores it.

use transect_probe::trampoline::{self, BODY, Block, BuildError, Call, Fixup, Request, WORD};
use transect_probe_plan::{
    Displaced, Event, ExitSupport, Fixup as PlannedFixup, ProviderKind, Site, Window as PlannedWindow,
};
use transect_text_patch::{WINDOW_CAPACITY, Window};

/// A site given a block.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Descriptor (zero) and trampoline.
    pub block: Block,
    /// Puts the jump into the text.
    pub install: Window,
    /// Puts the original bytes back.
    pub restore: Window,
    /// Whether calls can be timed.
    pub can_time: bool,
}

/// Displacements for an object loaded at `bias`.
fn absolute(displaced: &Displaced, bias: u64) -> Vec<Fixup> {
    let fixup = |f: &PlannedFixup| Fixup { at: f.at, from: f.from, target: f.target.wrapping_add(bias) };
    displaced.fixups.iter().map(fixup).collect()
}

/// Bytes that [`place`] will need for a site's block; a multiple of 64.
pub fn block_size(site: &Site) -> u64 {
    let code = match &site.window {
        PlannedWindow::Displaced { displaced, .. } | PlannedWindow::Call { displaced, .. } => displaced.code.len(),
        PlannedWindow::Sled { .. } | PlannedWindow::ReturnSled { .. } => 1,
    };
    // The longest call sequence has 34 bytes and is 16-aligned.
    ((BODY + code + 5).next_multiple_of(16) + 34).next_multiple_of(64) as u64
}

/// Builds the block of a site of an object loaded at `bias`, to run at `address`.
///
/// # Errors
/// If the block is out of the object's reach, or the displaced code is too long.
pub fn place(site: &Site, bias: u64, address: u64) -> Result<Placed, BuildError> {
    let at = site.vaddr.wrapping_add(bias);
    let word = address + WORD as u64;
    let paired = site.event == Event::Entry && site.exit == ExitSupport::PairedCall && !site.red_zone;
    let call = if site.provider == ProviderKind::Region {
        Call::Region
    } else if site.red_zone {
        Call::Point
    } else if paired {
        Call::Paired
    } else {
        Call::Plain
    };
    let mut can_time = paired;
    let out_of_reach = BuildError::OutOfReach { target: word };
    let (block, original, branch, starts): (_, &[u8], _, Vec<(u8, u16)>) = match &site.window {
        PlannedWindow::Displaced { original, displaced } => {
            let fixups = absolute(displaced, bias);
            let resume = (!displaced.ends).then(|| displaced.resume.wrapping_add(bias));
            let request = Request { block: address, code: &displaced.code, fixups: &fixups, resume, call };
            let branch = trampoline::jump(at, word).ok_or(out_of_reach)?;
            (trampoline::build(&request)?, original, branch, displaced.starts.clone())
        }
        PlannedWindow::Sled { original, .. } => {
            let resume = Some(at + original.len() as u64);
            let request = Request { block: address, code: &[], fixups: &[], resume, call };
            let branch = trampoline::jump(at, word).ok_or(out_of_reach)?;
            // Merged one-byte no-ops: whoever stands between them goes on behind them.
            let starts = (0..original.len().min(5) as u8).map(|offset| (offset, 0)).collect();
            (trampoline::build(&request)?, original, branch, starts)
        }
        PlannedWindow::ReturnSled { original } => {
            let request = Request { block: address, code: &[0xC3], fixups: &[], resume: None, call: Call::Plain };
            can_time = false;
            let branch = trampoline::jump(at, word).ok_or(out_of_reach)?;
            (trampoline::build(&request)?, original, branch, vec![(0, 0)])
        }
        // The callee is reached by a jump from the trampoline, probe on or off.
        PlannedWindow::Call { original, displaced, tail } => {
            let fixups = absolute(displaced, bias);
            let request =
                Request { block: address, code: &displaced.code, fixups: &fixups, resume: None, call: Call::Plain };
            can_time = false;
            let branch = if *tail { trampoline::jump(at, word) } else { trampoline::call(at, word) };
            (trampoline::build(&request)?, original, branch.ok_or(out_of_reach)?, vec![(0, 0)])
        }
    };
    let length = original.len().min(WINDOW_CAPACITY);
    let mut old = [0; WINDOW_CAPACITY];
    old[..length].copy_from_slice(&original[..length]);
    // Behind the branch the old instructions stay: a jump to one of those that begin there finds it whole.
    let mut new = old;
    new[..5].copy_from_slice(&branch);
    if matches!(&site.window, PlannedWindow::Call { .. }) && length > 5 {
        // The callee returns here, behind a call that is a byte shorter.
        new[5] = 0x90;
    }
    let mut install = Window { address: at, length: length as u8, old, new, starts: 0, moves: [0; WINDOW_CAPACITY] };
    for (offset, displaced) in starts.into_iter().filter(|&(offset, _)| offset < 5) {
        install.starts |= 1 << offset;
        install.moves[usize::from(offset)] = match offset {
            0 => at,
            _ => address + (BODY + usize::from(displaced)) as u64,
        };
    }
    let mut moves = [0; WINDOW_CAPACITY];
    moves[0] = at;
    let restore = Window { address: at, length: length as u8, old: new, new: old, starts: 1, moves };
    Ok(Placed { block, install, restore, can_time })
}
