//! Leaving a process as it was: its text is the files' again, no return address of ours is on a stack, and then trampolines,
//! handlers, the arena and its descriptor go, too.
//!
//! 1. Jumps are taken out, but for those at the unwinders, which must not meet a return site of ours.
//! 2. All return addresses are put back, until no thread is on its way through a trampoline: no frame is made any more.
//! 3. The unwinders' jumps are taken out, and when no thread is there, in one stop, everything is unmapped.
//!
//! The same is done in forked children, which have copies of it all.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use transect_attach::{Arena, AttachError, FileIdentity, Image, LoadedImage, Mapping, Stop, Target, Unwritten};
use transect_event_abi::region_arena::REGION_FILE_NAME;
use transect_text_patch::Window;

use super::shadow_frames::put_all_back;
use super::skip_reason::skip_reason;
use super::{HandlerPlaces, siblings};

/// How often it is looked whether threads have left the trampolines: it takes them some nanoseconds on a CPU, and at most 50
/// ms where one waits for us.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(2);

/// Why memory of ours is left in a process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryKept {
    /// Others' probes need it.
    #[error("probes that were there before stay in it")]
    Probes,
    /// A thread is inside.
    #[error(
        "a thread of it is on its way through a probe; its memory remains mapped (`transect probe detach` takes it out later)"
    )]
    Inside,
    /// No thread can be made to unmap it.
    #[error("its memory remains mapped: {0}")]
    Mapped(String),
    /// A return address may come back later.
    #[error(
        "calls that are open in it may return through a probe ({0}); its memory remains mapped, and takes space only where used"
    )]
    Returns(String),
}

/// What is needed to leave a process.
pub struct Leaving<'a> {
    pub target: &'a Target,
    pub arena: &'a Arena,
    /// The agent that was loaded.
    pub image: &'a Image,
}

