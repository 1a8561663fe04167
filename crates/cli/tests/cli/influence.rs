//! `transect influence`, with shell programs whose times are known.

use std::fs;

use serde_json::Value;

use crate::command::Sandbox;

const MODEL: &str = "\
[[feature]]
name = \"A\"
option = \"a\"
[[feature]]
name = \"B\"
option = \"b\"
";

/// Sleeps 20 ms, 20 more with a, 20 more with b, 840 more with both.
const PROGRAM: &str = "t=2; case \"$*\" in *a*b*) t=90;; *a*|*b*) t=4;; esac; sleep $(printf 0.%02d $t)";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("model.toml", MODEL);
    sandbox
}

fn command(sandbox: &Sandbox) -> assert_cmd::Command {
    sandbox.transect(&["influence", "--model", "model.toml"])
}

#[test]
fn an_interaction_is_found_and_versions_are_compared() {
    let sandbox = sandbox();
    let run = |output: &str| {
        let mut run = command(&sandbox);
        run.args([
            "--format",
            "json",
            "--output",
            output,
            "--html",
            "page.html",
            "--repeat",
            "2",
            "--",
            "sh",
            "-c",
            PROGRAM,
        ]);
        run.args(["sh", "{options}"]).assert().success().stdout("");
        let json: Value = serde_json::from_slice(&fs::read(sandbox.path(output)).unwrap()).unwrap();
        json["influence"].clone()
    };
    let influence = run("old.json");
    let terms = influence["terms"].as_array().unwrap();
    let both = terms.iter().find(|term| term["features"] == serde_json::json!(["A", "B"])).unwrap();
    // Sleeps only grow on a busy machine, in all configurations alike.
    assert!(both["ns"].as_i64().unwrap() > 400_000_000, "{both}");
    assert!(both["low"].as_i64().unwrap() <= both["high"].as_i64().unwrap());
    assert!(influence["error"].is_null() && influence["method"] == "wall" && influence["complete"] == true);
    assert!(fs::read_to_string(sandbox.path("page.html")).unwrap().contains("A &amp; B"));
    run("new.json");
    let compared = sandbox.transect(&["influence", "--compare", "old.json", "new.json"]).assert().success();
    assert!(String::from_utf8_lossy(&compared.get_output().stdout).contains("A & B"));
}

#[test]
fn configurations_can_be_listed_without_running() {
    let sandbox = sandbox();
    command(&sandbox).arg("--list").assert().success().stdout("\nb\na\na b\n");
    command(&sandbox).args(["--list", "--feature", "B"]).assert().success().stdout("\nb\n");
}

#[test]
fn mistakes_are_told() {
    let sandbox = sandbox();
    let told = |arguments: &[&str], status: i32, message: &str| {
        let outcome = command(&sandbox).args(arguments).assert().code(status);
        let said = String::from_utf8_lossy(&outcome.get_output().stderr).into_owned();
        assert!(said.contains(message), "{said}");
    };
    told(&["--", "true"], 2, "the command has no {options}");
    told(&["--", "false", "{options}"], 1, "without options: the program ended with status 1");
    told(&["--keep-going", "--", "false", "{options}"], 1, "too few to compare any");
    told(&["--", "/nonexistent/program", "{options}"], 1, "can't be run");
    told(
        &["--before", "echo oh no >&2; exit 3", "--", "true", "{options}"],
        1,
        "--before: the program ended with status 3: oh no",
    );
    told(&["--feature", "C", "--", "true", "{options}"], 1, "the model has no feature `C`; its features are: A, B");
    told(&["--method", "regions", "--", "true", "{options}"], 1, "without options: ");
    told(&["--format", "json", "--output", "/nonexistent/x.json", "--", "true", "{options}"], 1, "/nonexistent/x.json");
    fs::write(sandbox.path("model.toml"), "[[feature]]\nname = 1\n").unwrap();
    told(&["--", "true", "{options}"], 2, "model.toml:2:8: ");
}
