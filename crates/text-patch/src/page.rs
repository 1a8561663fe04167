//! Pages of code that word patches may write, remembered, so that a patch asks the kernel nothing.
//!
//! [`prepare`] does once, for a page, what needs system calls: looks at the mappings, makes the page writable
//! ([`crate::writable`]), puts the handlers of faults in place ([`crate::fault`]) and registers with membarrier.
//! [`place`] then tells where the bytes of an address are written, by one load of a table.
//!
//! ```text
//! table    4096 words, by a hash of the page's address, two places for each page
//! entry    address of the page | 1               written in place
//!          address of the page | 2 + i           written through alias i
//!          0                                     free
//! ```
//!
//! The table is a cache: an entry may be overwritten by another page's, and a page that is not in it is prepared again.
//! An entry may also be out of date, for the program unmaps, replaces and protects pages as it likes. What holds then:
//!
//! | the page meanwhile | the patch |
//! |---|---|
//! | unmapped | [`Refusal::Unmapped`], by a fault; prepared again: [`Refusal::NotExecutable`] |
//! | protected, or replaced by a mapping that is not writable | likewise, or done after it was prepared again |
//! | replaced, writable in place | compared with the bytes that stand there now, like any other |
//! | replaced, written through an alias | refused unless the text itself holds the old bytes before and the new ones after |
//!
//! In no case is memory written that is not mapped at the word's address, or once was. [`on_prepared`] prepares once
//! more after [`Refusal::Unmapped`].

use core::sync::atomic::{AtomicU64, Ordering};

use crate::serialize::serialize_all;
use crate::writable::{self, Access};
use crate::{Refusal, alias, fault};

const PAGE: u64 = 4096;
const ENTRIES: usize = 4096;
const IN_PLACE: u64 = 1;
const FIRST_ALIAS: u64 = 2;

static TABLE: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

/// The two places of a page.
#[inline]
fn places(page: u64) -> [&'static AtomicU64; 2] {
    let hash = (page >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    [&TABLE[hash as usize % ENTRIES], &TABLE[(hash ^ 1) as usize % ENTRIES]]
}

/// What is added to an address on a page to write there.
#[inline]
fn offset_of(page: u64) -> Option<u64> {
    let is_of = |entry: u64| entry & !(PAGE - 1) == page && entry != 0;
    let [first, second] = places(page);
    let mut entry = first.load(Ordering::Acquire);
    if !is_of(entry) {
        entry = second.load(Ordering::Acquire);
        if !is_of(entry) {
            return None;
        }
    }
    match entry & (PAGE - 1) {
        IN_PLACE => Some(0),
        mark => alias::alias_number((mark - FIRST_ALIAS) as usize).map(|alias| alias.offset),
    }
}

/// Where the word at `address` is written; `None` if a page of it is not prepared. No system call.
#[inline]
pub fn place(address: u64, length: u64) -> Option<u64> {
    let page = address & !(PAGE - 1);
    let last = address.wrapping_add(length.wrapping_sub(1)) & !(PAGE - 1);
    let offset = offset_of(page)?;
    (page == last || offset_of(last) == Some(offset)).then_some(address.wrapping_add(offset))
}

/// [`place`] of a word within one page, worth having inline; `None` for others, too.
#[inline]
pub fn place_in_page(address: u64, length: u64) -> Option<u64> {
    let crosses = address % PAGE + length > PAGE;
    let page = address & !(PAGE - 1);
    let entry = places(page)[0].load(Ordering::Acquire);
    if crosses || page == 0 || entry & !(PAGE - 1) != page {
        return None;
    }
    match entry & (PAGE - 1) {
        IN_PLACE => Some(address),
        mark => Some(alias::alias_number((mark - FIRST_ALIAS) as usize)?.of(address)),
    }
}

/// Prepares the pages of a word, and tells where it is written.
///
/// # Errors
/// As [`writable::open_for_toggling`]; [`Refusal::NoSerialization`], [`Refusal::System`].
pub fn prepare(address: u64, length: u64, access: Access) -> Result<u64, Refusal> {
    let end = address.checked_add(length).filter(|_| (1..=PAGE).contains(&length));
    let end = end.ok_or(Refusal::Malformed { address })?;
    fault::take_over()?;
    serialize_all()?;
    alias::retire_stale(address)?;
    let (alias, number) = writable::open_numbered(address, end, access)?;
    let mark = number.map_or(IN_PLACE, |number| FIRST_ALIAS + number as u64);
    let mut page = address & !(PAGE - 1);
    while page < end {
        remember(page, mark);
        page += PAGE;
    }
    Ok(alias.of(address))
}

fn remember(page: u64, mark: u64) {
    let places = places(page);
    let is_mine = |place: &&AtomicU64| place.load(Ordering::Relaxed) & !(PAGE - 1) == page;
    let is_free = |place: &&AtomicU64| place.load(Ordering::Relaxed) == 0;
    let place = places.into_iter().find(is_mine).or_else(|| places.into_iter().find(is_free)).unwrap_or(places[0]);
    place.store(page | mark, Ordering::Release);
}

/// Forgets the pages of a word.
pub fn forget(address: u64, length: u64) {
    let last = address.wrapping_add(length.wrapping_sub(1)) & !(PAGE - 1);
    for page in [address & !(PAGE - 1), last] {
        for place in places(page) {
            let entry = place.load(Ordering::Relaxed);
            if entry & !(PAGE - 1) == page {
                let _ = place.compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

/// Runs `attempt` with the place where a word is written, preparing its pages if they are not prepared, or not any more.
///
/// # Errors
/// Those of [`prepare`] and of the attempt.
#[inline]
pub fn on_prepared<T>(
    address: u64,
    length: u64,
    access: Access,
    attempt: impl Fn(u64) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if let Some(alias) = place(address, length) {
        match attempt(alias) {
            Err(Refusal::Unmapped { .. }) => {}
            other => return other,
        }
    }
    forget(address, length);
    attempt(prepare(address, length, access)?)
}
