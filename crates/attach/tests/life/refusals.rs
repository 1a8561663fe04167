//! What can't be attached to is refused with its reason, and goes on as if nothing had been.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transect_attach::{Arena, AttachError, Target};

use crate::program::{Running, compile, wait_for_state};

fn reason(pid: i32) -> String {
    attach(pid).expect_err("refused").to_string()
}

/// Everything that attaching does in a process.
fn attach(pid: i32) -> Result<(), AttachError> {
    let target = Target::open(pid)?;
    // A process that lives for long enough has that of the time before.
    let arena = match Arena::find(&target)? {
        Some(arena) => arena,
        None => Arena::create(&target)?,
    };
    drop(target.stop_all()?);
    drop(arena);
    Ok(())
}

/// Runs [`attach`] in a process of another user, by starting this test again.
fn as_nobody(prefix: &[&str], pid: i32) -> String {
    let mut words = vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    words.extend(prefix);
    let exe = std::env::current_exe().unwrap();
    let copy = std::env::temp_dir().join(format!("transect-attach-{}-{pid}", std::process::id()));
    copy_file(&exe, &copy);
    let output = Command::new(words[0])
        .args(&words[1..])
        .arg(&copy)
        .args(["--exact", "refusals::attach_in_another_process", "--nocapture"])
        .env("ATTACH_TO", pid.to_string())
        .output()
        .unwrap();
    std::fs::remove_file(&copy).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|l| l.split_once("RESULT ")).map(|(_, rest)| rest.to_owned());
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn attach_in_another_process() {
    if let Ok(pid) = std::env::var("ATTACH_TO") {
        match attach(pid.parse().unwrap()) {
            Ok(()) => println!("RESULT attached"),
            Err(error) => println!("RESULT {error}"),
        }
    }
}

/// By another process: a descriptor of ours that is open for writing would be inherited by what other tests start
/// meanwhile, and make the copy unexecutable.
fn copy_file(from: &std::path::Path, to: &std::path::Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("NOT RUN: needs root to become other users");
    }
    root
}

#[test]
fn numbers_that_are_no_process_to_attach_to() {
    assert!(reason(4_000_000).contains("no process 4000000"));
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    wait_for_state(child.id() as i32, 'Z');
    let zombie = reason(child.id() as i32);
    assert!(zombie.contains("zombie") && zombie.contains(&std::process::id().to_string()), "{zombie}");
    assert!(child.wait().unwrap().success());
    let worker = Running::start(&compile("worker", &[]), &["2"]);
    let thread = std::fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap().flatten();
    let thread = thread.map(|e| e.file_name().to_str().unwrap().parse().unwrap()).find(|t| *t != worker.pid()).unwrap();
    assert!(reason(thread).contains(&format!("give {} instead", worker.pid())));
}

