//! What stands in the way, what is mistyped, and what others left behind.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use predicates::prelude::*;
use transect_analyze::synthetic;

use crate::command::{Sandbox, place_probe_agent};

/// `program`, in the folder and the environment in which `transect` is run, with `arguments` and then transect's own.
fn around(sandbox: &Sandbox, program: &str, arguments: &[&str], transect: &[&str]) -> Command {
    let built = sandbox.with_agent(transect);
    let mut command = Command::new(program);
    for (name, value) in built.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(sandbox.folder.path()).args(arguments).arg(built.get_program()).args(built.get_args());
    command
}

#[test]
fn names_that_are_not_there_have_near_ones() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    for (arguments, words) in [
        (&["--component", "libzz.so.1"][..], "no component of the profile matches 'libzz.so.1'; near: libz.so.1"),
        (&["--api", "nosuch", "--format", "json"], "no api of the profile matches 'nosuch'"),
    ] {
        let command = [&["report", "p.transect"], arguments].concat();
        sandbox.transect(&command).assert().code(1).stdout("").stderr(predicate::str::contains(words));
    }
    let empty = predicate::str::contains("a value is required for '--component <NAME>'");
    sandbox.transect(&["report", "p.transect", "--component", ""]).assert().code(2).stdout("").stderr(empty);
    for flag in ["--functions", "--component"] {
        let message = predicate::str::contains(format!("{flag} is empty"));
        sandbox.transect(&["latency", flag, "", "--", "touch", "ran"]).assert().code(2).stderr(message);
    }
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn exports_without_a_row_are_errors() {
    let sandbox = Sandbox::new();
    let mut walk = synthetic::walked_proxy();
    walk.threads.clear();
    transect_profile_store::write(&sandbox.path("walk.transect"), &walk).unwrap();
    for (format, words) in [("perfetto", "lives of threads"), ("csv", "calls between components")] {
        let command = ["export", "walk.transect", "--format", format, "--view", "flows", "--output", "out"];
        let message = predicate::str::contains(format!("{format} would be empty")).and(predicate::str::contains(words));
        sandbox.transect(&command).assert().code(1).stderr(message);
    }
    assert!(!sandbox.path("out").exists());
}

#[test]
fn flags_without_their_collector_are_refused_before_the_program_runs() {
    let sandbox = Sandbox::new();
    for (flags, words) in [
        ("--collect sched --timing full", "--timing is for flow"),
        ("--collect sched --histogram", "--histogram is for flow"),
        ("--collect walk --trace read", "--trace is for flow"),
        ("--collect walk --processes apart", "--processes is for sched"),
        ("--collect flow --sample-hz 99", "--sample-hz is for sched or walk or feature"),
        ("--collect flow --min-parallelism 3", "--min-parallelism is for sched"),
        ("--collect flow --feature x", "--feature is for feature"),
        ("--collect flow,sched --no-follow", "--no-follow has no effect on sched"),
        ("--collect walk --wait-all", "--wait-all is for flow or sched"),
        ("--collect walk,sched --wait-all", "--wait-all has no effect on walk"),
        ("--collect flow --timing count --histogram", "--timing count takes none"),
        ("run --collect flow --view latency", "--view latency shows what latency records"),
        ("run --collect sched --view flows", "--view flows shows what flow records"),
        ("walk --view flows", "--view flows shows what flow records"),
        ("criticality --view latency", "--view latency shows what latency records"),
    ] {
        let mut arguments = if flags.starts_with("--") { vec!["record"] } else { Vec::new() };
        arguments.extend(flags.split(' '));
        arguments.extend(["--", "touch", "ran"]);
        sandbox.transect(&arguments).assert().code(2).stdout("").stderr(predicate::str::contains(words));
    }
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}

