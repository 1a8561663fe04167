//! Holds translated samples against the truth beside them: `translate_samples PROGRAM SAMPLES`, where SAMPLES was
//! written by `tests/feature/translation/shadow.c`. Prints one JSON object.

use std::collections::BTreeMap;
use std::error::Error;

use transect_binary_info::Object;
use transect_feature_region::{Frame, RegionMap, RegionTable, Translator};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, program, samples] = arguments.as_slice() else { return Err("translate_samples PROGRAM SAMPLES".into()) };
    let object = Object::open(program)?;
    let table = RegionTable::of(&object)?;
    let map = RegionMap::of(&object, &table);
    let doubts: Vec<String> = map
        .doubts()
        .iter()
        .map(|doubt| format!("{:#x} {}: {}", doubt.vaddr, doubt.function, doubt.kind.as_str()))
        .collect();
    let coverage = map.coverage();
    let mut translator = Translator::default();
    translator.add(0, map);
    // Records begin where the lines of the section do.
    let text = object.section_bytes("transect_regions").unwrap_or_default();
    let mut at = BTreeMap::new();
    let (mut offset, mut number) = (0, 0u32);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(b"R\t") {
            at.insert(offset, number);
            number += 1;
        }
        offset += line.len();
    }
    let base = object.address_range().start;
    let (mut right, mut wrong, mut untold, mut inside, mut hit) = (0u64, 0u64, 0u64, 0u64, String::new());
    let mut shown = Vec::new();
    for line in std::fs::read_to_string(samples)?.lines() {
        if let Some(rest) = line.strip_prefix("X ") {
            hit = rest.to_owned();
            continue;
        }
        let (truth, stack) = line.split_once(" | ").ok_or("a line without stack")?;
        let truth: Vec<u32> = truth[1..]
            .split_whitespace()
            .map(|raw| Ok(at[&raw.parse::<usize>()?]))
            .collect::<Result<_, Box<dyn Error>>>()?;
        let frame = |raw: &str| -> Result<Frame, Box<dyn Error>> {
            let digits = raw.trim_start_matches('r');
            let vaddr = base + u64::from_str_radix(digits, 16)?;
            Ok(Frame { component: 0, vaddr, returns: digits.len() != raw.len() })
        };
        let frames: Vec<Frame> = stack[1..].split_whitespace().map(frame).collect::<Result<_, _>>()?;
        inside += u64::from(!truth.is_empty());
        // Regions without sites are not in the truth.
        let told = translator.translate(&frames).map(|regions| {
            let with_sites = regions.into_iter().map(|frame| frame.region);
            with_sites.filter(|&region| table.regions[region as usize].irregular.is_none()).collect::<Vec<_>>()
        });
        match told {
            None => untold += 1,
            Some(told) if told == truth => right += 1,
            Some(told) => {
                wrong += 1;
                if shown.len() < 8 {
                    shown.push(format!("truth {truth:?} told {told:?} at {frames:x?}"));
                }
            }
        }
    }
    for line in shown {
        eprintln!("{line}");
    }
    let quoted: Vec<String> = doubts.iter().map(|doubt| format!("{doubt:?}")).collect();
    println!(
        "{{\"right\": {right}, \"wrong\": {wrong}, \"untold\": {untold}, \"inside\": {inside}, \"skipped_and_full\": {hit:?}, \
         \"regions\": {}, \"sites\": {}, \"bytes\": {}, \"untold_bytes\": {}, \"doubts\": [{}]}}",
        table.regions.len(),
        table.sites.len(),
        coverage.0,
        coverage.1,
        quoted.join(", ")
    );
    Ok(())
}
