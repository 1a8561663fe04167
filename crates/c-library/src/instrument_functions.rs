//! The compiler's hooks: programs compiled with `-finstrument-functions` call `__cyg_profile_func_enter` and `_exit` at
//! every function's beginning and end.
//!
//! When code of an object calls a hook for the first time, the object's calls of them become sites, each with a dense
//! id and a trampoline of its own that passes the id on; in the text a call of the trampoline (on) or a no-op (off)
//! takes the place of the call of the hook, and is switched by one store like any other site. From then on only calls
//! that could not be converted come here: from code that the plan doesn't know, or that can't be written. They are
//! told apart by their return address, and have an id and a flag to switch them by.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use transect_probe::descriptor::Registers;
use transect_probe::trampoline::WORD;
use transect_probe_plan::{Event, ExitSupport, PlanOptions, ProviderKind, Site, Window, plan};

use crate::arch::{self, HandlersOff};
use crate::discovery;
use crate::handler;
use crate::install;
use crate::loaded_object::{self, LoadedObject};
use crate::registry::{self, Library};
use crate::session::{self, Options};
use crate::site_info::{SiteInfo, c_text};
use crate::slot::{Slot, kind, state};
use crate::{arena, own_code, toggle};

/// Handler of sites that are met for the first time.
static HANDLER: AtomicU32 = AtomicU32::new(handler::COUNT);
/// Whether they are switched on.
static ACTIVE: AtomicU32 = AtomicU32::new(1);

/// What the library remembers about hooks.
#[derive(Default)]
pub struct Hooks {
    /// Objects whose calls were converted: (program headers, bias).
    converted: Vec<(u64, u64)>,
    /// Ids of calls that stay calls of the hook, by return address and event.
    left: BTreeMap<(u64, bool), u32>,
}

impl Hooks {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { converted: Vec::new(), left: BTreeMap::new() }
    }

    /// Forgets unloaded objects.
    pub fn forget(&mut self, gone: &[(u64, u64)]) {
        self.converted.retain(|key| !gone.contains(key));
    }
}

/// Sets what sites do when they are met for the first time.
pub fn on_first_use(handler: u32, active: bool) {
    HANDLER.store(handler, Ordering::Relaxed);
    ACTIVE.store(u32::from(active), Ordering::Relaxed);
}

/// A call of a hook, with its return address.
pub extern "C" fn met(function: u64, call_site: u64, return_address: u64, exit: u32) {
    // The library's own work may run through instrumented functions (an instrumented malloc).
    if arch::handlers_are_off() {
        return;
    }
    let exit = exit != 0;
    let mut library = registry::lock();
    if !library.initialized {
        drop(library);
        if session::init(&Options::default()).is_err() {
            return;
        }
        library = registry::lock();
    }
    let objects = loaded_object::all();
    let holds =
        |address: u64| move |o: &&LoadedObject| o.code.iter().any(|&(start, end)| start <= address && address < end);
    let Some(object) = objects.iter().find(holds(function)) else { return };
    let key = (object.headers, object.bias);
    if !library.hooks.converted.contains(&key) {
        library.hooks.converted.push(key);
        convert(&mut library, &objects, object);
    }
    let id = find(&library, function, return_address, exit)
        .or_else(|| leave(&mut library, object, function, return_address, exit));
    drop(library);
    if let Some(slot) = id.and_then(registry::slot)
        && let Some(id) = id
    {
        pass(id, slot, function, call_site, return_address);
    }
}

/// Makes the calls of an object sites, and installs them.
fn convert(library: &mut Library, objects: &[LoadedObject], object: &LoadedObject) {
    let Ok(file) = discovery::open(object) else { return };
    let options = PlanOptions { providers: vec![ProviderKind::InstrumentFunctions], ..PlanOptions::default() };
    let plan = plan(&file, &options);
    let own = own_code::range(objects);
    let info = discovery::object_info(library, object);
    let mut ids = Vec::new();
    for site in &plan.sites {
        let address = object.bias.wrapping_add(site.vaddr);
        let Some(function) = plan.functions.get(site.function as usize) else { continue };
        if own.contains(&address) || !leads_here(site, address, object) {
            continue;
        }
        let added = library.add(address, || SiteInfo {
            address,
            function_address: object.bias.wrapping_add(function.vaddr),
            function_size: function.size,
            function: c_text(&function.name),
            symbol: c_text(&function.symbol),
            name: c_text(""),
            object: info,
            site: site.clone(),
            source: OnceLock::new(),
        });
        let Ok(id) = added else { break };
        if let Some(slot) = registry::slot(id)
            && slot.descriptor.load(Ordering::Acquire) == 0
        {
            handler::set(id, HANDLER.load(Ordering::Relaxed));
            ids.push(id);
        }
    }
    for (id, outcome) in install::install(library, &ids) {
        if outcome.is_ok() && ACTIVE.load(Ordering::Relaxed) != 0 {
            toggle::switch(id, true);
        }
    }
}

