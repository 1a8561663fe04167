//! What a run's wall time goes to, one row a cause: the elapsed time is divided among places in the program, and what
//! threads wait for joins the place that they depend on.

mod lock;
mod row;
mod starts;
mod under_lock;
mod waits;

use std::cmp::Reverse;

use lock::Lock;
use rustc_hash::FxHashMap;
use transect_profile_model::WaitKind;

use super::facts::Facts;
use super::words::{brief, count, percent, time};
use super::{Confidence, FindingKind, FindingRow, Place, critical, runtime};
use crate::criticality::{
    CONTENTION, GO_MONITOR, GO_SCHEDULER, LibraryCallRow, PlaceRow, is_root, public_name, unplaced_group,
};
use crate::{CriticalWaitRow, CriticalityView};

/// Share of the elapsed time from which a place is worth a line, 0–100.
const LEAST_PERCENT: f64 = 5.0;
/// With fewer samples a place is noise.
const LEAST_SAMPLES: i64 = 10;
/// The same where nearly all samples are of one place.
const LEAST_OF_ONE: i64 = 3;
/// Part of a component's time.
const NEARLY_ALL: f64 = 0.9;
/// Part of a place's time in which others wait for a lock that it holds, from which the lock is the cause.
const LOCK_PART: f64 = 0.5;
/// Waits for a lock that make it a cause, unless they take much of the time.
const LEAST_WAITS: i64 = 30;
/// A place with this share is the cause by itself.
const PLAIN_PERCENT: f64 = 50.0;
/// With a larger cause the time is not spread; what is spread has as much.
const SPREAD_PERCENT: f64 = 25.0;
/// Part of the largest component's time from which another cause is as worth a look.
const LEADING_PART: f64 = 0.5;
/// A function that does its work through others has this much more with them than the first of them has.
const THROUGH_OTHERS: f64 = 1.5;
/// And this part of it by itself: it is no dispatcher.
const OWN_PART: f64 = 0.1;
/// With so much of it in waits, each has a row of its own: work and waiting are not repaired alike.
const WAITING_PART: f64 = 0.2;
/// A place with this part of its time in calls by that function belongs to it.
const CALLED_PART: f64 = 0.8;
/// Places of the elapsed time; further ones repeat what the table shows.
const MOST: usize = 6;
/// Functions of every Go program's scheduler and collector.
const GO: [&str; 4] = [GO_SCHEDULER, GO_MONITOR, GO_COLLECTOR, "runtime.futex"];
/// Where Go collects garbage beside the program.
const GO_COLLECTOR: &str = "runtime.gcBgMarkWorker";
/// Calls that take what others send.
const READS: [&str; 6] = ["read", "readv", "recv", "recvfrom", "recvmsg", "splice"];
/// Others that wait for what it reads do so for this part of its time, at least.
const DRAINED_PART: f64 = 0.2;
/// Shares of two that take turns which differ by less than this part are alike.
const ALIKE: f64 = 0.1;
/// So many sleeps at one place are a loop that looks for something, ...
const POLLS: i64 = 100;
/// ... where they take this part of the run ...
const POLLING_PART: f64 = 0.5;
/// ... and are no longer than this each, ns: longer ones set a pace of their own.
const POLL_NS: i64 = 2_000_000;
/// Percent by which two sums of the same time may differ.
const ROUNDING: f64 = 0.01;
/// Threads that are active at once, below which nothing else sets the pace.
const ALONE: f64 = 1.1;

/// Whether the view has what the causes are read from.
pub(super) fn can_name(view: &CriticalityView) -> bool {
    view.sample_hz > 0 && view.elapsed_ns > 0 && !view.places.is_empty()
}

