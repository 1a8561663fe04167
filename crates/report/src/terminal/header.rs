//! First lines of every report: what ran, how it was measured, what was not seen.

use transect_analyze::{CriticalityView, LossRow, Totals};
use transect_profile_model::{LossKind, Meta, Timing};

use super::escape::escape;
use super::page::Page;
use super::shorten::cut_middle;
use super::style::Role;
use super::units::{count, counted, duration, percent};

/// Prints the header; `brief`: without the facts that only their own view needs.
pub(crate) fn header(
    page: &mut Page,
    meta: &Meta,
    totals: &Totals,
    loss: &[LossRow],
    criticality: Option<&CriticalityView>,
    brief: bool,
) {
    let command = escape(&shell_words(&meta.command)).into_owned();
    let status = status(meta, totals);
    let room = page.style.columns().saturating_sub("transect  ".len() + status.len());
    page.line(&[(Role::Dim, "transect  "), (Role::Title, &cut_middle(&command, room)), (Role::Warning, &status)]);
    if let Some(line) = memory_kills(meta) {
        page.wrapped(10, Role::Warning, &escape(&line));
    }
    let mut facts = extent(meta, totals);
    if has_flows(meta) {
        facts.push(format!("{} in {}", counted(totals.calls, "call", "calls"), counted(totals.flows, "flow", "flows")));
        page.items(10, &facts);
        page.items(10, &[timing(meta, totals), overhead(meta)]);
    } else {
        // Zero where it was not estimated.
        if meta.overhead_estimate > 0.0 {
            facts.push(overhead(meta));
        }
        facts.extend(meta.latency.iter().flat_map(super::latency::facts));
        page.items(10, &facts);
    }
    if let Some(session) = meta.latency.as_ref().filter(|_| has_flows(meta)) {
        page.items(10, &super::latency::facts(session));
    }
    if let Some(session) = &meta.criticality {
        let (facts, doubts) = super::criticality::facts(session, criticality, totals.idle_without_stack_ns);
        if !brief {
            page.items(10, &facts);
        }
        for doubt in doubts {
            page.wrapped(10, Role::Warning, &doubt);
        }
    }
    if let Some(session) = meta.walk.as_ref().filter(|_| !brief) {
        page.items(10, &super::walk::facts(session));
    }
    if let Some(session) = &meta.feature {
        page.items(10, &super::feature::facts(session));
    }
    if let Some(times) = totals.scheduled.filter(|times| times.others_ns * 4 > times.on_cpu_ns) {
        let others = duration(times.others_ns);
        page.wrapped(
            10,
            Role::Warning,
            &format!("other programs had the CPUs: threads could have run for {others} (summed) and had none"),
        );
    }
    if let Some(times) = totals.scheduled.filter(|times| times.pinned_ns * 4 > times.on_cpu_ns) {
        let pinned = duration(times.pinned_ns);
        let text = format!(
            "threads are pinned to the same CPUs and wait for one another: they could have run for {pinned} (summed) on others"
        );
        page.wrapped(10, Role::Warning, &text);
    }
    losses(page, loss);
}

/// How the program ended, unless it did well.
pub fn status(meta: &Meta, totals: &Totals) -> String {
    match meta.exit_status {
        Some(0) => String::new(),
        Some(status @ 129..=192) => format!("  exit status {status} (signal {})", status - 128),
        Some(status) => format!("  exit status {status}"),
        None if totals.ended => "  ended meanwhile".to_owned(),
        None => "  still running".to_owned(),
    }
}

/// Why the kernel has killed the program, or another one meanwhile.
fn memory_kills(meta: &Meta) -> Option<String> {
    const KILLED: i32 = 128 + 9;
    let kills = meta.memory_kills.as_ref()?;
    let limit = kills.limit_bytes.map_or(String::new(), |limit| format!(" ({} MiB)", limit >> 20));
    let count = kills.count;
    Some(match (&kills.control_group, meta.exit_status) {
        (Some(group), Some(KILLED)) => format!(
            "killed by SIGKILL: the kernel's memory limit{limit} of its control group {group} was hit (oom_kill {count})"
        ),
        (Some(group), _) => format!(
            "{} killed meanwhile: the kernel's memory limit{limit} of control group {group} was hit (oom_kill {count})",
            if count == 1 { "a process was".to_owned() } else { format!("{count} processes were") }
        ),
        (None, Some(KILLED)) => format!(
            "killed by SIGKILL, perhaps for want of memory: the kernel has killed {} on this machine meanwhile (oom_kill of \
             /proc/vmstat)",
            counted(count, "process", "processes")
        ),
        // Another program's matter.
        (None, _) => return None,
    })
}

