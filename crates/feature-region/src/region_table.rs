//! The sections `transect_regions` and `transect_sites` of one object.

use std::path::Path;

use rustc_hash::FxHashMap as HashMap;
use transect_binary_info::{Object, ObjectType, Section};
use transect_profile_model::{Dependence, ImplicitFlow, RegionKind};

use crate::RegionError;
use crate::record_line::RecordLine;

/// Place of a region among all of its object, in the order of the section: the number under which `transect feature
/// regions` shows it.
pub type RegionIndex = u32;

const REGIONS: &str = "transect_regions";
const SITES: &str = "transect_sites";
const VERSION: u32 = 2;
const SITE_SIZE: usize = 12;

/// How the sites of a unit were built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SiteMode {
    /// A no-op of five bytes, switched on in the running program.
    Probe,
    /// A call of the runtime that writes an event.
    Trace,
    /// A call of one of four functions that hold the only probes.
    Shared,
    /// No instruction: regions are inlined subroutines in the debug information.
    Inlined,
    /// None at all: what a build costs without them is measured by it.
    None,
    /// None, but the program notes which features' labels reach its decisions ([`crate::DecisionTable`]).
    Confirm,
}

impl SiteMode {
    const ALL: [Self; 6] = [Self::Probe, Self::Trace, Self::Shared, Self::Inlined, Self::None, Self::Confirm];

    /// No instruction is a site.
    fn is_nowhere(self) -> bool {
        matches!(self, Self::Inlined | Self::None | Self::Confirm)
    }

    /// The word for it in `TRANSECT_SITES` and in the binary.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Trace => "trace",
            Self::Shared => "shared",
            Self::Inlined => "inlined",
            Self::None => "none",
            Self::Confirm => "confirm",
        }
    }
}

/// What the compiler knew of one run of the plugin: a source file, or a whole program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Hash over the unit's regions; profiles of different builds differ in it.
    pub build: u64,
    /// Source file, or `whole program`.
    pub source: String,
    /// Hash of the feature model, 0 without one.
    pub model: u64,
    /// Implicit flow.
    pub implicit: ImplicitFlow,
    /// How its sites were built.
    pub sites: SiteMode,
    /// Compiler.
    pub compiler: String,
    /// Names of features; the numbers elsewhere are places here.
    pub features: Vec<String>,
    /// What became of the model's variables.
    pub variables: Vec<Variable>,
    /// Ways of data that the model leaves out.
    pub ignored: Vec<Ignored>,
}

impl Unit {
    /// What the model leaves out, with its reason: `file:function: reason`.
    pub fn ignored_in_words(&self) -> impl Iterator<Item = String> + '_ {
        let effective = self.ignored.iter().filter(|ignored| ignored.lost.is_none());
        effective.map(|ignored| match &ignored.reason {
            Some(reason) => format!("{}: {reason}", ignored.way),
            None => ignored.way.clone(),
        })
    }
}

/// A way of data that the model leaves out of the analysis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// `file:function` or `Tag::field`.
    pub way: String,
    /// Why, as the model says; `None` if it doesn't.
    pub reason: Option<String>,
    /// Why it has no effect; `None` if it has.
    pub lost: Option<String>,
}

/// What became of a variable of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Place in the unit's features.
    pub feature: u32,
    /// As the model names it.
    pub variable: String,
    /// Why it was not found; `None` if it was.
    pub lost: Option<String>,
}

/// A region, as the compiler found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Place of its unit in [`RegionTable::units`].
    pub unit: u32,
    /// Its number in that unit, as in the names of its USDT probes.
    pub number: u32,
    /// Features of its decision, ascending: places in the unit's features.
    pub features: Vec<u32>,
    /// How its decision depends on each of them.
    pub dependences: Vec<Dependence>,
    /// What decides.
    pub kind: RegionKind,
    /// Linkage name of its function.
    pub function: String,
    /// Source file as the compiler was told.
    pub file: String,
    /// Folder that a relative `file` counts from: where the compiler ran.
    pub directory: Option<String>,
    /// Line of the decision, 0 if unknown.
    pub line: u32,
    /// Column of the decision, 0 if unknown.
    pub column: u32,
    /// Last line, 0 if unknown.
    pub end_line: u32,
    /// Region of the same function around it.
    pub parent: Option<RegionIndex>,
    /// Regions of the same function around it.
    pub depth: u32,
    /// Why it has no sites; `None` if it has.
    pub irregular: Option<String>,
}

