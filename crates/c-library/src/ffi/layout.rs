//! The structures of `transect.h`. Their sizes are read from the header itself when this is compiled: neither side can
//! change alone.

use std::ffi::{c_char, c_void};

const HEADER: &str = include_str!("../../include/transect.h");

/// The value of `#define NAME VALUE` in the header.
const fn defined(name: &str) -> usize {
    let (header, name) = (HEADER.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at + name.len() + 10 < header.len() {
        let mut i = 0;
        while i < 8 && header[at + i] == b"#define "[i] {
            i += 1;
        }
        if i == 8 {
            let mut n = 0;
            while n < name.len() && header[at + 8 + n] == name[n] {
                n += 1;
            }
            let mut digit = at + 8 + n;
            if n == name.len() && header[digit] == b' ' {
                digit += 1;
                let mut value = 0;
                while header[digit].is_ascii_digit() {
                    value = value * 10 + (header[digit] - b'0') as usize;
                    digit += 1;
                }
                return value;
            }
        }
        at += 1;
    }
    panic!("not defined in transect.h")
}

/// `TRANSECT_ABI_VERSION`.
pub const ABI_VERSION: u32 = defined("TRANSECT_ABI_VERSION") as u32;

/// `struct transect_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectOptions {
    pub site_size: u32,
    pub registers_size: u32,
    pub full_context_size: u32,
    pub handler_options_size: u32,
    pub times_size: u32,
    pub refusal_size: u32,
    pub access: u32,
    pub method: u32,
    pub signal: u32,
    pub patience_ms: u32,
    pub allow_blocked: u32,
    pub reserved: [u32; 5],
}

/// `struct transect_site`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectSite {
    pub id: u32,
    pub provider: u32,
    pub event: u32,
    pub state: u32,
    pub active: u32,
    pub exit_observable: u32,
    pub address: u64,
    pub function_address: u64,
    pub function_size: u64,
    pub function: *const c_char,
    pub symbol: *const c_char,
    pub component: *const c_char,
    pub path: *const c_char,
    pub name: *const c_char,
    pub file: *const c_char,
    pub line: u32,
    pub window_length: u32,
    pub reserved: [u64; 3],
}

/// `struct transect_handler_options`.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectHandlerOptions {
    pub tier: u32,
    pub reserved: u32,
    pub enter: Option<crate::handler::Enter>,
    pub exit: Option<crate::handler::Exit>,
    pub data: *mut c_void,
}

/// `struct transect_times`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectTimes {
    pub calls: u64,
    pub timed: u64,
    pub total_ns: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// `struct transect_refusal`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectRefusal {
    pub function: *const c_char,
    pub component: *const c_char,
    pub reason: *const c_char,
    pub function_address: u64,
    pub status: i32,
    pub reserved0: u32,
    pub reserved1: u64,
}

/// `struct transect_word_patch`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectWordPatch {
    pub address: u64,
    pub moved: u64,
    pub old_bytes: [u8; 8],
    pub new_bytes: [u8; 8],
    pub length: u32,
    pub reserved0: u32,
    pub reserved1: u64,
}

/// `struct transect_call_site`: room for a [`transect_text_patch::CallSite`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectCallSite {
    pub opaque: [u64; 16],
}

/// `struct transect_window`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectWindow {
    pub address: u64,
    pub length: u32,
    pub starts: u32,
    pub old_bytes: [u8; 19],
    pub new_bytes: [u8; 19],
    pub reserved: [u8; 2],
    pub moves: [u64; 19],
}

/// `struct transect_batch_report`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented in transect.h")]
pub struct TransectBatchReport {
    pub written: u64,
    pub already: u64,
    pub moved: u64,
    pub trapped: u64,
    pub ticks: u64,
}

const _: () = assert!(size_of::<TransectOptions>() == defined("TRANSECT_SIZEOF_OPTIONS"));
const _: () = assert!(size_of::<TransectSite>() == defined("TRANSECT_SIZEOF_SITE"));
const _: () = assert!(size_of::<transect_probe::descriptor::Registers>() == defined("TRANSECT_SIZEOF_REGISTERS"));
const _: () = assert!(size_of::<transect_probe::descriptor::FullContext>() == defined("TRANSECT_SIZEOF_FULL_CONTEXT"));
const _: () = assert!(size_of::<TransectHandlerOptions>() == defined("TRANSECT_SIZEOF_HANDLER_OPTIONS"));
const _: () = assert!(size_of::<TransectTimes>() == defined("TRANSECT_SIZEOF_TIMES"));
const _: () = assert!(size_of::<TransectRefusal>() == defined("TRANSECT_SIZEOF_REFUSAL"));
const _: () = assert!(size_of::<TransectWordPatch>() == defined("TRANSECT_SIZEOF_WORD_PATCH"));
const _: () = assert!(size_of::<TransectCallSite>() == defined("TRANSECT_SIZEOF_CALL_SITE"));
const _: () = assert!(size_of::<TransectWindow>() == defined("TRANSECT_SIZEOF_WINDOW"));
const _: () = assert!(size_of::<TransectBatchReport>() == defined("TRANSECT_SIZEOF_BATCH_REPORT"));
const _: () = assert!(size_of::<transect_text_patch::CallSite>() <= size_of::<TransectCallSite>());
