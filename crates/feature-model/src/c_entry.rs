//! The C functions of the static library, for the compiler plugin.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads the model in the file `path` (XML or TOML). Gives 0 and its flat form in `*out`, or 1 and a message with file,
/// line and column in `*error`; both are strings to pass to [`transect_feature_model_free`]. The other one is left null.
///
/// # Safety
/// `path` is a C string; `out` and `error` point to writable pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_feature_model_flat(
    path: *const c_char,
    out: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller passes a C string that outlives this call.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let (flat, message) = match crate::read(path) {
        Ok(model) => (owned(model.flat()), std::ptr::null_mut()),
        Err(error) => (std::ptr::null_mut(), owned(error.to_string())),
    };
    // SAFETY: the caller passes places for two pointers.
    unsafe {
        out.write(flat);
        error.write(message);
    }
    c_int::from(flat.is_null())
}

/// Frees a string of [`transect_feature_model_flat`]; null is ignored.
///
/// # Safety
/// `text` is null or came from that function and was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_feature_model_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it came from `CString::into_raw` in `owned`, and the caller frees it once.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// A string for C; a zero byte, which would cut it, becomes a space.
fn owned(text: String) -> *mut c_char {
    let bytes: Vec<u8> = text.into_bytes().into_iter().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
    CString::new(bytes).unwrap_or_default().into_raw()
}
