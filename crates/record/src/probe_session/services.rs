//! Probes that other probes need: on the unwinders, the loader's event function, and the functions by which a program gives up
//! system calls or the clock.

use std::ops::Range;
use std::sync::atomic::Ordering;

use transect_attach::AttachError;
use transect_event_abi::probe_arena::object_hash;
use transect_probe::trampoline::PROBE_LENGTH;
use transect_probe::{Handler, unwind};
use transect_probe_plan::Function;

use super::objects::LoadedObject;
use super::plan::Purpose;
use super::session::{ProbeSession, SessionSite, SiteId, SiteState};

/// Name of the loader's event function.
const LOADER_EVENT: &str = "_dl_debug_state";

/// Where it keeps the list of objects.
const LOADER_LIST: &str = "_r_debug";

/// The functions by which programs confine themselves.
const PRCTL: &str = "prctl";

const SYSCALL: &str = "syscall";

impl ProbeSession {
    /// Probes that the others need: on the unwinders, which must find true return addresses, and on the loader's event
    /// function. To be called for all objects before the first timing handler is switched on, and for those that come
    /// later.
    ///
    /// # Errors
    /// If the process ends.
    pub fn install_service_probes(&mut self, objects: Range<usize>) -> Result<(), AttachError> {
        self.install_services(Purpose::UnwindersAndLoader, objects, &|function| {
            function.symbol == LOADER_EVENT || unwind::UNWINDERS.contains(&&*function.symbol)
        })
    }

    /// Those that timing needs, together: the two above, planned once for all processes of a command.
    ///
    /// # Errors
    /// If the process ends.
    pub(crate) fn install_timing_services(&mut self, objects: Range<usize>) -> Result<(), AttachError> {
        self.note_confinement();
        let prepared = self.prepare_for(Some(Purpose::Services), objects, &|_, function| {
            [LOADER_EVENT, PRCTL, SYSCALL].contains(&&*function.symbol)
                || unwind::UNWINDERS.contains(&&*function.symbol)
        })?;
        self.switch_services_on(&prepared.sites)
    }

    /// Those on the unwinders alone: nobody answers the loader.
    ///
    /// # Errors
    /// If the process ends.
    pub fn install_unwinder_probes(&mut self, objects: Range<usize>) -> Result<(), AttachError> {
        self.install_services(Purpose::Unwinders, objects, &|function| unwind::UNWINDERS.contains(&&*function.symbol))
    }

    /// Code of the unwinders that have their probes: who is inside one is past its entry.
    pub(crate) fn unwinder_code(&self) -> Vec<Range<u64>> {
        let sites = self
            .sites
            .iter()
            .filter(|site| site.state != SiteState::Gone && unwind::UNWINDERS.contains(&site.function.symbol.as_str()));
        sites
            .map(|site| {
                let start = self.objects[site.object].bias.wrapping_add(site.function.vaddr);
                start..start.wrapping_add(site.function.size)
            })
            .collect()
    }

    /// Code in which a thread is that has met the probe of a function timed for a window and has no return site yet.
    pub(crate) fn entry_code(&self) -> Vec<Range<u64>> {
        // The handlers stand one behind the other.
        let handlers = self.handlers[Handler::ScopeEnter as usize]..self.handlers[Handler::ScopeExit as usize];
        let sites = self.sites.iter().map(|site| site.return_site).filter(|&at| at != 0);
        sites.map(|at| at - PROBE_LENGTH..at).chain([handlers]).collect()
    }

    /// Those on the functions by which a program asks for a filter of its system calls, or gives up the clock: handlers that
    /// make calls, or read it, need them before they are switched on. A program that asks without them, by an instruction of
    /// its own, is not noticed.
    ///
    /// # Errors
    /// If the process ends.
    pub fn watch_confinement(&mut self, objects: Range<usize>) -> Result<(), AttachError> {
        self.watch_confinement_but(objects, &|_, _| false)
    }

    /// The same, but for functions that are to have another probe.
    ///
    /// # Errors
    /// If the process ends.
    pub(crate) fn watch_confinement_but(
        &mut self,
        objects: Range<usize>,
        but: &(dyn Fn(&LoadedObject, &Function) -> bool + Send + Sync),
    ) -> Result<(), AttachError> {
        self.note_confinement();
        let wanted = |_: &LoadedObject, function: &Function| function.symbol == PRCTL || function.symbol == SYSCALL;
        let mut prepared = self.prepare_for(Some(Purpose::Confinement), objects, &wanted)?;
        prepared.sites.retain(|&id| {
            let site = &self.sites[id as usize];
            !but(&self.objects[site.object], &site.function)
        });
        self.switch_services_on(&prepared.sites)
    }

