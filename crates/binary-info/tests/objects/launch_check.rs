//! What can be launched, and what is said about the rest.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::toolchain::{Toolchain, text};
use transect_binary_info::{BinaryError, LaunchError, LibcKind, Object, inspect_launch};

fn script(folder: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn finds_commands_and_interpreters() {
    let target = inspect_launch("true").unwrap();
    assert!(target.command.ends_with("true") && target.command.is_absolute());
    assert_eq!(target.libc, LibcKind::Glibc);

    let folder = tempfile::tempdir().unwrap();
    let inner = script(folder.path(), "inner", b"#! /bin/sh -e\ntrue\n", 0o755);
    let outer = script(folder.path(), "outer", format!("#!{}\n", inner.display()).as_bytes(), 0o755);
    let target = inspect_launch(&outer).unwrap();
    assert_eq!((target.command, target.object), (outer, PathBuf::from("/bin/sh")));
}

#[test]
fn says_what_is_wrong_and_what_works() {
    let folder = tempfile::tempdir().unwrap();
    let check = |path: &Path, status: u8, words: &[&str]| {
        let error = inspect_launch(path).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.exit_status(), status, "{message}");
        for word in words {
            assert!(message.contains(word), "{message}");
        }
    };
    check(Path::new("no-such-command"), 127, &["no-such-command", "not found in PATH"]);
    check(Path::new("./no/such"), 127, &["./no/such: not found"]);
    check(&script(folder.path(), "plain", b"#!/bin/sh\n", 0o644), 126, &["not executable", "chmod"]);
    check(&script(folder.path(), "bare", b"echo hello\n", 0o755), 126, &["neither an ELF", "#!"]);
    check(&script(folder.path(), "empty", b"", 0o755), 126, &["neither an ELF"]);
    check(&script(folder.path(), "lost", b"#!/no/such/python\n", 0o755), 126, &["/no/such/python"]);
    check(folder.path(), 126, &["is a directory"]);
    let own = folder.path().join("own");
    check(&script(folder.path(), "own", format!("#!{}\n", own.display()).as_bytes(), 0o755), 126, &["own"]);
    check(&script(folder.path(), "cut", b"\x7fELF\x02\x01\x01", 0o755), 126, &["cut"]);
    let whole = fs::read("/bin/true").unwrap();
    check(&script(folder.path(), "short", &whole[..100], 0o755), 126, &["short", "damaged ELF"]);

    let arm = folder.path().join("arm");
    let mut bytes = fs::read("/bin/true").unwrap();
    bytes[18] = 183;
    script(folder.path(), "arm", &bytes, 0o755);
    check(&arm, 125, &["AArch64", "x86-64"]);

    let privileged = folder.path().join("privileged");
    fs::copy("/bin/true", &privileged).unwrap();
    for (mode, what) in [(0o4755, "set-uid"), (0o2755, "set-gid")] {
        fs::set_permissions(&privileged, Permissions::from_mode(mode)).unwrap();
        assert!(inspect_launch(&privileged).is_ok(), "one of the caller's own raises nothing");
        // Only root gives files away.
        if chown(&privileged, Some(1), Some(1)).is_ok() {
            fs::set_permissions(&privileged, Permissions::from_mode(mode)).unwrap();
            check(&privileged, 125, &[what, "cp "]);
            chown(&privileged, Some(0), Some(0)).unwrap();
        }
    }
}

#[test]
fn static_programs_are_refused_with_alternatives() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let source = toolchain.path("main.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    for flag in ["-static", "-static-pie"] {
        let output = toolchain.path(flag);
        if toolchain.compile(&[flag, "-o", text(&output), text(&source)]).is_err() {
            continue;
        }
        assert!(Object::open(&output).unwrap().is_static(), "{flag}");
        let error = inspect_launch(&output).unwrap_err();
        assert!(matches!(error, LaunchError::Static { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("statically linked") && message.contains("transect walk"), "{message}");
    }
    assert!(!Object::open(toolchain.path("libshapes.so")).unwrap().is_static());
}

#[test]
fn the_loader_is_no_program_to_enter() {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !loader.exists() {
        return;
    }
    let error = inspect_launch(loader).unwrap_err();
    assert!(matches!(error, LaunchError::Loader { .. }) && error.can_run(), "{error}");
    assert!(inspect_launch("/bin/true").is_ok());
}

#[test]
fn thirty_two_bit_programs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    (bytes[16], bytes[18]) = (2, 3);
    let error = inspect_launch(script(folder.path(), "old", &bytes, 0o755)).unwrap_err();
    assert_eq!(error.exit_status(), 125);
    assert!(error.to_string().contains("32-bit x86"), "{error}");
}

#[test]
fn musl_is_recognised() {
    let Some(toolchain) = Toolchain::new("musl-gcc") else { return };
    let source = toolchain.path("main.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let output = toolchain.path("main");
    toolchain.compile(&["-o", text(&output), text(&source)]).unwrap();
    assert_eq!(inspect_launch(&output).unwrap().libc, LibcKind::Musl);
}

#[test]
fn damaged_objects_are_errors_not_panics() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read("/bin/true").unwrap();
    let path = folder.path().join("damaged");
    for keep in [10, 60, 64, 70, 300, 1000, 5000, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..keep]).unwrap();
        if let Ok(object) = Object::open(&path) {
            transect_binary_info::plan::analyze(&object);
            object.symbol_at(0x2000);
        }
    }
    // Every byte of headers and dynamic tables, changed one at a time.
    for at in (0..whole.len().min(6000)).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        if let Ok(object) = Object::open(&path) {
            transect_binary_info::plan::analyze(&object);
            object.symbol_at(0x2000);
            (0..object.dynamic_symbol_count().min(100))
                .for_each(|i| assert!(object.dynamic_symbol(i).is_none_or(|s| s.name.len() < 1 << 20)));
        }
    }
    fs::write(&path, b"hello").unwrap();
    assert!(matches!(Object::open(&path), Err(BinaryError::NotElf { .. })));
    assert!(matches!(Object::open(folder.path()), Err(BinaryError::NotElf { .. })));
    assert!(matches!(Object::open("/no/such"), Err(BinaryError::Read { .. })));
}
