//! Programs whose processes live for less than it takes to place probes in them: a shell's `/bin/true`, a compiler driver's
//! `as`. The first processes of each program are measured; if holding them took longer than they lived, later ones run as they
//! are and are counted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use transect_profile_model::{Loss, LossKind};

/// Processes of each program that are measured whatever they cost.
const FIRST: u32 = 3;
/// And as many as this while none has ended.
const FIRST_AT_ONCE: u32 = 16;
/// Least lifetime of a process that is worth its probes, as a multiple of the time for which it is held.
const WORTH: u32 = 4;

/// What is known of one program's processes.
#[derive(Debug, Default)]
struct TaskEvents {
    ended: u32,
    lived: Duration,
    held: Duration,
    begun: u32,
    left_out: u32,
}

/// Every program that was started.
#[derive(Debug, Default)]
pub(super) struct ShortLived {
    programs: HashMap<PathBuf, TaskEvents>,
    running: HashMap<i32, (PathBuf, Instant)>,
}

impl ShortLived {
    /// Whether a new process of a program is to be measured; one that is not is counted.
    pub fn is_worth(&mut self, program: &Path) -> bool {
        let task_events = self.programs.entry(program.to_owned()).or_default();
        let held = task_events.held.checked_div(task_events.begun).unwrap_or_default();
        let lived = task_events.lived.checked_div(task_events.ended).unwrap_or_default();
        let worth = if task_events.ended < FIRST { task_events.begun < FIRST_AT_ONCE } else { lived >= WORTH * held };
        task_events.left_out += u32::from(!worth);
        worth
    }

    /// A process was held for so long, and runs from now on.
    pub fn begin(&mut self, pid: i32, program: PathBuf, held: Duration) {
        let task_events = self.programs.entry(program.clone()).or_default();
        task_events.begun += 1;
        task_events.held += held;
        self.running.insert(pid, (program, Instant::now()));
    }

    /// A process has ended, or has become another program.
    pub fn end(&mut self, pid: i32) {
        let Some((program, begun)) = self.running.remove(&pid) else { return };
        self.ended(&program, begun.elapsed());
    }

    fn ended(&mut self, program: &Path, lived: Duration) {
        let task_events = self.programs.entry(program.to_owned()).or_default();
        task_events.ended += 1;
        task_events.lived += lived;
    }

    /// Processes that were not measured, by program.
    pub fn losses(&self) -> Vec<Loss> {
        let mut left_out: Vec<_> = self.programs.iter().filter(|(_, task_events)| task_events.left_out > 0).collect();
        left_out.sort_unstable_by_key(|(program, _)| *program);
        let loss = |(program, task_events): (&PathBuf, &TaskEvents)| Loss {
            what: LossKind::UnprofiledChildren,
            place: program.display().to_string(),
            count: task_events.left_out.into(),
            reason: "they live for less than it takes to place probes in them: only the first were measured".to_owned(),
        };
        left_out.into_iter().map(loss).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Duration = Duration::from_millis(40);

    fn after(lived: Duration, processes: u32) -> (ShortLived, u32) {
        let (mut short, program) = (ShortLived::default(), Path::new("/bin/true"));
        let mut measured = 0;
        for pid in 0..processes {
            if short.is_worth(program) {
                measured += 1;
                short.begin(pid as i32, program.to_owned(), HELD);
                short.running.clear();
                short.ended(program, lived);
            }
        }
        (short, measured)
    }

    #[test]
    fn who_lives_longer_than_it_is_held_is_measured_each_time() {
        let (short, measured) = after(WORTH * HELD, 50);
        assert_eq!((measured, short.losses().len()), (50, 0));
    }

    #[test]
    fn of_others_the_first_are() {
        let (mut short, measured) = after(Duration::from_millis(1), 50);
        assert_eq!((measured, short.losses()[0].count), (FIRST, i64::from(50 - FIRST)));
        assert!(short.is_worth(Path::new("/bin/false")), "another program");
    }

    #[test]
    fn before_any_has_ended_nothing_is_known() {
        let (mut short, program) = (ShortLived::default(), Path::new("/bin/sleep"));
        for pid in 0..FIRST_AT_ONCE as i32 {
            assert!(short.is_worth(program));
            short.begin(pid, program.to_owned(), HELD);
        }
        assert!(!short.is_worth(program), "so many are enough to know by");
        (0..FIRST_AT_ONCE as i32).for_each(|pid| short.end(pid));
        assert!(!short.is_worth(program));
    }
}
