//! Which list of mappings each process has, where the kernel's walk finds it by tgid.
use super::layout;
use super::shared_memory::SharedMemory;

/// The map `unwind_spaces`. The kernel's programs write to it too, when processes fork, run another program or end.
#[derive(Debug)]
pub(crate) struct ProcessSlots(SharedMemory);

impl ProcessSlots {
    pub fn new(memory: SharedMemory) -> Self {
        Self(memory)
    }

    /// Gives the process `tgid` the list that `packed` tells. Returns false if too many processes have tgids like it.
    pub fn set(&self, tgid: i32, packed: u64) -> bool {
        let mut done = false;
        for slot in layout::slots_of(tgid) {
            let now = self.0.read_u64(slot);
            if layout::is_of(now, tgid) {
                // One that the kernel's programs filled meanwhile tells of the parent's.
                done |= self.0.replace_u64(slot, now, if done { 0 } else { packed });
            }
        }
        done || layout::slots_of(tgid).any(|slot| self.0.replace_u64(slot, 0, packed))
    }

    /// The process has no list.
    pub fn clear(&self, tgid: i32) {
        for slot in layout::slots_of(tgid) {
            let now = self.0.read_u64(slot);
            if layout::is_of(now, tgid) {
                self.0.replace_u64(slot, now, 0);
            }
        }
    }
}
