//! Plans of real programs held against another disassembler: no branch that objdump sees leads into a window, and
//! every window consists of whole instructions of objdump's.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use transect_binary_info::Object;
use transect_probe_plan::{Event, PlanOptions, plan};

/// Starts of instructions, and (place, target) of direct branches.
struct Listing {
    starts: HashSet<u64>,
    branches: Vec<(u64, u64)>,
}

fn list(path: &str) -> Option<Listing> {
    let mut objdump = Command::new("objdump")
        .args(["-d", "-w", "--no-show-raw-insn", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut listing = Listing { starts: HashSet::new(), branches: Vec::new() };
    for line in BufReader::new(objdump.stdout.take()?).lines() {
        let line = line.ok()?;
        let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
        let Ok(at) = u64::from_str_radix(address, 16) else { continue };
        listing.starts.insert(at);
        let mut words =
            text.split_whitespace().skip_while(|word| matches!(*word, "bnd" | "notrack" | "addr32" | "repz"));
        let Some(operation) = words.next() else { continue };
        let branches = operation.starts_with('j') || operation.starts_with("call") || operation.starts_with("loop");
        if let Some(target) = words.next().filter(|_| branches).and_then(|word| u64::from_str_radix(word, 16).ok()) {
            listing.branches.push((at, target));
        }
    }
    objdump.wait().ok()?.success().then_some(listing)
}

fn hold_against(path: &str) {
    let Ok(object) = Object::open(path) else {
        eprintln!("NOT RUN: {path} is not there");
        return;
    };
    let Some(listing) = list(path) else {
        eprintln!("NOT RUN: objdump can't read {path}");
        return;
    };
    let plan = plan(&object, &PlanOptions::default());
    let interior: HashSet<u64> = plan.sites.iter().flat_map(|site| site.vaddr + 1..site.vaddr + 5).collect();
    let entries: std::collections::HashMap<u64, std::ops::Range<u64>> =
        plan.sites.iter().filter(|s| s.event == Event::Entry).map(|site| (site.vaddr, site.range())).collect();
    let mut loops = 0;
    for &(at, target) in &listing.branches {
        // Strings in the text disassemble to branches, most of them to where no instruction begins.
        let real = listing.starts.contains(&target);
        assert!(!real || !interior.contains(&target), "{path}: {at:x} leads into the window around {target:x}");
        loops += usize::from(entries.get(&target).is_some_and(|range| range.contains(&at)));
    }
    assert_eq!(loops, 0, "{path}: windows that lead to their own start");
    let whole = |site: &&transect_probe_plan::Site| {
        listing.starts.contains(&site.vaddr) && listing.starts.contains(&site.range().end)
    };
    let odd: Vec<_> = plan.sites.iter().filter(|site| !whole(site)).map(|site| format!("{:x}", site.vaddr)).collect();
    // Behind a function that ends within its window is padding, of which the window takes a part; and a linear
    // disassembly loses its step behind data.
    eprintln!(
        "{path}: {} sites, {} branches, {} not on objdump's bounds",
        plan.sites.len(),
        listing.branches.len(),
        odd.len()
    );
    assert!(odd.len() * 20 <= plan.sites.len(), "{path}: {odd:?}");
}

#[test]
fn branches_of_small_programs() {
    ["/usr/bin/sqlite3", "/usr/bin/bash", "/lib64/ld-linux-x86-64.so.2"].into_iter().for_each(hold_against);
}

#[test]
#[ignore = "takes a minute: objdump of large libraries"]
fn branches_of_large_programs() {
    [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/bin/git",
        "/usr/bin/python3",
        "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
    ]
    .into_iter()
    .for_each(hold_against);
}
