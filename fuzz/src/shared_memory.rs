//! Memory that programs share with the recorder.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Rings of feature regions that programs fill.
pub fn rings(bytes: &[u8]) {
    if let Some(object) = crate::object(include_bytes!("../corpus/regions/nested.so")) {
        transect_record::fuzzing::rings(bytes, object);
    }
}

/// Probes that an earlier controller left in a process, which may have changed their memory.
pub fn probes(bytes: &[u8]) {
    static SLEEPER: OnceLock<(i32, u64)> = OnceLock::new();
    let &(pid, text) = SLEEPER.get_or_init(sleeper);
    if let Some(object) = crate::object(include_bytes!("../corpus/elf/lib-debug")) {
        transect_record::fuzzing::probes(bytes, pid, text, object);
    }
}

/// A process that sleeps as long as this one lives, and where its text begins.
fn sleeper() -> (i32, u64) {
    let mut command = Command::new("sleep");
    command.arg("1000000");
    // SAFETY: one system call.
    unsafe { command.pre_exec(|| set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)) };
    let pid = command.spawn().unwrap().id() as i32;
    loop {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let text = maps.lines().find(|line| line.contains(" r-xp ") && line.ends_with("/sleep"));
        if let Some(start) = text.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok()) {
            return (pid, start);
        }
    }
}
