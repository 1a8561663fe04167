//! What a region is known by in every build of the same sources.

use std::collections::HashMap;

use transect_feature_region::Region;

use crate::ConfirmedRegion;

/// Folders differ between builds, so of the file only its name counts. Several regions of one place, as a macro makes them,
/// are told apart by their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RegionKey {
    function: String,
    file: String,
    line: u32,
    column: u32,
    kind: String,
    order: usize,
}

/// Gives keys to regions, in their order.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    seen: HashMap<RegionKey, usize>,
}

impl Keys {
    pub(crate) fn of_region(&mut self, region: &Region) -> RegionKey {
        self.key(&region.function, &region.file, region.line, region.column, region.kind.as_str())
    }

    pub(crate) fn of_confirmed(&mut self, region: &ConfirmedRegion) -> RegionKey {
        self.key(&region.function, &region.file, region.line, region.column, &region.kind)
    }

    fn key(&mut self, function: &str, file: &str, line: u32, column: u32, kind: &str) -> RegionKey {
        let file = file.rsplit('/').next().unwrap_or(file).to_owned();
        let mut key = RegionKey { function: function.to_owned(), file, line, column, kind: kind.to_owned(), order: 0 };
        let order = self.seen.entry(key.clone()).or_default();
        key.order = *order;
        *order += 1;
        key
    }
}
