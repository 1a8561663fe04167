use transect_profile_model::{Dependence, FeatureRegion, Profile, RegionKind, RegionMethod};

use super::super::{boolean, component, file_name, id, int64, optional_int64, own_id, text};
use super::set;
use crate::StoreError;
use crate::column::{Column, TableReader, Values};

/// In place of a method.
const NOT_OBSERVED: &str = "";

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.feature.regions.as_slice();
    let sets = rows.iter().map(|r| set(profile, &r.features_at(Dependence::default()).collect::<Vec<_>>())).collect();
    vec![
        own_id(rows),
        id("component_id", rows, |r| r.component),
        text("component", rows, |r| file_name(&component(profile, r.component).path)),
        int64("number", rows, |r| r.number),
        Column { name: "features", values: Values::OwnedText(sets) },
        text("kind", rows, |r| r.kind.as_str()),
        text("function", rows, |r| &r.function),
        text("file", rows, |r| &r.file),
        int64("line", rows, |r| r.line),
        int64("end_line", rows, |r| r.end_line),
        optional_int64("parent_id", rows, |r| r.parent.map(i64::from)),
        int64("sites", rows, |r| r.sites),
        boolean("irregular", rows, |r| r.irregular.is_some()),
        text("irregular_reason", rows, |r| r.irregular.as_deref().unwrap_or_default()),
        text("method", rows, |r| r.method.map_or(NOT_OBSERVED, RegionMethod::as_str)),
    ]
}

fn parse_method(word: &str) -> Option<Option<RegionMethod>> {
    if word == NOT_OBSERVED { Some(None) } else { RegionMethod::parse(word).map(Some) }
}

/// The regions, without features.
pub(crate) fn read(table: &TableReader, components: usize) -> Result<Vec<FeatureRegion>, StoreError> {
    let mut component = table.ids("component_id", components)?.into_iter();
    let mut number = table.int64("number")?.into_iter();
    let mut kind = table.words("kind", RegionKind::parse)?.into_iter();
    let mut function = table.text("function")?.into_iter();
    let mut file = table.text("file")?.into_iter();
    let mut line = table.int64("line")?.into_iter();
    let mut end_line = table.int64("end_line")?.into_iter();
    let mut parent = table.optional_ids("parent_id", table.rows())?.into_iter();
    let mut sites = table.int64("sites")?.into_iter();
    let mut irregular = table.boolean("irregular")?.into_iter();
    let mut method = table.words("method", parse_method)?.into_iter();
    let mut reason = table.text("irregular_reason")?.into_iter();
    Ok(std::iter::from_fn(|| {
        let reason = reason.next()?;
        Some(FeatureRegion {
            component: component.next()?,
            number: number.next()?,
            features: Vec::new(),
            dependences: Vec::new(),
            verdicts: Vec::new(),
            kind: kind.next()?,
            function: function.next()?,
            file: file.next()?,
            line: line.next()?,
            end_line: end_line.next()?,
            parent: parent.next()?,
            sites: sites.next()?,
            irregular: irregular.next()?.then_some(reason),
            method: method.next()?,
        })
    })
    .collect())
}
