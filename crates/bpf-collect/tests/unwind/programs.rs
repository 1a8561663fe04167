//! Programs with known call chains: each blocks again and again at the end of its chain, for about a second.
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::symbols::Symbols;
use crate::taker::{COMPLETE, Stack, Taker};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unwind/programs");

/// Compiles `tests/unwind/programs/NAME`. `None`, and says so, if there is no such compiler.
fn compile(compiler: &str, name: &str, variant: &str, options: &[&str]) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("unwind");
    std::fs::create_dir_all(&folder).unwrap();
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

/// Runs `program` for a second and takes its stacks.
fn run(taker: &mut Taker, program: &PathBuf, arguments: &[&str]) -> Seen {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id() as i32;
    // Past its start-up: the dynamic linker, and a library that it opens.
    std::thread::sleep(Duration::from_millis(150));
    taker.want(pid);
    let end = Instant::now() + Duration::from_millis(600);
    let stacks = taker.collect(Duration::from_secs(5), || Instant::now() > end);
    let mut symbols = Symbols::of_process(pid);
    child.kill().unwrap();
    child.wait().unwrap();
    taker.tables.remove_process(pid);
    let named = stacks.into_iter().filter(|stack| stack.tgid == pid);
    Seen { stacks: named.map(|stack| (stack.clone(), symbols.names(&stack.frames))).collect() }
}

/// The functions of `object` in a stack, leaf first, without the parts that compilers split off.
fn own<'a>(names: &'a [String], object: &str) -> Vec<&'a str> {
    let own = names.iter().filter_map(|name| name.strip_prefix(object)?.strip_prefix(':'));
    own.map(|name| name.split('.').next().unwrap()).collect()
}

/// All blocking stacks must be complete and their frames in the program's own object be `chain`, leaf first.
fn check(seen: &Seen, program: &PathBuf, chains: &[&[&str]]) {
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
            own.retain(|name| !name.starts_with("__libc_start"));
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
    let Some(mut taker) = Taker::load(0) else { return };
    for compiler in compilers {
        for (variant, options) in VARIANTS {
            let options: Vec<&str> = options.iter().chain(libraries).copied().collect();
            let Some(program) = compile(compiler, name, variant, &options) else { continue };
            check(&run(&mut taker, &program, &[]), &program, chains);
        }
    }
}

#[test]
fn root_c_calls_through_all_kinds_of_frames() {
    let chain = ["leaf", "noreturning", "realigned", "with_alloca", "many_arguments", "by_pointer", "main", "_start"];
    in_all_variants(["gcc", "clang"], "frames.c", &[], &[&chain]);
}
