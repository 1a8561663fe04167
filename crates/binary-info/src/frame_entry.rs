//! Functions as the unwind tables know them, which stripping leaves in place.

use std::ops::Range;

use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, EhFrame, EhFrameHdr, LittleEndian,
    ParsedEhFrameHdr, UnwindSection, X86_64,
};

use crate::{LandingPad, Object, landing_pad};

type Bytes<'a> = gimli::EndianSlice<'a, LittleEndian>;

/// What the first row of a frame description says about the place where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameStart {
    /// As a call leaves it: the return address is on top of the stack.
    Called,
    /// Something is on the stack already: the cold part of a function, or code that is entered in a way of its own.
    Inside,
    /// There is no return address (`_start`, a thread's first function).
    Outermost,
    /// A frame that the kernel made (`__restore_rt`).
    Signal,
}

/// One frame description entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameEntry {
    /// Virtual addresses of its code.
    pub range: Range<u64>,
    /// Address of its exception table, if it has one.
    pub exceptions: Option<u64>,
    /// What its first instruction finds.
    pub start: FrameStart,
}

impl Object {
    /// The frame description entries of `.eh_frame`, sorted by address; empty if there are none.
    pub fn frame_entries(&self) -> Vec<FrameEntry> {
        let mut entries = self.read_frame_entries().unwrap_or_default();
        entries.sort_by_key(|entry| entry.range.start);
        entries
    }

    /// Addresses of the landing pads of the function that starts at `function` and has its exception table at
    /// `exceptions`; `None` if the table is not understood.
    pub fn landing_pads(&self, function: u64, exceptions: u64) -> Option<Vec<u64>> {
        Some(self.unwinding(function, exceptions)?.into_iter().map(|pad| pad.pad).collect())
    }

    /// Calls of the same function with the landing pads where their exceptions continue; `None` if the table is not
    /// understood.
    pub fn unwinding(&self, function: u64, exceptions: u64) -> Option<Vec<LandingPad>> {
        landing_pad::landing_pads(self.bytes_at(exceptions)?, function)
    }

    fn read_frame_entries(&self) -> Option<Vec<FrameEntry>> {
        let (frames_at, bases) = self.frame_section()?;
        let section = EhFrame::new(self.bytes_at(frames_at)?, LittleEndian);
        let bases = bases.set_eh_frame(frames_at);
        let mut found = Vec::new();
        // Most descriptions share a few common entries.
        let mut common: Vec<(usize, CommonInformationEntry<Bytes<'_>>)> = Vec::new();
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, offset| {
                if let Some((_, cie)) = common.iter().rev().find(|(at, _)| *at == offset.0) {
                    return Ok(cie.clone());
                }
                let cie = section.cie_from_offset(bases, offset)?;
                common.push((offset.0, cie.clone()));
                Ok(cie)
            });
            let Ok(fde) = parsed else { continue };
            let start = fde.initial_address();
            let exceptions = match fde.lsda() {
                Some(gimli::Pointer::Direct(at) | gimli::Pointer::Indirect(at)) if at != 0 => Some(at),
                _ => None,
            };
            let mut first = FirstRow::default();
            let mut of_all = fde.cie().instructions(&section, &bases);
            first.read(&mut of_all);
            let mut own = fde.instructions(&section, &bases);
            first.read(&mut own);
            let start_kind = if fde.is_signal_trampoline() { FrameStart::Signal } else { first.kind() };
            let range = start..start.saturating_add(fde.len());
            if !range.is_empty() {
                found.push(FrameEntry { range, exceptions, start: start_kind });
            }
        }
        Some(found)
    }

    /// Address of `.eh_frame`, by the header that unwinders use, else by its section.
    pub(crate) fn frame_section(&self) -> Option<(u64, BaseAddresses)> {
        let by_header = || {
            let (header_at, _) = self.eh_frame_header?;
            let bases = BaseAddresses::default().set_eh_frame_hdr(header_at);
            let bytes = self.bytes_at(header_at)?;
            let header: ParsedEhFrameHdr<Bytes<'_>> = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
            let gimli::Pointer::Direct(at) = header.eh_frame_ptr() else { return None };
            Some((at, bases))
        };
        by_header().or_else(|| {
            let sections = self.section_list();
            let frames = sections.iter().find(|s| s.name == ".eh_frame" && s.loaded)?;
            Some((frames.vaddr, BaseAddresses::default()))
        })
    }
}

/// The rules at the first instruction.
struct FirstRow {
    frame_base: Option<(gimli::Register, u64)>,
    return_address: ReturnAddress,
}

#[derive(PartialEq)]
enum ReturnAddress {
    OnTop,
    Elsewhere,
    None,
}

impl Default for FirstRow {
    fn default() -> Self {
        Self { frame_base: None, return_address: ReturnAddress::Elsewhere }
    }
}

impl FirstRow {
    /// Follows instructions up to the first that moves on.
    fn read(&mut self, instructions: &mut gimli::CallFrameInstructionIter<'_, Bytes<'_>>) {
        use CallFrameInstruction as I;
        let column = X86_64::RA;
        while let Ok(Some(instruction)) = instructions.next() {
            match instruction {
                I::AdvanceLoc { .. } | I::SetLoc { .. } => return,
                I::DefCfa { register, offset } => self.frame_base = Some((register, offset)),
                I::DefCfaRegister { register } => self.frame_base = self.frame_base.map(|(_, at)| (register, at)),
                I::DefCfaOffset { offset } => self.frame_base = self.frame_base.map(|(by, _)| (by, offset)),
                I::DefCfaExpression { .. } | I::DefCfaSf { .. } | I::DefCfaOffsetSf { .. } => self.frame_base = None,
                // The factor for data is -8 in every compiler's common entry for this machine.
                I::Offset { register, factored_offset } if register == column => {
                    self.return_address =
                        if factored_offset == 1 { ReturnAddress::OnTop } else { ReturnAddress::Elsewhere };
                }
                I::Undefined { register } if register == column => self.return_address = ReturnAddress::None,
                I::Register { dest_register: register, .. }
                | I::ValOffset { register, .. }
                | I::Expression { register, .. }
                | I::ValExpression { register, .. }
                    if register == column =>
                {
                    self.return_address = ReturnAddress::Elsewhere;
                }
                _ => {}
            }
        }
    }

    fn kind(&self) -> FrameStart {
        match self.return_address {
            ReturnAddress::None => FrameStart::Outermost,
            ReturnAddress::OnTop if self.frame_base == Some((X86_64::RSP, 8)) => FrameStart::Called,
            _ => FrameStart::Inside,
        }
    }
}