#[test]
fn another_tracer_is_at_work() {
    let mut worker = Running::start(&compile("worker", &[]), &["1"]);
    let Ok(mut gdb) = Command::new("gdb")
        .args(["-q", "-nx", "-p", &worker.pid().to_string(), "-ex", "shell sleep 5"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
    else {
        println!("NOT RUN: gdb is not installed");
        return;
    };
    let began = Instant::now();
    let message = loop {
        match Target::open(worker.pid()) {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(began.elapsed() < Duration::from_secs(60), "gdb did not attach"),
        }
    };
    assert!(message.contains("(gdb)") && message.contains(&gdb.id().to_string()), "{message}");
    gdb.kill().unwrap();
    gdb.wait().unwrap();
    // It may have been killed between stopping the process and taking note of that.
    let worker_pid = rustix::process::Pid::from_raw(worker.pid()).unwrap();
    rustix::process::kill_process(worker_pid, rustix::process::Signal::CONT).unwrap();
    // gdb is gone and the process goes on; now it works.
    attach(worker.pid()).unwrap();
    assert!(worker.ask("?").ends_with(" 0 4"));
}

#[test]
fn other_users_as_root() {
    if !is_root() {
        return;
    }
    let mut worker = Running::start(&compile("worker", &[]), &["1"]);
    let message = as_nobody(&[], worker.pid());
    assert!(message.contains("runs as user 0 and this command as user 65534"), "{message}");
    let message = as_nobody(&["unshare", "--user", "--map-root-user"], worker.pid());
    assert!(message.contains("user namespace"), "{message}");
    assert!(worker.ask("?").ends_with(" 0 4"));
}

fn start_as_nobody(program: &str, options: &[&str], arguments: &[&str]) -> Running {
    let name = format!("transect-{program}-{}-{:?}", arguments.join("-"), std::thread::current().id());
    let file = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    copy_file(&compile(program, options), &file);
    let running = Running::from(
        Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&file).args(arguments),
    );
    std::fs::remove_file(&file).unwrap();
    running
}

#[test]
fn ones_own_processes_without_root_as_root() {
    if !is_root() {
        return;
    }
    let mut worker = start_as_nobody("worker", &[], &["2"]);
    let message = as_nobody(&[], worker.pid());
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if matches!(scope.trim(), "" | "0") {
        assert_eq!(message, "attached");
    } else {
        assert!(message.contains("kernel.yama.ptrace_scope"), "{message}");
    }
    assert!(worker.ask("?").ends_with(" 0 4"));
    let undumpable = start_as_nobody("confined", &[], &["dumpable"]);
    let message = as_nobody(&[], undumpable.pid());
    assert!(message.contains("undumpable") || message.contains("ptrace_scope"), "{message}");
}

#[test]
fn confined_by_seccomp() {
    let program = compile("confined", &[]);
    let mut strict = Running::start(&program, &["strict"]);
    let message = reason(strict.pid());
    assert!(message.contains("seccomp (strict)"), "{message}");
    assert_eq!(strict.ask("x"), "here");
    if !is_root() {
        return;
    }
    // Root lets the filter rest.
    let mut filter = Running::start(&program, &["filter"]);
    attach(filter.pid()).unwrap();
    assert_eq!(filter.ask("x"), "here");
    let status = std::fs::read_to_string(format!("/proc/{}/status", filter.pid())).unwrap();
    assert!(status.contains("Seccomp:\t2\n"), "{status}");
    let mut filter = start_as_nobody("confined", &[], &["filter"]);
    let message = as_nobody(&[], filter.pid());
    assert!(message.contains("seccomp (filter)") && message.contains("as root"), "{message}");
    assert_eq!(filter.ask("x"), "here");
}

/// A 32-bit program of 100 bytes: `mov eax, 29; int 0x80` (pause), again and again.
#[test]
fn a_32_bit_program() {
    let code: [u8; 9] = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0];
    let words = |file: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| file.extend(w.to_le_bytes()));
    words(&mut file, &[1, 0x0804_8054, 52, 0, 0, 0x0020_0034, 1, 0]);
    words(&mut file, &[1, 0, 0x0804_8000, 0x0804_8000, 0x54 + 9, 0x54 + 9, 5, 0x1000]);
    file.extend(code);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("thirty-two");
    std::fs::write(&path, file).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let Ok(mut child) = Command::new(&path).spawn() else {
        println!("NOT RUN: the kernel runs no 32-bit programs");
        return;
    };
    std::thread::sleep(Duration::from_millis(50));
    if child.try_wait().unwrap().is_none() {
        let message = reason(child.id() as i32);
        assert!(message.contains("32-bit x86"), "{message}");
    } else {
        println!("NOT RUN: the kernel runs no 32-bit programs");
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn processes_that_end_meanwhile() {
    let program = compile("worker", &[]);
    for delay in 0..40u64 {
        let mut child = Command::new(&program).arg("4").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(delay * 50));
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        });
        for _ in 0..50 {
            match attach(pid) {
                Ok(()) => {}
                Err(AttachError::Exited { .. } | AttachError::Zombie { .. } | AttachError::Replaced { .. }) => break,
                Err(AttachError::NoSuchProcess { .. }) => break,
                Err(error) => panic!("{delay}: {error:?}"),
            }
        }
        killer.join().unwrap();
        match child.wait() {
            Ok(status) => assert_eq!(status.signal(), Some(9)),
            // Its end was seen by the one who held it.
            Err(error) => assert_eq!(error.raw_os_error(), Some(10)),
        }
    }
}

