//! Regions in the debug information: inlined subroutines that no source has, named `FR(A,B)`.

use std::ops::Range;
use std::sync::Arc;

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, EndianArcSlice, LittleEndian, Reader, Unit, UnitOffset};
use rustc_hash::FxHashMap as HashMap;
use transect_binary_info::Object;
use transect_profile_model::Dependence;

use crate::region_map::Piece;
use crate::region_stack::{EMPTY, RegionStacks};
use crate::region_table::{RegionIndex, RegionTable};

type Bytes = EndianArcSlice<LittleEndian>;

/// Names of the subroutines begin so.
const NAME: &str = "FR(";
/// Their linkage names end in the region's number in its unit.
const LINKAGE: &str = "transect.region.";

/// True of the linkage name of a region's subroutine.
pub(crate) fn is_region(linkage: &str) -> bool {
    linkage.starts_with(LINKAGE)
}

/// Code of regions, without overlaps, each piece with its stack of regions.
pub(crate) fn pieces(object: &Object, table: &RegionTable, stacks: &mut RegionStacks) -> Vec<Piece> {
    let separate = object.debug_object();
    let of_object = dwarf(object).filter(|_| object.section_list().iter().any(|s| s.name == ".debug_info"));
    let Some(dwarf) = of_object.or_else(|| separate.as_ref().and_then(dwarf)) else { return Vec::new() };
    let mut found: Vec<Inlined> = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        read_unit(&dwarf, &unit, table, &mut found);
    }
    flatten(&found, stacks)
}

fn dwarf(object: &Object) -> Option<Dwarf<Bytes>> {
    let load = |id: gimli::SectionId| -> Result<Bytes, gimli::Error> {
        Ok(Bytes::new(Arc::from(object.section_bytes(id.name()).unwrap_or_default()), LittleEndian))
    };
    Dwarf::load(load).ok()
}

/// One range of one inlined region.
struct Inlined {
    range: Range<u64>,
    /// Inlined subroutines around it; those of regions count.
    depth: usize,
    region: RegionIndex,
}

fn read_unit(dwarf: &Dwarf<Bytes>, unit: &Unit<Bytes>, table: &RegionTable, found: &mut Vec<Inlined>) {
    let mut regions: HashMap<UnitOffset, Option<RegionIndex>> = HashMap::default();
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() != gimli::DW_TAG_inlined_subroutine {
            continue;
        }
        let origin = match entry.attr_value(gimli::DW_AT_abstract_origin) {
            Some(AttributeValue::UnitRef(origin)) => origin,
            _ => continue,
        };
        let region = *regions.entry(origin).or_insert_with(|| {
            let entry = unit.entry(origin).ok()?;
            region_of(dwarf, unit, &entry, table)
        });
        // Where regions have sites, those tell more.
        let Some(region) = region.filter(|&region| !table.has_sites(region)) else { continue };
        let Ok(mut ranges) = dwarf.die_ranges(unit, entry) else { continue };
        let depth = usize::try_from(entry.depth()).unwrap_or(0);
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end {
                found.push(Inlined { range: range.begin..range.end, depth, region });
            }
        }
    }
}

/// The region that an abstract subroutine stands for.
fn region_of(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    entry: &DebuggingInformationEntry<Bytes>,
    table: &RegionTable,
) -> Option<RegionIndex> {
    let text = |name: gimli::DwAt| -> Option<String> {
        let value = entry.attr_value(name)?;
        let string = dwarf.attr_string(unit, value).ok()?;
        Some(string.to_string_lossy().ok()?.into_owned())
    };
    let number = |name: gimli::DwAt| entry.attr_value(name).and_then(|value| value.udata_value());
    let name = text(gimli::DW_AT_name)?;
    if !name.starts_with(NAME) {
        return None;
    }
    let linkage = text(gimli::DW_AT_linkage_name);
    if let Some(number) = linkage.as_deref().and_then(|name| name.strip_prefix(LINKAGE)?.parse::<u32>().ok()) {
        let mut fitting = (0..).zip(&table.regions).filter(|(_, region)| region.number == number);
        // Of several units, the one whose features bear the names.
        let of_name =
            |index: RegionIndex| format!("{NAME}{})", table.features_at(index, Dependence::default()).join(","));
        let first = fitting.clone().next().map(|(index, _)| index);
        return fitting.find(|(index, _)| of_name(*index) == name).map(|(index, _)| index).or(first);
    }
    let line = number(gimli::DW_AT_decl_line)?;
    let same =
        |index: RegionIndex| format!("{NAME}{})", table.features_at(index, Dependence::default()).join(",")) == name;
    let mut regions = (0..).zip(&table.regions);
    regions.find(|(index, region)| u64::from(region.line) == line && same(*index)).map(|(index, _)| index)
}

/// Nested ranges as a sequence of pieces.
fn flatten(found: &[Inlined], stacks: &mut RegionStacks) -> Vec<Piece> {
    let mut borders: Vec<u64> = found.iter().flat_map(|inlined| [inlined.range.start, inlined.range.end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut order: Vec<&Inlined> = found.iter().collect();
    order.sort_by_key(|inlined| inlined.range.start);
    let mut open: Vec<&Inlined> = Vec::new();
    let mut next = 0;
    let mut pieces = Vec::new();
    for pair in borders.windows(2) {
        open.retain(|inlined| inlined.range.end > pair[0]);
        while let Some(inlined) = order.get(next).filter(|inlined| inlined.range.start <= pair[0]) {
            open.push(inlined);
            next += 1;
        }
        if open.is_empty() {
            continue;
        }
        open.sort_by_key(|inlined| inlined.depth);
        let stack = open.iter().fold(EMPTY, |stack, inlined| stacks.push(stack, inlined.region));
        pieces.push((pair[0]..pair[1], Some(stack)));
    }
    pieces
}
