//! Share of complete user stacks of a program, unwound in the kernel: `unwind_share [-s SECONDS] (-p PID | COMMAND…)`.
#![allow(missing_docs)]

#[path = "../tests/unwind/stack_reader.rs"]
mod stack_reader;
#[path = "../tests/unwind/symbols.rs"]
mod symbols;

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use stack_reader::{COMPLETE, Stack, StackReader, TRUNCATED, UNKNOWN_CODE, UNREADABLE};
use symbols::Symbols;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut seconds = 600.0;
    if arguments.first().is_some_and(|a| a == "-s") {
        seconds = arguments[1].parse().expect("seconds");
        arguments.drain(..2);
    }
    let Some(mut reader) = StackReader::load(499) else { return };
    let duration = Duration::from_secs_f64(seconds);
    let (stacks, mut symbols) = if arguments[0] == "-p" {
        let pids: Vec<i32> = arguments[1..].iter().map(|pid| pid.parse().expect("pid")).collect();
        for &pid in &pids {
            reader.want(pid);
        }
        let stacks = reader.collect(duration, |_| false);
        (stacks, pids.iter().map(|&pid| (pid, Symbols::of_process(pid))).collect::<HashMap<_, _>>())
    } else {
        reader.want(std::process::id() as i32);
        reader.tables.prepare_program(std::path::Path::new(&arguments[0]));
        assert!(reader.tables.wait_idle(Duration::from_secs(60)));
        let mut child = Command::new(&arguments[0]).args(&arguments[1..]).arg0(&arguments[0]).spawn().expect("command");
        let pid = child.id() as i32;
        reader.tables.add_process(pid);
        let mut symbols = None;
        let mut looked = 0;
        let stacks = reader.collect(duration, |_| {
            looked += 1;
            if looked % 20 == 10 {
                let now = Symbols::of_process(pid);
                symbols = Some(now);
            }
            child.try_wait().expect("child").is_some()
        });
        let own = std::process::id() as i32;
        let stacks = stacks.into_iter().filter(|stack| stack.tgid != own).collect();
        (stacks, symbols.map(|symbols| (pid, symbols)).into_iter().collect())
    };
    for sampled in [false, true] {
        let stacks: Vec<&Stack> = stacks.iter().filter(|stack| stack.sampled == sampled).collect();
        print_share(if sampled { "sampled" } else { "blocking" }, &stacks, &mut symbols);
    }
    println!("{:#?}", reader.tables.statistics());
}

fn print_share(what: &str, stacks: &[&Stack], symbols: &mut HashMap<i32, Symbols>) {
    let count = stacks.len().max(1);
    let share = |flag: u32| stacks.iter().filter(|stack| stack.flags & flag != 0).count() as f64 * 100.0 / count as f64;
    let mut ns: Vec<_> = stacks.iter().map(|stack| stack.ns).collect();
    ns.sort_unstable();
    let at = |share: f64| ns.get((ns.len() as f64 * share) as usize).copied().unwrap_or(0);
    let frames = stacks.iter().map(|stack| stack.frames.len()).sum::<usize>() as f64 / count as f64;
    println!(
        "{what:8} {:7} stacks  complete {:5.1} %  truncated {:.1} %  unknown code {:.1} %  unreadable {:.1} %  \
         frames {frames:.1}  ns: median {} p90 {} p99 {}",
        stacks.len(),
        share(COMPLETE),
        share(TRUNCATED),
        share(UNKNOWN_CODE),
        share(UNREADABLE),
        at(0.5),
        at(0.9),
        at(0.99),
    );
    let mut ends: HashMap<String, (usize, u32)> = HashMap::new();
    for stack in stacks.iter().filter(|stack| stack.flags & (COMPLETE | TRUNCATED) == 0) {
        let names = symbols.get_mut(&stack.tgid).map(|s| s.names(&stack.frames)).unwrap_or_default();
        let end = names[names.len().saturating_sub(3)..].join(" < ");
        let entry = ends.entry(format!("flags {} frames {} {end}", stack.flags, stack.frames.len())).or_default();
        entry.0 += 1;
    }
    let mut ends: Vec<_> = ends.into_iter().collect();
    ends.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
    for (end, (n, _)) in ends.iter().take(12) {
        println!("   {n:6} {end}");
    }
    if let Some(stack) = stacks.iter().filter(|s| s.flags & COMPLETE != 0).max_by_key(|s| s.frames.len().min(14)) {
        let names = symbols.get_mut(&stack.tgid).map(|s| s.names(&stack.frames)).unwrap_or_default();
        println!("   e.g. {}", names.join(" < "));
    }
}
