//! Lists of mappings as the kernel reads them, shared by processes with equal ones.
use std::collections::HashMap;
use std::time::Instant;

use super::extents::Extents;
use super::layout::{self, Mapping};
use super::object_table::{ObjectNumber, ObjectTables};
use super::shared_memory::SharedMemory;

/// A published list. Its number names it.
#[derive(Debug)]
struct List {
    first: u32,
    mappings: Box<[Mapping]>,
    objects: Vec<ObjectNumber>,
    /// Processes that have it.
    references: u32,
}

/// All lists and their memory.
#[derive(Debug)]
pub(crate) struct AddressSpaces {
    mappings: SharedMemory,
    /// Rules by address and list number: cleared before numbers come again.
    cache: SharedMemory,
    room: Extents,
    lists: HashMap<u32, List>,
    by_content: HashMap<Box<[Mapping]>, u32>,
    last_number: u32,
}

const MAX_MAPPINGS: usize = (1 << layout::SPACE_COUNT_BITS) - 1;

impl AddressSpaces {
    pub fn new(mappings: SharedMemory, cache: SharedMemory) -> Self {
        // Entry 0 is that of processes without a list: its number is none.
        mappings.write(0, [0; size_of::<Mapping>() / 4]);
        cache.clear();
        Self {
            mappings,
            cache,
            room: Extents::new(1..layout::MAPPINGS),
            lists: HashMap::new(),
            by_content: HashMap::new(),
            last_number: 0,
        }
    }

    /// The number of a list of `mappings`, which are sorted by address, for one more process.
    /// `None` if there is no room.
    pub fn take(
        &mut self,
        mut mappings: Vec<Mapping>,
        mut objects: Vec<ObjectNumber>,
        tables: &mut ObjectTables,
    ) -> Option<u32> {
        mappings.truncate(MAX_MAPPINGS);
        if let Some(&number) = self.by_content.get(mappings.as_slice()) {
            self.lists.get_mut(&number)?.references += 1;
            return Some(number);
        }
        let number = self.next_number()?;
        let first = self.room.take(mappings.len() as u32 + 1, Instant::now())?;
        let head = Mapping { start: layout::HEAD | u64::from(number), length: 0, offset: 0, index: 0, groups: 0 };
        let words = std::iter::once(&head).chain(&mappings).flat_map(|mapping| {
            let (low, high) = (mapping.start as u32, (mapping.start >> 32) as u32);
            [low, high, mapping.length, mapping.offset, mapping.index, mapping.groups]
        });
        self.mappings.write(first * (size_of::<Mapping>() / 4) as u32, words);
        objects.sort_unstable();
        objects.dedup();
        for &object in &objects {
            tables.refer(object);
        }
        let mappings: Box<[Mapping]> = mappings.into();
        self.by_content.insert(mappings.clone(), number);
        self.lists.insert(number, List { first, mappings, objects, references: 1 });
        Some(number)
    }

    /// One more process has the list (after a fork).
    pub fn share(&mut self, number: u32) {
        if let Some(list) = self.lists.get_mut(&number) {
            list.references += 1;
        }
    }

    /// A process has the list no longer.
    pub fn release(&mut self, number: u32, tables: &mut ObjectTables) {
        let Some(list) = self.lists.get_mut(&number) else { return };
        list.references -= 1;
        if list.references > 0 {
            return;
        }
        let Some(list) = self.lists.remove(&number) else { return };
        self.by_content.remove(&list.mappings);
        let now = Instant::now();
        // The kernel may still know it as that of a forked process.
        self.mappings.write_u64(list.first * (size_of::<Mapping>() / 8) as u32, 0);
        self.room.give(list.first, list.mappings.len() as u32 + 1, now);
        for object in list.objects {
            tables.release(object, now);
        }
    }

    /// The list as the kernel reads it for the process `tgid`.
    pub fn packed(&self, number: u32, tgid: i32) -> Option<u64> {
        let list = self.lists.get(&number)?;
        Some(layout::pack_space(list.first, list.mappings.len() as u32, number, tgid))
    }

    /// Lists that processes have.
    pub fn lists(&self) -> usize {
        self.lists.len()
    }

    /// Entries handed out.
    pub fn mappings_used(&self) -> u32 {
        self.room.used()
    }

    fn next_number(&mut self) -> Option<u32> {
        const END: u32 = 1 << layout::SPACE_NUMBER_BITS;
        if self.lists.len() as u32 >= END / 2 {
            return None;
        }
        loop {
            self.last_number += 1;
            if self.last_number == END {
                self.last_number = 1;
                self.cache.clear();
            }
            if !self.lists.contains_key(&self.last_number) {
                return Some(self.last_number);
            }
        }
    }
}
