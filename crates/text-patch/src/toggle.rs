//! Toggling: switching a site whose bytes are prepared, by one store, while other threads run through it.
//!
//! A site is five bytes at any address, with two forms `on` and `off`, each of which is one instruction that begins at
//! the site. The forms are made such that the bytes in which they differ lie in one aligned 8-byte word
//! ([`crate::form::off_form`]); then a single store changes them all, and whoever fetches the site meanwhile gets one
//! form or the other:
//!
//! ```text
//! bytes that differ            store                                       other bytes of the word
//! 1                            mov [byte]                                  not touched
//! 2, or fewer                  mov [2 bytes] within the word               not touched
//! 4, or fewer                  mov [4 bytes] within the word               not touched
//! 5                            mov [8 bytes] aligned                       rewritten as they were: the word is ours
//!                              lock cmpxchg [8 bytes] aligned              another site's: kept, retried if it changes
//! ```
//!
//! No store crosses a word, none is locked or ordered across a line (that would stop the whole machine: 38,000 to
//! 434,000 ticks), no thread waits, nothing calls the kernel. Whether the off form's tail is resident is the
//! installer's business (a batch). After "Living on the Edge" (PLDI '16), whose call patching needs waiting for sites
//! that straddle a line; forms with a resident displacement don't.
//!
//! Threads that run through the site see the new form after some hundred ticks, when the store has reached them. Who
//! must know that *no* thread runs the old form any more serializes ([`crate::serialize`]).

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::store;
use crate::form::Form;
use crate::{Refusal, fork};

/// How a site's bytes are switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StoreKind {
    /// One byte.
    Byte,
    /// Two bytes within a word.
    Half,
    /// Four bytes within a word.
    Quarter,
    /// The whole aligned word, which belongs to this site alone.
    Word,
    /// The whole aligned word by compare-and-swap: others' sites have bytes in it.
    SharedWord,
}

/// Which form a site has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteState {
    /// The on form.
    On,
    /// The off form.
    Off,
    /// Neither: somebody else has written there.
    Foreign,
}

/// A five-byte site that can be switched by one store.
#[derive(Debug, Clone, Copy)]
pub struct CallSite {
    /// Where to load and store, in the writable alias: the first byte stored.
    at: u64,
    /// Bits at `at` that are the site's.
    mask: u64,
    on: u64,
    off: u64,
    address: u64,
    alias: u64,
    on_bytes: [u8; 5],
    off_bytes: [u8; 5],
    kind: StoreKind,
    /// The alias is shared memory: a fork's child must not write to it before it has its own.
    shared: bool,
}

