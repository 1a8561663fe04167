use predicates::prelude::*;
use serde_json::Value;
use transect_analyze::synthetic::scheduled_compressor;
use transect_profile_model::Profile;

use crate::command::Sandbox;

#[test]
fn report_prints_text_to_stdout_alone() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let text = predicate::str::contains("Components").and(predicate::str::contains("\x1b").not());
    sandbox.transect(&["report", "p.transect"]).assert().success().stdout(text).stderr("");
    let colored = predicate::str::contains("\x1b[");
    sandbox.transect(&["report", "p.transect", "--color", "always"]).assert().success().stdout(colored);
}

#[test]
fn json_has_the_promised_keys() {
    let sandbox = Sandbox::new();
    let profile = sandbox.profile("p.transect");
    let json = |arguments: &[&str]| -> Value {
        let all = [&["report", "p.transect", "--format", "json"], arguments].concat();
        let output = sandbox.transect(&all).assert().success().stderr("").get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    };
    let full = json(&[]);
    for key in ["meta", "summary", "components", "flows", "threads", "waits", "locks", "loss"] {
        assert!(!full[key].is_null(), "{key}");
    }
    // The same rows are there however the question narrows them.
    assert!(json(&["--api", "*"])["components"].is_array());
    for (view, key) in [("components", "components"), ("apis", "flows"), ("callers", "flows"), ("threads", "threads")] {
        let object = json(&["--view", view]);
        assert!(object[key].is_array(), "{view}");
        assert_eq!(object["locks"].is_null(), view != "locks", "{view}");
    }
    let calls: i64 = full["flows"].as_array().unwrap().iter().map(|row| row["calls"].as_i64().unwrap()).sum();
    assert_eq!(calls, profile.flows.iter().map(|flow| flow.calls).sum::<i64>());
    assert_eq!(json(&["--view", "flows", "--top", "2"])["flows"].as_array().unwrap().len(), 2);
}

#[test]
fn a_cut_is_one_sum_in_every_format() {
    let sandbox = Sandbox::new();
    let profile = sandbox.profile("p.transect");
    let calls: i64 = profile.flows.iter().map(|flow| flow.calls).sum();
    let cut = ["report", "p.transect", "--by", "component,api", "--measure", "calls"];
    let with = |more: &[&str]| sandbox.transect(&[&cut[..], more].concat()).assert().success().stderr("");
    let output = with(&["--format", "json"]).get_output().stdout.clone();
    let cut_object: Value = serde_json::from_slice(&output).unwrap();
    let view = &cut_object["cut"];
    assert_eq!(view["by"], serde_json::json!(["component", "api"]));
    assert_eq!((&view["measure"], &view["unit"]), (&"calls".into(), &"count".into()));
    assert_eq!(view["total"], calls);
    let rows = view["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["value"].as_i64().unwrap()).sum::<i64>(), calls);
    for key in ["keys", "low", "high", "share"] {
        assert!(!rows[0][key].is_null(), "{key}");
    }
    let csv = String::from_utf8(with(&["--format", "csv"]).get_output().stdout.clone()).unwrap();
    assert!(csv.starts_with("component,api,value,low,high,share\r\n"), "{csv}");
    assert_eq!(csv.lines().count(), rows.len() + 1);
    with(&["--tree"]).stdout(predicate::str::contains("by component, api; share of"));
}

#[test]
fn a_cut_that_cannot_be_made_says_why() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let refused = |arguments: &[&str], status: i32, reason: &str| {
        let all = [&["report", "p.transect"], arguments].concat();
        sandbox.transect(&all).assert().code(status).stdout("").stderr(predicate::str::contains(reason));
    };
    refused(&["--by", "function"], 2, "neither samples nor waits");
    refused(&["--by", "line", "--measure", "calls"], 2, "cannot be cut by line");
    refused(&["--by", "api", "--view", "apis"], 2, "without a view");
    refused(&["--measure", "calls", "--view", "apis"], 2, "leave one of them out");
    refused(&["--where", "featur = x"], 2, "  featur = x\n  ^");
    refused(&["--from", "soon"], 2, "2s or 150ms");
    refused(&["--from", "-1s"], 2, "2s or 150ms");
}

/// A profile with samples, waits and slices.
fn scheduled(sandbox: &Sandbox) -> Profile {
    let profile = scheduled_compressor(2_000, 20);
    transect_profile_store::write(&sandbox.path("s.transect"), &profile).unwrap();
    profile
}

