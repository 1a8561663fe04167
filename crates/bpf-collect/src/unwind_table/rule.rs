//! One rule: how to find the caller's registers from a frame's, in the form that the kernel's walk reads.
use gimli::{
    CfaRule, CommonInformationEntry, Encoding, EndianSlice, LittleEndian, Operation, Register, RegisterRule,
    UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

use super::layout;

/// Words below the CFA at which a function's prologue saves rbp.
const FRAME_POINTER_SAVED: u8 = 2;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// A rule, packed: see `unwind_abi.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rule(pub u64);

impl Rule {
    /// Nothing is known of the code: the walk tries the frame pointer.
    pub const FRAME_POINTER: Self = Self(layout::FRAME_POINTER as u64);
    /// The call chain ends.
    pub const END: Self = Self(layout::END as u64);
    /// A rule that the walk cannot follow.
    pub const UNSUPPORTED: Self = Self(layout::UNSUPPORTED as u64);
    /// The frame that the kernel made for a signal handler.
    pub const SIGNAL: Self = Self(layout::SIGNAL as u64);

    /// A linkage stub: the return address is on top of the stack, no register is saved.
    pub const STUB: Self = Self::new(layout::CFA_SP, 8, layout::SAVED_SAME, (layout::SAVED_SAME, layout::BASE_CFA));

    /// The caller is on another stack, where the frame pointer leads: code that switches stacks.
    pub const OTHER_STACK: Self =
        Self::new(layout::OTHER_STACK, 16, FRAME_POINTER_SAVED, (layout::SAVED_SAME, layout::BASE_CFA));

    /// A frame of `depth` bytes below the return address, in code that saves the frame pointer on top of each frame.
    pub const fn of_depth(depth: i32) -> Self {
        let bp = if depth == 0 { layout::SAVED_SAME } else { FRAME_POINTER_SAVED };
        Self::new(layout::CFA_SP, depth + 8, bp, (layout::SAVED_SAME, layout::BASE_CFA))
    }

    /// Packs a rule of its parts: `kind`, its `offset`, where rbp and rbx are saved.
    pub const fn new(kind: u8, offset: i32, bp: u8, (bx, bx_base): (u8, u8)) -> Self {
        let [a, b, c, d] = offset.to_le_bytes();
        Self(u64::from_le_bytes([kind, bp, bx, bx_base, a, b, c, d]))
    }

    /// Packs a row of a frame table. What the walk cannot follow becomes [`Rule::UNSUPPORTED`].
    pub fn of_row<'a, S>(row: &UnwindTableRow<usize>, cie: &CommonInformationEntry<Slice<'a>>, section: &S) -> Self
    where
        S: UnwindSection<Slice<'a>>,
    {
        if cie.is_signal_trampoline() {
            return Self::SIGNAL;
        }
        let reader = RowReader { row, section, encoding: cie.encoding() };
        reader.rule(cie.return_address_register()).unwrap_or(Self::UNSUPPORTED)
    }
}

struct RowReader<'r, S> {
    row: &'r UnwindTableRow<usize>,
    section: &'r S,
    encoding: Encoding,
}

