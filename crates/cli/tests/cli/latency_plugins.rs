//! `transect latency` on a program that loads a plugin again and again: it needs ptrace, a C compiler, and the probe agent.

use std::io::Write;
use std::process::Command;
use std::time::Instant;

use predicates::prelude::*;
use transect_testkit::judged;

use crate::command::{Sandbox, place_probe_agent};

const LOADS: u32 = 1_000;

const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < atoi(argv[2]); i++) {
        void *plugin = dlopen(argv[1], RTLD_NOW);
        if (!plugin) return 1;
        sum = ((int (*)(int))dlsym(plugin, "plug"))(sum);
        dlclose(plugin);
    }
    printf("%d\n", sum);
    return argc - 3;
}
"#;

#[test]
fn a_plugin_that_comes_again_and_again_is_left_alone_needs_ptrace() {
    let sandbox = Sandbox::new();
    let (source, plugin) =
        (sandbox.write("main.c", PROGRAM), sandbox.write("plug.c", "int plug(int x) { return x + 1; }"));
    let (program, library) = (sandbox.path("main"), sandbox.path("plug.so"));
    let built = [
        Command::new("cc").args(["-O1", "-fPIC", "-shared", "-o"]).arg(&library).arg(plugin).status(),
        Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).arg("-ldl").status(),
    ];
    if !built.into_iter().all(|status| status.is_ok_and(|status| status.success())) {
        let _ = writeln!(std::io::stderr(), "NOT RUN: plugins: no C compiler");
        return;
    }
    place_probe_agent();
    let (program, library, loads) = (program.to_str().unwrap(), library.to_str().unwrap(), LOADS.to_string());
    judged("loading a plugin under latency", || {
        let begin = Instant::now();
        assert!(Command::new(program).args([library, &loads]).status().unwrap().success());
        let native = begin.elapsed();
        let _ = std::fs::remove_dir_all(sandbox.path("p.transect"));
        let begin = Instant::now();
        let output = sandbox.transect(&["latency", "-q", "-o", "p.transect", "--", program, library, &loads]).output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).trim()), (Some(0), &*loads));
        let under = begin.elapsed();
        // The start and the first loads, with their probes, take some tenths of a second.
        let bound = native * 3 + std::time::Duration::from_millis(700);
        if under <= bound { Ok(()) } else { Err(format!("{under:?} where the program alone takes {native:?}")) }
    });
    let said = predicate::str::contains("plug.so").and(predicate::str::contains("again and again"));
    let loss = ["report", "p.transect", "--view", "loss", "--format", "json"];
    sandbox.transect(&loss).assert().success().stdout(said);
}
