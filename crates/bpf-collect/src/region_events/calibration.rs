//! How sites are watched here, and what one event costs: a site of this process' own is watched for a moment.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;
use std::time::Instant;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use super::{RegionEvents, WatchedSite};
use crate::error::CollectError;

/// Events of one round.
const EVENTS: u32 = 500;
/// Rounds; the quickest counts.
const ROUNDS: usize = 8;

std::arch::global_asm!(
    ".pushsection .text.transect_calibrated_site, \"ax\", @progbits",
    ".p2align 4",
    ".globl transect_calibrated_site",
    ".hidden transect_calibrated_site",
    "transect_calibrated_site:",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    /// A no-op of five bytes, and back.
    fn transect_calibrated_site();
}

impl RegionEvents {
    /// Finds out how sites are to be watched here, and what an event costs the thread that has it, ns. Nobody may read
    /// events meanwhile, and none of before are left.
    ///
    /// # Errors
    /// If this process can't be watched.
    pub(super) fn calibrate(&mut self) -> Result<f64, CollectError> {
        let address = transect_calibrated_site as *const () as u64;
        let Some(offset) = file_offset(address) else {
            return Err(CollectError::Nothing("this program's own code".to_owned()));
        };
        let bare = quickest();
        let pid = std::process::id().cast_signed();
        let mut cost = bare;
        for _ in 0..2 {
            let links = self.links.len();
            self.follow(pid)?;
            let watched = self.watch(Path::new("/proc/self/exe"), &[WatchedSite { offset, kind: 0 }]);
            cost = quickest();
            let again = !self.only_breakpoints && !children_survive();
            self.links.truncate(links);
            self.leave(pid)?;
            watched?;
            if !again {
                break;
            }
            self.only_breakpoints = true;
        }
        self.source()?.open(|_| {})?.read();
        Ok((cost - bare).max(0.0))
    }
}

/// Time of one call of the site, ns.
fn quickest() -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..EVENTS {
            // SAFETY: it does nothing.
            unsafe { transect_calibrated_site() };
        }
        start.elapsed().as_nanos() as f64 / f64::from(EVENTS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Whether a child of fork survives the site as it is now.
fn children_survive() -> bool {
    // SAFETY: the child calls the site, which does nothing, and ends at once.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            // It may crash: nobody is to find a dump of the recorder.
            let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
            // SAFETY: as above; where it crashes the child ends, too.
            unsafe {
                transect_calibrated_site();
                nix::libc::_exit(0)
            }
        }
        Ok(ForkResult::Parent { child }) => matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0))),
        Err(_) => false,
    }
}

/// Where an address of this process lies in its program's file.
fn file_offset(address: u64) -> Option<u64> {
    let maps = String::from_utf8_lossy(&fs::read("/proc/self/maps").ok()?).into_owned();
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(words.nth(1)?)?;
        (start..end).contains(&address).then(|| address - start + offset)
    })
}
