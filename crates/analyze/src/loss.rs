use serde::Serialize;
use transect_profile_model::{CODE_WITHOUT_FILE, Profile};

use crate::finding::runtime;

/// Something the recording knows it did not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossRow {
    /// What was lost, in words.
    pub what: String,
    /// Component, thread, process or file.
    #[serde(rename = "where")]
    pub place: String,
    /// How many.
    pub count: i64,
    /// Why.
    pub reason: String,
}

/// What stands before the command line that avoids a loss, in its reason.
const NAMED_BY: &str = "; it has names with ";

impl LossRow {
    /// The command line by which code that a runtime makes has names, where that is what is lost.
    pub fn named_by(&self) -> Option<&str> {
        self.reason.split_once(NAMED_BY).map(|(_, how)| how)
    }
}

/// Losses, by kind, most first.
pub fn loss(profile: &Profile) -> Vec<LossRow> {
    let mut losses: Vec<_> = profile.loss.iter().collect();
    losses.sort_by(|a, b| {
        (a.what, b.count).cmp(&(b.what, a.count)).then_with(|| (&a.place, &a.reason).cmp(&(&b.place, &b.reason)))
    });
    let row = |loss: &transect_profile_model::Loss| {
        let advice = (loss.place == CODE_WITHOUT_FILE).then(|| runtime::advice(profile)).flatten();
        LossRow {
            what: loss.what.as_str().to_owned(),
            place: loss.place.clone(),
            count: loss.count,
            reason: loss.reason.clone() + &advice.map(|how| format!("{NAMED_BY}{how}")).unwrap_or_default(),
        }
    };
    losses.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Loss, LossKind, Machine, Meta, Process};

    use super::*;

    #[test]
    fn code_that_a_runtime_made_has_names_with_its_own_flag() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        let executable = "/usr/bin/node".to_owned();
        profile.processes.push(Process { pid: 1, parent_pid: 0, executable, start_ns: 0, wall_ns: 1 });
        profile.meta.command = vec!["node".to_owned(), "app.js".to_owned()];
        let (place, reason) = (CODE_WITHOUT_FILE.to_owned(), "addresses without a symbol".to_owned());
        profile.loss.push(Loss { what: LossKind::UnresolvedNames, place, count: 9, reason });
        assert!(loss(&profile)[0].named_by().is_some_and(|how| how.starts_with("node --perf-basic-prof")));
        profile.meta.command.insert(1, "--perf-basic-prof".to_owned());
        assert_eq!(loss(&profile)[0].named_by(), None, "it was given");
        profile.processes[0].executable = "/usr/bin/cat".to_owned();
        assert_eq!(loss(&profile)[0].reason, "addresses without a symbol");
    }
}
