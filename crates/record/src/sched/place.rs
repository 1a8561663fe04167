//! Places in code, as soon as an address is known: what an address means changes when the process loads, unloads or
//! ends.

use rustc_hash::FxHashMap as HashMap;

/// Number of a [`Place`] in [`Places`].
pub type PlaceId = u32;
/// Number of a file in [`super::mapped_file::MappedFiles`].
pub type FileId = u32;

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a file that was mapped there.
    File {
        /// The file.
        file: FileId,
        /// Offset in it.
        offset: u64,
        /// The call before it is meant: this is where it returns to.
        returns: bool,
    },
    /// Code without a file (of a just-in-time compiler), or of a process that could not be looked at any more.
    Memory {
        /// Process, as the initial pid namespace numbers it.
        tgid: i32,
        /// Address in it.
        address: u64,
        /// As above.
        returns: bool,
    },
    /// In the kernel.
    Kernel {
        /// Address.
        address: u64,
        /// As above.
        returns: bool,
    },
}

/// No function of the kernel has an address that is so low.
const MOST_CALLS: u64 = 4096;

impl Place {
    /// In the kernel, of which nothing is known but the system call.
    pub fn in_call(number: u64) -> Option<Self> {
        (number < MOST_CALLS).then_some(Self::Kernel { address: number, returns: false })
    }

    /// The number of the call, if it is such a place.
    pub fn call(&self) -> Option<u64> {
        self.kernel_address().filter(|address| *address < MOST_CALLS)
    }

    /// The file that it is in.
    pub fn file(&self) -> Option<FileId> {
        match *self {
            Self::File { file, .. } => Some(file),
            _ => None,
        }
    }

    /// An address in the function, if it is in the kernel.
    pub fn kernel_address(&self) -> Option<u64> {
        match *self {
            Self::Kernel { address, returns } => Some(address - u64::from(returns)),
            _ => None,
        }
    }
}

/// Places by number, each once.
#[derive(Debug, Clone, Default)]
pub struct Places {
    numbers: HashMap<Place, PlaceId>,
    places: Vec<Place>,
}

/// More are not kept: some 10 MB.
const MAX_PLACES: usize = 200_000;

impl Places {
    /// Number of a place; `None` if there are too many.
    pub fn number(&mut self, place: Place) -> Option<PlaceId> {
        if let Some(&number) = self.numbers.get(&place) {
            return Some(number);
        }
        let number = u32::try_from(self.places.len()).ok().filter(|_| self.places.len() < MAX_PLACES)?;
        self.numbers.insert(place, number);
        self.places.push(place);
        Some(number)
    }

    /// All places; their numbers are their positions.
    pub fn all(&self) -> &[Place] {
        &self.places
    }
}
