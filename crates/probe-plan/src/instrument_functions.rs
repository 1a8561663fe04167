use transect_binary_info::Object;

use crate::{FunctionTable, Proposal, Provider, ProviderKind};

/// Not yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstrumentFunctions;

impl Provider for InstrumentFunctions {
    fn kind(&self) -> ProviderKind {
        ProviderKind::InstrumentFunctions
    }

    fn sites(&self, _object: &Object, _functions: &mut FunctionTable) -> Proposal {
        Proposal::default()
    }
}
