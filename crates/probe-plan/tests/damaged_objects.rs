//! Files that nobody made to be read: planning them neither panics nor takes long.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use transect_binary_info::Object;
use transect_probe_plan::{Lines, PlanOptions, plan};

/// A small program with probes of several kinds; `None` where no compiler is.
fn good_object(folder: &Path) -> Option<Vec<u8>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/usdt.c");
    let good = folder.join("good");
    let flags = ["-O2", "-g", "-fpatchable-function-entry=5", "-o"];
    match Command::new("gcc").args(flags).arg(&good).arg(source).status() {
        Ok(status) if status.success() => Some(std::fs::read(&good).unwrap()),
        other => {
            eprintln!("NOT RUN: gcc: {other:?}");
            None
        }
    }
}

/// Plans what is in `damaged`, if it can be opened, and holds each site against the file.
fn plan_damaged(file: &Path, damaged: &[u8]) -> Result<(), TestCaseError> {
    std::fs::write(file, damaged).unwrap();
    let Ok(object) = Object::open(file) else { return Ok(()) };
    let plan = plan(&object, &PlanOptions::default());
    for site in &plan.sites {
        prop_assert!((site.function as usize) < plan.functions.len());
        let original = site.window.original();
        prop_assert_eq!(&object.bytes_at(site.vaddr).unwrap()[..original.len()], original);
    }
    if let Some(lines) = Lines::of(&object) {
        plan.functions.iter().take(3).for_each(|f| _ = lines.at(f.vaddr));
    }
    Ok(())
}

/// Address, place in the file and size of each section in turn.
#[test]
fn sections_where_nothing_can_be() {
    const HEADER: usize = 64;
    let folder = tempfile::tempdir().unwrap();
    let Some(bytes) = good_object(folder.path()) else { return };
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (headers, count) = (word(40), usize::from(u16::from_le_bytes([bytes[60], bytes[61]])));
    for header in (headers..).step_by(HEADER).take(count) {
        for (field, value) in [16, 24, 32].into_iter().flat_map(|field| [(field, u64::MAX >> 1), (field, u64::MAX - 7)])
        {
            let mut damaged = bytes.clone();
            damaged[header + field..header + field + 8].copy_from_slice(&value.to_le_bytes());
            plan_damaged(&folder.path().join("bad"), &damaged).unwrap();
        }
    }
}

/// A chain of records whose last is said to have four thousand million after it.
#[test]
fn version_tables_without_end() {
    const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut bytes) = good_object(folder.path()) else { return };
    let at = bytes.chunks_exact(8).position(|word| word == DT_VERNEEDNUM.to_le_bytes()).unwrap() * 8;
    bytes[at + 8..at + 16].fill(0xff);
    plan_damaged(&folder.path().join("bad"), &bytes).unwrap();
}

#[test]
fn bits_flipped_and_files_cut() {
    let folder = tempfile::tempdir().unwrap();
    let Some(bytes) = good_object(folder.path()) else { return };
    let bad = folder.path().join("bad");
    // Headers and tables are where damage tells most.
    let place = prop_oneof![0..1024usize, 0..bytes.len(), bytes.len() - 4096..bytes.len()];
    let damage = (
        prop::collection::vec((place, prop_oneof![any::<u8>(), Just(0xff), Just(0)]), 1..12),
        prop::option::weighted(0.2, 0..bytes.len()),
    );
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&damage, |(changes, cut)| {
            let mut damaged = bytes.clone();
            for (at, value) in changes {
                damaged[at] = value;
            }
            damaged.truncate(cut.unwrap_or(damaged.len()));
            plan_damaged(&bad, &damaged)
        })
        .unwrap();
}
