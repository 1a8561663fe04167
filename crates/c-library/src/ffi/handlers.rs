//! Handlers, counts and times.

use super::last_error::{code, keep};
use super::layout::*;
use super::sites::null;
use crate::error::Error;
use crate::handler::{self, Binding, Tier};
use crate::instrument_functions;
use crate::status::Status;
use crate::times;

/// `transect_register_handler`.
///
/// # Safety
/// `options` is null or readable, `handler` null or writable; the functions follow transect.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_register_handler(options: *const TransectHandlerOptions, number: *mut u32) -> i32 {
    // SAFETY: the caller's.
    let Some(options) = (unsafe { options.as_ref() }) else { return keep(&null("options")) };
    if number.is_null() {
        return keep(&null("handler"));
    }
    let tier = match options.tier {
        1 => Tier::Integer,
        2 | 4 => Tier::Vector,
        3 => Tier::Full,
        other => return keep(&Error::Argument(format!("transect_handler_options.tier is {other}"))),
    };
    let binding = Binding {
        enter: options.enter,
        exit: options.exit,
        data: options.data,
        tier,
        keeps_uppers: u32::from(options.tier == 2),
    };
    // SAFETY: the caller's.
    code(handler::register(binding).map(|registered| unsafe { number.write(registered) }))
}

/// `transect_set_handler`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_set_handler(id: u32, number: u32) -> i32 {
    handler::set(id, number).code()
}

/// `transect_count`.
///
/// # Safety
/// `calls` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_count(id: u32, calls: *mut u64) -> i32 {
    match (times::count(id), calls.is_null()) {
        (_, true) => Status::Argument.code(),
        (None, _) => Status::NoSite.code(),
        (Some(count), _) => {
            // SAFETY: the caller's.
            unsafe { calls.write(count) };
            Status::Ok.code()
        }
    }
}

/// `transect_get_times`.
///
/// # Safety
/// `out` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_get_times(id: u32, out: *mut TransectTimes) -> i32 {
    if out.is_null() {
        return keep(&null("times"));
    }
    code(times::of(id).map(|t| {
        let view = TransectTimes {
            calls: t.calls,
            timed: t.timed,
            total_ns: t.total_ns,
            mean_ns: t.mean_ns,
            p50_ns: t.p50_ns,
            p90_ns: t.p90_ns,
            p99_ns: t.p99_ns,
            max_ns: t.max_ns,
        };
        // SAFETY: the caller's.
        unsafe { out.write(view) };
    }))
}

/// `transect_reset`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_reset(id: u32) -> i32 {
    code(times::reset(id))
}

/// `transect_instrument_functions`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_instrument_functions(number: u32, active: i32) -> i32 {
    if handler::wants_exit(number) {
        return Status::Unsupported.code();
    }
    instrument_functions::on_first_use(number, active != 0);
    Status::Ok.code()
}
