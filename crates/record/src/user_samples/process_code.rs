//! Code that a process has mapped, and call stacks through it from copies of registers and stack.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap as HashMap;
use transect_attach::{Mapping, Memory};
use transect_binary_info::{FrameRule, Object};

use super::agent_frames::AgentFrames;
use super::call_walk::{self, Values};
use crate::sched::mapped_file::{MappedFiles, has_names};
use crate::sched::place::{FileId, Place};

/// Rules that are remembered: some 20 MB.
const MOST_RULES: usize = 40_000;

/// Files by number, as far as stacks lead through them, and the rules that were looked up in them.
#[derive(Default)]
pub(crate) struct UnwindImages {
    objects: HashMap<FileId, Option<Object>>,
    /// By file and virtual address.
    rules: HashMap<(FileId, u64), Option<FrameRule>>,
}

impl UnwindImages {
    fn object(&mut self, file: FileId, files: &MappedFiles) -> Option<&Object> {
        self.objects.entry(file).or_insert_with(|| files.get(file).object()).as_ref()
    }

    fn rule(&mut self, file: FileId, offset: u64, files: &MappedFiles) -> Option<FrameRule> {
        let vaddr = self.object(file, files)?.vaddr(offset)?;
        if self.rules.len() >= MOST_RULES {
            self.rules.clear();
        }
        let object = self.objects.get(&file)?.as_ref()?;
        *self.rules.entry((file, vaddr)).or_insert_with(|| object.frame_rule(vaddr))
    }
}

#[derive(Debug, Clone, Copy)]
struct Mapped {
    end: u64,
    offset: u64,
    file: FileId,
}

/// One process' code.
#[derive(Default)]
pub(crate) struct ProcessCode {
    mapped: BTreeMap<u64, Mapped>,
    /// Opened when the first stack needs it; `None` within if that is not permitted.
    memory: Option<Option<Memory>>,
    agent: AgentFrames,
    /// When its mappings were read.
    read_at: u64,
}

/// How often its mappings are read where calls lead to code of no known mapping, ns.
const READ_EVERY: u64 = 20_000_000;

/// A thread's calls as places.
#[derive(Debug, Default)]
pub(crate) struct Unwound {
    /// Innermost first.
    pub places: Vec<Place>,
    /// The outermost was reached.
    pub complete: bool,
    /// It was not, for a register was asked for that is not known.
    pub lacks_register: bool,
}

impl Unwound {
    /// They lead through code that is of no file, as far as is known.
    pub fn is_in_unknown_code(&self) -> bool {
        self.places.iter().any(|place| matches!(place, Place::Memory { .. }))
    }
}

impl ProcessCode {
    /// A child of fork has the same.
    pub fn of_child(&self) -> Self {
        Self { mapped: self.mapped.clone(), ..Self::default() }
    }

    /// Code of a file is mapped from `start` to `end`; what was there before is not any more. (The kernel tells the same of a
    /// part whose protection was changed, and back.)
    pub fn map(&mut self, start: u64, end: u64, offset: u64, file: FileId) {
        let below = self.mapped.range(..end).rev();
        let old: Vec<_> = below.take_while(|(_, m)| m.end > start).map(|(start, mapped)| (*start, *mapped)).collect();
        for (from, old) in old {
            self.mapped.remove(&from);
            if from < start {
                self.mapped.insert(from, Mapped { end: start, ..old });
            }
            if old.end > end {
                self.mapped.insert(end, Mapped { offset: old.offset + (end - from), ..old });
            }
        }
        self.mapped.insert(start, Mapped { end, offset, file });
    }

    /// Reads its mappings, if it is time for that; whether there was anything new.
    pub fn learn(&mut self, tgid: i32, now: u64, files: &mut MappedFiles) -> bool {
        if now < self.read_at + READ_EVERY {
            return false;
        }
        self.read_at = now;
        let mut new = false;
        for mapping in Mapping::all(tgid).unwrap_or_default() {
            let known = self.at(mapping.start).is_some_and(|(_, known)| mapping.end <= known.end);
            let path = mapping.path.to_string_lossy();
            if mapping.executable && has_names(&path, mapping.inode) && !known {
                let device = rustix::fs::makedev(mapping.device.0, mapping.device.1);
                let range = Some((mapping.start, mapping.end));
                let file = files.number_mapped(tgid, &path, device, mapping.inode, range);
                self.map(mapping.start, mapping.end, mapping.offset, file);
                new = true;
            }
        }
        new
    }

