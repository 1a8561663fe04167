//! Programs of other namespaces, libcs and users.

use std::ffi::OsString;
use std::process::Command;

use transect_profile_model::RegionMethod;
use transect_record::feature::FeatureTarget;

use crate::counts::is_exact;
use crate::program::{alone, build, build_with, record, settings};

#[test]
fn a_pid_namespace_of_its_own() {
    let _alone = alone();
    let unshare = ["unshare", "--pid", "--fork"];
    let can = Command::new(unshare[0]).args(&unshare[1..]).arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        println!("NOT RUN: unshare --pid is not permitted");
        return;
    }
    for method in [RegionMethod::Trace, RegionMethod::Probe] {
        let program = build("threads.c", method == RegionMethod::Trace, &[]);
        let words = unshare.into_iter().map(OsString::from);
        let command = words.chain([program.path.clone().into(), "2".into(), "3000".into(), "1".into()]).collect();
        let target = FeatureTarget::Launch { command, follow: true };
        let profile = record(&settings(target, method)).unwrap().profile;
        is_exact(&profile, 3, 3000);
        // By the numbers that this process knows them by, under their names.
        let ours = profile.processes.iter().filter(|process| process.executable == program.path.to_str().unwrap());
        assert!(ours.clone().count() == 2 && ours.clone().all(|process| process.pid > 2), "{:?}", profile.processes);
    }
}

#[test]
fn another_libc() {
    let _alone = alone();
    if !Command::new("musl-gcc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("NOT RUN: musl-gcc is not installed (musl-tools)");
        return;
    }
    for flags in [&[][..], &["-static"]] {
        for method in [RegionMethod::Trace, RegionMethod::Probe] {
            let program = build_with("musl-gcc", "threads.c", method == RegionMethod::Trace, flags);
            let outcome = program.record(&["2", "3000", "1"], method);
            assert_eq!(outcome.status, Some(0));
            is_exact(&outcome.profile, 3, 3000);
        }
    }
}
