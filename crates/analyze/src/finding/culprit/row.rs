//! A place as a finding: its sentence, its evidence, and what to do next.

use transect_profile_model::{ApiClass, TIME_LIMIT, WaitKind};

use super::super::facts::{ApiFact, Calls};
use super::super::words::{about, bare, brief, count, counted, percent, shell, size, time};
use super::super::{Confidence, FindingKind, FindingRow, Place, critical, runtime};
use super::lock::Lock;
use super::waits::{counted_waits, waited, waits_for_acknowledgement};
use super::{ALONE, Causes, GO_COLLECTOR, LEAST_PERCENT, lower, some};
use crate::criticality::{Callee, GO_SCHEDULER, Leaf, PlaceRow, public_name};
use crate::{CriticalWaitRow, OtherThreadRow, WhatIfScope};

/// Up to so many, its share is a rough guess.
const FEW_SAMPLES: i64 = 50;
/// Part of a place's time that a function which it calls must have to be named with it.
const NAMED_CALLEE: f64 = 0.3;
/// Part from which the place only stands for it.
const MAIN_CALLEE: f64 = 0.6;
/// Part from which a place that waits does nothing else: its waiting and its share are one figure then.
const ONLY_WAITS: f64 = 0.97;
/// Times the idle time of a place's waits that is more than what a replay is wrong by.
const LONGER: f64 = 1.1;
/// Part from which the place is nothing but calls of it.
const ALL_OF_IT: f64 = 0.9;
/// Threads of a place from which it was meant to run in parallel.
const MANY_THREADS: usize = 4;
/// The same for those who merely wait for the place.
const WAITED_PART: f64 = 0.2;
/// Part of the run that waits for a condition take, each, where threads have nothing to do.
const POOL_PART: f64 = 0.1;
/// Mean number of active threads from which a program is parallel.
const PARALLEL: f64 = 1.2;
/// Part of a place's time while CPUs had nothing to do, from which it is serial.
const SERIAL_PART: f64 = 0.8;
/// Counted calls that take less than this part of a function's time are others than those which took it.
const SAME_CALLS: f64 = 0.1;
/// With a smaller part of the time in calls of a function, others of its component make some of them.
const NEARLY_ALL_CALLS: f64 = 0.95;
/// APIs whose size is that of one element, or what was asked for.
const UNTOLD_BYTES: [&str; 4] = ["fread", "fwrite", "poll", "recv"];
/// A read or write of fewer bytes is dominated by the call.
const FEW_BYTES: f64 = 4096.0;

