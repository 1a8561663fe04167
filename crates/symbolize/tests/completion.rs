//! A made-up profile with addresses of a program that a C compiler builds; what is put in their place is held against binutils'
//! `addr2line -i` on the program before it was stripped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use transect_binary_info::Object;
use transect_profile_model::{
    CallStack, Clock, CodeAddress, Component, Loss, LossKind, Machine, Meta, Origin, Profile, SchedSample, Space,
    StackFrame,
};
use transect_symbolize::{Missing, SymbolPlaces, SymbolizeError, complete};

const PROGRAM: &str = "
static inline __attribute__((always_inline)) long twice(long n) {
    volatile long two = 2;
    return n * two;
}
static inline __attribute__((always_inline)) long weigh_one(long n) {
    return twice(n) +
           twice(n + 1);
}
static __attribute__((noinline)) long weigh_records(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += weigh_one(i);
    return sum;
}
__attribute__((noinline)) long ends_in_a_jump(long n) { return weigh_records(n + 1); }
int main(int count, char **words) { return (int)ends_in_a_jump(count) & 0; }
";

/// A program, the same without symbols, and its debug file.
struct Built {
    folder: TempDir,
    whole: PathBuf,
    stripped: PathBuf,
    debug: PathBuf,
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

fn built(options: &[&str]) -> Option<Built> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (source, whole, stripped, debug) =
        (path("weigh.c"), path("weigh.whole"), path("weigh"), path("debug/weigh.debug"));
    std::fs::create_dir(path("debug")).unwrap();
    std::fs::write(&source, PROGRAM).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (whole_text, stripped_text, debug_text) = (text(&whole), text(&stripped), text(&debug));
    let mut arguments = vec!["-O2", "-g", "-Wl,--build-id", "-o", whole_text.as_str()];
    let source_text = text(&source);
    arguments.push(&source_text);
    arguments.extend(options);
    let made = run("cc", &arguments)
        && run("objcopy", &["--only-keep-debug", &whole_text, &debug_text])
        && run("strip", &["-o", &stripped_text, &whole_text])
        && Command::new("addr2line").arg("--version").output().is_ok();
    if !made {
        eprintln!("NOT RUN: cc, objcopy, strip or addr2line is not there");
        return None;
    }
    Some(Built { whole, stripped, debug, folder })
}

fn functions(program: &Path) -> BTreeMap<String, (u64, u64)> {
    let names = Object::open(program).unwrap().function_names();
    names.into_iter().filter(|f| f.size > 0).map(|f| (f.name.into(), (f.address, f.size))).collect()
}

/// Outermost first: function, file name, line.
type Place = Vec<(String, String, i32)>;

fn addr2line(program: &Path, address: u64) -> Place {
    let output = Command::new("addr2line").args(["-i", "-f", "-e"]).arg(program).arg(format!("{address:x}")).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let frame = |pair: &[&str]| {
        let (file, line) = pair[1].split(" (").next().unwrap().rsplit_once(':').unwrap();
        (pair[0].to_owned(), file.rsplit('/').next().unwrap().to_owned(), line.parse().unwrap_or(0))
    };
    lines.chunks(2).rev().map(frame).collect()
}

fn profile(component: &Path, build_id: &str, addresses: &[u64]) -> Profile {
    let machine =
        Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
    let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
    let mut profile = Profile::new(Meta::new(machine, clock));
    let path = component.to_str().unwrap().to_owned();
    profile.components.push(Component {
        path: path.clone(),
        build_id: build_id.into(),
        executable: true,
        synthetic: false,
        static_in: None,
    });
    profile.loss.push(Loss {
        what: LossKind::UnresolvedNames,
        place: path,
        count: addresses.len() as i64,
        reason: "addresses without a symbol".into(),
    });
    let sched = &mut profile.sched;
    for (stack, &address) in (0_u32..).zip(addresses) {
        sched.frames.push(StackFrame {
            function: format!("sub_{address:x}"),
            component: Some(0),
            file: String::new(),
            line: 0,
            inlined: false,
            space: Space::User,
        });
        sched.stacks.push(CallStack { frames: vec![stack], complete: false, linked: 0 });
        sched.addresses.push(CodeAddress { stack, depth: 0, address: address as i64 });
        // The degree of parallelism tells which address it was.
        sched.samples.push(SchedSample {
            task: 0,
            stack,
            n: stack as i32,
            origin: Origin::Sample,
            samples: 1,
            criticality_ns: 1,
            active_ns: 1,
            spin: false,
        });
    }
    profile
}

fn shown(profile: &Profile, number: usize) -> Place {
    let sample = profile.sched.samples.iter().find(|sample| sample.n as usize == number).unwrap();
    let frames = &profile.sched.stacks[sample.stack as usize].frames;
    let frames = frames.iter().map(|&id| &profile.sched.frames[id as usize]);
    frames.map(|f| (f.function.clone(), f.file.rsplit('/').next().unwrap().to_owned(), f.line)).collect()
}

fn id(path: &Path) -> String {
    Object::open(path).unwrap().build_id().unwrap()
}

