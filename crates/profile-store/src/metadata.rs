//! `meta.json`: the mark that a folder is a profile, facts about the recording, losses, a check of each table, and one of itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use transect_profile_model::{LatencySampling, Loss, LossKind, Meta, SCHEMA_VERSION};
use twox_hash::XxHash64;

use crate::StoreError;

/// File name of the metadata.
pub const META_FILE: &str = "meta.json";
/// Value of the key `format`: tells our folder from anybody else's `meta.json`.
const FORMAT: &str = "transect-profile";

/// What `meta.json` holds.
#[derive(Serialize, Deserialize)]
pub(crate) struct MetaFile {
    format: String,
    #[serde(flatten)]
    pub meta: Meta,
    loss: Vec<LossEntry>,
    /// By table name, without `.parquet`.
    pub tables: BTreeMap<String, TableEntry>,
}

#[derive(Serialize, Deserialize)]
struct LossEntry {
    what: String,
    #[serde(rename = "where")]
    place: String,
    count: i64,
    reason: String,
}

/// Size and checksum of a table's file: a damaged file is refused before it reaches the Parquet decoder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableEntry {
    pub rows: u64,
    pub bytes: u64,
    /// XXH64 with seed 0, hexadecimal.
    pub xxh64: String,
}

impl TableEntry {
    /// What is wrong with `content`, if anything.
    pub(crate) fn mismatch(&self, content: &[u8]) -> Option<String> {
        if self.bytes != content.len() as u64 {
            return Some(format!("{} bytes instead of {}", content.len(), self.bytes));
        }
        self.sum_mismatch(&format!("{:016x}", XxHash64::oneshot(0, content)))
    }

    /// The same of a file that is not held in memory.
    pub(crate) fn mismatch_of(&self, mut file: &File) -> io::Result<Option<String>> {
        let mut hash = XxHash64::with_seed(0);
        let mut buffer = vec![0; 1 << 18];
        let mut bytes = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => {
                    hash.write(&buffer[..read]);
                    bytes += read as u64;
                }
            }
        }
        if self.bytes != bytes {
            return Ok(Some(format!("{bytes} bytes instead of {}", self.bytes)));
        }
        Ok(self.sum_mismatch(&format!("{:016x}", hash.finish())))
    }

    fn sum_mismatch(&self, sum: &str) -> Option<String> {
        (self.xxh64 != sum).then(|| "its checksum does not match meta.json".to_owned())
    }
}

impl MetaFile {
    pub(crate) fn new(meta: &Meta, loss: &[Loss], tables: BTreeMap<String, TableEntry>) -> Self {
        let mut meta = meta.clone();
        // JSON has no NaN: it would be written as null and make the profile unreadable.
        for number in [
            &mut meta.overhead_estimate,
            &mut meta.clock.ticks_per_ns,
            &mut meta.clock.timed_call_ns,
            &mut meta.clock.counted_call_ns,
        ] {
            if !number.is_finite() {
                *number = 0.0;
            }
        }
        if let Some(overhead) = &mut meta.overhead
            && !overhead.share.is_finite()
        {
            overhead.share = 0.0;
        }
        if let Some(latency) = &mut meta.latency {
            let rates = [&mut latency.toggles_per_second, &mut latency.samples_per_second];
            let others = [&mut latency.toggling_share, &mut latency.empty_ns, &mut latency.hidden_ns];
            for number in rates.into_iter().chain(others) {
                if !number.is_finite() {
                    *number = 0.0;
                }
            }
            if let LatencySampling::Budget { share } = &mut latency.sampling
                && !share.is_finite()
            {
                *share = 0.0;
            }
        }
        if let Some(walk) = &mut meta.walk
            && !walk.threshold.is_finite()
        {
            walk.threshold = 0.0;
        }
        if let Some(feature) = &mut meta.feature
            && !feature.event_ns.is_finite()
        {
            feature.event_ns = 0.0;
        }
        let entry = |loss: &Loss| LossEntry {
            what: loss.what.as_str().to_owned(),
            place: loss.place.clone(),
            count: loss.count,
            reason: loss.reason.clone(),
        };
        Self { format: FORMAT.to_owned(), meta, loss: loss.iter().map(entry).collect(), tables }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        Ok(sealed(serde_json::to_vec_pretty(self)?))
    }

    /// Parses the content of the file at `path` in profile `folder`: first the mark, then the schema version, then
    /// the rest, so that each failure is named for what it is.
    pub(crate) fn decode(folder: &Path, path: &Path, content: &[u8]) -> Result<Self, StoreError> {
        let value: serde_json::Value =
            serde_json::from_slice(content).map_err(|error| StoreError::corrupt(path, error.to_string()))?;
        if value.get("format").and_then(serde_json::Value::as_str) != Some(FORMAT) {
            let why = format!("meta.json lacks \"format\": \"{FORMAT}\"");
            return Err(StoreError::Foreign { path: folder.to_owned(), why });
        }
        let schema = value.get("schema").and_then(serde_json::Value::as_i64);
        let found = schema.ok_or_else(|| StoreError::corrupt(path, "no schema version"))?;
        if !(1..=i64::from(SCHEMA_VERSION)).contains(&found) {
            return Err(StoreError::UnknownSchema { path: folder.to_owned(), found, known: SCHEMA_VERSION });
        }
        if !is_sealed(content) {
            return Err(StoreError::corrupt(path, "its own checksum does not match"));
        }
        serde_json::from_value(value).map_err(|error| StoreError::corrupt(path, error.to_string()))
    }

    pub(crate) fn losses(&self, path: &Path) -> Result<Vec<Loss>, StoreError> {
        let parse = |entry: &LossEntry| {
            let what = LossKind::parse(&entry.what)
                .ok_or_else(|| StoreError::corrupt(path, format!("unknown kind of loss {:?}", entry.what)))?;
            Ok(Loss { what, place: entry.place.clone(), count: entry.count, reason: entry.reason.clone() })
        };
        self.loss.iter().map(parse).collect()
    }
}

/// The last lines of the file, behind all that they are the checksum of.
fn seal(before: &[u8]) -> String {
    format!(",\n  \"xxh64\": \"{:016x}\"\n}}\n", XxHash64::oneshot(0, before))
}

/// An object's text, as `serde_json` writes it on several lines, with the checksum as its last key.
fn sealed(mut object: Vec<u8>) -> Vec<u8> {
    object.truncate(object.len().saturating_sub("\n}".len()));
    let seal = seal(&object);
    object.extend(seal.as_bytes());
    object
}

/// The text of `meta.json` with other values, as this version would have written it: for tests of what is read.
#[doc(hidden)]
pub fn sealed_meta(mut value: serde_json::Value) -> Vec<u8> {
    value.as_object_mut().map(|object| object.remove("xxh64"));
    sealed(serde_json::to_vec_pretty(&value).unwrap_or_default())
}

fn is_sealed(content: &[u8]) -> bool {
    let before = content.len().checked_sub(seal(b"").len());
    before.is_some_and(|before| content[before..] == *seal(&content[..before]).as_bytes())
}

/// Names of the tables that a `meta.json` of any schema version lists; `None` if it is not a profile's.
pub(crate) fn listed_tables(content: &[u8]) -> Option<Vec<String>> {
    let value: serde_json::Value = serde_json::from_slice(content).ok()?;
    if value.get("format")?.as_str()? != FORMAT {
        return None;
    }
    let tables = value.get("tables").and_then(serde_json::Value::as_object);
    Some(tables.map(|tables| tables.keys().cloned().collect()).unwrap_or_default())
}
