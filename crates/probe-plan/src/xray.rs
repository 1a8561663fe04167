use transect_binary_info::Object;

use crate::{FunctionTable, Proposal, Provider, ProviderKind};

/// Not yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Xray;

impl Provider for Xray {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Xray
    }

    fn sites(&self, _object: &Object, _functions: &mut FunctionTable) -> Proposal {
        Proposal::default()
    }
}