/// True if the call that stands at `address` leads to our hooks, and not to those of another definition. A linkage slot
/// that isn't bound yet leads back into its own object.
fn leads_here(site: &Site, address: u64, object: &LoadedObject) -> bool {
    if !matches!(site.window, Window::Call { .. }) {
        return false;
    }
    let callee = arch::callee(address);
    arch::hooks().contains(&callee) || object.code.iter().any(|&(start, end)| start <= callee && callee < end)
}

/// The converted site that a call came from: the one before the return address, or (a jump at a function's end) the
/// function's.
fn find(library: &Library, function: u64, return_address: u64, exit: bool) -> Option<u32> {
    for length in [5, 6] {
        if let Some(&id) = library.by_address.get(&return_address.wrapping_sub(length)) {
            let (_, info) = registry::site(id).ok()?;
            if info.site.provider == ProviderKind::InstrumentFunctions && info.original().len() as u64 == length {
                return Some(id);
            }
        }
    }
    let mut ids = library
        .by_address
        .range(function..)
        .map(|(_, &id)| id)
        .take_while(|&id| registry::site(id).is_ok_and(|(_, info)| info.function_address == function));
    ids.find(|&id| {
        registry::site(id).is_ok_and(|(_, info)| {
            matches!(info.site.window, Window::Call { tail: true, .. }) && exit == (info.site.event == Event::Exit)
        })
    })
}

/// An id for a call that can't be converted.
fn leave(library: &mut Library, object: &LoadedObject, function: u64, return_address: u64, exit: bool) -> Option<u32> {
    if let Some(&id) = library.hooks.left.get(&(return_address, exit)) {
        return Some(id);
    }
    let info = discovery::object_info(library, object);
    let vaddr = function.wrapping_sub(object.bias);
    let name = discovery::open(object)
        .ok()
        .and_then(|file| file.symbol_at(vaddr).map(|symbol| symbol.name.to_owned()))
        .unwrap_or_else(|| transect_binary_info::unnamed_function(vaddr));
    let event = if exit { Event::Exit } else { Event::Entry };
    // Its address is the return address, of which enter and exit are told apart by the last bit: no site stands there.
    let id = library
        .add(return_address.wrapping_mul(2) | u64::from(exit) | 1 << 63, || SiteInfo {
            address: return_address,
            function_address: function,
            function_size: 0,
            function: c_text(&transect_binary_info::demangle(&name)),
            symbol: c_text(&name),
            name: c_text(""),
            object: info,
            site: Site {
                function: 0,
                vaddr,
                provider: ProviderKind::InstrumentFunctions,
                event,
                exit: ExitSupport::NotEntry,
                red_zone: false,
                window: Window::ReturnSled { original: Vec::new() },
                name: String::new(),
                usdt: None,
            },
            source: OnceLock::new(),
        })
        .ok()?;
    library.hooks.left.insert((return_address, exit), id);
    let slot = registry::slot(id)?;
    slot.kind.store(kind::FLAG, Ordering::Relaxed);
    slot.wanted.store(ACTIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    handler::set(id, HANDLER.load(Ordering::Relaxed));
    slot.state.store(state::INSTALLED, Ordering::Release);
    Some(id)
}

/// Does for this one call what its site does from now on.
fn pass(id: u32, slot: &Slot, function: u64, call_site: u64, return_address: u64) {
    if !toggle::is_on(slot) {
        return;
    }
    let handler = slot.handler.load(Ordering::Relaxed);
    if handler == handler::COUNT {
        if let Some(counters) = arena::counters(id).next() {
            counters.calls.fetch_add(1, Ordering::Relaxed);
        }
        return;
    }
    let _off = HandlersOff::new();
    let mut registers = Registers {
        rbp: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rdi: function,
        rsi: call_site,
        rdx: 0,
        rcx: 0,
        rax: 0,
        probe: slot.block.load(Ordering::Relaxed) + WORD as u64,
        return_address,
    };
    handler::call_enter(handler, id, &mut registers);
}
