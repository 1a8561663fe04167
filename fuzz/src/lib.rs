//! What each fuzzer does with its bytes. None of it may panic, overflow, take long or need much memory.

#[cfg(feature = "recorder")]
mod folder;
#[cfg(feature = "recorder")]
mod settings;
#[cfg(feature = "recorder")]
mod shared_memory;
#[cfg(feature = "recorder")]
mod views;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use transect_binary_info::{Object, Plan, archive_members, plan};
use transect_event_abi::plan::{PLAN_VERSION, PlanHeader, PlanSum};
use transect_feature_model::Format;
use transect_feature_region::{RegionMap, RegionTable};
use transect_influence::{Influence, comparison_text, csv, page, text};
use transect_probe_plan::{Lines, LinkageNames, PlanOptions, plan_on_one_thread};

/// A file that can be read by its path, without a name in any folder.
fn file_of(bytes: &[u8]) -> Option<(File, PathBuf)> {
    let descriptor = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let mut file = File::from(descriptor);
    file.write_all(bytes).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Some((file, path))
}

fn object(bytes: &[u8]) -> Option<Object> {
    Object::of_image("/nowhere/fuzz", bytes.to_vec()).ok()
}

/// Some addresses of an object: where it says that something is.
fn addresses(object: &Object) -> Vec<u64> {
    let mut found: Vec<u64> = object.code_ranges().iter().flat_map(|range| [range.start, range.end - 1]).collect();
    found.extend(object.function_symbols().iter().take(16).map(|function| function.vaddr));
    found.extend([object.entry_point(), 0, u64::MAX]);
    found
}

/// Symbols, segments, unwind tables, relocations, linkage.
pub fn elf(bytes: &[u8]) {
    let Some(object) = object(bytes) else { return };
    object.section_list();
    object.data_ranges();
    object.data_segments().count();
    object.address_range();
    object.relative_relocations();
    object.frame_entries();
    object.linkage_slots();
    object.linkage_entries();
    (0..object.dynamic_symbol_count()).for_each(|index| _ = object.dynamic_symbol(index));
    let plan = plan::analyze(&object);
    assert_eq!(Plan::from_bytes(&plan.to_bytes()).unwrap(), plan);
    for at in addresses(&object) {
        object.symbol_at(at);
        object.frame_rule(at);
        object.file_offset(at).and_then(|offset| object.vaddr(offset));
        object.data_vaddr(at);
        object.load_bias(at, at);
        object.landing_pads(at, at);
        object.transfers(at, 4096);
    }
    let functions: Vec<u64> = object.function_symbols().iter().map(|function| function.vaddr).collect();
    object.references_to(&functions);
}

/// Where functions can be probed, and their lines.
pub fn probe_plan(bytes: &[u8]) {
    plan_on_one_thread();
    let Some(object) = object(bytes) else { return };
    let plan = transect_probe_plan::plan(&object, &PlanOptions::default());
    let lines = Lines::of(&object);
    let names = LinkageNames::of(&object);
    for function in plan.functions.iter().take(16) {
        lines.iter().for_each(|lines| _ = (lines.at(function.vaddr), lines.frames(function.vaddr)));
        names.of_stub(&object, function.vaddr);
    }
    transect_probe_plan::usdt_notes(&object);
    for at in addresses(&object) {
        let _ = transect_probe_plan::plan_address(&object, at);
    }
}

/// Tables of feature regions, and the regions of each instruction.
pub fn regions(bytes: &[u8]) {
    let Some(object) = object(bytes) else { return };
    let Ok(table) = RegionTable::of(&object) else { return };
    let map = RegionMap::of(&object, &table);
    addresses(&object).into_iter().for_each(|at| _ = (map.at(at).is_some(), map.before_return(at).is_some()));
    table.listing(Path::new("/nowhere"), &|_| true);
}

/// Unwind tables for the kernel's programs.
#[cfg(feature = "recorder")]
pub fn unwind(bytes: &[u8]) {
    if let Some((file, _)) = file_of(bytes) {
        transect_bpf_collect::unwind_table::fuzz(&file);
    }
}

/// Static libraries.
pub fn archive(bytes: &[u8]) {
    if let Some((_file, path)) = file_of(bytes) {
        let _ = archive_members(&path);
    }
}

/// Plans as the cache keeps them, also with version and sum made right: as the recorder reads them, and as the agent does.
pub fn linkage_plan(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    for _ in 0..2 {
        let plan = Plan::from_bytes(&bytes);
        if let Ok(plan) = &plan {
            assert_eq!(plan.to_bytes(), bytes);
        }
        if let Some((_file, path)) = file_of(&bytes) {
            let found = transect_intercept::plan::fuzz(path.as_os_str().as_encoded_bytes());
            plan.iter().for_each(|plan| assert_eq!(found, Some((plan.relocs.len(), plan.sites.len()))));
        }
        let Some((head, records)) = bytes.split_at_mut_checked(size_of::<PlanHeader>()) else { return };
        head[8..12].copy_from_slice(&PLAN_VERSION.to_le_bytes());
        let count = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let start = PlanSum::of_counts(count(12), count(16));
        let sum = records.as_chunks().0.iter().fold(start, |sum, word| sum.with(u64::from_le_bytes(*word)));
        head[std::mem::offset_of!(PlanHeader, sum)..].copy_from_slice(&sum.value().to_le_bytes());
    }
}

/// Static plans as the agent reads them.
pub fn static_plan(bytes: &[u8]) -> bool {
    let Some((_file, path)) = file_of(bytes) else { return false };
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
    transect_intercept::fuzz_static_plan(path.as_bytes_with_nul())
}

/// Unwind rows as the cache keeps them.
#[cfg(feature = "recorder")]
pub fn row_cache(bytes: &[u8]) {
    transect_bpf_collect::unwind_table::fuzz_row_cache(bytes, 0x1000..0x10_0000);
}

#[derive(serde::Deserialize)]
struct InfluenceDocument {
    influence: Influence,
}

/// Results of `transect influence`: shown, and compared with another one's.
pub fn influence(bytes: &[u8]) {
    let read = |bytes: &[u8]| serde_json::from_slice::<InfluenceDocument>(bytes).map(|document| document.influence);
    let Ok(new) = read(bytes) else { return };
    let old = read(include_bytes!("../corpus/influence/result.json")).unwrap();
    let both = [(&old, &new), (&new, &old), (&new, &new)];
    both.into_iter().for_each(|(old, new)| _ = comparison_text(&transect_influence::compare(old, new)));
    (text(&new), csv(&new), page(&new));
}

/// Feature models in both formats.
pub fn feature_model(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for format in [Format::Xml, Format::Toml] {
        let _ = transect_feature_model::parse(&text, format, "fuzz");
    }
}

/// Maps of functions: a just-in-time compiler's, a linker's.
#[cfg(feature = "recorder")]
pub fn maps(bytes: &[u8]) {
    transect_record::fuzzing::perf_map(bytes);
    transect_record::fuzzing::link_map(&String::from_utf8_lossy(bytes));
}

/// The memory that programs share with the recorder.
#[cfg(feature = "recorder")]
pub fn arena(bytes: &[u8]) {
    transect_record::fuzzing::arena(bytes);
}

#[cfg(feature = "recorder")]
pub use folder::{profile, profile_values};
#[cfg(feature = "recorder")]
// The module of the config file looks for these two at the root.
use settings::{arguments, failure};
#[cfg(feature = "recorder")]
pub use settings::{config, static_components, wait_apis};
#[cfg(feature = "recorder")]
pub use shared_memory::{probes, rings};
