//! Writing and removing the jumps of many sites in one batch, while other threads run.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use transect_probe::Descriptor;
use transect_probe::trampoline::WORD;
use transect_probe::unwind;
use transect_text_patch::writable::{self, Alias};
use transect_text_patch::{CallSite, Refusal, Window, batch};

use crate::arena;
use crate::error::Error;
use crate::handler;
use crate::place;
use crate::registry::{self, Library};
use crate::site_info::SiteInfo;
use crate::slot::{Slot, kind, state};
use crate::toggle::{self, gate};

/// What happened to one id of a batch.
pub type Outcome = (u32, Result<(), Error>);

/// One window on its way.
struct Work {
    id: u32,
    slot: &'static Slot,
    info: &'static SiteInfo,
}

fn known(id: u32) -> Result<Work, Error> {
    let slot = arena::slot(id).ok_or(Error::NoSite(id))?;
    let info = slot.info().ok_or(Error::NoSite(id))?;
    if slot.state.load(Ordering::Acquire) == state::GONE {
        return Err(Error::Gone(id));
    }
    Ok(Work { id, slot, info })
}

fn patch_error(info: &SiteInfo, refusal: Refusal) -> Error {
    Error::Patch { function: info.label(), refusal }
}

/// Installs sites; the outcome of each, in order.
pub fn install(library: &mut Library, ids: &[u32]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(ids.len());
    let mut work: BTreeMap<u64, (Work, Window)> = BTreeMap::new();
    // Blocks are 192 bytes on the average; one region for a whole library is better than many.
    let hint = ids.len() as u64 * 256;
    for &id in ids {
        let prepared = known(id).and_then(|one| {
            if one.slot.state.load(Ordering::Acquire) == state::INSTALLED {
                return Ok(None);
            }
            let window = prepare(library, &one, hint)?;
            Ok(Some((one, window)))
        });
        match prepared {
            Ok(None) => outcomes.push((id, Ok(()))),
            Ok(Some((one, window))) => {
                work.insert(window.address, (one, window));
            }
            Err(error) => outcomes.push((id, Err(error))),
        }
    }
    apply(library, work, &mut outcomes, |one| {
        one.slot.state.store(state::INSTALLED, Ordering::Release);
    });
    outcomes
}

/// Restores sites; the outcome of each.
pub fn restore(library: &mut Library, ids: &[u32]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(ids.len());
    let mut work: BTreeMap<u64, (Work, Window)> = BTreeMap::new();
    for &id in ids {
        let prepared = known(id).and_then(|one| {
            if one.slot.state.load(Ordering::Acquire) != state::INSTALLED {
                return Ok(None);
            }
            let window = back(&one)?;
            toggle::retire(one.slot);
            Ok(Some((one, window)))
        });
        match prepared {
            Ok(None) => outcomes.push((id, Ok(()))),
            Ok(Some((one, window))) => {
                work.insert(window.address, (one, window));
            }
            Err(error) => outcomes.push((id, Err(error))),
        }
    }
    // Toggles that began before the sites were retired are through; they leave the off form.
    gate::close();
    gate::open();
    for (one, _) in work.values() {
        toggle::quiet(one.slot);
    }
    apply(library, work, &mut outcomes, |_| {});
    for (id, _) in outcomes.iter().filter(|(_, outcome)| outcome.is_err()) {
        // Its jump still stands.
        if let Some(slot) = arena::slot(*id).filter(|slot| slot.state.load(Ordering::Acquire) == state::RESTORED) {
            slot.state.store(state::INSTALLED, Ordering::Release);
        }
    }
    outcomes
}

/// Rounds in which open calls are looked for, and the pause between them.
const ROUNDS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Restores all sites, and then the library's own probes: the text is as it was. Calls that are still open return
/// directly, without exit handler. The outcomes of the users' sites.
pub fn restore_everything(library: &mut Library) -> Vec<Outcome> {
    let is_installed =
        |id: &u32| arena::slot(*id).is_some_and(|slot| slot.state.load(Ordering::Acquire) == state::INSTALLED);
    let installed: Vec<u32> = (0..registry::site_count()).filter(is_installed).collect();
    let outcomes = restore(library, &installed);
    library.watches.clear();
    // A thread that was within an entry handler opens its frame a little later; while frames come up, unwinders must
    // still find the probes that deal with them.
    let mut quiet = 0;
    for _ in 0..ROUNDS {
        quiet = if unwind::restore_everywhere() == 0 { quiet + 1 } else { 0 };
        if quiet == 2 {
            let own: Vec<u32> = library.reserved.iter().map(|&(_, id)| id).filter(is_installed).collect();
            restore(library, &own);
            library.guarded.clear();
            library.loader_watched = false;
            break;
        }
        std::thread::sleep(PAUSE);
    }
    outcomes
}