#[test]
fn calls_are_not_made_in_another_program() {
    let worker = compile("worker", &[]);
    let mut shell = Command::new("sh");
    let mut running = Running::from(shell.args(["-c", "echo ready; read line; exec \"$0\" 1"]).arg(&worker));
    let target = Target::open(running.pid()).unwrap();
    let call = || target.stop_one()?.call("getpid", libc::SYS_getpid, [0; 6]);
    assert_eq!(call().unwrap(), running.pid() as u64);
    // Its exec puts the vDSO elsewhere.
    assert_eq!(running.ask("go on"), "ready");
    let result = call();
    assert!(matches!(result, Err(AttachError::Replaced { .. })), "{result:?}");
    running.ask("a line");
    assert!(running.child.try_wait().unwrap().is_none());
}

#[test]
fn one_controller_at_a_time() {
    let worker = Running::start(&compile("worker", &[]), &["1"]);
    let target = Target::open(worker.pid()).unwrap();
    let arena = Arena::create(&target).unwrap();
    let message = Arena::find(&target).unwrap_err().to_string();
    assert!(message.contains(&format!("in use by process {}", std::process::id())), "{message}");
    drop(arena);
    assert!(Arena::find(&target).unwrap().is_some());
}

/// Two controllers that have both seen none make one each; the second takes its own back.
#[test]
fn of_two_arenas_the_second_is_taken_back() {
    let worker = Running::start(&compile("worker", &[]), &["1"]);
    let target = Target::open(worker.pid()).unwrap();
    let arena = Arena::create(&target).unwrap();
    let second = Arena::create(&target).unwrap_err();
    assert!(
        matches!(second, AttachError::Controlled { controller, .. } if controller == std::process::id()),
        "{second}"
    );
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", worker.pid())).unwrap();
    assert_eq!(maps.matches("transect-probes").count(), 1, "{maps}");
    drop(arena);
    assert!(Arena::find(&target).unwrap().is_some());
}

/// Makes an arena as soon as it is told, says how that went, and has it until it is told again.
#[test]
fn makes_an_arena_in_another_process() {
    let Some(pid) = std::env::var("ARENA_IN").ok().and_then(|pid| pid.parse().ok()) else { return };
    let wait = || std::io::stdin().read_line(&mut String::new()).unwrap();
    let target = Target::open(pid).unwrap();
    println!("\nready");
    wait();
    let arena = Arena::create(&target);
    println!("{}", arena.as_ref().map_or_else(ToString::to_string, |_| "made".to_owned()));
    wait();
}

/// However two begin side by side, one gets it, and the other one can say who has.
#[test]
fn of_two_arenas_made_at_a_time_one_is_kept() {
    let exe = std::env::current_exe().unwrap();
    let copy = std::env::temp_dir().join(format!("transect-arena-{}", std::process::id()));
    copy_file(&exe, &copy);
    for round in 0..12 {
        let worker = Running::start(&compile("worker", &[]), &["1"]);
        let start = || {
            let mut command = Command::new(&copy);
            command.args(["--exact", "refusals::makes_an_arena_in_another_process", "--nocapture"]);
            let mut child = command
                .env("ARENA_IN", worker.pid().to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            assert!(lines.any(|line| line == "ready"));
            (child, lines)
        };
        let mut both = [start(), start()];
        both.iter_mut().for_each(|(child, _)| child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap());
        let said: Vec<(u32, String)> =
            both.iter_mut().map(|(child, lines)| (child.id(), lines.next().unwrap())).collect();
        for (mut child, _) in both {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        let made: Vec<u32> = said.iter().filter(|(_, said)| said == "made").map(|(pid, _)| *pid).collect();
        assert_eq!(made.len(), 1, "round {round}: {said:?}");
        let refused = format!("in use by process {};", made[0]);
        assert!(said.iter().any(|(_, said)| said.contains(&refused)), "round {round}: {said:?}");
    }
    let _ = std::fs::remove_file(copy);
}
