use transect_profile_model::{Profile, RegionContext, RegionId};

use super::super::{id, int32, text};
use super::function;
use crate::StoreError;
use crate::column::{Column, TableReader, Values};

/// One region of a context; a context without regions has one row without a region.
struct Row {
    context: u32,
    depth: i32,
    region: Option<RegionId>,
}

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let mut rows = Vec::new();
    // As flows number them: 0 is the program as a whole.
    for (context, of) in (1_u32..).zip(&profile.feature.contexts) {
        if of.regions.is_empty() {
            rows.push(Row { context, depth: 0, region: None });
        }
        rows.extend((0..).zip(&of.regions).map(|(depth, &region)| Row { context, depth, region: Some(region) }));
    }
    let regions = rows.iter().map(|r| r.region.map(i64::from)).collect();
    vec![
        id("context", &rows, |r| r.context),
        int32("depth", &rows, |r| r.depth),
        Column { name: "region_id", values: Values::OptionalInt64(regions) },
        text("function", &rows, |r| function(profile, r.region)),
    ]
}

pub(crate) fn read(table: &TableReader, regions: usize) -> Result<Vec<RegionContext>, StoreError> {
    let numbers = table.ids("context", usize::MAX)?;
    let depths = table.int32("depth")?;
    let regions = table.optional_ids("region_id", regions)?;
    let mut contexts: Vec<RegionContext> = Vec::new();
    for (row, number) in numbers.into_iter().enumerate() {
        if number as usize == contexts.len() + 1 {
            contexts.push(RegionContext { regions: Vec::new() });
        }
        let last = contexts.len();
        let context = contexts.last_mut().filter(|_| number as usize == last);
        let in_order = |context: &&mut RegionContext| usize::try_from(depths[row]) == Ok(context.regions.len());
        let context = context.filter(in_order).ok_or_else(|| table.bad_row(row, "regions of contexts out of order"))?;
        context.regions.extend(regions[row]);
    }
    Ok(contexts)
}
