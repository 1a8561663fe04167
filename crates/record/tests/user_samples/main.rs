//! Recordings by a user without privileges: they name the same code and the same waits as the kernel's programs would.

use std::path::{Path, PathBuf};
use std::process::Command;

use transect_bpf_collect::thread_samples;
use transect_profile_model::{Profile, Timing, WaitKind};
use transect_record::{Options, OtherCollectors, record_with, user_samples};
use transect_testkit::judged;

/// Who has no rights at all.
const NOBODY: &str = "65534";
const PROGRAM: &str = "TRANSECT_TEST_PROGRAM";
const WHAT: &str = "TRANSECT_TEST_WHAT";

fn program(folder: &Path, flags: &[&str]) -> PathBuf {
    let path = folder.join("shares");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/user_samples/shares.c");
    let built =
        Command::new("cc").args(["-O2", "-g", "-pthread"]).args(flags).arg("-o").arg(&path).arg(source).status();
    assert!(built.is_ok_and(|status| status.success()), "the program can't be built");
    path
}

/// Runs the test below, as somebody without rights if this is root.
fn as_nobody(what: &str, flags: &[&str], agent: Option<&Path>) {
    if let Err(why) = thread_samples::is_permitted() {
        println!("by stops: {why}, kernel.perf_event_paranoid is {}", thread_samples::paranoid());
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = program(folder.path(), flags);
    if let Some(agent) = agent {
        std::fs::copy(agent, folder.path().join("libtransect_agent.so")).unwrap();
    }
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--bounding-set", "-all"]);
        command.arg(std::env::current_exe().unwrap());
        command
    } else {
        Command::new(std::env::current_exe().unwrap())
    };
    let output = command
        .args(["--ignored", "--exact", "records_its_own_program", "--nocapture"])
        .env(PROGRAM, &program)
        .env(WHAT, what)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    text.lines().filter(|line| line.starts_with("NOT JUDGED")).for_each(|line| println!("{line}"));
}

#[test]
fn a_static_program_without_privileges() {
    as_nobody("alone", &["-static"], None);
}

#[test]
fn a_program_with_calls_without_privileges() {
    // …/target/debug/deps/this-test
    let test = std::env::current_exe().unwrap();
    let agent = test.ancestors().nth(3).unwrap().join("release/libtransect_agent.so");
    if std::env::var_os("TRANSECT_AGENTS_BUILT").is_none() {
        let built = Command::new(env!("CARGO")).args(["build", "-q", "--release", "-p", "transect-agent"]).status();
        assert!(built.is_ok_and(|status| status.success()), "the agent can't be built");
    }
    as_nobody("beside", &[], Some(&agent));
}

/// Criticality of samples, or idle time of waits, with this function on the stack, ns.
fn through(profile: &Profile, function: &str) -> (i64, i64) {
    let tables = &profile.sched;
    let has = |stack: u32| {
        let frames = &tables.stacks[stack as usize].frames;
        frames.iter().any(|frame| tables.frames[*frame as usize].function == function)
    };
    let samples = tables.samples.iter().filter(|sample| has(sample.stack));
    let waits = tables.waits.iter().filter(|wait| wait.stack.is_some_and(has));
    (samples.map(|sample| sample.criticality_ns).sum(), waits.map(|wait| wait.idle_ns).sum())
}

/// Shares may be off by so much. Beside the agent, and alone, where time in the kernel is known from a few stops a second and was
/// seen up to 16 points too low.
const BESIDE: f64 = 0.12;
const ALONE: f64 = 0.18;

fn judge(profile: &Profile, bound: f64) -> Result<(), String> {
    let ensure = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    let session = profile.meta.criticality.as_ref().unwrap();
    assert!(session.estimate && session.sample_hz > 0);
    let tables = &profile.sched;
    let gained: i64 = tables.tasks.iter().map(|task| task.criticality_ns).sum();
    assert!((gained - session.busy_ns).abs() < session.busy_ns / 1000 + 1000, "{gained} {session:?}");
    assert_eq!(tables.waits.iter().map(|wait| wait.idle_ns).sum::<i64>(), session.idle_ns);
    assert_eq!(tables.tasks.len(), 2, "{:?}", tables.tasks);
    let ((often, _), (seldom, _), (reads, _)) =
        (through(profile, "often"), through(profile, "seldom"), through(profile, "read_bytes"));
    let work = (often + seldom + reads) as f64;
    ensure(work > 0.85 * session.busy_ns as f64, format!("{work} of {session:?}"))?;
    for (name, part, share) in [("often", often, 0.5), ("seldom", seldom, 1.0 / 6.0), ("read_bytes", reads, 1.0 / 3.0)]
    {
        let found = part as f64 / work;
        ensure((found - share).abs() < bound, format!("{name}: {found} for {share}"))?;
    }
    // While the one rests the other waits, and rest ends that.
    let (_, rests) = through(profile, "rest");
    let idle = session.idle_ns as f64;
    ensure(rests as f64 > 0.7 * idle, format!("{rests} of {idle} in rest"))?;
    let kinds: Vec<WaitKind> = tables.waits.iter().map(|wait| wait.kind).collect();
    ensure(kinds.contains(&WaitKind::Sleep), format!("{kinds:?}"))?;
    ensure(kinds.contains(&WaitKind::Mutex), format!("{kinds:?}"))?;
    let lines = tables.frames.iter().filter(|frame| frame.function == "often" && frame.line > 0);
    ensure(lines.count() > 0, "often has no lines".to_owned())
}

#[test]
#[ignore = "a part of the tests above"]
fn records_its_own_program() {
    let (Some(program), Ok(what)) = (std::env::var_os(PROGRAM), std::env::var(WHAT)) else { return };
    let agent = Path::new(&program).with_file_name("libtransect_agent.so");
    let command = vec![program, "20".into()];
    let put_aside = std::env::temp_dir();
    judged("samples of a user's own program", || {
        if what == "alone" {
            let recorded = user_samples::record(&command, &put_aside).unwrap();
            assert_eq!(recorded.exit_status, 0);
            return judge(&loaded(recorded), ALONE);
        }
        let plans = tempfile::tempdir().unwrap();
        let options = Options {
            command: command.clone(),
            timing: Timing::Adaptive { budget: 0.03 },
            histogram: false,
            trace: Vec::new(),
            follow: true,
            wait_all: false,
            interval: None,
            wait_apis: Vec::new(),
            static_components: None,
            latency: None,
            agent: Some(agent.clone()),
            plan_cache: Some(plans.path().to_owned()),
        };
        let beside = OtherCollectors { user_samples: Some(put_aside.clone()), ..OtherCollectors::default() };
        let recorded = record_with(&options, beside, &mut |_| {}).unwrap();
        assert_eq!(recorded.exit_status, 0);
        assert!(recorded.profile.flows.iter().any(|flow| flow.api == "read" && flow.calls > 100));
        judge(&loaded(recorded), BESIDE)
    });
}

fn loaded(mut recorded: transect_record::Recorded) -> Profile {
    recorded.timeline.as_mut().unwrap().load_into(&mut recorded.profile.sched, false).unwrap();
    recorded.profile
}
