//! Profiles of stripped programs, completed later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use transect_profile_model::{Profile, Space};
use transect_profile_store::{Revision, read};

use crate::command::Sandbox;
use crate::forever::{built, not_run};

const PROGRAM: &str = "
static inline __attribute__((always_inline)) long twice(long n) {
    volatile long two = 2;
    return n * two;
}
static __attribute__((noinline)) long weigh_records(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += twice(i) +
               twice(i + 1);
    return sum;
}
static __attribute__((noinline)) long count_records(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum += i;
    return sum;
}
static __attribute__((noinline)) long both(long n) { return weigh_records(n) + count_records(n); }
static __attribute__((noinline)) long ends_in_a_jump(long n) { return count_records(n + 1); }
int main(void) {
    long sum = 0;
    for (int i = 0; i < 400; i++)
        sum += both(1000000) + ends_in_a_jump(1000000);
    return (int)sum & 0;
}
";

/// The program as it is recorded, without symbols, and what `objcopy` kept of them.
struct Stripped {
    sandbox: Sandbox,
    /// Before it was stripped; its name is that of the other in another folder.
    whole: PathBuf,
    debug: PathBuf,
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

fn stripped() -> Option<Stripped> {
    let sandbox = Sandbox::new();
    let program = built(&sandbox, "weigh", PROGRAM, &["-O2", "-Wl,--build-id"])?;
    let (whole, debug) = (sandbox.path("whole/weigh"), sandbox.path("symbols/weigh.debug"));
    std::fs::create_dir(sandbox.path("whole")).unwrap();
    std::fs::create_dir(sandbox.path("symbols")).unwrap();
    std::fs::copy(&program, &whole).unwrap();
    let (name, symbols) = (program.to_str().unwrap(), debug.to_str().unwrap());
    if !run("objcopy", &["--only-keep-debug", name, symbols]) || !run("strip", &[name]) {
        not_run("objcopy or strip is not there");
        return None;
    }
    Some(Stripped { sandbox, whole, debug })
}

impl Stripped {
    fn record(&self, program: &str, profile: &str) -> Profile {
        self.sandbox.with_agent(&["record", "--quiet", "-o", profile, "--", program]).assert().code(0);
        read(&self.sandbox.path(profile)).unwrap()
    }
}

/// Samples by the program's functions on their stacks, root first: those with at least a fiftieth of all.
fn functions(profile: &Profile) -> Vec<Vec<String>> {
    let sched = &profile.sched;
    let mut counts: BTreeMap<Vec<String>, i64> = BTreeMap::new();
    for sample in &sched.samples {
        let frames = sched.stacks[sample.stack as usize].frames.iter().map(|&id| &sched.frames[id as usize]);
        let is_own = |component: u32| profile.components[component as usize].path.ends_with("/weigh");
        let own = frames.filter(|frame| frame.space == Space::User && frame.component.is_some_and(is_own));
        *counts.entry(own.map(|frame| frame.function.clone()).collect()).or_default() += sample.samples;
    }
    let all: i64 = counts.values().sum();
    counts.into_iter().filter(|(stack, count)| !stack.is_empty() && count * 50 > all).map(|(stack, _)| stack).collect()
}

/// Lines at which the program's functions called others.
fn calls(profile: &Profile) -> Vec<(String, String, i32)> {
    let sched = &profile.sched;
    let mut found = Vec::new();
    for stack in sched.samples.iter().map(|sample| &sched.stacks[sample.stack as usize]) {
        let frames: Vec<_> = stack.frames.iter().map(|&id| &sched.frames[id as usize]).collect();
        // Not the kernel's interrupts.
        let pairs = frames.windows(2).filter(|pair| !pair[1].inlined && pair[1].space == Space::User);
        let calling = pairs.filter(|pair| pair[0].file.ends_with("weigh.c"));
        found.extend(calling.map(|pair| (pair[0].function.clone(), pair[1].function.clone(), pair[0].line)));
    }
    found.sort();
    found.dedup();
    found
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

#[test]
fn a_stripped_programs_profile_becomes_that_of_the_whole_one() {
    let Some(stripped) = stripped() else { return };
    let whole = stripped.record(stripped.whole.to_str().unwrap(), "whole.transect");
    let before = stripped.record("./weigh", "p.transect");
    let wanted = functions(&whole);
    assert!(wanted.iter().any(|stack| stack.ends_with(&["weigh_records".into(), "twice".into()])), "{wanted:?}");
    assert!(!functions(&before).iter().flatten().any(|name| name.contains("_records")));
    let kept = Revision::read(&stripped.sandbox.path("p.transect")).unwrap().profile;

    let symbols = stripped.debug.parent().unwrap().to_str().unwrap();
    let output = stripped.sandbox.transect(&["symbolize", "p.transect", "--debug-dir", symbols]).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = said.lines().find(|line| line.contains("/weigh: ")).unwrap();
    assert!(line.contains(&format!("from {}", stripped.debug.display())), "{line}");

    let after = read(&stripped.sandbox.path("p.transect")).unwrap();
    assert_eq!(functions(&after), wanted);
    assert_eq!(calls(&after), calls(&whole));
    let samples = |profile: &Profile| profile.sched.samples.iter().map(|sample| sample.samples).sum::<i64>();
    assert_eq!(samples(&after), samples(&before), "nothing is lost");
    assert_eq!(after.sched.waits.len(), before.sched.waits.len());
    assert_eq!(after.sched.slices, before.sched.slices);
    addresses_are_as_addr2line_tells(&stripped.whole, &kept, &after);
    // The walk's functions, too.
    let walked: Vec<_> = after.walk.nodes.iter().filter(|node| node.function == "weigh_records").collect();
    if !after.walk.nodes.is_empty() {
        assert!(
            walked.iter().any(|node| node.file.ends_with("weigh.c") && (7..=12).contains(&node.line)),
            "{walked:?}"
        );
    }
    // What is left is `_start`, which has no lines: nothing more is found, and nothing written.
    let written = || std::fs::metadata(stripped.sandbox.path("p.transect/meta.json")).unwrap().modified().unwrap();
    let before = written();
    stripped.sandbox.transect(&["symbolize", "p.transect", "--debug-dir", symbols]).assert().code(0);
    assert_eq!(written(), before);
}

/// What binutils say of each address that was kept of the program is on a stack now.
fn addresses_are_as_addr2line_tells(whole: &Path, kept: &Profile, after: &Profile) {
    let shown: Vec<Vec<(String, i32)>> = after
        .sched
        .stacks
        .iter()
        .map(|stack| {
            stack
                .frames
                .iter()
                .map(|&id| &after.sched.frames[id as usize])
                .map(|f| (f.function.clone(), f.line))
                .collect()
        })
        .collect();
    let mut judged = 0;
    for at in &kept.sched.addresses {
        let frames = &kept.sched.stacks[at.stack as usize].frames;
        let frame = &kept.sched.frames[frames[at.depth as usize] as usize];
        let own = |id: u32| kept.components[id as usize].path.ends_with("/weigh");
        // One that left by a jump is shown at its first line, and by one frame.
        if !frame.component.is_some_and(own) || frame.function == format!("sub_{:x}", at.address) {
            continue;
        }
        let output =
            Command::new("addr2line").args(["-i", "-f", "-e"]).arg(whole).arg(format!("{:x}", at.address)).output();
        let lines = text(&output.unwrap().stdout);
        let lines: Vec<&str> = lines.lines().collect();
        let line = |place: &str| place.split(" (").next().unwrap().rsplit_once(':').unwrap().1.parse().unwrap_or(0);
        let truth: Vec<(String, i32)> = lines.chunks(2).rev().map(|pair| (pair[0].to_owned(), line(pair[1]))).collect();
        // `_start` is the C library's, without lines.
        if truth.iter().all(|(_, line)| *line > 0) {
            judged += 1;
            assert!(shown.iter().any(|stack| stack.windows(truth.len()).any(|part| part == truth)), "{truth:?}");
        }
    }
    assert!(judged > 3, "{judged}");
}

#[test]
fn another_build_is_refused_and_the_profile_remains_as_it_was() {
    let Some(stripped) = stripped() else { return };
    stripped.record("./weigh", "p.transect");
    let Some(other) = built(&stripped.sandbox, "other", PROGRAM, &["-O0", "-Wl,--build-id"]) else { return };
    let meta = || std::fs::read(stripped.sandbox.path("p.transect/meta.json")).unwrap();
    let before = meta();
    let refused =
        stripped.sandbox.transect(&["symbolize", "p.transect", "--binary", other.to_str().unwrap()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("is that of no component of the profile"), "{}", text(&refused.stderr));
    // Nothing was found either: what to do is said, and nothing written.
    let nothing = stripped.sandbox.transect(&["symbolize", "p.transect"]).env("DEBUGINFOD_URLS", "").output().unwrap();
    let said = text(&nothing.stdout);
    let line = said.lines().find(|line| line.contains("/weigh: ")).unwrap();
    assert!(line.contains("no debug information of build-id") && line.contains("set DEBUGINFOD_URLS"), "{line}");
    assert_eq!(meta(), before);
    // A table that was altered is told before anything is written.
    let table = stripped.sandbox.path("p.transect/stacks.parquet");
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&table, bytes).unwrap();
    let whole = stripped.whole.to_str().unwrap();
    let damaged = stripped.sandbox.transect(&["symbolize", "p.transect", "--binary", whole]).output().unwrap();
    assert_eq!(damaged.status.code(), Some(1));
    assert!(text(&damaged.stderr).contains("stacks.parquet: the profile is damaged"), "{}", text(&damaged.stderr));
    assert_eq!(meta(), before);
}

#[test]
fn a_kill_at_any_time_leaves_a_whole_profile() {
    let Some(stripped) = stripped() else { return };
    let before = stripped.record("./weigh", "p.transect");
    let copy = |from: &str, to: &str| assert!(run("cp", &["-r", from, to]));
    let (kept, place) = (stripped.sandbox.path("p.transect"), stripped.sandbox.path("q.transect"));
    let total = |profile: &Profile| profile.sched.samples.iter().map(|sample| sample.samples).sum::<i64>();
    let mut seen = [0, 0];
    for delay in (0..60).map(|step| Duration::from_micros(1500 * step)) {
        let _ = std::fs::remove_dir_all(&place);
        copy(kept.to_str().unwrap(), place.to_str().unwrap());
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("transect"))
            .args(["symbolize", "q.transect", "--binary"])
            .arg(&stripped.whole)
            .current_dir(stripped.sandbox.folder.path())
            .env("HOME", stripped.sandbox.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(delay);
        let _ = child.kill();
        child.wait().unwrap();
        let found = read(&place).unwrap_or_else(|error| panic!("killed after {delay:?}: {error}"));
        assert_eq!(total(&found), total(&before));
        let named = found.sched.frames.iter().any(|frame| frame.function == "weigh_records");
        seen[usize::from(named)] += 1;
    }
    assert!(seen[0] > 0, "{seen:?}");
}
