//! Which functions a function of the kernel calls, from the kernel's text as it lies in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

use super::kernel_functions::KernelFunctions;

/// Longer functions are looked at up to here.
const LONGEST: u64 = 1 << 20;

/// What a function calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// Begins of the functions that it calls or jumps to, in the order of its code, each once.
    pub direct: Vec<u64>,
    /// Instructions that call through a pointer, retpolines included: whom they call, samples or probes tell.
    pub indirect: Vec<u64>,
}

/// The running kernel's text (`/proc/kcore`).
#[derive(Debug)]
pub struct KernelText {
    file: File,
    /// Address, size, place in the file.
    pieces: Vec<(u64, u64, u64)>,
}

impl KernelText {
    /// Opens it. Must be called before privileges are given up.
    ///
    /// # Errors
    /// If it can't be read: it takes root (`cap_sys_rawio`), a kernel built with `CONFIG_PROC_KCORE`, and no lockdown of
    /// the level `confidentiality`.
    pub fn open() -> io::Result<Self> {
        let file = File::open("/proc/kcore")?;
        let invalid = |why: object::Error| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
        let headers = file.try_clone()?;
        let cache = ReadCache::new(headers);
        let header = FileHeader64::<Endianness>::parse(&cache).map_err(invalid)?;
        let endian = header.endian().map_err(invalid)?;
        let pieces = header.program_headers(endian, &cache).map_err(invalid)?.iter();
        let pieces = pieces
            .filter(|piece| piece.p_type(endian) == PT_LOAD)
            .map(|piece| (piece.p_vaddr(endian), piece.p_memsz(endian), piece.p_offset(endian)))
            .collect();
        Ok(Self { file, pieces })
    }

    /// The bytes of a function's code.
    fn read(&self, begin: u64, end: u64) -> io::Result<Vec<u8>> {
        let holds = |&&(address, size, _): &&(u64, u64, u64)| begin >= address && begin - address < size;
        let Some(&(address, size, place)) = self.pieces.iter().find(holds) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no memory of the kernel is at {begin:#x}")));
        };
        let length = end.saturating_sub(begin).min(LONGEST).min(size - (begin - address));
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, place + (begin - address))?;
        Ok(bytes)
    }

    /// What the function that holds `address` calls.
    ///
    /// # Errors
    /// If there is no such function, or its code can't be read.
    pub fn kernel_callees(&self, functions: &KernelFunctions, address: u64) -> io::Result<Calls> {
        let Some((_, begin, end)) = functions.at(address) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no function of the kernel is at {address:#x}"),
            ));
        };
        Ok(calls_of(&self.read(begin, end)?, begin, end, functions))
    }
}

fn calls_of(code: &[u8], begin: u64, end: u64, functions: &KernelFunctions) -> Calls {
    let mut calls = Calls::default();
    for instruction in Decoder::with_ip(64, code, begin, DecoderOptions::NONE) {
        let near = matches!(instruction.op0_kind(), OpKind::NearBranch64);
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if near => {
                let target = instruction.near_branch_target();
                if (begin..end).contains(&target) {
                    continue;
                }
                let Some((name, start, _)) = functions.at(target) else { continue };
                // Pointers are called through thunks where the CPU needs it.
                if name.starts_with("__x86_indirect") {
                    calls.indirect.push(instruction.ip());
                } else if start == target && !is_instrumentation(name) && !calls.direct.contains(&target) {
                    calls.direct.push(target);
                }
            }
            FlowControl::IndirectCall => calls.indirect.push(instruction.ip()),
            _ => {}
        }
    }
    calls
}

/// What the compiler and ftrace put into functions, which nobody called.
fn is_instrumentation(name: &str) -> bool {
    ["__fentry__", "ftrace_", "__x86_return_thunk", "__stack_chk_fail", "__sanitizer_", "__ubsan_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || name.ends_with(".cold")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_tail_calls_are_found_and_pointers_told_apart() {
        let functions = KernelFunctions::parse(
            "1000 t caller\n1100 t called\n1200 t jumped_to\n1300 t __x86_indirect_thunk_rax\n1400 T __fentry__\n1500 t end\n",
        );
        let mut code = Vec::new();
        let near = |code: &mut Vec<u8>, opcode: u8, target: u64| {
            let next = 0x1000 + code.len() as u64 + 5;
            code.push(opcode);
            code.extend((target.wrapping_sub(next) as u32).to_le_bytes());
        };
        near(&mut code, 0xe8, 0x1400);
        near(&mut code, 0xe8, 0x1100);
        near(&mut code, 0xe8, 0x1100);
        near(&mut code, 0xe8, 0x1300);
        code.extend([0xff, 0xd0]); // call *rax
        near(&mut code, 0xe8, 0x1108); // into the middle of a function: no call of it
        near(&mut code, 0xe9, 0x1200);
        let calls = calls_of(&code, 0x1000, 0x1100, &functions);
        assert_eq!(calls, Calls { direct: vec![0x1100, 0x1200], indirect: vec![0x100f, 0x1014] });
    }
}
