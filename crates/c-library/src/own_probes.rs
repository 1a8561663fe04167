//! Probes of the library's own, on ids that users don't see: on the unwinders' entries, which must find the stack as it
//! was (see [`transect_probe::unwind`]), and on the loader's event function.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use transect_probe::descriptor::Registers;
use transect_probe::unwind::{self, UNWINDERS};
use transect_probe::{Descriptor, Handler};
use transect_probe_plan::{Event, Function, PlanOptions, plan};

use crate::discovery;
use crate::install;
use crate::loaded_object::LoadedObject;
use crate::loader_event;
use crate::registry::Library;
use crate::site_info::{SiteInfo, c_text};
use crate::toggle;

type UserEnter = extern "C" fn(u32, &Registers, u64, u64) -> u64;

/// Makes sure that the unwinders of `objects` put return addresses back, before a call can be timed, and that objects
/// loaded later are noticed.
pub fn stand_by(library: &mut Library, objects: &[LoadedObject]) {
    for object in objects {
        guard_unwinders(library, object);
    }
    watch_loader(library, objects);
}

/// The same for one object; each is looked at once.
fn guard_unwinders(library: &mut Library, object: &LoadedObject) {
    let info = discovery::object_info(library, object);
    if library.guarded.contains(&(info.loaded.headers, info.loaded.bias)) {
        return;
    }
    library.guarded.push((info.loaded.headers, info.loaded.bias));
    let Ok(file) = discovery::open(object) else { return };
    // Static copies (libgcc_eh) are found by their symbols, which costs reading them: done for the program alone.
    let exports = (0..file.dynamic_symbol_count())
        .filter_map(|index| file.dynamic_symbol(index))
        .any(|symbol| symbol.defined && UNWINDERS.contains(&symbol.name));
    if !exports && !object.executable {
        return;
    }
    drop(file);
    let wanted = |function: &Function| {
        UNWINDERS.contains(&function.symbol.as_str())
            || function.aliases.iter().any(|alias| UNWINDERS.contains(&alias.as_str()))
    };
    put(library, object, wanted, unwind::restore);
}

/// Puts the probe on the loader's event function, once.
pub fn watch_loader(library: &mut Library, objects: &[LoadedObject]) {
    if library.loader_watched {
        return;
    }
    library.loader_watched = true;
    let at = loader_event::event_function();
    let Some(loader) = objects.iter().find(|o| o.code.iter().any(|&(start, end)| start <= at && at < end)) else {
        return;
    };
    let vaddr = at.wrapping_sub(loader.bias);
    put(library, loader, move |function| function.vaddr == vaddr, loader_event::handle);
    loader_event::remember(objects);
}

/// Installs, for good and switched on, a probe that calls `handler`.
fn put(
    library: &mut Library,
    object: &LoadedObject,
    wanted: impl Fn(&Function) -> bool + Send + Sync,
    handler: UserEnter,
) {
    let Ok(file) = discovery::open(object) else { return };
    let plan = plan(&file, &PlanOptions { wanted: Some(&wanted), ..PlanOptions::default() });
    let mut ids = Vec::new();
    for site in plan.sites.iter().filter(|site| site.event == Event::Entry) {
        let Some(function) = plan.functions.get(site.function as usize) else { continue };
        let info = discovery::object_info(library, object);
        let address = object.bias.wrapping_add(site.vaddr);
        let mut site = site.clone();
        // These functions are entered, never timed.
        site.exit = transect_probe_plan::ExitSupport::ReturnAddressUsed;
        let added = library.add_reserved(SiteInfo {
            address,
            function_address: object.bias.wrapping_add(function.vaddr),
            function_size: function.size,
            function: c_text(&function.name),
            symbol: c_text(&function.symbol),
            name: c_text(""),
            object: info,
            site,
            source: OnceLock::new(),
        });
        if let Ok(id) = added {
            ids.push(id);
        }
    }
    let outcomes = install::install(library, &ids);
    for (id, _) in outcomes.into_iter().filter(|(_, outcome)| outcome.is_ok()) {
        let Some(slot) = crate::arena::slot(id) else { continue };
        // SAFETY: an installed site's descriptor is never unmapped.
        let descriptor = unsafe { &*(slot.descriptor.load(Ordering::Acquire) as *const Descriptor) };
        descriptor.user_enter.store(handler as *const () as u64, Ordering::Release);
        descriptor.enter.store(Handler::VectorEnter.address(), Ordering::Release);
        toggle::switch_slot(slot, true);
    }
}
