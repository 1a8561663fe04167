use std::io::{self, Write};
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::FileHeader64;
use object::read::elf::{NoteIterator, SectionHeader};

use crate::dynamic::text;
use crate::file_map::FileMap;
use crate::symbols::{Symbol, SymbolTable};
use crate::{Object, debuginfod};

/// Where separate debug files lie (gdb's `debug-file-directory`).
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// The GNU build-id among the notes in `bytes`.
pub(crate) fn build_id_note(bytes: &[u8], align: u64) -> Option<Vec<u8>> {
    let mut notes = NoteIterator::<FileHeader64<LE>>::new(LE, align, bytes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"GNU" && note.n_type(LE) == object::elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec()).filter(|id| !id.is_empty());
        }
    }
    None
}

/// A debug file and its symbols.
#[derive(Debug)]
pub(crate) struct DebugSymbols {
    file: Object,
    table: SymbolTable,
}

impl DebugSymbols {
    /// Those of an object's debug file; `None` if it has none.
    pub(crate) fn of(object: &Object) -> Option<Box<DebugSymbols>> {
        let file = open(object)?;
        let table = SymbolTable::of_debug_object(&file);
        Some(Box::new(DebugSymbols { file, table }))
    }

    /// As [`SymbolTable::covering`].
    pub(crate) fn covering(&self, vaddr: u64) -> Option<Symbol<'_>> {
        self.table.covering(&self.file.map, vaddr)
    }
}

/// The object's separate debug file, else its compressed mini symbol table.
pub(crate) fn open(object: &Object) -> Option<Object> {
    separate(object).or_else(|| mini(object))
}

/// The object's separate debug file: by build-id (also of debuginfod's client), else by the name in `.gnu_debuglink` beside the object.
pub(crate) fn separate(object: &Object) -> Option<Object> {
    by_build_id(object).or_else(|| by_link(object))
}

fn by_link(object: &Object) -> Option<Object> {
    let sections = object.sections();
    let (_, section) = sections.section_by_name(LE, b".gnu_debuglink")?;
    let name = text(section.data(LE, &object.map[..]).ok()?);
    let folder = object.path().parent()?;
    let system = PathBuf::from("/usr/lib/debug").join(folder.strip_prefix("/").unwrap_or(folder));
    // The link's checksum covers the whole file; the build-id, where both have one, says as much at no cost.
    [folder.to_path_buf(), folder.join(".debug"), system]
        .iter()
        .map(|place| place.join(name))
        .filter(|path| !name.is_empty() && path != object.path())
        .filter_map(|path| Object::open(path).ok())
        .find(|debug| debug.build_id() == object.build_id())
}

fn by_build_id(object: &Object) -> Option<Object> {
    debug_file_of(&object.build_id()?)
}

/// The separate debug file with a build-id (lower-case hexadecimal), of whatever object: the system's, else the one that
/// debuginfod's client keeps.
pub fn debug_file_of(build_id: &str) -> Option<Object> {
    let places = [system_path(build_id), debuginfod::kept(build_id)];
    places.into_iter().flatten().find_map(|path| of_build(path, build_id))
}

/// The debug file with a build-id in a folder that is laid out as `/usr/lib/debug` is.
pub fn debug_file_in(folder: &Path, build_id: &str) -> Option<Object> {
    of_build(path_in(&folder.join(".build-id"), build_id)?, build_id)
}

fn of_build(path: PathBuf, build_id: &str) -> Option<Object> {
    Object::open(path).ok().filter(|debug| debug.build_id().as_deref() == Some(build_id))
}

/// The file that a debug file shares descriptions with others in, as `dwz` makes it: by the path in `.gnu_debugaltlink`, else by the
/// build-id there.
pub(crate) fn supplementary(debug: &Object) -> Option<Object> {
    let sections = debug.sections();
    let (_, section) = sections.section_by_name(LE, b".gnu_debugaltlink")?;
    let bytes = section.data(LE, &debug.map[..]).ok()?;
    let name = text(bytes);
    let id = bytes.get(name.len() + 1..).filter(|id| !id.is_empty())?;
    let hexadecimal: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let beside = Some(debug.path().parent()?.join(name));
    let places = [beside, system_path(&hexadecimal), debuginfod::kept(&hexadecimal)];
    // It has no program headers, so that its build-id is in a section alone.
    let is_it = |file: &Object| {
        let note = file.section_bytes(".note.gnu.build-id").unwrap_or_default();
        build_id_note(&note, 4).as_deref() == Some(id)
    };
    places.into_iter().flatten().filter_map(|path| Object::open(path).ok()).find(is_it)
}

/// Where the system has the debug file with a build-id.
fn system_path(id: &str) -> Option<PathBuf> {
    path_in(Path::new(DEBUG_FOLDER), id)
}

/// A build-id comes from a file: nothing but its digits may become part of a path.
fn path_in(folder: &Path, id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2).filter(|_| id.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some(folder.join(first).join(format!("{rest}.debug")))
}

/// `.gnu_debugdata`: an ELF file with the function symbols that stripping removed, packed with xz.
pub(crate) fn mini(object: &Object) -> Option<Object> {
    let sections = object.sections();
    let (_, section) = sections.section_by_name(LE, b".gnu_debugdata")?;
    let mut packed = section.data(LE, &object.map[..]).ok()?;
    let mut unpacked = Bounded(Vec::new());
    lzma_rs::xz_decompress(&mut packed, &mut unpacked).ok()?;
    Object::from_map(object.path().to_path_buf(), FileMap::Owned(unpacked.0), 0).ok()
}

/// Symbols of functions alone: few objects have a megabyte of them.
const MOST_SYMBOLS: usize = 512 << 20;

/// Takes no more than that.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_SYMBOLS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
