//! Tables by file, for processes whose mappings have not been read yet: the kernel's walk looks a mapped file up.
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::object_table::ObjectNumber;
use super::process_code::FileKey;

/// The map `unwind_files`.
#[derive(Debug)]
pub(crate) struct FileTables {
    files: MapHandle,
    /// What each entry stands for.
    entries: Vec<(FileKey, ObjectNumber)>,
}

impl FileTables {
    pub fn new(files: MapHandle) -> Self {
        Self { files, entries: Vec::new() }
    }

    /// The file `key` is the object `number`, whose table has an index, groups and an offset as `struct unwind_file` has
    /// them. When the map is full, or the system permits no change, processes have to be looked at as ever.
    pub fn tell(&mut self, key: &FileKey, number: ObjectNumber, (index, groups, offset): (u32, u32, u32)) {
        let value: Vec<u8> = [index, groups, offset, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        if self.files.update(&key.packed(), &value, MapFlags::ANY).is_ok() {
            self.entries.push((*key, number));
        }
    }

    /// The object's table is given up.
    pub fn forget(&mut self, object: ObjectNumber) {
        let Self { files, entries } = self;
        entries.retain(|(key, number)| {
            if *number == object {
                // That it is not there any more is as good.
                let _ = files.delete(&key.packed());
            }
            *number != object
        });
    }
}