/// What happens at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Its region begins.
    Begin,
    /// Its region ends.
    End,
    /// Control came back by unwinding: deeper regions were left.
    Restore,
}

/// One copy of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Virtual address of its instruction, five bytes.
    pub vaddr: u64,
    /// Region that begins or ends; for [`SiteKind::Restore`], the one inside of which the site lies.
    pub region: Option<RegionIndex>,
    /// What happens.
    pub kind: SiteKind,
    /// Regions of the source function that stay open: around the region, or around a site that restores.
    pub depth: u16,
}

/// Regions and sites of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegionTable {
    /// Units, in the order of the section.
    pub units: Vec<Unit>,
    /// Regions of all units, in the order of the section.
    pub regions: Vec<Region>,
    /// Sites, sorted by address.
    pub sites: Vec<Site>,
}

impl RegionTable {
    /// Reads the tables of `object`.
    ///
    /// # Errors
    /// [`RegionError::NotMarked`], [`RegionError::NotLinked`], [`RegionError::Version`] or [`RegionError::Malformed`].
    pub fn of(object: &Object) -> Result<Self, RegionError> {
        let path = object.path();
        let sections = object.section_list();
        let named = |name: &str| sections.iter().find(|s| s.name == name);
        let Some(regions) = named(REGIONS).filter(|s| !s.data.is_empty()) else {
            return Err(RegionError::NotMarked { path: path.to_owned() });
        };
        if matches!(object.identity().object_type, ObjectType::Other(_)) {
            return Err(RegionError::NotLinked { path: path.to_owned() });
        }
        let mut builder = Builder { path, table: Self::default(), at: HashMap::default(), unit_start: 0 };
        builder.read_regions(regions)?;
        if let Some(sites) = named(SITES) {
            builder.read_sites(sites)?;
        }
        let mut table = builder.table;
        table.sites.sort_by_key(|site| site.vaddr);
        Ok(table)
    }

    /// The site at `vaddr`.
    pub fn site_at(&self, vaddr: u64) -> Option<&Site> {
        self.sites.binary_search_by_key(&vaddr, |site| site.vaddr).ok().map(|index| &self.sites[index])
    }

    /// True if sites tell where a region begins and ends.
    pub fn has_sites(&self, region: RegionIndex) -> bool {
        let with_sites = |unit: &Unit| !unit.sites.is_nowhere();
        self.unit_of(region).is_some_and(with_sites) && self.regions[region as usize].irregular.is_none()
    }

    /// Unit of a region.
    pub fn unit_of(&self, region: RegionIndex) -> Option<&Unit> {
        self.units.get(self.regions.get(region as usize)?.unit as usize)
    }

    /// Names of the features that a region's decision depends on so, or more strongly.
    pub fn features_at(&self, region: RegionIndex, weakest: Dependence) -> Vec<&str> {
        let Some(unit) = self.unit_of(region) else { return Vec::new() };
        let region = &self.regions[region as usize];
        let uses = region.features.iter().zip(&region.dependences).filter(|(_, dependence)| **dependence <= weakest);
        uses.filter_map(|(&feature, _)| unit.features.get(feature as usize)).map(String::as_str).collect()
    }

    /// How sites were built: the mode of the units with regions; of several, the one whose sites are instructions.
    pub fn site_mode(&self) -> SiteMode {
        let modes = self.regions.iter().filter_map(|region| self.units.get(region.unit as usize)).map(|u| u.sites);
        let first = self.units.first().map_or(SiteMode::None, |unit| unit.sites);
        modes.min_by_key(|mode| mode.is_nowhere()).unwrap_or(first)
    }