/// Builds and writes the block, or finds the one that the site has, and makes the window that leads there.
fn prepare(library: &mut Library, one: &Work, hint: u64) -> Result<Window, Error> {
    let (info, slot, bias) = (one.info, one.slot, one.info.object.loaded.bias);
    let refused = |refusal| patch_error(info, refusal);
    let known = slot.block.load(Ordering::Acquire);
    if known != 0 {
        let in_text = slot.kind.load(Ordering::Relaxed) == kind::TEXT;
        if in_text && text_alias(library, info).is_none() {
            return Err(refused(Refusal::NotWritable { address: info.address, errno: libc::EACCES as u16 }));
        }
        return Ok(place::build(&info.site, bias, known, in_text).map_err(refused)?.window);
    }
    let alias = text_alias(library, info);
    // Its length doesn't depend on where it stands.
    let length = place::build(&info.site, bias, info.address & !63, false).map_err(refused)?.block.length;
    let loaded = &info.object.loaded;
    let code = loaded.start..loaded.end;
    let at = library.regions.allocate(length as u64, &code, hint, library.policy.access)?;
    let placed = place::build(&info.site, bias, at.block, alias.is_some()).map_err(refused)?;
    // SAFETY: `length` bytes at `at.write` were given out to this site alone, and nobody executes them yet. A batch
    // serializes all threads before they can.
    unsafe { std::ptr::copy_nonoverlapping(placed.block.bytes.as_ptr(), at.write as *mut u8, placed.block.length) };
    // SAFETY: a block is 64-aligned and begins with its descriptor, which consists of atomics.
    let descriptor = unsafe { &*(at.write as *const Descriptor) };
    handler::fill(one.id, slot, descriptor);
    let word = at.write + WORD as u64;
    slot.word.store(word, Ordering::Relaxed);
    slot.on.store(placed.block.on, Ordering::Relaxed);
    slot.off.store(placed.block.off, Ordering::Relaxed);
    slot.kind.store(kind::TRAMPOLINE, Ordering::Relaxed);
    if let (Some(alias), Some((on, off))) = (alias, placed.forms) {
        let site = CallSite::new(info.address, alias.of(info.address), on, off).map_err(refused)?;
        slot.call_site.store(Box::leak(Box::new(site)), Ordering::Release);
        slot.kind.store(kind::TEXT, Ordering::Relaxed);
    }
    if let Some(record) = arena::record(one.id) {
        record.address.store(info.address, Ordering::Relaxed);
        record.word.store(word, Ordering::Relaxed);
        record.on.store(placed.block.on, Ordering::Relaxed);
        record.off.store(placed.block.off, Ordering::Relaxed);
        record.trampoline.store(at.block, Ordering::Relaxed);
    }
    slot.block.store(at.block, Ordering::Release);
    slot.descriptor.store(at.write, Ordering::Release);
    Ok(placed.window)
}

/// Where the text of a site is written that is to be switched in it. None if it isn't, or the policy gives no writable
/// text: then its block's first word switches.
fn text_alias(library: &mut Library, info: &SiteInfo) -> Option<Alias> {
    if !place::switches_in_text(&info.site) {
        return None;
    }
    // The whole segment: opening single pages would cut it into as many mappings.
    let &(start, end) =
        info.object.loaded.code.iter().find(|&&(start, end)| start <= info.address && info.address < end)?;
    if let Some((_, _, alias)) = library.opened.iter().find(|(from, to, _)| *from <= start && end <= *to) {
        return *alias;
    }
    let alias = writable::open_for_toggling(start, end, library.policy.access).ok();
    library.opened.push((start, end, alias));
    alias
}

/// The window that puts the original bytes back.
fn back(one: &Work) -> Result<Window, Error> {
    let block = one.slot.block.load(Ordering::Acquire);
    let in_text = one.slot.kind.load(Ordering::Relaxed) == kind::TEXT;
    let there = place::build(&one.info.site, one.info.object.loaded.bias, block, in_text)
        .map_err(|refusal| patch_error(one.info, refusal))?
        .window;
    Ok(there.reversed())
}

/// Applies windows in one batch; those that are refused are left out.
fn apply(
    library: &Library,
    mut work: BTreeMap<u64, (Work, Window)>,
    outcomes: &mut Vec<Outcome>,
    mut done: impl FnMut(&Work),
) {
    if work.is_empty() {
        return;
    }
    let mut windows: Vec<Window> = work.values().map(|(_, window)| window.clone()).collect();
    let mut refused: BTreeMap<u64, Refusal> = BTreeMap::new();
    // Sorted already, so an index keeps its meaning.
    let addresses: Vec<u64> = windows.iter().map(|window| window.address).collect();
    batch::examine(&mut windows, &mut |index, refusal| {
        if let Some(&address) = addresses.get(index) {
            refused.insert(address, refusal);
        }
    });
    let mut patience = 1000;
    loop {
        for (address, refusal) in std::mem::take(&mut refused) {
            if let Some((one, _)) = work.remove(&address) {
                outcomes.push((one.id, Err(patch_error(one.info, refusal))));
            }
        }
        windows.retain(|window| work.contains_key(&window.address));
        if windows.is_empty() {
            return;
        }
        // SAFETY: the windows lie in objects that are loaded: the loader's events take unloaded ones out under the lock;
        // blocks and descriptors are complete, and their plans say that nothing jumps into a window.
        match unsafe { batch::apply(&mut windows, &library.policy) } {
            Ok(_) => break,
            // The program patches windows of its own at this moment.
            Err(Refusal::Contended { .. }) if patience > 0 => {
                patience -= 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(refusal) => {
                // One window's fault leaves the others to be tried again; any other refusal concerns all of them.
                let culprit = refusal.address().and_then(|at| {
                    work.range(..=at).next_back().filter(|(start, (_, w))| at < *start + u64::from(w.length))
                });
                match culprit.map(|(&start, _)| start) {
                    Some(start) => {
                        refused.insert(start, refusal);
                    }
                    None => refused.extend(work.keys().map(|&start| (start, refusal))),
                }
            }
        }
    }
    for (one, _) in work.into_values() {
        done(&one);
        outcomes.push((one.id, Ok(())));
    }
}
