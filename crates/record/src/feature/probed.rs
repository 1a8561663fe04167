//! A running process whose region sites are switched on: no-ops become jumps to trampolines, whose handler writes events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use transect_attach::Target;
use transect_event_abi::context::{HOOK_SYMBOL, UNKNOWN};
use transect_event_abi::region_arena::{
    EVENT_BEGIN, EVENT_END, EVENT_KIND_SHIFT, EVENT_RESTORE, REGION_FILE_NAME, REGION_FILE_SIZE,
};
use transect_feature_region::{RegionError, RegionMap, RegionTable, Site, SiteKind, SiteMode};
use transect_probe::Handler;
use transect_probe::frame::Globals;
use transect_probe_plan::{Function, Region};

use super::choice::Choice;
use super::reader::Reader;
use super::region_file::RegionFile;
use super::settings::Overflow;
use super::thread_number;
use crate::RecordError;
use crate::probe_session::{Guard, LoaderWatcher, ProbeSession, SiteId, SiteState};

/// In place of a region's number: sites that no region switches.
const NO_REGION: u32 = u32::MAX;

/// What is wanted of a process' sites.
#[derive(Debug, Clone, Copy)]
pub struct SiteOptions<'a> {
    /// What a thread does whose ring is full.
    pub overflow: Overflow,
    /// Which are on.
    pub choice: &'a Choice,
    /// The agent that counts calls between components hears of them, too, if it is there.
    pub with_flows: bool,
    /// What is on may change during the recording.
    pub changes: bool,
}

/// One process, and the children that share its probes.
pub struct ProbedProcess {
    session: ProbeSession,
    /// It and its forked children.
    pub pids: BTreeSet<i32>,
    /// Where the handlers write.
    pub file: Arc<RegionFile>,
    /// Sites by region: path of the object, number there.
    sites: HashMap<(String, u32), Vec<SiteId>>,
    /// What objects with regions say, by path.
    tables: HashMap<String, RegionTable>,
    /// Sites of regions that are not wanted now are prepared, too: they may be later.
    changes: bool,
    /// What sites lead to.
    handler: Handler,
    /// Sites that could not be switched on, by object and reason.
    pub refused: BTreeMap<(String, String), u64>,
    /// Probes of others, which remain.
    foreign: BTreeSet<SiteId>,
    /// Puts the text back if we are killed.
    guard: Option<Guard>,
    /// It holds no probe any more.
    restored: bool,
    _watcher: Option<LoaderWatcher>,
}

impl ProbedProcess {
    /// Loads what is needed into a process and switches the chosen sites on. `wake` is called when its loader has loaded
    /// more. `guarded`: the process was there before us, and is to be clean if we are killed.
    ///
    /// # Errors
    /// If it can't be attached to; its text is as it was, then.
    pub fn begin(
        target: Target,
        agent: &Path,
        wishes: SiteOptions<'_>,
        guarded: bool,
        wake: impl Fn() + Send + 'static,
    ) -> Result<ProbedProcess, RecordError> {
        let pid = target.pid();
        // Before anything of the process is touched. Without it all but the cleaning works.
        let guard = if guarded { Guard::start(pid, agent).ok() } else { None };
        let (session, file, watcher) = match open(target, agent, wishes.overflow, wake) {
            Ok(opened) => opened,
            Err(error) => {
                // What others have in the process remains.
                guard.into_iter().for_each(Guard::dismiss);
                return Err(error);
            }
        };
        let foreign = (0..session.sites.len() as SiteId)
            .filter(|&id| session.sites[id as usize].state == SiteState::Installed)
            .collect();
        let mut process = ProbedProcess {
            session,
            pids: BTreeSet::from([pid]),
            file: Arc::new(file),
            sites: HashMap::new(),
            tables: HashMap::new(),
            changes: wishes.changes,
            handler: Handler::Region,
            refused: BTreeMap::new(),
            foreign,
            guard,
            restored: false,
            _watcher: Some(watcher),
        };
        process.session.install_loader_probe()?;
        if wishes.with_flows {
            process.tell_flows()?;
        }
        let objects = 0..process.session.objects.len();
        process.add_sites(objects, wishes.choice)?;
        Ok(process)
    }

    /// Whether the process has loaded any object with regions.
    pub fn has_regions(&self) -> bool {
        !self.sites.is_empty() || !self.refused.is_empty()
    }

    /// Number of sites that are on.
    pub fn site_count(&self) -> u64 {
        self.sites.values().flatten().filter(|&&id| self.session.is_on(id)).count() as u64
    }