impl<'a> Causes<'a> {
    pub(super) fn row(&self, place: &PlaceRow, ns: i64, locks: &[Lock<'_>]) -> FindingRow {
        // Through others: it stands for more than its own time.
        let whole = ns.max(place.ns);
        let through = ns > place.ns;
        let idle_ns = place.idle_ns();
        let waits = idle_ns * 2 >= place.ns;
        // While others run beside a wait, the run may depend on it all the same: then its share is what it saves.
        let saved_ns = if waits && !through { self.without_waiting_ns(place) } else { 0 };
        let (ns, idle_ns) = match saved_ns as f64 >= LONGER * ns as f64 {
            true => (saved_ns, idle_ns + saved_ns - ns),
            false => (ns, idle_ns),
        };
        let share = self.share(ns);
        let callee = place.callees.first().filter(|callee| callee.ns as f64 >= NAMED_CALLEE * whole as f64);
        let stands_for = callee.filter(|callee| callee.ns as f64 >= MAIN_CALLEE * place.ns as f64);
        let api = callee.map(|callee| callee.function.as_str());
        // Samples of a loop that waits are as good as others to tell its share.
        let few = !waits && place.seen() + place.spin_samples < FEW_SAMPLES;
        let said = if few { about } else { percent };
        let at = Self::at(&place.function, place);
        let finding = match (stands_for, waits.then(|| place.waiting.first()).flatten()) {
            (_, Some(wait)) if place.function == GO_SCHEDULER => {
                let what = match wait.object == TIME_LIMIT {
                    true => "most often until a timer runs out (time.Sleep, a time limit)",
                    false => "for what only Go itself knows",
                };
                format!("No goroutine can run {} of the time: all wait, {what}", said(share))
            }
            _ if place.function == GO_COLLECTOR => {
                format!("Go's garbage collector takes {} of the time in {}", said(share), brief(&place.function))
            }
            _ if through => {
                let inner = self.view.places.iter().find(|other| {
                    other.callers.last() == Some(&place.function) && self.weight(other.ns) >= LEAST_PERCENT
                });
                let inner = inner.map_or_else(String::new, |inner| {
                    let mostly = inner.waiting.first().filter(|_| inner.idle_ns() * 2 >= inner.ns);
                    let (waiting, what) = match mostly {
                        Some(wait) => (" waiting", format!(": {}", waited(inner, wait))),
                        None => ("", String::new()),
                    };
                    format!(", {}{waiting} in {}{what}", said(self.share(inner.ns)), Self::at(&inner.function, inner))
                });
                format!("{at} takes {} of the time with what it calls directly{inner}", said(share))
            }
            _ if !waits && place.nameless_ns * 2 >= place.ns => {
                let (inner, ns) = &place.nameless;
                let most = said(self.share(*ns));
                format!("{at} takes {} of the time with functions without names, {most} in {inner}", said(share))
            }
            (callee, Some(wait)) if (idle_ns as f64) < ONLY_WAITS * ns as f64 => {
                let idle = percent(self.share(idle_ns));
                let call = callee.map_or_else(String::new, |callee| format!(" in {}", brief(&callee.function)));
                format!("{at} takes {} of the time, {idle} waiting{call}: {}", said(share), waited(place, wait))
            }
            (Some(callee), Some(wait)) => {
                format!(
                    "{at} waits {} of the time in {}: {}",
                    said(share),
                    brief(&callee.function),
                    waited(place, wait)
                )
            }
            (None, Some(wait)) => format!("{at} waits {} of the time: {}", said(share), waited(place, wait)),
            (_, None) if place.fault_ns * 2 >= place.ns => {
                format!("{at} takes {} of the time, {} in page faults", said(share), said(self.share(place.fault_ns)))
            }
            (_, None) if place.leaf.is_some() => self.leaf(&at, place, share, said),
            (Some(callee), None) if callee.ns as f64 >= ALL_OF_IT * place.ns as f64 => {
                format!("{at} spends {} of the time in {}", said(self.share(callee.ns)), brief(&callee.function))
            }
            (_, None) => {
                // Less than half of it, but worth a word.
                let some = place.waiting.first().filter(|_| self.weight(idle_ns) >= LEAST_PERCENT);
                let waiting = some.map_or_else(String::new, |wait| {
                    format!(", {} waiting: {}", said(self.share(idle_ns)), waited(place, wait))
                });
                format!("{at} takes {} of the time{}{waiting}", said(share), self.parts(place, ns, said))
            }
        };
        // Go's idle threads wait for one another.
        let dependants = self.dependants(place).filter(|_| !self.is_of_go(&place.function));
        let mut evidence = vec![self.part(ns)];
        if waits {
            evidence.push(counted_waits(place));
        } else if through {
            evidence.push(format!("{} of it its own ({})", time(place.ns), seen(place)));
        } else {
            evidence.push(seen(place));
        }
        let part = |ns: i64, of: i64| said(ns as f64 * 100.0 / of.max(1) as f64);
        // Of a loop that waits no more than the rest is left.
        let loops = place.spin_samples * 2 > place.samples;
        if place.kernel_ns * 4 >= place.on_cpu_ns && place.kernel_ns > 0 && !waits && !through && !loops {
            evidence.push(format!("{} of its on-CPU time in the kernel", part(place.kernel_ns, place.on_cpu_ns)));
        }
        if place.fault_ns * 4 >= place.running_ns
            && place.fault_ns * 2 < place.ns
            && place.fault_ns > 0
            && !waits
            && !through
        {
            evidence.push(format!("{} of its active time in page faults", part(place.fault_ns, place.running_ns)));
        }
        let queued_ns = place.running_ns - place.on_cpu_ns;
        if queued_ns * 4 >= place.running_ns && queued_ns > 0 && !waits && !through {
            evidence.push(format!("{} of its active time without a CPU", part(queued_ns, place.running_ns)));
        }
        // Of what it calls, or of itself where it is a library's API.
        let calls = match callee {
            Some(callee) => self.calls_from(place, callee),
            None => {
                // Libraries may export the same name.
                let its = |api: &ApiFact<'_>| self.facts.names.get(api.callee) == place.component;
                self.calls(&place.function, whole, |api| its(api).then_some(api.all), 1.0)
            }
        };
        // Waits are exact; what the agent timed of the calls would be a second figure for them.
        let counted = calls.as_ref().filter(|calls| !waits || calls.bytes.is_some());
        evidence.extend(counted.map(|calls| if waits { calls.number.clone() } else { calls.words.clone() }));
        if let Some(row) = dependants {
            evidence.push(format!("meanwhile {} for {}", lower(&critical::waiters(row)), critical::name(row.kind)));
        } else if let Some(row) = waits.then(|| self.queue_for(place)).flatten() {
            let (who, what) = (lower(&critical::waiters(row)), critical::named(row.kind, &row.object));
            evidence.push(format!("meanwhile {who} for {what}, {} in all", time(row.ns)));
        }
        let alone = self.view.cpus > 1 && self.view.parallelism_mean.is_some_and(|mean| mean < ALONE);
        if !waits && alone && place.threads >= MANY_THREADS {
            // Of many short processes each has one.
            let (number, of) = if place.processes == place.threads {
                (place.processes, "processes")
            } else {
                (place.threads, "threads")
            };
            evidence.push(format!("in {} {of}, of which one runs at a time", count(number as i64)));
        }
        // What others wait while a holder sleeps is the sleep's.
        let weight = |lock: &Lock<'_>| self.weight(if waits { lock.ns } else { lock.critical_ns });
        // Not in another function that was inlined into the same one.
        let holds = |lock: &Lock<'_>| {
            let held_in = lock.code.and_then(|code| self.holder_place(lock, code));
            lock.code == Some(&place.function) && held_in.is_none_or(|held_in| held_in.function == place.function)
        };
        let is_held = |lock: &&Lock<'_>| holds(lock) && weight(lock) >= LEAST_PERCENT;
        let held = locks.iter().find(is_held);
        if let Some(lock) = held {
            let (waited, named) = (time(lock.ns), critical::named(lock.kind, lock.object));
            evidence.push(match waits {
                true => format!("it holds {named}, for which others wait {waited}"),
                false => format!("others wait {waited} for {named}"),
            });
        }
        let with_lock = held.filter(|_| !waits).map(|lock| self.without_lock(lock)).filter(|&saves| saves > share);
        if let Some(saves) = with_lock.filter(|saves| saves - share >= 1.0) {
            evidence.push(format!("with what they wait it is {} of the run that its repair could save", said(saves)));
        }
        if !place.inlined_into.is_empty() {
            evidence.push(format!("inlined into {}", brief(&place.inlined_into)));
        }
        let mut callers: Vec<String> = place.callers.iter().rev().map(|name| brief(name)).collect();
        callers.dedup();
        callers.truncate(2);
        // By the runtime's functions alone nobody finds the line of the script.
        if let Some((function, at)) = &place.script {
            let script = format!("{} at {at}", brief(function));
            match callers.iter_mut().find(|caller| **caller == brief(function)) {
                Some(caller) => *caller = script,
                None => callers.push(format!("… ← {script}")),
            }
        }
        if !callers.is_empty() {
            evidence.push(format!("called by {}", callers.join(" ← ")));
        }
        FindingRow {
            finding,
            evidence: evidence.join("; "),
            view: "criticality".to_owned(),
            next: self.next(place, callee.map(|callee| callee.function.as_str()), waits, calls.as_ref()),
            kind: match (waits, dependants.is_some() || self.is_serial(place)) {
                (true, _) => FindingKind::Blocked,
                (false, true) => FindingKind::SerialCode,
                (false, false) => FindingKind::HotCode,
            },
            percent: share,
            saves_percent: Some(with_lock.unwrap_or(share)),
            confidence: Some(match (waits, few) {
                (true, _) => Confidence::Exact,
                (false, true) => Confidence::FewSamples,
                (false, false) => Confidence::Interval,
            }),
            place: Place {
                object: place.waiting.first().filter(|_| waits).and_then(|wait| some(&wait.object)),
                ..self.whereabouts(place, api)
            },
        }
    }

