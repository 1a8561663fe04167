//! The kernel's type information, cut down to what programs read.
//!
//! For each structure that a program names, libbpf looks through all of the kernel's types, of which there are 150,000.
//! Among the few that matter it finds the same at once.
//!
//! The format is in Linux's `Documentation/bpf/btf.rst`.
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use object::LittleEndian as LE;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{DupFlags, dup3};

use crate::kernel_type_cache::TypeCache;
use crate::traced_program;

const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u32 = 0xeb9f;
const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCTURE: u32 = 4;
const UNION: u32 = 5;
const ENUMERATION: u32 = 6;
const FORWARD: u32 = 7;
const ALIAS: u32 = 8;
const FUNCTION: u32 = 12;
const FUNCTION_TYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
const FLOAT: u32 = 16;
const TAG: u32 = 17;
const ENUMERATION_64: u32 = 19;

/// How the names of the types begin that stand for tracepoints and for iterators.
const TRACEPOINT: &[u8] = b"btf_trace_";
const ITERATOR: &[u8] = b"bpf_iter_";

/// A file for the structures that programs read; it has no name but that of its descriptor.
pub(crate) struct StructureFile(Mutex<OwnedFd>);

impl StructureFile {
    /// An empty one.
    ///
    /// # Errors
    /// If there is no memory for it, or no `/proc`, by which libbpf opens it.
    pub fn new() -> io::Result<Self> {
        let file = Self(Mutex::new(memfd_create("kernel-types", MemfdFlags::CLOEXEC)?));
        File::open(file.path())?;
        Ok(file)
    }

    /// Where libbpf can open it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor().as_raw_fd()))
    }

    /// Writes `types` to it. Without them, or where a limit keeps files smaller, it becomes the kernel's own file.
    fn fill(&self, types: Option<&[u8]>) -> io::Result<()> {
        let mut own = self.descriptor();
        let mut file = File::from(own.try_clone()?);
        match types.map(|types| file.write_all(types)) {
            Some(Ok(())) => Ok(()),
            _ => Ok(dup3(File::open(KERNEL)?, &mut own, DupFlags::CLOEXEC)?),
        }
    }

    fn descriptor(&self) -> MutexGuard<'_, OwnedFd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers of the kernel's types that stand for what programs can be attached to, by their names.
#[derive(Debug, Default)]
pub(crate) struct KernelTypes(HashMap<Box<[u8]>, u32>);

impl KernelTypes {
    /// Reads those of the running kernel, or what was kept of them. The structures that the programs in `object` name are written to `structures`.
    ///
    /// # Errors
    /// If the kernel has no type information.
    pub fn read(object: &[u8], structures: &StructureFile) -> io::Result<Self> {
        let cache = TypeCache::of_user(object);
        if let Some((numbers, trimmed)) = cache.as_ref().and_then(TypeCache::read) {
            structures.fill(Some(&trimmed))?;
            return Ok(Self(numbers));
        }
        let bytes = fs::read(KERNEL)?;
        let kernel = Types::parse(&bytes);
        let wanted = section(object).and_then(Types::parse);
        let trimmed = kernel.as_ref().zip(wanted).and_then(|(kernel, own)| kernel.trimmed(&own.structures()));
        structures.fill(trimmed.as_deref())?;
        let types = kernel.map(|kernel| Self(kernel.attached_to())).unwrap_or_default();
        if let (Some(cache), Some(trimmed)) = (cache, trimmed) {
            cache.write(&types.0, &trimmed);
        }
        Ok(types)
    }

    /// The type that stands for a tracepoint. None if the kernel lacks it.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.of_name(TRACEPOINT, name, libbpf_sys::BPF_TRACE_RAW_TP)
    }

    /// The type that stands for an iterator. None if the kernel lacks it.
    pub fn iterator(&self, name: &str) -> Option<u32> {
        self.of_name(ITERATOR, name, libbpf_sys::BPF_TRACE_ITER)
    }

    fn of_name(&self, prefix: &[u8], name: &str, attach_type: libbpf_sys::bpf_attach_type) -> Option<u32> {
        if !self.0.is_empty() {
            return self.0.get([prefix, name.as_bytes()].concat().as_slice()).copied();
        }
        traced_program::find_attached_to(name, attach_type)
    }
}

