//! Taking over the probes that an earlier controller left in a process: the arena tells where they are, the object's
//! plan what they are, and the text itself whether they are still there.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use transect_attach::{AttachError, Target};
use transect_event_abi::probe_arena::{PROBE_FILE_SIZE, SITE_GONE, SiteRecord};
use transect_probe::trampoline::{CAPACITY, WORD};
use transect_probe_plan::{Event, ExitSupport, Function, Plan, ProviderKind, Site};
use transect_text_patch::{WINDOW_CAPACITY, Window};

use super::place::{Placed, place};
use super::session::{ProbeSession, SessionSite, SiteId, SiteState};

/// A record of the arena, read once: the process may change it at any time.
struct Left {
    address: u64,
    bias: u64,
    function: u64,
    trampoline: u64,
    on: u64,
    off: u64,
    gone: bool,
    length: usize,
    original: [u8; WINDOW_CAPACITY],
}

impl ProbeSession {
    /// Fills [`ProbeSession::sites`] with what the arena holds.
    ///
    /// # Errors
    /// If the process has ended.
    pub(super) fn adopt(&mut self) -> Result<(), AttachError> {
        let left: Vec<Left> = (0..self.arena.site_count()).map(|id| self.left(id)).collect();
        let objects: Vec<Option<usize>> = left.iter().map(|record| self.object_of(record)).collect();
        let mut functions: HashMap<usize, HashSet<u64>> = HashMap::new();
        for (record, object) in left.iter().zip(&objects) {
            if let Some(object) = object {
                functions.entry(*object).or_default().insert(record.function);
            }
        }
        let plans: HashMap<usize, Plan> = functions
            .iter()
            .map(|(&object, wanted)| (object, super::plan::plan(&self.objects[object], &|f| wanted.contains(&f.vaddr))))
            .collect();
        for (record, object) in left.iter().zip(objects) {
            let planned = object.and_then(|object| {
                let plan = &plans[&object];
                let vaddr = record.address.wrapping_sub(record.bias);
                let site = plan.sites.iter().find(|site| site.vaddr == vaddr)?;
                Some((site, &plan.functions[site.function as usize]))
            });
            let site = self.adopt_site(record, object, planned);
            if let (Some(object), true) = (object, site.state != SiteState::Gone) {
                let vaddr = record.address.wrapping_sub(record.bias);
                self.placed.insert((object, vaddr), self.sites.len() as SiteId);
            }
            self.sites.push(site);
        }
        Ok(())
    }