#[test]
fn views_of_cuts_are_in_every_format() {
    let sandbox = Sandbox::new();
    let profile = scheduled(&sandbox);
    let running: i64 = profile.sched.tasks.iter().map(|task| task.running_ns).sum();
    let report = |more: &[&str]| {
        let all = [&["report", "s.transect"], more].concat();
        let output = sandbox.transect(&all).assert().success().stderr("").get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    let json = |more: &[&str]| serde_json::from_str::<Value>(&report(&[more, &["--format", "json"]].concat())).unwrap();
    let hot = json(&["--view", "hot"]);
    assert_eq!(hot["hot"]["total"], running);
    let own = hot["hot"]["rows"].as_array().unwrap().iter().map(|row| row["self"].as_i64().unwrap());
    assert_eq!(own.sum::<i64>(), running);
    for (view, key) in
        [("tree", "tree"), ("annotate", "annotate"), ("system-calls", "system_calls"), ("timeline", "timeline")]
    {
        let function: &[&str] = if view == "annotate" { &["--function", "compress_block"] } else { &[] };
        let all = [&["--view", view], function].concat();
        assert!(!json(&all)[key].is_null(), "{view}");
        let rows = |format: &str| report(&[&all[..], &["--format", format]].concat());
        // The made-up program makes no system call.
        assert!(view == "system-calls" || rows("csv").lines().count() > 1, "{view}");
        assert!(view == "system-calls" || rows("markdown").contains("\n| ---"), "{view}");
        assert!(report(&all).lines().count() > 5, "{view}");
    }
    let part = json(&["--view", "hot", "--where", "thread-group = worker", "--from", "100ms", "--measure", "samples"]);
    assert!(part["hot"]["total"].as_i64().unwrap() < profile.sched.moments.len() as i64);
}

#[test]
fn a_flame_graph_is_drawn_of_any_cut() {
    let sandbox = Sandbox::new();
    scheduled(&sandbox);
    let draw = |more: &[&str]| {
        sandbox.transect(&[&["report", "s.transect", "--flame", "f.svg"], more].concat()).assert().success().stderr("")
    };
    draw(&[]).stdout("");
    let svg = std::fs::read_to_string(sandbox.path("f.svg")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("compress_block"));
    draw(&["--by", "thread-group", "--measure", "time", "--format", "csv"])
        .stdout(predicate::str::starts_with("thread-group,value"));
    assert!(std::fs::read_to_string(sandbox.path("f.svg")).unwrap().contains("<title>worker"));
}

#[test]
fn cuts_have_names_in_the_configuration() {
    let sandbox = Sandbox::new();
    scheduled(&sandbox);
    std::fs::create_dir_all(sandbox.path(".config/transect")).unwrap();
    let file =
        "[cut.blocked]\nby = \"wait\"\nmeasure = \"blocked\"\nwhere = \"wait != sleep\"\n[cut.bad]\nby = \"weight\"\n";
    sandbox.write(".config/transect/config.toml", file);
    let cut = |arguments: &[&str]| {
        let mut command = sandbox.transect(&[&["report", "s.transect"], arguments].concat());
        command.env("XDG_CONFIG_HOME", sandbox.path(".config"));
        command.assert()
    };
    cut(&["--cut", "blocked"]).success().stdout(predicate::str::contains("by wait; share of"));
    cut(&["--cut", "blocked", "--by", "object"]).success().stdout(predicate::str::contains("by object; share of"));
    cut(&["--cut", "bad"]).code(2).stderr(predicate::str::contains("unknown dimension `weight`"));
    cut(&["--cut", "other"]).code(2).stderr(predicate::str::contains("there: bad, blocked"));
}

#[test]
fn flags_that_a_view_of_cuts_does_not_know_are_refused() {
    let sandbox = Sandbox::new();
    scheduled(&sandbox);
    let refused = |arguments: &[&str], reason: &str| {
        let all = [&["report", "s.transect"], arguments].concat();
        sandbox.transect(&all).assert().code(2).stdout("").stderr(predicate::str::contains(reason));
    };
    for nothing in ["", ",,"] {
        refused(&["--by", nothing], "no dimension: use one of service, ");
    }
    for flag in ["--function", "--component", "--api", "--measure"] {
        refused(&[flag, ""], "a value is required");
    }
    refused(&["--where", ""], "expected a dimension (service, ");
    refused(&["--view", "hot", "--disassemble"], "--view annotate");
    refused(&["--view", "annotate", "--function", "compress_block", "--disassemble"], "kept lines only");
    refused(&["--view", "hot", "--by", "thread"], "filter with --where");
    refused(&["--view", "timeline", "--measure", "time"], "shows all states");
    refused(&["--view", "hot", "--function", "main"], "--view annotate");
    refused(&["--view", "hot", "--flame", "f.svg"], "leave out --view");
    refused(&["--view", "hot", "--api", "read"], "leave one of them out");
    refused(&["--view", "annotate"], "--function NAME");
    refused(&["--view", "annotate", "--function", "compres_block"], "there are: compress_block");
    refused(&["--view", "hot", "--measure", "calls"], "cannot be cut by stack");
    // Before anything is recorded.
    let run = ["run", "-o", "r.transect", "--view", "annotate", "--", "true"];
    sandbox.transect(&run).assert().code(2).stderr(predicate::str::contains("record first"));
    assert!(!sandbox.path("r.transect").exists());
}

#[test]
fn files_appear_as_a_whole_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    for arguments in [
        &["report", "p.transect", "--format", "json", "--output", "out"][..],
        &["report", "p.transect", "--view", "flows", "--format", "csv", "--output", "out"],
        &["report", "p.transect", "--output", "out"],
        &["report", "p.transect", "--html", "out"],
        &["export", "p.transect", "--format", "pprof", "--output", "out"],
        &["export", "p.transect", "--format", "collapsed", "--output", "out"],
    ] {
        sandbox.transect(arguments).assert().success().stdout("").stderr("");
        let metadata = std::fs::metadata(sandbox.path("out")).unwrap();
        assert!(metadata.len() > 100, "{arguments:?}");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{arguments:?}");
        assert_eq!(sandbox.names(), ["out", "p.transect"], "{arguments:?}");
    }
    let page = sandbox.transect(&["report", "p.transect", "--html", "/dev/stdout"]).output().unwrap().stdout;
    assert!(page.starts_with(b"<!doctype html>"));
}