/// Causes, in no order.
pub(super) fn find(view: &CriticalityView, facts: &Facts<'_>) -> Vec<FindingRow> {
    let causes = Causes { view, facts };
    let locks = causes.locks();
    let starts = causes.starts();
    let mut findings: Vec<FindingRow> = Vec::new();
    let mut held: Vec<&str> = Vec::new();
    let mut told: Vec<(&str, i64)> = Vec::new();
    // What one thread after the other does under a lock takes its time on a CPU, however many there are.
    let mut serial_ns = 0;
    for lock in &locks {
        let holder = lock.code.and_then(|code| causes.holder_place(lock, code));
        // Who was woken and waits for a CPU still waits for the lock.
        let critical_ns = lock.critical_ns + lock.queued.iter().map(|(_, ns)| ns).sum::<i64>();
        // Where few wait long, they wait for work to be done, and the lock only says so.
        let is_habit = lock.count >= LEAST_WAITS || causes.weight(critical_ns) >= SPREAD_PERCENT;
        // What takes longer than the run is done by several at once.
        let serial = lock.code.filter(|_| !lock.inferred).map_or(0, |code| causes.on_cpu_ns(code));
        serial_ns = serial_ns.max(if serial <= view.run_ns() { serial } else { 0 });
        if !is_habit || causes.weight(critical_ns) < LEAST_PERCENT {
            continue;
        }
        if holder.is_none_or(|place| critical_ns as f64 >= LOCK_PART * place.ns as f64) {
            findings.push(causes.lock(lock, critical_ns, holder));
            held.extend(holder.map(|place| place.function.as_str()));
            told.extend(&lock.queued);
        } else {
            // The place where it is held has a row of its own, with what its repair saves of this.
            told.extend(lock.queued.iter().filter(|(function, _)| Some(*function) != lock.code));
        }
    }
    if let Some(starts) = &starts {
        findings.push(causes.started(starts));
    }
    let places = view.places.iter().filter(|place| !held.contains(&place.function.as_str()));
    let mut rows = Vec::new();
    let library = causes.library_call();
    let working = causes.works_through_others().filter(|_| library.is_none());
    if let Some(call) = library {
        let mut row = causes.row(&as_place(call), call.caller.ns, &locks);
        row.finding += &causes.largest_part(call);
        rows.push(row);
    }
    for place in places {
        if let Some(call) = library {
            let through: i64 =
                call.parts.iter().filter(|(function, _)| *function == place.function).map(|(_, ns)| ns).sum();
            if through as f64 >= CALLED_PART * place.ns as f64 {
                continue;
            }
        }
        if let Some(working) = working {
            if std::ptr::eq(working, place) {
                rows.push(causes.row(place, place.near_ns, &locks));
                continue;
            }
            if place.caller.0 == working.function && place.caller.1 as f64 >= CALLED_PART * place.ns as f64 {
                continue;
            }
        }
        // What is started for a moment is told already, and so is the queue at a lock.
        let queued = told.iter().filter(|(name, _)| *name == place.function).map(|(_, ns)| ns).sum::<i64>();
        let ns = place.ns - queued - starts.as_ref().map_or(0, |starts| starts.has_ns(place));
        let starter =
            starts.as_ref().is_some_and(|starts| starts.place.is_some_and(|other| std::ptr::eq(other, place)));
        if !starter && causes.weight(ns) >= LEAST_PERCENT && causes.is_seen(place) {
            rows.push(causes.row(place, ns, &locks));
        }
    }
    rows.truncate(MOST);
    // Who spins until a place is done has the same cause.
    let mut spinning = critical::spinning(view);
    let spun_for = |row: &FindingRow| spinning.as_ref().is_some_and(|spin| spin.place.function == row.place.function);
    if let Some(place) = rows.iter().position(spun_for)
        && let Some(spin) = spinning.take()
    {
        if rows[place].kind != FindingKind::Blocked {
            rows[place].kind = FindingKind::Spinning;
        }
        rows[place].evidence += &format!("; {}: {}", lower(&spin.finding), spin.evidence);
    }
    rows.iter_mut().for_each(|row| causes.cap(row));
    causes.exchange(&mut rows);
    findings.extend(rows);
    findings.extend(spinning);
    let queued: i64 = told.iter().map(|(_, ns)| ns).sum();
    findings.extend(critical::crowded(view, queued.max(serial_ns)));
    findings.extend(critical::pinned(view));
    findings.extend(causes.spread(&findings, &locks));
    findings
}