    fn at(&self, address: u64) -> Option<(u64, Mapped)> {
        let (start, mapped) = self.mapped.range(..=address).next_back()?;
        (address < mapped.end).then_some((*start, *mapped))
    }

    fn place(&self, tgid: i32, address: u64, returns: bool) -> Place {
        // A call may be the last instruction of a mapping.
        match self.at(address - u64::from(returns && address > 0)) {
            Some((start, mapped)) => {
                Place::File { file: mapped.file, offset: address - start + mapped.offset, returns }
            }
            None => Place::Memory { tgid, address, returns },
        }
    }

    /// The stack, innermost frame first. `stack` begins at the stack pointer. The kernel copies it up to the first page
    /// that was never touched, so a buffer in some caller's frame ends it: what lies above is read now, a few milliseconds
    /// later, when the outer frames seldom are others.
    pub fn unwind(
        &mut self,
        tgid: i32,
        values: Values,
        (sp, stack): (u64, &[u8]),
        images: &mut UnwindImages,
        files: &MappedFiles,
    ) -> Unwound {
        let mut memory = self.memory.take().unwrap_or_else(|| Memory::open(tgid).ok());
        let mut agent = std::mem::take(&mut self.agent);
        let mut walked = Walked { code: self, images, files, sp, stack, memory: memory.as_ref(), agent: &mut agent };
        let walk = call_walk::walk(values, &mut walked);
        let place = |frame: &call_walk::Frame| self.place(tgid, frame.address, frame.returns);
        let places = walk.frames.iter().map(place).collect();
        // One that was opened before another program began is of no use; it is opened again then.
        if walk.complete || memory.is_none() {
            self.memory = Some(memory.take());
        }
        self.agent = agent;
        Unwound { places, complete: walk.complete, lacks_register: walk.lacks_register }
    }
}

/// A process while one of its stacks is followed.
struct Walked<'a> {
    code: &'a ProcessCode,
    images: &'a mut UnwindImages,
    files: &'a MappedFiles,
    sp: u64,
    stack: &'a [u8],
    memory: Option<&'a Memory>,
    agent: &'a mut AgentFrames,
}

impl call_walk::Process for Walked<'_> {
    fn rule(&mut self, address: u64) -> Option<FrameRule> {
        let (start, mapped) = self.code.at(address)?;
        self.images.rule(mapped.file, address - start + mapped.offset, self.files)
    }

    fn is_code(&self, address: u64) -> bool {
        self.code.at(address).is_some()
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.wrapping_sub(self.sp)).ok()?;
        if let Some(bytes) = self.stack.get(at..).and_then(|rest| rest.first_chunk()) {
            return Some(u64::from_le_bytes(*bytes));
        }
        self.memory?.read_u64(address).ok()
    }

    fn agent_frame(&mut self, slot: u64) -> Option<u64> {
        let memory = self.memory?;
        if !self.agent.is_known() {
            let (code, images, files) = (self.code, &mut *self.images, self.files);
            let objects = code.mapped.iter().filter_map(|(&start, mapped)| {
                let pool = AgentFrames::pool_of(&files.get(mapped.file).path, images.object(mapped.file, files))?;
                Some(pool.wrapping_add(images.object(mapped.file, files)?.load_bias(start, mapped.offset)?))
            });
            let mut objects = objects;
            self.agent.learn(objects.next());
        }
        self.agent.find(slot, |address, bytes| memory.read_some(address, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_mapped_again_leaves_the_rest() {
        let mut code = ProcessCode::default();
        code.map(0x1000, 0x9000, 0x100, 3);
        code.map(0x4000, 0x5000, 0x3100, 3);
        code.map(0x8000, 0xa000, 0, 4);
        let place = |address| match code.place(7, address, false) {
            Place::File { file, offset, .. } => Some((file, offset)),
            _ => None,
        };
        assert_eq!(place(0x1000), Some((3, 0x100)));
        assert_eq!(place(0x4010), Some((3, 0x3110)));
        assert_eq!(place(0x5010), Some((3, 0x4110)));
        assert_eq!(place(0x7fff), Some((3, 0x70ff)));
        assert_eq!(place(0x9fff), Some((4, 0x1fff)));
        assert_eq!((place(0xfff), place(0xa000)), (None, None));
    }
}
