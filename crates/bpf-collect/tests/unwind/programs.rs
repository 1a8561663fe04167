//! Programs with known call chains: each blocks again and again at the end of its chain, for about a second.
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transect_testkit::judged;

use crate::stack_reader::{COMPLETE, Stack, StackReader, TRUNCATED};
use crate::symbols::Symbols;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unwind/programs");

/// Where programs are made: in a virtual machine the target folder cannot be written to.
pub fn folder() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("unwind");
    let usual = std::fs::create_dir_all(&target).and_then(|()| std::fs::write(target.join("writable"), ""));
    if usual.is_ok() {
        return target;
    }
    let other = std::env::temp_dir().join("unwind");
    std::fs::create_dir_all(&other).unwrap();
    other
}

/// Compiles `tests/unwind/programs/NAME`. `None`, and says so, if there is no such compiler.
fn compile(compiler: &str, name: &str, variant: &str, options: &[&str]) -> Option<PathBuf> {
    let folder = folder();
    let program = folder.join(format!("{}-{compiler}-{variant}", name.replace('.', "-")));
    let made = Command::new(compiler)
        .args(["-g", "-pthread", "-w", "-o"])
        .arg(&program)
        .arg(format!("{SOURCES}/{name}"))
        .args(options)
        .status();
    match made {
        Ok(status) => assert!(status.success(), "{compiler} {name} {options:?}"),
        Err(error) => {
            println!("NOT RUN: {compiler}: {error}");
            return None;
        }
    }
    Some(program)
}

struct Seen {
    stacks: Vec<(Stack, Vec<String>)>,
}

fn wait_until(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "the program does not get on");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Numbers of a line of `/proc/PID/status` or of a thread's, summed over all threads.
fn status(pid: i32, key: &str, radix: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    let number = |text: String| {
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned();
        u64::from_str_radix(&rest, radix).ok()
    };
    texts.filter_map(number).sum()
}

/// It has waited more often, or computed longer (hundredths of a second), than its start-up does: the dynamic linker,
/// and a library that it opens.
fn is_past_start(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let computed: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    computed >= 10 || status(pid, "voluntary_ctxt_switches:", 10) >= 50
}

/// What is enough of a program's stacks for every check: where the machine is busy they take longer to come.
const ENOUGH: usize = 150;

/// Runs `program` for a moment, or longer until there are enough, and takes its stacks.
fn run(reader: &mut StackReader, program: &Path, arguments: &[&str]) -> Seen {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id() as i32;
    wait_until(|| is_past_start(pid));
    reader.want(pid);
    let end = Instant::now() + Duration::from_millis(transect_testkit::sized(150, 400));
    let stacks = reader.collect(Duration::from_secs(20), |taken| taken >= ENOUGH && Instant::now() > end);
    let mut symbols = Symbols::of_process(pid);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.tables.remove_process(pid);
    let named = stacks.into_iter().filter(|stack| stack.tgid == pid);
    Seen { stacks: named.map(|stack| (stack.clone(), symbols.names(&stack.frames))).collect() }
}

/// The functions of `object` in a stack, leaf first, without the parts that compilers split off.
fn own<'a>(names: &'a [String], object: &str) -> Vec<&'a str> {
    let own = names.iter().filter_map(|name| name.strip_prefix(object)?.strip_prefix(':'));
    own.map(|name| name.split('.').next().unwrap()).collect()
}

/// All blocking stacks must be complete and their frames in the program's own object be `chain`, leaf first.
fn check(seen: &Seen, program: &Path, chains: &[&[&str]]) {
    let object = program.file_name().unwrap().to_str().unwrap();
    let blocking: Vec<_> = seen.stacks.iter().filter(|(stack, _)| !stack.sampled).collect();
    assert!(blocking.len() >= 20, "{object}: {} stacks", blocking.len());
    let mut counts = vec![0; chains.len()];
    for (stack, names) in &blocking {
        assert!(stack.flags == COMPLETE, "{object}: flags {} {names:#?}", stack.flags);
        let mut own = own(names, object);
        if object.ends_with("static") {
            // The C library is part of it: its frames below the leaf and about main.
            own.drain(..own.iter().position(|name| chains.iter().any(|chain| chain.contains(name))).unwrap_or(0));
            let library =
                ["__libc_start", "__restore_rt", "start_thread", "0x", "clone3", "__clone3", "pthread_", "__pthread_"];
            own.retain(|name| !library.iter().any(|prefix| name.starts_with(prefix)));
        }
        let chain = chains.iter().position(|chain| own == *chain);
        counts[chain.unwrap_or_else(|| panic!("{object}: {own:?} of {names:#?}"))] += 1;
    }
    assert!(counts.iter().all(|&count| count > 0), "{object}: {counts:?}");
}

const VARIANTS: [(&str, &[&str]); 5] = [
    ("o2", &["-O2", "-fomit-frame-pointer"]),
    ("o0", &["-O0"]),
    ("o3-fp", &["-O3", "-fno-omit-frame-pointer"]),
    ("nopie", &["-O2", "-fomit-frame-pointer", "-no-pie", "-fno-pic"]),
    ("static", &["-O2", "-fomit-frame-pointer", "-static"]),
];

