//! Prints how code uses the function slots of objects: one line per object, or with `--slots` one per slot.

use std::time::Instant;

use transect_binary_info::{Object, RelocationTable, plan};

fn main() {
    let mut slots = false;
    for path in std::env::args().skip(1) {
        if path == "--slots" {
            slots = true;
            continue;
        }
        let object = match Object::open(&path) {
            Ok(object) => object,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let start = Instant::now();
        let plan = plan::analyze(&object);
        let elapsed = start.elapsed();
        if slots {
            for (slot, reloc) in object.linkage_slots().iter().zip(&plan.relocs) {
                let symbol = object.dynamic_symbol(slot.symbol).expect("relocations refer to symbols");
                let table = if slot.table == RelocationTable::JmpRel { "jmprel" } else { "rela" };
                let word = ["?", "called", "called+loaded", "loaded", "unreferenced"][reloc.slot_use as usize];
                let first = reloc.first_site as usize;
                let sites: Vec<String> = plan.sites[first..first + reloc.site_count as usize]
                    .iter()
                    .map(|site| format!("{:x}", site.displacement_vaddr))
                    .collect();
                println!("{table} {:x} {} {word} {}", slot.vaddr, symbol.name, sites.join(","));
            }
        } else {
            let count = |kind: u32| plan.relocs.iter().filter(|r| r.slot_use == kind).count();
            let numbers = [count(1), count(2), count(3), count(4)];
            println!("{path} {numbers:?} sites {} in {:.2} ms", plan.sites.len(), elapsed.as_secs_f64() * 1e3);
        }
    }
}
