//! Programs built with `-gsplit-dwarf`: functions, lines and inlined calls are those that binutils (of what gcc builds) and LLVM (of
//! what clang builds) tell of the same build without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use transect_binary_info::Object;
use transect_probe_plan::Lines;

const PROGRAM: &str = "
static inline __attribute__((always_inline)) long twice(long n) {
    volatile long two = 2;
    return n * two;
}
static inline __attribute__((always_inline)) long weigh_one(long n) {
    return twice(n) +
           twice(n + 1);
}
__attribute__((noinline)) long weigh_records(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += weigh_one(i);
    return sum;
}
";
const MAIN: &str = "
long weigh_records(long n);
static inline __attribute__((always_inline)) long more(long n) { return weigh_records(n) + 1; }
int main(int count, char **words) { return (int)more(count) & 0; }
";

/// Innermost first: function, file name, line.
type Place = Vec<(String, String, u32)>;

/// `None` if the tool is not there.
fn told(compiler: &str, program: &Path, addresses: &[u64]) -> Option<Vec<Place>> {
    let addresses = addresses.iter().map(|address| format!("{address:#x}"));
    let mut tool = match compiler {
        "gcc" => Command::new("addr2line"),
        // Binutils do not find what clang inlined by DWARF 5.
        _ => Command::new("llvm-symbolizer"),
    };
    if compiler != "gcc" {
        tool.arg("--output-style=GNU");
    }
    let output = tool.args(["-a", "-i", "-f", "-e"]).arg(program).args(addresses).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let mut places: Vec<Place> = Vec::new();
    let mut function = None;
    for line in text.lines() {
        if line.starts_with("0x") {
            places.push(Vec::new());
        } else if let Some(function) = function.take() {
            let (file, line) = line.split(" (").next().unwrap().rsplit_once(':').unwrap();
            let file = file.rsplit('/').next().unwrap().to_owned();
            places.last_mut().unwrap().push((function, file, line.parse().unwrap_or(0)));
        } else {
            function = Some(line.to_owned());
        }
    }
    Some(places)
}

fn functions(program: &Path) -> BTreeMap<String, (u64, u64)> {
    let names = Object::open(program).unwrap().function_names();
    names.into_iter().filter(|f| f.size > 0).map(|f| (f.name.into(), (f.address, f.size))).collect()
}

fn addresses(program: &Path) -> Vec<u64> {
    let all = functions(program);
    ["main", "weigh_records"].iter().flat_map(|name| all[*name].0..all[*name].0 + all[*name].1).collect()
}

fn ours(program: &Path, addresses: &[u64]) -> Vec<Place> {
    let lines = Lines::of(&Object::open(program).unwrap()).expect("line tables");
    let name = |file: &str| file.rsplit('/').next().unwrap().to_owned();
    let of = |&address| {
        let frames = lines.frames(address).into_iter();
        frames.map(|f| (f.function.unwrap_or_default(), name(&f.file), f.line)).collect()
    };
    addresses.iter().map(of).collect()
}

/// Builds the program in a folder; `None` if the compiler is not there.
fn built(folder: &Path, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in [("weigh", PROGRAM), ("main", MAIN)] {
        std::fs::write(folder.join(format!("{name}.c")), text).unwrap();
        let arguments = ["-O2", "-g", "-c", &format!("{name}.c"), "-o", &format!("{name}.o")].map(str::to_owned);
        let status = Command::new(compiler).args(arguments).args(options).current_dir(folder).status();
        status.ok().filter(|status| status.success())?;
    }
    let link = Command::new(compiler).args(["-o", "app", "main.o", "weigh.o"]).current_dir(folder).status();
    link.ok().filter(|status| status.success()).map(|_| folder.join("app"))
}

fn dwo_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "dwo")).collect()
}

/// Packs the program's descriptions into one file with a tool and removes the others.
fn packed(program: &Path, tool: &str) -> bool {
    let folder = program.parent().unwrap();
    let package = folder.join("app.dwp");
    // Some do not end with another compiler's files.
    let made = Command::new("timeout")
        .args(["5", tool])
        .arg("-e")
        .arg(program)
        .arg("-o")
        .arg(&package)
        .current_dir(folder)
        .status();
    let files = dwo_files(folder);
    assert!(!files.is_empty());
    let made = made.is_ok_and(|status| status.success());
    if made {
        files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
    made
}

fn check(compiler: &str, version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let whole = built(&folder.path().join("whole"), compiler, &[version]);
    let split_folder = folder.path().join("split");
    let (Some(whole), Some(split)) = (whole, built(&split_folder, compiler, &[version, "-gsplit-dwarf"])) else {
        eprintln!("NOT RUN: {compiler} {version} is not there");
        return;
    };
    let all = addresses(&split);
    assert_eq!(all, addresses(&whole), "two builds of one program");
    let Some(truth) = told(compiler, &whole, &all) else {
        eprintln!("NOT RUN: llvm-symbolizer or addr2line is not there");
        return;
    };
    assert_eq!(truth.iter().map(Vec::len).max(), Some(3), "the program tells nothing");
    assert_eq!(ours(&whole, &all), truth, "{compiler} {version}");
    assert_eq!(ours(&split, &all), truth, "{compiler} {version}: .dwo");
    // Objects and program were moved away together.
    let moved = folder.path().join("moved");
    std::fs::rename(&split_folder, &moved).unwrap();
    let split = moved.join("app");
    assert_eq!(ours(&split, &all), truth, "{compiler} {version}: .dwo beside the program");
    for tool in ["llvm-dwp", "dwp"] {
        let again = built(&folder.path().join(tool), compiler, &[version, "-gsplit-dwarf"]).unwrap();
        if packed(&again, tool) {
            assert_eq!(ours(&again, &all), truth, "{compiler} {version}: {tool}");
        } else {
            eprintln!("NOT RUN: {tool} does not pack what {compiler} {version} makes");
        }
    }
    // Of another build: nothing is taken from it.
    let other = MAIN.replace("+ 1", "+\n 2");
    std::fs::write(moved.join("main.c"), other).unwrap();
    let remade = Command::new(compiler)
        .args(["-O1", "-g", "-c", "main.c", "-o", "other.o", version, "-gsplit-dwarf"])
        .current_dir(&moved)
        .status();
    assert!(remade.unwrap().success());
    std::fs::rename(moved.join("other.dwo"), moved.join("main.dwo")).unwrap();
    let main = functions(&split)["main"].0;
    let found = ours(&split, &[main]);
    assert!(found[0].len() == 1 && found[0][0].2 > 0, "the line table is the program's own: {found:?}");
}

#[test]
fn gcc_dwarf_4() {
    check("gcc", "-gdwarf-4");
}

#[test]
fn gcc_dwarf_5() {
    check("gcc", "-gdwarf-5");
}

#[test]
fn clang_dwarf_4() {
    check("clang", "-gdwarf-4");
}

#[test]
fn clang_dwarf_5() {
    check("clang", "-gdwarf-5");
}