#[test]
fn every_address_has_the_functions_and_lines_that_addr2line_tells() {
    let Some(built) = built(&[]) else { return };
    let all = functions(&built.whole);
    let addresses: Vec<u64> = ["weigh_records", "ends_in_a_jump", "main"]
        .iter()
        .flat_map(|name| all[*name].0..all[*name].0 + all[*name].1)
        .collect();
    let component = built.folder.path().join("gone/weigh");
    let mut profile = profile(&component, &id(&built.whole), &addresses);
    let folder = built.debug.parent().unwrap().to_owned();
    let places = SymbolPlaces::new(vec![folder], &[], &profile.components).unwrap();
    let completion = complete(&mut profile, &places);
    let [completed] = completion.components.as_slice() else { panic!("{completion:?}") };
    assert_eq!((completed.addresses, completed.before.functions), (addresses.len(), 0));
    assert_eq!((completed.after.functions, completed.after.lines), (addresses.len(), addresses.len()));
    assert_eq!((completed.from.as_slice(), &completed.missing), ([built.debug].as_slice(), &None));
    let (mut inlined, mut lines) = (0, std::collections::BTreeSet::new());
    for (number, &address) in addresses.iter().enumerate() {
        let truth = addr2line(&built.whole, address);
        assert_eq!(shown(&profile, number), truth, "{address:#x}");
        inlined = inlined.max(truth.len());
        lines.insert(truth);
    }
    assert!(inlined == 3 && lines.len() > 5, "the program tells nothing: {inlined}, {lines:?}");
    assert_eq!(profile.sched.stacks.len(), lines.len(), "what differs in addresses alone is one stack");
    assert!(profile.sched.addresses.is_empty() && profile.loss.is_empty());
}

#[test]
fn the_stripped_program_itself_names_nothing_and_what_is_missing_is_said() {
    let Some(built) = built(&[]) else { return };
    let (start, _) = functions(&built.whole)["weigh_records"];
    let mut profile = profile(&built.stripped, &id(&built.stripped), &[start + 4]);
    let before = profile.clone();
    let places = SymbolPlaces::new(Vec::new(), &[], &profile.components).unwrap();
    let completion = complete(&mut profile, &places);
    assert!(!completion.is_more());
    assert!(
        matches!(completion.components[0].missing, Some(Missing::NoFile { ref other_build, .. }) if other_build.is_none())
    );
    assert_eq!((profile.sched, profile.loss), (before.sched, before.loss));
}

#[test]
fn files_of_another_build_are_refused() {
    let (Some(built), Some(other)) = (built(&[]), built(&["-O0"])) else { return };
    let (start, _) = functions(&built.whole)["weigh_records"];
    let recorded = built.folder.path().join("weigh.whole");
    // At the recorded path is another build by now.
    std::fs::copy(&other.whole, &recorded).unwrap();
    let mut profile = profile(&recorded, &id(&built.debug), &[start + 4]);
    let folder = other.debug.parent().unwrap().to_owned();
    let places = SymbolPlaces::new(vec![folder], &[], &profile.components).unwrap();
    let completion = complete(&mut profile, &places);
    assert!(!completion.is_more());
    let missing = completion.components[0].missing.as_ref().unwrap();
    assert!(matches!(missing, Missing::NoFile { other_build: Some(path), .. } if *path == recorded), "{missing:?}");
    let named = SymbolPlaces::new(Vec::new(), &[other.debug], &profile.components).unwrap_err();
    assert!(matches!(named, SymbolizeError::OtherBuild { .. }), "{named}");
    // The path that was recorded holds any build without an id.
    profile.components[0].build_id.clear();
    let places = SymbolPlaces::new(Vec::new(), &[], &profile.components).unwrap();
    let completion = complete(&mut profile, &places);
    assert_eq!(completion.components[0].missing, Some(Missing::NoBuildId));
}

#[test]
fn a_function_that_left_by_a_jump_is_one_frame_at_its_first_line() {
    let Some(built) = built(&[]) else { return };
    let all = functions(&built.whole);
    let ((jump, _), (work, size)) = (all["ends_in_a_jump"], all["weigh_records"]);
    let mut profile = profile(&built.stripped, &id(&built.whole), &[jump, work + size / 2]);
    // main (by name), the function that left, the one that it left to.
    let main = StackFrame { function: "main".into(), component: None, ..profile.sched.frames[0].clone() };
    profile.sched.frames.push(main);
    profile.sched.stacks = vec![CallStack { frames: vec![2, 0, 1], complete: false, linked: 0b100 }];
    profile.sched.samples.truncate(1);
    profile.sched.addresses = vec![
        CodeAddress { stack: 0, depth: 1, address: jump as i64 },
        CodeAddress { stack: 0, depth: 2, address: (work + size / 2) as i64 },
    ];
    let places = SymbolPlaces::new(Vec::new(), &[built.debug], &profile.components).unwrap();
    complete(&mut profile, &places);
    let names: Vec<String> = shown(&profile, 0).into_iter().map(|(function, ..)| function).collect();
    assert_eq!(names[..3], ["main", "ends_in_a_jump", "weigh_records"]);
    let stack = &profile.sched.stacks[0];
    assert!(stack.complete && stack.is_linked(2) && !stack.is_linked(1));
}
