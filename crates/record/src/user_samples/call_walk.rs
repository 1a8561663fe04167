//! One thread's calls from copies of its registers and of its stack, by the unwind tables of its code. A register that is
//! not known ends the walk only where a table asks for it.

use transect_binary_info::{FRAME_REGISTERS, FrameBase, FrameRule, SavedRegister};
use transect_bpf_collect::thread_samples::Registers;

/// DWARF numbers.
const RBX: usize = 3;
const RBP: usize = 6;
const RSP: usize = 7;
/// Frames that are followed at most.
const MOST_FRAMES: usize = 512;
/// Between two frame pointers on a stack below, bytes: what is farther is hardly one.
const LARGEST_FRAME: u64 = 1 << 16;
/// `mov rax, 15; syscall`: a signal handler returns to it.
const SIGNAL_RETURN: [u8; 8] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f];
/// Behind a signal handler's return address: flags, link and stack of the context, then the registers of the
/// interrupted code, as `sigcontext` has them: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
const SIGNAL_REGISTERS: u64 = 40;
const SIGNAL_ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7];

/// Registers of a thread, as far as they are known, by their DWARF numbers.
#[derive(Debug, Clone, Copy)]
pub struct Values {
    ip: u64,
    general: [Option<u64>; FRAME_REGISTERS],
}

impl Values {
    /// Of a thread in a system call: the kernel tells no more.
    pub fn of_blocked(ip: u64, sp: u64) -> Self {
        let mut general = [None; FRAME_REGISTERS];
        general[RSP] = Some(sp);
        Self { ip, general }
    }

    /// Of a sample: the registers that most tables ask for.
    pub fn of_sample(registers: Registers) -> Self {
        let mut values = Self::of_blocked(registers.ip, registers.sp);
        (values.general[RBP], values.general[RBX]) = (Some(registers.bp), Some(registers.bx));
        values
    }
}

/// What a walk needs of the process.
pub trait Process {
    /// The rule for the instruction at an address; `None` where no table has one.
    fn rule(&mut self, address: u64) -> Option<FrameRule>;
    /// Whether an address is in a program's or library's code.
    fn is_code(&self, address: u64) -> bool;
    /// A word of its memory.
    fn word(&mut self, address: u64) -> Option<u64>;
    /// Address of the agent's frame for the call whose return address was in a slot of the stack.
    fn agent_frame(&mut self, slot: u64) -> Option<u64>;
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The instruction, or where it returns to.
    pub address: u64,
    /// The latter.
    pub returns: bool,
}

/// A thread's calls, innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// As far as they could be followed.
    pub frames: Vec<Frame>,
    /// The outermost was reached.
    pub complete: bool,
    /// A register was asked for that is not known.
    pub lacks_register: bool,
}

/// The caller's registers, and whether it is called there (a signal's handler is not); `None`: there is no caller.
type Step = Result<Option<(Values, bool)>, Lost>;

/// The caller can't be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// For want of a register.
    Register,
    /// Memory can't be read, or no rule applies.
    Elsewhere,
}

/// Follows a thread's calls.
pub fn walk(values: Values, process: &mut impl Process) -> Walk {
    let mut found = Walk::default();
    let (mut values, mut returns) = (values, false);
    while found.frames.len() < MOST_FRAMES {
        found.frames.push(Frame { address: values.ip, returns });
        match step(&values, returns, process) {
            Ok(Some((next, after))) if next.ip != 0 => (values, returns) = (next, after),
            Ok(_) => {
                found.complete = true;
                break;
            }
            Err(lost) => {
                found.lacks_register = lost == Lost::Register;
                break;
            }
        }
    }
    found
}

fn step(values: &Values, returns: bool, process: &mut impl Process) -> Step {
    // A call may be the last instruction of its function.
    let at = values.ip - u64::from(returns && values.ip > 0);
    let Some(rule) = process.rule(at) else { return without_rule(values, returns, process) };
    if rule.outermost {
        return Ok(None);
    }
    Ok(Some((by_rule(values, at, &rule, process)?, true)))
}

