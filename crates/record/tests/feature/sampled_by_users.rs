//! Samples that a user without privileges takes of programs of its own.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use transect_bpf_collect::thread_samples;
use transect_profile_model::{Profile, RegionMethod};
use transect_record::feature::FeatureTarget;
use transect_testkit::judged;

use crate::program::{alone, build, check_times, record, settings};

/// Who has no rights at all.
const NOBODY: &str = "65534";
const PROGRAM: &str = "TRANSECT_TEST_PROGRAM";
const WHAT: &str = "TRANSECT_TEST_WHAT";

fn can_sample() -> bool {
    match thread_samples::is_permitted() {
        Ok(()) => true,
        Err(why) => {
            println!("NOT RUN: {why}, kernel.perf_event_paranoid is {}", thread_samples::paranoid());
            false
        }
    }
}

/// Seven parts of ten are in region 0, three in region 1.
fn judge(profile: &Profile) -> Result<(), String> {
    let ensure = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    check_times(profile);
    let of = |number: i64| {
        let nodes = profile.feature.nodes.iter();
        let nodes = nodes.filter(move |node| {
            node.region.is_some_and(|region| profile.feature.regions[region as usize].number == number)
        });
        (nodes.clone().filter_map(|node| node.cpu_ns).sum::<i64>() as f64, nodes.map(|node| node.samples).sum::<i64>())
    };
    let ((first, hits), (second, more)) = (of(0), of(1));
    assert_eq!(profile.threads.len(), 2);
    assert!(profile.loss.iter().any(|loss| loss.place == "waits"), "{:?}", profile.loss);
    let samples = (hits + more) as f64;
    ensure(samples > 100.0, format!("{samples} samples"))?;
    let (share, allowed) = (first / (first + second), 4.0 * (0.21 / samples).sqrt());
    ensure((share - 0.7).abs() < allowed, format!("{share} of {samples} samples, allowed {allowed}"))?;
    let session = profile.meta.feature.as_ref().unwrap();
    // Both regions are in leaf functions of their own; what is outside of them is little.
    ensure(session.untranslated * 20 < session.samples, format!("{} of {}", session.untranslated, session.samples))?;
    ensure(hits + more > session.samples * 8 / 10, format!("{hits} {more} {}", session.samples))?;
    for thread in &profile.threads {
        ensure(thread.wait_ns > 0 && thread.busy_ns > thread.wall_ns / 10, format!("{thread:?}"))?;
    }
    Ok(())
}

/// Runs the test below, as somebody without rights if this is root.
fn as_nobody(what: &str) {
    let _alone = alone();
    if !can_sample() {
        return;
    }
    let program = build("shares.c", false, &[]);
    let folder = program.path.parent().unwrap();
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--bounding-set", "-all"]);
        command.arg(std::env::current_exe().unwrap());
        command
    } else {
        Command::new(std::env::current_exe().unwrap())
    };
    let output = command
        .args(["--ignored", "--exact", "sampled_by_users::samples_its_own_program", "--nocapture"])
        .env(PROGRAM, &program.path)
        .env(WHAT, what)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    text.lines().filter(|line| line.starts_with("NOT JUDGED")).for_each(|line| println!("{line}"));
}

#[test]
fn a_launched_program() {
    as_nobody("launch");
}

#[test]
fn a_running_process() {
    as_nobody("attach");
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "a part of the tests above"]
fn samples_its_own_program() {
    let (Some(program), Ok(what)) = (std::env::var_os(PROGRAM), std::env::var(WHAT)) else { return };
    if what == "launch" {
        judged("samples of a launched program", || {
            let command = vec![program.clone(), "300".into()];
            let target = FeatureTarget::Launch { command, follow: true };
            let outcome = record(&settings(target, RegionMethod::Sample)).unwrap();
            assert_eq!(outcome.status, Some(0));
            judge(&outcome.profile)
        });
    } else {
        let running = Running(Command::new(program).arg("1000000").stdin(Stdio::null()).spawn().unwrap());
        let pid = running.0.id().cast_signed();
        // Both threads are there; a busy machine takes its time to start them.
        let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        while threads() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        judged("samples of a running process", || {
            let target = FeatureTarget::Attach { pids: vec![pid], duration: Some(Duration::from_secs(2)) };
            judge(&record(&settings(target, RegionMethod::Sample)).unwrap().profile)
        });
    }
}
