//! Plans of the system's libraries against a plain reading of objdump's disassembly.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::toolchain::{analyze, word};
use transect_binary_info::Object;

/// References to one slot as objdump shows them.
#[derive(Debug, Default, Clone)]
struct Shown {
    calls: u32,
    /// `mov slot(%rip),%reg`: a load, or a call by way of a register.
    register_loads: u32,
    null_tests: u32,
    other: Vec<String>,
}

/// Reads `objdump -d`: instructions that refer to an address relative to the instruction pointer end in
/// `# ADDRESS <…>`.
fn disassemble(path: &str, slots: &mut HashMap<u64, Shown>) {
    let mut objdump = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(objdump.stdout.take().unwrap());
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).unwrap() > 0 {
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        let Some((instruction, target)) = text.split_once("        # ") else { continue };
        let Some(address) = target.split_whitespace().next() else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let Some(shown) = slots.get_mut(&address) else { continue };
        let instruction = instruction.split_once('\t').map_or("", |(_, rest)| rest).trim();
        let words: Vec<&str> = instruction.split_whitespace().collect();
        let mnemonic = words.iter().find(|w| !["bnd", "notrack", "data16", "rex.W", "addr32"].contains(*w));
        match mnemonic.copied() {
            Some("call" | "jmp") => shown.calls += 1,
            Some("mov") if instruction.contains("(%rip),%r") => shown.register_loads += 1,
            Some("cmpq") if instruction.contains("$0x0,") => shown.null_tests += 1,
            _ => shown.other.push(instruction.to_owned()),
        }
    }
    objdump.wait().unwrap();
}

#[test]
fn plans_agree_with_objdump() {
    if Command::new("objdump").arg("--version").output().is_err() {
        return;
    }
    // TRANSECT_LIBRARIES names further ones, separated by spaces.
    let more = std::env::var("TRANSECT_LIBRARIES").unwrap_or_default();
    let usual = "/bin/bash /usr/bin/git /usr/bin/objdump /usr/lib/x86_64-linux-gnu/libstdc++.so.6 \
                 /usr/lib/x86_64-linux-gnu/libc.so.6 /usr/lib/x86_64-linux-gnu/libssl.so.3";
    let mut checked = 0;
    for path in usual.split(' ').chain(more.split_whitespace()) {
        let Ok(object) = Object::open(path) else { continue };
        let plan = analyze(&object);
        let slots = object.linkage_slots();
        let mut shown: HashMap<u64, Shown> = slots.iter().map(|s| (s.vaddr, Shown::default())).collect();
        disassemble(path, &mut shown);
        for (slot, reloc) in slots.iter().zip(&plan.relocs) {
            let seen = &shown[&slot.vaddr];
            let name = object.dynamic_symbol(slot.symbol).unwrap().name;
            let found = word(reloc.slot_use);
            let expected: &[&str] = match seen {
                Shown { calls: 0, register_loads: 0, null_tests: 0, other } if other.is_empty() => &["unreferenced"],
                Shown { calls: 0, register_loads: 0, other, .. } if other.is_empty() => &["unreferenced"],
                Shown { register_loads: 0, other, .. } if other.is_empty() => &["called"],
                // Whether a register is only called is decided by following it.
                Shown { calls: 0, other, .. } if other.is_empty() => &["called", "called+loaded", "loaded"],
                Shown { other, .. } if other.is_empty() => &["called", "called+loaded", "loaded"],
                Shown { calls: 0, register_loads: 0, .. } => &["loaded"],
                _ => &["called+loaded", "loaded"],
            };
            assert!(expected.contains(&found), "{path}: {name} at {:x} is {found}, objdump shows {seen:?}", slot.vaddr);
            if found == "called+loaded" {
                assert!(reloc.site_count <= seen.calls + seen.register_loads, "{path}: {name}");
                assert!(reloc.site_count >= seen.calls, "{path}: {name} has call sites that are not redirected");
            }
            checked += 1;
        }
    }
    assert!(checked > 500, "only {checked} slots were compared");
}