/// Runs `name` in all variants of two compilers.
fn in_all_variants(compilers: [&str; 2], name: &str, libraries: &[&str], chains: &[&[&str]]) {
    let Some(mut reader) = StackReader::load(0) else { return };
    for compiler in compilers {
        for (variant, options) in VARIANTS {
            let options: Vec<&str> = options.iter().chain(libraries).copied().collect();
            let Some(program) = compile(compiler, name, variant, &options) else { continue };
            check(&run(&mut reader, &program, &[]), &program, chains);
        }
    }
}

#[test]
fn root_c_calls_through_all_kinds_of_frames() {
    let chain = ["leaf", "noreturning", "realigned", "with_alloca", "many_arguments", "by_pointer", "main", "_start"];
    in_all_variants(["gcc", "clang"], "frames.c", &[], &[&chain]);
}

#[test]
fn root_signal_handlers_and_what_they_interrupted() {
    let Some(mut reader) = StackReader::load(0) else { return };
    let chain = ["leaf", "handler", "busy", "work", "main", "_start"];
    for (variant, options) in VARIANTS {
        let Some(program) = compile("gcc", "signals.c", variant, options) else { continue };
        for arguments in [&[][..], &["alternate"]] {
            check(&run(&mut reader, &program, arguments), &program, &[&chain]);
        }
    }
}

#[test]
fn root_threads_and_virtual_calls_of_cpp() {
    let thread = ["leaf", "in_catch", "_ZN7Derived4callEv", "by_virtual_call", "in_thread"];
    let Some(mut reader) = StackReader::load(0) else { return };
    for compiler in ["g++", "clang++"] {
        for (variant, options) in VARIANTS {
            let Some(program) = compile(compiler, "threads.cpp", variant, options) else { continue };
            let object = program.file_name().unwrap().to_str().unwrap();
            let seen = run(&mut reader, &program, &[]);
            assert!(seen.stacks.len() > 100);
            for (stack, names) in &seen.stacks {
                assert_eq!(stack.flags, COMPLETE, "{names:#?}");
                // The first thread waits for the others, once; on a busy machine it may come to that late.
                if stack.tid == stack.tgid && names.iter().any(|name| name.ends_with(":_ZNSt6thread4joinEv")) {
                    continue;
                }
                let own = own(names, object);
                let leaf = own.iter().position(|&name| name == "leaf").unwrap_or_else(|| panic!("{names:#?}"));
                assert!(own[leaf..].starts_with(&thread), "{names:#?}");
            }
        }
    }
}

#[test]
fn root_recursion_is_complete_or_says_that_it_is_not() {
    let Some(mut reader) = StackReader::load(0) else { return };
    let Some(program) = compile("gcc", "recursion.c", "o1", &["-O1", "-fomit-frame-pointer"]) else { return };
    for (depth, flags) in [(100, COMPLETE), (1000, TRUNCATED)] {
        let seen = run(&mut reader, &program, &[&depth.to_string()]);
        assert!(seen.stacks.len() > 20);
        for (stack, names) in &seen.stacks {
            assert_eq!(stack.flags, flags, "{names:#?}");
            let frames = names.iter().filter(|name| name.ends_with(":recurse")).count();
            assert!(frames == depth || flags == TRUNCATED && stack.frames.len() == 128 && frames > 120, "{frames}");
        }
    }
}

#[test]
fn root_every_instruction_of_short_functions() {
    let Some(mut reader) = StackReader::load(4000) else { return };
    let chain = ["third", "second", "first", "main", "_start"];
    for compiler in ["gcc", "clang"] {
        for (variant, options) in VARIANTS.iter().filter(|(variant, _)| *variant != "static") {
            for (linkage, options) in [("now", vec![]), ("plt", vec!["-Wl,-z,lazy"]), ("ibt", vec!["-fcf-protection"])]
                .map(|(linkage, more)| (linkage, [options, more.as_slice()].concat()))
            {
                if linkage != "now" && *variant != "o2" {
                    continue;
                }
                let name = format!("{variant}-{linkage}");
                let Some(program) = compile(compiler, "sampled.c", &name, &options) else { continue };
                let object = program.file_name().unwrap().to_str().unwrap();
                let seen = run(&mut reader, &program, &[]);
                assert!(seen.stacks.len() > 100, "{}", seen.stacks.len());
                for (stack, names) in &seen.stacks {
                    assert_eq!(stack.flags, COMPLETE, "{names:#?}");
                    let mut own = own(names, object);
                    // The linkage table has no symbols.
                    own.retain(|name| !name.starts_with("0x") && !name.starts_with("_init"));
                    assert!(own.len() >= 2 && chain.ends_with(&own), "{object} {names:#?} {stack:x?}");
                }
            }
        }
    }
}

