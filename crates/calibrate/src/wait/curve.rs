//! The trials of the curve, and their results as the child tells them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use super::protocol::Pause;
use crate::CalibrateError;
use crate::toggle::SPLITS;

/// One point to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Wait between the stores, or serialization.
    pub pause: Pause,
    /// Bytes of the site before the line's end.
    pub split: u8,
    /// The executing thread evicts the line each time.
    pub cold: bool,
}

/// One point measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitFailures {
    /// Ticks waited between the stores; None: all threads were serialized instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ticks: Option<u64>,
    /// Bytes of the site before the line's end; 0: it doesn't straddle and is changed by one store.
    pub split: u8,
    /// The executing thread evicted the line each time.
    pub cold: bool,
    /// Changes of the site.
    pub toggles: u64,
    /// Mixed instructions executed. One that ended the process ends the trial, too.
    pub failures: u64,
    /// Times that the site was executed meanwhile.
    pub executed: u64,
}

/// What the trials showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Curve {
    /// With waits.
    pub waits: Vec<WaitFailures>,
    /// With serialization in their place.
    pub serialized: Vec<WaitFailures>,
}

/// How long to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// About a second.
    Quick,
    /// Some seconds.
    Usual,
}

impl Budget {
    /// Time for each trial.
    pub fn trial_time(self) -> Duration {
        Duration::from_millis(if self == Budget::Quick { 5 } else { 30 })
    }

    /// The trials, in the order of their numbers.
    pub fn trials(self) -> Vec<Trial> {
        let waits: &[u64] = match self {
            Budget::Quick => &[0, 100, 200, 400, 1000, 4000, 16_000],
            Budget::Usual => &[0, 50, 100, 150, 200, 250, 300, 400, 600, 1000, 2000, 4000, 8000, 16_000, 32_000],
        };
        let pauses = waits.iter().map(|&ticks| Pause::Ticks(ticks)).chain([Pause::Serialize]);
        let mut trials = Vec::new();
        for pause in pauses {
            for cold in [false, true] {
                // A site within a line is changed by one store: there the wait means nothing, and one trial tells.
                let splits = SPLITS.iter().filter(|&&split| split != 0 || pause != Pause::Serialize);
                trials.extend(splits.map(|&split| Trial { pause, split, cold }));
            }
        }
        trials
    }
}

/// Measures the curve in child processes: `command` makes one that calls [`super::run_child`] with the trials of
/// `budget` from the given one on.
///
/// # Errors
/// [`CalibrateError::Child`] if the child can't be started or says nothing.
pub fn measure(budget: Budget, mut command: impl FnMut(usize) -> Command) -> Result<Curve, CalibrateError> {
    let trials = budget.trials();
    let mut curve = Curve::default();
    let mut next = 0;
    while next < trials.len() {
        let mut child = command(next)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| CalibrateError::Child { reason: error.to_string() })?;
        let before = next;
        let output = child.stdout.take().map(BufReader::new);
        for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if let Some((index, row)) = read(&line, &trials).filter(|&(index, _)| index == next) {
                next = index + 1;
                if row.wait_ticks.is_some() { &mut curve.waits } else { &mut curve.serialized }.push(row);
            }
        }
        let status = child.wait().map_err(|error| CalibrateError::Child { reason: error.to_string() })?;
        if next == before {
            return Err(CalibrateError::Child { reason: format!("no result: {status}") });
        }
    }
    Ok(curve)
}

fn read(line: &str, trials: &[Trial]) -> Option<(usize, WaitFailures)> {
    let mut words = line.split(' ');
    let died = match words.next()? {
        "done" => false,
        "died" => true,
        _ => return None,
    };
    let mut number = || words.next()?.parse::<u64>().ok();
    let (index, toggles, failures, executed) = (number()? as usize, number()?, number()?, number()?);
    let trial = trials.get(index)?;
    let wait_ticks = match trial.pause {
        Pause::Ticks(ticks) => Some(ticks),
        Pause::Serialize => None,
    };
    // A trial that died in its first toggles has made at least the one that killed it.
    let toggles = if died { toggles.max(1) } else { toggles };
    Some((index, WaitFailures { wait_ticks, split: trial.split, cold: trial.cold, toggles, failures, executed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_dies_is_a_failure_and_the_next_one_goes_on() {
        let trials = Budget::Quick.trials();
        let mut started = Vec::new();
        let curve = measure(Budget::Quick, |first| {
            started.push(first);
            let mut command = Command::new("sh");
            // Dies in trial 2; the second child does the rest.
            let script = match first {
                0 => "echo done 0 100 0 7; echo done 1 100 3 7; echo died 2 0 1 0; exit 3".to_owned(),
                _ => format!("for i in $(seq {first} {}); do echo done $i 10 0 5; done", trials.len() - 1),
            };
            command.args(["-c", &script]);
            command
        })
        .unwrap();
        assert_eq!(started, [0, 3]);
        assert_eq!(curve.waits.len() + curve.serialized.len(), trials.len());
        assert_eq!(curve.waits[1].failures, 3);
        assert_eq!((curve.waits[2].toggles, curve.waits[2].failures), (1, 1));
        assert!(curve.serialized.iter().all(|row| row.wait_ticks.is_none() && row.toggles == 10));
    }

    #[test]
    fn a_child_that_says_nothing_is_an_error() {
        let error = measure(Budget::Quick, |_| Command::new("false")).unwrap_err();
        assert!(error.to_string().contains("no result"), "{error}");
    }
}