impl<'a, S: UnwindSection<Slice<'a>>> RowReader<'_, S> {
    fn rule(&self, return_address: Register) -> Option<Rule> {
        let bx = self.saved_bx();
        match self.row.register(return_address) {
            None | Some(RegisterRule::Undefined) => return Some(Rule::END),
            Some(RegisterRule::Offset(-8)) => {}
            Some(RegisterRule::Expression(expression)) => {
                // The agent's trampolines: rbx points to a frame of their own, rsp is the caller's already.
                let (X86_64::RBX, offset) = self.register_offset(expression)? else { return None };
                let Some(RegisterRule::ValExpression(sp)) = self.row.register(X86_64::RSP) else { return None };
                let (X86_64::RSP, 0) = self.register_offset(sp)? else { return None };
                return Some(Rule::new(layout::RETURN_IN_BX, i32::try_from(offset).ok()?, self.saved_bp(), bx));
            }
            Some(_) => return None,
        }
        let (kind, offset) = self.cfa()?;
        Some(Rule::new(kind, offset, self.saved_bp(), bx))
    }

    fn cfa(&self) -> Option<(u8, i32)> {
        match *self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let kind = match register {
                    X86_64::RSP => layout::CFA_SP,
                    X86_64::RBP => layout::CFA_BP,
                    X86_64::RBX => layout::CFA_BX,
                    _ => return None,
                };
                Some((kind, i32::try_from(offset).ok()?))
            }
            CfaRule::Expression(expression) => {
                let operations = self.operations(expression)?;
                linkage_entry(&operations).or_else(|| memory_at_register(&operations))
            }
        }
    }

    fn saved_bp(&self) -> u8 {
        match self.row.register(X86_64::RBP) {
            None | Some(RegisterRule::SameValue) => layout::SAVED_SAME,
            Some(RegisterRule::Offset(offset)) => below(offset),
            Some(RegisterRule::Expression(expression)) => match self.register_offset(expression) {
                Some((X86_64::RBP, 0)) => layout::SAVED_AT_BASE,
                _ => layout::SAVED_UNKNOWN,
            },
            Some(_) => layout::SAVED_UNKNOWN,
        }
    }

    fn saved_bx(&self) -> (u8, u8) {
        match self.row.register(X86_64::RBX) {
            None | Some(RegisterRule::SameValue) => (layout::SAVED_SAME, layout::BASE_CFA),
            Some(RegisterRule::Offset(offset)) => (below(offset), layout::BASE_CFA),
            Some(RegisterRule::Expression(expression)) => match self.register_offset(expression) {
                Some((X86_64::RBP, offset)) => (below(offset), layout::BASE_BP),
                Some((X86_64::RBX, offset)) => (below(-offset), layout::BASE_BX),
                _ => (layout::SAVED_UNKNOWN, layout::BASE_CFA),
            },
            Some(_) => (layout::SAVED_UNKNOWN, layout::BASE_CFA),
        }
    }

    fn operations(&self, expression: UnwindExpression<usize>) -> Option<Vec<Operation<Slice<'a>>>> {
        let mut read = expression.get(self.section).ok()?.operations(self.encoding);
        let mut operations = Vec::with_capacity(8);
        while let Some(operation) = read.next().ok()? {
            operations.push(operation);
        }
        Some(operations)
    }

    fn register_offset(&self, expression: UnwindExpression<usize>) -> Option<(Register, i64)> {
        match *self.operations(expression)? {
            [Operation::RegisterOffset { register, offset, .. }] => Some((register, offset)),
            _ => None,
        }
    }
}

/// How many words below its base a register is saved.
fn below(offset: i64) -> u8 {
    match offset {
        0 => layout::SAVED_AT_BASE,
        _ if offset % 8 == 0 && (1..=253).contains(&(offset / -8)) => (offset / -8) as u8,
        _ => layout::SAVED_UNKNOWN,
    }
}

/// `*(register + offset) [+ constant]`: functions that align their stack, and some assembly.
fn memory_at_register(operations: &[Operation<Slice<'_>>]) -> Option<(u8, i32)> {
    let (register, offset, added) = match *operations {
        [Operation::RegisterOffset { register, offset, .. }, Operation::Deref { size: 8, space: false, .. }] => {
            (register, offset, 0)
        }
        [
            Operation::RegisterOffset { register, offset, .. },
            Operation::Deref { size: 8, space: false, .. },
            Operation::PlusConstant { value },
        ] => (register, offset, value),
        _ => return None,
    };
    let kind = match register {
        X86_64::RSP => layout::CFA_AT_SP,
        X86_64::RBP => layout::CFA_AT_BP,
        _ => return None,
    };
    let offset = i32::try_from(offset).ok().filter(|offset| (-(1 << 23)..1 << 23).contains(offset))?;
    let added = u8::try_from(added).ok()?;
    Some((kind, offset & 0xff_ffff | i32::from(added) << 24))
}

/// What linkers write for the linkage table: `rsp + 8 + ((rip & 15) >= n) * 8`.
fn linkage_entry(operations: &[Operation<Slice<'_>>]) -> Option<(u8, i32)> {
    let [
        Operation::RegisterOffset { register: X86_64::RSP, offset: 8, .. },
        Operation::RegisterOffset { register: X86_64::RA, offset: 0, .. },
        mask,
        Operation::And,
        from,
        Operation::Ge,
        three,
        Operation::Shl,
        Operation::Plus,
    ] = operations
    else {
        return None;
    };
    let (15, from, 3) = (constant(mask)?, constant(from)?, constant(three)?) else { return None };
    Some((layout::CFA_PLT, i32::try_from(from).ok()?))
}

fn constant(operation: &Operation<Slice<'_>>) -> Option<u64> {
    match *operation {
        Operation::UnsignedConstant { value } => Some(value),
        Operation::SignedConstant { value } => u64::try_from(value).ok(),
        _ => None,
    }
}
