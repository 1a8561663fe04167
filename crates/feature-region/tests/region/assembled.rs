//! Small objects made of assembly.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use transect_binary_info::Object;
use transect_feature_region::{DoubtKind, RegionMap, RegionTable};

/// An object with its tables.
pub struct Assembled {
    pub table: RegionTable,
    pub map: RegionMap,
    names: HashMap<String, u64>,
    _folder: tempfile::TempDir,
}

/// Folder of sources.
pub const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

/// Assembles and links `source` after the macros of `sites.inc`; the answer is the folder and the file in it.
pub fn link(source: &str, options: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!(".include \"{PROGRAMS}/sites.inc\"\nunit\n.text\n{source}\n.section .note.GNU-stack,\"\",@progbits\n");
    let assembly = folder.path().join("program.s");
    std::fs::write(&assembly, text).unwrap();
    let program = folder.path().join("program");
    run(Command::new("gcc")
        .args(["-nostdlib", "-shared", "-Wl,-z,separate-code", "-o"])
        .arg(&program)
        .arg(&assembly)
        .args(options));
    (folder, program)
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// As [`link`], and reads what came out.
pub fn assemble(source: &str) -> Assembled {
    let (folder, program) = link(source, &[]);
    open(folder, &program)
}

pub fn open(folder: tempfile::TempDir, program: &Path) -> Assembled {
    let object = Object::open(program).unwrap();
    let table = RegionTable::of(&object).unwrap();
    let map = RegionMap::of(&object, &table);
    let names = object.function_names().into_iter().map(|name| (name.name.into_string(), name.address)).collect();
    Assembled { table, map, names, _folder: folder }
}

impl Assembled {
    /// Address of a place.
    pub fn address(&self, place: &str) -> u64 {
        *self.names.get(place).unwrap_or_else(|| panic!("no place {place}"))
    }

    /// Open regions at a place.
    pub fn at(&self, place: &str) -> Option<Vec<u32>> {
        self.map.at(self.address(place)).map(<[u32]>::to_vec)
    }

    /// Kinds of doubts.
    pub fn doubts(&self) -> Vec<DoubtKind> {
        self.map.doubts().iter().inspect(|doubt| eprintln!("{doubt:x?}")).map(|doubt| doubt.kind).collect()
    }
}
