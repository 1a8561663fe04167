use predicates::prelude::*;

use crate::command::Sandbox;

const SUBCOMMANDS: [&str; 11] =
    ["run", "record", "latency", "influence", "report", "export", "view", "top", "doctor", "completions", "man"];

#[test]
fn every_subcommand_has_help_with_examples() {
    let sandbox = Sandbox::new();
    for subcommand in SUBCOMMANDS {
        let example = predicate::str::contains(format!("Examples:\n  transect {subcommand}"));
        sandbox.transect(&[subcommand, "--help"]).assert().success().stdout(example).stderr("");
    }
}

#[test]
fn help_fits_a_hundred_columns() {
    let sandbox = Sandbox::new();
    for subcommand in SUBCOMMANDS {
        let output = sandbox.transect(&["help", subcommand]).env("COLUMNS", "100").output().unwrap();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            assert!(line.chars().count() <= 100, "{subcommand}: {line}");
        }
    }
}

#[test]
fn wrong_usage_is_status_2() {
    let sandbox = Sandbox::new();
    for arguments in [
        &[][..],
        &["polish"],
        &["report"],
        &["report", "p", "--view", "roofs"],
        &["report", "p", "--min-percent", "200"],
        &["report", "p", "--by", "moon"],
        &["run"],
        &["run", "--timing", "every=0", "--", "true"],
        &["run", "--timing", "some", "--", "true"],
        &["run", "--overhead", "0%", "--", "true"],
        &["run", "--overhead", "3%", "--timing", "full", "--", "true"],
        &["run", "--format", "json", "--", "true"],
        &["run", "--format", "csv", "--", "true"],
        &["latency"],
        &["latency", "-p", "1", "--", "true"],
        &["latency", "-p", "0"],
        &["latency", "-p", "me"],
        &["latency", "--for", "1s", "--", "true"],
        &["latency", "-p", "1", "--for", "0s"],
        &["latency", "-p", "1", "--no-follow"],
        &["latency", "--epoch", "0ms", "--", "true"],
        &["latency", "--sample-size", "0", "--", "true"],
        &["latency", "--sample-size", "10", "--overhead", "2%", "--", "true"],
        &["latency", "--format", "json", "--", "true"],
        &["latency", "--format", "csv", "--", "true"],
        &["latency", "--format", "html", "--", "true"],
        &["latency", "--sort", "colour", "--", "true"],
        &["export", "p", "--format", "stone"],
        &["completions", "abacus"],
    ] {
        sandbox.transect(arguments).assert().code(2).stdout("").stderr(predicate::str::is_empty().not());
    }
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}

/// Keys need a terminal; what can be printed is named instead.
#[test]
fn view_without_a_terminal_names_the_report() {
    let sandbox = Sandbox::new();
    let message = predicate::str::contains("transect report 'a b.transect'");
    sandbox.transect(&["view", "--tui", "a b.transect"]).assert().code(2).stdout("").stderr(message);
}

#[test]
fn completions_for_every_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = predicate::str::contains("min-percent").and(predicate::str::contains("doctor"));
        sandbox.transect(&["completions", shell]).assert().success().stdout(script).stderr("");
    }
    let script = sandbox.transect(&["completions", "bash"]).output().unwrap().stdout;
    let file = sandbox.write("transect.bash", &String::from_utf8(script).unwrap());
    let bash = std::process::Command::new("bash").arg("-n").arg(file).status();
    assert!(bash.is_err() || bash.is_ok_and(|status| status.success()));
}

#[test]
fn man_pages_for_every_subcommand() {
    let sandbox = Sandbox::new();
    sandbox.transect(&["man", "share/man1"]).assert().success().stdout("").stderr("");
    for subcommand in SUBCOMMANDS {
        let page = std::fs::read_to_string(sandbox.path(&format!("share/man1/transect-{subcommand}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Examples:"), "{subcommand}");
    }
    assert!(sandbox.path("share/man1/transect.1").exists());
}