#[test]
fn a_profile_that_stands_there_is_kept_aside() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let old = fs::read(sandbox.path("p.transect/meta.json")).unwrap();
    let record = |program: &str| {
        sandbox.with_agent(&["record", "--collect", "flow", "-o", "p.transect", "--", program]).assert()
    };
    record("no-such-command").code(127);
    assert_eq!(fs::read(sandbox.path("p.transect/meta.json")).unwrap(), old, "nothing ran");
    record("true")
        .code(0)
        .stderr(predicate::str::contains("is kept as").and(predicate::str::contains("p.transect.old")));
    assert_eq!(fs::read(sandbox.path("p.transect.old/meta.json")).unwrap(), old);
    assert_ne!(fs::read(sandbox.path("p.transect/meta.json")).unwrap(), old);
    // What is no profile is not moved, nor followed to nowhere.
    symlink("nowhere", sandbox.path("link.transect")).unwrap();
    sandbox.write("file.transect", "text");
    for (place, words) in [("link.transect", "leads nowhere"), ("file.transect", "a file, not a profile folder")] {
        let command = ["record", "--collect", "flow", "-o", place, "--", "touch", "ran"];
        sandbox.with_agent(&command).assert().code(125).stderr(predicate::str::contains(words));
    }
    assert!(!sandbox.path("ran").exists());
}

/// Snapshots of a recording take each other's place, not that of what was kept.
#[test]
fn snapshots_and_links_leave_what_was_kept_alone() {
    let sandbox = Sandbox::new();
    let command = |folder: &str| fs::read_to_string(sandbox.path(folder).join("meta.json")).unwrap();
    let record = |arguments: &[&str]| {
        sandbox.with_agent(&[&["record", "-q", "--collect", "flow"], arguments].concat()).assert().code(0);
    };
    record(&["-o", "p.transect", "--", "echo", "first"]);
    record(&["-o", "p.transect", "--interval", "20ms", "--", "sleep", "0.3"]);
    assert!(command("p.transect.old").contains("first"), "a snapshot stands there");
    assert!(!command("p.transect").contains("first"));
    record(&["-o", "alone.transect", "--interval", "20ms", "--", "sleep", "0.3"]);
    assert!(!sandbox.path("alone.transect.old").exists());
    // A link to a profile goes on leading to the newest.
    symlink("p.transect", sandbox.path("link.transect")).unwrap();
    record(&["-o", "link.transect", "--", "echo", "third"]);
    assert!(command("p.transect").contains("third") && command("link.transect").contains("third"));
    assert!(!command("p.transect.old").contains("first"));
}

#[test]
fn what_a_killed_recorder_leaves_is_removed_by_the_next() {
    let sandbox = Sandbox::new();
    let temporary = sandbox.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let recorder = |program: &[&str], folder: &str| {
        let transect = [&["record", "--quiet", "--collect", "flow", "-o", folder, "--"], program].concat();
        let mut command = around(&sandbox, "env", &[], &transect);
        command.env("TMPDIR", &temporary);
        command
    };
    let mut killed = recorder(&["sh", "-c", "echo begun; exec sleep 30"], "killed.transect")
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut begun = [0; 5];
    killed.stdout.take().unwrap().read_exact(&mut begun).unwrap();
    // The recorder and its program: a group of their own.
    let group = killed.id().to_string();
    assert!(Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap().success());
    killed.wait().unwrap();
    let left = |folder: &std::path::Path| fs::read_dir(folder).map_or(0, Iterator::count);
    assert_eq!(left(&temporary), 1);
    let draft = sandbox.path(&format!(".other.transect.transect-tmp.{group}.0"));
    fs::create_dir(&draft).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o700)).unwrap();
    let note = sandbox.path(".cache/transect/running").join(&group);
    assert!(note.exists());
    // `report` names a killed recorder for a week.
    let week = std::time::SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    fs::File::open(&note).unwrap().set_modified(week).unwrap();
    // A folder younger than its lock could be somebody's who has just begun.
    let past = std::time::SystemTime::now() - Duration::from_secs(60);
    let folder = fs::read_dir(&temporary).unwrap().next().unwrap().unwrap().path();
    fs::File::open(&folder).unwrap().set_modified(past).unwrap();
    assert!(recorder(&["true"], "next.transect").status().unwrap().success());
    assert_eq!(left(&temporary), 0, "{folder:?}");
    assert!(!draft.exists());
    assert!(!note.exists());
}

