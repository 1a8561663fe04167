//! Tables of objects in the memory that the kernel reads, shared by all processes that map them.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use transect_binary_info::{LastLink, open_plain};

use super::extents::Extents;
use super::file_tables::FileTables;
use super::layout;
use super::object_image::{CodeSegment, ImageError, ObjectImage};
use super::object_rows::Row;
use super::process_code::FileKey;
use super::row_cache::RowCache;
use super::rule::Rule;
use super::shared_memory::SharedMemory;

/// What a table is written from.
#[derive(Debug)]
pub(crate) struct ReadObject {
    image: ObjectImage,
    rows: Vec<Row>,
}

impl ReadObject {
    /// Works out the rules of all of an object's code, which takes most of the time that it takes to write a table.
    pub fn of(image: ObjectImage, cache: &RowCache) -> Self {
        let rows = cache.rows(&image.sections);
        Self { image, rows }
    }

    /// Reads the file at `path`.
    pub fn of_file(path: &str, cache: &RowCache) -> Result<Self, ImageError> {
        let file = open_plain(path, LastLink::Follow)?;
        Ok(Self::of(ObjectImage::of_file(&file)?, cache))
    }
}

/// An object that was looked at.
#[derive(Debug)]
pub(crate) struct Object {
    pub name: String,
    /// How many lists of mappings point to its table.
    pub references: u32,
    pub state: ObjectState,
    code: CodePlaces,
    unused_since: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectState {
    Table(TablePlace),
    /// It had a table, or would have one if there were room; it did not fit when so many objects had become unused.
    NoRoom {
        releases: u64,
    },
    Refused(ImageError),
}

/// Where a table is: words of the index, followed by the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TablePlace {
    pub index: u32,
    pub groups: u32,
    pub rows: u32,
}

impl TablePlace {
    fn words(&self) -> u32 {
        self.groups + 1 + self.rows
    }
}

/// Names an object of [`ObjectTables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectNumber(usize);

/// All objects and the memory of their tables.
#[derive(Debug)]
pub(crate) struct ObjectTables {
    words: SharedMemory,
    rules: SharedMemory,
    room: Extents,
    objects: Vec<Object>,
    by_build_id: HashMap<Vec<u8>, ObjectNumber>,
    rule_numbers: HashMap<Rule, u16, BuildHasherDefault<RuleHasher>>,
    /// How often an object became unused.
    releases: u64,
    by_file: FileTables,
    /// Rows whose rule found no number.
    pub rules_refused: u64,
    /// The object that took longest to read.
    pub slowest: (String, Duration),
}

impl ObjectTables {
    pub fn new(words: SharedMemory, rules: SharedMemory, by_file: FileTables) -> Self {
        // Kinds 0 … 3 are rules of their own numbers.
        let fixed = 0..layout::RULES_FIXED;
        for number in fixed.clone() {
            rules.write_u64(u32::from(number), u64::from(number));
        }
        Self {
            words,
            rules,
            // Word 0 is "no table".
            room: Extents::new(2..layout::WORDS),
            objects: Vec::new(),
            by_build_id: HashMap::new(),
            rule_numbers: fixed.map(|number| (Rule(u64::from(number)), number)).collect(),
            releases: 0,
            by_file,
            rules_refused: 0,
            slowest: (String::new(), Duration::ZERO),
        }
    }

    /// Adds what `image` holds under `name`; the same object by its build id is the same table.
    pub fn add(&mut self, name: &str, object: Result<ReadObject, ImageError>, took: Duration) -> ObjectNumber {
        let known = object.as_ref().ok().and_then(|object| object.image.build_id.as_ref());
        let known = known.and_then(|id| self.by_build_id.get(id)).copied();
        let number = known.unwrap_or(ObjectNumber(self.objects.len()));
        if known.is_none() {
            let state = ObjectState::NoRoom { releases: u64::MAX };
            let code = CodePlaces::default();
            let unused_since = Instant::now();
            self.objects.push(Object { name: name.to_owned(), references: 0, state, code, unused_since });
        }
        match object {
            Ok(object) => {
                if let Some(id) = &object.image.build_id {
                    self.by_build_id.insert(id.clone(), number);
                }
                self.fill(number, object);
            }
            Err(error) => self.objects[number.0].state = ObjectState::Refused(error),
        }
        if took > self.slowest.1 {
            self.slowest = (name.to_owned(), took);
        }
        number
    }

    /// Writes the table of an object that had no room, read anew.
    pub fn fill(&mut self, number: ObjectNumber, ReadObject { image, rows }: ReadObject) {
        if let ObjectState::Table(_) = self.objects[number.0].state {
            return;
        }
        let code = CodePlaces { start: image.sections.code.start, segments: image.code };
        let groups = ((image.sections.code.end - code.start) >> layout::GROUP_SHIFT) as u32 + 1;
        let place = TablePlace { index: 0, groups, rows: u32::try_from(rows.len()).unwrap_or(layout::WORDS) };
        let Some(index) = self.room_for(place.words()) else {
            self.objects[number.0].state = ObjectState::NoRoom { releases: self.releases };
            return;
        };
        let place = TablePlace { index, ..place };
        let packed: Vec<u32> = rows.iter().map(|row| self.pack(row, code.start)).collect();
        self.words.write(index, index_of(&rows, code.start, place));
        self.words.write(index + groups + 1, packed);
        let object = &mut self.objects[number.0];
        object.code = code;
        object.state = ObjectState::Table(place);
    }