impl CallSite {
    /// A site at `address`, writable at `alias` (the same address, or another mapping of the same memory), with its
    /// two forms. The bytes that the forms share must be resident, which [`Self::state`] tells.
    ///
    /// If all five bytes differ, the word that holds them is taken to hold other sites' bytes as well; see
    /// [`Self::exclusive_word`].
    ///
    /// # Errors
    /// [`Refusal::UnknownForm`], [`Refusal::Straddles`], or [`Refusal::Malformed`] if the alias is not of this memory.
    pub fn new(address: u64, alias: u64, on: [u8; 5], off: [u8; 5]) -> Result<Self, Refusal> {
        if alias % 4096 != address % 4096 {
            return Err(Refusal::Malformed { address });
        }
        if Form::of(on).is_none() || Form::of(off).is_none() {
            return Err(Refusal::UnknownForm { address });
        }
        let mut differing = (0..5u64).filter(|&i| on[i as usize] != off[i as usize]);
        let first = differing.next().unwrap_or(0);
        let last = differing.next_back().unwrap_or(first);
        let begin = (address + first) % 8;
        let end = begin + (last - first); // last byte, counted in the word of the first
        if end >= 8 {
            return Err(Refusal::Straddles { address });
        }
        // A narrow store may begin earlier than the first differing byte, not before the site.
        let fits = |width: u64| {
            let start = first.min(5 - width.min(5));
            (last - first < width && (address + start) % 8 + width <= 8 && start + width > last)
                .then_some((start, width))
        };
        let narrow = fits(1).or_else(|| fits(2)).or_else(|| fits(4));
        let (kind, at, mask) = match narrow {
            Some((start, 1)) => (StoreKind::Byte, alias + start, 0xFF),
            Some((start, 2)) => (StoreKind::Half, alias + start, 0xFFFF),
            Some((start, _)) => (StoreKind::Quarter, alias + start, 0xFFFF_FFFF),
            None => {
                let word = (alias + first) & !7;
                (StoreKind::SharedWord, word, 0)
            }
        };
        let mut site = Self {
            at,
            mask,
            on: 0,
            off: 0,
            address,
            alias,
            on_bytes: on,
            off_bytes: off,
            kind,
            shared: alias != address,
        };
        for i in 0..5 {
            let position = (alias + i as u64).wrapping_sub(at);
            if position < 8 {
                let shift = position * 8;
                if kind == StoreKind::SharedWord {
                    site.mask |= 0xFF << shift;
                }
                site.on |= u64::from(on[i]) << shift;
                site.off |= u64::from(off[i]) << shift;
            }
        }
        site.on &= site.mask;
        site.off &= site.mask;
        Ok(site)
    }

    /// Declares that nobody else changes bytes of the words that the site lies in, so that a plain store may rewrite
    /// them. A plain store lost 4.5 million of 20 million changes of a neighbour in a trial.
    #[must_use]
    pub fn exclusive_word(mut self) -> Self {
        if self.kind == StoreKind::SharedWord {
            self.kind = StoreKind::Word;
        }
        self
    }

    /// Declares whether the alias is shared with children made by fork, as aliases other than the address itself are
    /// taken to be. Shared memory that is meant to be switched for all processes at once (a controller's arena) isn't
    /// guarded: pass false.
    #[must_use]
    pub fn guarded_against_fork(mut self, guarded: bool) -> Self {
        self.shared = guarded;
        self
    }

    /// Where the site is executed.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where it is written.
    pub fn alias(&self) -> u64 {
        self.alias
    }

    /// How it is switched.
    pub fn store_kind(&self) -> StoreKind {
        self.kind
    }

    /// The addresses that a switch stores to, in one store.
    pub fn stored(&self) -> core::ops::Range<u64> {
        let at = self.at.wrapping_sub(self.alias).wrapping_add(self.address);
        let width = match self.kind {
            StoreKind::Byte => 1,
            StoreKind::Half => 2,
            StoreKind::Quarter => 4,
            StoreKind::Word | StoreKind::SharedWord => 8,
        };
        at..at + width
    }

    /// Bytes of the on form.
    pub fn on_bytes(&self) -> [u8; 5] {
        self.on_bytes
    }

    /// Bytes of the off form.
    pub fn off_bytes(&self) -> [u8; 5] {
        self.off_bytes
    }

    /// Switches the site on; no effect if it is on. May be called by any thread at any time, in signal handlers too.
    ///
    /// # Errors
    /// [`Refusal::ForeignBytes`] if neither form stands there, [`Refusal::Forked`].
    ///
    /// # Safety
    /// The alias is mapped writable and is the memory at the site's address; the on form's target is in place.
    #[inline]
    pub unsafe fn activate_call(&self) -> Result<(), Refusal> {
        // SAFETY: the caller's.
        unsafe { self.switch(self.off, self.on) }
    }

    /// Switches the site off; no effect if it is off. As [`Self::activate_call`].
    ///
    /// # Errors
    /// As [`Self::activate_call`].
    ///
    /// # Safety
    /// As [`Self::activate_call`].
    #[inline]
    pub unsafe fn deactivate_call(&self) -> Result<(), Refusal> {
        // SAFETY: the caller's.
        unsafe { self.switch(self.on, self.off) }
    }

