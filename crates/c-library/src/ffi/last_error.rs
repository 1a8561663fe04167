//! The words of this thread's last error.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};

use crate::error::Error;
use crate::status::Status;

/// Bytes kept, the zero at the end included.
const CAPACITY: usize = 1024;

thread_local! {
    // Plain bytes: a value with a destructor would be registered under the loader's lock.
    static LAST: UnsafeCell<[u8; CAPACITY]> = const { UnsafeCell::new([0; CAPACITY]) };
}

/// Keeps the error's words; its number.
pub fn keep(error: &Error) -> i32 {
    say(&error.to_string());
    error.status().code()
}

/// Keeps words.
pub fn say(words: &str) {
    let mut end = words.len().min(CAPACITY - 1);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    LAST.with(|last| {
        // SAFETY: this thread's own bytes; nobody holds a reference to them.
        let bytes = unsafe { &mut *last.get() };
        bytes[..end].copy_from_slice(&words.as_bytes()[..end]);
        bytes[end] = 0;
    });
}

/// A result as C has it: keeps the error's words.
pub fn code(result: Result<(), Error>) -> i32 {
    match result {
        Ok(()) => Status::Ok.code(),
        Err(error) => keep(&error),
    }
}

/// `transect_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_last_error() -> *const c_char {
    LAST.with(|last| last.get().cast::<c_char>().cast_const())
}

/// `transect_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_strerror(status: i32) -> *const c_char {
    Status::text_of(status).as_ptr()
}

/// `transect_version`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}