#[test]
fn without_a_folder_for_temporary_files_the_cure_is_named() {
    let sandbox = Sandbox::new();
    let record = ["record", "--collect", "flow", "-o", "p.transect", "--", "touch", "ran"];
    let mut command = sandbox.with_agent(&record);
    command.env("TMPDIR", "/nonexistent").assert().code(125).stderr(predicate::str::contains("set TMPDIR to a folder"));
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn streams_that_are_closed_reach_the_program_closed() {
    let sandbox = Sandbox::new();
    let script = "exec 2>result; for n in 0 1; do [ -e /proc/self/fd/$n ] && echo open $n >&2; done; exit 7";
    let transect = ["record", "--quiet", "--collect", "flow", "-o", "p", "--", "bash", "-c", script];
    let mut closed = around(&sandbox, "bash", &["-c", "exec \"$@\" <&- >&-", "bash"], &transect);
    assert_eq!(closed.status().unwrap().code(), Some(7));
    assert_eq!(fs::read_to_string(sandbox.path("result")).unwrap(), "");
}

/// The program inherits the limit, and may do with it.
#[test]
fn a_small_stack_is_the_programs_affair() {
    let sandbox = Sandbox::new();
    for stack in [64, 128, 512] {
        let transect =
            ["record", "--quiet", "--collect", "flow", "-o", "p", "--", "sh", "-c", "exit $(ulimit -s | cut -c1-2)"];
        let shell = format!("ulimit -s {stack}; exec \"$@\"");
        let mut command = around(&sandbox, "bash", &["-c", &shell, "bash"], &transect);
        let first: i32 = stack.to_string()[..2].parse().unwrap();
        assert_eq!(command.status().unwrap().code(), Some(first), "{stack}");
    }
}

fn assert_limit_is_told(limit: &str, transect: &[&str], words: &str) {
    let sandbox = Sandbox::new();
    let shell = format!("{limit}; exec \"$@\"");
    let output = around(&sandbox, "bash", &["-c", &shell, "bash"], transect).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{limit}: {said}");
    assert!(said.contains(words) && said.lines().count() == 1, "{limit}: {said}");
}

#[test]
fn limits_of_the_user_are_told_and_end_nothing() {
    for (limit, words) in [
        // Of 512 or 1024 bytes: no profile has room, nor has the recording's memory.
        ("ulimit -f 4", "ulimit -f"),
        ("ulimit -n 8", "ulimit -n"),
        ("ulimit -v 100000", "ulimit -v"),
        ("ulimit -v 250000", "ulimit -v"),
        ("ulimit -v 300000", "address space, 292 MiB (ulimit -v)"),
        ("ulimit -d 30000", "ulimit -d"),
        ("ulimit -d 60000", "ulimit -d"),
    ] {
        assert_limit_is_told(limit, &["record", "--quiet", "--collect", "flow", "-o", "p", "--", "true"], words);
    }
}

/// Whichever step meets the limit first: one message, with the number that is enough.
#[test]
fn a_limit_of_open_files_is_told_alike_as_root() {
    for command in ["walk", "criticality"] {
        for limit in [8, 16, 24] {
            let words = format!("at most {limit} open files (ulimit -n) are too few for a recording, which takes 130;");
            assert_limit_is_told(&format!("ulimit -n {limit}"), &[command, "--quiet", "-o", "p", "--", "true"], &words);
        }
    }
}

/// Collectors that don't fit are left out of the default set, however far they get.
#[test]
fn few_open_files_leave_a_recording_of_calls_as_root() {
    let sandbox = Sandbox::new();
    for limit in [16, 48, 54, 58, 62, 65, 72, 129] {
        let shell = format!("ulimit -n {limit}; exec \"$@\"");
        let transect = ["record", "--quiet", "-o", "p", "--", "true"];
        let output = around(&sandbox, "bash", &["-c", &shell, "bash"], &transect).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{limit}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What a number means is asked of /proc: another namespace's tells of other processes.
#[test]
fn the_proc_of_another_pid_namespace_is_refused_as_root() {
    let sandbox = Sandbox::new();
    for (mount, status) in [(&[][..], 125), (&["--mount-proc"][..], 0)] {
        let shell = [&["--pid", "--fork"][..], mount].concat();
        let transect = ["record", "--quiet", "-o", "p", "--", "true"];
        let done = around(&sandbox, "unshare", &shell, &transect).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{said}");
        assert_eq!(said.contains("/proc is of another PID namespace"), status == 125, "{said}");
    }
}

#[test]
fn that_proc_is_not_mounted_is_said_as_root() {
    let sandbox = Sandbox::new();
    for (transect, status) in [
        (&["record", "--quiet", "-o", "p", "--", "true"][..], 125),
        (&["latency", "-p", "1"], 125),
        (&["probe", "list", "-p", "1"], 125),
        (&["doctor"], 1),
    ] {
        let shell = ["--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"];
        let done = around(&sandbox, "unshare", &shell, transect).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(done.status.code(), Some(status), "{transect:?}: {said}");
        assert!(said.contains("/proc is not mounted"), "{transect:?}: {said}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let sandbox = Sandbox::new();
    for command in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "report"]] {
        let done = around(&sandbox, "bash", &["-c", "exec \"$@\" > /dev/full", "bash"], command).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains("cannot write standard output: No space left on device"), "{command:?}: {said}");
        let piped = ["-c", "\"$@\" | true; exit ${PIPESTATUS[0]}", "bash"];
        let done = around(&sandbox, "bash", &piped, command).output().unwrap();
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]), "{command:?}");
    }
}

