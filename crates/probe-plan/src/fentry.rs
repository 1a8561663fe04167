use transect_binary_info::Object;

use crate::{FunctionTable, Proposal, Provider, ProviderKind};

/// Not yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fentry;

impl Provider for Fentry {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Fentry
    }

    fn sites(&self, _object: &Object, _functions: &mut FunctionTable) -> Proposal {
        Proposal::default()
    }
}
