//! One function by its address or name.

use transect_probe_plan::{Event, Plan};

use crate::discovery::{self, Choice, Planned};
use crate::error::Error;
use crate::loaded_object::{self, LoadedObject};
use crate::pattern::Pattern;
use crate::registry;

/// Candidates listed in an error.
const LISTED: usize = 16;

/// The entry site of the function at `address`.
///
/// # Errors
/// [`Error::NotAnEntry`] if no function begins there, [`Error::NotProbeable`] with the reason.
pub fn by_address(address: u64) -> Result<u32, Error> {
    let mut library = registry::lock_initialized()?;
    let objects = loaded_object::all();
    let not_an_entry = |detail: String| Error::NotAnEntry { address, detail };
    let Some(object) = objects.iter().find(|o| o.code.iter().any(|&(start, end)| start <= address && address < end))
    else {
        return Err(not_an_entry(": it is not in the code of any object of this process".into()));
    };
    let vaddr = address.wrapping_sub(object.bias);
    let Planned { ids, plan } = discovery::sites(&mut library, &objects, object, &Choice::Entry(vaddr), true)?;
    // `endbr64` goes before a displaced entry; sleds may stand behind the first instructions.
    let entry = |id: &&u32| {
        registry::site(**id).is_ok_and(|(_, info)| info.function_address == address && info.site.event == Event::Entry)
    };
    if let Some(id) = ids.iter().find(entry) {
        return Ok(*id);
    }
    refused(&plan, object, vaddr).map_or_else(
        || {
            let within = plan.functions.iter().find(|f| f.vaddr <= vaddr && vaddr < f.vaddr + f.size);
            Err(not_an_entry(within.map_or_else(
                || format!(": no function of {} is known there", object.name()),
                |f| {
                    let entry = object.bias.wrapping_add(f.vaddr);
                    format!(": it lies {} bytes inside of {}, which begins at {entry:#x}", vaddr - f.vaddr, f.name)
                },
            )))
        },
        Err,
    )
}

fn refused(plan: &Plan, object: &LoadedObject, vaddr: u64) -> Option<Error> {
    plan.refused.iter().find_map(|refused| {
        let function = plan.functions.get(refused.function as usize).filter(|f| f.vaddr == vaddr)?;
        Some(Error::NotProbeable { function: function.name.clone(), component: object.name(), reason: refused.reason })
    })
}

/// The entry site of the one function of this name.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Ambiguous`] with the candidates, [`Error::NotProbeable`] with the reason.
pub fn by_name(name: &str) -> Result<u32, Error> {
    let pattern = Pattern::parse(name)?;
    if !pattern.is_exact() {
        return Err(Error::Argument(format!("{name:?} is a pattern: use transect_discover() for many functions")));
    }
    let mut library = registry::lock_initialized()?;
    let objects = loaded_object::all();
    let mut entries: Vec<(u32, String)> = Vec::new();
    let mut refusal = None;
    let mut unreadable = None;
    for object in objects.iter().filter(|o| pattern.wants_object(&o.path, o.executable)) {
        let planned = match discovery::sites(&mut library, &objects, object, &Choice::Pattern(&pattern), true) {
            Ok(planned) => planned,
            Err(error) => {
                unreadable = Some(error);
                continue;
            }
        };
        for id in planned.ids {
            if let Ok((_, info)) = registry::site(id)
                && info.site.event == Event::Entry
            {
                entries.push((id, format!("{} at {:#x}", info.label(), info.function_address)));
            }
        }
        if let Some(refused) = planned.plan.refused.first() {
            refusal = planned.plan.functions.get(refused.function as usize).map(|function| Error::NotProbeable {
                function: function.name.clone(),
                component: object.name(),
                reason: refused.reason,
            });
        }
    }
    match (&entries[..], refusal, unreadable) {
        ([(id, _)], _, _) => Ok(*id),
        ([], Some(refusal), _) => Err(refusal),
        ([], None, Some(unreadable)) => Err(unreadable),
        ([], None, None) => Err(Error::NotFound { name: name.into(), objects: objects.len(), hint: String::new() }),
        _ => Err(Error::Ambiguous {
            name: name.into(),
            candidates: entries.into_iter().take(LISTED).map(|(_, label)| label).collect(),
        }),
    }
}

/// A function that can't be probed.
#[derive(Debug)]
pub struct Refused {
    /// Its name.
    pub function: String,
    /// Its component.
    pub component: String,
    /// Its address here.
    pub address: u64,
    /// Why.
    pub reason: transect_probe_plan::Refusal,
}

/// All functions that match and can't be probed.
///
/// # Errors
/// [`Error::NotInitialized`].
pub fn refusals(pattern: &Pattern) -> Result<Vec<Refused>, Error> {
    let _library = registry::lock_initialized()?;
    let objects = loaded_object::all();
    let mut found = Vec::new();
    for object in objects.iter().filter(|o| pattern.wants_object(&o.path, o.executable)) {
        let Ok(plan) = discovery::plan_object(object, &Choice::Pattern(pattern), &objects) else { continue };
        found.extend(plan.refused.iter().filter_map(|refused| {
            let function = plan.functions.get(refused.function as usize)?;
            Some(Refused {
                function: function.name.clone(),
                component: object.name(),
                address: object.bias.wrapping_add(function.vaddr),
                reason: refused.reason,
            })
        }));
    }
    Ok(found)
}
