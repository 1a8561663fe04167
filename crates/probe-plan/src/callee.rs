//! What a call leads to, by name: a function of the object, or one behind its linkage table.

use transect_binary_info::Object;

use crate::{FunctionTable, LinkageNames};

/// Callees of one object by name.
pub(crate) struct Callees<'a> {
    object: &'a Object,
    table: &'a FunctionTable,
    linkage: LinkageNames,
}

impl<'a> Callees<'a> {
    pub(crate) fn of(object: &'a Object, table: &'a FunctionTable) -> Self {
        Self { object, table, linkage: LinkageNames::of(object) }
    }

    /// True if code at `vaddr` is one of `names`, or the stub of one.
    pub(crate) fn is_one_of(&self, vaddr: u64, names: &[&str]) -> Option<usize> {
        let place = |name: &str| names.iter().position(|wanted| *wanted == name);
        if let Some(index) = self.table.at(vaddr) {
            let f = &self.table.functions()[index as usize];
            return std::iter::once(&f.symbol).chain(&f.aliases).find_map(|name| place(name));
        }
        self.linkage.of_stub(self.object, vaddr).and_then(place)
    }

    /// Which of `names` the slot at `vaddr` holds.
    pub(crate) fn slot_is_one_of(&self, vaddr: u64, names: &[&str]) -> Option<usize> {
        let name = self.linkage.of_slot(self.object, vaddr)?;
        names.iter().position(|wanted| *wanted == name)
    }

    /// True if the object defines or imports one of `names`.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        let imported = || self.linkage.slots().any(|slot| self.slot_is_one_of(slot, names).is_some());
        let defined = |f: &crate::Function| std::iter::once(&f.symbol).chain(&f.aliases).any(|n| names.contains(&&**n));
        imported() || self.table.functions().iter().any(defined)
    }
}
