//! pprof files are read back by Google's own `pprof`.

use std::io::{Read, Write};

use crate::foreign_tool::read_with;
use crate::sample_profile;
use transect_profile_export::{Format, export};
use transect_profile_model::Profile;

fn exported(profile: &Profile) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    export(profile, Format::Pprof, &mut bytes).unwrap();
    let mut file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

/// Output of `go tool pprof args FILE`.
fn pprof(args: &[&str], profile: &Profile) -> Option<String> {
    let file = exported(profile);
    let path = file.path().to_str().unwrap();
    let args: Vec<&str> = ["tool", "pprof"].iter().chain(args).copied().chain([path]).collect();
    read_with("go", &args, b"")
}

#[test]
fn self_time_is_the_default_and_adds_up() {
    let Some(top) = pprof(&["-top", "-unit=ms"], &sample_profile::profile()) else { return };
    assert!(top.contains("Type: self"), "{top}");
    let total = sample_profile::SELF_SUM_NS / 1_000_000;
    assert!(top.contains(&format!("{total}ms total")), "{top}");
    let row = |name: &str| top.lines().find(|l| l.contains(name)).unwrap_or_else(|| panic!("{name}\n{top}")).to_owned();
    assert!(row("libz.so.1!deflate").trim_start().starts_with("1100ms"), "{top}");
    assert!(row("libc.so.6!memcpy").trim_start().starts_with("100ms"), "{top}");
    // Own code of the executable, and everything it called, below its name.
    let own = row("%  app");
    assert!(own.contains("2000ms"), "{own}");
}

#[test]
fn calls_are_exact() {
    let Some(top) = pprof(&["-top", "-sample_index=calls"], &sample_profile::profile()) else { return };
    let memcpy = top.lines().find(|l| l.contains("memcpy")).unwrap();
    assert!(memcpy.trim_start().starts_with("1000 "), "{top}");
    assert!(top.contains("1131 total"), "{top}");
}

#[test]
fn stacks_run_from_program_to_api() {
    let Some(traces) = pprof(&["-traces", "-unit=ms"], &sample_profile::profile()) else { return };
    let lines: Vec<&str> = traces.lines().map(str::trim).collect();
    let at = lines.iter().position(|l| l.contains("libc.so.6!memcpy")).unwrap_or_else(|| panic!("{traces}"));
    assert_eq!(&lines[at + 1..at + 4], ["libz.so.1", "main", "app"], "{traces}");
}

#[test]
fn threads_and_classes_are_tags() {
    let Some(tags) = pprof(&["-tags"], &sample_profile::profile()) else { return };
    for word in ["worker-1", "lock", "helper", "pid"] {
        assert!(tags.contains(word), "{word}\n{tags}");
    }
}

#[test]
fn build_ids_and_command_survive() {
    let Some(raw) = pprof(&["-raw"], &sample_profile::profile()) else { return };
    assert!(raw.contains("/lib/libz.so.1"), "{raw}");
    assert!(raw.contains("000000000000000000000000000000000000000e"), "{raw}");
    let Some(comments) = pprof(&["-comments"], &sample_profile::profile()) else { return };
    assert!(comments.contains("command: app --in=a b"), "{comments}");
}

#[test]
fn counts_only_opens_at_calls() {
    let Some(top) = pprof(&["-top"], &sample_profile::counts_only()) else { return };
    assert!(top.contains("Type: calls"), "{top}");
    assert!(top.contains("1131 total"), "{top}");
}

#[test]
fn compressed_and_reproducible() {
    let bytes = |file: tempfile::NamedTempFile| {
        let mut all = Vec::new();
        file.reopen().unwrap().read_to_end(&mut all).unwrap();
        all
    };
    let first = bytes(exported(&sample_profile::profile()));
    assert_eq!(&first[..2], [0x1f, 0x8b], "gzip");
    assert_eq!(first, bytes(exported(&sample_profile::profile())));
}
