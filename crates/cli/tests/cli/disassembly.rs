//! Instructions of functions with their time: against objdump, and a program whose hot instruction is known.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use predicates::prelude::*;
use serde_json::Value;
use transect_testkit::judged;

use crate::command::Sandbox;
use crate::forever::{built, not_run};

/// Nearly all time is in one division, which each step waits for. `scaled` is inlined, the sleep is called.
const DIVIDES: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static inline __attribute__((always_inline)) unsigned long scaled(unsigned long by, unsigned long x) {
    return (x / by) ^ 0xfffffffffffffff1ul;
}
__attribute__((noinline)) unsigned long hot(unsigned long steps, unsigned long by) {
    unsigned long x = ~0ul;
    for (unsigned long i = 0; i < steps; i++)
        x = scaled(by, x);
    return x;
}
__attribute__((noinline)) void waits(void) {
    usleep(150000);
}
int main(int count, char **words) {
    unsigned long x = hot(strtoul(words[1], 0, 10), count + 1);
    waits();
    return x == 17;
}
"#;

const STEPS: &str = "60000000";

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let all = [&["report", "p.transect", "--view", "annotate", "--format", "json"], arguments].concat();
    let output = sandbox.transect(&all).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

fn rows(view: &Value) -> &[Value] {
    view["annotate"]["instructions"].as_array().unwrap()
}

fn sum(rows: &[Value], key: &str) -> i64 {
    rows.iter().map(|row| row[key].as_i64().unwrap()).sum()
}

/// Address and mnemonic of each instruction of a function, by objdump.
fn objdump(program: &Path, function: &str) -> Option<Vec<(u64, String)>> {
    let wanted = format!("--disassemble={function}");
    let output = Command::new("objdump").args([&wanted, "-w", "--no-show-raw-insn"]).arg(program).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let (address, rest) = line.split_once(":\t")?;
        let mnemonic = rest.split_whitespace().next()?.to_owned();
        Some((u64::from_str_radix(address.trim(), 16).ok()?, mnemonic))
    };
    Some(text.lines().filter_map(line).collect()).filter(|found: &Vec<_>| !found.is_empty())
}

fn recorded(sandbox: &Sandbox, options: &[&str]) -> bool {
    let Some(program) = built(sandbox, "divides", DIVIDES, options) else { return false };
    let run = ["record", "--quiet", "-o", "p.transect", "--", program.to_str().unwrap(), STEPS];
    sandbox.with_agent(&run).assert().code(0);
    true
}

#[test]
fn the_hot_instruction_is_the_division() {
    judged("the hot instruction", || {
        let sandbox = Sandbox::new();
        if !recorded(&sandbox, &["-O2"]) {
            return Ok(());
        }
        let view = json(&sandbox, &["--function", "hot", "--disassemble"]);
        let rows = rows(&view);
        let program = sandbox.path("divides");
        let Some(expected) = objdump(&program, "hot") else {
            not_run("no objdump");
            return Ok(());
        };
        let found: Vec<u64> = rows.iter().map(|row| row["address"].as_u64().unwrap()).collect();
        assert_eq!(found, expected.iter().map(|(address, _)| *address).collect::<Vec<_>>());
        let plain = |name: &str| name.trim_end_matches(['q', 'l']).to_owned();
        for (row, (_, mnemonic)) in rows.iter().zip(&expected) {
            assert_eq!(plain(row["mnemonic"].as_str().unwrap()), plain(mnemonic), "{row}");
        }
        // All of the time of the lines is at an instruction, line by line.
        assert_eq!(view["annotate"]["elsewhere_ns"], 0);
        let of_line = |rows: &[Value]| {
            let mut lines: BTreeMap<String, i64> = BTreeMap::new();
            for row in rows.iter().filter(|row| row["total_ns"].as_i64() != Some(0)) {
                *lines.entry(format!("{}:{}", row["file"], row["line"])).or_default() +=
                    row["total_ns"].as_i64().unwrap();
            }
            lines
        };
        assert_eq!(of_line(rows), of_line(view["annotate"]["lines"].as_array().unwrap()));
        // A sample lands on the instruction that runs, or on the one after it.
        let division = expected.iter().position(|(_, mnemonic)| mnemonic.starts_with("div")).unwrap();
        let hottest = rows.iter().position(|row| row["hottest"] == true).unwrap();
        if !(division..=division + 1).contains(&hottest) {
            return Err(format!("{} is the hottest", rows[hottest]));
        }
        let near = &rows[division..=division + 1];
        let (self_ns, all) = (sum(near, "self_ns"), sum(rows, "self_ns"));
        let samples = sum(near, "samples");
        if self_ns * 10 < all * 8 || samples * 10 < sum(rows, "samples") * 8 || samples < 20 {
            return Err(format!("{self_ns} ns of {all} and {samples} samples are at the division"));
        }
        // The inlined function has the instructions that are its own, in the function that holds them.
        let inlined = json(&sandbox, &["--function", "scaled", "--disassemble=intel"]);
        let own = self::rows(&inlined);
        assert!(own.len() < rows.len() && own.iter().any(|row| row["mnemonic"] == "div"), "{own:?}");
        assert!(own.iter().all(|row| row["symbol"] == "hot" && row["line"].as_i64() == Some(5)), "{own:?}");
        Ok(())
    });
}

