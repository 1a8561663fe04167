//! Profiles of others: a sound folder, of which some is replaced, and the sums are made right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parquet::file::reader::{FileReader, SerializedFileReader};
use twox_hash::XxHash64;

/// A profile with rows in all tables, whose values are neither compressed nor in dictionaries.
fn good() -> &'static BTreeMap<String, Vec<u8>> {
    static GOOD: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let files = std::fs::read_dir(folder()).into_iter().flatten().flatten();
        let named = files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()));
        named.collect()
    })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/profile-folder")
}

/// `meta.json`, or one table.
pub fn profile(bytes: &[u8]) {
    let Some((&which, rest)) = bytes.split_first() else { return };
    let name = good().keys().nth(usize::from(which) % good().len()).unwrap();
    read(BTreeMap::from([(name.clone(), rest.to_vec())]), XxHash64::oneshot(0, bytes));
}

/// Values of any tables, by pieces: which file, how many bytes, where, and what.
pub fn profile_values(mut bytes: &[u8]) {
    let which = XxHash64::oneshot(0, bytes);
    let mut changed: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
        let (name, content) = good().iter().nth(usize::from(head[0]) % good().len()).unwrap();
        let content = changed.entry(name.clone()).or_insert_with(|| content.clone());
        let place = usize::from(u16::from_le_bytes([head[2], head[3]])) % content.len();
        let length = usize::from(head[1] % 17).min(rest.len()).min(content.len() - place);
        content[place..place + length].copy_from_slice(&rest[..length]);
        bytes = &rest[length..];
    }
    read(changed, which);
}

/// `which`: what is shown of it.
fn read(mut changed: BTreeMap<String, Vec<u8>>, which: u64) {
    if let Some(content) = changed.get_mut("meta.json") {
        // What it says, not its checksum, is to be looked at.
        if let Ok(value) = serde_json::from_slice(content) {
            *content = transect_profile_store::sealed_meta(value);
        }
    } else {
        let mut meta: serde_json::Value = serde_json::from_slice(&good()["meta.json"]).unwrap();
        for (name, content) in &changed {
            let entry = &mut meta["tables"][name.trim_end_matches(".parquet")];
            entry["bytes"] = content.len().into();
            entry["xxh64"] = format!("{:016x}", XxHash64::oneshot(0, content)).into();
            if let Ok(file) = SerializedFileReader::new(bytes::Bytes::from(content.clone())) {
                entry["rows"] = file.metadata().file_metadata().num_rows().max(0).into();
            }
        }
        changed.insert("meta.json".to_owned(), transect_profile_store::sealed_meta(meta));
    }
    let Ok(made) = tempfile::tempdir_in("/dev/shm") else { return };
    for name in good().keys() {
        let to = made.path().join(name);
        let done = match changed.get(name) {
            Some(content) => std::fs::write(to, content),
            None => std::fs::hard_link(folder().join(name), &to).or_else(|_| std::fs::write(to, &good()[name])),
        };
        if done.is_err() {
            return;
        }
    }
    if let Ok(profile) = transect_profile_store::read(made.path()) {
        crate::views::show(&profile, which);
    }
    let _ = transect_profile_store::for_each_slices(made.path(), &mut |_| {});
}