    /// One hash over the builds of all units, by which profiles tell builds of the object apart.
    pub fn build(&self) -> u64 {
        match self.units.as_slice() {
            [unit] => unit.build,
            // FNV-1a over the units' hashes.
            units => units
                .iter()
                .flat_map(|unit| unit.build.to_le_bytes())
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
        }
    }
}

struct Builder<'a> {
    path: &'a Path,
    table: RegionTable,
    /// Regions by the virtual address of their record.
    at: HashMap<u64, RegionIndex>,
    /// First region of the unit that is being read.
    unit_start: usize,
}

impl Builder<'_> {
    fn malformed(&self, section: &'static str, offset: usize, what: impl Into<String>) -> RegionError {
        RegionError::Malformed { path: self.path.to_owned(), section, offset, what: what.into() }
    }

    fn read_regions(&mut self, section: &Section<'_>) -> Result<(), RegionError> {
        let text = std::str::from_utf8(section.data)
            .map_err(|error| self.malformed(REGIONS, error.valid_up_to(), "not UTF-8"))?;
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let start = offset;
            offset += line.len();
            // Linkers may pad between units.
            let record = line.trim_start_matches('\0');
            let start = start + (line.len() - record.len());
            if record.is_empty() {
                continue;
            }
            let Some(record) = record.strip_suffix('\n') else {
                return Err(self.malformed(REGIONS, start, "the last record is cut"));
            };
            self.read_record(&RecordLine::parse(record), section.vaddr + start as u64).map_err(|what| match what {
                Fault::Text(what) => self.malformed(REGIONS, start, what),
                Fault::Version(found) => RegionError::Version { path: self.path.to_owned(), found, known: VERSION },
            })?;
        }
        if self.table.units.is_empty() {
            return Err(self.malformed(REGIONS, 0, "no unit"));
        }
        Ok(())
    }

    fn read_record(&mut self, line: &RecordLine<'_>, vaddr: u64) -> Result<(), Fault> {
        match line.letter {
            "U" => {
                let version = line.text("version")?;
                if version != VERSION.to_string() {
                    return Err(Fault::Version(version));
                }
                self.table.units.push(unit(line)?);
                self.unit_start = self.table.regions.len();
                Ok(())
            }
            "V" => {
                let unit = self.table.units.last_mut().ok_or("a variable before the first unit")?;
                let feature = line.number("feature")?;
                if feature as usize >= unit.features.len() {
                    return Err(format!("feature {feature} of {}", unit.features.len()).into());
                }
                unit.variables.push(Variable {
                    feature,
                    variable: line.text("variable")?,
                    lost: line.optional_text("lost"),
                });
                Ok(())
            }
            "I" => {
                let unit = self.table.units.last_mut().ok_or("an ignored way before the first unit")?;
                unit.ignored.push(Ignored {
                    way: line.text("way")?,
                    reason: line.optional_text("reason"),
                    lost: line.optional_text("lost"),
                });
                Ok(())
            }
            "R" => {
                let region = self.region(line)?;
                self.at.insert(vaddr, self.table.regions.len() as RegionIndex);
                self.table.regions.push(region);
                Ok(())
            }
            other => Err(format!("unknown record {other:?}").into()),
        }
    }

    fn region(&self, line: &RecordLine<'_>) -> Result<Region, Fault> {
        let number_of_unit = self.table.units.len().checked_sub(1).ok_or("a region before the first unit")?;
        let unit = &self.table.units[number_of_unit];
        let number = line.number("number")?;
        let (features, dependences) = feature_uses(line)?;
        if let Some(feature) = features.iter().find(|&&feature| feature as usize >= unit.features.len()) {
            return Err(format!("feature {feature} of {}", unit.features.len()).into());
        }
        let kind = line.text("kind")?;
        let of_unit = &self.table.regions[self.unit_start..];
        let parent = match line.optional_number("parent")? {
            None => None,
            // Regions come in the order of their nesting.
            Some(parent) => Some(
                of_unit
                    .iter()
                    .position(|region| region.number == parent)
                    .map(|place| (self.unit_start + place) as RegionIndex)
                    .ok_or_else(|| format!("region {number} lies in {parent}, which doesn't come before it"))?,
            ),
        };
        Ok(Region {
            unit: number_of_unit as u32,
            number,
            features,
            dependences,
            kind: RegionKind::parse(&kind).ok_or_else(|| format!("unknown kind {kind:?}"))?,
            function: line.text("function")?,
            file: line.text("file")?,
            directory: line.optional_text("directory"),
            line: line.number("line")?,
            column: line.number("column")?,
            end_line: line.number("end_line")?,
            parent,
            depth: line.number("depth")?,
            irregular: line.optional_text("irregular"),
        })
    }

    fn read_sites(&mut self, section: &Section<'_>) -> Result<(), RegionError> {
        let records = section.data.chunks_exact(SITE_SIZE);
        if !records.remainder().is_empty() {
            let end = section.data.len() - records.remainder().len();
            return Err(self.malformed(SITES, end, "the last entry is cut"));
        }
        for (index, raw) in records.enumerate() {
            let offset = index * SITE_SIZE;
            let at = section.vaddr + offset as u64;
            let distance = |from: usize| {
                let raw = raw[from..from + 4].first_chunk().copied().unwrap_or_default();
                i64::from(i32::from_le_bytes(raw))
            };
            let vaddr = at.wrapping_add_signed(distance(0));
            let kind = match raw[8] {
                0 => SiteKind::Begin,
                1 => SiteKind::End,
                2 => SiteKind::Restore,
                other => return Err(self.malformed(SITES, offset + 8, format!("unknown kind {other}"))),
            };
            let region = match distance(4) {
                0 if kind == SiteKind::Restore => None,
                distance => {
                    let record = (at + 4).wrapping_add_signed(distance);
                    let known = self.at.get(&record).copied();
                    Some(known.ok_or_else(|| self.malformed(SITES, offset + 4, "it names no region"))?)
                }
            };
            let depth = u16::from_le_bytes([raw[10], raw[11]]);
            self.table.sites.push(Site { vaddr, region, kind, depth });
        }
        Ok(())
    }
}

