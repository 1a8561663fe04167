//! What switching a site costs.
//!
//! A site is a call of five bytes. Its *split* is the number of its bytes before a cache line's end: 0 for a site
//! within a line, 1 to 4 for a straddler ("Living on the Edge", PLDI '16, tables 1 and 2).

use serde::Serialize;
use transect_text_patch::{CallSite, form};

use crate::code_memory::CodeMemory;
use crate::{CalibrateError, clock};

/// Every split.
pub const SPLITS: [u8; 5] = [0, 1, 2, 3, 4];

/// Ticks of one toggle, net of the clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToggleCost {
    /// Bytes of the site before the end of a cache line; 0 if it doesn't straddle.
    pub split: u8,
    /// Switching one site on, timed by itself (mean without the slowest tenth).
    pub on_ticks: f64,
    /// Switching one site off, timed by itself.
    pub off_ticks: f64,
    /// Switching one of many sites in a row, on or off (mean of the fastest round).
    pub bulk_ticks: f64,
}

const STRIDE: usize = 128;
/// Offset of the stub that returns, and of the one that an active call leads to, behind the sites.
const STUB: usize = 16;

/// Sites of one split, each with two cache lines of its own.
#[derive(Debug)]
pub struct Sites {
    memory: CodeMemory,
    sites: Vec<CallSite>,
}

impl Sites {
    /// Prepares `count` sites, switched off.
    ///
    /// # Errors
    /// [`CalibrateError`] if there is no executable memory.
    pub fn new(split: u8, count: usize) -> Result<Self, CalibrateError> {
        let memory = CodeMemory::new(count * STRIDE + 64)?;
        let stub = count * STRIDE;
        memory.write(stub, &[form::RETURN]);
        memory.write(stub + STUB, &[form::RETURN]);
        let sites = (0..count).map(|i| {
            let offset = i * STRIDE + 64 - usize::from(split);
            let address = memory.address(offset);
            let on = form::transfer(form::CALL, address, memory.address(stub + STUB))?;
            let off = form::off_form(address, on, memory.address(stub))?;
            memory.write(offset, &off);
            memory.write(offset + 5, &[form::RETURN]);
            let site = CallSite::new(address, memory.alias(offset), on, off)?;
            Ok(site.exclusive_word().guarded_against_fork(false))
        });
        let sites = sites.collect::<Result<_, CalibrateError>>()?;
        Ok(Self { memory, sites })
    }

    /// The sites.
    pub fn all(&self) -> &[CallSite] {
        &self.sites
    }

    /// The memory they lie in.
    pub fn memory(&self) -> &CodeMemory {
        &self.memory
    }
}

/// Switches a site of [`Sites`].
#[inline]
fn switch(site: &CallSite, on: bool) {
    // SAFETY: the sites' memory is mapped writable, and their stubs are in place.
    let done = unsafe { if on { site.activate_call() } else { site.deactivate_call() } };
    debug_assert!(done.is_ok());
}

/// Measures one split.
///
/// # Errors
/// [`CalibrateError`] if there is no executable memory.
pub fn toggle_cost(split: u8, rounds: usize) -> Result<ToggleCost, CalibrateError> {
    const SITES: usize = 1024;
    let sites = Sites::new(split, SITES)?;
    // Where the clock advances in steps of many ticks only means tell: they need an empty interval's mean beside.
    let mut empty = Vec::with_capacity(rounds * SITES);
    let mut bulk = f64::INFINITY;
    let mut single = [Vec::with_capacity(rounds * SITES), Vec::with_capacity(rounds * SITES)];
    for _ in 0..rounds {
        for on in [true, false] {
            let start = clock::begin();
            for site in sites.all() {
                switch(site, on);
            }
            bulk = bulk.min((clock::end() - start) as f64 / SITES as f64);
        }
        for on in [true, false] {
            for site in sites.all() {
                let start = clock::begin();
                switch(site, on);
                single[usize::from(on)].push((clock::end() - start) as f64);
            }
        }
        for _ in 0..SITES {
            let start = clock::begin();
            empty.push((clock::end() - start) as f64);
        }
    }
    let empty = quiet_mean(&mut empty);
    let [off, on] = single.map(|mut values| (quiet_mean(&mut values) - empty).max(0.0));
    Ok(ToggleCost { split, on_ticks: on, off_ticks: off, bulk_ticks: bulk })
}

/// Mean without the largest tenth, in which interrupts and preemptions are.
fn quiet_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let kept = &values[..values.len() - values.len() / 10];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_text_patch::SiteState;

    #[test]
    fn sites_straddle_as_asked_and_switch() {
        for split in SPLITS {
            let sites = Sites::new(split, 8).unwrap();
            for site in sites.all() {
                let before = 64 - site.address() % 64;
                assert_eq!(if before < 5 { before } else { 0 }, u64::from(split));
                // SAFETY: the sites' own memory.
                let state = || unsafe { site.state() };
                assert_eq!(state(), SiteState::Off);
                switch(site, true);
                assert_eq!(state(), SiteState::On);
                // SAFETY: `site; ret`, with stubs that return.
                unsafe { std::mem::transmute::<u64, extern "C" fn()>(site.address())() };
                switch(site, false);
                assert_eq!(state(), SiteState::Off);
                // SAFETY: as above.
                unsafe { std::mem::transmute::<u64, extern "C" fn()>(site.address())() };
            }
        }
    }
}
