//! What a provider of sites is.

use transect_binary_info::Object;

use crate::{FunctionTable, ProviderKind, Refused, Site};

/// Sites that a provider proposes, and places where it can't.
#[derive(Debug, Clone, Default)]
pub struct Proposal {
    /// Sites, in any order.
    pub sites: Vec<Site>,
    /// Places without.
    pub refused: Vec<Refused>,
}

/// One way to find sites in an object.
///
/// Providers decode what they occupy and no more; whether code elsewhere jumps into a proposed window is found out for
/// all of them at once, by [`crate::plan`].
pub trait Provider: Sync {
    /// Which one it is.
    fn kind(&self) -> ProviderKind;

    /// Proposes sites in the wanted functions of `object`. A provider of compiler-made entries tells the table, so
    /// that none displaces instructions there; one that finds code of no known function adds it.
    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal;
}
