//! The region image of an object: data and entry code of its static components' functions (see
//! [`transect_event_abi::static_plan`]).
//!
//! Entry code of a function, at T:
//!
//! ```text
//! elsewhere:  mov eax, 0x1ff                  ; the caller is not in this object
//!             jmp more
//! uncounted:  or eax, 0x100                   ; no slot yet for this caller
//! more:       lea rcx, [entry]
//!             jmp [enter]                     ; transect_static_enter
//! T:          push rax
//!             push rcx
//!             mov rax, [rsp+16]               ; the return address lies behind the call, so count from start + 1
//!             sub rax, [first_return]
//!             cmp rax, [text_length]
//!             jae elsewhere
//!             add rax, [map]
//!             movzx eax, byte [rax]           ; the calling component
//!             cmp al, own
//!             je inside
//! known:      lea rcx, [slots]
//!             mov ecx, [rcx+rax*4]            ; 64 times the slot number
//!             test ecx, ecx
//!             jz uncounted
//!             add rcx, fs:[counters]          ; this thread's counters
//!             dec dword [rcx]                 ; the flow's countdown
//!             jle more
//! inside:     pop rcx
//!             pop rax
//!             …                               ; the displaced instructions
//!             jmp resume
//! ```
//!
//! Every register is preserved; the flags and what lies below the stack pointer are not. A jump that comes from another
//! component than its return address tells goes through `push rax; push rcx; mov eax, caller; jmp known`.

use transect_event_abi::static_plan::{
    FIXUP_COUNTERS, FIXUP_OBJECT, StaticEntry, StaticFixup, StaticHeader, StaticRegion,
};
use transect_probe_plan::Displaced;

const PAGE: usize = 4096;

/// Where a function's parts lie in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Entry code.
    pub code: u32,
    /// Displaced instructions.
    pub displaced: u32,
    /// Its [`StaticEntry`].
    pub entry: u32,
    /// Where entry code goes on that knows its caller.
    known: u32,
}

/// Builds a region image.
pub struct Region {
    bytes: Vec<u8>,
    data_length: usize,
    entry_size: usize,
    cells_at: usize,
    entries: usize,
    /// To be filled in by the agent.
    pub fixups: Vec<StaticFixup>,
}

impl Region {
    /// A region for so many functions and linkage cells, called by so many components (the rest included).
    pub fn new(functions: usize, cells: usize, callers: usize) -> Region {
        let entry_size = (size_of::<StaticEntry>() + 4 * callers).next_multiple_of(8);
        let cells_at = size_of::<StaticRegion>() + functions * entry_size;
        let data_length = (cells_at + 8 * cells).next_multiple_of(PAGE);
        Region { bytes: vec![0; data_length], data_length, entry_size, cells_at, entries: 0, fixups: Vec::new() }
    }

    /// Offset of a cell.
    pub fn cell(&self, number: usize) -> u32 {
        (self.cells_at + 8 * number) as u32
    }