impl Leaving<'_> {
    /// Takes out these windows, which put original bytes back; `services` are those at the unwinders. Gives why memory is left,
    /// if it does: `all` says whether nobody else's probes are left.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn leave(&self, windows: &[Window], services: &[Window], all: bool) -> Result<Option<MemoryKept>, AttachError> {
        let Self { target, .. } = *self;
        let places = self.places();
        let regions = our_code(self.arena);
        let put_back = |_: &Stop<'_>| {
            if let Some(places) = &places {
                put_all_back(target.memory(), places, &regions);
            }
        };
        let mut inside = false;
        for (part, is_last) in [(windows, false), (services, true)] {
            let written = target.write_windows_while(part, &mut { put_back })?;
            // Somebody else's bytes are not ours to be changed.
            inside |= written.left.iter().any(|(_, why)| *why == Unwritten::ThreadInside);
            let mut nobody = false;
            for _ in 0..TRIES {
                let mut stop = target.stop_all_with_handlers()?;
                put_back(&stop);
                nobody = !is_inside(&stop, &regions);
                if nobody && is_last && all && !inside {
                    if let Some(kept) = self.reason_to_keep(&regions)? {
                        return Ok(Some(kept));
                    }
                    return match self.unmap(&mut stop, places.as_ref()) {
                        Ok(()) => Ok(None),
                        Err(error) if error.is_gone() => Err(error),
                        Err(error) => Ok(Some(MemoryKept::Mapped(error.to_string()))),
                    };
                }
                drop(stop);
                if nobody {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            inside |= !nobody;
        }
        Ok(Some(if inside { MemoryKept::Inside } else { MemoryKept::Probes }))
    }

    /// The same in the children that share the arena. Those that end meanwhile, or can't be entered, are left out.
    pub fn leave_children(&self, windows: &[Window], services: &[Window], all: bool) -> Result<(), AttachError> {
        for pid in siblings::sharing(self.arena.file(), self.target.pid()) {
            let left = Target::open(pid)
                .and_then(|target| Leaving { target: &target, ..*self }.leave(windows, services, all).map(drop));
            match left {
                Err(error) if !error.is_gone() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Where its handlers keep frames, if they are there.
    fn places(&self) -> Option<HandlerPlaces> {
        let loaded = self.loaded()?;
        let table = self.image.symbol(AGENT_TABLE).ok()?;
        let globals = self.target.memory().read_u64(loaded.address + table).ok()?;
        HandlerPlaces::read(self.target, globals).ok()
    }

    /// The agent in it. A child may have been forked before it was loaded.
    fn loaded(&self) -> Option<LoadedImage> {
        let header = self.arena.header();
        let loaded = LoadedImage { address: header.agent.load(Relaxed), size: header.agent_size.load(Relaxed) };
        (loaded.address != 0 && self.image.is_loaded_at(self.target.memory(), loaded)).then_some(loaded)
    }

    /// Whether return sites may be where nobody finds them.
    fn reason_to_keep(&self, regions: &[Range<u64>]) -> Result<Option<MemoryKept>, AttachError> {
        let mappings = self.target.mappings()?;
        if mappings.iter().any(|mapping| mapping.path.as_os_str() == FLOW_ARENA) {
            let why = "the agent that counts calls between components may hold one".to_owned();
            return Ok(Some(MemoryKept::Returns(why)));
        }
        let why = skip_reason(self.target, &mappings).map(|why| MemoryKept::Returns(why.to_string()));
        Ok(why.filter(|_| !regions.is_empty()))
    }

    /// Takes everything out of a process whose threads stand, none of them in it.
    fn unmap(&self, stop: &mut Stop<'_>, places: Option<&HandlerPlaces>) -> Result<(), AttachError> {
        stop.choose_caller()?;
        if let Some(places) = places {
            stop.unmap(places.scopes, places.size())?;
        }
        if let Some(loaded) = self.loaded() {
            stop.unmap(loaded.address, loaded.size)?;
        }
        let files = self.files(places)?;
        for mapping in self.target.mappings()?.iter().filter(|mapping| files.contains(&mapping.file())) {
            stop.unmap(mapping.start, mapping.end - mapping.start)?;
        }
        stop.close_files(&files);
        Ok(())
    }

    /// The memory files of this controller: another one may have its own in the process, of the same names.
    fn files(&self, places: Option<&HandlerPlaces>) -> Result<Vec<FileIdentity>, AttachError> {
        let arena = self.arena.identity()?;
        let regions = places.map_or(0, |places| places.regions);
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&regions) && is_region_file(mapping);
        let regions = self.target.mappings()?.iter().find(holds).map(Mapping::file);
        Ok(std::iter::once(arena).chain(regions).collect())
    }
}

fn is_region_file(mapping: &Mapping) -> bool {
    mapping.path.to_string_lossy().strip_prefix("/memfd:") == Some(REGION_FILE_NAME)
}

/// The symbol of the agent's table of handlers.
pub const AGENT_TABLE: &str = "transect_probe_image";
/// The memory file of the agent that counts calls, as it is in mappings.
pub const FLOW_ARENA: &str = "/memfd:transect-arena";

/// Addresses of trampolines and handlers.
pub fn our_code(arena: &Arena) -> Vec<Range<u64>> {
    let regions = arena.regions().into_iter().map(|region| region.address..region.address + region.size);
    let agent = arena.header().agent.load(Relaxed);
    let end = agent + arena.header().agent_size.load(Relaxed);
    regions.chain(std::iter::once(agent..end)).collect()
}

/// True if one of the ranges has the address.
pub fn contains(ranges: &[Range<u64>], address: u64) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

/// Whether a held thread is, or will be when its signal handler returns, in these addresses.
fn is_inside(stop: &Stop<'_>, code: &[Range<u64>]) -> bool {
    stop.positions().map(|(_, at, _)| at).chain(stop.interrupted()).any(|at| contains(code, at))
}

/// Puts return addresses and text of a child back; false if a thread is in the way of that.
///
/// # Errors
/// If it can't be stopped, or has ended.
pub fn clean_child(
    pid: i32,
    regions: &[Range<u64>],
    places: &HandlerPlaces,
    windows: &[Window],
) -> Result<bool, AttachError> {
    let target = Target::open(pid)?;
    // First, for a jump may be in its text no longer.
    let stop = target.stop_all()?;
    put_all_back(target.memory(), places, regions);
    drop(stop);
    let written = target.write_windows(windows)?;
    Ok(!written.left.iter().any(|(_, why)| *why == Unwritten::ThreadInside))
}