fn by_rule(values: &Values, at: u64, rule: &FrameRule, process: &mut impl Process) -> Result<Values, Lost> {
    let value = |register: u16| values.general.get(usize::from(register)).copied().flatten().ok_or(Lost::Register);
    let sp = value(RSP as u16)?;
    let mut general = values.general;
    if let Some((register, offset)) = rule.kept {
        let frame = value(register).or_else(|lost| process.agent_frame(sp.wrapping_sub(8)).ok_or(lost))?;
        let ip = process.word(frame.wrapping_add_signed(offset)).ok_or(Lost::Elsewhere)?;
        for (general, saved) in general.iter_mut().zip(rule.saved) {
            if let SavedRegister::AtRegister(by, offset) = saved
                && by == register
            {
                *general = process.word(frame.wrapping_add_signed(offset));
            }
        }
        return Ok(Values { ip, general });
    }
    let base = match rule.base {
        FrameBase::Register { register, offset } => value(register)?.wrapping_add_signed(offset),
        FrameBase::Memory { register, offset, added } => process
            .word(value(register)?.wrapping_add_signed(offset))
            .ok_or(Lost::Elsewhere)?
            .wrapping_add_signed(added),
        FrameBase::Linkage { from } => sp.wrapping_add(if at & 15 >= from { 16 } else { 8 }),
    };
    // Stacks grow down: else the rule does not apply.
    if base <= sp || base % 8 != 0 {
        return Err(Lost::Elsewhere);
    }
    let ip = process.word(base - 8).ok_or(Lost::Elsewhere)?;
    for (register, (general, saved)) in general.iter_mut().zip(rule.saved).enumerate() {
        *general = match saved {
            SavedRegister::Same => values.general[register],
            SavedRegister::AtBase(offset) => process.word(base.wrapping_add_signed(offset)),
            SavedRegister::AtRegister(by, offset) => {
                value(by).ok().and_then(|value| process.word(value.wrapping_add_signed(offset)))
            }
            SavedRegister::Unknown => None,
        };
    }
    general[RSP] = Some(base);
    Ok(Values { ip, general })
}

/// Code without a table: where a signal handler returns to, code that keeps frame pointers, or a leaf.
fn without_rule(values: &Values, returns: bool, process: &mut impl Process) -> Step {
    let sp = values.general[RSP].ok_or(Lost::Register)?;
    if returns && process.word(values.ip) == Some(u64::from_le_bytes(SIGNAL_RETURN)) {
        return Ok(Some((interrupted(sp, process).ok_or(Lost::Elsewhere)?, false)));
    }
    let next = |general: [Option<u64>; FRAME_REGISTERS], base: u64, ip| {
        let mut general = general;
        general[RSP] = Some(base);
        Ok(Some((Values { ip, general }, true)))
    };
    // Who changes stacks, as Go does for its runtime, leaves rbp on the one that it came from, which may lie below.
    if let Some(bp) = values.general[RBP].filter(|bp| (*bp >= sp || returns) && bp % 8 == 0)
        && let (Some(outer), Some(ip)) = (process.word(bp), process.word(bp.wrapping_add(8)))
        && (process.is_code(ip) || ip == 0 && bp >= sp)
        && (bp >= sp || (bp + 16..bp + LARGEST_FRAME).contains(&outer))
    {
        let mut general = values.general;
        general[RBP] = Some(outer);
        return next(general, bp + 16, ip);
    }
    match process.word(sp).filter(|ip| !returns && process.is_code(*ip)) {
        Some(ip) => next(values.general, sp + 8, ip),
        None if values.general[RBP] == Some(0) => Ok(None),
        None if values.general[RBP].is_none() => Err(Lost::Register),
        None => Err(Lost::Elsewhere),
    }
}

/// The registers before a signal handler was called.
fn interrupted(context: u64, process: &mut impl Process) -> Option<Values> {
    let at = context + SIGNAL_REGISTERS;
    let mut general = [None; FRAME_REGISTERS];
    for (place, register) in (0..).zip(SIGNAL_ORDER) {
        general[register] = process.word(at + place * 8);
    }
    Some(Values { ip: process.word(at + 16 * 8)?, general })
}

#[cfg(test)]
#[path = "call_walk_tests.rs"]
mod tests;
