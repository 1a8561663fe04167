//! Where a held thread makes system calls for us: an instruction `syscall`, and code behind it by which the thread gets its
//! registers and its signal mask back by itself. That code runs only if its tracer dies meanwhile, as by SIGKILL: the thread then
//! goes on from where it stands.
//!
//! Both are written behind the end of a segment of code, where the last page holds nothing; zeros stand there again afterwards.

use object::LittleEndian;
use object::elf::{FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::address_space::Mapping;
use crate::claim::Claim;
use crate::memory::Memory;
use crate::process::{is_gone, read_text};
use crate::ptrace::{Registers, no_registers};
use crate::target::Target;

const PAGE: u64 = 4096;
/// Bytes of code, and of the words behind it.
const CODE: usize = 112;
/// The mask of blocked signals, a word for each of [`CLOBBERED`], where the thread goes on, and its number.
const WORDS: usize = 3 + CLOBBERED.len();
/// Which of them the thread jumps to.
const GOES_ON: usize = WORDS - 2;
/// Bytes of a call site, whose end is the end of a page.
pub(crate) const SIZE: usize = CODE + 8 * WORDS;
/// Numbers of the registers that a system call reads or changes: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CLOBBERED: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// A register's number: bits that name it in an instruction.
const LOW: u8 = 7;

/// Address of a call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallSite(u64);

impl CallSite {
    /// Finds room for one. None if no segment of code leaves any.
    pub fn find(target: &Target) -> Option<CallSite> {
        let mappings = target.mappings().ok()?;
        let memory = target.memory();
        let mut left_behind = None;
        for site in Self::all(memory, &mappings) {
            match site.look(memory) {
                Some(Room::Free) => return Some(site),
                Some(Room::LeftBehind { tid }) if left_behind.is_none() && site.was_left(target.pid(), tid) => {
                    left_behind = Some(site);
                }
                Some(Room::LeftBehind { .. }) | None => {}
            }
        }
        left_behind
    }

    /// Address of [`SIZE`] bytes of executable memory that hold nothing. None if no segment of code leaves any.
    pub fn unused(memory: &Memory, mappings: &[Mapping]) -> Option<u64> {
        Self::all(memory, mappings).find(|site| site.look(memory) == Some(Room::Free)).map(|site| site.0)
    }

    /// Where one could be: behind the ends of segments of code.
    fn all<'a>(memory: &'a Memory, mappings: &'a [Mapping]) -> impl Iterator<Item = CallSite> + 'a {
        let mut code: Vec<&Mapping> = mappings.iter().filter(|m| m.executable && m.readable && !m.shared).collect();
        // The vDSO first: a library may be unloaded while its place is remembered.
        code.sort_by_key(|mapping| (mapping.path.as_os_str() != "[vdso]", mapping.start));
        code.into_iter().filter_map(move |m| code_end(memory, m, mappings).map(|end| (m.end, end))).flat_map(
            |(page_end, code_end)| {
                let sites = (1..=PAGE / SIZE as u64).map(move |number| CallSite(page_end - number * SIZE as u64));
                sites.take_while(move |site| site.0 >= code_end)
            },
        )
    }

    /// What is there. None: something of others.
    pub fn look(self, memory: &Memory) -> Option<Room> {
        let mut found = [0; SIZE];
        memory.read(self.0, &mut found).ok()?;
        if found == [0; SIZE] {
            return Some(Room::Free);
        }
        let tid = i32::from_le_bytes(found[SIZE - 8..][..4].try_into().unwrap_or_default());
        (found[..CODE] == bytes(0, &no_registers(), 0)[..CODE]).then_some(Room::LeftBehind { tid })
    }

    /// Whether the thread that it was for has ended, or stands elsewhere. On a busy machine a thread whose tracer died may not
    /// have run since: with another one's registers in its place, it would go on as that thread.
    fn was_left(self, pid: i32, tid: i32) -> bool {
        match read_text(format!("/proc/{pid}/task/{tid}/syscall")) {
            Ok(text) => instruction_of(&text).is_some_and(|at| !(self.0..self.0 + SIZE as u64).contains(&at)),
            Err(error) => is_gone(&error),
        }
    }

    /// Writes it, for a thread that has these registers and blocks these signals. None if it can't be written.
    pub fn occupy(self, memory: &Memory, tid: i32, registers: &Registers, mask: u64, claim: Claim) -> Option<Occupied> {
        memory.write(self.0, &bytes(tid, registers, mask)).ok()?;
        Some(Occupied { site: self, _claim: claim })
    }
}

/// A call site that is written. Nobody else writes one meanwhile.
pub(crate) struct Occupied {
    site: CallSite,
    _claim: Claim,
}

impl Occupied {
    /// Address of its instruction `syscall`.
    pub fn address(&self) -> u64 {
        self.site.0
    }

    /// Takes it away.
    pub fn clear(self, memory: &Memory) {
        let _ = memory.write(self.site.0, &[0; SIZE]);
    }
}

/// Where the code in `mapping` ends, by the program headers of its file. None if they don't say, or not in its last page.
fn code_end(memory: &Memory, mapping: &Mapping, all: &[Mapping]) -> Option<u64> {
    let of_file = |m: &&Mapping| (m.device, m.inode, &m.path) == (mapping.device, mapping.inode, &mapping.path);
    let head = all.iter().take_while(|m| m.start <= mapping.start).filter(of_file).filter(|m| m.offset == 0).last()?;
    let mut page = vec![0; PAGE as usize];
    memory.read(head.start, &mut page).ok()?;
    let endian = LittleEndian;
    let headers = FileHeader64::<LittleEndian>::parse(&*page).ok()?.program_headers(endian, &*page).ok()?;
    let loaded = || headers.iter().filter(|header| header.p_type(endian) == PT_LOAD);
    let first = loaded().find(|header| header.p_offset(endian) < PAGE)?;
    let base = head.start.wrapping_sub(first.p_vaddr(endian) / PAGE * PAGE);
    let end = |header: &object::elf::ProgramHeader64<LittleEndian>| {
        base.wrapping_add(header.p_vaddr(endian)).wrapping_add(header.p_memsz(endian))
    };
    let mut ends = loaded().filter(|header| header.p_flags(endian).contains(PF_X)).map(end);
    ends.find(|end| (mapping.end - PAGE..=mapping.end).contains(end))
}

/// The next instruction in a file `/proc/TID/syscall`, its last number. None of a thread that is runnable.
fn instruction_of(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_end().rsplit_once(" 0x")?.1, 16).ok()
}

