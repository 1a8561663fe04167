//! Processes and threads that are started again and again for little.

use transect_profile_model::WaitKind;

use super::super::words::{count, time};
use super::super::{Confidence, FindingKind, FindingRow};
use super::{Causes, LEAST_PERCENT};
use crate::criticality::{PlaceRow, qualified};

/// What lives only a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Started {
    Processes,
    Threads,
}

impl Started {
    /// Starting fewer is no habit.
    fn least(self) -> usize {
        match self {
            Self::Processes => 20,
            Self::Threads => 200,
        }
    }

    /// What is waited for at their end.
    fn end(self) -> WaitKind {
        match self {
            Self::Processes => WaitKind::Child,
            Self::Threads => WaitKind::Join,
        }
    }

    /// Time of a place in which it starts one. A new process stands there until it becomes another program.
    fn starting_ns(self, place: &PlaceRow) -> i64 {
        place.callees.iter().filter(|callee| self.is_start(&callee.function)).map(|callee| callee.ns).sum()
    }

    /// Time of a place in those that live only a moment, in which they do what they were started for.
    fn work_ns(self, place: &PlaceRow) -> i64 {
        if place.runtime { 0 } else { (place.short_lived_ns - self.starting_ns(place)).max(0) }
    }

    /// Whether a function starts one.
    fn is_start(self, function: &str) -> bool {
        const PROCESS: [&str; 13] = [
            "fork",
            "vfork",
            "_Fork",
            "clone",
            "clone3",
            "posix_spawn",
            "posix_spawnp",
            "execve",
            "execv",
            "execl",
            "execvp",
            "system",
            "popen",
        ];
        const THREAD: [&str; 7] = [
            "pthread_create",
            "thrd_create",
            "clone3",
            "std::async",
            "std::thread::thread",
            "std::thread::_M_start_thread",
            "std::thread::spawn",
        ];
        let bare = function.trim_start_matches('_').trim_start_matches("libc_").trim_start_matches("GI_");
        match self {
            Self::Processes => PROCESS.iter().any(|start| bare == start.trim_start_matches('_')),
            // Templates have their arguments behind the name.
            Self::Threads => {
                let bare = qualified(bare).split(['<', '(']).next().unwrap_or(bare);
                THREAD.iter().any(|start| bare.ends_with(start))
            }
        }
    }
}

/// What lives only a moment, and where it is started.
pub(super) struct Starts<'a> {
    what: Started,
    count: usize,
    ns: i64,
    /// Where they are started.
    pub place: Option<&'a PlaceRow>,
    /// There their end is waited for; where they are started is not known.
    waits: bool,
    /// The program that started most of them, and how many.
    parent: Option<&'a (String, usize)>,
}

impl Starts<'_> {
    /// Time of a place that is in the finding about what is started.
    pub fn has_ns(&self, place: &PlaceRow) -> i64 {
        place.short_lived_ns - self.what.work_ns(place)
    }
}

impl<'a> Causes<'a> {
    /// Processes or threads that end in a moment, if what they run is their start and end rather than work of the program.
    pub(super) fn starts(&self) -> Option<Starts<'a>> {
        let number = |what| match what {
            Started::Processes => self.view.short_lived_processes,
            Started::Threads => self.view.short_lived_threads,
        };
        let what = [Started::Processes, Started::Threads].into_iter().find(|what| number(*what) >= what.least())?;
        let places = &self.view.places;
        let ns: i64 = places.iter().map(|place| place.short_lived_ns).sum();
        let own = || places.iter().filter(|place| !place.runtime);
        // Who starts them; where that is too quick to be seen, who waits for their end.
        let starts = |place: &&PlaceRow| what.starting_ns(place);
        // What they do in code of their own is work, which starting fewer of them leaves to be done.
        let work = || own().map(|place| what.work_ns(place));
        let (most, worked) = (work().max()?, work().sum::<i64>());
        if most > 0 && most * 2 >= ns {
            return None;
        }
        let ends = |place: &&PlaceRow| -> i64 {
            let idle = place.waiting.iter().filter(|wait| wait.kind == what.end()).map(|wait| wait.idle_ns);
            idle.sum::<i64>() + if what == Started::Processes { place.child_wait_ns } else { 0 }
        };
        let parent = self.view.short_lived_parent.as_ref().filter(|_| what == Started::Processes);
        // The children's own time is there, too, as another program's.
        let of_parent = |place: &&PlaceRow| {
            let file = place.component.rsplit('/').next();
            parent.is_none_or(|(program, _)| place.program == *program || file == Some(program))
        };
        let own = || own().filter(of_parent);
        let started = own().filter(|place| starts(place) > 0).max_by_key(starts);
        let place = started.or_else(|| own().filter(|place| ends(place) > 0).max_by_key(ends));
        let waits = started.is_none() && place.is_some();
        // Most of them may be too short for a sample.
        let ns = ns.max(self.view.short_lived_ns) - worked;
        let ns = (ns + place.map_or(0, |place| place.ns - place.short_lived_ns)).min(self.view.run_ns());
        (self.weight(ns) >= LEAST_PERCENT).then_some(Starts { what, count: number(what), ns, place, waits, parent })
    }

    pub(super) fn started(&self, starts: &Starts<'_>) -> FindingRow {
        let share = self.share(starts.ns);
        let each = time(starts.ns / starts.count as i64);
        let by = match (starts.place, starts.parent) {
            (Some(place), _) if starts.waits => format!(", and waited for by {}", Self::at(&place.function, place)),
            (Some(place), _) => format!(" by {}", Self::at(&place.function, place)),
            (None, Some((program, _))) => format!(" by {program}"),
            (None, None) => String::new(),
        };
        let all = count(starts.count as i64);
        let number = match starts.parent {
            Some(&(_, of_it)) if of_it < starts.count => format!("{} of {all}", count(of_it as i64)),
            _ => all,
        };
        let is_start = |function: &str| starts.what.is_start(function);
        let api = starts.place.and_then(|place| place.callees.iter().find(|callee| is_start(&callee.function)));
        let (what, kind, next) = match starts.what {
            Started::Processes => (
                "processes",
                FindingKind::ProcessStarts,
                "Do the work in the process itself, or give one child more of it: --view criticality",
            ),
            Started::Threads => (
                "threads",
                FindingKind::ThreadStarts,
                "Keep threads and hand them work, or give each more of it: --view criticality",
            ),
        };
        FindingRow {
            finding: format!("{number} {what} that live only a moment are started{by}"),
            evidence: format!(
                "{} of {}, {each} each, to start them and for their end",
                time(starts.ns),
                time(self.view.run_ns())
            ),
            view: "criticality".to_owned(),
            next: next.to_owned(),
            kind,
            percent: share,
            saves_percent: Some(share),
            confidence: Some(Confidence::Interval),
            place: starts
                .place
                .map(|place| self.whereabouts(place, api.map(|callee| callee.function.as_str())))
                .unwrap_or_default(),
        }
    }
}
