//! Builds the test programs with the compilers of the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use transect_binary_info::{Object, Plan, plan};
use transect_event_abi::plan::SlotUse;

/// A folder with `libshapes.so` and programs linked to it.
pub struct Toolchain {
    pub folder: TempDir,
    compiler: String,
}

impl Toolchain {
    /// Builds the library; `None` if the compiler is not installed.
    pub fn new(compiler: &str) -> Option<Self> {
        Command::new(compiler).arg("--version").output().ok()?;
        let this = Self { folder: tempfile::tempdir().unwrap(), compiler: compiler.to_owned() };
        let map = format!("-Wl,--version-script={}", program("shapes.map").display());
        let library = this.path("libshapes.so");
        // musl's loader knows no indirect functions, and gcc refuses them for it.
        let shapes = this.path("shapes.c");
        let source = std::fs::read_to_string(program("shapes.c")).unwrap();
        let source = match compiler {
            "musl-gcc" => source
                .replace(" __attribute__((ifunc(\"choose\")))", " { return choose()(x); }")
                .replace("indirect(int x) { return choose()(x); };", "indirect(int x) { return choose()(x); }"),
            _ => source,
        };
        std::fs::write(&shapes, source).unwrap();
        this.compile(&["-O2", "-fPIC", "-shared", &map, "-o", text(&library), text(&shapes)]).expect("libshapes.so");
        Some(this)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles `caller.c` against the library; `None` if the toolchain does not know a flag.
    pub fn caller(&self, name: &str, flags: &[&str]) -> Option<Object> {
        let (output, source) = (self.path(name), program("caller.c"));
        let run_path = format!("-Wl,-rpath,{}", self.folder.path().display());
        let mut arguments = vec!["-O2", "-o", text(&output), text(&source)];
        arguments.extend(flags);
        let folder = format!("-L{}", self.folder.path().display());
        arguments.extend([&folder, "-lshapes", &run_path]);
        self.compile(&arguments).ok()?;
        Some(Object::open(output).unwrap())
    }

    pub fn compile(&self, arguments: &[&str]) -> Result<(), String> {
        let output = Command::new(&self.compiler).args(arguments).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(words) }
    }
}

/// The uses of all slots of `symbol`, as sorted words.
pub fn uses(object: &Object, plan: &Plan, symbol: &str) -> Vec<&'static str> {
    let mut uses: Vec<_> = object
        .linkage_slots()
        .iter()
        .zip(&plan.relocs)
        .filter(|(slot, _)| object.dynamic_symbol(slot.symbol).unwrap().name == symbol)
        .map(|(_, reloc)| word(reloc.slot_use))
        .collect();
    uses.sort_unstable();
    uses
}

pub fn word(slot_use: u32) -> &'static str {
    const CALLED: u32 = SlotUse::Called as u32;
    const BOTH: u32 = SlotUse::CalledAndLoaded as u32;
    const LOADED: u32 = SlotUse::Loaded as u32;
    match slot_use {
        CALLED => "called",
        BOTH => "called+loaded",
        LOADED => "loaded",
        _ => "unreferenced",
    }
}

/// Every `call *slot` site must hold a displacement that leads to the slot of its relocation.
pub fn check_sites(object: &Object, plan: &Plan) {
    let bytes = std::fs::read(object.path()).unwrap();
    for (slot, reloc) in object.linkage_slots().iter().zip(&plan.relocs) {
        let first = reloc.first_site as usize;
        for site in &plan.sites[first..first + reloc.site_count as usize] {
            let at = object.file_offset(site.displacement_vaddr).unwrap() as usize;
            let displacement = i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let target = site.displacement_vaddr.wrapping_add(4).wrapping_add_signed(displacement.into());
            assert_eq!(target, slot.vaddr, "site {:x}", site.displacement_vaddr);
        }
    }
}

pub fn analyze(object: &Object) -> Plan {
    let plan = plan::analyze(object);
    check_sites(object, &plan);
    plan
}

pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
