//! Compiles the BPF programs with clang and generates their Rust bindings: maps, programs and the types they share.
use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Where libbpf-sys put the headers of the libbpf that it built.
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    println!("cargo:rerun-if-changed=bpf");
    // The second is for the tests of user stacks only.
    for name in ["sched_criticality", "unwind_test"] {
        let source = format!("bpf/{name}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", &format!("-I{headers}")])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| panic!("compiling {source} (needs clang): {error:#}"));
    }
    state_machine_for_tests(&out);
}

/// The state machine also compiles for user space, where tests drive it; only they are linked with it.
fn state_machine_for_tests(out: &Path) {
    println!("cargo:rerun-if-changed=tests/sched_state/machine.c");
    cc::Build::new()
        .file("tests/sched_state/machine.c")
        .include("bpf")
        .opt_level(2)
        .warnings_into_errors(true)
        .extra_warnings(false)
        .cargo_metadata(false)
        .compile("sched_state_machine");
    println!("cargo:rustc-link-arg-tests={}", out.join("libsched_state_machine.a").display());
}
