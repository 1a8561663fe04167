//! Use by LD_PRELOAD, without code: reports; and real programs with all their functions probed and toggled at random.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::{has, run, scratch, stage};

fn file(name: &str) -> PathBuf {
    let path = scratch().join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn probed(probes: &str, output: &Path, command: &[&str], more: &[(&str, &str)]) -> Output {
    let mut run = Command::new("env");
    run.arg(format!("LD_PRELOAD={}", stage().join("lib/libtransect.so").display()));
    run.arg(format!("TRANSECT_PROBES={probes}")).arg(format!("TRANSECT_OUTPUT={}", output.display()));
    run.args(more.iter().map(|(name, value)| format!("{name}={value}"))).args(command).output().unwrap()
}

/// Calls of `function` in a report's lines.
fn calls(report: &str, function: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.trim_end().ends_with(&format!(" {function}")))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_report_is_written_at_exit_and_the_program_is_as_before() {
    let out = file("report");
    let script = "x=0; for i in 1 2 3 4 5; do x=$((x+i)); done; echo $x; exit 3";
    let output = probed("libc.so.6:malloc,bash:execute_*", &out, &["bash", "-c", script], &[]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"15\n");
    assert_eq!(output.stderr, b"");
    let report = std::fs::read_to_string(&out).unwrap();
    assert!(calls(&report, "malloc in libc.so.6").is_some_and(|n| n > 100), "{report}");
    assert!(report.contains("total_ns"), "{report}");
    let out = file("counts");
    probed("libc.so.6:malloc", &out, &["bash", "-c", script], &[("TRANSECT_MODE", "count")]);
    assert!(!std::fs::read_to_string(&out).unwrap().contains("total_ns"));
}

#[test]
fn children_report_for_themselves_unless_they_are_left_out() {
    let script = "(echo inner); bash -c 'echo child'; true";
    for (children, reports) in [("1", 2), ("0", 1)] {
        let folder = scratch().join(format!("children-{children}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let output =
            probed("libc.so.6:malloc", &folder.join("%p"), &["bash", "-c", script], &[("TRANSECT_CHILDREN", children)]);
        assert_eq!(output.stdout, b"inner\nchild\n");
        let count = std::fs::read_dir(&folder).unwrap().count();
        // A subshell is a fork's child, and reports too where it leaves by exit; a program that it starts is another.
        assert!(if children == "1" { count >= reports } else { count <= 2 }, "{children}: {count}");
    }
}

#[test]
fn mistakes_are_told_and_do_no_harm() {
    for (probes, words) in [("no_such_library:*", "0 sites"), ("bash:[", ""), ("!only", "chooses no function")] {
        let out = file("mistake");
        let output = probed(probes, &out, &["bash", "-c", "echo fine"], &[]);
        assert!(output.status.success());
        assert_eq!(output.stdout, b"fine\n");
        assert!(std::fs::read_to_string(&out).unwrap().contains(words), "{probes}");
    }
    let output = probed("libc.so.6:malloc", Path::new("/no/such/folder/x"), &["bash", "-c", "echo fine"], &[]);
    assert_eq!((output.stdout, output.stderr), (b"fine\n".to_vec(), Vec::new()));
}

/// The preload library that toggles everything at random.
fn stress() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let library = scratch().join("stress.so");
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-O2", "-g", "-w", "-shared", "-fPIC"]);
        gcc.arg(format!("-I{}", stage().join("include").display()));
        gcc.arg(support::here().join("tests/programs/stress.c")).arg("-o").arg(&library);
        gcc.arg(stage().join("lib/libtransect.a")).args(["-lgcc_s", "-lm"]);
        support::made_of_programs(&scratch().join("stress.made"), || drop(run(&mut gcc)));
        library
    };
    BUILT.get_or_init(build).clone()
}

/// Runs `command` as it is and with all functions probed and toggled at random: the same output, and the text back as in
/// the files.
fn survives(name: &str, command: &[&str]) {
    if !has(command[0]) {
        return;
    }
    let plain = Command::new(command[0]).args(&command[1..]).output().unwrap();
    let out = file(&format!("stress-{name}"));
    let mut env = Command::new("timeout");
    env.args(["300", "env"]).arg(format!("LD_PRELOAD={}", stress().display()));
    let probed = env.arg(format!("STRESS_OUTPUT={}", out.display())).args(command).output().unwrap();
    let results = std::fs::read_to_string(&out).unwrap_or_default();
    assert_eq!(plain.status, probed.status, "{results}");
    assert_eq!(String::from_utf8_lossy(&plain.stdout), String::from_utf8_lossy(&probed.stdout), "{results}");
    assert_eq!(String::from_utf8_lossy(&plain.stderr), String::from_utf8_lossy(&probed.stderr), "{results}");
    assert!(!results.is_empty() && results.lines().all(|line| line.starts_with("ok ")), "{results}");
    println!("{name}: {results}");
}

#[test]
fn bash_survives_probes_on_all_functions() {
    let work = support::here().join("tests/programs/work.sh");
    survives("bash", &["bash", work.to_str().unwrap(), transect_testkit::sized("1000", "20000")]);
}

#[test]
fn python_survives_probes_on_all_functions() {
    let work = support::here().join("tests/programs/work.py");
    survives("python", &["/usr/bin/python3", work.to_str().unwrap()]);
}

#[test]
fn git_survives_probes_on_all_functions() {
    // A repository of its own: others may change.
    let tree = scratch().join(format!("repository-{}", std::process::id()));
    let text = tree.to_str().unwrap();
    let script =
        "set -e; rm -rf \"$0\"; git init -q \"$0\"; cd \"$0\"; git config user.name t; git config user.email t@t
                  for i in $(seq 10); do seq $((i * 37)) >f$((i % 7)); git add .; git commit -qm \"change $i\"; done";
    run(Command::new("bash").args(["-c", script, text]));
    survives("git", &["git", "-C", text, "log", "-p", "--stat", "--format=%s"]);
}

#[test]
fn sqlite_survives_probes_on_all_functions() {
    let query = "with recursive c(x) as (select 1 union all select x+1 from c where x<50000)
                 select sum(x), count(*), avg(x*1.5), group_concat(substr(hex(x),1,1)) from c where x % 97 = 0;";
    survives("sqlite", &["sqlite3", ":memory:", query]);
}