    /// What the run is shorter by without a place's waiting: also by the queue for a CPU after each wait, and by what others wait
    /// meanwhile, ns.
    fn without_waiting_ns(&self, place: &PlaceRow) -> i64 {
        let row = critical::prediction(self.view, place.symbol(), f64::INFINITY);
        let row = row.filter(|row| row.scope == WhatIfScope::Wait);
        row.map_or(0, |row| (row.saving * self.view.run_ns() as f64) as i64)
    }

    /// A place that most of its time calls of runtime libraries end in one function of theirs, which is what takes the time.
    fn leaf(&self, at: &str, place: &PlaceRow, share: f64, said: fn(f64) -> String) -> String {
        let Some(leaf) = &place.leaf else { return at.to_owned() };
        let part = said(self.share(leaf.ns));
        if leaf.ns as f64 >= ALL_OF_IT * place.ns as f64 {
            format!("{at} spends {part} of the time in {}", by(leaf))
        } else {
            format!("{at} takes {} of the time, {part} in {}", said(share), by(leaf))
        }
    }

    /// What of a place's time is in which of the functions that it calls; where some of it is told elsewhere, as queueing at a lock
    /// is, its parts are not of the rest.
    fn parts(&self, place: &PlaceRow, ns: i64, said: fn(f64) -> String) -> String {
        let whole = ns >= place.ns;
        let large = place.callees.iter().filter(|callee| whole && self.weight(callee.ns) >= LEAST_PERCENT).take(2);
        let part = |callee: &Callee| match &callee.leaf {
            Some(Leaf { function, through, ns }) => {
                format!("{} in {} (called by {})", said(self.share(*ns)), brief(function), brief(through))
            }
            None => format!("{} in {}", said(self.share(callee.ns)), brief(&callee.function)),
        };
        let parts: Vec<String> = large.map(part).collect();
        if parts.is_empty() { String::new() } else { format!(", {}", parts.join(" and ")) }
    }

