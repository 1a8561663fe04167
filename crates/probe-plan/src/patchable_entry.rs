use transect_binary_info::Object;

use crate::{FunctionTable, Proposal, Provider, ProviderKind};

/// Not yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatchableEntry;

impl Provider for PatchableEntry {
    fn kind(&self) -> ProviderKind {
        ProviderKind::PatchableEntry
    }

    fn sites(&self, _object: &Object, _functions: &mut FunctionTable) -> Proposal {
        Proposal::default()
    }
}