    #[inline]
    unsafe fn switch(&self, from: u64, to: u64) -> Result<(), Refusal> {
        if self.shared && fork::is_foreign_child() {
            return Err(Refusal::Forked { address: self.address });
        }
        // SAFETY: `new` has placed each access within one aligned word of the alias, which the caller vouches for.
        unsafe {
            match self.kind {
                StoreKind::Byte => {
                    if u64::from(store::load_1(self.at)) == from {
                        store::store_1(self.at, to as u8);
                        return Ok(());
                    }
                }
                StoreKind::Half => {
                    if u64::from(store::load_2(self.at)) == from {
                        store::store_2(self.at, to as u16);
                        return Ok(());
                    }
                }
                StoreKind::Quarter => {
                    if u64::from(store::load_4(self.at)) == from {
                        store::store_4(self.at, to as u32);
                        return Ok(());
                    }
                }
                StoreKind::Word => {
                    let now = store::load_8(self.at);
                    if now & self.mask == from {
                        store::store_8(self.at, (now & !self.mask) | to);
                        return Ok(());
                    }
                }
                StoreKind::SharedWord => {
                    let mut now = store::load_8(self.at);
                    // A retry means that a neighbour has been switched in between: somebody always gets on.
                    while now & self.mask == from {
                        match store::compare_exchange_8(self.at, now, (now & !self.mask) | to) {
                            Ok(()) => return Ok(()),
                            Err(found) => now = found,
                        }
                    }
                }
            }
            self.unexpected(to)
        }
    }

    /// The bytes are not the form we switch from: fine if they are the other one.
    #[cold]
    unsafe fn unexpected(&self, to: u64) -> Result<(), Refusal> {
        let wanted = if to == self.on { SiteState::On } else { SiteState::Off };
        // SAFETY: the caller's.
        let bytes = unsafe { self.bytes() };
        match self.state_of(bytes) {
            SiteState::Foreign => {
                let expected = if wanted == SiteState::On { self.off_bytes } else { self.on_bytes };
                let i = (0..5).find(|&i| bytes[i] != expected[i]).unwrap_or(0);
                Err(Refusal::ForeignBytes { address: self.address + i as u64, expected: expected[i], found: bytes[i] })
            }
            // It has the form wanted, or somebody is switching it to and fro at this moment: one order of events is
            // that ours came first.
            _ => Ok(()),
        }
    }

    /// Which form stands there, all five bytes considered.
    ///
    /// # Safety
    /// The alias is mapped.
    pub unsafe fn state(&self) -> SiteState {
        // SAFETY: the caller's.
        self.state_of(unsafe { self.bytes() })
    }

    fn state_of(&self, bytes: [u8; 5]) -> SiteState {
        if bytes == self.on_bytes {
            SiteState::On
        } else if bytes == self.off_bytes {
            SiteState::Off
        } else {
            SiteState::Foreign
        }
    }

    unsafe fn bytes(&self) -> [u8; 5] {
        // Word-wise, so that a site being switched is seen in one of its forms.
        let word = self.alias & !7;
        let shift = (self.alias % 8) * 8;
        // SAFETY: both words hold bytes of the site, which is mapped.
        let value = unsafe {
            let low = store::load_8(word) >> shift;
            if shift > 24 { low | store::load_8(word + 8) << (64 - shift) } else { low }
        };
        let mut bytes = [0; 5];
        bytes.copy_from_slice(&value.to_le_bytes()[..5]);
        bytes
    }
}

/// Switches an aligned word of code of our own making, such as a trampoline's first one, by its writable alias: one
/// store, at any time, by any thread. The caller has made both values such that they are two forms of one instruction,
/// followed by the same bytes.
#[inline]
pub fn toggle_word(alias: &AtomicU64, value: u64) {
    alias.store(value, Ordering::Release);
}
