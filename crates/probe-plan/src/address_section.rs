//! Sections that list addresses (`__patchable_function_entries`, `__mcount_loc`).

use std::collections::HashMap;

use transect_binary_info::Object;

/// The addresses in the sections called `name`: relocated where the loader would do so, in order.
pub(crate) fn addresses(object: &Object, name: &str) -> Vec<u64> {
    let sections = object.section_list();
    let listing: Vec<_> = sections.iter().filter(|s| s.loaded && s.name == name).collect();
    if listing.is_empty() {
        return Vec::new();
    }
    let relocated: HashMap<u64, u64> = object
        .relative_relocations()
        .into_iter()
        .filter(|r| listing.iter().any(|s| (s.vaddr..s.vaddr + s.size).contains(&r.vaddr)))
        .map(|r| (r.vaddr, r.target))
        .collect();
    let mut found = Vec::new();
    for section in listing {
        for (index, raw) in section.data.chunks_exact(8).enumerate() {
            let at = section.vaddr + index as u64 * 8;
            let word = u64::from_le_bytes(raw.try_into().unwrap_or_default());
            found.push(relocated.get(&at).copied().unwrap_or(word));
        }
    }
    found.retain(|&address| address != 0);
    found
}