/// The object's own type information.
fn section(object: &[u8]) -> Option<&[u8]> {
    let header = FileHeader64::<LE>::parse(object).ok()?;
    let (_, section) = header.sections(LE, object).ok()?.section_by_name(LE, b".BTF")?;
    section.data(LE, object).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

/// A structure's name without what tells one version of it from another.
fn essential(name: &[u8]) -> &[u8] {
    let flavour =
        |at: &usize| name[*at..].starts_with(b"___") && name[at - 1] != b'_' && name.get(at + 3) != Some(&b'_');
    (1..name.len().saturating_sub(3)).rev().find(flavour).map_or(name, |at| &name[..at])
}

/// Type information as it lies in memory.
struct Types<'d> {
    records: &'d [u8],
    strings: &'d [u8],
    /// Where each type's record begins. The first type is void and has none.
    places: Vec<usize>,
}

/// The head of a type's record.
#[derive(Clone, Copy)]
struct Head {
    name: u32,
    info: u32,
    /// Of what it consists, or its size.
    of: u32,
}

impl Head {
    const BYTES: usize = 12;

    fn kind(self) -> u32 {
        self.info >> 24 & 31
    }

    fn parts(self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// How many bytes follow the head.
    fn tail(self) -> usize {
        match self.kind() {
            INT | VARIABLE | TAG => 4,
            ARRAY => 12,
            STRUCTURE | UNION | SECTION | ENUMERATION_64 => 12 * self.parts(),
            ENUMERATION | FUNCTION_TYPE => 8 * self.parts(),
            _ => 0,
        }
    }
}

impl<'d> Types<'d> {
    fn parse(bytes: &'d [u8]) -> Option<Self> {
        if word(bytes, 0)? & 0xffff != MAGIC {
            return None;
        }
        let part = |at: usize| {
            let body = bytes.get(word(bytes, 4)? as usize..)?;
            body.get(word(bytes, at)? as usize..)?.get(..word(bytes, at + 4)? as usize)
        };
        let mut types = Self { records: part(8)?, strings: part(16)?, places: vec![usize::MAX] };
        let mut at = 0;
        while at < types.records.len() {
            types.places.push(at);
            at += Head::BYTES + types.head_at(at)?.tail();
        }
        (at == types.records.len()).then_some(types)
    }

    fn head_at(&self, at: usize) -> Option<Head> {
        let word = |offset| word(self.records, at + offset);
        Some(Head { name: word(0)?, info: word(4)?, of: word(8)? })
    }

    fn name(&self, offset: u32) -> &'d [u8] {
        let from = self.strings.get(offset as usize..).unwrap_or_default();
        from.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Structures and unions: their places and essential names.
    fn named(&self) -> impl Iterator<Item = (u32, &'d [u8])> {
        (1..).zip(&self.places[1..]).filter_map(|(id, &at)| {
            let head = self.head_at(at)?;
            let name = matches!(head.kind(), STRUCTURE | UNION).then(|| essential(self.name(head.name)))?;
            (!name.is_empty()).then_some((id, name))
        })
    }

    fn structures(&self) -> HashSet<&'d [u8]> {
        self.named().map(|(_, name)| name).collect()
    }

    /// What programs can be attached to: names and numbers of aliases that stand for tracepoints and of iterators' functions.
    fn attached_to(&self) -> HashMap<Box<[u8]>, u32> {
        let hook = |(id, &at): (u32, &usize)| {
            let head = self.head_at(at)?;
            let prefix = match head.kind() {
                ALIAS => TRACEPOINT,
                FUNCTION => ITERATOR,
                _ => return None,
            };
            self.strings.get(head.name as usize..)?.starts_with(prefix).then(|| (self.name(head.name).into(), id))
        };
        (1..).zip(&self.places[1..]).filter_map(hook).collect()
    }

