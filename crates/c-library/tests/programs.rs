//! C and C++ programs that probe themselves.

mod support;

use std::process::Command;

use support::{Link, build, check, has, run};

#[test]
fn a_program_probes_its_own_function() {
    check(&build("gcc", "first.c", &[], Link::Shared), &[]);
}

#[test]
fn the_archive_serves_dynamic_and_static_programs() {
    check(&build("gcc", "first.c", &[], Link::Archive), &[]);
    check(&build("gcc", "first.c", &[], Link::Static), &[]);
    check(&build("gcc", "hooks.c", &["-finstrument-functions"], Link::Static), &[]);
}

#[test]
fn every_tier_sees_and_keeps_the_right_registers() {
    check(&build("gcc", "registers.c", &[], Link::Shared), &[]);
    check(&build("gcc", "registers.c", &["-O0"], Link::Shared), &[]);
    check(&build("gcc", "registers.c", &["-fcf-protection=full", "-mavx2"], Link::Shared), &[]);
}

#[test]
fn counts_are_exact_with_one_to_sixteen_threads() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["threads"]);
}

#[test]
fn four_threads_toggle_while_others_run() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["toggles"]);
}

#[test]
fn signal_handlers_toggle_at_one_kilohertz() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["signals"]);
}

#[test]
fn children_of_forks_under_toggling_are_usable() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["forks"]);
}

#[test]
fn longjmp_leaves_probed_functions() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["jumps"]);
}

#[test]
fn a_sigtrap_handler_of_the_programs_own_stays() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["sigtrap"]);
}

#[test]
fn a_policy_against_writable_code_is_kept() {
    check(&build("gcc", "life.c", &[], Link::Shared), &["mdwe"]);
}

#[test]
fn objects_come_and_go_under_toggling() {
    let program = build("gcc", "life.c", &[], Link::Shared);
    for (i, flag) in ["-O2", "-fpatchable-function-entry=5", "-finstrument-functions"].into_iter().enumerate() {
        let plugin = support::scratch().join(format!("plugin{i}-{}.so", std::process::id()));
        let source = support::here().join("tests/programs/plugin.c");
        run(Command::new("gcc").args(["-shared", "-fPIC", "-O2", flag]).arg(source).arg("-o").arg(&plugin));
        check(&program, &["dlclose", plugin.to_str().unwrap()]);
    }
}

#[test]
fn exceptions_cancellation_and_backtraces_pass_through_timed_functions() {
    check(&build("g++", "exceptions.cpp", &["-std=c++17"], Link::Shared), &[]);
    check(&build("g++", "exceptions.cpp", &["-std=c++17", "-static-libgcc"], Link::Shared), &[]);
}

#[test]
fn sites_made_by_compilers_are_switched_in_the_text() {
    for flags in [
        &["-fpatchable-function-entry=5"][..],
        &["-fpatchable-function-entry=7,2"],
        &["-fpatchable-function-entry=5", "-falign-functions=1"],
    ] {
        check(&build("gcc", "sleds.c", flags, Link::Shared), &["1"]);
    }
    check(&build("gcc", "sleds.c", &["-pg", "-mfentry", "-mnop-mcount", "-fno-pie", "-no-pie"], Link::Shared), &["2"]);
    let flags = ["-fxray-instrument", "-fxray-instruction-threshold=1"];
    if has("clang") && support::links("clang", &flags) {
        check(&build("clang", "sleds.c", &flags, Link::Shared), &["3"]);
    }
}

#[test]
fn calls_of_the_compilers_hooks_get_trampolines_of_their_own() {
    for flags in [&["-O0"][..], &["-O2"], &["-fno-plt"], &["-fno-pie", "-no-pie"], &["-fcf-protection=full"], &["-Os"]]
    {
        let flags: Vec<&str> = ["-finstrument-functions"].iter().chain(flags).copied().collect();
        check(&build("gcc", "hooks.c", &flags, Link::Shared), &[]);
    }
    if has("clang") {
        check(&build("clang", "hooks.c", &["-finstrument-functions"], Link::Shared), &[]);
    }
}

#[test]
fn words_calls_and_windows_are_patched_while_threads_run() {
    check(&build("gcc", "patches.c", &[], Link::Shared), &[]);
}

#[test]
fn programs_run_under_gdb() {
    if !has("gdb") {
        return;
    }
    let program = build("gcc", "life.c", &[], Link::Shared);
    for what in ["toggles", "jumps"] {
        let mut gdb = Command::new("timeout");
        gdb.args(["400", "gdb", "-q", "-batch", "-ex", "set debuginfod enabled off", "-ex", &format!("run {what}")]);
        let output = run(gdb.arg(&program));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("exited normally"), "{text}");
    }
}

#[test]
fn the_examples_build_with_pkg_config_and_run() {
    if !has("pkg-config") {
        return;
    }
    let out = support::scratch().join(format!("examples-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(support::here().join("examples")).arg(format!("OUT={}", out.display()));
    run(make.env("PKG_CONFIG_PATH", support::stage().join("lib/pkgconfig")));
    let output = run(Command::new(out.join("self_instrumentation")).args(["3", "0.1"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("mean"));
    let output = run(&mut Command::new(out.join("watch_class")));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("shop::Cart::total() const") && text.contains("the handler saw 499500"), "{text}");
}
