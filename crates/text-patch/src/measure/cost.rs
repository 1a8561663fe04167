//! What toggling, installing and serializing cost here, in ticks of the time stamp counter.

use core::hint::black_box;

use super::field::Field;
use super::region::Region;
use crate::arch::syscall::{self, MAP_ANONYMOUS, MAP_POPULATE, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::arch::{fenced_ticks, ticks};
use crate::batch::{BatchPolicy, Method, apply};
use crate::form::{JUMP, NOP5, transfer};
use crate::serialize::serialize_all;
use crate::{CallSite, Refusal, WINDOW_CAPACITY, Window};

const SAMPLES: usize = 1001;

/// What a toggle costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToggleCost {
    /// Place in the 8-byte word.
    pub split: u64,
    /// One activation by itself, fenced, less the fences and clock reads: median.
    pub on_ticks: f64,
    /// One deactivation.
    pub off_ticks: f64,
    /// A toggle among many of different sites, each executed before: mean of the best of several rounds.
    pub bulk_ticks: f64,
}

fn median(samples: &mut [u64; SAMPLES]) -> u64 {
    samples.sort_unstable();
    samples[SAMPLES / 2]
}

/// Measures toggles of sites at one place in the 8-byte word. Let other threads execute [`Field::pass`] of the same
/// field to measure under fire ([`toggle_cost_of`] takes the field).
///
/// # Errors
/// [`Refusal::System`] where the kernel gives no executable memory.
pub fn toggle_cost(split: u64) -> Result<ToggleCost, Refusal> {
    let field = Field::new(split..split + 1, 64, false)?;
    toggle_cost_of(&field, split)
}

/// Measures toggles of a field's sites, all of them at `split`.
///
/// # Errors
/// As [`CallSite::activate_call`].
pub fn toggle_cost_of(field: &Field, split: u64) -> Result<ToggleCost, Refusal> {
    let sites = field.sites();
    let mut counters = super::Counters::default();
    let (mut empty, mut on, mut off) = ([0; SAMPLES], [0; SAMPLES], [0; SAMPLES]);
    for i in 0..SAMPLES {
        field.pass(&mut counters);
        let site = &sites[i % sites.len()];
        let times = [fenced_ticks(), fenced_ticks(), on_at(site, true)?, fenced_ticks(), on_at(site, false)?];
        let after = fenced_ticks();
        empty[i] = times[1] - times[0];
        on[i] = times[2] - times[1];
        off[i] = times[4] - times[3];
        black_box(after);
    }
    let floor = median(&mut empty);
    let single = |samples: &mut [u64; SAMPLES]| median(samples).saturating_sub(floor) as f64;
    let (on_ticks, off_ticks) = (single(&mut on), single(&mut off));
    let mut best = u64::MAX;
    for _ in 0..200 {
        let begun = ticks();
        for site in sites {
            // SAFETY: the field's memory is writable, and its targets are in place.
            unsafe { site.activate_call()? };
        }
        for site in sites {
            // SAFETY: as above.
            unsafe { site.deactivate_call()? };
        }
        best = best.min(ticks() - begun);
        field.pass(&mut counters);
    }
    Ok(ToggleCost { split, on_ticks, off_ticks, bulk_ticks: best as f64 / (2 * sites.len()) as f64 })
}

/// Switches a site and returns the time after it.
#[inline(always)]
fn on_at(site: &CallSite, on: bool) -> Result<u64, Refusal> {
    // SAFETY: a field's site.
    unsafe { if on { site.activate_call()? } else { site.deactivate_call()? } };
    Ok(fenced_ticks())
}

/// Serialization of all threads: median.
///
/// # Errors
/// [`Refusal::NoSerialization`].
pub fn membarrier_ticks() -> Result<u64, Refusal> {
    let mut samples = [0; SAMPLES];
    serialize_all()?;
    for sample in &mut samples {
        let begun = ticks();
        serialize_all()?;
        *sample = ticks() - begun;
    }
    Ok(median(&mut samples))
}

/// What a batch costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstallCost {
    /// Sites.
    pub sites: usize,
    /// From the first store to the last serialization, a site.
    pub protocol_ticks: f64,
    /// With checks, mappings and all, a site.
    pub whole_ticks: f64,
}

/// Installs and restores `sites` jumps over no-ops of five bytes, 32 bytes apart, with INT3 and membarrier; the median
/// of eleven rounds.
///
/// # Errors
/// As [`apply`].
pub fn install_cost(sites: usize) -> Result<InstallCost, Refusal> {
    const APART: u64 = 32;
    let region = Region::new((sites as u64 * APART).next_multiple_of(4096), false)?;
    let bytes = (sites * size_of::<Window>()) as u64;
    // SAFETY: a new mapping.
    let memory = unsafe {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
        syscall::mmap(0, bytes, PROT_READ | PROT_WRITE, flags, -1, 0)
    }
    .map_err(|errno| Refusal::System { call: "mmap", errno: errno.0 })?;
    let result = (|| {
        for i in 0..sites as u64 {
            let address = region.base + i * APART + i % 8;
            let mut window = Window {
                address,
                length: 5,
                old: [0; WINDOW_CAPACITY],
                new: [0; WINDOW_CAPACITY],
                starts: 1,
                moves: [0; WINDOW_CAPACITY],
            };
            window.old[..5].copy_from_slice(&NOP5);
            window.new[..5].copy_from_slice(&transfer(JUMP, address, region.base)?);
            let _ = region.put(address, &NOP5);
            // SAFETY: mapped above.
            unsafe { (memory as *mut Window).add(i as usize).write(window) };
        }
        // SAFETY: written above.
        let windows = unsafe { core::slice::from_raw_parts_mut(memory as *mut Window, sites) };
        let policy = BatchPolicy { method: Method::Trap, ..BatchPolicy::default() };
        let mut rounds = [(0, 0); 11];
        for round in &mut rounds {
            // SAFETY: memory of ours that nobody executes.
            let report = unsafe { apply(windows, &policy)? };
            *round = (report.ticks, report.whole_ticks);
            for window in windows.iter_mut() {
                *window = window.reversed();
            }
        }
        rounds.sort_unstable();
        let per_site = |ticks: u64| ticks as f64 / sites as f64;
        Ok(InstallCost { sites, protocol_ticks: per_site(rounds[5].0), whole_ticks: per_site(rounds[5].1) })
    })();
    // SAFETY: mapped above.
    unsafe { syscall::munmap(memory, bytes) };
    result
}
