//! Instructions of functions against objdump's.

use std::path::Path;
use std::process::Command;

use transect_binary_info::{Disassembled, Disassembler, Object, Syntax};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long word;
struct place { double x, y; char name[24]; };
__attribute__((noinline)) word divide(word a, word b) { return a / b + a % b; }
__attribute__((noinline)) double mean(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i] * v[i];
    return n ? sum / n : 0.0;
}
__attribute__((noinline)) int chosen(int which, char *into) {
    switch (which) {
        case 0: return atoi(into);
        case 1: strcpy(into, "one"); return 1;
        case 2: return (int)strlen(into);
        case 3: memset(into, 0, 999); return 3;
        case 4: __asm__("lock; incl %0" : "+m"(*(int *)into)); return 4;
        case 5: __asm__("rep movsb\n\tcpuid\n\tpause\n\tcrc32q %%rax, %%rax" ::: "rax","rbx","rcx","rdx","rsi","rdi"); return 5;
        default: return chosen(which - 6, into) + 1;
    }
}
static int by_size(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int count, char **words) {
    int all[] = {3, 1, count};
    struct place here = {1, 2, "here"};
    qsort(all, 3, sizeof *all, by_size);
    printf("%d %f %lu\n", chosen(count, here.name), mean(&here.x, 2), divide((word)count, 3));
    return all[0];
}
"#;

fn not_run(why: &str) {
    println!("NOT RUN: {why}");
}

/// An instruction as objdump shows it: address, mnemonic with prefixes, operands.
struct Line {
    address: u64,
    mnemonic: String,
    operands: String,
}

const PREFIXES: [&str; 10] = ["lock", "rep", "repz", "repe", "repnz", "bnd", "notrack", "data16", "cs", "ds"];

fn objdump(program: &Path, syntax: Syntax) -> Option<Vec<Line>> {
    let flavour = if syntax == Syntax::Att { "att" } else { "intel" };
    let arguments = ["-d", "-w", "-z", "--no-show-raw-insn", "-M", flavour, "-j", ".text"];
    let output = Command::new("objdump").args(arguments).arg(program).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let (address, rest) = line.split_once(":\t")?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        // What stands behind is the name of an address.
        let rest = rest.split(" # ").next()?.split(" <").next()?.trim();
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let prefixes = words.iter().take_while(|word| PREFIXES.contains(*word)).count();
        let name = (prefixes + 1).min(words.len());
        let operands = words.split_off(name).join(" ");
        Some(Line { address, mnemonic: words.join(" "), operands })
    };
    Some(text.lines().filter_map(line).collect())
}

/// The assemblers' other names of one instruction.
fn usual(mnemonic: &str) -> String {
    let words = mnemonic.split_whitespace().filter(|word| !["bnd", "notrack", "data16", "cs", "ds"].contains(word));
    let name = |word: &str| {
        let word = match word {
            "repz" | "repe" => "rep",
            "movabs" | "movabsq" => "mov",
            "xchgw" | "xchg" => "nop",
            "cltq" | "cdqe" | "cltd" | "cdq" | "cqto" | "cqo" | "cwtl" | "cwde" => "extend",
            "movsbl" | "movsbw" | "movsbq" | "movswl" | "movswq" | "movslq" | "movsxd" => "movsx",
            "movzbl" | "movzbw" | "movzbq" | "movzwl" | "movzwq" => "movzx",
            "ud2a" => "ud2",
            other => other,
        };
        word.to_owned()
    };
    words.map(name).collect::<Vec<_>>().join(" ")
}

/// Whether both are one instruction; one may have the size that an operand tells, too.
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (usual(one), usual(other));
    let is_sized = |sized: &str, name: &str| matches!(sized.strip_prefix(name), Some("b" | "w" | "l" | "q"));
    one == other || is_sized(&one, &other) || is_sized(&other, &one)
}

