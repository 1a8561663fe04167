//! The header, the structures and the symbols are one interface.

mod support;

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::process::Command;

use support::{run, stage};
use transect::ffi::*;

macro_rules! offsets {
    ($($c:literal = $rust:ty { $($field:ident),* $(,)? })*) => {
        vec![$($((concat!("struct ", $c), stringify!($field), offset_of!($rust, $field)),)*)*]
    };
}

#[test]
fn fields_stand_where_the_header_says_in_c_and_cpp() {
    let expected = offsets! {
        "transect_options" = TransectOptions {
            site_size, registers_size, full_context_size, handler_options_size, times_size, refusal_size, access, method,
            signal, patience_ms, allow_blocked, reserved,
        }
        "transect_site" = TransectSite {
            id, provider, event, state, active, exit_observable, address, function_address, function_size, function,
            symbol, component, path, name, file, line, window_length, reserved,
        }
        "transect_registers" = transect_probe::descriptor::Registers {
            rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, probe, return_address,
        }
        "transect_full_context" = transect_probe::descriptor::FullContext { rflags, rbx, r12, r13, r14, r15, rsp }
        "transect_handler_options" = TransectHandlerOptions { tier, reserved, enter, exit, data }
        "transect_times" = TransectTimes { calls, timed, total_ns, mean_ns, p50_ns, p90_ns, p99_ns, max_ns }
        "transect_refusal" = TransectRefusal { function, component, reason, function_address, status }
        "transect_word_patch" = TransectWordPatch { address, moved, old_bytes, new_bytes, length }
        "transect_window" = TransectWindow { address, length, starts, old_bytes, new_bytes, moves }
        "transect_batch_report" = TransectBatchReport { written, already, moved, trapped, ticks }
    };
    let mut source = "#include <stdio.h>\n#include <transect.h>\nint main(void) {\n".to_owned();
    for (structure, field, _) in &expected {
        source += &format!("printf(\"%zu\\n\", offsetof({structure}, {field}));\n");
    }
    source += "return 0;\n}\n";
    for (compiler, standard, suffix) in [
        ("gcc", "-std=c11", "c"),
        ("g++", "-std=c++17", "cpp"),
        ("clang", "-std=c11", "c"),
        ("clang++", "-std=c++17", "cpp"),
    ] {
        if compiler.starts_with("clang") && !support::has(compiler) {
            continue;
        }
        let file = support::scratch().join(format!("offsets-{compiler}-{}.{suffix}", std::process::id()));
        std::fs::write(&file, &source).unwrap();
        let program = file.with_extension("out");
        let include = format!("-I{}", stage().join("include").display());
        let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
        run(Command::new(compiler).arg(standard).args(strict).arg(include).arg(&file).arg("-o").arg(&program));
        let output = run(&mut Command::new(program));
        let found: Vec<usize> =
            String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        for ((structure, field, offset), found) in expected.iter().zip(found) {
            assert_eq!(*offset, found, "{structure}.{field} in {compiler}");
        }
    }
}

fn defined(arguments: &[&str], file: &str) -> BTreeSet<String> {
    let output = run(Command::new("nm").args(arguments).arg(stage().join("lib").join(file)));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned))
        .collect()
}

#[test]
fn what_is_declared_is_exported_and_nothing_else() {
    let header = std::fs::read_to_string(support::here().join("include/transect.h")).unwrap();
    let mut declared: BTreeSet<String> = BTreeSet::new();
    let mut in_comment = false;
    for line in header.lines() {
        in_comment |= line.trim_start().starts_with("/*");
        if !in_comment
            && let Some((before, _)) = line.split_once('(')
            && let Some(name) = before.rsplit([' ', '*']).next()
            && name.starts_with("transect_")
            && !line.contains("typedef")
        {
            declared.insert(name.to_owned());
        }
        in_comment &= !line.contains("*/");
    }
    assert!(declared.len() > 30, "{declared:?}");
    declared.extend(["__cyg_profile_func_enter", "__cyg_profile_func_exit"].map(str::to_owned));
    assert_eq!(defined(&["-D", "--defined-only"], "libtransect.so"), declared);
    assert_eq!(defined(&["-g", "--defined-only"], "libtransect.a"), declared);
}

#[test]
fn the_shared_library_has_its_soname_and_needs_little() {
    let output = run(Command::new("readelf").arg("-dW").arg(stage().join("lib/libtransect.so")));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("[libtransect.so.1]"), "{text}");
    for line in text.lines().filter(|line| line.contains("(NEEDED)")) {
        assert!(
            ["libc.so.6", "libgcc_s.so.1", "ld-linux", "libm.so.6"].iter().any(|name| line.contains(name)),
            "{line}"
        );
    }
}

#[test]
fn every_status_has_its_words_in_header_and_library() {
    let header = std::fs::read_to_string(support::here().join("include/transect.h")).unwrap();
    let numbers: BTreeSet<i32> = header
        .lines()
        .filter_map(|line| {
            let (name, number) = line.trim().split_once(" = ")?;
            (name == "TRANSECT_OK" || name.starts_with("TRANSECT_ERROR_"))
                .then(|| number.trim_end_matches(',').parse().unwrap())
        })
        .collect();
    let known: BTreeSet<i32> = transect::Status::ALL.iter().map(|status| status.code()).collect();
    assert_eq!(numbers, known);
    for code in known {
        assert_ne!(transect::Status::text_of(code), c"unknown status");
    }
    assert_eq!(transect::Status::text_of(-999), c"unknown status");
}
