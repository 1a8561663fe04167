//! The words of this thread's last error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use crate::error::Error;
use crate::site_info::c_text;
use crate::status::Status;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps the error's words; its number.
pub fn keep(error: &Error) -> i32 {
    say(&error.to_string());
    error.status().code()
}

/// Keeps words.
pub fn say(words: &str) {
    let _ = LAST.try_with(|last| *last.borrow_mut() = c_text(words));
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
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
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