#[test]
fn failed_output_leaves_what_was_there() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let before = sandbox.write("out.csv", "precious");
    // CSV is one table: without a view there is nothing to write.
    sandbox.transect(&["report", "p.transect", "--format", "csv", "--output", "out.csv"]).assert().code(1);
    assert_eq!(std::fs::read_to_string(before).unwrap(), "precious");
    let message = predicate::str::contains("/proc/out");
    sandbox.transect(&["report", "p.transect", "--output", "/proc/out"]).assert().code(1).stdout("").stderr(message);
    sandbox.transect(&["report", "p.transect", "--output", "no/such/out"]).assert().code(1).stdout("");
    let full = predicate::str::contains("No space left");
    sandbox.transect(&["report", "p.transect", "--output", "/dev/full"]).assert().code(1).stderr(full);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let transect = assert_cmd::cargo::cargo_bin("transect");
    let line = format!("{} report p.transect --format json | true; echo ${{PIPESTATUS[0]}}", transect.display());
    let output = std::process::Command::new("bash")
        .args(["-c", &line])
        .current_dir(sandbox.folder.path())
        .env("HOME", sandbox.folder.path())
        .output()
        .unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"0\n"[..], &b""[..]));
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let transect = assert_cmd::cargo::cargo_bin("transect");
    for arguments in ["report p.transect", "export --format collapsed p.transect"] {
        let line = format!("{} {arguments} >&-", transect.display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).current_dir(sandbox.folder.path()).env("HOME", sandbox.folder.path());
        let output = shell.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.contains("standard output: it is closed"),
            "{arguments}: {said}"
        );
    }
}

#[test]
fn a_component_implies_its_apis_and_an_api_its_callers() {
    let sandbox = Sandbox::new();
    let profile = sandbox.profile("p.transect");
    let api = &profile.flows[0].api;
    let callers = sandbox.transect(&["report", "p.transect", "--api", api]).output().unwrap().stdout;
    let explicit = sandbox.transect(&["report", "p.transect", "--api", api, "--view", "callers"]).output().unwrap();
    assert_eq!(callers, explicit.stdout);
    assert_ne!(callers, sandbox.transect(&["report", "p.transect"]).output().unwrap().stdout);
}

#[test]
fn configuration_gives_defaults_and_flags_win() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    sandbox.write(".config/transect/config.toml", "[report]\nformat = \"json\"\ntop = 1\n");
    let output = sandbox.transect(&["report", "p.transect", "--view", "flows"]).output().unwrap().stdout;
    let rows: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(rows["flows"].as_array().unwrap().len(), 1);
    let arguments = ["report", "p.transect", "--view", "flows", "--format", "csv", "--top", "3"];
    let output = sandbox.transect(&arguments).output().unwrap().stdout;
    assert_eq!(String::from_utf8(output).unwrap().lines().count(), 4);

    let path = sandbox.write("elsewhere/transect/config.toml", "[report]\ncolour = \"always\"\n");
    let message = predicate::str::contains("config.toml: line 2: unknown field `colour`");
    sandbox
        .transect(&["report", "p.transect"])
        .env("XDG_CONFIG_HOME", path.ancestors().nth(2).unwrap())
        .assert()
        .code(2)
        .stdout("")
        .stderr(message);
}

#[test]
fn exports_go_to_stdout() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    for format in ["pprof", "collapsed", "firefox", "speedscope", "chrome", "csv"] {
        let output = sandbox.transect(&["export", "p.transect", "--format", format]).assert().success().stderr("");
        assert!(!output.get_output().stdout.is_empty(), "{format}");
    }
}

#[test]
fn top_shows_a_finished_recording_once() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let text = predicate::str::contains("Flows").and(predicate::str::contains("\x1b").not());
    sandbox.transect(&["top", "p.transect"]).assert().success().stdout(text).stderr("");
}
