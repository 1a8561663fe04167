//! Split debug information (`-gsplit-dwarf`): the descriptions of functions are in a file of their own for each object (`.dwo`), or in
//! one for the whole program (`.dwp`), and the program has little more than its line tables.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage, LittleEndian, Reader};
use transect_binary_info::Object;

use super::Bytes;

/// Where a program's split debug information is.
pub(super) struct SplitDwarf {
    /// The program and its debug file: the package is called as one of them, and lies beside it.
    paths: Vec<PathBuf>,
    package: OnceLock<Option<DwarfPackage<Bytes>>>,
}

impl SplitDwarf {
    /// Of a file, which may be the debug file of `program`.
    pub fn of(object: &Object, program: Option<&Object>) -> Self {
        let files = [object].into_iter().chain(program);
        let paths = files.flat_map(|file| [file.path().to_owned(), file.path().with_extension("")]);
        Self { paths: paths.collect(), package: OnceLock::new() }
    }

    /// What addr2line asks for: of the package, else of the file that the program names, or one of its name beside the program.
    /// `None` if there is none of that build.
    pub fn load(&self, load: &SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf<Bytes>>> {
        let package = self.package.get_or_init(|| self.paths.iter().find_map(|path| package(path)));
        let packed = package.as_ref().and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok()?);
        packed.map(Arc::new).or_else(|| {
            let named = path(load.path.as_ref()?)?;
            let folder = load.comp_dir.as_ref().and_then(path).unwrap_or_default();
            let beside = self.paths.iter().filter_map(|path| Some(path.parent()?.join(named.file_name()?)));
            [folder.join(&named)].into_iter().chain(beside).find_map(|path| unit(&path, load))
        })
    }
}

fn path(bytes: &Bytes) -> Option<PathBuf> {
    Some(PathBuf::from(OsStr::from_bytes(&bytes.to_slice().ok()?)))
}

fn package(program: &Path) -> Option<DwarfPackage<Bytes>> {
    let mut path = program.as_os_str().to_owned();
    path.push(".dwp");
    let object = Object::open(path).ok()?;
    DwarfPackage::load(|id| section(&object, id), Bytes::new(Arc::from([]), LittleEndian)).ok()
}

/// The descriptions in a `.dwo` file, if it is the one that is asked for.
fn unit(path: &Path, load: &SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf<Bytes>>> {
    let object = Object::open(path).ok()?;
    let mut dwarf = Dwarf::load(|id| section(&object, id)).ok()?;
    let unit = dwarf.unit(dwarf.units().next().ok()??).ok()?;
    if unit.dwo_id != Some(load.dwo_id) {
        return None;
    }
    dwarf.make_dwo(&load.parent);
    Some(Arc::new(dwarf))
}

fn section(object: &Object, id: gimli::SectionId) -> Result<Bytes, gimli::Error> {
    let bytes = id.dwo_name().and_then(|name| object.section_bytes(name));
    Ok(Bytes::new(Arc::from(bytes.unwrap_or_default()), LittleEndian))
}
