use transect_binary_info::Object;

use crate::{FunctionTable, Proposal, Provider, ProviderKind};

/// Not yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usdt;

impl Provider for Usdt {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Usdt
    }

    fn sites(&self, _object: &Object, _functions: &mut FunctionTable) -> Proposal {
        Proposal::default()
    }
}
