//! Finding sites: patterns over the objects of this process.

use std::sync::{Mutex, OnceLock, PoisonError};

use transect_binary_info::Object;
use transect_probe_plan::{Function, Lines, Plan, PlanOptions, plan};

use crate::error::Error;
use crate::install;
use crate::loaded_object::{self, LoadedObject};
use crate::own_code;
use crate::own_probes;
use crate::pattern::Pattern;
use crate::registry::{self, Library};
use crate::site_info::{ObjectInfo, SiteInfo, c_text};
use crate::toggle;

/// What a callback wants of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteRequest {
    /// Install it.
    pub install: bool,
    /// Switch it on.
    pub activate: bool,
    /// End the discovery.
    pub stop: bool,
}

/// Called for each site with its id.
pub type Callback = Box<dyn FnMut(u32) -> SiteRequest + Send>;

/// Somebody who wants the sites of objects that are loaded later.
pub struct Watch {
    pattern: Pattern,
    lines: bool,
    callback: Callback,
}

/// What a discovery found.
#[derive(Debug, Default)]
pub struct Discovered {
    /// Sites that matched.
    pub sites: usize,
    /// Sites that could not be installed as wished.
    pub failed: Vec<(u32, Error)>,
}

/// Finds the sites that match `pattern`, calls `callback` for each, and installs what it wishes in one batch.
///
/// # Errors
/// [`Error::NotInitialized`], [`Error::Memory`]. Objects whose files can't be read have no sites.
pub fn discover(pattern: Pattern, lines: bool, future: bool, mut callback: Callback) -> Result<Discovered, Error> {
    let mut library = registry::lock_initialized()?;
    let objects = loaded_object::all();
    let found = discover_in(&mut library, &objects, &objects, &pattern, lines, &mut callback)?;
    if future {
        own_probes::watch_loader(&mut library, &objects);
        library.watches.push(Watch { pattern, lines, callback });
    }
    Ok(found)
}

/// Deals with objects that were just loaded: `new`, out of `all`.
pub fn discover_new(library: &mut Library, all: &[LoadedObject], new: &[LoadedObject]) {
    let mut watches = std::mem::take(&mut library.watches);
    for watch in &mut watches {
        // What can't be probed is left as it is: the program goes on.
        let _ = discover_in(library, all, new, &watch.pattern, watch.lines, &mut watch.callback);
    }
    watches.append(&mut library.watches);
    library.watches = watches;
}

fn discover_in(
    library: &mut Library,
    all: &[LoadedObject],
    objects: &[LoadedObject],
    pattern: &Pattern,
    lines: bool,
    callback: &mut Callback,
) -> Result<Discovered, Error> {
    let mut result = Discovered::default();
    let mut install = Vec::new();
    let mut activate = Vec::new();
    'objects: for object in objects {
        if !pattern.wants_object(&object.path, object.executable) {
            continue;
        }
        // An object whose file is gone, or no ELF file (any more), has no sites; the others have.
        let ids = match sites(library, all, object, &Choice::Pattern(pattern), lines) {
            Ok(Planned { ids, .. }) => ids,
            Err(error @ Error::Memory { .. }) => {
                result.failed.push((u32::MAX, error));
                break;
            }
            Err(_) => continue,
        };
        for id in ids {
            result.sites += 1;
            let wish = callback(id);
            if wish.install || wish.activate {
                install.push(id);
            }
            if wish.activate {
                activate.push(id);
            }
            if wish.stop {
                break 'objects;
            }
        }
    }
    if !install.is_empty() {
        own_probes::stand_by(library, all);
    }
    for (id, outcome) in install::install(library, &install) {
        if let Err(error) = outcome {
            result.failed.push((id, error));
        }
    }
    for id in activate {
        toggle::switch(id, true);
    }
    Ok(result)
}

/// Which functions.
pub enum Choice<'a> {
    /// By pattern.
    Pattern(&'a Pattern),
    /// The function that begins at this virtual address.
    Entry(u64),
}

