//! The controller of one process' probes: everything is prepared in the arena while the process runs; only jumps are
//! written into its text while its threads are held for a moment; after that a probe is switched by one store.

#[cfg(feature = "fuzzing")]
mod fuzzing;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem::offset_of;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use transect_attach::{Arena, AttachError, CodeRegion, Image, Reach, Stop, StopTimes, Target, Unwritten};
use transect_event_abi::probe_arena::{
    HISTOGRAM_SIZE, HISTOGRAMS_OFFSET, SHARDS_OFFSET, SITE_CAPACITY, SITE_FREE, SITE_GONE, SITE_INSTALLED,
    SITE_RESTORED, SITES_OFFSET, SiteCounters, SiteRecord,
};
use transect_probe::frame::Globals;
use transect_probe::scope::SCOPES_SIZE;
use transect_probe::trampoline::WORD;
use transect_probe::{Descriptor, Handler};
use transect_probe_plan::{Event, ExitSupport, Function, Plan, ProviderKind, Refusal, Site};
use transect_text_patch::{WINDOW_CAPACITY, Window};

use super::agent::{HandlerPlaces, have_agent, read_words};
use super::leaving::{AGENT_TABLE, Leaving, MemoryKept};
use super::objects::{KnownMappings, LoadedObject, UnreadableObject, load};
use super::place::{block_size, place};
use super::plan::{Plans, Purpose};
use super::writer::writer;
#[cfg(feature = "fuzzing")]
pub use fuzzing::fuzz;

/// Regions are made in this size at least: later sites find room in them.
const REGION_SIZE: u64 = 1 << 20;

/// Dense number of a site in its process: its index in the arena.
pub type SiteId = u32;

/// One site as the controller knows it.
#[derive(Debug)]
pub struct SessionSite {
    /// Index in [`ProbeSession::objects`].
    pub object: usize,
    /// Its function.
    pub function: Function,
    /// Who found it.
    pub provider: ProviderKind,
    /// What it tells.
    pub event: Event,
    /// Whether exits can be observed.
    pub exit: ExitSupport,
    /// `provider:name` of a USDT note.
    pub name: String,
    /// Whether its calls can be timed.
    pub can_time: bool,
    /// Offset of its block in the arena file.
    pub(super) block: u64,
    /// Where a timed call returns to in the process, 0 if calls can't be timed.
    pub(crate) return_site: u64,
    pub(super) on: u64,
    pub(super) off: u64,
    pub(super) install: Window,
    pub(super) restore: Window,
    /// What stands in the text.
    pub state: SiteState,
}

/// What stands in the text at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteState {
    /// The original bytes: nothing was written yet, or they are back.
    Original,
    /// The jump.
    Installed,
    /// Refused when the jump was to be written.
    Refused(Unwritten),
    /// Nothing: the object was unloaded.
    Gone,
}

/// A function that can't hold a probe.
#[derive(Debug, Clone)]
pub struct RefusedFunction {
    /// Index in [`ProbeSession::objects`].
    pub object: usize,
    /// The function.
    pub function: Function,
    /// Why.
    pub reason: Refusal,
}

/// Counts of one site, all shards added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// Calls that met the probe switched on.
    pub calls: u64,
    /// Calls timed.
    pub samples: u64,
    /// Their ticks.
    pub ticks: u64,
    /// Of these, calls that began in the probe's first window; latency's of time only.
    pub first_samples: u64,
    /// Their ticks.
    pub first_ticks: u64,
}

/// What [`ProbeSession::prepare`] found.
#[derive(Debug, Clone, Default)]
pub struct Prepared {
    /// Sites ready to be installed, those that were known already included.
    pub sites: Vec<SiteId>,
    /// Functions wanted that can't hold a probe.
    pub refused: Vec<RefusedFunction>,
    /// Sites for which there was no room, by object.
    pub without_room: BTreeMap<usize, u64>,
}

/// Controls the probes of one process.
#[derive(Debug)]
pub struct ProbeSession {
    pub(super) target: Target,
    pub(super) arena: Arena,
    image: Image,
    pub(super) writable: u64,
    pub(super) handlers: Vec<u64>,
    pub(super) restore_handler: u64,
    pub(super) loader_handler: u64,
    /// Objects seen, unloaded ones included.
    pub objects: Vec<LoadedObject>,
    /// Objects that could not be looked into.
    pub unreadable: Vec<UnreadableObject>,
    known: KnownMappings,
    /// Paths of objects that get no probes: see [`ProbeSession::leave_alone`].
    pub(super) left_alone: HashSet<PathBuf>,
    /// Where the handlers keep frames and threads.
    pub(crate) places: HandlerPlaces,
    /// Address of the handlers' [`transect_probe::frame::Globals`] in the process.
    pub(crate) globals: u64,
    /// A thread of the process may not read the clock.
    no_clock: bool,
    /// Of this command.
    plans: Plans,
    /// Sites by [`SiteId`].
    pub sites: Vec<SessionSite>,
    pub(super) placed: HashMap<(usize, u64), SiteId>,
}

