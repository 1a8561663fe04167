//! Code made for the tests: small functions whose results show whether they were executed as written.

use transect_text_patch::form::{JUMP, transfer};
use transect_text_patch::{WINDOW_CAPACITY, Window};

/// Executable memory.
pub struct Page {
    pub base: u64,
    pub length: usize,
}

impl Page {
    /// Readable, writable, executable.
    pub fn new(length: usize) -> Self {
        // SAFETY: a new mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "mmap");
        Self { base: base as u64, length }
    }

    /// Takes "write" away.
    pub fn seal(&self) {
        // SAFETY: our mapping.
        let result = unsafe { libc::mprotect(self.base as *mut _, self.length, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(result, 0, "mprotect");
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        assert!(address >= self.base && address + bytes.len() as u64 <= self.base + self.length as u64);
        // SAFETY: within the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
}

/// Bytes in memory.
pub fn bytes_at(address: u64, length: usize) -> Vec<u8> {
    // SAFETY: callers pass mapped code.
    unsafe { std::slice::from_raw_parts(address as *const u8, length) }.to_vec()
}

/// Calls a function of one argument.
pub fn call(address: u64, argument: u32) -> u32 {
    // SAFETY: callers pass functions of this shape.
    let function: extern "C" fn(u32) -> u32 = unsafe { std::mem::transmute(address) };
    function(argument)
}

/// A function that adds 1 to its argument: instructions of the window, and the rest.
pub const SHAPES: &[(&[&[u8]], &[u8])] = &[
    // mov eax, edi; add eax, 1 | ret
    (&[&[0x89, 0xF8], &[0x83, 0xC0, 1]], &[0xC3]),
    // push rbx; mov ebx, edi; lea eax, [rbx + 1] | pop rbx; ret
    (&[&[0x53], &[0x89, 0xFB], &[0x8D, 0x43, 1]], &[0x5B, 0xC3]),
    // nop5 | lea eax, [rdi + 1]; ret
    (&[&[0x0F, 0x1F, 0x44, 0, 0]], &[0x8D, 0x47, 1, 0xC3]),
    // push rbx; push rbp; nop; nop; mov ebx, edi | lea eax, [rbx + 1]; pop rbp; pop rbx; ret
    (&[&[0x53], &[0x55], &[0x90], &[0x90], &[0x89, 0xFB]], &[0x8D, 0x43, 1, 0x5D, 0x5B, 0xC3]),
    // lea eax, [rdi + 1]; mov ecx, 0x11223344 (eight bytes) | ret
    (&[&[0x8D, 0x47, 1], &[0xB9, 0x44, 0x33, 0x22, 0x11]], &[0xC3]),
];

/// Writes a function at `address` and the copy of its window at `copy`; the window that leads one to the other.
pub fn function(page: &Page, shape: usize, address: u64, copy: u64) -> Window {
    let (instructions, rest) = SHAPES[shape];
    let old: Vec<u8> = instructions.concat();
    page.put(address, &old);
    page.put(address + old.len() as u64, rest);
    page.put(copy, &old);
    let back = copy + old.len() as u64;
    page.put(back, &transfer(JUMP, back, address + old.len() as u64).unwrap());
    window(address, instructions, copy)
}

/// The window of these instructions, led to their copy.
pub fn window(address: u64, instructions: &[&[u8]], copy: u64) -> Window {
    let old: Vec<u8> = instructions.concat();
    let mut window = Window {
        address,
        length: old.len() as u8,
        old: [0; WINDOW_CAPACITY],
        new: [0x06; WINDOW_CAPACITY],
        starts: 0,
        moves: [0; WINDOW_CAPACITY],
    };
    window.old[..old.len()].copy_from_slice(&old);
    window.new[..5].copy_from_slice(&transfer(JUMP, address, copy).unwrap());
    let mut offset = 0;
    for instruction in instructions {
        window.starts |= 1 << offset;
        window.moves[offset] = copy + offset as u64;
        offset += instruction.len();
    }
    window
}