/// The sites of one object, with ids.
pub struct Planned {
    /// Ids by address.
    pub ids: Vec<u32>,
    /// The plan that they come from.
    pub plan: Plan,
}

/// Opens an object's file.
///
/// # Errors
/// [`Error::Object`].
pub fn open(object: &LoadedObject) -> Result<Object, Error> {
    // The program's own file, even if it was replaced or removed since.
    let path = if object.executable { std::path::Path::new("/proc/self/exe") } else { &object.path };
    Object::open(path).map_err(|error| Error::Object { path: object.path.clone(), reason: error.to_string() })
}

/// Plans the chosen functions of an object.
///
/// # Errors
/// [`Error::Object`].
pub fn plan_object(object: &LoadedObject, choice: &Choice<'_>, all: &[LoadedObject]) -> Result<Plan, Error> {
    let file = open(object)?;
    let mut plan = match choice {
        Choice::Entry(vaddr) => {
            let within =
                |function: &Function| *vaddr >= function.vaddr && *vaddr < function.vaddr + function.size.max(1);
            plan(&file, &PlanOptions { wanted: Some(&within), ..PlanOptions::default() })
        }
        Choice::Pattern(pattern) => {
            // Behind a lock: line tables are read as they are asked for.
            let lines = Mutex::new(if pattern.wants_source() { Lines::of(&file) } else { None });
            let matches = |function: &Function| {
                let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                pattern.matches(&object.path, object.executable, function, lines.as_ref())
            };
            plan(&file, &PlanOptions { wanted: Some(&matches), ..PlanOptions::default() })
        }
    };
    let own = own_code::range(all);
    let is_own = |vaddr: u64| own.contains(&object.bias.wrapping_add(vaddr));
    plan.sites.retain(|site| !is_own(site.vaddr));
    let functions = &plan.functions;
    plan.refused.retain(|refused| functions.get(refused.function as usize).is_none_or(|f| !is_own(f.vaddr)));
    Ok(plan)
}

/// Plans an object and gives its sites ids. Sites on which the library has probes of its own are left out.
///
/// # Errors
/// [`Error::Object`], [`Error::Memory`].
pub fn sites(
    library: &mut Library,
    all: &[LoadedObject],
    object: &LoadedObject,
    choice: &Choice<'_>,
    lines: bool,
) -> Result<Planned, Error> {
    let plan = plan_object(object, choice, all)?;
    let mut ids = Vec::with_capacity(plan.sites.len());
    let mut info = None;
    let lines = if lines { open(object).ok().as_ref().and_then(Lines::of) } else { None };
    for site in &plan.sites {
        let address = object.bias.wrapping_add(site.vaddr);
        if library.reserved.iter().any(|&(at, _)| at == address) {
            continue;
        }
        let Some(function) = plan.functions.get(site.function as usize) else { continue };
        let object = *info.get_or_insert_with(|| object_info(library, object));
        let id = library.add(address, || SiteInfo {
            address,
            function_address: object.loaded.bias.wrapping_add(function.vaddr),
            function_size: function.size,
            function: c_text(&function.name),
            symbol: c_text(&function.symbol),
            name: c_text(&site.name),
            object,
            site: site.clone(),
            source: OnceLock::new(),
        })?;
        if let (Some(lines), Ok((_, info))) = (&lines, registry::site(id)) {
            info.source.get_or_init(|| lines.at(function.vaddr).map(|line| (c_text(&line.file), line.line)));
        }
        ids.push(id);
    }
    Ok(Planned { ids, plan })
}

/// The lasting record of an object at its place.
pub fn object_info(library: &mut Library, object: &LoadedObject) -> &'static ObjectInfo {
    if let Some(known) = library.objects.iter().find(|known| known.loaded == *object) {
        return known;
    }
    let info: &'static ObjectInfo = Box::leak(Box::new(ObjectInfo {
        loaded: object.clone(),
        path: c_text(&object.path_text()),
        component: c_text(&object.name()),
    }));
    library.objects.push(info);
    info
}