impl ProbeSession {
    /// Loads the probe agent into the process, or takes over from an earlier controller, and looks at its objects.
    /// No text has been changed then.
    ///
    /// # Errors
    /// If the process can't be attached to; it is untouched then.
    pub fn begin(target: Target, agent: &Path) -> Result<ProbeSession, AttachError> {
        target.check_translated()?;
        let image = Image::read(agent)?;
        let table = image.symbol(AGENT_TABLE)?;
        let (arena, base) = have_agent(&target, &image, table)?;
        let words = read_words(&target, base + table, 3 + Handler::COUNT)?;
        let places = HandlerPlaces::read(&target, words[0])?;
        let writable = arena.header().writable.load(Ordering::Relaxed);
        // An earlier controller's choice.
        arena.header().left_alone.iter().for_each(|left| left.store(0, Ordering::Relaxed));
        let mut session = ProbeSession {
            target,
            arena,
            image,
            writable,
            restore_handler: words[1],
            loader_handler: words[2],
            handlers: words[3..].to_vec(),
            objects: Vec::new(),
            unreadable: Vec::new(),
            known: KnownMappings::new(),
            left_alone: HashSet::new(),
            places,
            globals: words[0],
            no_clock: false,
            plans: Plans::default(),
            sites: Vec::new(),
            placed: HashMap::new(),
        };
        session.look_at_clock()?;
        session.look_at_objects()?;
        session.adopt()?;
        Ok(session)
    }

    /// Lets handlers read no clock where a thread may not.
    fn look_at_clock(&mut self) -> Result<(), AttachError> {
        let word = self.globals + offset_of!(Globals, no_clock) as u64;
        // The end of the last thread's entry is not used.
        let scratch = self.places.scopes + SCOPES_SIZE - 8;
        self.no_clock = self.target.memory().read_u64(word)? != 0;
        if !self.no_clock && self.target.forbids_clock(scratch)? {
            self.target.memory().write(word, &1u64.to_le_bytes())?;
            self.no_clock = true;
        }
        Ok(())
    }

    /// Makes sure that calls can be timed.
    ///
    /// # Errors
    /// [`AttachError::ClockForbidden`] if a thread may not read the clock.
    pub fn check_clock(&self) -> Result<(), AttachError> {
        if self.no_clock { Err(AttachError::ClockForbidden { pid: self.target.pid() }) } else { Ok(()) }
    }

    /// Shares the plans of the other processes of a command.
    pub(crate) fn share_plans(&mut self, plans: &Plans) {
        self.plans = plans.clone();
    }

    /// File and line of an object's address; empty and 0 if unknown.
    pub(crate) fn source_line(&self, object: usize, vaddr: u64) -> (String, i32) {
        self.plans.line(&self.objects[object], vaddr)
    }

    /// The process.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Its arena.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// How long its threads were held so far.
    pub fn stop_times(&self) -> StopTimes {
        self.target.stop_times()
    }

