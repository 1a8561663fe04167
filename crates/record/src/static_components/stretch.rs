//! Which function, of which component, an instruction of an object is in.

use std::collections::BTreeMap;

use transect_binary_info::{FunctionSymbol, Object};

use super::plan::Membership;

/// A function's code and its component.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// Its first byte.
    pub start: u64,
    /// Behind its last byte.
    pub end: u64,
    /// Id of its component; 0 = the rest of the object.
    pub component: u8,
}

/// The stretches of code that function symbols describe, sorted, not overlapping; a member's wins.
pub fn stretches(object: &Object, symbols: &[FunctionSymbol], members: &Membership) -> Vec<Stretch> {
    let mut starts: BTreeMap<u64, u64> = BTreeMap::new();
    for s in symbols {
        let size = starts.entry(s.vaddr).or_default();
        *size = (*size).max(s.size);
    }
    let end = object.text_range().end;
    let following: Vec<u64> = starts.keys().copied().skip(1).chain([end]).collect();
    starts
        .into_iter()
        .zip(following)
        .map(|((start, size), next)| Stretch {
            start,
            end: if size == 0 { next } else { (start + size).min(next) },
            component: members.get(&start).copied().unwrap_or(0),
        })
        .collect()
}

/// The stretch that holds an address.
pub fn stretch_at(stretches: &[Stretch], address: u64) -> Option<&Stretch> {
    let index = stretches.partition_point(|s| s.start <= address).checked_sub(1)?;
    Some(&stretches[index]).filter(|s| address < s.end)
}

/// Id of the component that holds an address; 0 = none.
pub fn component_at(stretches: &[Stretch], address: u64) -> u8 {
    stretch_at(stretches, address).map_or(0, |s| s.component)
}