/// What is found where a call site could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing.
    Free,
    /// The call site that a tracer who was killed had for this thread.
    LeftBehind { tid: i32 },
}

/// A call site for a thread that has these registers and blocks these signals.
fn bytes(tid: i32, registers: &Registers, mask: u64) -> [u8; SIZE] {
    let (at, rax) = goes_on(registers);
    let mut words = vec![mask, rax, registers.rcx, registers.rdx, registers.rsi, registers.rdi];
    words.extend([registers.r8, registers.r9, registers.r10, registers.r11, at, tid as u64]);
    let mut code = vec![0x0f, 0x05]; // syscall
    // rt_sigprocmask(SIG_SETMASK, mask, NULL, 8). Nothing here changes flags, or uses the stack.
    code.extend([0xb8, libc::SYS_rt_sigprocmask as u8, 0, 0, 0]); // mov eax, 14
    code.extend([0xbf, libc::SIG_SETMASK as u8, 0, 0, 0]); // mov edi, 2
    push_relative(&mut code, [0x48, 0x8d, 6], 0); // lea rsi, [mask]
    code.extend([0xba, 0, 0, 0, 0]); // mov edx, 0
    code.extend([0x41, 0xba, 8, 0, 0, 0]); // mov r10d, 8
    code.extend([0x0f, 0x05]); // syscall
    for (index, register) in CLOBBERED.into_iter().enumerate() {
        // REX.W, and REX.R for those from r8 on.
        let prefix = 0x48 | u8::from(register > LOW) << 2;
        push_relative(&mut code, [prefix, 0x8b, register & LOW], 1 + index); // mov register, [word]
    }
    code.extend([0xff, 0x25]); // jmp [word]
    push_distance(&mut code, GOES_ON);
    let mut bytes = [0; SIZE];
    bytes[..code.len()].copy_from_slice(&code);
    for (place, word) in bytes[CODE..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// An instruction whose operands are a register and one of the words.
fn push_relative(code: &mut Vec<u8>, [prefix, operation, register]: [u8; 3], word: usize) {
    code.extend([prefix, operation, register << 3 | 5]);
    push_distance(code, word);
}

/// How far a word is from the end of an instruction that ends with that distance.
fn push_distance(code: &mut Vec<u8>, word: usize) {
    let distance = CODE + 8 * word - (code.len() + 4);
    code.extend((distance as u32).to_le_bytes());
}

/// Where a thread goes on, and with which rax: the kernel's marks of interrupted calls (`handle_signal` of
/// arch/x86/kernel/signal.c) start them again here, too.
fn goes_on(registers: &Registers) -> (u64, u64) {
    const START_AGAIN: [i64; 3] = [-512, -513, -514];
    const RESTART_BLOCK: i64 = -516;
    let again = registers.rip.wrapping_sub(2);
    match registers.rax as i64 {
        _ if (registers.orig_rax as i64) < 0 => (registers.rip, registers.rax),
        mark if START_AGAIN.contains(&mark) => (again, registers.orig_rax),
        RESTART_BLOCK => (again, libc::SYS_restart_syscall as u64),
        _ => (registers.rip, registers.rax),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_on_as_the_kernel_would_let_it() {
        let after = |rax: i64, orig_rax: i64| {
            goes_on(&Registers { rip: 0x1002, rax: rax as u64, orig_rax: orig_rax as u64, ..no_registers() })
        };
        assert_eq!(after(-514, -1), (0x1002, -514i64 as u64), "not in a call");
        assert_eq!(after(-514, libc::SYS_pause), (0x1000, libc::SYS_pause as u64));
        assert_eq!(after(-516, libc::SYS_nanosleep), (0x1000, libc::SYS_restart_syscall as u64));
        assert_eq!(after(-4, libc::SYS_pause), (0x1002, -4i64 as u64), "EINTR stands");
    }

    #[test]
    fn code_fits_before_its_words() {
        let mask = 0x1234_5678_9abc_def0;
        let bytes = bytes(4711, &Registers { rip: 0xdead, orig_rax: u64::MAX, ..no_registers() }, mask);
        assert_eq!(bytes[CODE..CODE + 8], mask.to_le_bytes());
        assert_eq!(bytes[SIZE - 16..SIZE - 8], 0xdeadu64.to_le_bytes());
        assert_eq!(bytes[SIZE - 8..], 4711u64.to_le_bytes());
        let jump = bytes[..CODE].windows(2).rposition(|pair| pair == [0xff, 0x25]).unwrap();
        assert_eq!(u32::from_le_bytes(bytes[jump + 2..][..4].try_into().unwrap()) as usize, SIZE - 16 - (jump + 6));
    }

    #[test]
    fn only_a_thread_that_stands_somewhere_has_an_instruction() {
        assert_eq!(instruction_of("running\n"), None);
        assert_eq!(instruction_of("-1 0x7ffd1ca661e0 0x7f5e026b62ec\n"), Some(0x7f5e_026b_62ec));
        let read = "0 0x0 0x561115864730 0x1000 0x0 0x0 0x0 0x7ffd1ca661e0 0x7f5e026b62ec\n";
        assert_eq!(instruction_of(read), Some(0x7f5e_026b_62ec));
    }
}
