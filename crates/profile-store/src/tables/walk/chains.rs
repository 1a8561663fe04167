use transect_profile_model::{Profile, WalkChain, WalkEnd};

use super::super::{double, id, int32, own_id, text};
use super::{function, group, pid};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.walk.chains.as_slice();
    vec![
        own_id(rows),
        id("group_id", rows, |c| c.group),
        int32("pid", rows, |c| pid(profile, c.group)),
        text("thread_group", rows, |c| &group(profile, c.group).thread_group),
        text("function", rows, |c| c.frames.last().map_or("", |frame| function(profile, frame.node))),
        double("share", rows, |c| c.share),
        text("ends", rows, |c| c.ends.as_str()),
        text("waiting_for", rows, |c| &c.waiting_for),
        text("woken_by", rows, |c| &c.woken_by),
    ]
}

/// The chains, without frames.
pub(crate) fn read(table: &TableReader, groups: usize) -> Result<Vec<WalkChain>, StoreError> {
    let mut group = table.ids("group_id", groups)?.into_iter();
    let mut share = table.double("share")?.into_iter();
    let mut ends = table.words("ends", WalkEnd::parse)?.into_iter();
    let mut waiting_for = table.text("waiting_for")?.into_iter();
    let mut woken_by = table.text("woken_by")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(WalkChain {
            group: group.next()?,
            share: share.next()?,
            ends: ends.next()?,
            waiting_for: waiting_for.next()?,
            woken_by: woken_by.next()?,
            frames: Vec::new(),
        })
    })
    .collect())
}
