//! What an earlier recording found among the kernel's types, in a file of the user's cache.
//!
//! The file's name is a sum of what it was found for: the kernel's build, as `/sys/kernel/notes` names it, and the object that
//! names types. So it is never out of date. It holds a mark, the types' numbers by name, the structures, and a sum of these.
use std::collections::HashMap;
use std::fs;
use std::hash::Hasher;
use std::path::PathBuf;

use transect_binary_info::CacheFolder;
use twox_hash::XxHash64;

/// Changes with what is kept or how it is found.
const MARK: u64 = u64::from_le_bytes(*b"TRTYPE01");
/// Names the kernel's build.
const NOTES: &str = "/sys/kernel/notes";
const WORD: usize = 8;
/// Files of other builds and objects that may stay.
const MOST_FILES: usize = 8;

/// Numbers of types by name, and the structures as type information of their own.
pub(crate) type Found = (HashMap<Box<[u8]>, u32>, Vec<u8>);

/// Where it is kept for one kernel and object.
#[derive(Debug)]
pub(crate) struct TypeCache {
    folder: CacheFolder,
    file: PathBuf,
}

impl TypeCache {
    /// None if the user has no cache, or the kernel does not name its build.
    pub fn of_user(object: &[u8]) -> Option<Self> {
        let notes = fs::read(NOTES).ok().filter(|notes| !notes.is_empty())?;
        Self::new(CacheFolder::of_user("kernel-types").ok()?, &notes, object)
    }

    fn new(folder: CacheFolder, notes: &[u8], object: &[u8]) -> Option<Self> {
        let mut sum = XxHash64::with_seed(MARK);
        sum.write_u64(notes.len() as u64);
        sum.write(notes);
        sum.write(object);
        let file = folder.path().join(format!("{:016x}.types", sum.finish()));
        Some(Self { folder, file })
    }

    /// What was found.
    pub fn read(&self) -> Option<Found> {
        decode(&CacheFolder::read(&self.file).ok()?)
    }

    /// Keeps it; without it, it is looked for again.
    pub fn write(&self, numbers: &HashMap<Box<[u8]>, u32>, structures: &[u8]) {
        let files = fs::read_dir(self.folder.path()).into_iter().flatten().flatten().map(|file| file.path());
        files.skip(MOST_FILES).for_each(|file| drop(fs::remove_file(file)));
        let _ = self.folder.write(&self.file, &encode(numbers, structures));
    }
}

fn encode(numbers: &HashMap<Box<[u8]>, u32>, structures: &[u8]) -> Vec<u8> {
    let mut bytes = MARK.to_le_bytes().to_vec();
    bytes.extend((numbers.len() as u32).to_le_bytes());
    for (name, number) in numbers {
        bytes.extend(number.to_le_bytes());
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(&**name);
    }
    bytes.extend(structures);
    bytes.extend(XxHash64::oneshot(0, &bytes).to_le_bytes());
    bytes
}

/// None if these are not the bytes of [`encode`].
fn decode(bytes: &[u8]) -> Option<Found> {
    let (content, sum) = bytes.split_last_chunk::<WORD>()?;
    if u64::from_le_bytes(*sum) != XxHash64::oneshot(0, content) {
        return None;
    }
    let (mark, mut rest) = content.split_first_chunk::<WORD>()?;
    if u64::from_le_bytes(*mark) != MARK {
        return None;
    }
    let count = take_word(&mut rest)?;
    let mut numbers = HashMap::new();
    for _ in 0..count {
        let (number, length) = (take_word(&mut rest)?, take_word(&mut rest)?);
        let (name, behind) = rest.split_at_checked(length as usize)?;
        numbers.insert(name.into(), number);
        rest = behind;
    }
    Some((numbers, rest.to_vec()))
}

fn take_word(rest: &mut &[u8]) -> Option<u32> {
    let (word, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_of_one_kernel_and_object_and_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |notes: &[u8], object: &[u8]| {
            TypeCache::new(CacheFolder::make(folder.path().to_owned()).unwrap(), notes, object).unwrap()
        };
        let own = cache(b"kernel", b"object");
        assert!(own.read().is_none());
        let numbers: HashMap<Box<[u8]>, u32> =
            [(b"btf_trace_sched_switch".as_slice().into(), 7), (b"bpf_iter_task".as_slice().into(), 1 << 20)].into();
        own.write(&numbers, b"structures");
        assert_eq!(own.read(), Some((numbers, b"structures".to_vec())));
        for (notes, object) in
            [(b"kernel".as_slice(), b"another".as_slice()), (b"another", b"object"), (b"kernelo", b"bject")]
        {
            assert!(cache(notes, object).read().is_none());
        }
        let bytes = fs::read(&own.file).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none(), "the first {at} bytes");
        }
    }
}