    /// The structures of these names, with what lies in them. What they point to is left out.
    fn trimmed(&self, wanted: &HashSet<&[u8]>) -> Option<Vec<u8>> {
        let mut kept = Kept::default();
        for (id, name) in self.named() {
            if wanted.contains(name) {
                kept.number(id);
            }
        }
        let (mut records, mut strings, mut names) = (Vec::new(), vec![0], HashMap::new());
        // The first string is empty: the name of what has none.
        names.insert(0, 0);
        let mut name = |offset: u32| {
            *names.entry(offset).or_insert_with(|| {
                let at = strings.len() as u32;
                strings.extend(self.name(offset));
                strings.push(0);
                at
            })
        };
        let mut next = 0;
        while let Some(&id) = kept.order.get(next) {
            next += 1;
            let at = *self.places.get(id as usize)?;
            let head = self.head_at(at)?;
            let tail = self.records.get(at + Head::BYTES..)?.get(..head.tail())?;
            let of = match head.kind() {
                POINTER => 0,
                INT | STRUCTURE | UNION | ENUMERATION | ENUMERATION_64 | FLOAT | FORWARD | ARRAY => head.of,
                // A type under another name, or with a qualifier.
                ALIAS..=11 | 18 => kept.number(head.of),
                _ => return None,
            };
            let mut words: Vec<u32> = tail.chunks_exact(4).filter_map(|chunk| word(chunk, 0)).collect();
            match head.kind() {
                ARRAY => {
                    for id in &mut words[..2] {
                        *id = kept.number(*id);
                    }
                }
                STRUCTURE | UNION => {
                    for member in words.chunks_exact_mut(3) {
                        (member[0], member[1]) = (name(member[0]), kept.number(member[1]));
                    }
                }
                ENUMERATION => words.chunks_exact_mut(2).for_each(|one| one[0] = name(one[0])),
                ENUMERATION_64 => words.chunks_exact_mut(3).for_each(|one| one[0] = name(one[0])),
                _ => {}
            }
            records.extend([name(head.name), head.info, of]);
            records.append(&mut words);
        }
        let (records_length, strings_length) = (4 * records.len() as u32, strings.len() as u32);
        // Magic and version; the header's length; places and lengths of records and strings behind it.
        let header = [MAGIC | 1 << 16, 24, 0, records_length, records_length, strings_length];
        let words = header.iter().chain(&records).flat_map(|word| word.to_le_bytes());
        Some(words.chain(strings).collect())
    }
}

/// Types that are kept, in the order of their new numbers.
#[derive(Default)]
struct Kept {
    order: Vec<u32>,
    numbers: HashMap<u32, u32>,
}

impl Kept {
    fn number(&mut self, id: u32) -> u32 {
        if id == 0 {
            return 0;
        }
        *self.numbers.entry(id).or_insert_with(|| {
            self.order.push(id);
            self.order.len() as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Head, KERNEL, KernelTypes, STRUCTURE, StructureFile, Types, essential};

    #[test]
    fn versions_of_a_structure_have_one_name() {
        assert_eq!(essential(b"inode___with_parts"), b"inode");
        assert_eq!(essential(b"kernfs_node"), b"kernfs_node");
        assert_eq!(essential(b"___x"), b"___x");
        assert_eq!(essential(b"a____b"), b"a____b");
    }

    /// Name, offset and size class of each member.
    fn members(types: &Types<'_>, name: &[u8]) -> Vec<(Vec<u8>, u32)> {
        let (id, _) = types.named().find(|(_, found)| *found == name).unwrap();
        let at = types.places[id as usize];
        let head: Head = types.head_at(at).unwrap();
        assert_eq!(head.kind(), STRUCTURE);
        let words = types.records[at + Head::BYTES..][..head.tail()].chunks_exact(4);
        let words: Vec<u32> = words.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        words.chunks_exact(3).map(|member| (types.name(member[0]).to_vec(), member[2])).collect()
    }

    #[test]
    fn what_can_be_attached_to_has_the_number_that_libbpf_finds() {
        let Ok(types) = KernelTypes::read(crate::skeleton::object(), &StructureFile::new().unwrap()) else {
            println!("NOT RUN: this kernel has no type information");
            return;
        };
        // Without numbers of its own it has libbpf look.
        let found_by_libbpf = KernelTypes::default();
        for name in ["sched_switch", "sys_enter", "no_such_point"] {
            assert_eq!(types.tracepoint(name), found_by_libbpf.tracepoint(name), "{name}");
        }
        assert!(types.iterator("task").is_some());
        assert_eq!(types.iterator("task"), found_by_libbpf.iterator("task"));
    }

    #[test]
    fn what_is_kept_has_the_kernels_members_and_little_else_is() {
        let Ok(kernel) = std::fs::read(KERNEL) else {
            println!("NOT RUN: this kernel has no type information");
            return;
        };
        let kernel = Types::parse(&kernel).unwrap();
        let wanted = ["task_struct", "file", "pt_regs"].map(str::as_bytes);
        let trimmed = kernel.trimmed(&wanted.into()).unwrap();
        let trimmed = Types::parse(&trimmed).unwrap();
        for name in wanted {
            assert_eq!(members(&trimmed, name), members(&kernel, name));
        }
        assert!(trimmed.places.len() < kernel.places.len() / 10, "{}", trimmed.places.len());
    }
}
