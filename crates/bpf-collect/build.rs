//! Compiles the BPF programs with clang and generates their Rust bindings: maps, programs and the types they share.
use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Where libbpf-sys put the headers of the libbpf that it built.
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    println!("cargo:rerun-if-changed=bpf");
    // The last is for the tests of user stacks only.
    for name in ["sched_criticality", "function_time", "region_events", "unwind_test"] {
        let source = format!("bpf/{name}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{name}.o")))
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", &format!("-I{headers}")])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| panic!("compiling {source} (needs clang): {error:#}"));
    }
    for_user_space("sched_state", "machine.c", &out);
    for_user_space("sched_programs", "kernel.c", &out);
}

/// State machine and programs also compile for user space, where tests drive them; only tests are linked with that.
fn for_user_space(test: &str, source: &str, out: &Path) {
    let folder = Path::new("tests").join(test);
    println!("cargo:rerun-if-changed={}", folder.display());
    cc::Build::new()
        .file(folder.join(source))
        .include(folder.join("headers"))
        .include("bpf")
        .std("gnu11")
        .opt_level(2)
        .warnings(false)
        .flag_if_supported("-Wno-unknown-pragmas")
        .flag_if_supported("-Wno-unknown-attributes")
        .cargo_metadata(false)
        .compile(test);
    println!("cargo:rustc-link-arg-tests={}", out.join(format!("lib{test}.a")).display());
}
