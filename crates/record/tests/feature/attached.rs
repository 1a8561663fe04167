//! Processes that run already: counts, open regions, and that nothing is left behind.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use transect_profile_model::{Profile, RegionMethod};
use transect_record::feature::{FeatureSettings, FeatureTarget};
use transect_testkit::judged;

use crate::program::{Program, alone, build, check_times, entries, record, settings};

pub struct Running {
    child: Child,
    rounds: std::path::PathBuf,
    program: Program,
    _folder: tempfile::TempDir,
}

impl Running {
    pub fn start() -> Running {
        let program = build("forever.c", false, &[]);
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let rounds = folder.path().join("rounds");
        let child = Command::new(&program.path).arg(&rounds).stdin(Stdio::null()).spawn().unwrap();
        let running = Running { child, rounds, program, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(10);
        while running.rounds() < 3 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        running
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn rounds(&self) -> u64 {
        let mut bytes = [0; 8];
        File::open(&self.rounds)
            .and_then(|file| file.read_exact_at(&mut bytes, 0))
            .map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// Bytes of its text that differ from its file.
    pub fn changed_bytes(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let file = std::fs::read(&self.program.path).unwrap();
        let memory = File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let mut changed = 0;
        for line in maps.lines().filter(|l| l.contains("r-xp") && l.ends_with(self.program.path.to_str().unwrap())) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (start, end) = words[0].split_once('-').unwrap();
            let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let (start, end, offset) = (number(start), number(end), number(words[2]) as usize);
            let mut there = vec![0; (end - start) as usize];
            memory.read_exact_at(&mut there, start).unwrap();
            changed += there.iter().zip(&file[offset..]).filter(|(a, b)| a != b).count();
        }
        changed
    }

    /// It goes on.
    pub fn works(&self) -> bool {
        let before = self.rounds();
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.rounds() > before + 10 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < deadline, "not yet: {what}; {} bytes are changed", self.changed_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attach(pid: i32) -> FeatureSettings {
    settings(
        FeatureTarget::Attach { pids: vec![pid], duration: Some(Duration::from_millis(1500)) },
        RegionMethod::Probe,
    )
}

/// Records as soon as the one before has let go: that may take a fraction of a second longer than its text is clean.
fn record_soon(settings: &FeatureSettings) -> Profile {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match record(settings) {
            Ok(outcome) => return outcome.profile,
            // The guard of one that was killed may still be at it.
            Err(error)
                if ["are in use", "transect-guard"].iter().any(|own| error.to_string().contains(own))
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn counts_are_those_of_the_time_between() {
    let _alone = alone();
    let running = Running::start();
    // Twice: the second recording finds what the first one has left mapped.
    for _ in 0..2 {
        judged("counts of the time between", || counts_of_a_while(&running));
    }
    assert!(running.works());
}

fn counts_of_a_while(running: &Running) -> Result<(), String> {
    let before = running.rounds();
    let profile = record_soon(&attach(running.pid()));
    let after = running.rounds();
    assert_eq!(running.changed_bytes(), 0);
    let found = entries(&profile);
    let rounds = found.get(&vec![1]).copied().unwrap_or(0);
    assert!(rounds <= (after - before) as i64, "{rounds} of {}", after - before);
    // Steps of the first and the last round may be outside of the time.
    let steps_in = |stack: &[i64]| found.get(stack).copied().unwrap_or(0);
    let steps = steps_in(&[1, 2]) + steps_in(&[2]);
    assert!((rounds - 1) * 100 <= steps && steps <= (rounds + 1) * 100, "{steps} steps in {rounds} rounds");
    // Main has been in its region nearly all the time, though it began before.
    let region = profile.feature.regions.iter().position(|region| region.number == 0).unwrap() as u32;
    let main: i64 = profile.feature.nodes.iter().filter(|n| n.region == Some(region)).map(|n| n.exclusive_ns).sum();
    check_times(&profile);
    let enough = rounds > 10 && main > 900_000_000;
    if enough { Ok(()) } else { Err(format!("{main} ns in main, {rounds} rounds")) }
}

#[test]
fn only_the_regions_asked_for_are_on() {
    let _alone = alone();
    let running = Running::start();
    let mut settings = attach(running.pid());
    settings.features = vec!["C".to_owned()];
    let profile = record_soon(&settings);
    let found = entries(&profile);
    assert!(found.len() == 1 && found[&vec![2]] > 100, "{found:?}");
    settings.features = vec!["unheard of".to_owned()];
    let error = record(&settings).unwrap_err().to_string();
    assert!(error.contains("has no feature 'unheard of'; it has: A, B, C"), "{error}");
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_behind() {
    let _alone = alone();
    let running = Running::start();
    // The recorder is a child of ours that runs this test's own program again.
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "attached::records_until_it_is_killed"])
        .env("TRANSECT_TEST_PID", running.pid().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    running.wait_until("it is recorded", || running.changed_bytes() > 0);
    let begun = running.rounds();
    running.wait_until("rounds are recorded", || running.rounds() > begun + 100);
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    running.wait_until("its text is clean", || running.changed_bytes() == 0);
    assert!(running.works());
    // And the next one can record.
    assert!(entries(&record_soon(&attach(running.pid())))[&vec![1]] > 10);
}

#[test]
#[ignore = "a part of the test above"]
fn records_until_it_is_killed() {
    let Ok(pid) = std::env::var("TRANSECT_TEST_PID") else { return };
    let mut settings = attach(pid.parse().unwrap());
    settings.target = FeatureTarget::Attach { pids: vec![pid.parse().unwrap()], duration: None };
    let _ = record(&settings);
}

#[test]
fn the_selection_changes_while_it_is_recorded() {
    let _alone = alone();
    let running = Running::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("selection");
    let mut settings = attach(running.pid());
    settings.selection = Some(path.clone());
    settings.target = FeatureTarget::Attach { pids: vec![running.pid()], duration: Some(Duration::from_secs(2)) };
    judged("a selection that changes", || changes_while_recorded(&running, &settings, &path));
    std::fs::write(&path, "nonsense\n").unwrap();
    let error = record(&settings).unwrap_err().to_string();
    assert!(error.contains("line 1 is neither"), "{error}");
}

fn changes_while_recorded(running: &Running, settings: &FeatureSettings, path: &Path) -> Result<(), String> {
    std::fs::write(path, "region 1\n").unwrap();
    let profile = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Once the first choice has been recorded for a while.
            running.wait_until("it is recorded", || running.changed_bytes() > 0);
            let begun = running.rounds();
            running.wait_until("rounds are recorded", || running.rounds() > begun + 100);
            std::fs::write(path, "# the inner one\nfeature C\n").unwrap();
        });
        record_soon(settings)
    });
    let found = entries(&profile);
    let entered = |stack: &[i64]| found.get(stack).copied().unwrap_or(0);
    // The recording ends before the change where that comes late.
    if entered(&[1]) == 0 || entered(&[2]) == 0 {
        return Err(format!("{found:?}"));
    }
    assert!(found.keys().all(|stack| !stack.contains(&0)), "{found:?}");
    let method = |number| profile.feature.regions.iter().find(|region| region.number == number).unwrap().method;
    assert_eq!((method(0), method(1), method(2)), (None, Some(RegionMethod::Probe), Some(RegionMethod::Probe)));
    assert!(profile.loss.iter().any(|loss| loss.place.starts_with("regions that were switched")), "{:?}", profile.loss);
    check_times(&profile);
    assert_eq!(running.changed_bytes(), 0);
    // Both at once only for the moment of the change.
    let both: i64 = found.iter().filter(|(stack, _)| stack.len() > 1).map(|(_, entries)| *entries).sum();
    if both * 10 < entered(&[2]) { Ok(()) } else { Err(format!("{found:?}")) }
}
