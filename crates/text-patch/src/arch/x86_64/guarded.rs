//! Accesses to memory that the program may have unmapped: a fault within them is an answer, not the end.
//!
//! They stand in one stretch of assembly that uses no stack and changes no register that a caller keeps. A fault there
//! is led to its end by [`crate::fault`], which knows the stretch by its bounds, as the kernel knows its own accesses to
//! user memory by their exception table.

use core::arch::global_asm;

// exchange: rdi word as it is executed, rsi as it is written, rdx mask, rcx old (masked), r8 bits to change
//   1. load the word by the address that threads execute; other bytes than `old` under the mask: 1
//   2. lock cmpxchg it, by the address where it is written; changed in between, or other memory: 2
//   3. load it again as it is executed; none of the bits has changed: 3
// load:     rdi aligned address; the word in rax, 0 in rdx
// store_1:  rdi address, sil byte; 0 in rax
// a fault anywhere: 4 in rax and rdx
global_asm!(
    ".pushsection .text.transect_text_patch_guarded,\"ax\",@progbits",
    ".balign 64",
    ".hidden transect_text_patch_guarded_begin",
    ".hidden transect_text_patch_guarded_exchange",
    ".hidden transect_text_patch_guarded_load",
    ".hidden transect_text_patch_guarded_store",
    ".hidden transect_text_patch_guarded_fault",
    ".globl transect_text_patch_guarded_begin",
    ".globl transect_text_patch_guarded_exchange",
    ".globl transect_text_patch_guarded_load",
    ".globl transect_text_patch_guarded_store",
    ".globl transect_text_patch_guarded_fault",
    ".type transect_text_patch_guarded_exchange,@function",
    ".type transect_text_patch_guarded_load,@function",
    ".type transect_text_patch_guarded_store,@function",
    "transect_text_patch_guarded_begin:",
    "transect_text_patch_guarded_exchange:",
    "mov rax, qword ptr [rdi]",
    "mov r9, rax",
    "and r9, rdx",
    "cmp r9, rcx",
    "jne 1f",
    "mov r10, rax",
    "mov r9, rax",
    "xor r9, r8",
    "lock cmpxchg qword ptr [rsi], r9",
    "jne 2f",
    "xor eax, eax",
    "cmp rdi, rsi",
    "jne 3f",
    "ret",
    "3:",
    "xor r10, qword ptr [rdi]",
    "mov edx, 3",
    "test r10, r8",
    "cmovz eax, edx",
    "ret",
    "1:",
    "mov eax, 1",
    "ret",
    "2:",
    "mov eax, 2",
    "ret",
    ".size transect_text_patch_guarded_exchange, . - transect_text_patch_guarded_exchange",
    "transect_text_patch_guarded_load:",
    "mov rax, qword ptr [rdi]",
    "xor edx, edx",
    "ret",
    ".size transect_text_patch_guarded_load, . - transect_text_patch_guarded_load",
    "transect_text_patch_guarded_store:",
    "mov byte ptr [rdi], sil",
    "xor eax, eax",
    "ret",
    ".size transect_text_patch_guarded_store, . - transect_text_patch_guarded_store",
    "transect_text_patch_guarded_fault:",
    "mov eax, 4",
    "mov edx, eax",
    "ret",
    ".popsection",
);

#[repr(C)]
struct Loaded {
    value: u64,
    fault: u64,
}

unsafe extern "C" {
    fn transect_text_patch_guarded_begin();
    fn transect_text_patch_guarded_exchange(text: u64, alias: u64, mask: u64, old: u64, difference: u64) -> u32;
    fn transect_text_patch_guarded_load(at: u64) -> Loaded;
    fn transect_text_patch_guarded_store(at: u64, value: u8) -> u32;
    fn transect_text_patch_guarded_fault();
}

/// What came of [`exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// The word has its new bytes.
    Done,
    /// Other bytes than the old ones stand in the text.
    Differs,
    /// The bytes have changed between load and store, or the alias is other memory than the text.
    Raced,
    /// The alias has its new bytes and the text does not: it is other memory, or was changed back already.
    NotInText,
    /// One of the two addresses can't be read or written.
    Fault,
}

/// Changes the bits `difference` of the eight bytes at `text`, which is written at `alias`, if those under `mask` are
/// `old`. Both addresses may be unmapped, if [`crate::fault::take_over`] has been called.
///
/// # Safety
/// The eight bytes lie within a cache line (across lines, a locked store stops the whole machine); what lies at `alias`,
/// if anything, may be changed so.
#[inline]
pub unsafe fn exchange(text: u64, alias: u64, mask: u64, old: u64, difference: u64) -> Exchanged {
    // SAFETY: the caller's; a C function that touches nothing else.
    match unsafe { transect_text_patch_guarded_exchange(text, alias, mask, old, difference) } {
        0 => Exchanged::Done,
        1 => Exchanged::Differs,
        2 => Exchanged::Raced,
        3 => Exchanged::NotInText,
        _ => Exchanged::Fault,
    }
}

/// Loads an aligned word, or nothing from memory that can't be read.
#[inline]
pub fn load_8(at: u64) -> Option<u64> {
    // SAFETY: reads whatever is there; a fault is led to the end of the code.
    let loaded = unsafe { transect_text_patch_guarded_load(at & !7) };
    (loaded.fault == 0).then_some(loaded.value)
}

/// Stores a byte; false if it can't be written.
///
/// # Safety
/// What lies at `at`, if anything, may be changed so.
#[inline]
pub unsafe fn store_1(at: u64, value: u8) -> bool {
    // SAFETY: the caller's.
    unsafe { transect_text_patch_guarded_store(at, value) == 0 }
}

/// Where a thread goes on that has faulted at `pc`, if that is one of these accesses.
pub fn landing(pc: u64) -> Option<u64> {
    let begin = transect_text_patch_guarded_begin as *const () as u64;
    let end = transect_text_patch_guarded_fault as *const () as u64;
    (begin..end).contains(&pc).then_some(end)
}
