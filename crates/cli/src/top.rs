//! `transect top`: a recording while it runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal};
use transect_analyze::{Selection, View};
use transect_profile_model::{Flow, Profile, SchedTables, Thread, WalkTables};
use transect_profile_store::META_FILE;
use transect_report::{Content, terminal};

use crate::arguments::TopArguments;
use crate::config::Config;
use crate::dependence;
use crate::failure::Failure;
use crate::output::Stream;
use crate::running::{self, Running};

/// Lines above the rows: what was recorded, totals, column names.
const HEADER_ROWS: usize = 10;
/// Rows where the output is no terminal.
const PLAIN_ROWS: usize = 20;
/// How long a recorder may take to answer with a snapshot.
const ANSWER: Duration = Duration::from_secs(2);

/// Redraws the view until the recording ends or the iterations are used up.
pub fn top(arguments: &TopArguments, config: &Config) -> Result<u8, Failure> {
    let (folder, recorder) = find(&arguments.recording)?;
    let lives = |pid: Pid| rustix::process::test_kill_process(pid).is_ok();
    let usage = |error: transect_analyze::SelectionError| Failure::Usage(error.to_string());
    let screen = Stream::Stdout.is_terminal() && arguments.iterations != Some(1);
    let mut selection = Selection {
        view: arguments.view.as_deref().map(str::parse).transpose().map_err(usage)?,
        sort: arguments.sort.as_deref().map(str::parse).transpose().map_err(usage)?,
        ..Selection::default()
    };
    let style = Stream::Stdout.style(arguments.color.or(config.report.color));
    let mut before: Option<Profile> = None;
    let mut drawn = 0;
    loop {
        let begin = Instant::now();
        // Of what ran before the recording no exit status tells its end.
        let ended = recorder.is_some_and(|pid| !lives(pid));
        let profile = snapshot(&folder, recorder)?;
        let rows = Stream::Stdout.rows().map_or(PLAIN_ROWS, |rows| rows.saturating_sub(HEADER_ROWS).max(3));
        selection.top = Some(rows);
        let view = *selection.view.get_or_insert_with(|| first_view(&profile));
        if arguments.delta && matches!(view, View::Criticality | View::Walk | View::Latency | View::Features) {
            let view = view.as_str();
            return Err(Failure::Usage(format!("--delta is of calls between components, and --view {view} is not")));
        }
        let shown = match (&before, arguments.delta) {
            (Some(before), true) => since(before, &profile),
            _ => profile.clone(),
        };
        let content = Content::new(&shown, &selection);
        let mut page = Vec::new();
        terminal::render(&content, style, &mut page)?;
        draw(&page, screen, drawn > 0)?;
        drawn += 1;
        let over = ended || profile.meta.exit_status.is_some();
        let over = over || arguments.iterations.is_some_and(|n| drawn >= n);
        if over {
            return Ok(0);
        }
        before = Some(profile);
        std::thread::sleep(arguments.delay.saturating_sub(begin.elapsed()));
    }
}

/// The view of what a recording is mainly of.
fn first_view(profile: &Profile) -> View {
    let views = [
        ("flow", View::Flows),
        ("sched", View::Criticality),
        ("samples", View::Criticality),
        ("walk", View::Walk),
        ("latency", View::Latency),
        ("feature", View::Features),
    ];
    let recorded = |name: &str| profile.meta.collectors.iter().any(|collector| collector == name);
    views.iter().find(|(name, _)| recorded(name)).map_or(View::Flows, |(_, view)| *view)
}

/// Overwrites the last page on a terminal; elsewhere the pages follow one another, an empty line between.
fn draw(page: &[u8], screen: bool, again: bool) -> Result<(), Failure> {
    Stream::Stdout.write::<Failure>(|out| {
        let mut draw = || {
            if !screen {
                out.write_all(if again { b"\n" } else { b"" })?;
                return out.write_all(page);
            }
            // Each line is written over the old one and its rest cleared, which does not flicker as clearing first does.
            out.write_all(if again { b"\x1b[H" } else { b"\x1b[H\x1b[2J" })?;
            for line in page.split_inclusive(|&byte| byte == b'\n') {
                out.write_all(line.strip_suffix(b"\n").unwrap_or(line))?;
                out.write_all(b"\x1b[K\n")?;
            }
            out.write_all(b"\x1b[J")
        };
        draw().map_err(|source| Failure::Write { place: "standard output".to_owned(), source })
    })
}