/// What is wrong with a record.
enum Fault {
    Text(String),
    Version(String),
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Text(what)
    }
}

impl From<&str> for Fault {
    fn from(what: &str) -> Self {
        Self::Text(what.to_owned())
    }
}

/// Features of a region, ascending, each with the strongest dependence that stands beside it; a table without them, as one that
/// is written by hand, has direct ones.
fn feature_uses(line: &RecordLine<'_>) -> Result<(Vec<u32>, Vec<Dependence>), Fault> {
    let features = line.numbers("features")?;
    let numbers = match line.optional_text("dependences") {
        Some(_) => line.numbers("dependences")?,
        None => vec![0; features.len()],
    };
    if features.len() != numbers.len() {
        return Err(format!("{} features with {} dependences", features.len(), numbers.len()).into());
    }
    let dependence = |number: u32| {
        Dependence::ALL.get(number as usize).copied().ok_or_else(|| format!("unknown dependence {number}"))
    };
    let mut uses = Vec::with_capacity(features.len());
    for (feature, number) in features.into_iter().zip(numbers) {
        uses.push((feature, dependence(number)?));
    }
    uses.sort_unstable();
    uses.dedup_by_key(|(feature, _)| *feature);
    Ok(uses.into_iter().unzip())
}

fn unit(line: &RecordLine<'_>) -> Result<Unit, Fault> {
    let implicit = line.text("implicit")?;
    let sites = line.text("sites")?;
    Ok(Unit {
        build: line.hash("build")?,
        source: line.text("unit")?,
        model: if line.optional_text("model").is_none() { 0 } else { line.hash("model")? },
        implicit: ImplicitFlow::parse(&implicit).ok_or_else(|| format!("unknown implicit flow {implicit:?}"))?,
        sites: SiteMode::ALL
            .into_iter()
            .find(|mode| mode.as_str() == sites)
            .ok_or_else(|| format!("unknown mode of sites {sites:?}"))?,
        compiler: line.optional_text("compiler").unwrap_or_default(),
        features: line.texts("features")?,
        variables: Vec::new(),
        ignored: Vec::new(),
    })
}
