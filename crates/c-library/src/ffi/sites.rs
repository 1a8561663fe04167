//! Discovery, lookup and metadata.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;

use super::last_error::{code, keep, say};
use super::layout::*;
use crate::discovery::{self, SiteRequest};
use crate::error::{Error, plan_status, plan_words};
use crate::pattern::Pattern;
use crate::registry;
use crate::site_info::c_text;
use crate::{lookup, toggle};

const FUTURE_OBJECTS: u32 = 1;
const NO_LINES: u32 = 2;
const INSTALL: i32 = 1;
const ACTIVATE: i32 = 3;
const STOP: i32 = 4;

type DiscoveryFn = unsafe extern "C" fn(*const TransectSite, *mut c_void) -> i32;
type RefusalFn = unsafe extern "C" fn(*const TransectRefusal, *mut c_void);

/// Data that C passes through us.
struct Passed(*mut c_void);
// SAFETY: it is only handed back to the program's callback; transect.h says in which threads that may run.
unsafe impl Send for Passed {}

impl Passed {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

pub(super) fn null(what: &str) -> Error {
    Error::Argument(format!("{what} is null"))
}

pub(super) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's: a string that ends with zero.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| Error::Argument(format!("{what} is not UTF-8")))
}

/// What C sees of a site.
fn view(id: u32) -> Result<TransectSite, Error> {
    let (slot, info) = registry::site(id)?;
    let source = info.source.get().and_then(Option::as_ref);
    Ok(TransectSite {
        id,
        provider: info.site.provider as u32,
        event: info.site.event as u32,
        state: slot.state.load(Ordering::Acquire),
        active: toggle::is_on(slot).into(),
        exit_observable: (info.site.exit == transect_probe_plan::ExitSupport::PairedCall).into(),
        address: info.address,
        function_address: info.function_address,
        function_size: info.function_size,
        function: info.function.as_ptr(),
        symbol: info.symbol.as_ptr(),
        component: info.object.component.as_ptr(),
        path: info.object.path.as_ptr(),
        name: info.name.as_ptr(),
        file: source.map_or(c"".as_ptr(), |(file, _)| file.as_ptr()),
        line: source.map_or(0, |&(_, line)| line),
        window_length: info.original().len() as u32,
        reserved: [0; 3],
    })
}

/// `transect_discover`.
///
/// # Safety
/// `pattern` is a string; `callback` is null or a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_discover(
    pattern: *const c_char,
    flags: u32,
    callback: Option<DiscoveryFn>,
    data: *mut c_void,
) -> i64 {
    // SAFETY: the caller's.
    let pattern = match unsafe { text(pattern, "pattern") }.and_then(Pattern::parse) {
        Ok(pattern) => pattern,
        Err(error) => return keep(&error).into(),
    };
    let passed = Passed(data);
    let each = move |id| {
        let (Some(callback), Ok(site)) = (callback, view(id)) else { return SiteRequest::default() };
        // SAFETY: the program's own function, with what it passed.
        let answer = unsafe { callback(&raw const site, passed.get()) };
        SiteRequest {
            install: answer & INSTALL != 0,
            activate: answer & ACTIVATE == ACTIVATE,
            stop: answer & STOP != 0,
        }
    };
    match discovery::discover(pattern, flags & NO_LINES == 0, flags & FUTURE_OBJECTS != 0, Box::new(each)) {
        Ok(found) => {
            if let Some((id, error)) = found.failed.first() {
                let probe = if *id == u32::MAX { String::new() } else { format!("probe {id}: ") };
                say(&format!("{} of the sites were not installed; {probe}{error}", found.failed.len()));
            }
            found.sites as i64
        }
        Err(error) => keep(&error).into(),
    }
}

unsafe fn give(id: *mut u32, find: impl FnOnce() -> Result<u32, Error>) -> i32 {
    if id.is_null() {
        return keep(&null("id"));
    }
    code(find().map(|found| {
        // SAFETY: the caller's: a place for an id.
        unsafe { id.write(found) };
    }))
}

/// `transect_find_function`.
///
/// # Safety
/// `id` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_find_function(function: *const c_void, id: *mut u32) -> i32 {
    // SAFETY: the caller's.
    unsafe { give(id, || lookup::by_address(function as u64)) }
}

/// `transect_find`.
///
/// # Safety
/// `name` is null or a string, `id` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_find(name: *const c_char, id: *mut u32) -> i32 {
    // SAFETY: the caller's.
    unsafe { give(id, || lookup::by_name(text(name, "name")?)) }
}

/// `transect_get_site`.
///
/// # Safety
/// `site` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_get_site(id: u32, site: *mut TransectSite) -> i32 {
    if site.is_null() {
        return keep(&null("site"));
    }
    // SAFETY: the caller's.
    code(view(id).map(|view| unsafe { site.write(view) }))
}

/// `transect_site_count`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_site_count() -> u32 {
    registry::site_count()
}

/// `transect_refused`.
///
/// # Safety
/// `pattern` is null or a string, `callback` null or a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_refused(
    pattern: *const c_char,
    callback: Option<RefusalFn>,
    data: *mut c_void,
) -> i64 {
    // SAFETY: the caller's.
    let found = unsafe { text(pattern, "pattern") }.and_then(Pattern::parse).and_then(|p| lookup::refusals(&p));
    match found {
        Ok(found) => {
            for refused in &found {
                let (function, component) = (c_text(&refused.function), c_text(&refused.component));
                let reason = c_text(plan_words(refused.reason));
                let view = TransectRefusal {
                    function: function.as_ptr(),
                    component: component.as_ptr(),
                    reason: reason.as_ptr(),
                    function_address: refused.address,
                    status: plan_status(refused.reason).code(),
                    reserved0: 0,
                    reserved1: 0,
                };
                if let Some(callback) = callback {
                    // SAFETY: the program's own function, with what it passed.
                    unsafe { callback(&raw const view, data) };
                }
            }
            found.len() as i64
        }
        Err(error) => keep(&error).into(),
    }
}
