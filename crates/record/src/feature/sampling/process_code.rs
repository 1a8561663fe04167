//! Code that a process has mapped, and call stacks through it from copies of registers and stack.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use rustc_hash::FxHashMap as HashMap;
use transect_attach::Memory;
use transect_binary_info::Object;
use transect_bpf_collect::thread_samples::Registers;

use crate::sched::mapped_file::MappedFiles;
use crate::sched::place::{FileId, Place};

/// Bytes above the stack pointer that belong to the stack, by the usual limit.
const MOST_STACK: usize = 8 << 20;
/// Frames that are followed at most.
const MOST_FRAMES: usize = 512;

/// What unwinding needs of a file.
struct UnwindImage {
    object: Object,
    sections: Vec<UnwindSection>,
}

struct UnwindSection {
    name: &'static str,
    addresses: Range<u64>,
    data: Arc<[u8]>,
}

/// Files by number, as far as stacks lead through them.
#[derive(Default)]
pub(super) struct UnwindImages {
    images: HashMap<FileId, Option<UnwindImage>>,
    cache: CacheX86_64,
}

const SECTIONS: [&str; 3] = [".eh_frame", ".eh_frame_hdr", ".debug_frame"];

impl UnwindImages {
    fn of(&mut self, file: FileId, files: &MappedFiles) -> Option<&UnwindImage> {
        let read = || {
            let object = files.since(file as usize).first()?.object()?;
            let all = object.section_list();
            let sections = SECTIONS.iter().filter_map(|&name| {
                let section = all.iter().find(|section| section.name == name && !section.data.is_empty())?;
                let addresses = section.vaddr..section.vaddr.checked_add(section.size)?;
                Some(UnwindSection { name, addresses, data: Arc::from(section.data) })
            });
            let sections = sections.collect();
            Some(UnwindImage { object, sections })
        };
        self.images.entry(file).or_insert_with(read).as_ref()
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
pub(super) struct ProcessCode {
    mapped: BTreeMap<u64, Mapped>,
    /// Made when the first stack needs it.
    unwinder: Option<UnwinderX86_64<Arc<[u8]>>>,
    /// Opened when the first stack needs it; `None` within if that is not permitted.
    memory: Option<Option<Memory>>,
}

impl ProcessCode {
    /// A child of fork has the same.
    pub fn of_child(&self) -> Self {
        Self { mapped: self.mapped.clone(), ..Self::default() }
    }

    /// Code of a file is mapped from `start` to `end`; what was there before is not any more.
    pub fn map(&mut self, start: u64, end: u64, offset: u64, file: FileId) {
        let below = self.mapped.range(..end).rev();
        let gone: Vec<u64> = below.take_while(|(_, m)| m.end > start).map(|(start, _)| *start).collect();
        for start in gone {
            self.mapped.remove(&start);
        }
        self.mapped.insert(start, Mapped { end, offset, file });
        self.unwinder = None;
    }

    fn place(&self, tgid: i32, address: u64, returns: bool) -> Place {
        // A call may be the last instruction of a mapping.
        let inside = address - u64::from(returns);
        match self.mapped.range(..=inside).next_back().filter(|(_, mapped)| inside < mapped.end) {
            Some((start, mapped)) => {
                Place::File { file: mapped.file, offset: address - start + mapped.offset, returns }
            }
            None => Place::Memory { tgid, address, returns },
        }
    }

    /// The stack, innermost frame first, and whether it was followed to its beginning. `stack` begins at the stack pointer. The
    /// kernel copies it up to the first page that was never touched, so a buffer in some caller's frame ends it: what lies above
    /// is read now, a few milliseconds later, when the outer frames seldom are others.
    pub fn unwind(
        &mut self,
        tgid: i32,
        registers: Registers,
        stack: &[u8],
        images: &mut UnwindImages,
        files: &MappedFiles,
    ) -> (Vec<Place>, bool) {
        let Registers { ip, sp, bp } = registers;
        let Self { mapped, unwinder, memory } = self;
        let unwinder = unwinder.get_or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            for (&start, mapped) in mapped {
                if let Some(module) = images.of(mapped.file, files).and_then(|image| module(image, start, *mapped)) {
                    unwinder.add_module(module);
                }
            }
            unwinder
        });
        let mut read = |address: u64| -> Result<u64, ()> {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            if let Some(bytes) = stack.get(at..).and_then(|rest| rest.first_chunk()) {
                return Ok(u64::from_le_bytes(*bytes));
            }
            let memory = memory.get_or_insert_with(|| Memory::open(tgid).ok()).as_ref();
            let mut bytes = [0; 8];
            let memory = memory.filter(|_| at < MOST_STACK).ok_or(())?;
            memory.read(address, &mut bytes).map(|()| u64::from_le_bytes(bytes)).map_err(drop)
        };
        let mut frames = Vec::new();
        let mut complete = false;
        {
            let mut walk = unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, bp), &mut images.cache, &mut read);
            while frames.len() < MOST_FRAMES {
                match walk.next() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => {
                        complete = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
        }
        let place =
            |frame: FrameAddress| self.place(tgid, frame.address(), matches!(frame, FrameAddress::ReturnAddress(_)));
        (frames.into_iter().map(place).collect(), complete)
    }
}

fn module(image: &UnwindImage, start: u64, mapped: Mapped) -> Option<Module<Arc<[u8]>>> {
    let bias = image.object.load_bias(start, mapped.offset)?;
    let section = |name: &str| image.sections.iter().find(|section| section.name == name);
    let range = |name: &str| section(name).map(|section| section.addresses.clone());
    let data = |name: &str| section(name).map(|section| section.data.clone());
    let info = ExplicitModuleSectionInfo {
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..Default::default()
    };
    Some(Module::new(String::new(), start..mapped.end, bias, info))
}
