//! A write that fails is an error of every format, never a short file that passes for a whole one.

use std::io;

use crate::sample_profile;
use transect_profile_export::{ExportError, Format, export};

/// Takes `left` bytes, then is full.
struct Full {
    left: usize,
}

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_format_reports_it() {
    for format in Format::ALL {
        for left in [0, 10, 100] {
            let result = export(&sample_profile::profile(), format, &mut Full { left });
            match result {
                Err(ExportError::Write(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{format}"),
                other => panic!("{format} with room for {left}: {other:?}"),
            }
        }
    }
}