#[test]
fn root_go_goes_on_from_the_stack_of_its_runtime() {
    let Some(mut reader) = StackReader::load(4000) else { return };
    let program = folder().join("goroutine-go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(format!("{SOURCES}/goroutine.go")).env("GO111MODULE", "off");
    if !go.env("GOCACHE", folder().join("go-cache")).status().is_ok_and(|status| status.success()) {
        return println!("NOT RUN: go build");
    }
    let seen = run(&mut reader, &program, &[]);
    let (mut whole, mut switched) = (0, 0);
    for (stack, names) in seen.stacks.iter().filter(|(stack, _)| stack.sampled) {
        let all: Vec<&str> =
            names.iter().map(|name| name.trim_start_matches("goroutine-go:").trim_end_matches(".abi0")).collect();
        let ours = all.contains(&"main.fill");
        let switch = all.iter().position(|&name| name == "runtime.systemstack");
        // Whoever switched stacks was called by somebody.
        assert!(switch.is_none_or(|at| at + 1 < all.len()), "{names:#?}");
        switched += usize::from(ours && switch.is_some());
        let ends = all.last().is_some_and(|last| ["runtime.goexit", "runtime.mstart", "runtime.mcall"].contains(last));
        if ours {
            let at = all.iter().position(|&name| name == "main.fill").unwrap();
            assert_eq!(all[at..], ["main.fill", "main.work", "main.main", "runtime.main", "runtime.goexit"]);
        }
        whole += usize::from(stack.flags == COMPLETE && ends);
    }
    let sampled = seen.stacks.iter().filter(|(stack, _)| stack.sampled).count();
    println!("{whole} of {sampled} stacks whole, {switched} of the program's on two stacks");
    assert!(sampled > 100 && whole * 100 >= sampled * 95 && switched > 0, "{whole} of {sampled}, {switched} on two");
}

#[test]
fn root_code_made_at_run_time_goes_by_frame_pointer() {
    let Some(mut reader) = StackReader::load(0) else { return };
    let Some(program) = compile("gcc", "generated.c", "o2", &["-O2", "-fomit-frame-pointer"]) else { return };
    let seen = run(&mut reader, &program, &[]);
    check(&seen, &program, &[&["leaf", "callback", "with_generated", "main", "_start"]]);
    // One frame of the generated code between them.
    let of_callback = |(_, names): &(Stack, Vec<String>)| names.iter().position(|n| n.ends_with(":callback")).unwrap();
    assert!(seen.stacks.iter().all(|seen| !seen.1[of_callback(seen) + 1].contains("generated-c")));
}

#[test]
fn root_libraries_opened_later_and_forked_processes() {
    let Some(mut reader) = StackReader::load(0) else { return };
    let Some(program) = compile("gcc", "late_library.c", "o2", &["-O2", "-fomit-frame-pointer"]) else { return };
    let shared = ["-O2", "-fomit-frame-pointer", "-shared", "-fPIC"];
    let Some(library) = compile("gcc", "library.c", "so", &shared) else { return };
    judged("stacks of libraries opened later", || stacks_of_later_library(&mut reader, &program, &library));
}

fn stacks_of_later_library(reader: &mut StackReader, program: &Path, library: &Path) -> Result<(), String> {
    let mut child = Command::new(program).arg(library).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id() as i32;
    // Its signal handler is there.
    wait_until(|| status(pid, "SigCgt:", 16) & 1 << 9 != 0);
    reader.want(pid);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::USR1).unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    let stacks = reader.collect(Duration::from_secs(20), |taken| taken >= 2 * ENOUGH && Instant::now() > end);
    let mut symbols = Symbols::of_process(pid);
    let forked = stacks.iter().map(|stack| stack.tgid).find(|&tgid| tgid != pid).expect("a forked process");
    rustix::process::kill_process(rustix::process::Pid::from_raw(forked).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut late = Ok(());
    for tgid in [pid, forked] {
        reader.tables.remove_process(tgid);
        let of_library: Vec<_> = stacks
            .iter()
            .filter(|stack| stack.tgid == tgid)
            .map(|stack| (stack.flags, symbols.names(&stack.frames)))
            .filter(|(_, names)| names.iter().any(|name| name.ends_with(":leaf")))
            // Until the library's table is there: how long that takes is the machine's.
            .skip_while(|(flags, _)| *flags != COMPLETE)
            .collect();
        let complete = of_library.iter().filter(|(flags, _)| *flags == COMPLETE).count();
        println!("{complete} of {} stacks complete", of_library.len());
        if complete * 10 <= of_library.len() * 8 || complete <= 50 {
            late = Err(format!("{complete} of {} are complete", of_library.len()));
        }
        for (_, names) in of_library.iter().filter(|(flags, _)| *flags == COMPLETE) {
            let all: Vec<_> = names.iter().map(|name| name.split(':').nth(1).unwrap()).collect();
            let leaf = all.iter().position(|&name| name == "leaf").unwrap();
            assert_eq!(all[leaf..leaf + 4], ["leaf", "in_library", "with_library", "main"], "{names:?}");
        }
    }
    late
}