/// How long it ran, what its threads did meanwhile, and how many they were.
pub fn extent(meta: &Meta, totals: &Totals) -> Vec<String> {
    let processes = counted(totals.processes, "process", "processes");
    let cpus = counted(meta.machine.cpus.into(), "CPU", "CPUs");
    let threads = match totals.threads {
        0 => format!("{processes} on {cpus}"),
        threads => format!("{} in {processes} on {cpus}", counted(threads, "thread", "threads")),
    };
    let mut facts = vec![format!("wall {}", duration(totals.wall_ns))];
    facts.extend(times(totals));
    facts.push(threads);
    facts
}

/// What threads did with their time, summed over them.
fn times(totals: &Totals) -> Vec<String> {
    let Some(times) = totals.scheduled else { return Vec::new() };
    vec![
        format!("on CPU {}", duration(times.on_cpu_ns)),
        format!("runnable {}", duration(times.runnable_ns)),
        format!("blocked {}", duration(times.blocked_ns)),
    ]
}

/// True if calls between components were recorded.
pub(crate) fn has_flows(meta: &Meta) -> bool {
    (meta.latency.is_none() && meta.criticality.is_none() && meta.walk.is_none() && meta.feature.is_none())
        || meta.collectors.iter().any(|collector| collector == "flow")
}

/// Addresses without a name from which on it is worth to record again.
const NAMELESS: i64 = 10;

/// Percent of the run from which on the cost of measuring is said as a factor.
const DISTORTED: f64 = 10.0;

/// In a shorter run what is done once for each process, which depends on what the machine does beside, is most of the cost.
const SHORTEST: i64 = 20_000_000;

/// Percent of the run from which on that factor is known roughly.
const MOSTLY_COST: f64 = 50.0;

/// The estimated cost of measuring, in words: while the program ran, and the time of start and end.
fn overhead(meta: &Meta) -> String {
    let share = meta.overhead_estimate * 100.0;
    let share = if meta.wall_ns > 0 && meta.wall_ns < SHORTEST {
        "overhead not measurable in so short a run".to_owned()
    } else if share >= MOSTLY_COST {
        // A tenth more or less of the cost makes a factor of two of what is left.
        let factor = 100.0 / (100.0 - share.min(99.0));
        format!("overhead: ran roughly {factor:.0$} × as long", usize::from(factor < 10.0))
    } else if share >= DISTORTED {
        format!("overhead: ran about {:.1} × as long", 100.0 / (100.0 - share.min(99.9)))
    } else if share < 0.05 {
        "overhead below 0.1 %".to_owned()
    } else {
        format!("overhead about {}", percent(share))
    };
    match meta.overhead.map_or(0, |overhead| overhead.start_ns + overhead.end_ns) {
        0 => share,
        around => format!("{share} + {}", duration(around)),
    }
}

/// The timing mode in words.
fn timing(meta: &Meta, totals: &Totals) -> String {
    let share = if totals.calls > 0 { totals.timed_calls as f64 * 100.0 / totals.calls as f64 } else { 0.0 };
    match meta.timing {
        Timing::Adaptive { budget } => {
            format!("timing adaptive (budget {}, {} of calls timed)", percent(budget * 100.0), percent(share))
        }
        Timing::Full => "timing full (every call)".to_owned(),
        Timing::Count => "timing count (no times, counts only)".to_owned(),
        Timing::Every { period } => format!("timing every {}th call", count(period.into())),
    }
}

fn losses(page: &mut Page, loss: &[LossRow]) {
    let left_out = |row: &&LossRow| row.what == LossKind::CollectorsLeftOut.as_str();
    for row in loss.iter().filter(left_out) {
        let line = format!("{} (--view loss)", without(&row.place, &row.reason));
        page.wrapped(10, Role::Warning, &escape(&line));
    }
    let (role, line) = not_seen(loss);
    page.wrapped(10, role, &line);
    let nameless = loss.iter().filter(|row| row.count >= NAMELESS).find_map(LossRow::named_by);
    if let Some(how) = nameless {
        page.wrapped(10, Role::Warning, &format!("code without a file is [unknown]; it has names with {how}"));
    }
}