/// The profile folder that is meant, and its recorder if it runs.
fn find(recording: &Path) -> Result<(PathBuf, Option<Pid>), Failure> {
    let recordings = running::list();
    let pid = recording.to_str().and_then(|word| word.parse::<i32>().ok()).filter(|_| !recording.exists());
    let found = match pid {
        Some(pid) => recordings
            .iter()
            .find(|r| r.recorder == pid || parent(pid) == Some(r.recorder) || attached(r.recorder).contains(&pid)),
        None => {
            let absolute = std::path::absolute(recording).unwrap_or_else(|_| recording.to_path_buf());
            recordings.iter().find(|r| r.folder == absolute)
        }
    };
    match (found, pid) {
        (Some(Running { recorder, folder }), _) => Ok((folder.clone(), Pid::from_raw(*recorder))),
        (None, None) => Ok((recording.to_path_buf(), None)),
        (None, Some(pid)) => Err(Failure::NoRecording(format!(
            "process {pid} is neither a recorder of yours nor a program that one records; start it with: transect \
             record -- COMMAND, or record -p {pid}"
        ))),
    }
}

fn parent(pid: i32) -> Option<i32> {
    let status = transect_attach::read_text(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// The running processes that a recorder was given.
fn attached(recorder: i32) -> Vec<i32> {
    let line = std::fs::read(format!("/proc/{recorder}/cmdline")).unwrap_or_default();
    pids(line.split(|&byte| byte == 0).filter_map(|word| std::str::from_utf8(word).ok()))
}

/// Those of `-p 1,2`, `-p1`, `--pid 1` and `--pid=1` in a command line.
fn pids<'a>(words: impl Iterator<Item = &'a str>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = false;
    for word in words.take_while(|word| *word != "--") {
        let list = match word.strip_prefix("--pid=").or_else(|| word.strip_prefix("-p").filter(|list| !list.is_empty()))
        {
            _ if next => Some(word),
            list => list,
        };
        next = !next && matches!(word, "-p" | "--pid");
        found
            .extend(list.into_iter().flat_map(|list| list.split(',')).filter_map(|pid| pid.trim().parse::<i32>().ok()));
    }
    found
}

/// Asks the recorder for a snapshot and reads it.
fn snapshot(folder: &Path, recorder: Option<Pid>) -> Result<Profile, Failure> {
    let written = || -> Option<SystemTime> { std::fs::metadata(folder.join(META_FILE)).ok()?.modified().ok() };
    if let Some(pid) = recorder {
        let lives = || rustix::process::test_kill_process(pid).is_ok();
        let asked = Instant::now();
        let wait = |goes_on: &dyn Fn() -> bool| {
            while goes_on() && asked.elapsed() < ANSWER && lives() {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let ready = || running::takes_snapshots(pid.as_raw_nonzero().get());
        wait(&|| !ready());
        let before = written();
        if ready() && rustix::process::kill_process(pid, Signal::USR2).is_ok() {
            wait(&|| written() == before);
        }
    }
    if recorder.is_some() && written().is_none() {
        return Err(Failure::NoRecording(
            "the recording has written no profile yet: ask again; latencies or features by themselves have one at its end"
                .to_owned(),
        ));
    }
    dependence::read(folder)
}

/// What was added between two snapshots of one recording.
fn since(before: &Profile, now: &Profile) -> Profile {
    // Rows are looked up by what they name: indices may differ from snapshot to snapshot.
    fn key<'a>(profile: &'a Profile, flow: &'a Flow) -> (i32, u32, &'a str, &'a str, &'a str, &'a str, bool) {
        let path = |id: u32| profile.components.get(id as usize).map_or("", |c| &c.path);
        let tid = profile.threads.get(flow.thread as usize).map_or(0, |t| t.tid);
        (tid, flow.context, path(flow.caller), path(flow.callee), &flow.symbol, &flow.version, flow.dlsym)
    }
    let old: HashMap<_, &Flow> = before.flows.iter().map(|flow| (key(before, flow), flow)).collect();
    let less = |now: Option<i64>, old: Option<i64>| now.map(|n| (n - old.unwrap_or(0)).max(0));
    let mut profile = now.clone();
    // Of these only what there was since the start is known.
    (profile.sched, profile.walk) = (SchedTables::default(), WalkTables::default());
    (profile.meta.criticality, profile.meta.walk) = (None, None);
    profile.meta.wall_ns = (now.meta.wall_ns - before.meta.wall_ns).max(1);
    profile.flows = now
        .flows
        .iter()
        .filter_map(|flow| {
            let Some(old) = old.get(&key(now, flow)) else { return Some(flow.clone()) };
            let mut flow = flow.clone();
            flow.calls -= old.calls;
            flow.timed_calls -= old.timed_calls;
            flow.abandoned_calls -= old.abandoned_calls;
            flow.total_ns = less(flow.total_ns, old.total_ns);
            flow.self_ns = less(flow.self_ns, old.self_ns);
            flow.attributed_ns = less(flow.attributed_ns, old.attributed_ns);
            flow.bytes = less(flow.bytes, old.bytes);
            // Intervals and percentiles of a difference are not the differences of them.
            (flow.total_ns_low, flow.total_ns_high, flow.self_ns_low, flow.self_ns_high) = (None, None, None, None);
            (flow.calls > 0).then_some(flow)
        })
        .collect();
    // Shares are of what the threads lived since.
    for thread in &mut profile.threads {
        let pid = |of: &Profile, thread: &Thread| of.processes.get(thread.process as usize).map(|process| process.pid);
        let own = pid(now, thread);
        let same = |old: &&Thread| old.tid == thread.tid && old.start_ns == thread.start_ns && pid(before, old) == own;
        let Some(old) = before.threads.iter().find(same) else { continue };
        for (now, old) in [
            (&mut thread.wall_ns, old.wall_ns),
            (&mut thread.busy_ns, old.busy_ns),
            (&mut thread.wait_ns, old.wait_ns),
            (&mut thread.calls, old.calls),
            (&mut thread.outermost_ns, old.outermost_ns),
            (&mut thread.outermost_attributed_ns, old.outermost_attributed_ns),
            (&mut thread.attributed_ns, old.attributed_ns),
        ] {
            *now = (*now - old).max(0);
        }
    }
    profile
}

#[cfg(test)]
mod tests {
    use transect_analyze::synthetic::{Call, ProfileBuilder, ThreadSpec};

    use super::*;

    /// One thread that lives for so long, half of it in one call after the other.
    fn run(wall_ns: i64) -> Profile {
        let calls = vec![Call::new(1, "work", wall_ns, wall_ns / 2)];
        let (name, group) = ("app".to_owned(), "main".to_owned());
        let thread = ThreadSpec { name, group, own_ns: wall_ns / 2, calls, active: 1 };
        ProfileBuilder::new("/bin/app", &["libwork.so"]).thread(thread).build()
    }

    #[test]
    fn attached_processes_are_in_the_recorders_command_line() {
        for (line, expected) in [
            ("transect record -p 12,13 --for 3s", &[12, 13][..]),
            ("transect record -p12 -o x", &[12]),
            ("transect record --pid=7 --pid 8", &[7, 8]),
            ("transect record --processes apart -- app -p 9", &[]),
        ] {
            assert_eq!(pids(line.split(' ')), expected, "{line}");
        }
    }

    #[test]
    fn shares_of_a_difference_are_of_the_time_between() {
        let between = since(&run(9_000), &run(10_000));
        let (flow, thread) = (&between.flows[0], &between.threads[0]);
        assert_eq!((flow.calls, flow.total_ns), (1_000, Some(500)));
        assert_eq!((thread.wall_ns, thread.outermost_ns, thread.attributed_ns), (1_000, 500, 1_000));
    }
}
