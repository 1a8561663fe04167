//! From a planned site to its block of code and the window that leads there.

use transect_event_abi::probe_arena::SITE_CAPACITY;
use transect_probe::trampoline::{self, BODY, Block, Call, Fixup, Request, WORD};
use transect_probe_plan::{Event, ExitSupport, ProviderKind, Site, Window as Planned};
use transect_text_patch::{Refusal, WINDOW_CAPACITY, Window, form};

const _: () = assert!(SITE_CAPACITY <= u32::MAX as usize);

/// A block as it is to be written, and the window that leads to it.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The block.
    pub block: Block,
    /// The window, to be applied.
    pub window: Window,
    /// For a site that is switched in the text itself, whose window's new bytes are the off form: both forms.
    pub forms: Option<([u8; 5], [u8; 5])>,
}

/// True for sites that compilers made to be switched where they stand: while off they are a no-op.
pub fn switches_in_text(site: &Site) -> bool {
    !matches!(site.window, Planned::Displaced { .. }) && !is_fentry_call(site)
}

/// A call whose callee (`__fentry__`, `mcount`) goes on being called.
fn is_fentry_call(site: &Site) -> bool {
    matches!(site.window, Planned::Call { .. }) && site.provider != ProviderKind::InstrumentFunctions
}

/// Builds the block of `site`, whose object is loaded at `bias`, for the address `block`. `in_text`: it is to be switched
/// in the text ([`switches_in_text`]), whose pages stay writable; else by the block's first word.
///
/// # Errors
/// [`Refusal::OutOfReach`], [`Refusal::Malformed`].
pub fn build(site: &Site, bias: u64, block: u64, in_text: bool) -> Result<Placed, Refusal> {
    let address = bias.wrapping_add(site.vaddr);
    let malformed = Refusal::Malformed { address };
    let original = site.window.original();
    let after = address + original.len() as u64;
    let mut fixups = Vec::new();
    let (code, resume): (&[u8], Option<u64>) = match &site.window {
        // The compiler's hook is ours: nothing is left to be called.
        Planned::Call { .. } if site.provider == ProviderKind::InstrumentFunctions => (&[0xC3], None),
        Planned::Displaced { displaced, .. } | Planned::Call { displaced, .. } => {
            fixups.extend(displaced.fixups.iter().map(|fixup| Fixup {
                at: fixup.at,
                from: fixup.from,
                target: bias.wrapping_add(fixup.target),
            }));
            (&displaced.code, (!displaced.ends).then(|| bias.wrapping_add(displaced.resume)))
        }
        Planned::Sled { .. } => (&[], Some(after)),
        Planned::ReturnSled { .. } => (&[0xC3], None),
    };
    let call = match (site.event, site.exit) {
        (Event::Entry, ExitSupport::PairedCall) => Call::Paired,
        (Event::Entry | Event::Exit, _) => Call::Plain,
        (Event::Point, _) => Call::Point,
    };
    let built =
        trampoline::build(&Request { block, code, fixups: &fixups, resume, call }).map_err(|error| match error {
            trampoline::BuildError::OutOfReach { target } => Refusal::OutOfReach { address: block, target },
            trampoline::BuildError::BadCode => malformed,
        })?;
    let length = original.len().min(WINDOW_CAPACITY);
    let mut window = Window {
        address,
        length: length as u8,
        old: [0; WINDOW_CAPACITY],
        new: [0; WINDOW_CAPACITY],
        starts: 1,
        moves: [0; WINDOW_CAPACITY],
    };
    if length < 5 {
        return Err(Refusal::TooShort { address, length: length as u8 });
    }
    window.old[..length].copy_from_slice(&original[..length]);
    window.new = window.old;
    let word = block + WORD as u64;
    let call_site = matches!(&site.window, Planned::Call { tail: false, .. });
    let entry = if call_site { trampoline::call(address, word) } else { trampoline::jump(address, word) };
    let entry = entry.ok_or(Refusal::OutOfReach { address, target: word })?;
    window.new[..5].copy_from_slice(&entry);
    if matches!(&site.window, Planned::Call { .. }) && length == 6 {
        window.new[5] = 0x90;
    }
    let mut forms = None;
    if in_text && switches_in_text(site) {
        let probe = block + built.probe as u64;
        let opcode = if call_site { form::CALL } else { form::JUMP };
        let on = form::transfer(opcode, address, probe)?;
        let off = match &site.window {
            // The function returns here; the displacement remains resident behind the `ret`.
            Planned::ReturnSled { .. } | Planned::Call { tail: true, .. } => [form::RETURN, on[1], on[2], on[3], on[4]],
            // While off, a site whose last four bytes are a word of their own leads through the block's idle path.
            Planned::Sled { original, .. } if address % 8 != 7 && original.len() > 5 && original.len() < 128 => {
                form::short_jump_over(on, original.len() as u8)
            }
            _ => form::off_form(address, on, word)?,
        };
        window.new[..5].copy_from_slice(&off);
        forms = Some((on, off));
    }
    window.moves[0] = address;
    let body = block + BODY as u64;
    match &site.window {
        Planned::Displaced { displaced, .. } => {
            for &(old, new) in &displaced.starts {
                if usize::from(old) >= length {
                    return Err(malformed);
                }
                window.starts |= 1 << old;
                window.moves[usize::from(old)] = body + u64::from(new);
            }
        }
        Planned::Sled { original, .. } => {
            // Nothing is done in a sled: wherever a thread is in it, it can go on behind it.
            let mut at = 0;
            while at < length {
                window.starts |= 1 << at;
                window.moves[at] = body;
                at += no_op_length(&original[at..]);
            }
        }
        Planned::ReturnSled { .. } => window.moves[0] = body,
        Planned::Call { .. } => {}
    }
    Ok(Placed { block: built, window, forms })
}

/// Length of the no-op that `bytes` begin with; a short jump counts with what it jumps over. Anything else is taken to
/// be the rest of the sled.
fn no_op_length(bytes: &[u8]) -> usize {
    let prefixes = bytes.iter().take_while(|&&byte| matches!(byte, 0x66 | 0x2E | 0x3E)).count();
    let length = match bytes[prefixes..] {
        [0x90, ..] => prefixes + 1,
        [0xEB, distance, ..] if prefixes == 0 => 2 + usize::from(distance),
        [0x0F, 0x1F, form, ..] => {
            let scaled = usize::from(form & 7 == 4);
            let displacement = [0, 1, 4, 0][usize::from(form >> 6)];
            prefixes + 3 + scaled + displacement
        }
        _ => bytes.len(),
    };
    length.clamp(1, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::no_op_length;

    #[test]
    fn no_ops_are_measured() {
        for bytes in [
            &[0x90][..],
            &[0x66, 0x90],
            &[0x0F, 0x1F, 0x00],
            &[0x0F, 0x1F, 0x40, 0],
            &[0x0F, 0x1F, 0x44, 0, 0],
            &[0x66, 0x0F, 0x1F, 0x44, 0, 0],
            &[0x0F, 0x1F, 0x80, 0, 0, 0, 0],
            &[0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x2E, 0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0],
            &[0xEB, 3, 1, 2, 3],
        ] {
            let mut longer = bytes.to_vec();
            longer.extend([0x90; 3]);
            assert_eq!(no_op_length(&longer), bytes.len(), "{bytes:x?}");
        }
    }
}
