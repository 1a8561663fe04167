//! What the handlers have noted of each thread, read and cleared from outside.

use std::mem::offset_of;

use transect_attach::{AttachError, Memory};
use transect_event_abi::probe_arena::CALLEES;
use transect_probe::scope::{SCOPES_SIZE, SEARCH, THREADS, ThreadScope, thread_hash};

const ENTRY: usize = size_of::<ThreadScope>();

/// A copy of one thread's entry.
#[derive(Debug, Clone, Copy)]
pub struct Noted {
    /// Address in the process.
    pub at: u64,
    words: [u64; ENTRY / 8],
}

impl Noted {
    fn of(at: u64, bytes: &[u8]) -> Noted {
        let mut words = [0; ENTRY / 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        }
        Noted { at, words }
    }

    fn word(&self, offset: usize) -> u64 {
        self.words[offset / 8]
    }

    /// The thread pointer.
    pub fn key(&self) -> u64 {
        self.word(offset_of!(ThreadScope, key))
    }

    /// Slot and start of the function's open call; the slot is 0 if there is none.
    pub fn parent_open(&self) -> (u64, u64) {
        (self.word(offset_of!(ThreadScope, parent_slot)), self.word(offset_of!(ThreadScope, parent_start)))
    }

    /// The same of the open callee, and which it is.
    pub fn callee_open(&self) -> (u64, u64, usize) {
        let index = self.word(offset_of!(ThreadScope, callee_index)) as usize % CALLEES;
        (self.word(offset_of!(ThreadScope, callee_slot)), self.word(offset_of!(ThreadScope, callee_start)), index)
    }

    /// Calls begun and ticks of those that have returned.
    pub fn parent(&self) -> (u64, u64) {
        (self.word(offset_of!(ThreadScope, parent_calls)), self.word(offset_of!(ThreadScope, parent_ticks)))
    }

    /// The same of a callee.
    pub fn callee(&self, index: usize) -> (u64, u64) {
        (
            self.words[offset_of!(ThreadScope, callee_calls) / 8 + index],
            self.words[offset_of!(ThreadScope, callee_ticks) / 8 + index],
        )
    }

    /// Calls left without a return, of the function and of all callees.
    pub fn left(&self) -> (u64, u64) {
        (self.word(offset_of!(ThreadScope, parent_left)), self.word(offset_of!(ThreadScope, callee_left)))
    }

    /// When an unwinder took the open call's return away, 0 if none did.
    pub fn thrown_at(&self) -> u64 {
        self.word(offset_of!(ThreadScope, thrown_at))
    }
}

/// All entries of a process.
#[derive(Debug, Clone, Copy)]
pub struct ThreadScopes {
    address: u64,
}

impl ThreadScopes {
    /// The entries at this address of the process.
    pub fn at(address: u64) -> ThreadScopes {
        ThreadScopes { address }
    }

    /// Entries in use.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn all(&self, memory: &Memory) -> Result<Vec<Noted>, AttachError> {
        let mut bytes = vec![0; SCOPES_SIZE as usize];
        memory.read(self.address, &mut bytes)?;
        let used = bytes.chunks_exact(ENTRY).enumerate().filter(|(_, entry)| entry[..8] != [0; 8]);
        Ok(used.map(|(index, entry)| Noted::of(self.address + (index * ENTRY) as u64, entry)).collect())
    }

    /// The entry of one thread; `None` if it has none.
    pub fn of_thread(&self, memory: &Memory, thread: u64) -> Option<Noted> {
        self.place(memory, thread).and_then(Result::ok)
    }

    /// The entry, or where it would be.
    fn place(&self, memory: &Memory, thread: u64) -> Option<Result<Noted, u64>> {
        let first = thread_hash(thread);
        for index in (first..first + SEARCH as usize).map(|index| index % THREADS) {
            let at = self.address + (index * ENTRY) as u64;
            let mut bytes = [0; ENTRY];
            memory.read(at, &mut bytes).ok()?;
            let noted = Noted::of(at, &bytes);
            match noted.key() {
                0 => return Some(Err(at)),
                key if key == thread => return Some(Ok(noted)),
                _ => {}
            }
        }
        None
    }

    /// Notes calls that are open at `start`, as the handlers would have; all threads stand. Gives false if there is no
    /// room for the thread. `callee`: its slot and which it is.
    pub fn open(&self, memory: &Memory, thread: u64, parent: u64, callee: Option<(u64, usize)>, start: u64) -> bool {
        let Some(at) = self.place(memory, thread).map(|place| place.map_or_else(|at| at, |noted| noted.at)) else {
            return false;
        };
        let mut words = [0_u64; ENTRY / 8];
        let mut put = |offset: usize, value: u64| words[offset / 8] = value;
        put(offset_of!(ThreadScope, key), thread);
        put(offset_of!(ThreadScope, parent_slot), parent);
        put(offset_of!(ThreadScope, parent_start), start);
        put(offset_of!(ThreadScope, parent_calls), 1);
        if let Some((slot, index)) = callee {
            put(offset_of!(ThreadScope, callee_slot), slot);
            put(offset_of!(ThreadScope, callee_start), start);
            put(offset_of!(ThreadScope, callee_index), index as u64);
            put(offset_of!(ThreadScope, callee_calls) + index * 8, 1);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(at, &bytes).is_ok()
    }

    /// Forgets what was noted; no probe is on.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn clear(&self, memory: &Memory) -> Result<(), AttachError> {
        for noted in self.all(memory)?.iter().filter(|noted| noted.words[1..].iter().any(|&word| word != 0)) {
            memory.write(noted.at + 8, &[0; ENTRY - 8])?;
        }
        Ok(())
    }
}