struct Causes<'a> {
    view: &'a CriticalityView,
    facts: &'a Facts<'a>,
}

impl<'a> Causes<'a> {
    fn share(&self, ns: i64) -> f64 {
        (ns as f64 * 100.0 / self.view.run_ns() as f64).clamp(0.0, 100.0)
    }

    /// The launched command as one line.
    fn command(&self) -> String {
        self.facts.profile.meta.command.join(" ")
    }

    /// The run's time less what a server waited for requests, ns.
    fn asked_ns(&self) -> i64 {
        (self.view.run_ns() - self.view.requests_ns).max(1)
    }

    /// Share of that, 0–100: by it is told what is worth a word.
    fn weight(&self, ns: i64) -> f64 {
        (ns as f64 * 100.0 / self.asked_ns() as f64).clamp(0.0, 100.0)
    }

    /// `1.2 s of 3 s`.
    fn part(&self, ns: i64) -> String {
        let requests_ns = self.view.requests_ns;
        let requests = match self.share(requests_ns) >= LEAST_PERCENT {
            // A part of the run, not of what was named before.
            true => format!(" (waiting for requests: {} of the run)", time(requests_ns.min(self.view.run_ns()))),
            false => String::new(),
        };
        format!("{} of {}{requests}", time(ns.min(self.view.run_ns())), time(self.view.run_ns()))
    }

