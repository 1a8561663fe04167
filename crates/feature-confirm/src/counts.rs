//! What a program has noted of its decisions (`compiler-plugin/confirm/runtime.c`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::ConfirmError;

/// Labels that one run follows.
pub const LABELS: usize = 8;

const MAGIC: &[u8] = b"TRCOUNT1";
const HEADER: usize = 8192;
const PROGRAM: usize = 32;
const DECISION: usize = 16;

/// The counts of all processes of one program that followed the same labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Of the build ([`transect_feature_region::DecisionTable::identity`]).
    pub identity: u64,
    /// Which labels: `group * LABELS ..`.
    pub group: usize,
    /// The program.
    pub program: PathBuf,
    /// Executions of each decision, and the labels (a bit each) that its condition has carried.
    pub decisions: Vec<(u64, u8)>,
}

impl Counts {
    /// Reads all files of a folder; those of programs that were killed before they wrote their first word are left out.
    ///
    /// # Errors
    /// [`ConfirmError::Read`], [`ConfirmError::Malformed`].
    pub fn of_folder(folder: &Path) -> Result<Vec<Self>, ConfirmError> {
        let unreadable = |source| ConfirmError::Read { path: folder.to_owned(), source };
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension() != Some(OsStr::new("counts")) {
                continue;
            }
            let bytes = std::fs::read(&path).map_err(|source| ConfirmError::Read { path: path.clone(), source })?;
            if bytes.iter().take(MAGIC.len()).all(|&byte| byte == 0) {
                continue;
            }
            let counts = Self::parse(&bytes).ok_or_else(|| ConfirmError::Malformed {
                path,
                what: "these are no counts of a program of this version".to_owned(),
            })?;
            all.push(counts);
        }
        all.sort_by(|a, b| (&a.program, a.identity, a.group).cmp(&(&b.program, b.identity, b.group)));
        Ok(all)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 8)?.first_chunk().map(|word| u64::from_le_bytes(*word));
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let program = bytes.get(PROGRAM..HEADER)?.split(|&byte| byte == 0).next()?;
        let records = bytes.get(HEADER..)?.chunks_exact(DECISION);
        let decisions: Vec<(u64, u8)> = records
            .map(|record| (record.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)), record[8]))
            .collect();
        (word(16)? == decisions.len() as u64).then_some(())?;
        Some(Self {
            identity: word(8)?,
            group: usize::try_from(word(24)?).ok()?,
            program: OsStr::from_bytes(program).into(),
            decisions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the runtime writes it.
    fn written(decisions: &[(u64, u8)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for word in [7, decisions.len() as u64, 1] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"/bin/x\0");
        bytes.resize(HEADER, 0);
        for (executions, labels) in decisions {
            bytes.extend(executions.to_le_bytes());
            bytes.extend([*labels, 0, 0, 0, 0, 0, 0, 0]);
        }
        bytes
    }

    #[test]
    fn files_of_a_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("7-1.counts"), written(&[(3, 5), (0, 0)])).unwrap();
        std::fs::write(folder.path().join("8-0.counts"), [0; HEADER]).unwrap();
        std::fs::write(folder.path().join("other"), "x").unwrap();
        let all = Counts::of_folder(folder.path()).unwrap();
        let expected = Counts { identity: 7, group: 1, program: "/bin/x".into(), decisions: vec![(3, 5), (0, 0)] };
        assert_eq!(all, [expected]);
    }

    #[test]
    fn a_file_that_is_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(&[(3, 5), (0, 0)]);
        std::fs::write(folder.path().join("a.counts"), &whole[..whole.len() - DECISION]).unwrap();
        assert!(matches!(Counts::of_folder(folder.path()), Err(ConfirmError::Malformed { .. })));
        assert_eq!(Counts::parse(&whole[..20]), None);
    }
}
