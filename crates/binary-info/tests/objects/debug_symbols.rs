//! Names of a stripped library's own functions, from what distributions ship beside it.

use std::process::Command;

use crate::toolchain::{Toolchain, text};
use transect_binary_info::{Object, SymbolKind};

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

/// Address of the static function `chosen` of `libshapes.so`.
fn chosen(object: &Object) -> Option<u64> {
    (0..0x3000).find(|&a| object.symbol_at(a).is_some_and(|s| s.name == "chosen"))
}

#[test]
fn compressed_mini_symbol_table() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let (whole, mini, stripped) =
        (toolchain.path("libshapes.so"), toolchain.path("mini"), toolchain.path("stripped.so"));
    let address = chosen(&Object::open(&whole).unwrap()).unwrap();
    let section = format!(".gnu_debugdata={}.xz", mini.display());
    let packed = run("objcopy", &["--only-keep-debug", text(&whole), text(&mini)])
        && run("xz", &["--keep", text(&mini)])
        && run("objcopy", &["--strip-all", text(&whole), text(&stripped)]);
    if !packed {
        return;
    }
    assert_eq!(chosen(&Object::open(&stripped).unwrap()), None);
    assert!(run("objcopy", &["--add-section", &section, text(&stripped)]));
    let object = Object::open(&stripped).unwrap();
    assert_eq!(chosen(&object), Some(address));
    assert_eq!(object.symbol_at(address).unwrap().kind, SymbolKind::Function);
}

#[test]
fn data_is_told_from_functions() {
    let object = Object::open("/usr/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let symbol = |name: &str| {
        (0..object.dynamic_symbol_count()).filter_map(|i| object.dynamic_symbol(i)).find(|s| s.name == name).unwrap()
    };
    assert_eq!(object.symbol_at(symbol("stdout").address).unwrap().kind, SymbolKind::Data);
    // Of `read`, `__read` and the like, the public name.
    assert_eq!(object.symbol_at(symbol("__read").address).unwrap().name, "read");
    assert_eq!(object.symbol_at(symbol("puts").address).unwrap().name, "puts");
    assert_eq!(symbol("strlen").kind, SymbolKind::IndirectFunction);
    assert_eq!(object.symbol_at(u64::MAX), None);
}
