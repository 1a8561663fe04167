//! Go's functions by the table of its runtime, held to the symbol table and to Go's own tools.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use transect_binary_info::{GoFrame, GoTable, Object};

const PROGRAM: &str = r#"
package main

import "os"

type walker struct{ steps int }

func (w *walker) step(by int) int { w.steps += by; return w.steps }

//go:noinline
func most[T int | float64](values ...T) T {
	found := values[0]
	for _, value := range values {
		if value > found {
			found = value
		}
	}
	return found
}

func main() {
	w := &walker{}
	for range os.Args {
		w.step(len(os.Args))
	}
	println(most(w.steps, 3), most(1.5, 2.5))
}
"#;

/// What Go has compiled: its runtime takes long the first time.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache");

/// Builds it with these flags; `None` without Go.
fn built(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = folder.join("main.go");
    std::fs::write(&source, PROGRAM).unwrap();
    let output = folder.join(name);
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&output).args(flags).arg(&source).current_dir(folder);
    go.env("GOCACHE", CACHE).env("GO111MODULE", "off");
    match go.status() {
        Ok(status) if status.success() => Some(output),
        _ => {
            println!("NOT RUN: go build {}", flags.join(" "));
            None
        }
    }
}

#[test]
fn all_functions_have_the_names_of_the_symbol_table() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in [("fixed", [].as_slice()), ("pie", &["-buildmode=pie"])] {
        let Some(path) = built(folder.path(), name, flags) else { return };
        let object = Object::open(path).unwrap();
        let table = object.go_table().unwrap();
        let symbols: HashMap<u64, String> =
            object.function_symbols().into_iter().map(|symbol| (symbol.vaddr, symbol.name)).collect();
        let mut same = 0;
        let mut others = Vec::new();
        for function in table.functions() {
            let symbol = symbols.get(&function.code.start).map(|name| name.trim_end_matches(".abi0"));
            if symbol.is_some_and(|symbol| plain(symbol) == plain(function.name)) {
                same += 1;
            } else {
                others.push((function.name.to_owned(), symbol.map(str::to_owned)));
            }
        }
        // Types in brackets are shortened, and a few functions share their code.
        assert!(same > 1000 && others.len() < same / 50, "{same} alike, {}: {others:?}", others.len());
    }
}

/// A generic function's name without its types.
fn plain(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

#[test]
fn stripped_programs_keep_names() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in [("fixed", ["-ldflags=-s -w"].as_slice()), ("pie", &["-buildmode=pie", "-ldflags=-s -w"])] {
        let Some(path) = built(folder.path(), name, flags) else { return };
        let object = Object::open(path).unwrap();
        let table = object.go_table().unwrap();
        let named = |name: &str| table.functions().find(|function| function.name == name);
        let main = named("main.main").unwrap_or_else(|| panic!("{name}"));
        assert_eq!(object.symbol_at(main.code.start + 4).unwrap().name, "main.main");
        assert!(object.function_symbols().iter().any(|symbol| symbol.name == "main.main" && symbol.size > 0));
        assert_eq!(named("runtime.goexit").unwrap().frame, GoFrame::Outermost);
        assert_eq!(named("runtime.systemstack").unwrap().frame, GoFrame::OtherStack);
        let signal = table.functions().find(|function| function.frame == GoFrame::Signal);
        assert!(signal.is_some_and(|signal| signal.name.starts_with("runtime.sigreturn")));
        // A function with a frame: nothing is on the stack at its first instruction, its frame later.
        let depths = table.depths(&main);
        assert_eq!(depths.first(), Some(&(main.code.start, 0)));
        assert!(depths.iter().any(|(_, depth)| *depth >= 8 && depth % 8 == 0), "{depths:?}");
    }
}

#[test]
fn lines_are_those_of_go_addr2line() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = built(folder.path(), "fixed", &[]) else { return };
    let object = Object::open(&path).unwrap();
    let table = object.go_table().unwrap();
    let places: Vec<u64> =
        table.functions().filter(|function| function.name.starts_with("main.")).flat_map(|one| one.code).collect();
    let asked: String = places.iter().map(|at| format!("{at:#x}\n")).collect();
    let mut tool = Command::new("go")
        .args(["tool", "addr2line"])
        .arg(&path)
        .current_dir(folder.path())
        .env("GOCACHE", CACHE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = tool.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let answer = String::from_utf8(tool.wait_with_output().unwrap().stdout).unwrap();
    writer.join().unwrap().unwrap();
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines.len(), 2 * places.len());
    for (&at, said) in places.iter().zip(lines.chunks(2)) {
        let found = table.places(at);
        let innermost = &found[0];
        // The padding behind a function has no line.
        let line = if innermost.line == 0 { "-1".to_owned() } else { innermost.line.to_string() };
        assert_eq!(format!("{}:{line}", innermost.file), said[1], "{at:#x}");
        assert_eq!(found.last().unwrap().function, said[0], "{at:#x}");
    }
    // What the compiler inlined is named, with its caller.
    let inlined = places.iter().map(|&at| table.places(at)).find(|found| found.len() > 1).unwrap();
    assert!(inlined.iter().any(|place| place.function == "main.(*walker).step"), "{inlined:?}");
}

#[test]
fn damaged_tables_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = built(folder.path(), "fixed", &[]) else { return };
    let object = Object::open(path).unwrap();
    let (bytes, function_data, text) = object.go_table().unwrap().parts();
    let function_data = &function_data[..function_data.len().min(1 << 16)];
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for round in 0..300 {
        let mut damaged = bytes.to_vec();
        for _ in 0..=round % 7 {
            // The head above all.
            let within = if random() % 2 == 0 { 72 } else { damaged.len() as u64 };
            damaged[(random() % within) as usize] = random() as u8;
        }
        if round % 5 == 0 {
            damaged.truncate((random() % bytes.len() as u64) as usize);
        }
        let Some(table) = GoTable::parse(&damaged, text) else { continue };
        let table = table.with_function_data(function_data);
        for function in table.functions().take(200) {
            table.depths(&function);
            table.places(function.code.start.wrapping_add(random() % 64));
        }
    }
}