fn compare(program: &Path, syntax: Syntax, most: usize) {
    let Some(lines) = objdump(program, syntax) else { return not_run("no objdump") };
    assert!(lines.len() > 20, "{} instructions", lines.len());
    let object = Object::open(program).unwrap();
    let mut disassembler = Disassembler::new(&object, syntax);
    let (mut at, mut compared) = (0, 0);
    while at < lines.len() && compared < most {
        let Some(range) = disassembler.function_at(lines[at].address) else {
            at += 1;
            continue;
        };
        // objdump begins anew at a symbol, and after code that it could not follow.
        if range.start != lines[at].address {
            at += 1;
            continue;
        }
        let expected: Vec<&Line> = lines[at..].iter().take_while(|line| line.address < range.end).collect();
        let found = disassembler.instructions(range.clone());
        at += expected.len();
        compared += expected.len();
        let addresses = |found: &[Disassembled]| found.iter().map(|one| one.address).collect::<Vec<_>>();
        assert_eq!(addresses(&found), expected.iter().map(|line| line.address).collect::<Vec<_>>(), "{range:x?}");
        for (found, expected) in found.iter().zip(expected) {
            let shown =
                format!("{:x}: {} {} is not {}", found.address, found.mnemonic, found.operands, expected.mnemonic);
            assert!(is_same(&found.mnemonic, &expected.mnemonic), "{shown} {}", expected.operands);
            // Jumps and calls lead to the same address.
            if expected.mnemonic.starts_with('j') && !expected.operands.contains(['*', '[']) {
                let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
                assert_eq!(address(&found.operands), address(&expected.operands), "{shown} {}", expected.operands);
            }
        }
    }
    assert!(compared > 20, "{compared} instructions compared");
}

#[test]
fn instructions_are_those_of_objdump() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("d.c"), folder.path().join("d"));
    std::fs::write(&source, PROGRAM).unwrap();
    for options in [&["-O2"][..], &["-O0"], &["-O3", "-mavx2"], &["-O2", "-fcf-protection=full"]] {
        let built = Command::new("cc").args(options).arg("-o").args([&program, &source]).status();
        if !built.is_ok_and(|status| status.success()) {
            return not_run("no C compiler");
        }
        for syntax in [Syntax::Att, Syntax::Intel] {
            compare(&program, syntax, usize::MAX);
        }
    }
}

/// Instructions of a large program that are compared.
const MOST: usize = 20_000;

/// A program of the system, without symbols.
#[test]
fn instructions_of_stripped_programs_are_those_of_objdump() {
    for program in ["/usr/bin/xz", "/usr/bin/bzip2", "/bin/bash"] {
        match Path::new(program).exists() {
            true => compare(Path::new(program), Syntax::Att, MOST),
            false => not_run(program),
        }
    }
}

/// What is called has its name: by the linkage table in both of its forms, in the file itself, and after a jump.
#[test]
fn callees_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("d.c"), folder.path().join("d"));
    std::fs::write(&source, PROGRAM).unwrap();
    for options in [&["-O2", "-fplt"][..], &["-O2", "-fno-plt"], &["-O2", "-fcf-protection=full", "-Wl,-z,now"]] {
        let built = Command::new("cc").args(options).arg("-o").args([&program, &source]).status();
        if !built.is_ok_and(|status| status.success()) {
            return not_run("no C compiler");
        }
        let object = Object::open(&program).unwrap();
        let mut disassembler = Disassembler::new(&object, Syntax::Att);
        let mut targets = |function: &str| {
            let name = object.function_names().into_iter().find(|name| &*name.name == function).unwrap();
            let range = disassembler.function_at(name.address).unwrap();
            assert_eq!(range, name.address..name.address + name.size);
            disassembler.instructions(range).into_iter().filter_map(|one| one.target).collect::<Vec<_>>()
        };
        let main = targets("main");
        for callee in ["qsort", "mean", "divide", "chosen"] {
            assert!(main.iter().any(|target| target == callee), "{options:?}: {callee} is not among {main:?}");
        }
        let chosen = targets("chosen");
        assert!(chosen.iter().any(|target| target == "strlen" || target == "strtol"), "{options:?}: {chosen:?}");
    }
}