#[test]
fn wrong_arguments_do_not_control_the_terminal() {
    let sandbox = Sandbox::new();
    let wrong: [&[&str]; 2] = [&["po\u{1b}[31mlish"], &["report", "p", "--view", "ro\u{1b}]0;ofs\u{7}"]];
    for arguments in wrong {
        let mut command = sandbox.transect(arguments);
        let clean = predicate::str::contains("\u{1b}").not();
        command.env("CLICOLOR_FORCE", "1").assert().code(2).stdout("").stderr(clean);
    }
}

#[test]
fn limits_that_probes_meet_are_told_needs_ptrace() {
    place_probe_agent();
    for (limit, words) in [("ulimit -f 4000", "ulimit -f"), ("ulimit -v 1000000", "ulimit -v")] {
        assert_limit_is_told(limit, &["latency", "--quiet", "-o", "p", "--", "true"], words);
    }
}

#[test]
fn a_report_that_nobody_can_read_costs_no_status() {
    let sandbox = Sandbox::new();
    let transect = ["run", "--collect", "flow", "-o", "p", "--", "sh", "-c", "exit 3"];
    let mut command = around(&sandbox, "bash", &["-c", "exec \"$@\" 2> /dev/full", "bash"], &transect);
    assert_eq!(command.status().unwrap().code(), Some(3));
    assert!(sandbox.path("p").join("meta.json").exists());
}

#[test]
fn files_that_never_end_are_refused() {
    let sandbox = Sandbox::new();
    for flag in ["--wait-apis", "--static-components"] {
        let arguments = ["record", "--quiet", "--collect", "flow", flag, "/dev/zero", "-o", "p", "--", "true"];
        let refused = predicates::str::contains("it is a device, not a plain file");
        sandbox.with_agent(&arguments).assert().code(125).stderr(refused);
    }
}
