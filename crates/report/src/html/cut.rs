//! What the page makes cuts from: parts of threads' lives as packed columns.

use serde::Serialize;
use transect_analyze::{CutColumns, CutList, CutMeasure, CutPart, CutParts, MOST_CUT_PARTS, cut_columns};
use transect_profile_model::Profile;

use crate::pack::{pack, put_number, put_signed};

/// Bytes of the packed parts at most: larger pages take long to open.
const MOST_BYTES: usize = 30 << 20;
/// Sums above this are not whole numbers in every browser.
const MOST_SUM: i64 = 1 << 53;

/// Parts of threads' lives for the page, packed.
///
/// Blobs are base64 of raw deflate: `details` is JSON, see `Details`; `columns` are LEB128 numbers, list after list and in each
/// column after column: row of the thread, state, rows of place, wait and features, time since the end of the part before, length
/// in time, weight less length, weight of one of its samples (by 16; 0: exact). Threads are differences to the part before; these,
/// the time since and the weight are signed (zigzag).
#[derive(Debug, Clone, Serialize)]
pub struct PackedCut {
    /// Why there are no parts, in words; empty if there are.
    pub left_out: String,
    /// The lists in `columns`.
    pub lists: Vec<PackedCutList>,
    /// Whether it is known when threads were active.
    pub when: bool,
    /// See above.
    pub details: String,
    /// See above.
    pub columns: String,
}

/// One list of parts.
#[derive(Debug, Clone, Serialize)]
pub struct PackedCutList {
    /// What is summed up.
    pub measure: CutMeasure,
    /// Divided by active features.
    pub by_feature: bool,
    /// Parts.
    pub parts: usize,
    /// Some of it spins: a wait of which only samples know.
    pub spins: bool,
}

/// Names and facts that parts name by their rows; see `CutColumns`.
#[derive(Serialize)]
struct Details<'a> {
    names: &'a [String],
    host: u32,
    run: u32,
    threads: &'a [[u32; 4]],
    places: &'a [[u32; 8]],
    /// Caller plus one, function, 1 of the kernel.
    frames: Vec<[u32; 3]>,
    waits: &'a [[u32; 4]],
    features: &'a [Vec<u32>],
}

/// The parts of a profile; `None` without samples and waits.
pub(super) fn packed_cut(profile: &Profile) -> Option<PackedCut> {
    match cut_columns(profile) {
        Ok(None) => None,
        Ok(Some(columns)) if is_too_long(&columns) => {
            Some(left_out("the threads lived longer than numbers in browsers reach"))
        }
        Ok(Some(columns)) => Some(packed(&columns)),
        Err(parts) => Some(left_out(&format!(
            "the recording has at least {parts} parts of threads' lives, a page holds {MOST_CUT_PARTS}"
        ))),
    }
}

fn left_out(why: &str) -> PackedCut {
    PackedCut {
        left_out: why.to_owned(),
        lists: Vec::new(),
        when: false,
        details: String::new(),
        columns: String::new(),
    }
}

/// Each list: whether it is divided by features, its measure, its parts.
fn lists(columns: &CutColumns) -> Vec<(bool, CutMeasure, &CutList)> {
    let both = [(false, Some(&columns.parts)), (true, columns.by_feature.as_ref())];
    let mut lists = Vec::new();
    for (by_feature, parts) in both {
        lists.extend(parts.into_iter().flat_map(CutParts::all).map(|(measure, list)| (by_feature, measure, list)));
    }
    lists
}

fn is_too_long(columns: &CutColumns) -> bool {
    let sum = |parts: &[CutPart]| parts.iter().fold(0_i64, |sum, part| sum.saturating_add(part.weight));
    lists(columns).into_iter().any(|(_, _, list)| sum(&list.parts) > MOST_SUM)
}

fn packed(columns: &CutColumns) -> PackedCut {
    let details = Details {
        names: &columns.names,
        host: columns.host,
        run: columns.run,
        threads: &columns.threads,
        places: &columns.places,
        frames: columns.frames.iter().map(|frame| [frame.parent, frame.function, u32::from(frame.kernel)]).collect(),
        waits: &columns.waits,
        features: &columns.features,
    };
    let mut bytes = Vec::new();
    let mut listed = Vec::new();
    for (by_feature, measure, list) in lists(columns) {
        put_parts(&mut bytes, &list.parts);
        listed.push(PackedCutList { measure, by_feature, parts: list.parts.len(), spins: list.spins });
    }
    // Plain data with text keys always serializes.
    let details = serde_json::to_vec(&details).unwrap_or_default();
    let when = columns.when;
    let (details, columns) = (pack(&details), pack(&bytes));
    let size = details.len() + columns.len();
    if size > MOST_BYTES {
        return left_out(&format!("the parts of threads' lives take {} MiB", size >> 20));
    }
    PackedCut { left_out: String::new(), lists: listed, when, details, columns }
}

fn put_parts(bytes: &mut Vec<u8>, parts: &[CutPart]) {
    let mut before = 0;
    for part in parts {
        put_signed(bytes, i64::from(part.thread) - before);
        before = i64::from(part.thread);
    }
    let columns: [fn(&CutPart) -> u32; 4] =
        [|part| u32::from(part.state), |part| part.place, |part| part.wait, |part| part.features];
    for column in columns {
        parts.iter().for_each(|part| put_number(bytes, u64::from(column(part))));
    }
    let mut ended = 0;
    for part in parts {
        put_signed(bytes, part.begin_ns - ended);
        ended = part.end_ns;
    }
    parts.iter().for_each(|part| put_number(bytes, (part.end_ns - part.begin_ns).max(0) as u64));
    parts.iter().for_each(|part| put_signed(bytes, part.weight - (part.end_ns - part.begin_ns)));
    let fixed_point = |per_sample: f64| if per_sample > 0.0 { ((per_sample * 16.0).round() as u64).max(1) } else { 0 };
    parts.iter().for_each(|part| put_number(bytes, fixed_point(part.per_sample)));
}