    fn left(&self, id: usize) -> Left {
        let record = self.arena.site(id);
        let mut original = [0; WINDOW_CAPACITY];
        for (bytes, word) in original.chunks_mut(8).zip(&record.original) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
        }
        Left {
            address: record.address.load(Relaxed),
            bias: record.bias.load(Relaxed),
            function: record.function.load(Relaxed),
            trampoline: record.trampoline.load(Relaxed),
            on: record.on.load(Relaxed),
            off: record.off.load(Relaxed),
            gone: record.state.load(Relaxed) == SITE_GONE,
            length: (record.window_length.load(Relaxed) as usize).min(WINDOW_CAPACITY),
            original,
        }
    }

    /// The object in whose code a record's site lies.
    fn object_of(&self, record: &Left) -> Option<usize> {
        let holds = |code: &transect_attach::Reach| code.low <= record.address && record.address < code.high;
        self.objects.iter().position(|o| !record.gone && o.bias == record.bias && o.code.iter().any(holds))
    }

    fn adopt_site(&self, record: &Left, object: Option<usize>, planned: Option<(&Site, &Function)>) -> SessionSite {
        let region = self
            .arena
            .regions()
            .into_iter()
            .find(|region| record.trampoline >= region.address && record.trampoline - region.address < region.size);
        let block = region.map(|region| region.file_offset + (record.trampoline - region.address));
        // Its words are used by their places in the file.
        let block = block.filter(|at| at.is_multiple_of(8) && *at <= PROBE_FILE_SIZE - CAPACITY as u64);
        let mut text = [0; WINDOW_CAPACITY];
        let read = self.target.memory().read(record.address, &mut text[..record.length]).is_ok();
        let text = &text[..record.length];
        let original = &record.original[..record.length];
        let state = if object.is_none() || block.is_none() || !read || record.length < 5 {
            SiteState::Gone
        } else if leads_to(record.address, text, record.trampoline.wrapping_add(WORD as u64)) {
            SiteState::Installed
        } else if text == original {
            SiteState::Original
        } else {
            SiteState::Gone
        };
        let placed = planned.and_then(|(site, _)| place(site, record.bias, record.trampoline).ok());
        // Another version of the planner may have seen it otherwise: then it can be switched and restored, no more.
        let placed = placed.filter(|placed| {
            placed.block.on == record.on
                && placed.block.off == record.off
                && placed.install.old[..record.length] == *original
                && usize::from(placed.install.length) == record.length
        });
        let restore = Window {
            address: record.address,
            length: record.length as u8,
            old: padded(if state == SiteState::Installed { text } else { original }),
            new: record.original,
            starts: 1,
            moves: padded_moves(record.address),
        };
        let unplanned = Function {
            name: transect_binary_info::unnamed_function(record.function),
            vaddr: record.function,
            ..Function::default()
        };
        let return_site =
            placed.as_ref().map_or(0, |p| if p.can_time { record.trampoline + p.block.return_site as u64 } else { 0 });
        let (install, restore, can_time) = match placed {
            Some(Placed { install, restore, can_time, .. }) => (install, restore, can_time),
            None => {
                let install = Window { old: restore.new, new: restore.old, ..restore.clone() };
                (install, restore, false)
            }
        };
        SessionSite {
            object: object.unwrap_or(usize::MAX),
            function: planned.map_or(unplanned, |(_, function)| function.clone()),
            provider: planned.map_or(ProviderKind::Entry, |(site, _)| site.provider),
            event: planned.map_or(Event::Entry, |(site, _)| site.event),
            exit: planned.map_or(ExitSupport::ReturnAddressUsed, |(site, _)| site.exit),
            name: planned.map_or_else(String::new, |(site, _)| site.name.clone()),
            can_time,
            block: block.unwrap_or(0),
            return_site,
            on: record.on,
            off: record.off,
            install,
            restore,
            state,
        }
    }
}

/// True if a jump or call of five bytes at `address` leads to `target`.
fn leads_to(address: u64, text: &[u8], target: u64) -> bool {
    let (Some(0xe8 | 0xe9), Some(displacement)) = (text.first(), text.get(1..5)) else { return false };
    let displacement = i32::from_le_bytes(displacement.try_into().unwrap_or_default());
    address.wrapping_add(5).wrapping_add_signed(displacement.into()) == target
}

/// What puts a record's original bytes back, if its jump stands in the text. Sites switched by a call or by their own
/// text are not looked for: the walk has none.
pub(crate) fn restore_left(target: &Target, record: &SiteRecord) -> Option<Window> {
    let (address, trampoline) = (record.address.load(Relaxed), record.trampoline.load(Relaxed));
    let length = (record.window_length.load(Relaxed) as usize).min(WINDOW_CAPACITY);
    let mut text = [0; WINDOW_CAPACITY];
    target.memory().read(address, &mut text[..length]).ok()?;
    if length < 5 || !leads_to(address, &text[..length], trampoline.wrapping_add(WORD as u64)) {
        return None;
    }
    let mut original = [0; WINDOW_CAPACITY];
    for (bytes, word) in original.chunks_mut(8).zip(&record.original) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
    }
    let new = padded(&original[..length]);
    Some(Window { address, length: length as u8, old: text, new, starts: 1, moves: padded_moves(address) })
}

fn padded(bytes: &[u8]) -> [u8; WINDOW_CAPACITY] {
    let mut padded = [0; WINDOW_CAPACITY];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}

fn padded_moves(address: u64) -> [u64; WINDOW_CAPACITY] {
    let mut moves = [0; WINDOW_CAPACITY];
    moves[0] = address;
    moves
}