    /// Deals with objects that the loader has loaded since.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn follow_loader(&mut self, choice: &Choice, reader: &Reader) -> Result<(), RecordError> {
        if !self.session.has_loader_event() {
            return Ok(());
        }
        let event = self.session.loader_event();
        let fresh = self.session.look_at_objects()?;
        let added = self.add_sites(fresh, choice);
        reader.look(self.session.target().pid());
        self.session.loader_done(event);
        added
    }

    /// Finds the agent that counts calls, and lets it hear of each site.
    fn tell_flows(&mut self) -> Result<(), RecordError> {
        let hook = |object: &crate::probe_session::LoadedObject| {
            let symbols = (0..object.object.dynamic_symbol_count()).filter_map(|at| object.object.dynamic_symbol(at));
            let found = symbols.into_iter().find(|symbol| symbol.defined && symbol.name == HOOK_SYMBOL)?.address;
            Some(object.bias.wrapping_add(found))
        };
        let Some(word) = self.session.objects.iter().find_map(hook) else { return Ok(()) };
        let target = self.session.target();
        let mut code = [0; 8];
        target.memory().read(word, &mut code)?;
        let place = self.session.globals + std::mem::offset_of!(Globals, flow_region) as u64;
        target.memory().write(place, &code)?;
        self.handler = Handler::RegionAndFlows;
        Ok(())
    }

    fn add_sites(&mut self, objects: Range<usize>, choice: &Choice) -> Result<(), RecordError> {
        let mut all = Vec::new();
        for index in objects {
            let object = &self.session.objects[index];
            let path = object.path.to_string_lossy().into_owned();
            let table = match RegionTable::of(&object.object) {
                Ok(table) => table,
                Err(RegionError::NotMarked { .. }) => continue,
                Err(error) => {
                    *self.refused.entry((path, error.to_string())).or_default() += 1;
                    continue;
                }
            };
            let mode = table.site_mode();
            if mode != SiteMode::Probe && !table.units.iter().any(|unit| unit.sites == SiteMode::Probe) {
                let reason = format!("built with TRANSECT_SITES={}, which probes don't see", mode.as_str());
                *self.refused.entry((path, reason)).or_default() += 1;
                continue;
            }
            let wanted: Vec<_> =
                table.sites.iter().filter(|site| self.changes || choice.wants_site(&table, site)).copied().collect();
            let bias = object.bias;
            let restores =
                self.handler == Handler::RegionAndFlows && wanted.iter().any(|site| site.kind == SiteKind::Restore);
            let map = restores.then(|| RegionMap::of(&object.object, &table));
            self.take_over(index, wanted.iter().map(|site| site.vaddr))?;
            for site in wanted {
                let region = site.region.and_then(|region| table.regions.get(region as usize));
                let symbol = region.map(|region| region.function.clone()).unwrap_or_default();
                let function = Function { name: symbol.clone(), symbol, vaddr: site.vaddr, ..Function::default() };
                let planned = Region::site(0, site.vaddr);
                let Some(id) = self.session.prepare_site(index, &function, &planned)? else {
                    self.refuse(&path, "there is no room near its code");
                    continue;
                };
                let kind = match site.kind {
                    SiteKind::Begin => EVENT_BEGIN,
                    SiteKind::End => EVENT_END,
                    SiteKind::Restore => EVENT_RESTORE,
                };
                self.session.set_event_word(id, kind << EVENT_KIND_SHIFT | site.vaddr.wrapping_add(bias));
                if self.handler == Handler::RegionAndFlows {
                    let on = |region: &&u32| self.changes || choice.wants(&table, **region);
                    let rest = || Some(map.as_ref()?.after_restore(site.vaddr)?.iter().filter(on).count() as u32);
                    let word = match site.kind {
                        SiteKind::Restore => rest().unwrap_or(UNKNOWN),
                        SiteKind::Begin | SiteKind::End => site.region.map_or(0, |region| region + 1),
                    };
                    self.session.set_region_word(id, word);
                }
                self.session.set_handler(id, self.handler);
                self.sites.entry((path.clone(), switched_with(&site))).or_default().push(id);
                all.push((path.clone(), id, choice.wants_site(&table, &site)));
            }
            self.tables.insert(path, table);
        }
        let ids: Vec<SiteId> = all.iter().map(|(_, id, _)| *id).collect();
        // On before the jumps are written: a begin is never seen without its end for that.
        all.iter().for_each(|&(_, id, on)| self.session.switch(id, on));
        self.session.install(&ids)?;
        for (path, id, _) in all {
            if let SiteState::Refused(reason) = self.session.sites[id as usize].state {
                self.session.switch(id, false);
                self.refuse(&path, &format!("{reason:?}"));
            }
        }
        Ok(())
    }

    /// Puts the original bytes back where an earlier recorder, which was killed, has left jumps.
    fn take_over(&mut self, object: usize, sites: impl Iterator<Item = u64>) -> Result<(), RecordError> {
        let bias = self.session.objects[object].bias;
        let wanted: BTreeSet<u64> = sites.map(|vaddr| vaddr.wrapping_add(bias)).collect();
        let address =
            |id: SiteId| self.session.arena().site(id as usize).address.load(std::sync::atomic::Ordering::Relaxed);
        let left: Vec<SiteId> = (0..self.session.sites.len() as SiteId)
            .filter(|&id| self.session.sites[id as usize].object == object && wanted.contains(&address(id)))
            .collect();
        self.session.restore(&left)?;
        for id in left {
            self.foreign.remove(&id);
            self.session.give_up(id);
        }
        Ok(())
    }

    fn refuse(&mut self, path: &str, reason: &str) {
        *self.refused.entry((path.to_owned(), reason.to_owned())).or_default() += 1;
    }

    /// Switches the sites of a region on or off, in the running program.
    pub fn switch(&self, path: &str, region: u32, on: bool) {
        let sites = self.sites.get(&(path.to_owned(), region));
        sites.into_iter().flatten().for_each(|&id| self.session.switch(id, on));
    }

    /// Puts the original bytes of regions' sites back, which are to remain off: a jump that finds its site off costs a hot loop a
    /// tenth of its time. Forked children keep theirs. What can't be written is left as it is.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn take_out(&mut self, regions: &[(String, u32)]) -> Result<(), RecordError> {
        let sites: Vec<SiteId> =
            regions.iter().filter_map(|region| self.sites.get(region)).flatten().copied().collect();
        Ok(self.session.restore(&sites)?)
    }

    /// Switches the sites that are wanted on, but for those to `avoid`, and the others off; `each` hears of those that `before` was otherwise.
    pub fn choose(
        &self,
        before: &Choice,
        choice: &Choice,
        avoid: impl Fn(&str, u32) -> bool,
        mut each: impl FnMut(&str, u32, bool),
    ) {
        for (path, table) in &self.tables {
            for region in 0..table.regions.len() as u32 {
                let on = choice.wants(table, region) && !avoid(path, region);
                self.switch(path, region, on);
                if on != before.wants(table, region) {
                    each(path, region, on);
                }
            }
        }
    }

    /// Whether the process is there.
    pub fn is_alive(&self) -> bool {
        self.session.target().is_alive()
    }

    /// It has ended or become another program, and so have all children that shared its text: there is nothing to be put back.
    pub fn over(mut self) {
        self.restored = true;
    }

    /// Puts all original bytes back, in forked children, too.
    ///
    /// # Errors
    /// If threads can't be stopped; a process that has ended is no error.
    pub fn restore(&mut self) -> Result<(), RecordError> {
        if self.restored {
            return Ok(());
        }
        let ours = (0..self.session.sites.len() as SiteId).filter(|id| !self.foreign.contains(id));
        ours.for_each(|id| self.session.switch(id, false));
        match self.session.leave_but(&self.foreign) {
            Err(error) if !error.is_gone() => Err(error.into()),
            _ => {
                self.restored = true;
                if let Some(guard) = self.guard.take() {
                    guard.dismiss();
                }
                Ok(())
            }
        }
    }
}

