//! Files that nobody made to be read: planning them neither panics nor takes long.

use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use transect_binary_info::Object;
use transect_probe_plan::{Lines, PlanOptions, plan};

#[test]
fn bits_flipped_and_files_cut() {
    let folder = tempfile::tempdir().unwrap();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/usdt.c");
    let good = folder.path().join("good");
    let flags = ["-O2", "-g", "-fpatchable-function-entry=5", "-o"];
    match Command::new("gcc").args(flags).arg(&good).arg(source).status() {
        Ok(status) if status.success() => {}
        other => {
            eprintln!("NOT RUN: gcc: {other:?}");
            return;
        }
    }
    let bytes = std::fs::read(&good).unwrap();
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
            std::fs::write(&bad, &damaged).unwrap();
            if let Ok(object) = Object::open(&bad) {
                let plan = plan(&object, &PlanOptions::default());
                for site in &plan.sites {
                    prop_assert!((site.function as usize) < plan.functions.len());
                    let original = site.window.original();
                    prop_assert_eq!(&object.bytes_at(site.vaddr).unwrap()[..original.len()], original);
                }
                if let Some(lines) = Lines::of(&object) {
                    plan.functions.iter().take(3).for_each(|f| _ = lines.at(f.vaddr));
                }
            }
            Ok(())
        })
        .unwrap();
}
