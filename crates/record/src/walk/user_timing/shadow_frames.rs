//! The handlers' shadow frames, found and made from outside.

use transect_attach::Memory;
use transect_probe::frame::{SHADOW_PAGE, page_hash};

use crate::probe_session::HandlerPlaces;

/// Pages looked at, as the handlers do.
const SEARCH: u64 = 64;
const FRAME: u64 = 32;

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
