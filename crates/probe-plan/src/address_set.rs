//! Sets of addresses in an object's code, one bit each.

use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each address of the object's code.
pub(crate) struct AddressSet {
    base: u64,
    bits: Vec<u64>,
}

impl AddressSet {
    pub(crate) fn new(base: u64, end: u64) -> Self {
        Self { base, bits: vec![0; ((end - base) / 64 + 1) as usize] }
    }

    pub(crate) fn insert(&mut self, address: u64) {
        let at = address.wrapping_sub(self.base);
        if let Some(word) = self.bits.get_mut((at / 64) as usize) {
            *word |= 1 << (at % 64);
        }
    }

    #[inline]
    pub(crate) fn contains(&self, address: u64) -> bool {
        let at = address.wrapping_sub(self.base);
        self.bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }
}

/// The same, for several threads at once.
pub(crate) struct SharedSet {
    base: u64,
    bits: Vec<AtomicU64>,
}

impl SharedSet {
    pub(crate) fn new(base: u64, end: u64) -> Self {
        Self { base, bits: (0..(end - base) / 64 + 1).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn insert(&self, address: u64) {
        let at = address.wrapping_sub(self.base);
        if let Some(word) = self.bits.get((at / 64) as usize) {
            word.fetch_or(1 << (at % 64), Ordering::Relaxed);
        }
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        let at = address.wrapping_sub(self.base);
        self.bits.get((at / 64) as usize).is_some_and(|word| word.load(Ordering::Relaxed) >> (at % 64) & 1 != 0)
    }
}
