//! From patterns to functions, by the files alone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use transect_probe_plan::{
    Function, Plan, PlanOptions, Refused, SelectError, Selector, Site, plan, plan_address, usdt_notes,
};

use super::row::{Sources, file_name};
use crate::RecordError;
use crate::probe_session::LoadedObject;

/// The patterns of a command.
#[derive(Debug)]
pub struct Choice {
    selectors: Vec<Selector>,
}

/// What they mean in some objects.
#[derive(Debug, Default)]
pub struct Chosen {
    /// For each object (index), the functions' virtual addresses.
    pub functions: HashMap<usize, BTreeSet<u64>>,
    /// Points that were given by address or by a USDT note's name: object's index, function, site.
    pub points: Vec<(usize, Function, Site)>,
    /// USDT points at which no probe can be.
    pub refused: Vec<(usize, Function, Refused)>,
    /// For each pattern that matched nothing: why, and whether its component is there at all.
    pub unmatched: Vec<(SelectError, bool)>,
}

impl Choice {
    /// Reads the patterns.
    ///
    /// # Errors
    /// [`RecordError::Select`].
    pub fn parse(patterns: &[String]) -> Result<Choice, RecordError> {
        let selectors = patterns.iter().map(|text| Selector::parse(text)).collect::<Result<_, _>>()?;
        Ok(Choice { selectors })
    }

    /// Looks them up in objects; `program` is the path of the executable. A name without wildcards must be that of one
    /// function.
    ///
    /// # Errors
    /// Ambiguous names, addresses where no probe can be. Patterns that match nothing are no error here.
    pub fn among(
        &self,
        objects: &[(usize, &LoadedObject)],
        program: &Path,
        sources: &mut Sources,
    ) -> Result<Chosen, RecordError> {
        let mut chosen = Chosen::default();
        let mut tables: HashMap<usize, Rc<Plan>> = HashMap::new();
        for selector in &self.selectors {
            let there: Vec<(usize, &LoadedObject)> = objects
                .iter()
                .copied()
                .filter(|(_, o)| selector.matches_component(&o.path, o.object.soname()))
                .collect();
            if let Some(address) = selector.address() {
                chosen.point(selector, address, &there, objects, program)?;
                continue;
            }
            let mut found: Vec<(usize, &LoadedObject, Function)> = Vec::new();
            for &(index, object) in there.iter().filter(|_| !selector.wants_point()) {
                let table = tables.entry(index).or_insert_with(|| sources.functions(object));
                let matching = table.functions.iter().filter(|f| {
                    selector.matches_function(f)
                        && (!selector.wants_source() || {
                            let (file, _) = sources.of(object, f.vaddr);
                            !file.is_empty() && selector.matches_source(&file)
                        })
                });
                found.extend(matching.map(|function| (index, object, function.clone())));
            }
            // Private functions of libraries (the loader has copies of libc's, too) yield to the program's own and to
            // those that a library offers.
            if selector.is_exact() && found.len() > 1 {
                let public = |o: &LoadedObject, f: &Function| o.path == program || is_exported(o, f.vaddr);
                if found.iter().any(|(_, o, f)| public(o, f)) {
                    found.retain(|(_, o, f)| public(o, f));
                }
            }
            if found.is_empty() {
                let places = if selector.wants_point() { &there[..] } else { objects };
                match chosen.usdt(selector, places) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        chosen.unmatched.push((error, !there.is_empty() || !selector.wants_point()));
                        continue;
                    }
                }
                if there.is_empty() && selector.wants_component() {
                    chosen.unmatched.push((unknown_component(selector, objects), false));
                    continue;
                }
                let functions =
                    there.iter().filter_map(|(index, _)| tables.get(index)).flat_map(|table| &table.functions);
                chosen.unmatched.push((selector.unknown(functions), !there.is_empty()));
            }
            if selector.is_exact() && found.len() > 1 {
                let candidates = found.iter().map(|(_, object, function)| {
                    let (file, line) = sources.of(object, function.vaddr);
                    let source = if file.is_empty() { String::new() } else { format!(" at {file}:{line}") };
                    format!("{}:{:#x} ({}{source})", file_name(&object.path), function.vaddr, function.name)
                });
                let candidates = candidates.collect();
                return Err(SelectError::Ambiguous { pattern: selector.text().to_owned(), candidates }.into());
            }
            for (index, _, function) in found {
                chosen.functions.entry(index).or_default().insert(function.vaddr);
            }
        }
        if self.selectors.is_empty() {
            for &(index, object) in objects {
                let all = sources.functions(object).functions.iter().map(|function| function.vaddr).collect();
                chosen.functions.insert(index, all);
            }
        }
        Ok(chosen)
    }
}

