//! Stacks of real programs, against gdb's.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transect_testkit::judged;

use crate::stack_reader::{COMPLETE, StackReader};

/// Prints, for each thread that sleeps, its number and its frames' addresses, leaf first.
const SCRIPT: &str = "
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, addresses = gdb.newest_frame(), []
    while frame:
        if frame.type() != gdb.INLINE_FRAME:
            addresses.append(hex(frame.pc()))
        frame = frame.older()
    print('THREAD', thread.ptid[1], ' '.join(addresses))
";

fn gdb(pid: i32, script: &PathBuf) -> BTreeMap<i32, Vec<u64>> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set backtrace past-main on"]);
    gdb.args(["-ex", "set backtrace past-entry on", "-p", &pid.to_string(), "-x"]).arg(script);
    let output = gdb.stderr(Stdio::null()).output().unwrap();
    let mut threads = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some(rest) = line.strip_prefix("THREAD ") else { continue };
        let mut fields = rest.split(' ');
        let tid = fields.next().unwrap().parse().unwrap();
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        threads.insert(tid, fields.map(hex).collect());
    }
    threads
}

/// Programs whose threads wait at the same places again and again.
const PROGRAMS: [&[&str]; 4] = [
    &[
        "python3",
        "-c",
        "
import threading, time
def inner(n):
    if n: return inner(n - 1)
    while True: time.sleep(0.01)
class Way:
    def __call__(self): inner(5)
for _ in range(3): threading.Thread(target=Way()).start()
sorted([1], key=lambda x: inner(2))
",
    ],
    &[
        "perl",
        "-e",
        "sub f { my $n = shift; $n ? f($n - 1) : do { while (1) { select undef, undef, undef, 0.01 } } } f 9",
    ],
    &["redis-server", "--port", "0", "--save", "", "--unixsocket", "redis-socket"],
    &["bash", "-c", "f() { while :; do read -t 0.01; done; }; g() { f; }; g < <(sleep 60)"],
];

#[test]
fn root_stacks_of_real_programs_are_those_of_gdb() {
    if Command::new("gdb").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("NOT RUN: no gdb");
        return;
    }
    let Some(mut reader) = StackReader::load(0) else { return };
    let script = crate::programs::folder().join("threads.py");
    std::fs::write(&script, SCRIPT).unwrap();
    for program in PROGRAMS {
        // As Debian ships them, not what stands before them on the path.
        let path = PathBuf::from("/usr/bin").join(program[0]);
        if !path.exists() {
            println!("NOT RUN: no {}", path.display());
            continue;
        }
        let mut command = Command::new(path);
        command.current_dir(crate::programs::folder());
        let mut child = command.args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        // On a busy machine it may start for longer than this: then it is looked at again.
        judged(&format!("stacks of {}", program[0]), || {
            std::thread::sleep(Duration::from_millis(400));
            compare(&mut reader, pid, &script, program[0])
        });
        child.kill().unwrap();
        child.wait().unwrap();
        reader.tables.remove_process(pid);
    }
}

/// Our stacks of a while, and gdb's behind it.
fn compare(reader: &mut StackReader, pid: i32, script: &PathBuf, name: &str) -> Result<(), String> {
    reader.want(pid);
    let end = Instant::now() + Duration::from_millis(500);
    let stacks = reader.collect(Duration::from_secs(2), |_| Instant::now() > end);
    let expected = gdb(pid, script);
    if expected.is_empty() {
        return Err(format!("gdb says nothing of {name}"));
    }
    let mut ours: BTreeMap<i32, BTreeSet<Vec<u64>>> = BTreeMap::new();
    for stack in stacks.into_iter().filter(|stack| stack.flags == COMPLETE) {
        ours.entry(stack.tid).or_default().insert(stack.frames);
    }
    // gdb may have stopped a thread while it ran, for once; and some threads do not wake at all.
    let waking = expected.iter().filter(|(tid, _)| ours.contains_key(tid)).count();
    let same = expected.iter().filter(|(tid, frames)| ours.get(tid).is_some_and(|o| o.contains(*frames))).count();
    println!("{name}: {same} of {waking} threads that woke have gdb's stack");
    let agrees = waking > 0 && same >= waking.saturating_sub(1).max(1);
    if agrees { Ok(()) } else { Err(format!("{expected:x?}\n{ours:x?}")) }
}
