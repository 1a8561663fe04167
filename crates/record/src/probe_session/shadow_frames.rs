//! The handlers' shadow frames, found and made from outside.

use std::ops::Range;

use transect_attach::Memory;
use transect_probe::frame::{SHADOW_PAGE, page_hash};
use transect_probe::trampoline::RETURN_SITE;

use super::HandlerPlaces;
use super::leaving::contains;

/// Pages looked at, as the handlers do.
const SEARCH: u64 = 64;
const FRAME: u64 = 32;
/// Bytes of a stack page.
const PAGE: usize = 4096;

/// Address of the frame of a stack slot; with `insert`, room is made for its stack page, for which all threads must
/// stand. `None` if there is none.
fn frame_at(memory: &Memory, places: &HandlerPlaces, slot: u64, insert: bool) -> Option<u64> {
    let page = slot >> 12;
    let first = page_hash(page);
    for index in (first..first + SEARCH).map(|index| index & places.mask) {
        let at = places.keys + index * 8;
        let key = memory.read_u64(at).ok()?;
        if key == 0 && insert {
            memory.write(at, &page.to_le_bytes()).ok()?;
        }
        if key == page || key == 0 && insert {
            return Some(places.pool + index * SHADOW_PAGE as u64 + (slot & 0xff8) / 8 * FRAME);
        }
        if key == 0 {
            return None;
        }
    }
    None
}

/// The true return address of a slot that holds one of our return sites.
pub fn return_address(memory: &Memory, places: &HandlerPlaces, slot: u64) -> Option<u64> {
    memory.read_u64(frame_at(memory, places, slot, false)?).ok()
}

/// Makes the frame of a call that is open already, of the site whose block is at `descriptor`. All threads stand. Gives
/// false if there is no room.
pub fn open(memory: &Memory, places: &HandlerPlaces, slot: u64, return_address: u64, descriptor: u64) -> bool {
    let Some(at) = frame_at(memory, places, slot, true) else { return false };
    let bytes: Vec<u8> = [return_address, 0, descriptor, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.write(at, &bytes).is_ok()
}

/// Puts the true return addresses back in all slots that hold one of our return sites, on whatever stack: a thread may
/// have several, of which its notes name one slot. All threads stand.
pub fn put_all_back(memory: &Memory, places: &HandlerPlaces, regions: &[Range<u64>]) {
    let mut keys = vec![0; (places.mask as usize + 1) * 8];
    if memory.read(places.keys, &mut keys).is_err() {
        return;
    }
    for (index, page) in (0..).zip(words(&keys)).filter(|&(_, page)| page != 0) {
        let (mut frames, mut stack) = ([0; SHADOW_PAGE], [0; PAGE]);
        let pool = places.pool + index * SHADOW_PAGE as u64;
        // A stack that was unmapped since holds nothing.
        if memory.read(page << 12, &mut stack).is_err() || memory.read(pool, &mut frames).is_err() {
            continue;
        }
        for ((slot, there), frame) in
            ((page << 12)..).step_by(8).zip(words(&stack)).zip(frames.chunks_exact(FRAME as usize))
        {
            // A frame that has no descriptor was closed.
            let mut words = words(frame);
            let (address, descriptor) = (words.next().unwrap_or(0), words.nth(1).unwrap_or(0));
            if descriptor != 0 && address != 0 && contains(regions, there) && is_return_site(memory, there) {
                let _ = memory.write(slot, &address.to_le_bytes());
            }
        }
    }
}

/// A frame whose call was left may stand where a handler, at work, has its own return address.
fn is_return_site(memory: &Memory, address: u64) -> bool {
    let mut code = [0; RETURN_SITE.len()];
    memory.read(address, &mut code).is_ok() && code == RETURN_SITE
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}