impl Chosen {
    /// Looks for USDT points; false if a name is not that of one.
    fn usdt(&mut self, selector: &Selector, objects: &[(usize, &LoadedObject)]) -> Result<bool, SelectError> {
        let mut others = Vec::new();
        let mut found = false;
        for &(index, object) in objects {
            let notes = usdt_notes(&object.object);
            if !notes.iter().any(|(_, note)| selector.matches_point(note)) {
                others.extend(notes.into_iter().map(|(_, note)| note));
                continue;
            }
            found = true;
            let plan = plan(&object.object, &PlanOptions::default());
            let names: HashSet<String> = notes
                .iter()
                .filter(|(_, note)| selector.matches_point(note))
                .map(|(_, note)| format!("{}:{}", note.provider, note.name))
                .collect();
            let function = |index: u32| plan.functions[index as usize].clone();
            let sites = plan.sites.iter().filter(|site| names.contains(&site.name));
            self.points.extend(sites.map(|site| (index, function(site.function), site.clone())));
            let refused = plan.refused.iter().filter(|one| names.contains(&one.name));
            self.refused.extend(refused.map(|one| (index, function(one.function), one.clone())));
        }
        match found {
            true => Ok(true),
            false => selector.unknown_point(&others).map_or(Ok(false), Err),
        }
    }

    fn point(
        &mut self,
        selector: &Selector,
        address: u64,
        there: &[(usize, &LoadedObject)],
        objects: &[(usize, &LoadedObject)],
        program: &Path,
    ) -> Result<(), RecordError> {
        // An address of the running process, where it is one; else one of the file that is named, or of the program.
        let runs = |object: &LoadedObject| object.code.iter().any(|code| code.low <= address && address < code.high);
        let place = there.iter().find(|(_, object)| runs(object)).map(|&(i, o)| (i, o, address.wrapping_sub(o.bias)));
        let named = || {
            let mut candidates = there.iter().filter(|(_, o)| there.len() < objects.len() || o.path == program);
            candidates.next().map(|&(i, o)| (i, o, address))
        };
        let Some((index, object, vaddr)) = place.or_else(named) else {
            let error = match there {
                [] if selector.wants_component() => selector.unknown_component(names_of(objects), []),
                _ => selector.unknown([]),
            };
            self.unmatched.push((error, !there.is_empty()));
            return Ok(());
        };
        let (function, site) = plan_address(&object.object, vaddr)?;
        self.points.push((index, function, site));
        Ok(())
    }
}

fn unknown_component(selector: &Selector, objects: &[(usize, &LoadedObject)]) -> SelectError {
    let notes: Vec<_> = objects.iter().flat_map(|(_, object)| usdt_notes(&object.object)).collect();
    selector.unknown_component(names_of(objects), notes.iter().map(|(_, note)| note))
}

fn names_of(objects: &[(usize, &LoadedObject)]) -> Vec<String> {
    let mut names: Vec<String> = objects.iter().map(|(_, object)| file_name(&object.path)).collect();
    names.dedup();
    names
}

/// True if other components can link with the function at `vaddr`.
fn is_exported(object: &LoadedObject, vaddr: u64) -> bool {
    let symbols = (0..object.object.dynamic_symbol_count()).filter_map(|index| object.object.dynamic_symbol(index));
    symbols.into_iter().any(|symbol| symbol.defined && symbol.address == vaddr)
}
