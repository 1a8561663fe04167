//! Semaphores of USDT points: 16-bit counters in the program's data. A program may skip a point, and the work for its
//! arguments, while its semaphore is zero; who listens raises it.

use transect_attach::{AttachError, Memory};

/// Semaphores that were raised.
#[derive(Debug, Default)]
pub struct Semaphores {
    raised: Vec<u64>,
}

impl Semaphores {
    /// Raises the one at `address` of the process, once for all points that share it.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn raise(&mut self, memory: &Memory, address: u64) -> Result<(), AttachError> {
        if !self.raised.contains(&address) {
            add(memory, address, 1)?;
            self.raised.push(address);
        }
        Ok(())
    }

    /// Lowers all again. Those of unloaded objects have gone with them.
    pub fn lower(&self, memory: &Memory) {
        for &address in &self.raised {
            let _ = add(memory, address, u16::MAX);
        }
    }
}

fn add(memory: &Memory, address: u64, value: u16) -> Result<(), AttachError> {
    let mut bytes = [0; 2];
    memory.read(address, &mut bytes)?;
    memory.write(address, &u16::from_le_bytes(bytes).wrapping_add(value).to_le_bytes())
}
