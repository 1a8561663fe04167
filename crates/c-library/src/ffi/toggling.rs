//! Installing and toggling.

use super::last_error::{keep, say};
use super::sites::null;
use crate::error::Error;
use crate::install::{self, Outcome};
use crate::status::Status;
use crate::{loaded_object, own_probes, registry, toggle};

unsafe fn list<'a>(ids: *const u32, count: usize) -> Result<&'a [u32], Error> {
    match (ids.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null("ids")),
        // SAFETY: the caller's: `count` ids.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(ids, count) }),
    }
}

unsafe fn many(
    ids: *const u32,
    count: usize,
    statuses: *mut i32,
    work: impl FnOnce(&mut registry::Library, &[u32]) -> Vec<Outcome>,
) -> i64 {
    // SAFETY: the caller's.
    let outcomes = unsafe { list(ids, count) }.and_then(|ids| {
        let mut library = registry::lock_initialized()?;
        let count = registry::site_count();
        let known: Vec<u32> = ids.iter().copied().filter(|&id| id < count).collect();
        let mut outcomes = work(&mut library, &known);
        outcomes.extend(ids.iter().filter(|&&id| id >= count).map(|&id| (id, Err(Error::NoSite(id)))));
        Ok((ids, outcomes))
    });
    match outcomes {
        Ok((ids, outcomes)) => {
            let bad: std::collections::BTreeMap<u32, &Error> =
                outcomes.iter().filter_map(|(id, outcome)| Some((*id, outcome.as_ref().err()?))).collect();
            if let Some((id, error)) = bad.first_key_value() {
                say(&format!("{} of {} sites failed; probe {id}: {error}", bad.len(), ids.len()));
            }
            let mut good = 0;
            for (i, id) in ids.iter().enumerate() {
                let status = bad.get(id).map_or(Status::Ok, |error| error.status());
                good += i64::from(status == Status::Ok);
                if !statuses.is_null() {
                    // SAFETY: the caller's: `count` places.
                    unsafe { statuses.add(i).write(status.code()) };
                }
            }
            good
        }
        Err(error) => keep(&error).into(),
    }
}

/// `transect_install`.
///
/// # Safety
/// `ids` and, if not null, `statuses` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_install(ids: *const u32, count: usize, statuses: *mut i32) -> i64 {
    // SAFETY: the caller's.
    unsafe {
        many(ids, count, statuses, |library, ids| {
            own_probes::stand_by(library, &loaded_object::all());
            install::install(library, ids)
        })
    }
}

/// `transect_restore`.
///
/// # Safety
/// As `transect_install`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_restore(ids: *const u32, count: usize, statuses: *mut i32) -> i64 {
    // SAFETY: the caller's.
    unsafe { many(ids, count, statuses, install::restore) }
}

/// `transect_restore_all`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_restore_all() -> i64 {
    match registry::lock_initialized() {
        Ok(mut library) => {
            let outcomes = install::restore_everything(&mut library);
            if let Some((id, Err(error))) = outcomes.iter().find(|(_, outcome)| outcome.is_err()) {
                say(&format!("probe {id}: {error}"));
            }
            outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count() as i64
        }
        Err(error) => keep(&error).into(),
    }
}

/// `transect_activate`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_activate(id: u32) -> i32 {
    toggle::switch(id, true).code()
}

/// `transect_deactivate`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_deactivate(id: u32) -> i32 {
    toggle::switch(id, false).code()
}

/// `transect_is_active`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_is_active(id: u32) -> i32 {
    registry::slot(id).map_or(Status::NoSite.code(), |slot| toggle::is_on(slot).into())
}

unsafe fn batch(ids: *const u32, count: usize, on: bool) -> i64 {
    if ids.is_null() && count != 0 {
        return Status::Argument.code().into();
    }
    let mut switched = 0;
    for i in 0..count {
        // SAFETY: the caller's: `count` ids.
        let id = unsafe { ids.add(i).read() };
        switched += i64::from(toggle::switch(id, on) == Status::Ok);
    }
    switched
}

/// `transect_activate_batch`.
///
/// # Safety
/// `ids` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_activate_batch(ids: *const u32, count: usize) -> i64 {
    // SAFETY: the caller's.
    unsafe { batch(ids, count, true) }
}

/// `transect_deactivate_batch`.
///
/// # Safety
/// `ids` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_deactivate_batch(ids: *const u32, count: usize) -> i64 {
    // SAFETY: the caller's.
    unsafe { batch(ids, count, false) }
}