impl Drop for ProbedProcess {
    fn drop(&mut self) {
        // Who drops it without having restored can do nothing about an error.
        if self.is_alive() {
            let _ = self.restore();
        }
    }
}

/// The region that a site is switched on and off with. Sites that restore are always on: they tell of regions around theirs.
fn switched_with(site: &Site) -> u32 {
    match site.kind {
        SiteKind::Restore => NO_REGION,
        SiteKind::Begin | SiteKind::End => site.region.unwrap_or(NO_REGION),
    }
}

fn open(
    target: Target,
    agent: &Path,
    overflow: Overflow,
    wake: impl Fn() + Send + 'static,
) -> Result<(ProbeSession, RegionFile, LoaderWatcher), RecordError> {
    let session = ProbeSession::begin(target, agent)?;
    let file = share(&session, overflow)?;
    let watcher = LoaderWatcher::start(session.arena(), wake).map_err(RecordError::system("watch the loader"))?;
    Ok((session, file, watcher))
}

/// Makes the memory file of events in the process, or finds that of an earlier recorder, and tells the handlers.
fn share(session: &ProbeSession, overflow: Overflow) -> Result<RegionFile, RecordError> {
    let target = session.target();
    let pid = target.pid();
    let offset = thread_number::offset(target)?.ok_or(RecordError::UnknownThreadNumbers { pid })?;
    let shared = match target.shared_memory(REGION_FILE_NAME, REGION_FILE_SIZE) {
        Some(shared) => shared,
        None => target.share_memory(REGION_FILE_NAME, REGION_FILE_SIZE)?,
    };
    let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/pid")).ok();
    let known = namespace("self") == namespace(&pid.to_string());
    let file = RegionFile::of(shared.file, overflow, known)?;
    let put = |field: usize, value: u64| target.memory().write(session.globals + field as u64, &value.to_le_bytes());
    put(std::mem::offset_of!(Globals, tid_offset), offset)?;
    put(std::mem::offset_of!(Globals, regions), shared.address)?;
    Ok(file)
}