    fn here(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn put(&mut self, code: &[u8]) {
        self.bytes.extend_from_slice(code);
    }

    /// An instruction that ends in a distance to another place of the region.
    fn put_relative(&mut self, code: &[u8], to: u32) {
        self.put(code);
        let from = self.here() + 4;
        self.put(&(to.wrapping_sub(from)).to_le_bytes());
    }

    /// A short jump back.
    fn put_back(&mut self, opcode: u8, to: u32) {
        let from = self.here() + 2;
        // The places jumped to stand right before, within less than 128 bytes.
        self.put(&[opcode, (to as i64 - i64::from(from)) as i8 as u8]);
    }

    fn align(&mut self) {
        while !self.bytes.len().is_multiple_of(16) {
            self.bytes.push(0xcc);
        }
    }

    /// Adds the entry code of a function of component `own`, whose first instructions are `displaced`.
    pub fn add_function(&mut self, own: u8, displaced: &Displaced) -> Placed {
        let field = |at: usize| at as u32;
        let entry = (size_of::<StaticRegion>() + self.entries * self.entry_size) as u32;
        self.entries += 1;
        self.align();
        let elsewhere = self.here();
        self.put(&[0xb8, 0xff, 0x01, 0x00, 0x00, 0xeb, 0x05]);
        let uncounted = self.here();
        self.put(&[0x0d, 0x00, 0x01, 0x00, 0x00]);
        let more = self.here();
        self.put_relative(&[0x48, 0x8d, 0x0d], entry);
        self.put_relative(&[0xff, 0x25], field(std::mem::offset_of!(StaticRegion, enter)));
        self.align();
        let code = self.here();
        self.put(&[0x50, 0x51, 0x48, 0x8b, 0x44, 0x24, 0x10]);
        self.put_relative(&[0x48, 0x2b, 0x05], field(std::mem::offset_of!(StaticRegion, first_return)));
        self.put_relative(&[0x48, 0x3b, 0x05], field(std::mem::offset_of!(StaticRegion, text_length)));
        self.put_back(0x73, elsewhere);
        self.put_relative(&[0x48, 0x03, 0x05], field(std::mem::offset_of!(StaticRegion, map)));
        self.put(&[0x0f, 0xb6, 0x00, 0x3c, own]);
        let to_inside = self.bytes.len() + 1;
        self.put(&[0x74, 0]);
        let known = self.here();
        self.put_relative(&[0x48, 0x8d, 0x0d], entry + size_of::<StaticEntry>() as u32);
        self.put(&[0x8b, 0x0c, 0x81, 0x85, 0xc9]);
        self.put_back(0x74, uncounted);
        self.put(&[0x64, 0x48, 0x03, 0x0c, 0x25]);
        self.fixups.push(StaticFixup { at: self.here(), kind: FIXUP_COUNTERS, ..StaticFixup::default() });
        self.put(&[0, 0, 0, 0, 0xff, 0x09]);
        self.put_back(0x7e, more);
        self.bytes[to_inside] = (self.bytes.len() - to_inside - 1) as u8;
        self.put(&[0x59, 0x58]);
        let start = self.here();
        self.put(&displaced.code);
        for fixup in &displaced.fixups {
            self.fixups.push(StaticFixup {
                at: start + u32::from(fixup.at),
                from: start + u32::from(fixup.from),
                kind: FIXUP_OBJECT,
                // Until the fixup is settled: whose code it is in.
                reserved: if fixup.target == displaced.resume { 0 } else { u32::from(own) },
                target: fixup.target,
            });
        }
        if !displaced.ends {
            self.put(&[0xe9, 0, 0, 0, 0]);
            let from = self.here();
            self.fixups.push(StaticFixup {
                at: from - 4,
                from,
                kind: FIXUP_OBJECT,
                reserved: 0,
                target: displaced.resume,
            });
        }
        Placed { code, displaced: start, entry, known }
    }

    /// Adds an entry for jumps from component `caller` to a function.
    pub fn add_jump(&mut self, caller: u8, function: Placed) -> u32 {
        let at = self.here();
        self.put(&[0x50, 0x51, 0xb8, caller, 0, 0, 0]);
        self.put_relative(&[0xe9], function.known);
        at
    }

    /// Adds a jump through a cell, for calls to the procedure linkage table.
    pub fn add_thunk(&mut self, cell: u32) -> u32 {
        let at = self.here();
        self.put_relative(&[0xff, 0x25], cell);
        at
    }

    /// Adds the way that code goes in the file: a jump to the procedure linkage table at `to`, or through the slot at `to`.
    pub fn add_way_through(&mut self, to: u64, slot: bool) -> u32 {
        let start = self.here();
        self.put(if slot { &[0xff, 0x25] } else { &[0xe9] });
        let at = self.here();
        self.put(&[0; 4]);
        self.fixups.push(StaticFixup { at, from: at + 4, kind: FIXUP_OBJECT, reserved: 0, target: to });
        start
    }

    /// True if the four bytes at `at` are the displacement of a direct jump: nothing else ends in such a byte before it,
    /// for what addresses memory relative to `rip` has a ModRM byte there, with `mod` 0 and `rm` 5.
    pub fn is_branch(&self, at: u32) -> bool {
        matches!(self.bytes[..at as usize], [.., 0xe9] | [.., 0x0f, 0x80..=0x8f])
    }

    /// True if the four bytes at `at` are the displacement of `call *slot(%rip)` or `jmp *slot(%rip)`.
    pub fn is_call_through(&self, at: u32) -> bool {
        matches!(self.bytes[..at as usize], [.., 0xff, 0x15 | 0x25])
    }

    /// Lets a distance lead to a place in the region instead of one in the object.
    pub fn settle(&mut self, fixup: StaticFixup, to: u32) {
        let at = fixup.at as usize;
        self.bytes[at..at + 4].copy_from_slice(&to.wrapping_sub(fixup.from).to_le_bytes());
        self.fixups.retain(|f| f.at != fixup.at);
    }

    /// The image, and its lengths in a header.
    pub fn finish(mut self, header: &mut StaticHeader) -> (Vec<u8>, Vec<StaticFixup>) {
        while !self.bytes.len().is_multiple_of(PAGE) {
            self.bytes.push(0xcc);
        }
        header.region_length = self.bytes.len() as u32;
        header.data_length = self.data_length as u32;
        (self.bytes, self.fixups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_where_they_are_said_to() {
        let displaced = Displaced { code: vec![0x55, 0x48, 0x89, 0xe5, 0x53], resume: 0x1239, ..Displaced::default() };
        let mut region = Region::new(2, 3, 2);
        let first = region.add_function(1, &displaced);
        let second = region.add_function(1, &displaced);
        assert_eq!(second.entry - first.entry, 40);
        assert_eq!(region.cell(0), second.entry + 40);
        let jump = region.add_jump(0, second);
        let mut header = StaticHeader::default();
        let (bytes, fixups) = region.finish(&mut header);
        assert_eq!(bytes.len() % PAGE, 0);
        assert_eq!(&bytes[first.displaced as usize..][..5], &displaced.code[..]);
        assert_eq!(&bytes[second.displaced as usize - 2..][..2], &[0x59, 0x58]);
        // jmp known
        let at = jump as usize + 7;
        let to = i32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap());
        assert_eq!((at + 5) as i64 + i64::from(to), i64::from(second.known));
        assert_eq!(fixups.iter().filter(|f| f.kind == FIXUP_OBJECT && f.target == 0x1239).count(), 2);
        assert_eq!(header.data_length as usize, PAGE);
    }
}