    /// Opens objects that are new, marks the sites of those that have gone; gives the new ones' indices.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn look_at_objects(&mut self) -> Result<Range<usize>, AttachError> {
        let mut mappings = self.target.mappings()?;
        mappings.retain(|mapping| !self.left_alone.contains(&mapping.path));
        let first = self.objects.len();
        let starts: HashSet<u64> = mappings.iter().filter(|m| m.executable).map(|m| m.start).collect();
        // An address is new again once its object has gone.
        self.known.retain(|(start, _)| starts.contains(start));
        for index in 0..first {
            let object = &self.objects[index];
            let still = object.code.iter().all(|code| {
                mappings
                    .iter()
                    .any(|m| (m.start, m.device, m.inode) == (code.low, object.identity.0, object.identity.1))
            });
            if !still {
                for code in &self.objects[index].code {
                    self.known.remove(&(code.low, self.objects[index].identity));
                }
                self.forget(index);
            }
        }
        let (objects, unreadable) = load(self.target.task(), &mappings, &mut self.known);
        self.objects.extend(objects);
        self.unreadable.extend(unreadable);
        Ok(first..self.objects.len())
    }

    /// Marks the sites of an unloaded object.
    pub(super) fn forget(&mut self, object: usize) {
        self.objects[object].code.clear();
        for (id, site) in self.sites.iter_mut().enumerate().filter(|(_, site)| site.object == object) {
            if site.state != SiteState::Gone {
                site.state = SiteState::Gone;
                self.arena.site(id).state.store(SITE_GONE, Ordering::Relaxed);
                self.arena.word(site.block + WORD as u64).store(site.off, Ordering::Relaxed);
            }
        }
        self.placed.retain(|(of, _), _| *of != object);
    }

    /// Plans and builds probes for all functions of these objects that are wanted. Nothing is installed, no thread held
    /// but for mapping memory.
    ///
    /// # Errors
    /// If there is no room for trampolines, or the process ends.
    pub fn prepare(
        &mut self,
        objects: Range<usize>,
        wanted: &(dyn Fn(&LoadedObject, &Function) -> bool + Send + Sync),
    ) -> Result<Prepared, AttachError> {
        self.prepare_for(None, objects, wanted)
    }

    /// The same; what is wanted for a `purpose` is the same in all processes of the command.
    ///
    /// # Errors
    /// As [`ProbeSession::prepare`].
    pub(crate) fn prepare_for(
        &mut self,
        purpose: Option<Purpose>,
        objects: Range<usize>,
        wanted: &(dyn Fn(&LoadedObject, &Function) -> bool + Send + Sync),
    ) -> Result<Prepared, AttachError> {
        let mut prepared = Prepared::default();
        let mut plans: Vec<(usize, Rc<Plan>, Vec<usize>)> = Vec::new();
        for index in objects {
            let object = &self.objects[index];
            if object.code.is_empty() {
                continue;
            }
            let wanted = |function: &Function| wanted(object, function);
            let plan = match purpose {
                Some(purpose) => self.plans.get(purpose, object, &wanted),
                None => Rc::new(super::plan::plan(object, &wanted)),
            };
            let refused = plan.refused.iter().map(|r| RefusedFunction {
                object: index,
                function: plan.functions[r.function as usize].clone(),
                reason: r.reason,
            });
            prepared.refused.extend(refused);
            let mut fresh = Vec::new();
            for (number, site) in plan.sites.iter().enumerate() {
                match self.placed.get(&(index, site.vaddr)) {
                    Some(id) => prepared.sites.push(*id),
                    None => fresh.push(number),
                }
            }
            if !fresh.is_empty() {
                plans.push((index, plan, fresh));
            }
        }
        let blocks = self.make_room(&plans)?;
        let sites = plans.iter().flat_map(|(object, plan, fresh)| fresh.iter().map(move |&n| (*object, plan, n)));
        for ((object, plan, number), (region, offset)) in sites.zip(blocks) {
            let site = &plan.sites[number];
            let function = &plan.functions[site.function as usize];
            match self.build(object, function, site, &region, offset) {
                Some(id) => prepared.sites.push(id),
                None => *prepared.without_room.entry(object).or_default() += 1,
            }
        }
        Ok(prepared)
    }

    /// Maps room for trampolines near all objects, so that sites prepared later need no stop.
    ///
    /// # Errors
    /// If there is no room, or the process ends.
    pub(crate) fn make_regions(&mut self) -> Result<(), AttachError> {
        let reaches: Vec<Reach> = self.objects.iter().filter(|o| !o.code.is_empty()).map(|o| o.reach).collect();
        reaches.into_iter().try_for_each(|reach| self.room(reach, 0).map(drop))
    }

    /// Gives each fresh site a place for its block: (region, offset in it), in the sites' order.
    pub(super) fn make_room(
        &mut self,
        plans: &[(usize, Rc<Plan>, Vec<usize>)],
    ) -> Result<Vec<(CodeRegion, u64)>, AttachError> {
        let mut places = Vec::new();
        for (object, plan, fresh) in plans {
            let reach = self.objects[*object].reach;
            let need: u64 = fresh.iter().map(|&n| block_size(&plan.sites[n])).sum();
            let (region, mut offset) = self.room(reach, need)?;
            for &number in fresh {
                places.push((region, offset));
                offset += block_size(&plan.sites[number]);
            }
        }
        Ok(places)
    }

    /// `need` bytes of a region in reach.
    fn room(&mut self, reach: Reach, need: u64) -> Result<(CodeRegion, u64), AttachError> {
        let used = |region: &CodeRegion| &self.arena.header().regions[region.index].used;
        let in_reach = |r: &CodeRegion| {
            const LIMIT: u64 = (1 << 31) - (1 << 20);
            r.address.max(reach.high).saturating_sub(reach.low.min(r.address)) < LIMIT
                && (r.address + r.size).saturating_sub(reach.low) < LIMIT
        };
        let fits = |r: &CodeRegion| used(r).load(Ordering::Relaxed) + need <= r.size;
        let region = match self.arena.regions().into_iter().find(|r| in_reach(r) && fits(r)) {
            Some(region) => region,
            None => {
                // What others nearby will want is not known yet; a region costs address space only.
                let size = need.next_multiple_of(REGION_SIZE) + REGION_SIZE;
                self.arena.add_region(&self.target, reach, size)?
            }
        };
        let offset = used(&region).fetch_add(need, Ordering::Relaxed);
        Ok((region, offset))
    }

    /// Builds one block and its record; None if the site can't be reached from it.
    pub(super) fn build(
        &mut self,
        object: usize,
        function: &Function,
        site: &Site,
        region: &CodeRegion,
        offset: u64,
    ) -> Option<SiteId> {
        let id = self.sites.len();
        if id >= SITE_CAPACITY {
            return None;
        }
        let bias = self.objects[object].bias;
        let placed = place(site, bias, region.address + offset).ok()?;
        let mut bytes = placed.block.bytes;
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let number = id as u64;
        put(offset_of!(Descriptor, enter), self.handlers[Handler::Nothing as usize]);
        put(offset_of!(Descriptor, exit), self.handlers[Handler::TimeExit as usize]);
        put(offset_of!(Descriptor, record), self.writable + SITES_OFFSET + number * size_of::<SiteRecord>() as u64);
        let counters = self.writable + SHARDS_OFFSET + number * size_of::<SiteCounters>() as u64;
        put(offset_of!(Descriptor, counters), counters);
        put(offset_of!(Descriptor, histogram), self.writable + HISTOGRAMS_OFFSET + number * HISTOGRAM_SIZE);
        put(offset_of!(Descriptor, id), number);
        self.arena.write_code(region, offset, &bytes[..placed.block.length]);

        let block = region.file_offset + offset;
        let record = self.arena.site(id);
        record.address.store(placed.install.address, Ordering::Relaxed);
        record.word.store(self.writable + block + WORD as u64, Ordering::Relaxed);
        record.on.store(placed.block.on, Ordering::Relaxed);
        record.off.store(placed.block.off, Ordering::Relaxed);
        record.bias.store(bias, Ordering::Relaxed);
        record.function.store(function.vaddr, Ordering::Relaxed);
        record.trampoline.store(region.address + offset, Ordering::Relaxed);
        record.window_length.store(placed.install.length.into(), Ordering::Relaxed);
        for (word, chunk) in record.original.iter().zip(placed.install.old.chunks(8)) {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        self.arena.header().site_count.store(id as u32 + 1, Ordering::Release);
        self.placed.insert((object, site.vaddr), id as SiteId);
        self.sites.push(SessionSite {
            object,
            function: function.clone(),
            provider: site.provider,
            event: site.event,
            exit: site.exit,
            name: site.name.clone(),
            can_time: placed.can_time,
            block,
            return_site: if placed.can_time { region.address + offset + placed.block.return_site as u64 } else { 0 },
            on: placed.block.on,
            off: placed.block.off,
            install: placed.install,
            restore: placed.restore,
            state: SiteState::Original,
        });
        Some(id as SiteId)
    }

    /// Writes the jumps of sites that don't have theirs yet. Sites that are refused say so in their state.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn install(&mut self, sites: &[SiteId]) -> Result<(), AttachError> {
        self.exchange(&[], sites)
    }

    /// Puts the original bytes back at these sites, where the object is still there.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn restore(&mut self, sites: &[SiteId]) -> Result<(), AttachError> {
        self.exchange(sites, &[])
    }

    /// Puts the original bytes back at `restore` and writes the jumps of `install`, in the same stops.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn exchange(&mut self, restore: &[SiteId], install: &[SiteId]) -> Result<(), AttachError> {
        self.exchange_while(restore, install, &mut |_, _| ())
    }

    /// The same; `held` is called in each stop.
    ///
    /// # Errors
    /// As [`ProbeSession::exchange`].
    pub(crate) fn exchange_while(
        &mut self,
        restore: &[SiteId],
        install: &[SiteId],
        held: &mut dyn FnMut(&ProbeSession, &Stop<'_>),
    ) -> Result<(), AttachError> {
        let with_state = |ids: &[SiteId], state: SiteState| -> Vec<SiteId> {
            ids.iter().copied().filter(|&id| self.sites[id as usize].state == state).collect()
        };
        let (restore, install) = (with_state(restore, SiteState::Installed), with_state(install, SiteState::Original));
        let windows = restore.iter().map(|&id| self.sites[id as usize].restore.clone());
        let windows: Vec<Window> =
            windows.chain(install.iter().map(|&id| self.sites[id as usize].install.clone())).collect();
        if windows.is_empty() {
            return Ok(());
        }
        let this: &ProbeSession = self;
        // Before there is a jump: whoever cleans up after us must know it.
        for &id in &install {
            this.arena.site(id as usize).writer.store(writer(), Ordering::Relaxed);
        }
        // Until all threads stand the probes see what happens.
        let written = this.target.write_windows_while(&windows, &mut |stop| {
            held(this, stop);
            restore.iter().for_each(|&id| this.switch(id, false));
        });
        restore.iter().for_each(|&id| this.switch(id, false));
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // Some of the jumps may stand: taking them out finds out which.
                install.iter().for_each(|&id| {
                    self.sites[id as usize].state = SiteState::Installed;
                    self.arena.site(id as usize).state.store(SITE_INSTALLED, Ordering::Release);
                });
                return Err(error);
            }
        };
        let left: HashMap<usize, Unwritten> = written.left.into_iter().collect();
        for (index, &id) in restore.iter().chain(&install).enumerate() {
            let restored = index < restore.len();
            let (state, record) = match (left.get(&index), restored) {
                (None, true) => (SiteState::Original, SITE_RESTORED),
                (None, false) => (SiteState::Installed, SITE_INSTALLED),
                // Ours are still there, switched off: to be taken out another time.
                (Some(Unwritten::ThreadInside), true) => (SiteState::Installed, SITE_INSTALLED),
                // Somebody else's bytes, or none: ours are not there.
                (Some(_), true) => (SiteState::Gone, SITE_GONE),
                (Some(reason), false) => (SiteState::Refused(*reason), SITE_FREE),
            };
            self.sites[id as usize].state = state;
            self.arena.site(id as usize).state.store(record, Ordering::Release);
        }
        Ok(())
    }

    /// What puts the original bytes of a site back.
    pub(crate) fn restoring(&self, id: SiteId) -> Window {
        self.sites[id as usize].restore.clone()
    }

    /// Whether a site serves the others (unwinders, the loader's event): its handler is not to be changed.
    pub fn is_service(&self, id: SiteId) -> bool {
        let site = &self.sites[id as usize];
        let at = site.block + offset_of!(Descriptor, user_enter) as u64;
        site.state != SiteState::Gone && self.arena.word(at).load(Ordering::Relaxed) != 0
    }

    /// Puts all original bytes back, in forked children that share the probes, too, and takes the agent's memory and the
    /// arena's descriptor out of them. Gives why memory is left, if it does: it is harmless.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn leave(&mut self) -> Result<Option<MemoryKept>, AttachError> {
        self.leave_but(&BTreeSet::new())
    }

    /// The same for all sites but those in `spared`, which need the memory.
    ///
    /// # Errors
    /// As [`ProbeSession::leave`].
    pub(crate) fn leave_but(&mut self, spared: &BTreeSet<SiteId>) -> Result<Option<MemoryKept>, AttachError> {
        self.look_at_objects()?;
        let all: Vec<SiteId> = (0..self.sites.len() as SiteId).filter(|id| !spared.contains(id)).collect();
        let (services, others): (Vec<SiteId>, Vec<SiteId>) = all.iter().partition(|&&id| self.is_service(id));
        others.iter().for_each(|&id| self.switch(id, false));
        // Of a site whose bytes are back, too: children may have been forked before.
        let windows = |ids: &[SiteId], only: Option<SiteState>| -> Vec<Window> {
            let ids = ids.iter().filter(|&&id| only.is_none_or(|state| self.sites[id as usize].state == state));
            ids.map(|&id| self.restoring(id)).collect()
        };
        let installed = Some(SiteState::Installed);
        let leaving = Leaving { target: &self.target, arena: &self.arena, image: &self.image };
        let here = leaving.leave(&windows(&others, installed), &windows(&services, installed), spared.is_empty());
        let there = leaving.leave_children(&windows(&others, None), &windows(&services, None), spared.is_empty());
        for id in all {
            let site = &mut self.sites[id as usize];
            let length = usize::from(site.restore.length);
            let mut text = [0; WINDOW_CAPACITY];
            let is_back = self.target.memory().read(site.restore.address, &mut text[..length]).is_err()
                || text[..length] == site.restore.new[..length];
            if site.state == SiteState::Installed && is_back {
                site.state = SiteState::Original;
                self.arena.site(id as usize).state.store(SITE_RESTORED, Ordering::Release);
            }
        }
        let kept = here?;
        there?;
        Ok(kept)
    }
}
