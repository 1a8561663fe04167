//! The flow agent's frames in a process: they hold the return addresses of the calls that it times.

use transect_binary_info::Object;
use transect_event_abi::frame::{CAPACITY, CHUNK, OPEN, SIZE, SLOT, SYMBOL};

use crate::launch::AGENT_FILE;

/// Frames read at once: of those that were handed out none is all zero together with the others of its chunk.
const READ: usize = 4 * CHUNK;

/// Where they are.
#[derive(Debug, Default, Clone)]
pub(crate) struct AgentFrames {
    /// `None` until it was looked for; `None` within if there is no agent.
    pool: Option<Option<u64>>,
}

impl AgentFrames {
    /// Whether it was looked for.
    pub fn is_known(&self) -> bool {
        self.pool.is_some()
    }

    /// The array is there.
    pub fn learn(&mut self, pool: Option<u64>) {
        self.pool = Some(pool);
    }

    /// Unrelocated address of the array, if this object is the agent.
    pub fn pool_of(path: &str, object: Option<&Object>) -> Option<u64> {
        let object = object.filter(|_| path.rsplit('/').next() == Some(AGENT_FILE))?;
        let symbols = (0..object.dynamic_symbol_count()).filter_map(|index| object.dynamic_symbol(index));
        symbols.into_iter().find(|symbol| symbol.defined && symbol.name == SYMBOL).map(|symbol| symbol.address)
    }

    /// The open frame of the call whose return address was in a slot of the stack. `read` fills bytes from an address on
    /// and gives how many it could.
    pub fn find(&self, slot: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> Option<u64> {
        let pool = self.pool.flatten()?;
        let mut chunk = [0; READ * SIZE];
        for at in (0..CAPACITY * SIZE).step_by(chunk.len()) {
            let address = pool + at as u64;
            if read(address, &mut chunk) < chunk.len() || chunk.iter().all(|&byte| byte == 0) {
                return None;
            }
            let is_it = |frame: &[u8]| {
                let open = frame[OPEN..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
                let held = frame[SLOT..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                open == Some(1) && held == Some(slot)
            };
            if let Some(index) = chunk.chunks_exact(SIZE).position(is_it) {
                return Some(address + (index * SIZE) as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_frames_are_found_by_their_slot() {
        let pool = 0x10_0000_u64;
        let mut memory = vec![0_u8; 4 * READ * SIZE];
        let mut put = |index: usize, slot: u64, open: u32| {
            let frame = &mut memory[index * SIZE..][..SIZE];
            frame[0] = 1;
            frame[SLOT..SLOT + 8].copy_from_slice(&slot.to_le_bytes());
            frame[OPEN..OPEN + 4].copy_from_slice(&open.to_le_bytes());
        };
        put(3, 0x7ff0, 0);
        put(READ + 5, 0x7ff0, 1);
        // Behind what was never handed out nothing is looked for.
        put(3 * READ, 0x8000, 1);
        let read = |address: u64, bytes: &mut [u8]| {
            let at = (address - pool) as usize;
            let length = bytes.len().min(memory.len().saturating_sub(at));
            bytes[..length].copy_from_slice(&memory[at..at + length]);
            length
        };
        let mut frames = AgentFrames::default();
        assert_eq!(frames.find(0x7ff0, read), None);
        frames.learn(Some(pool));
        assert_eq!(frames.find(0x7ff0, read), Some(pool + ((READ + 5) * SIZE) as u64));
        assert_eq!(frames.find(0x8000, read), None);
    }
}