    /// A part of a parallel program that runs while CPUs have nothing to do.
    fn is_serial(&self, place: &PlaceRow) -> bool {
        self.view.parallelism_mean.is_some_and(|mean| mean >= PARALLEL)
            && place.low_parallelism_ns as f64 >= SERIAL_PART * place.running_ns as f64
    }

    /// Threads that wait for the place for a good part of its time.
    fn dependants(&self, place: &PlaceRow) -> Option<&'a CriticalWaitRow> {
        // A pool's threads that wait for work all the time depend on nothing.
        let is_pool = |row: &CriticalWaitRow| {
            row.kind == WaitKind::Condition
                && row.group != "main"
                && row.ns as f64 >= POOL_PART * (row.count * self.view.run_ns()) as f64
        };
        let on = |row: &&CriticalWaitRow| {
            !matches!(row.kind, WaitKind::RunQueue | WaitKind::Spin | WaitKind::Join | WaitKind::Child)
                && !is_pool(row)
                && critical::code(row).is_some_and(|code| code == place.function || code == place.inlined_into)
                && row.holder_gain_ns as f64 >= WAITED_PART * place.running_ns as f64
        };
        self.view.waits.iter().filter(on).max_by_key(|row| row.critical_ns)
    }

    /// Threads that wait for one that is in the place, which waits itself, to let them in or hand them something: not for a lock,
    /// whose holder is told with it.
    fn queue_for(&self, place: &PlaceRow) -> Option<&'a CriticalWaitRow> {
        use WaitKind as K;
        let is_it = |party: &OtherThreadRow| party.function == place.function || party.function == place.symbol();
        // Its caller lets in the next of those who wait in there themselves.
        let around = |row: &CriticalWaitRow, party: &OtherThreadRow| {
            place.callers.contains(&party.function) && row.stack.contains(&party.function)
        };
        let on = |row: &&CriticalWaitRow| {
            matches!(row.kind, K::Semaphore | K::Condition | K::Barrier)
                && (row.meanwhile.as_ref().is_some_and(is_it)
                    || row.waker.as_ref().is_some_and(|party| around(row, party)))
                && row.ns as f64 >= WAITED_PART * place.idle_ns() as f64
        };
        self.view.waits.iter().filter(on).max_by_key(|row| row.ns)
    }

    /// What to do or run next. `calls`: what was counted of the function `api` that it calls.
    fn next(&self, place: &PlaceRow, api: Option<&str>, waits: bool, calls: Option<&Counted>) -> String {
        if place.function == GO_COLLECTOR {
            return "Allocate less; who allocates: --view tree --where 'stack = runtime.mallocgc'".to_owned();
        }
        if let Some(wait) = place.waiting.first().filter(|_| waits) {
            if place.function == GO_SCHEDULER {
                return match wait.object == TIME_LIMIT {
                    true => "See who sleeps: Go's execution tracer (go tool trace)".to_owned(),
                    false => {
                        "Ask Go what they wait for: its execution tracer (go tool trace) or block profile".to_owned()
                    }
                };
            }
            if waits_for_acknowledgement(wait) {
                return format!(
                    "Such waits are those of TCP for a delayed acknowledgement: send each message whole with one write, or set \
                     TCP_NODELAY: --view criticality --api {}",
                    shell(bare(place.symbol()))
                );
            }
            return critical::advice(wait.kind, place.symbol());
        }
        if runtime::interprets(&place.component, &place.function)
            && let Some(advice) = runtime::interpreter(&place.component, &self.command())
        {
            return format!("{advice}; what leads to it: --view criticality --api {}", shell(bare(place.symbol())));
        }
        let what = match api {
            Some("memcpy" | "memmove" | "memset" | "strlen" | "memcmp" | "strcmp") => {
                "Do it less often, or on less data"
            }
            Some("malloc" | "free" | "realloc" | "calloc" | "operator new" | "operator delete") => {
                "Reuse memory, or allocate larger pieces"
            }
            Some("mmap" | "munmap" | "brk" | "madvise") => "Keep the memory instead of giving it back",
            Some(call @ ("read" | "write"))
                // Of a reader that waits for who writes, larger calls save nothing.
                if calls.and_then(|calls| calls.bytes).is_some_and(|bytes| bytes < FEW_BYTES)
                    && place.samples >= place.switches
                    && self.facts.could_move_more(call) =>
            {
                "Move more with each call"
            }
            Some("fsync" | "fdatasync" | "msync" | "sync") => "Sync less often, or beside the work",
            None if place.fault_ns * 2 >= place.ns => "Reuse memory, or touch it in larger pages",
            _ => match calls.filter(|_| api.is_some()) {
                Some(calls) => {
                    return format!("See who calls it and how often: --view callers --api {}", shell(&calls.api));
                }
                // A thread's first function, or one that a library calls back from code without stacks, has none.
                None if place.callers.is_empty() => "See its lines",
                None => "See its callers and lines",
            },
        };
        if place.function.starts_with('[') && place.component.is_empty() {
            let components = (0..self.facts.names.len()).map(|id| self.facts.names.get(id as u32));
            return runtime::nameless(&place.calling_component, &place.program, components, &self.command());
        }
        if place.function.starts_with('[') {
            return format!("{what}: --view criticality --component {}", shell(&place.component));
        }
        format!("{what}: --view criticality --api {}", shell(bare(place.symbol())))
    }

    /// What the agent counted of the calls that a place's component makes of a function. Which function of the component made them
    /// was not counted.
    fn calls_from(&self, place: &PlaceRow, callee: &Callee) -> Option<Counted> {
        let same = self.view.places.iter().filter(|other| other.component == place.component);
        let same = same.flat_map(|other| &other.callees).filter(|other| other.function == callee.function);
        let all_ns: i64 = same.map(|other| other.ns).sum();
        let part = (callee.ns as f64 / all_ns.max(1) as f64).min(1.0);
        let from = |api: &ApiFact<'_>| {
            let is_its = |(id, _): &&(u32, Calls)| self.facts.names.get(*id) == place.component;
            api.callers.iter().find(is_its).map(|(_, calls)| *calls)
        };
        self.calls(&callee.function, callee.ns, from, part)
    }

    /// What the agent counted of the calls of an API that has some `ns` of the time, and the bytes of each. `of`: which calls;
    /// `part`: of how many of them that time is.
    fn calls(&self, function: &str, ns: i64, of: impl Fn(&ApiFact<'_>) -> Option<Calls>, part: f64) -> Option<Counted> {
        let same = self.facts.apis.iter().filter(|api| public_name(api.bare_name()) == function);
        let asked = same.filter_map(|api| Some((api, of(api)?)));
        let (api, calls) = asked.max_by_key(|(_, calls)| calls.calls).filter(|(_, calls)| calls.calls > 1)?;
        let timed = self.facts.totals.timed && api.class != ApiClass::CountOnly;
        // Another API goes on in this function by a jump (strcoll in strcmp): these are not the calls that took the time.
        if timed && (calls.self_ns as f64) * part < SAME_CALLS * ns as f64 {
            return None;
        }
        let bytes = calls.mean_bytes().filter(|_| !UNTOLD_BYTES.contains(&function));
        let size = bytes.map_or_else(String::new, |bytes| format!(" and {}", size(bytes)));
        // Which of them this place makes is not counted.
        let elsewhere = if part < NEARLY_ALL_CALLS { ", here and elsewhere" } else { "" };
        let each = if timed { format!(", {}{size} each", time(calls.mean_ns())) } else { String::new() };
        let number = format!("{} of {function}{elsewhere}", counted(calls.calls, "call", "calls"));
        Some(Counted {
            words: format!("{number}{each}"),
            number: format!("{number}{}", size.replace(" and ", " of ")),
            api: api.bare_name().to_owned(),
            bytes,
        })
    }
}

/// A leaf and who called it.
fn by(leaf: &Leaf) -> String {
    format!("{}, called by {}", brief(&leaf.function), brief(&leaf.through))
}

/// By what it is known that a place runs: samples are those of the cut's measure `samples`.
fn seen(place: &PlaceRow) -> String {
    let samples = counted(place.samples, "sample", "samples");
    match place.switches {
        0 => samples,
        switches => format!("{samples} and {} at context switches", counted(switches, "stack", "stacks")),
    }
}

/// What the agent counted of an API's calls.
struct Counted {
    /// How many, and how long and large each.
    words: String,
    /// How many, and how large each.
    number: String,
    /// Its name in the views of calls.
    api: String,
    /// Bytes of each, where it moves some.
    bytes: Option<f64>,
}