    /// That on the loader's event function alone.
    ///
    /// # Errors
    /// If the process ends.
    pub(crate) fn install_loader_probe(&mut self) -> Result<(), AttachError> {
        let is_loader = |object: &LoadedObject| {
            let name = object.path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-") || name.starts_with("ld.so") || name.starts_with("ld64")
        };
        match self.objects.iter().position(|object| !object.code.is_empty() && is_loader(object)) {
            Some(loader) => {
                let wanted = |function: &Function| function.symbol == LOADER_EVENT;
                self.install_services(Purpose::LoaderEvent, loader..loader + 1, &wanted)
            }
            None => Ok(()),
        }
    }

    fn install_services(
        &mut self,
        purpose: Purpose,
        objects: Range<usize>,
        wanted: &(dyn Fn(&Function) -> bool + Send + Sync),
    ) -> Result<(), AttachError> {
        let prepared = self.prepare_for(Some(purpose), objects, &|_, function| wanted(function))?;
        self.switch_services_on(&prepared.sites)
    }

    /// Where the loader, object `loader`, keeps its list of objects.
    fn know_loader_list(&self, loader: usize) {
        let loader = &self.objects[loader];
        let symbols = (0..loader.object.dynamic_symbol_count()).filter_map(|n| loader.object.dynamic_symbol(n));
        if let Some(list) = symbols.into_iter().find(|symbol| symbol.name == LOADER_LIST && symbol.defined) {
            let address = loader.bias.wrapping_add(list.address);
            self.arena.header().loader_list.store(address, Ordering::Relaxed);
        }
    }

    /// Lets an object come and go without an event: the program does not wait for its probes any more, and it gets
    /// none. False if it has to be followed: others need its probes, or there is no room for its name. To be called while
    /// the loader waits.
    ///
    /// # Errors
    /// If the process ends.
    pub(crate) fn leave_alone(&mut self, object: usize) -> Result<bool, AttachError> {
        let own = |site: &SessionSite| site.object == object;
        let is_needed = |(id, site): (usize, &SessionSite)| own(site) && self.is_service(id as SiteId);
        if self.sites.iter().enumerate().any(is_needed) {
            return Ok(false);
        }
        let Some(name) = self.name_in_loader(self.objects[object].bias) else { return Ok(false) };
        let header = self.arena.header();
        let Some(room) = header.left_alone.iter().find(|left| left.load(Ordering::Relaxed) == 0) else {
            return Ok(false);
        };
        let sites: Vec<SiteId> = (0..self.sites.len() as SiteId).filter(|&id| own(&self.sites[id as usize])).collect();
        room.store(object_hash(&name), Ordering::Relaxed);
        self.restore(&sites)?;
        self.left_alone.insert(self.objects[object].path.clone());
        self.forget(object);
        Ok(true)
    }

    /// The name by which the loader knows the object with this bias.
    fn name_in_loader(&self, bias: u64) -> Option<Vec<u8>> {
        /// Objects that are looked at, and bytes of a name: a list that is being overwritten has an end.
        const MOST: usize = 100_000;
        let memory = self.target.memory();
        let list = self.arena.header().loader_list.load(Ordering::Relaxed);
        let mut at = if list == 0 { 0 } else { memory.read_u64(list + 8).ok()? };
        for _ in 0..MOST {
            if at == 0 {
                return None;
            }
            let word = |index: u64| memory.read_u64(at + 8 * index);
            if word(0).ok()? == bias {
                let mut name = vec![0; 4096];
                let read = memory.read_some(word(1).ok()?, &mut name);
                name.truncate(name[..read].iter().position(|&byte| byte == 0)?);
                return Some(name);
            }
            at = word(3).ok()?;
        }
        None
    }

    /// Under a filter of its own the program may be ended for calls of ours.
    fn note_confinement(&self) {
        if self.target.check_own_calls("futex").is_err() {
            self.arena.header().confined.store(1, Ordering::Relaxed);
        }
    }

    fn switch_services_on(&mut self, sites: &[SiteId]) -> Result<(), AttachError> {
        for &id in sites {
            let (handler, user) = match self.sites[id as usize].function.symbol.as_str() {
                LOADER_EVENT => {
                    self.know_loader_list(self.sites[id as usize].object);
                    (Handler::VectorEnter, self.loader_handler)
                }
                // They call nobody: the address is what marks them as services.
                PRCTL => (Handler::PrctlEnter, self.handlers[Handler::PrctlEnter as usize]),
                SYSCALL => (Handler::SyscallEnter, self.handlers[Handler::SyscallEnter as usize]),
                _ => (Handler::VectorEnter, self.restore_handler),
            };
            self.set_user_enter(id, user);
            self.set_handler(id, handler);
            self.switch(id, true);
        }
        self.install(sites)
    }
}