    /// Whether the object has no table for lack of room, and there may be some now.
    pub fn may_fit_now(&self, number: ObjectNumber) -> bool {
        matches!(self.get(number).state, ObjectState::NoRoom { releases } if releases != self.releases)
    }

    pub fn get(&self, number: ObjectNumber) -> &Object {
        &self.objects[number.0]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter()
    }

    /// Words handed out.
    pub fn words_used(&self) -> u32 {
        self.room.used()
    }

    /// Distinct rules.
    pub fn rules(&self) -> usize {
        self.rule_numbers.len()
    }

    /// A list of mappings points to the object.
    pub fn refer(&mut self, number: ObjectNumber) {
        self.objects[number.0].references += 1;
    }

    /// A list that pointed to the object is gone.
    pub fn release(&mut self, number: ObjectNumber, now: Instant) {
        let object = &mut self.objects[number.0];
        object.references -= 1;
        object.unused_since = now;
        self.releases += u64::from(object.references == 0);
    }

    /// The file `key` is this object: the walk finds its table also in processes that have no list, if it has one and its
    /// code is of one piece.
    pub fn name_file(&mut self, key: &FileKey, number: ObjectNumber) {
        if let Some(table) = self.by_file_offset(number) {
            self.by_file.tell(key, number, table);
        }
    }

    /// Index and groups of a table, and what to add to an offset in the file for that in the table.
    fn by_file_offset(&self, number: ObjectNumber) -> Option<(u32, u32, u32)> {
        let object = self.get(number);
        let ObjectState::Table(place) = object.state else { return None };
        let distance = |segment: &CodeSegment| segment.address.wrapping_sub(segment.file_offset);
        let first = object.code.segments.first().map(distance)?;
        let same = object.code.segments.iter().all(|segment| distance(segment) == first);
        same.then(|| (place.index, place.groups, first.wrapping_sub(object.code.start) as u32))
    }

    /// What the kernel needs to know of a mapping of the object at `start`.
    pub fn mapping(&self, number: ObjectNumber, start: u64, length: u32, file_offset: u64) -> layout::Mapping {
        let object = self.get(number);
        let none = layout::Mapping { start, length, offset: 0, index: 0, groups: 0 };
        let ObjectState::Table(place) = object.state else { return none };
        let Some(offset) = object.code.offset_of(file_offset) else { return none };
        layout::Mapping { offset, index: place.index, groups: place.groups, ..none }
    }

    /// Takes room, if need be that of objects that no process has mapped any more, the longest unused first.
    fn room_for(&mut self, words: u32) -> Option<u32> {
        let now = Instant::now();
        if let Some(start) = self.room.take(words, now) {
            return Some(start);
        }
        loop {
            let unused = self.objects.iter_mut().enumerate().filter(|(_, o)| o.references == 0);
            let unused = unused.filter(|(_, o)| matches!(o.state, ObjectState::Table(_)));
            let (number, oldest) = unused.min_by_key(|(_, o)| o.unused_since)?;
            let ObjectState::Table(place) = oldest.state else { return None };
            oldest.state = ObjectState::NoRoom { releases: u64::MAX };
            self.by_file.forget(ObjectNumber(number));
            self.room.give(place.index, place.words(), oldest.unused_since);
            if let Some(start) = self.room.take(words, now) {
                return Some(start);
            }
        }
    }

    fn pack(&mut self, row: &Row, base: u64) -> u32 {
        let offset = row.address.saturating_sub(base) as u32 & ((1 << layout::GROUP_SHIFT) - 1);
        offset << 16 | u32::from(self.rule_number(row.rule))
    }

    fn rule_number(&mut self, rule: Rule) -> u16 {
        if let Some(&number) = self.rule_numbers.get(&rule) {
            return number;
        }
        let Some(number) = u16::try_from(self.rule_numbers.len()).ok() else {
            self.rules_refused += 1;
            return u16::from(layout::FRAME_POINTER);
        };
        self.rules.write_u64(u32::from(number), rule.0);
        self.rule_numbers.insert(rule, number);
        number
    }
}

/// Rules are words, looked up once for each row of a table: hundreds of thousands in a large program.
#[derive(Debug, Default)]
struct RuleHasher(u64);

impl Hasher for RuleHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Where an object's code lies.
#[derive(Debug, Default)]
struct CodePlaces {
    /// Address that the table's offsets count from.
    start: u64,
    segments: Vec<CodeSegment>,
}

impl CodePlaces {
    /// Offset in the table of the byte at `file_offset` of the file.
    fn offset_of(&self, file_offset: u64) -> Option<u32> {
        // A mapping begins at the page that the segment begins in.
        let holds = |s: &&CodeSegment| (s.file_offset & !0xfff..s.file_offset + s.file_size).contains(&file_offset);
        let segment = self.segments.iter().find(holds)?;
        let address = segment.address.wrapping_add(file_offset.wrapping_sub(segment.file_offset));
        u32::try_from(address.checked_sub(self.start)?).ok()
    }
}

/// Number of the first row's word of each group, and of the word after the last row.
fn index_of(rows: &[Row], base: u64, place: TablePlace) -> impl Iterator<Item = u32> {
    let first = place.index + place.groups + 1;
    let mut next = 0;
    (0..=place.groups).map(move |group| {
        let start = base + (u64::from(group) << layout::GROUP_SHIFT);
        while rows.get(next).is_some_and(|row| row.address < start) {
            next += 1;
        }
        // Row 0 tells of all that is before the first function, and lies in group 0.
        first + if group == 0 { 0 } else { next as u32 }
    })
}
