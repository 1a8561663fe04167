//! `transect probe` on USDT points of a program that counts itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command as Process, Stdio};

use serde_json::Value;

use crate::command::Sandbox;
use crate::probing::image_is_built;

/// A point in a loop, one that begins its function, one behind a semaphore; written out, so that no sys/sdt.h is needed.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define POINT(name, semaphore, value)                                                              \
    __asm__ volatile("990: nop\n"                                                                   \
                     ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                   \
                     ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                                   \
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n"                                     \
                     "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n"               \
                     ".asciz \"shop\"\n.asciz \"" name "\"\n.asciz \"8@%0\"\n"                      \
                     "994: .balign 4\n.popsection\n"                                                \
                     ".ifndef _.stapsdt.base\n"                                                     \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"         \
                     ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                \
                     "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n"      \
                     ::"nor"(value))
volatile unsigned short shop_audit_semaphore __attribute__((section(".probes"), used));
__attribute__((noinline, noclone)) long sell(long x) {
    POINT("sell", "0", x);
    return x * 123456789 + 5;
}
__attribute__((noinline, noclone)) long audit(long x) {
    long y = x * 987654321 + 7;
    POINT("audit", "shop_audit_semaphore", y);
    return y * 123456789 + 5;
}
__attribute__((noinline, noclone)) long serve(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        sum += i * sum + 3;
        POINT("item", "0", sum);
        sum ^= 0x1234567;
        if (shop_audit_semaphore && i % 3 == 0) sum += audit(i);
        if (i % 10 == 0) sum += sell(i);
    }
    return sum;
}
int main(int argc, char **argv) {
    long n = atol(argv[1]);
    // One line a pass: whether somebody listens.
    for (char line[80]; argc > 2 && fgets(line, 80, stdin);) serve(n), printf("%d\n", shop_audit_semaphore), fflush(stdout);
    return serve(n) == 12345 ? 1 : shop_audit_semaphore ? 7 : 6;
}
"#;

fn sandbox() -> Option<Sandbox> {
    if !image_is_built() {
        return None;
    }
    let sandbox = Sandbox::new();
    let source = sandbox.write("shop.c", PROGRAM);
    let mut compiler = Process::new("gcc");
    let compiled = compiler.args(["-O2", "-fcf-protection=none", "-o"]).arg(sandbox.path("stall")).arg(source);
    assert!(compiled.status().unwrap().success());
    Some(sandbox)
}

/// Runs the program under a command and gives the rows.
fn rows(sandbox: &Sandbox, action: &str, pattern: &str, status: i32) -> Vec<Value> {
    let file = sandbox.path("out.json");
    let arguments = ["probe", action, pattern, "--format", "json", "--output"];
    sandbox.transect(&arguments).arg(&file).args(["--", "./stall", "30000"]).assert().code(status);
    let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    json["probes"].as_array().unwrap().clone()
}

#[test]
fn passes_of_points_are_counted_exactly() {
    let Some(sandbox) = sandbox() else { return };
    for (pattern, name, calls, status) in [
        ("shop:item", "shop:item", 30000, 6),
        ("stall:shop:item", "shop:item", 30000, 6),
        ("shop:sell", "shop:sell", 3000, 6),
        // The program sees that somebody listens.
        ("sh*:/^aud/", "shop:audit", 10000, 7),
    ] {
        let rows = rows(&sandbox, "count", pattern, status);
        assert_eq!(rows.len(), 1, "{pattern}: {rows:#?}");
        assert_eq!((rows[0]["name"].as_str(), rows[0]["calls"].as_u64()), (Some(name), Some(calls)), "{rows:#?}");
    }
    assert_eq!(rows(&sandbox, "count", "shop:*", 7).len(), 3);
}

#[test]
fn a_function_that_begins_with_a_point_is_timed() {
    let Some(sandbox) = sandbox() else { return };
    for pattern in ["stall:sell", "shop:sell"] {
        let rows = rows(&sandbox, "time", pattern, 6);
        assert_eq!(rows.len(), 1, "{rows:#?}");
        let row = &rows[0];
        assert_eq!((row["function"].as_str(), row["event"].as_str()), (Some("sell"), Some("entry")));
        assert_eq!((row["calls"].as_u64(), row["samples"].as_u64()), (Some(3000), Some(3000)), "{row:#}");
        assert!(row["total_ns"].as_i64().is_some(), "{row:#}");
    }
    // A point elsewhere has no end to time: it is counted, and told why.
    let rows = rows(&sandbox, "time", "shop:item", 6);
    assert_eq!((rows[0]["calls"].as_u64(), rows[0]["samples"].as_u64()), (Some(30000), Some(0)), "{rows:#?}");
    assert!(rows[0]["reason"].as_str().unwrap().contains("not a function's entry"), "{rows:#?}");
}

#[test]
fn a_point_that_does_not_exist_has_near_names() {
    let Some(sandbox) = sandbox() else { return };
    for (pattern, words) in [
        ("shop:itme", "no USDT point matches 'shop:itme'; did you mean shop:item"),
        ("shp:sell", "no USDT point matches 'shp:sell'; did you mean shop:sell?"),
        ("stall:shop:nothing", "no USDT point matches 'stall:shop:nothing'; did you mean shop:"),
    ] {
        let output = sandbox.transect(&["probe", "count", pattern, "--", "./stall", "3"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{pattern}: {text}");
        assert!(text.contains(words), "{pattern}: {text}");
    }
}

#[test]
fn semaphores_are_raised_for_as_long_as_somebody_counts() {
    let Some(sandbox) = sandbox() else { return };
    let mut program = Process::new(sandbox.path("stall"));
    let mut child = program.args(["300", "x"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    let mut listened = move || {
        writeln!(input).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line.trim() != "0"
    };
    assert!(!listened());
    let pid = child.id().to_string();
    let file = sandbox.path("out.json");
    let arguments = ["probe", "count", "-p", &pid, "shop:*", "--for", "2s", "--format", "json", "--output"];
    let mut command = sandbox.transect(&arguments);
    command.arg(&file);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| command.output().unwrap());
        let mut heard = 0;
        while !counting.is_finished() {
            heard += u64::from(listened());
        }
        assert!(counting.join().unwrap().status.success() && heard > 0);
        let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let rows = json["probes"].as_array().unwrap();
        let calls = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["calls"].as_u64().unwrap();
        // A hundred of 300 passes are audited, thirty sell; the first and the last run may be cut, and where the one who switches
        // loses its CPU between the two probes, one of them counts for some milliseconds more.
        let (items, audits) = (calls("shop:item"), calls("shop:audit"));
        assert!(audits > 0 && (items / 3).abs_diff(audits) <= 200 + items / 300, "{items} {audits}");
    });
    assert!(!listened(), "lowered again");
    // Left switched on it would not be: said instead.
    let output = sandbox.transect(&["probe", "enable", "-p", &pid, "shop:audit"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("semaphore"), "{text}");
    assert!(!listened());
    let _ = child.kill();
    let _ = child.wait();
}
