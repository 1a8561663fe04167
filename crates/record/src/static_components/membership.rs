//! Which functions of an object belong to which static component.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use transect_binary_info::{ArchiveMember, FunctionSymbol, MemberFunction, Object, archive_members, demangle};

use super::config::ComponentRule;
use super::error::StaticError;
use super::link_map::{self, LinkMap};
use super::namespace;
use super::pattern::{Pattern, near_matches};

/// What is known of an object's functions.
pub struct Inventory<'a> {
    object: &'a Object,
    /// All its function symbols, by address.
    pub symbols: Vec<FunctionSymbol>,
    demangled: Vec<String>,
}

impl<'a> Inventory<'a> {
    /// Reads the symbol tables.
    pub fn of(object: &'a Object) -> Inventory<'a> {
        let symbols = object.function_symbols();
        let demangled = symbols.iter().map(|s| demangle(&s.name)).collect();
        Inventory { object, symbols, demangled }
    }

    fn matching(&self, pattern: &Pattern) -> impl Iterator<Item = usize> {
        (0..self.symbols.len()).filter(|&i| pattern.matches_function(&self.symbols[i].name, &self.demangled[i]))
    }

    fn no_match(&self, rule: &ComponentRule, key: &'static str, pattern: &str, hint: String) -> StaticError {
        StaticError::NoMatch {
            component: rule.name.clone(),
            key,
            pattern: pattern.to_owned(),
            object: self.object.path().display().to_string(),
            hint: if self.symbols.is_empty() {
                "; it is stripped of its symbols".to_owned()
            } else if hint.is_empty() && rule.within.is_none() {
                "; if it is in another program or library than this one, say within = its file name".to_owned()
            } else {
                hint
            },
        }
    }

    /// Addresses of the component's functions.
    pub fn members(&self, rule: &ComponentRule) -> Result<HashSet<u64>, StaticError> {
        let mut found: HashSet<usize> = HashSet::new();
        let map = rule.map.as_deref().map(link_map::read).transpose()?;
        for text in &rule.functions {
            let before = found.len();
            let hits: Vec<usize> = self.matching(&Pattern::new(text)).collect();
            found.extend(&hits);
            if hits.is_empty() && found.len() == before {
                let names =
                    self.symbols.iter().map(|s| s.name.as_str()).chain(self.demangled.iter().map(String::as_str));
                return Err(self.no_match(rule, "functions", text, near_matches(text, names)));
            }
        }
        for path in &rule.namespaces {
            let hits: Vec<usize> = (0..self.symbols.len())
                .filter(|&i| namespace::is_in(&self.symbols[i].name, &self.demangled[i], path))
                .collect();
            if hits.is_empty() {
                let pairs = self.symbols.iter().zip(&self.demangled);
                let known: Vec<String> = pairs.filter_map(|(s, d)| namespace::outermost(&s.name, d)).collect();
                return Err(self.no_match(
                    rule,
                    "namespace",
                    path,
                    near_matches(path, known.iter().map(String::as_str)),
                ));
            }
            found.extend(hits);
        }
        for archive in &rule.archives {
            found.extend(self.of_archive(rule, archive, map.as_ref())?);
        }
        for pattern in &rule.objects {
            found.extend(self.of_objects(rule, pattern, map.as_ref())?);
        }
        for pattern in &rule.sources {
            found.extend(self.of_source(rule, pattern)?);
        }
        for text in &rule.exclude {
            let hits: Vec<usize> = self.matching(&Pattern::new(text)).collect();
            if hits.is_empty() {
                let names = self.symbols.iter().map(|s| s.name.as_str());
                return Err(self.no_match(rule, "exclude", text, near_matches(text, names)));
            }
            let at: HashSet<u64> = hits.iter().map(|&i| self.symbols[i].vaddr).collect();
            found.retain(|&i| !at.contains(&self.symbols[i].vaddr));
        }
        Ok(found.into_iter().map(|i| self.symbols[i].vaddr).collect())
    }

    /// Functions that came from a static library: by the linker's map, else by the library itself.
    fn of_archive(
        &self,
        rule: &ComponentRule,
        archive: &str,
        map: Option<&LinkMap>,
    ) -> Result<Vec<usize>, StaticError> {
        if let Some(map) = map {
            let pattern = Pattern::new(archive);
            let hits = self.in_ranges(
                &map.ranges(|input| input.archive.as_deref().is_some_and(|path| pattern.matches_path(path))),
            );
            if hits.is_empty() {
                let known: Vec<&str> = map.archives().collect();
                return Err(self.no_match(rule, "archive", archive, near_matches(archive, known.into_iter())));
            }
            return Ok(hits);
        }
        let (path, looked) = find_archive(archive, self.object.path());
        let Some(path) = path else {
            let hint = format!(": no such library in {looked}; give its path, or the linker's map file (map = …)");
            return Err(self.no_match(rule, "archive", archive, hint));
        };
        let members = archive_members(&path)?;
        let hits = self.of_members(&members);
        if hits.is_empty() {
            let hint = match members.iter().all(|m| m.intermediate) {
                true => format!(
                    ": {} holds code for link-time optimisation only; use functions, source or a map",
                    path.display()
                ),
                false => format!(": no function of {} is in it", path.display()),
            };
            return Err(self.no_match(rule, "archive", archive, hint));
        }
        Ok(hits)
    }

    /// Functions that came from these members: a member was linked if its public functions are there, of equal size.
    fn of_members(&self, members: &[ArchiveMember]) -> Vec<usize> {
        let mut public: HashMap<&str, usize> = HashMap::new();
        let mut private: HashMap<(&str, u64), Vec<usize>> = HashMap::new();
        for (i, s) in self.symbols.iter().enumerate() {
            if s.local {
                private.entry((&s.name, s.size)).or_default().push(i);
            }
            // Hidden symbols of a library are local in what is linked from it.
            public.entry(&s.name).or_insert(i);
        }
        let mut hits = Vec::new();
        for member in members {
            let strong = || member.functions.iter().filter(|f| !f.local && !f.weak);
            let is_same =
                |f: &MemberFunction| public.get(f.name.as_str()).is_some_and(|&i| self.symbols[i].size == f.size);
            let present = strong().filter(|f| public.contains_key(f.name.as_str())).count();
            let same = strong().filter(|f| is_same(f)).count();
            // Another version of the library than the one on this disk: names alone decide, if nearly all are there.
            let linked = same > 0 || present > 0 && present * 4 >= strong().count() * 3;
            let private_only = strong().next().is_none();
            if !linked && !private_only {
                continue;
            }
            // A linker names a unit by its object file if that doesn't name its source.
            let named = |unit: Option<&str>| {
                unit.is_some() && (unit == member.unit.as_deref() || unit == Some(member.name.as_str()))
            };
            let mut units: BTreeMap<u32, usize> = BTreeMap::new();
            for f in member.functions.iter().filter(|f| f.local) {
                for &i in private.get(&(f.name.as_str(), f.size)).into_iter().flatten() {
                    if named(self.symbols[i].unit.as_deref()) {
                        *units.entry(self.symbols[i].unit_index).or_default() += 1;
                    }
                }
            }
            let best = units.iter().max_by_key(|(_, count)| **count);
            // A member that is reached through tables of functions only: nearly all of it must be there.
            let locals = member.functions.iter().filter(|f| f.local).count();
            if private_only && best.is_none_or(|(_, &count)| count * 5 < locals * 4) {
                continue;
            }
            let unit = best.map(|(unit, _)| *unit);
            // What the library was stripped of lies between its public functions, in the same section.
            let sections: Vec<(u64, u64)> = member
                .functions
                .iter()
                .filter(|f| !f.local && !f.weak && is_same(f))
                .filter_map(|f| {
                    let start = self.symbols[public[f.name.as_str()]].vaddr.checked_sub(f.offset)?;
                    Some((start, start + member.sections.get(f.section).copied().unwrap_or(0)))
                })
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            hits.extend(self.in_ranges(&sections));
            for f in &member.functions {
                if f.local {
                    let own = private.get(&(f.name.as_str(), f.size)).into_iter().flatten();
                    hits.extend(own.filter(|&&i| Some(self.symbols[i].unit_index) == unit));
                } else if let Some(&i) = public.get(f.name.as_str()) {
                    // A weak function may be another object's copy: then it is the same code.
                    if !f.weak || self.symbols[i].size == f.size {
                        hits.push(i);
                    }
                }
            }
            if let Some(unit) = unit {
                // Parts that the compiler split off bear names of their own.
                hits.extend((0..self.symbols.len()).filter(|&i| {
                    self.symbols[i].local && self.symbols[i].unit.is_some() && self.symbols[i].unit_index == unit
                }));
            }
        }
        self.fill_gaps(&mut hits);
        hits
    }

    /// Adds functions without symbol that lie between members: libraries come stripped of private symbols, and a member
    /// that is reached through a table of functions has no other.
    fn fill_gaps(&self, hits: &mut Vec<usize>) {
        let at: HashSet<u64> = hits.iter().map(|&i| self.symbols[i].vaddr).collect();
        let mut unnamed = Vec::new();
        let mut after_member = false;
        for (i, s) in self.symbols.iter().enumerate() {
            if at.contains(&s.vaddr) {
                hits.append(&mut unnamed);
                after_member = true;
            } else if !s.is_described_only() {
                unnamed.clear();
                after_member = false;
            } else if after_member {
                unnamed.push(i);
            }
        }
    }

    /// Functions that came from object files: by the linker's map, else by the names of their sources.
    fn of_objects(&self, rule: &ComponentRule, text: &str, map: Option<&LinkMap>) -> Result<Vec<usize>, StaticError> {
        let pattern = Pattern::new(text);
        if let Some(map) = map {
            let hits = self.in_ranges(&map.ranges(|input| pattern.matches_path(&input.file)));
            if hits.is_empty() {
                let known: Vec<&str> = map.files().collect();
                return Err(self.no_match(rule, "objects", text, near_matches(text, known.into_iter())));
            }
            return Ok(hits);
        }
        let hits = self.of_units(|unit| {
            let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
            pattern.matches_path(&format!("{stem}.o")) || pattern.matches_path(&format!("{unit}.o"))
        });
        if hits.is_empty() {
            let units: Vec<&str> = self.symbols.iter().filter_map(|s| s.unit.as_deref()).collect();
            let near = near_matches(text.trim_end_matches(".o"), units.into_iter());
            let hint = if near.is_empty() { "; the linker's map file (map = …) would tell".to_owned() } else { near };
            return Err(self.no_match(rule, "objects", text, hint));
        }
        Ok(hits)
    }

    /// Functions from source files, by the debug information, else by the names of translation units.
    fn of_source(&self, rule: &ComponentRule, text: &str) -> Result<Vec<usize>, StaticError> {
        let pattern = Pattern::new(text);
        let sources = self.object.function_sources();
        let hits: Vec<usize> = if sources.is_empty() {
            self.of_units(|unit| pattern.matches_path(unit))
        } else {
            let of: HashMap<u64, usize> = sources.functions.iter().map(|&(at, file)| (at, file)).collect();
            let matching: Vec<bool> = sources.files.iter().map(|f| pattern.matches_path(f)).collect();
            (0..self.symbols.len())
                .filter(|&i| of.get(&self.symbols[i].vaddr).is_some_and(|&file| matching[file]))
                .collect()
        };
        if hits.is_empty() {
            let known: Vec<&str> = if sources.is_empty() {
                self.symbols.iter().filter_map(|s| s.unit.as_deref()).collect()
            } else {
                sources.files.iter().map(String::as_str).collect()
            };
            let mut hint = near_matches(text, known.into_iter());
            if sources.is_empty() {
                hint.push_str("; it has no debug information (compile with -g), so only names of C and C++ files are known, without folders");
            }
            return Err(self.no_match(rule, "source", text, hint));
        }
        Ok(hits)
    }

    /// Functions of the translation units that `wanted` names; public functions count if they lie between private ones
    /// of one unit.
    fn of_units(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let mut bounds: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for s in self.symbols.iter().filter(|s| s.unit.is_some()) {
            let b = bounds.entry(s.unit_index).or_insert((s.vaddr, s.vaddr + s.size));
            *b = (b.0.min(s.vaddr), b.1.max(s.vaddr + s.size));
        }
        let mut hits: Vec<usize> =
            (0..self.symbols.len()).filter(|&i| self.symbols[i].unit.as_deref().is_some_and(&wanted)).collect();
        let units: HashSet<u32> = hits.iter().map(|&i| self.symbols[i].unit_index).collect();
        let ranges: Vec<(u64, u64)> = units
            .iter()
            .map(|unit| bounds[unit])
            // Where units are mixed (functions sorted by heat, link-time optimisation) nothing lies between.
            .filter(|&(low, high)| {
                !self
                    .symbols
                    .iter()
                    .any(|s| s.unit.is_some() && !units.contains(&s.unit_index) && s.vaddr >= low && s.vaddr < high)
            })
            .collect();
        hits.extend(self.in_ranges(&ranges));
        hits
    }

    fn in_ranges(&self, ranges: &[(u64, u64)]) -> Vec<usize> {
        (0..self.symbols.len())
            .filter(|&i| ranges.iter().any(|&(low, high)| self.symbols[i].vaddr >= low && self.symbols[i].vaddr < high))
            .collect()
    }
}

/// Where a static library lies: as given, beside the program, or among the system's; else where it was looked for.
fn find_archive(archive: &str, object: &Path) -> (Option<PathBuf>, String) {
    let given = Path::new(archive);
    if given.is_absolute() || given.is_file() {
        return (given.is_file().then(|| given.to_owned()), "that folder".to_owned());
    }
    let beside = object.parent().map(Path::to_owned);
    let near = ["", "lib", "../lib", ".."].iter().filter_map(|part| beside.as_ref().map(|b| b.join(part)));
    let system = ["/usr/local/lib", "/usr/local/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib"];
    let folders: Vec<PathBuf> =
        [PathBuf::from(".")].into_iter().chain(near).chain(system.iter().map(PathBuf::from)).collect();
    let found = folders.iter().map(|folder| folder.join(archive)).find(|path| path.is_file());
    (found, folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", "))
}