#[test]
fn calls_have_their_callees_and_the_time_in_them() {
    judged("calls and their time", || {
        let sandbox = Sandbox::new();
        if !recorded(&sandbox, &["-O2", "-fno-optimize-sibling-calls"]) {
            return Ok(());
        }
        let view = json(&sandbox, &["--function", "waits", "--disassemble"]);
        let call = rows(&view).iter().find(|row| row["target"] == "usleep").expect("the call");
        let blocked = call["blocked_ns"].as_i64().unwrap();
        if !(140_000_000..400_000_000).contains(&blocked) {
            return Err(format!("{call} waited"));
        }
        assert_eq!(call["self_ns"], 0, "it is in the called function");
        let main = json(&sandbox, &["--function", "main", "--disassemble"]);
        let total = |target: &str| rows(&main).iter().find(|row| row["target"] == target).unwrap()["total_ns"].clone();
        assert!(total("waits").as_i64().unwrap() >= blocked);
        assert!(total("hot").as_i64().unwrap() > 10_000_000);
        // The same rows as a table.
        let csv =
            ["report", "p.transect", "--view", "annotate", "--function", "main", "--disassemble", "--format", "csv"];
        let csv = String::from_utf8(sandbox.transect(&csv).output().unwrap().stdout).unwrap();
        assert!(
            csv.starts_with("component,symbol,address,mnemonic,operands,target,file,line,samples,self_ns,total_ns")
        );
        assert_eq!(csv.lines().count(), rows(&main).len() + 1);
        Ok(())
    });
}

#[test]
fn instructions_without_lines_and_of_changed_files() {
    let sandbox = Sandbox::new();
    // Without debug information.
    if !recorded(&sandbox, &["-O2", "-g0"]) {
        return;
    }
    let view = ["report", "p.transect", "--view", "annotate", "--function", "hot", "--disassemble"];
    for columns in ["80", "120", "200"] {
        let shown = sandbox.transect(&view).env("COLUMNS", columns).output().unwrap().stdout;
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("▶ ") && shown.contains("div "), "{shown}");
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{columns}: {shown}");
    }
    sandbox.transect(&["report", "p.transect", "--view", "hot", "--disassemble"]).assert().code(2);
    // Another program of the same name, then none.
    let program = sandbox.path("divides");
    let changed = DIVIDES.replace("0xfffffffffffffff1ul", "0xfffffffffffffff3ul");
    if built(&sandbox, "divides", &changed, &["-O2", "-g0"]).is_none() {
        return;
    }
    let why = predicate::str::contains("has changed since the recording (build-id")
        .and(predicate::str::contains("record again"));
    sandbox.transect(&view).assert().code(1).stdout("").stderr(why);
    std::fs::remove_file(&program).unwrap();
    let why = predicate::str::contains("cannot read").and(predicate::str::contains("put back the recorded file"));
    sandbox.transect(&view).assert().code(1).stdout("").stderr(why);
    // A program for another machine at its path.
    let mut header = vec![0_u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (header[16], header[18], header[20]) = (2, 183, 1);
    std::fs::write(&program, header).unwrap();
    let why = predicate::str::contains("there is no disassembler").and(predicate::str::contains("AArch64"));
    sandbox.transect(&view).assert().code(1).stdout("").stderr(why);
    // The lines are there all the same.
    sandbox.transect(&view[..view.len() - 1]).assert().success();
}