    /// The place that a wait depends on, by its function.
    fn place(&self, function: &str) -> Option<&'a PlaceRow> {
        self.view.places.iter().find(|place| place.function == function || place.inlined_into == function)
    }

    /// Waits are exact; running is known from samples.
    fn is_seen(&self, place: &PlaceRow) -> bool {
        // A program is held at its start until the recording is ready.
        let held = place.runtime && place.component.starts_with("ld-") && place.running_ns * 2 < place.ns;
        !held && place.function != GO_MONITOR && (place.seen() >= LEAST_SAMPLES || place.running_ns * 2 < place.ns)
    }

    /// Where others work beside a place, making it faster saves what the whole run gains by that.
    fn cap(&self, row: &mut FindingRow) {
        let works = matches!(row.kind, FindingKind::HotCode | FindingKind::SerialCode);
        if self.view.threads.len() < 2 || !(works || self.sleeps_beside_a_lock(row)) {
            return;
        }
        // Where nothing runs beside it, all of it is saved, with what it calls.
        if works && self.view.parallelism_mean.is_some_and(|mean| mean < ALONE) {
            return;
        }
        let function = row.place.function.as_deref().unwrap_or_default();
        // In larger pieces, what it sends is less work for who waits for it.
        if self.feeds_others(function) || self.drains_for_others(function) || self.is_of_go(function) {
            return;
        }
        // What is predicted is without what it calls.
        if self.place(function).is_some_and(|place| row.percent > self.share(place.ns) + ROUNDING) {
            return;
        }
        let Some(saved) = critical::prediction(self.view, function, f64::INFINITY) else { return };
        let most = saved.saving_high * 100.0;
        let Some(saves) = row.saves_percent.filter(|&saves| saves > most) else { return };
        // Its sleeps, which a replay leaves as many as they were, may end with what this does.
        if let Some(poll) = self.polling(function).filter(|_| works) {
            let each = time(poll.ns / poll.count.max(1));
            row.evidence += &format!(
                "; meanwhile {} sleeps {} times for {each}: if it looks for this to be done, that ends, too",
                poll.group,
                count(poll.count)
            );
            return;
        }
        row.saves_percent = Some(most);
        if saves - most >= LEAST_PERCENT {
            row.evidence += &format!("; others set the pace meanwhile: without it {} at most (what-if)", percent(most));
            row.evidence += &critical::beside_others(self.view);
        }
    }

    /// A thread that sleeps again and again for most of the run, elsewhere than in this function: it may look for what others do.
    fn polling(&self, function: &str) -> Option<&'a CriticalWaitRow> {
        let is_poll = |row: &&CriticalWaitRow| {
            row.kind == WaitKind::Sleep
                && row.threads == 1
                && row.count >= POLLS
                && row.ns <= row.count * POLL_NS
                && row.ns as f64 >= POLLING_PART * self.view.run_ns() as f64
                && !row.stack.iter().any(|on| on == function)
        };
        self.view.waits.iter().find(is_poll)
    }

    /// A sleep of a program whose threads wait for a lock: what sets the pace is done under that.
    fn sleeps_beside_a_lock(&self, row: &FindingRow) -> bool {
        let place = row.place.function.as_deref().and_then(|function| self.place(function));
        let sleeps = place.and_then(|place| place.waiting.first()).is_some_and(|wait| wait.kind == WaitKind::Sleep);
        row.kind == FindingKind::Blocked && sleeps && self.view.what_if.iter().any(|row| row.path == CONTENTION)
    }

    /// Two places that hand work to and fro share what that costs at random: the time from a wake-up on is the woken one's. Who asks
    /// saves no less than who answers, since the run goes on with the first thread.
    fn exchange(&self, rows: &mut [FindingRow]) {
        let first =
            self.view.threads.iter().min_by_key(|thread| (thread.start_ns, thread.tid)).map(|thread| thread.tid);
        let place = |row: &FindingRow| row.place.function.as_deref().and_then(|function| self.place(function));
        let Some(answer) = rows.first().cloned() else { return };
        let Some((answers, most)) = place(&answer).zip(answer.saves_percent).filter(|(place, _)| place.tid != first)
        else {
            return;
        };
        let ends = |waiter: &PlaceRow, tid: Option<i32>| {
            self.view.waits.iter().any(|row| {
                let waker = row.waker.as_ref().map(|waker| waker.tid);
                waker.is_some() && waker == tid && row.stack.iter().any(|on| on == waiter.symbol())
            })
        };
        let asks = |row: &FindingRow| {
            let near = row.saves_percent.is_some_and(|saves| saves < most && saves >= most * (1.0 - ALIKE));
            let asks = |place: &PlaceRow| place.tid == first && ends(place, answers.tid) && ends(answers, place.tid);
            near && place(row).is_some_and(asks)
        };
        if let Some(row) = rows.iter_mut().find(|row| asks(row)) {
            row.saves_percent = Some(most.next_up());
        }
    }

    /// Whether others wait until it has read what they send: its thread ends their waits, and reads again only when it is done.
    fn drains_for_others(&self, function: &str) -> bool {
        let Some(place) = self.place(function) else { return false };
        let sent = |row: &&CriticalWaitRow| {
            let waker = row.waker.as_ref().filter(|waker| place.tid.is_some_and(|tid| waker.tid == tid));
            matches!(row.kind, WaitKind::Pipe | WaitKind::Socket)
                && waker.is_some_and(|waker| waker.stack.last().is_some_and(|call| READS.contains(&public_name(call))))
        };
        let waited: i64 = self.view.waits.iter().filter(sent).map(|row| row.ns).sum();
        waited > 0 && waited as f64 >= DRAINED_PART * place.running_ns as f64
    }

    /// Goroutines move between threads, and collecting garbage is done for those that make it: which threads wait for one another says
    /// nothing of what a function holds up.
    fn is_of_go(&self, function: &str) -> bool {
        let Some(place) = self.place(function) else { return false };
        let mut same = self.view.places.iter().filter(|other| other.component == place.component);
        same.any(|other| GO.iter().any(|name| other.function.starts_with(name)))
    }

    /// Whether others wait for what it sends them.
    fn feeds_others(&self, function: &str) -> bool {
        let fed = |row: &&CriticalWaitRow| matches!(row.kind, WaitKind::Pipe | WaitKind::Socket);
        let mut wakers = self.view.waits.iter().filter(fed).filter_map(|row| row.waker.as_ref());
        wakers.any(|waker| waker.function == function || waker.stack.iter().any(|on| on == function))
    }

    /// A function that takes most of the time with what it calls directly, where none of that takes most of it.
    fn works_through_others(&self) -> Option<&'a PlaceRow> {
        let first = self.view.places.first().filter(|place| self.weight(place.ns) < PLAIN_PERCENT)?;
        // All of the program works through its root, which says nothing.
        let is_part = |place: &&PlaceRow| !place.callers.is_empty() && !is_root(&place.function);
        let most = self.view.places.iter().filter(is_part).max_by_key(|place| place.near_ns)?;
        let is_it = !std::ptr::eq(first, most)
            && most.near_ns as f64 >= THROUGH_OTHERS * first.ns as f64
            && most.ns as f64 >= OWN_PART * most.near_ns as f64
            && self.weight(most.near_ns) >= PLAIN_PERCENT
            && most.running_ns * 2 > most.ns
            && (self.waiting_below_ns(most) as f64) < WAITING_PART * most.near_ns as f64;
        is_it.then_some(most)
    }

    /// What the functions that a place calls directly wait, ns.
    fn waiting_below_ns(&self, place: &PlaceRow) -> i64 {
        self.view.places.iter().filter(|other| other.caller.0 == place.function).map(PlaceRow::idle_ns).sum()
    }

    /// The call of a library that takes most of the time, in functions of which none has most of it.
    fn library_call(&self) -> Option<&'a LibraryCallRow> {
        let first = self.view.places.first()?;
        let most = self.view.library_calls.first()?;
        let is_it = self.weight(most.caller.ns) >= PLAIN_PERCENT
            && most.caller.ns as f64 >= THROUGH_OTHERS * first.ns as f64
            && self.is_seen(&most.caller)
            && self.is_called_again(most);
        is_it.then_some(most)
    }

    /// `, 29 % in sqlite3VdbeExec`: the library's function that has most of a call's time, if it is much larger than the others.
    fn largest_part(&self, call: &LibraryCallRow) -> String {
        let mut parts: Vec<&(String, i64)> = call.parts.iter().collect();
        parts.sort_by_key(|(_, ns)| Reverse(*ns));
        let second = parts.get(1).map_or(0, |(_, ns)| *ns);
        match parts.first() {
            Some((function, ns))
                if *function != call.entry
                    && !function.starts_with('[')
                    && self.weight(*ns) >= LEAST_PERCENT
                    && *ns as f64 >= THROUGH_OTHERS * second as f64 =>
            {
                format!(", {} in {}", percent(self.share(*ns)), brief(function))
            }
            _ => String::new(),
        }
    }

    /// What is called once is the library's share of a program that is only a shell around it.
    fn is_called_again(&self, call: &LibraryCallRow) -> bool {
        let calls = self.facts.apis.iter().filter(|api| api.bare_name() == call.entry).map(|api| api.all.calls).max();
        calls.map_or(call.caller.line > 0, |calls| calls > 1)
    }

    /// The component with most of the time, where it is spread over many of its functions; the function, where nearly all of it
    /// is one's.
    fn spread(&self, findings: &[FindingRow], locks: &[Lock<'_>]) -> Option<FindingRow> {
        let mut sums: FxHashMap<&str, i64> = FxHashMap::default();
        self.view.places.iter().for_each(|place| *sums.entry(&place.component).or_default() += place.ns);
        let (component, ns) = sums.into_iter().max_by_key(|&(component, ns)| (ns, component))?;
        let share = self.share(ns);
        // Of less than half of the time that is said where nothing else comes near it.
        let border = SPREAD_PERCENT.min(self.weight(ns) * LEADING_PART);
        let most = self.share(self.asked_ns()) / 100.0 * border;
        let is_spread = self.weight(ns) >= SPREAD_PERCENT && !findings.iter().any(|row| row.percent >= most);
        if !is_spread || component.is_empty() {
            return None;
        }
        let places = || self.view.places.iter().filter(|place| place.component == component);
        let first = places().next()?;
        // One or two samples say nothing of a run, however short; waits are exact.
        let seen: i64 = places().map(PlaceRow::seen).sum();
        if seen < LEAST_OF_ONE && places().map(|place| place.running_ns).sum::<i64>() * 2 > ns {
            return None;
        }
        // So short a run has few samples, but they are nearly all of one function.
        let number = places().count();
        if number == 1 || first.ns as f64 >= NEARLY_ALL * ns as f64 && first.seen() >= LEAST_OF_ONE {
            return Some(self.row(first, first.ns, locks));
        }
        let most = format!("{} has most, {}", Self::at(&first.function, first), percent(self.share(first.ns)));
        let view = if self.facts.profile.walk.chains.is_empty() { "criticality" } else { "walk" };
        Some(FindingRow {
            finding: format!(
                "{component} takes {} of the time with what it calls, spread over {number} functions",
                percent(share)
            ),
            evidence: format!("{}; {most}", self.part(ns)),
            view: view.to_owned(),
            next: match runtime::interpreter(component, &self.command()) {
                Some(advice) => format!("{advice}; what leads to the interpreter's: --view {view}"),
                None => format!("See what leads to them: --view {view}"),
            },
            kind: FindingKind::HeavyComponent,
            percent: share,
            confidence: Some(Confidence::Interval),
            place: Place { component: some(component), ..Place::default() },
            ..FindingRow::default()
        })
    }

    fn at(function: &str, place: &PlaceRow) -> String {
        if let Some(group) = unplaced_group(function) {
            return format!("{group} (stack not known)");
        }
        let function = match function {
            "[unknown]" if place.component.is_empty() => "code that is in no file (made at run time?)".to_owned(),
            _ => brief(function),
        };
        let name = if function.starts_with('[') && !place.component.is_empty() {
            match place.callers.iter().rev().find(|name| !name.starts_with('[')) {
                Some(caller) => format!("{} (no symbols, below {})", place.component, brief(caller)),
                None => format!("{} (no symbols)", place.component),
            }
        } else {
            function
        };
        match place.file.rsplit('/').next() {
            Some(file) if !file.is_empty() => format!("{name} at {file}:{}", place.line),
            _ if name.starts_with("sub_") => format!("{name} of {} (no symbols)", place.component),
            _ if place.component.contains(".so") && !name.contains(&place.component) => {
                format!("{name} of {}", place.component)
            }
            _ => name,
        }
    }

    fn whereabouts(&self, place: &PlaceRow, api: Option<&str>) -> Place {
        let has_name = !place.function.starts_with('[');
        let group = place.groups.first().filter(|(_, ns)| ns * 10 >= place.ns * 9);
        Place {
            component: some(&place.component),
            function: some(&place.function).filter(|_| has_name),
            file: some(&place.file),
            line: (place.line > 0).then_some(place.line),
            api: api.and_then(some),
            thread_group: group.and_then(|(group, _)| some(group)),
            ..Place::default()
        }
    }
}

/// The caller, or the library's function where the caller has no name that says anything.
fn as_place(call: &LibraryCallRow) -> PlaceRow {
    let caller = call.caller.clone();
    if !caller.function.starts_with(['[', '<']) && !caller.function.starts_with("sub_") {
        return caller;
    }
    PlaceRow {
        function: call.entry.clone(),
        component: call.component.clone(),
        file: String::new(),
        line: 0,
        callees: Vec::new(),
        ..caller
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
