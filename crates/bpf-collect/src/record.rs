//! Records of the ring buffer, as bpf/sched_abi.h lays them out.

use std::ffi::c_char;

use crate::plain::read;
use crate::skeleton::types;

pub use types::{
    sched_brief, sched_lost, sched_object, sched_preempted, sched_sample, sched_task, sched_unknown_code, sched_wait,
};

/// `enum sched_record_type`.
pub mod record_type {
    /// [`super::sched_task`]
    pub const TASK: u32 = 1;
    /// [`super::Stack`]
    pub const STACK: u32 = 2;
    /// [`super::sched_wait`]
    pub const WAIT: u32 = 3;
    /// [`super::sched_sample`]
    pub const SAMPLE: u32 = 4;
    /// [`super::sched_unknown_code`]
    pub const UNKNOWN_CODE: u32 = 5;
    /// [`super::sched_brief`]
    pub const BRIEF: u32 = 6;
    /// [`super::sched_preempted`]
    pub const PREEMPTED: u32 = 7;
}

/// `enum sched_task_event`.
pub mod task_event {
    /// Was there when the recording began.
    pub const SEEDED: u32 = 0;
    /// Made during the recording.
    pub const BORN: u32 = 1;
    /// Runs another program now.
    pub const EXEC: u32 = 2;
    /// Ended: totals are final.
    pub const EXIT: u32 = 3;
}

/// `enum sched_stack_flags`.
pub mod stack_flags {
    /// Reached the end of the call chain.
    pub const COMPLETE: u32 = 1;
    /// More frames than were wanted.
    pub const TRUNCATED: u32 = 2;
    /// Stopped at code without a table.
    pub const UNKNOWN_CODE: u32 = 4;
    /// Stopped at memory that is not resident.
    pub const UNREADABLE: u32 = 8;
}

/// `enum sched_object_type`.
pub mod object_type {
    /// None, or not known.
    pub const NONE: u32 = 0;
    /// Regular file, directory, block device.
    pub const FILE: u32 = 1;
    /// Pipe or FIFO.
    pub const PIPE: u32 = 2;
    /// Socket over IPv4.
    pub const SOCKET_INET: u32 = 3;
    /// Socket over IPv6.
    pub const SOCKET_INET6: u32 = 4;
    /// Unix socket.
    pub const SOCKET_UNIX: u32 = 5;
    /// Any other socket.
    pub const SOCKET_OTHER: u32 = 6;
    /// eventfd, timerfd, epoll and their like.
    pub const ANONYMOUS: u32 = 7;
    /// Character device, terminal.
    pub const DEVICE: u32 = 8;
}

/// `enum sched_waker_context`.
pub mod waker_context {
    /// Not seen.
    pub const NONE: u32 = 0;
    /// A thread that is followed.
    pub const TASK: u32 = 1;
    /// A thread outside of the application.
    pub const OTHER_TASK: u32 = 2;
    /// A device, a timer, the network.
    pub const INTERRUPT: u32 = 3;
}

/// Binary digits after the point of criticality in records.
pub const FRACTION_BITS: u32 = 16;

/// One record.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant)] // lives on the stack of the loop that consumes the ring
pub enum Record<'a> {
    /// A thread came, changed or went.
    Task(sched_task),
    /// A stack that was not seen before.
    Stack(Stack<'a>),
    /// A thread was blocked and is active again.
    Wait(sched_wait),
    /// A timer's sample of a running thread.
    Sample(sched_sample),
    /// Unwinding met an address that no table covers.
    UnknownCode(sched_unknown_code),
    /// Short waits of a thread that are not told one by one.
    Brief(sched_brief),
    /// A thread lost its CPU, could have gone on, and got one again.
    Preempted(sched_preempted),
}

/// A call stack as addresses.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    /// What other records name it by.
    pub id: u64,
    /// Process, as the initial pid namespace numbers it.
    pub tgid: i32,
    /// [`stack_flags`].
    pub flags: u32,
    kernel: &'a [[u8; 8]],
    user: &'a [[u8; 8]],
}

impl<'a> Stack<'a> {
    /// A stack of addresses in the machine's byte order, each half leaf first.
    pub fn new(id: u64, tgid: i32, flags: u32, kernel: &'a [[u8; 8]], user: &'a [[u8; 8]]) -> Self {
        Self { id, tgid, flags, kernel, user }
    }