/// Losses in a line, without the collectors that were left out.
pub fn not_seen(loss: &[LossRow]) -> (Role, String) {
    // One figure a kind: the places are in the view.
    let mut kinds: Vec<(&str, i64)> = Vec::new();
    let mut summed = 0;
    for row in loss.iter().filter(|row| row.what != LossKind::CollectorsLeftOut.as_str()) {
        if row.what == LossKind::SummedEvents.as_str() {
            summed += row.count;
            continue;
        }
        match kinds.iter_mut().find(|(what, _)| *what == row.what) {
            Some((_, sum)) => *sum += row.count,
            None => kinds.push((&row.what, row.count)),
        }
    }
    let words = |what, n| LossKind::parse(what).map_or(what, |kind| kind.counted(n));
    let unseen: Vec<String> =
        kinds.iter().map(|&(what, n)| format!("{} {}", count(n), escape(words(what, n)))).collect();
    let only_sums = format!("of {} only sums are kept", counted(summed, "event", "events"));
    match (unseen.is_empty(), summed) {
        (true, 0) => (Role::Plain, "nothing lost".to_owned()),
        (true, _) => (Role::Plain, format!("nothing lost · {only_sums} (--view loss)")),
        (false, 0) => (Role::Warning, format!("not seen: {} (--view loss)", unseen.join(", "))),
        (false, _) => (Role::Warning, format!("not seen: {} · {only_sums} (--view loss)", unseen.join(", "))),
    }
}

/// That there is nothing of a collector, and why.
pub fn without(collector: &str, reason: &str) -> String {
    format!("without {collector}: {}", in_short(reason))
}

/// What to do, if a command is all that it takes, else the first sentence: the whole reason is in the view of losses.
fn in_short(reason: &str) -> &str {
    let command = reason.split('`').nth(1).filter(|command| command.starts_with("sudo "));
    command.unwrap_or_else(|| reason.split(". ").next().unwrap_or(reason))
}

/// The command as one would type it.
pub fn shell_words(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = |c: char| c.is_alphanumeric() || "@%+=:,./-_".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, MemoryKills, Meta};

    use super::{SHORTEST, in_short, memory_kills, overhead, shell_words};

    fn meta() -> Meta {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        Meta::new(machine, clock)
    }

    #[test]
    fn a_program_that_ran_out_of_memory_is_told_from_one_that_was_killed() {
        let line = |status, kills: Option<(Option<&str>, Option<i64>)>| {
            let kills = kills.map(|(group, limit_bytes)| MemoryKills {
                count: 1,
                control_group: group.map(str::to_owned),
                limit_bytes,
            });
            memory_kills(&Meta { exit_status: Some(status), memory_kills: kills, ..meta() })
        };
        let of_group = Some((Some("/jobs/7"), Some(64 << 20)));
        let said =
            "killed by SIGKILL: the kernel's memory limit (64 MiB) of its control group /jobs/7 was hit (oom_kill 1)";
        assert_eq!(line(137, of_group).as_deref(), Some(said));
        assert!(line(1, of_group).is_some_and(|line| line.starts_with("a process was killed meanwhile: ")));
        assert!(line(137, Some((None, None))).is_some_and(|line| line.contains("perhaps for want of memory")));
        assert_eq!((line(0, Some((None, None))), line(137, None)), (None, None));
    }

    #[test]
    fn the_cost_of_a_short_run_is_not_told() {
        let mut meta = Meta { overhead_estimate: 0.02, wall_ns: SHORTEST, ..meta() };
        assert_eq!(overhead(&meta), "overhead about 2.0 %");
        meta.wall_ns -= 1;
        assert_eq!(overhead(&meta), "overhead not measurable in so short a run");
    }

    #[test]
    fn what_is_missing_is_said_in_a_line() {
        let granted = "recording from the kernel needs cap_bpf, which is not there; grant it with `sudo setcap cap_bpf=ep \
                       /usr/bin/transect`, or run it with sudo";
        assert_eq!(in_short(granted), "sudo setcap cap_bpf=ep /usr/bin/transect");
        assert_eq!(in_short("a.out is static: no flows. What works: `transect walk`"), "a.out is static: no flows");
        assert_eq!(in_short("nothing"), "nothing");
    }

    #[test]
    fn words_are_quoted_where_needed() {
        let words = ["grep", "-e", "a b", "it's", "", "x=1"].map(str::to_owned);
        assert_eq!(shell_words(&words), r"grep -e 'a b' 'it'\''s' '' x=1");
    }
}
