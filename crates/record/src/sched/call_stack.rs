//! Call stacks as they come: their numbers, which other records may use before they come, and their places.

use super::place::PlaceId;
use rustc_hash::FxHashMap as HashMap;

/// Number of a stack in [`RawStacks`]; [`NO_STACK`] is none.
pub type StackNumber = u32;
/// No stack was taken.
pub const NO_STACK: StackNumber = 0;

/// A stack that came.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// First of its places.
    first: u32,
    kernel: u16,
    user: u16,
    flags: u32,
}

/// Stacks by the hash that records name them by.
#[derive(Debug, Clone)]
pub struct RawStacks {
    numbers: HashMap<u64, StackNumber>,
    /// By number; `None` until the stack has come.
    entries: Vec<Option<Entry>>,
    places: Vec<PlaceId>,
    /// Records that named a stack for which there was no room.
    pub refused: u64,
}

/// More are not kept: some 6 MB, and 8 MB of their places.
const MAX_STACKS: usize = 120_000;
const MAX_FRAMES: usize = 2_000_000;

/// A stack's places and what is known of its end.
#[derive(Debug, Clone, Copy)]
pub struct RawStack<'a> {
    /// In the kernel, leaf first.
    pub kernel: &'a [PlaceId],
    /// In the program, leaf first.
    pub user: &'a [PlaceId],
    /// [`transect_bpf_collect::record::stack_flags`].
    pub flags: u32,
}

impl Default for RawStacks {
    fn default() -> Self {
        // The number 0 is taken: it means that there is none.
        Self { numbers: HashMap::default(), entries: vec![None], places: Vec::new(), refused: 0 }
    }
}

impl RawStacks {
    /// Number of the stack with this hash, whether it has come or not.
    pub fn number(&mut self, hash: u64) -> StackNumber {
        if hash == 0 {
            return NO_STACK;
        }
        if let Some(&number) = self.numbers.get(&hash) {
            return number;
        }
        if self.entries.len() >= MAX_STACKS {
            self.refused += 1;
            return NO_STACK;
        }
        let number = self.entries.len() as StackNumber;
        self.entries.push(None);
        self.numbers.insert(hash, number);
        number
    }

    /// True if the stack with this hash has come: it may be sent again.
    pub fn has(&self, hash: u64) -> bool {
        self.numbers.get(&hash).is_some_and(|&number| self.entries[number as usize].is_some())
    }

    /// Keeps a stack that came; kernel and user places leaf first.
    pub fn insert(&mut self, hash: u64, flags: u32, kernel: &[PlaceId], user: &[PlaceId]) {
        let number = self.number(hash);
        if number == NO_STACK {
            return;
        }
        if self.places.len() + kernel.len() + user.len() > MAX_FRAMES {
            self.refused += 1;
            return;
        }
        let first = self.places.len() as u32;
        self.places.extend_from_slice(kernel);
        self.places.extend_from_slice(user);
        let entry = Entry { first, kernel: kernel.len() as u16, user: user.len() as u16, flags };
        self.entries[number as usize] = Some(entry);
    }

    /// A stack, if it has come.
    pub fn get(&self, number: StackNumber) -> Option<RawStack<'_>> {
        let entry = (*self.entries.get(number as usize)?)?;
        let places = &self.places[entry.first as usize..];
        let (kernel, rest) = places.split_at(usize::from(entry.kernel));
        Some(RawStack { kernel, user: &rest[..usize::from(entry.user)], flags: entry.flags })
    }

    /// One more than the highest number.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