    /// Addresses in the kernel, leaf first.
    pub fn kernel(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + use<'a> {
        self.kernel.iter().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// Addresses in the program, leaf first; all but the first are return addresses.
    pub fn user(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + use<'a> {
        self.user.iter().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

/// A record that this version does not know or that is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record of type {kind} with {bytes} bytes is not as bpf/sched_abi.h has it")]
pub struct MalformedRecord {
    /// Its type, 0 if it is too short to have one.
    pub kind: u32,
    /// Its size.
    pub bytes: usize,
}

/// Where a stack's frames begin.
const STACK_HEAD: usize = std::mem::offset_of!(types::sched_stack, frames);

fn stack(bytes: &[u8]) -> Option<Stack<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(usize::from(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)));
    let at = std::mem::offset_of!(types::sched_stack, id);
    let id = u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?);
    let kernel = half(std::mem::offset_of!(types::sched_stack, kernel_frames))?;
    let user = half(std::mem::offset_of!(types::sched_stack, user_frames))?;
    let (frames, _) = bytes.get(STACK_HEAD..)?.as_chunks::<8>();
    let (kernel, rest) = frames.split_at_checked(kernel)?;
    Some(Stack {
        id,
        tgid: word(std::mem::offset_of!(types::sched_stack, tgid))?.cast_signed(),
        flags: word(std::mem::offset_of!(types::sched_stack, flags))?,
        kernel,
        user: rest.get(..user)?,
    })
}

impl<'a> Record<'a> {
    /// Reads the bytes of one record of the ring.
    ///
    /// # Errors
    /// If its type is unknown or it is shorter than its type says.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, MalformedRecord> {
        let kind = bytes.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        let record = match kind {
            record_type::TASK => read(bytes).map(Self::Task),
            record_type::STACK => stack(bytes).map(Self::Stack),
            record_type::WAIT => read(bytes).map(Self::Wait),
            record_type::SAMPLE => read(bytes).map(Self::Sample),
            record_type::UNKNOWN_CODE => read(bytes).map(Self::UnknownCode),
            record_type::BRIEF => read(bytes).map(Self::Brief),
            record_type::PREEMPTED => read(bytes).map(Self::Preempted),
            _ => None,
        };
        record.ok_or(MalformedRecord { kind, bytes: bytes.len() })
    }
}

/// A name as the kernel keeps it: up to its zero.
pub fn text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_split_into_their_halves() {
        let mut bytes = vec![0_u8; 1]; // misaligned on purpose
        bytes.extend(record_type::STACK.to_ne_bytes());
        bytes.extend(stack_flags::COMPLETE.to_ne_bytes());
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend((-5_i32).to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        for frame in [10_u64, 20, 30] {
            bytes.extend(frame.to_ne_bytes());
        }
        let Ok(Record::Stack(stack)) = Record::decode(&bytes[1..]) else { panic!("not a stack") };
        assert_eq!((stack.id, stack.tgid, stack.flags), (77, -5, stack_flags::COMPLETE));
        assert_eq!(stack.kernel().collect::<Vec<_>>(), [10]);
        assert_eq!(stack.user().collect::<Vec<_>>(), [20, 30]);
        let cut = Record::decode(&bytes[1..bytes.len() - 1]).unwrap_err();
        assert_eq!(cut, MalformedRecord { kind: 2, bytes: bytes.len() - 2 });
    }

    #[test]
    fn short_and_unknown_records_are_refused() {
        for kind in 0..9_u32 {
            for size in 0..600 {
                let mut bytes = vec![0_u8; size];
                bytes.iter_mut().zip(kind.to_ne_bytes()).for_each(|(byte, value)| *byte = value);
                let least = match kind {
                    record_type::TASK => size_of::<sched_task>(),
                    record_type::STACK => STACK_HEAD,
                    record_type::WAIT => size_of::<sched_wait>(),
                    record_type::SAMPLE => size_of::<sched_sample>(),
                    record_type::UNKNOWN_CODE => size_of::<sched_unknown_code>(),
                    record_type::BRIEF => size_of::<sched_brief>(),
                    record_type::PREEMPTED => size_of::<sched_preempted>(),
                    _ => usize::MAX,
                };
                assert_eq!(Record::decode(&bytes).is_ok(), size >= least, "type {kind}, {size} bytes");
            }
        }
    }

    #[test]
    fn names_end_at_their_zero() {
        let name = [b'a' as c_char, b'b' as c_char, 0, b'c' as c_char];
        assert_eq!(text(&name), "ab");
        assert_eq!(text(&name[..2]), "ab");
    }
}
