//! How to get from a function to its caller at one instruction: the unwind tables' row, looked up through the header
//! that unwinders use.

use gimli::{
    CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, LittleEndian, Operation, ParsedEhFrameHdr, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, X86_64,
};

use crate::Object;

type Bytes<'a> = gimli::EndianSlice<'a, LittleEndian>;

/// General registers by their DWARF numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
pub const FRAME_REGISTERS: usize = 16;

/// Where a frame's base (the stack pointer before the call) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameBase {
    /// A register's value plus this.
    Register {
        /// DWARF number.
        register: u16,
        /// Bytes.
        offset: i64,
    },
    /// The word at a register's value plus `offset`, plus `added`.
    Memory {
        /// DWARF number.
        register: u16,
        /// Bytes.
        offset: i64,
        /// Bytes.
        added: i64,
    },
    /// An entry of the linkage table: rsp plus 8, and 8 more from this byte of the entry's sixteen on.
    Linkage {
        /// Where the entry has pushed its number.
        from: u64,
    },
}

/// What has become of a register of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SavedRegister {
    /// It has its value still.
    #[default]
    Same,
    /// In memory at the frame's base plus this.
    AtBase(i64),
    /// In memory at a register's value plus this.
    AtRegister(u16, i64),
    /// Lost.
    Unknown,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRule {
    /// The frame's base. The return address is the word below it.
    pub base: FrameBase,
    /// The return address is at a register's value plus this instead, and rsp is the caller's already: so it is in the
    /// agent's trampolines, which keep it in a frame of their own.
    pub kept: Option<(u16, i64)>,
    /// The caller's registers.
    pub saved: [SavedRegister; FRAME_REGISTERS],
    /// There is no caller.
    pub outermost: bool,
    /// First address of the code that the description is for.
    pub start: u64,
}

impl Object {
    /// The row for the instruction at `vaddr`; `None` where there is none, or where it says what can't be told this way:
    /// a return address elsewhere than below the base (a signal handler's frame), an expression of some other form.
    pub fn frame_rule(&self, vaddr: u64) -> Option<FrameRule> {
        let (frames_at, bases) = self.frame_section()?;
        let bases = bases.set_eh_frame(frames_at);
        let frames = EhFrame::new(self.bytes_at(frames_at)?, LittleEndian);
        let header = self.eh_frame_header.and_then(|(at, _)| self.bytes_at(at)).and_then(|bytes| {
            let header: ParsedEhFrameHdr<Bytes<'_>> = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
            Some(header)
        });
        let fde = match header.as_ref().and_then(ParsedEhFrameHdr::table) {
            Some(table) => {
                // Step by step: a damaged table may lead to before the frames.
                let found = table.lookup(vaddr, &bases).ok()?.direct().ok()?;
                let offset = EhFrameOffset(usize::try_from(found.checked_sub(frames_at)?).ok()?);
                let fde = frames.fde_from_offset(&bases, offset, EhFrame::cie_from_offset);
                fde.and_then(
                    |fde| if fde.contains(vaddr) { Ok(fde) } else { Err(gimli::Error::NoUnwindInfoForAddress) },
                )
            }
            // Static programs: one after the other.
            None => frames.fde_for_address(&bases, vaddr, EhFrame::cie_from_offset),
        };
        let fde = fde.ok()?;
        if fde.is_signal_trampoline() {
            return None;
        }
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&frames, &bases, &mut context, vaddr).ok()?;
        let encoding = fde.cie().encoding();
        let operations = |expression: &UnwindExpression<usize>| -> Option<Vec<Operation<Bytes<'_>>>> {
            let mut read = expression.get(&frames).ok()?.operations(encoding);
            let mut all = Vec::new();
            while let Some(operation) = read.next().ok()? {
                all.push(operation);
            }
            Some(all)
        };
        let base = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                FrameBase::Register { register: register.0, offset: *offset }
            }
            CfaRule::Expression(expression) => match operations(expression)?[..] {
                [
                    Operation::RegisterOffset { register, offset, .. },
                    Operation::Deref { size: 8, space: false, .. },
                ] => FrameBase::Memory { register: register.0, offset, added: 0 },
                [
                    Operation::RegisterOffset { register, offset, .. },
                    Operation::Deref { size: 8, space: false, .. },
                    Operation::PlusConstant { value },
                ] => FrameBase::Memory { register: register.0, offset, added: i64::try_from(value).ok()? },
                ref other => FrameBase::Linkage { from: linkage(other)? },
            },
        };
        let (outermost, kept) = match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(-8)) => (false, None),
            Some(RegisterRule::Undefined) => (true, None),
            Some(RegisterRule::Expression(expression)) => {
                let Some(RegisterRule::ValExpression(sp)) = row.register(X86_64::RSP) else { return None };
                match (operations(&expression)?.as_slice(), operations(&sp)?.as_slice()) {
                    (
                        &[Operation::RegisterOffset { register, offset, .. }],
                        &[Operation::RegisterOffset { register: X86_64::RSP, offset: 0, .. }],
                    ) => (false, Some((register.0, offset))),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let mut saved = [SavedRegister::Same; FRAME_REGISTERS];
        for (number, saved) in saved.iter_mut().enumerate() {
            *saved = match row.register(Register(number as u16)) {
                None | Some(RegisterRule::SameValue) => SavedRegister::Same,
                Some(RegisterRule::Offset(offset)) => SavedRegister::AtBase(offset),
                Some(RegisterRule::Expression(expression)) => match operations(&expression).as_deref() {
                    Some([Operation::RegisterOffset { register, offset, .. }]) => {
                        SavedRegister::AtRegister(register.0, *offset)
                    }
                    _ => SavedRegister::Unknown,
                },
                Some(_) => SavedRegister::Unknown,
            };
        }
        Some(FrameRule { base, kept, saved, outermost, start: fde.initial_address() })
    }
}

/// What linkers write for the linkage table: `rsp + 8 + ((rip & 15) >= from) * 8`.
fn linkage(operations: &[Operation<Bytes<'_>>]) -> Option<u64> {
    let [
        Operation::RegisterOffset { register: X86_64::RSP, offset: 8, .. },
        Operation::RegisterOffset { register: X86_64::RA, offset: 0, .. },
        mask,
        Operation::And,
        from,
        Operation::Ge,
        shift,
        Operation::Shl,
        Operation::Plus,
    ] = operations
    else {
        return None;
    };
    let constant = |operation: &Operation<Bytes<'_>>| match *operation {
        Operation::UnsignedConstant { value } => Some(value),
        Operation::SignedConstant { value } => u64::try_from(value).ok(),
        _ => None,
    };
    let (15, from, 3) = (constant(mask)?, constant(from)?, constant(shift)?) else { return None };
    Some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a function's first instruction the return address is on top of the stack, whatever the function.
    #[test]
    fn every_function_begins_with_its_return_address_on_top() {
        let object = Object::open(std::env::current_exe().unwrap()).unwrap();
        let mut looked = 0;
        for entry in object.frame_entries().iter().filter(|e| e.start == crate::FrameStart::Called).step_by(37) {
            let rule = object.frame_rule(entry.range.start).unwrap();
            assert_eq!(rule.base, FrameBase::Register { register: X86_64::RSP.0, offset: 8 });
            assert_eq!((rule.start, rule.outermost), (entry.range.start, false));
            looked += 1;
        }
        assert!(looked > 50, "{looked}");
        assert_eq!(object.frame_rule(1), None);
    }
}
