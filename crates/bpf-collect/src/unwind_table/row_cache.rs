//! Unwind rows that were worked out by an earlier recording, in files of the user's cache.
//!
//! A file's name is a sum of all that its rows come from, so it is never out of date. It holds a mark, the number of rows, address
//! and rule of each, and a sum of these.
use std::fs;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Once;
use std::time::SystemTime;

use transect_binary_info::CacheFolder;
use twox_hash::XxHash64;

use super::object_rows::{FrameSections, Row, read_rows};
use super::rule::Rule;

/// Changes with what rows mean or how they are worked out.
const MARK: u64 = u64::from_le_bytes(*b"TRROWS02");
/// Sections of fewer bytes are worked out as soon as a file is read.
const LEAST_BYTES: usize = 16 << 10;
/// Once a process, the oldest files are removed until those that stay have no more bytes than this.
const MOST_BYTES: u64 = 256 << 20;
const WORD: usize = 8;

/// Where rows are kept; nowhere if the user has no cache.
#[derive(Debug)]
pub(crate) struct RowCache(Option<CacheFolder>);

impl RowCache {
    pub fn of_user() -> Self {
        Self(CacheFolder::of_user("unwind").ok())
    }

    /// The rows of an object with these sections.
    pub fn rows(&self, sections: &FrameSections) -> Vec<Row> {
        let bytes = sections.eh_frame.len() + sections.debug_frame.len() + sections.go_table.len();
        let Some(folder) = self.0.as_ref().filter(|_| bytes >= LEAST_BYTES) else { return read_rows(sections) };
        let file = folder.path().join(format!("{:016x}-{bytes:x}.rows", sum_of(sections)));
        if let Some(rows) = CacheFolder::read(&file).ok().and_then(|bytes| decode(&bytes, sections)) {
            return rows;
        }
        static CLEARED: Once = Once::new();
        CLEARED.call_once(|| clear(folder.path(), MOST_BYTES));
        let rows = read_rows(sections);
        // Without it they are worked out again.
        let _ = folder.write(&file, &encode(&rows));
        rows
    }
}

fn sum_of(sections: &FrameSections) -> u64 {
    let FrameSections {
        eh_frame,
        eh_frame_address,
        text_address,
        got_address,
        debug_frame,
        go_table,
        go_text,
        code,
        stubs,
    } = sections;
    let mut sum = XxHash64::with_seed(MARK);
    let numbers =
        [*eh_frame_address, *text_address, *got_address, code.start, code.end, *go_text, eh_frame.len() as u64];
    numbers
        .into_iter()
        .chain(stubs.iter().flat_map(|stub| [stub.start, stub.end]))
        .for_each(|number| sum.write_u64(number));
    sum.write(eh_frame);
    sum.write(debug_frame);
    sum.write(go_table);
    sum.finish()
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let words = rows.iter().flat_map(|row| [row.address, row.rule.0]);
    let mut bytes: Vec<u8> = [MARK, rows.len() as u64].into_iter().chain(words).flat_map(u64::to_le_bytes).collect();
    bytes.extend(sum(&bytes).to_le_bytes());
    bytes
}

/// None if these are not the bytes of [`encode`], or rows that no object with these sections can have.
fn decode(bytes: &[u8], sections: &FrameSections) -> Option<Vec<Row>> {
    let (content, found) = bytes.split_last_chunk::<WORD>()?;
    if u64::from_le_bytes(*found) != sum(content) {
        return None;
    }
    let (words, []) = content.as_chunks::<WORD>() else { return None };
    let [mark, count, words @ ..] = words else { return None };
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    if u64::from_le_bytes(*mark) != MARK || u64::from_le_bytes(*count) != pairs.len() as u64 {
        return None;
    }
    let row = |[address, rule]: &[[u8; WORD]; 2]| Row {
        address: u64::from_le_bytes(*address),
        rule: Rule(u64::from_le_bytes(*rule)),
    };
    let rows: Vec<Row> = pairs.iter().map(row).collect();
    let within = sections.code.start..=sections.code.end;
    // The first tells of all that is before the first function.
    let sound =
        rows.is_sorted_by_key(|row| row.address) && rows.iter().skip(1).all(|row| within.contains(&row.address));
    sound.then_some(rows)
}

fn sum(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// Reads any file of the cache, then the same bytes with the sum made right; `code`: addresses of the object's code.
#[cfg(feature = "fuzzing")]
pub fn fuzz(bytes: &[u8], code: std::ops::Range<u64>) {
    let sections = FrameSections { code, ..FrameSections::default() };
    let _ = decode(bytes, &sections);
    let content = bytes.split_last_chunk::<WORD>().map_or(bytes, |(content, _)| content);
    let summed = [content, &sum(content).to_le_bytes()].concat();
    if let Some(rows) = decode(&summed, &sections) {
        assert_eq!(encode(&rows), summed);
    }
}

/// Removes the oldest files until the others have `most` bytes.
fn clear(folder: &Path, most: u64) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = files
        .filter_map(|file| {
            let metadata = file.metadata().ok()?;
            Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), file.path()))
        })
        .collect();
    files.sort();
    let mut bytes: u64 = files.iter().map(|file| file.1).sum();
    for (_, size, path) in files {
        if bytes <= most {
            break;
        }
        bytes -= size;
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind_table::object_image::ObjectImage;

    #[test]
    fn rows_are_kept_and_damaged_ones_worked_out_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = RowCache(Some(CacheFolder::make(folder.path().to_owned()).unwrap()));
        let program = fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let sections = ObjectImage::of_file(&program).unwrap().sections;
        let rows = read_rows(&sections);
        assert!(cache.rows(&sections) == rows);
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let kept = fs::read(&file).unwrap();
        assert!(decode(&kept, &sections).is_some_and(|found| found == rows));
        assert!(cache.rows(&sections) == rows);
        for damaged in [&kept[..kept.len() - 1], &kept[..WORD], &[], &[kept.as_slice(), &[0; 16]].concat()] {
            assert!(decode(damaged, &sections).is_none());
            fs::write(&file, damaged).unwrap();
            assert!(cache.rows(&sections) == rows);
        }
        let mut elsewhere = sections.clone();
        elsewhere.code.end = elsewhere.code.start;
        assert!(decode(&kept, &elsewhere).is_none(), "rows outside of the code");
        clear(folder.path(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
