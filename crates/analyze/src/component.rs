use serde::Serialize;
use transect_profile_model::{ApiClass, Component, Profile, Timing};

use crate::adding_up::{Part, add_up};
use crate::call_time::CallTimes;
use crate::criticality::is_agent;
use crate::matching::chosen_components;
use crate::names::executable_of;
use crate::prepared::Prepared;
use crate::{Selection, SortKey, Totals};

/// One component: what it spends itself, what it waits for, and what it spends in each component it calls (the
/// component view of Scaler, ASE '24, section 3.5).
///
/// The `self_ns` and `wait_ns` of all rows add up to the lifetime of the threads: calls made by callbacks, which belong to the API
/// that called back *and* are flows of their own, count once. What is far from covered by calls and samples is a row of its own,
/// [`NOT_PLACED`]. Threads whose calls were not recorded have their time in the code
/// that samples saw, else in their executable. Code that is called by a pointer counts for its own component
/// where samples saw it run, else for the component that was called by linkage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentRow {
    /// File name; two of the same name carry the shortest distinguishing path suffix.
    pub component: String,
    /// Path as the loader reported it.
    pub path: String,
    /// GNU build-id in hexadecimal, empty if there is none.
    pub build_id: String,
    /// Time in the component less the calls that it makes, ns; for an executable its threads' lifetime less their
    /// outermost calls. Waiting is not in it. `None` where the recording took no times.
    pub self_ns: Option<i64>,
    /// Of `self_ns` on a CPU, ns; this and the next two add up to it, and are `None` where that is not known.
    pub on_cpu_ns: Option<i64>,
    /// Of `self_ns` without a CPU for want of one, ns.
    pub runnable_ns: Option<i64>,
    /// Of `self_ns` blocked in calls of no API that waits, ns.
    pub blocked_ns: Option<i64>,
    /// Time that this component, as the direct caller, waited (classes `lock` and `wait`), ns.
    pub wait_ns: Option<i64>,
    /// Calls into it from other components.
    pub calls_in: i64,
    /// Calls from it into other components.
    pub calls_out: i64,
    /// What it spends in each other component, waiting APIs left out; longest first.
    pub others: Vec<OtherRow>,
    /// `self_ns`, each instant divided by the number of active threads.
    pub self_attributed_ns: Option<i64>,
    /// `wait_ns`, attributed in the same way.
    pub wait_attributed_ns: Option<i64>,
    /// Share of all threads' attributed lifetime in `self_attributed_ns`, 0–100.
    pub self_percent: Option<f64>,
    /// Share of all threads' attributed lifetime in `wait_attributed_ns`, 0–100.
    pub wait_percent: Option<f64>,
    /// Share of all threads' raw lifetime in `self_ns`, 0–100.
    pub self_raw_percent: Option<f64>,
    /// Share of all threads' raw lifetime in `wait_ns`, 0–100.
    pub wait_raw_percent: Option<f64>,
    /// True for a process' executable.
    pub executable: bool,
    /// True for the vDSO, the dynamic loader and unknown code.
    pub synthetic: bool,
}

/// Name of the row of the time that neither calls nor samples place in a component.
pub const NOT_PLACED: &str = "[not placed]";
/// Less of the whole is no row.
const LEAST_PLACED: i64 = 1000;

/// One component's calls into another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherRow {
    /// The called component.
    pub component: String,
    /// Time from entry to return of calls that do not wait themselves, ns.
    pub total_ns: Option<i64>,
    /// The same, attributed.
    pub attributed_ns: Option<i64>,
    /// Calls, waiting ones included.
    pub calls: i64,
    /// Share of all threads' attributed lifetime, 0–100.
    pub percent: Option<f64>,
}

/// The component view. `selection.component` keeps the rows of that component, `sort`, `top` and `min_percent` work
/// on whole rows; `api` and `by` have no meaning here.
pub fn components(profile: &Profile, selection: &Selection) -> Vec<ComponentRow> {
    of(&Prepared::new(profile), selection)
}

pub(crate) fn of(prepared: &Prepared<'_>, selection: &Selection) -> Vec<ComponentRow> {
    let &Prepared { profile, ref names, ref totals, .. } = prepared;
    let chosen = chosen_components(profile, names, selection.component.as_deref());
    let (sums, rest) = gather(prepared);
    let mut rows: Vec<ComponentRow> = sums
        .into_iter()
        .zip(&profile.components)
        .enumerate()
        .filter(|(id, (_, component))| !is_agent(&component.path) && chosen.as_ref().is_none_or(|chosen| chosen[*id]))
        .map(|(id, (sum, component))| sum.row(id, component, prepared))
        .collect();
    if chosen.is_none() && profile.meta.timing != Timing::Count && rest.ns > totals.lifetime_ns / LEAST_PLACED {
        rows.push(ComponentRow::not_placed(rest, totals));
    }
    if let Some(least) = selection.min_percent {
        rows.retain(|row| row.weight(totals) >= least);
    }
    sort(&mut rows, selection.sort);
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    rows
}

/// Sums of one component.
#[derive(Default)]
struct Sum {
    self_ns: i64,
    self_attributed_ns: f64,
    wait_ns: i64,
    wait_attributed_ns: f64,
    calls_in: i64,
    calls_out: i64,
    /// Not every call that its own time is known by was timed.
    is_estimate: bool,
    /// By id of the called component; few, so that a search is faster than hashing.
    others: Vec<(u32, Other)>,
}

#[derive(Default)]
struct Other {
    total_ns: Option<i64>,
    attributed_ns: Option<i64>,
    calls: i64,
}

/// How a thread's self times become attributed ones.
///
/// A flow's attributed time is known for its whole duration only, so the self part is taken in proportion, and then
/// scaled so that the thread's flows add up to what its outermost calls were attributed, which is known exactly.
pub(crate) fn attribution_scale(profile: &Profile) -> Vec<f64> {
    let mut own = vec![0.0; profile.threads.len()];
    let mut estimated = vec![0.0; profile.threads.len()];
    for flow in &profile.flows {
        own[flow.thread as usize] += flow.exclusive_ns() as f64;
        estimated[flow.thread as usize] += proportional(flow);
    }
    let scale = |(thread, (own, estimated)): (&transect_profile_model::Thread, (f64, f64))| {
        if estimated > 0.0 && thread.outermost_ns > 0 && thread.outermost_attributed_ns > 0 {
            own * thread.outermost_attributed_ns as f64 / thread.outermost_ns as f64 / estimated
        } else {
            1.0
        }
    };
    profile.threads.iter().zip(own.into_iter().zip(estimated)).map(scale).collect()
}

pub(crate) fn proportional(flow: &transect_profile_model::Flow) -> f64 {
    match (flow.total_ns, flow.attributed_ns) {
        (Some(total), Some(attributed)) if total > 0 => attributed as f64 * flow.exclusive_ns() as f64 / total as f64,
        _ => 0.0,
    }
}

/// Sums by component, and what is in none.
fn gather(prepared: &Prepared<'_>) -> (Vec<Sum>, Part) {
    let profile = prepared.profile;
    let mut sums: Vec<Sum> = profile.components.iter().map(|_| Sum::default()).collect();
    let scale = attribution_scale(profile);
    let mut sampled = vec![false; profile.threads.len()];
    for flow in &profile.flows {
        let is_estimate = flow.class != ApiClass::CountOnly && flow.timed_calls < flow.calls;
        sampled[flow.thread as usize] |= is_estimate;
        let own = flow.exclusive_ns();
        let attributed = proportional(flow) * scale[flow.thread as usize];
        let caller = &mut sums[flow.caller as usize];
        caller.calls_out += flow.calls;
        let other = caller.other(flow.callee);
        other.calls += flow.calls;
        if flow.class.is_wait() {
            caller.wait_ns += own;
            caller.wait_attributed_ns += attributed;
        } else if let Some(total) = flow.total_ns {
            // Calls of the other flows of this edge inside have a total of their own.
            let again = flow.called_back_same_edge_ns.clamp(0, total.max(0));
            let attributed = flow.attributed_ns.unwrap_or(0);
            *other.total_ns.get_or_insert(0) += total - again;
            *other.attributed_ns.get_or_insert(0) +=
                attributed - (attributed as f64 * again as f64 / f64::max(total as f64, 1.0)) as i64;
        }
        let callee = &mut sums[flow.callee as usize];
        callee.calls_in += flow.calls;
        if !flow.class.is_wait() {
            callee.is_estimate |= is_estimate;
            callee.self_ns += own;
            callee.self_attributed_ns += attributed;
        }
    }
    let executables: Vec<_> = profile.processes.iter().map(|process| executable_of(profile, process)).collect();
    for (thread, &is_estimate) in profile.threads.iter().zip(&sampled) {
        if let Some(id) = executables[thread.process as usize] {
            let sum = &mut sums[id as usize];
            sum.is_estimate |= is_estimate;
            sum.self_ns += thread.wall_ns - thread.outermost_ns;
            sum.self_attributed_ns += (thread.attributed_ns - thread.outermost_attributed_ns) as f64;
        }
    }
    for thread in crate::thread::outside(profile).1 {
        if let Some(id) = executables[thread.process as usize] {
            let sum = &mut sums[id as usize];
            sum.self_ns += thread.busy_ns;
            sum.self_attributed_ns += thread.busy_attributed_ns as f64;
            // Whoever called what waits: it is not known.
            sum.wait_ns += thread.wait_ns;
            sum.wait_attributed_ns += thread.wait_attributed_ns as f64;
        }
    }
    let waits =
        sums.iter().fold((0, 0.0), |(ns, attributed), sum| (ns + sum.wait_ns, attributed + sum.wait_attributed_ns));
    let whole = (prepared.totals.lifetime_ns - waits.0).max(0);
    move_to_code(&mut sums, &prepared.call_times);
    fit_to_samples(&mut sums, &prepared.call_times, whole, prepared.totals.lifetime_ns);
    let part = |sum: &Sum| Part { ns: sum.self_ns, attributed: sum.self_attributed_ns, is_estimate: sum.is_estimate };
    let mut parts: Vec<Part> = sums.iter().map(part).collect();
    let rest = add_up(&mut parts, whole, (prepared.totals.attributed_ns as f64 - waits.1).max(0.0));
    for (sum, part) in sums.iter_mut().zip(parts) {
        (sum.self_ns, sum.self_attributed_ns) = (part.ns, part.attributed);
    }
    (sums, rest)
}

/// Where samples contradict what calls say, their time is taken: estimates of calls inside each other, by callbacks, hold what
/// runs inside them more than once.
fn fit_to_samples(sums: &mut [Sum], times: &CallTimes, whole: i64, lifetime_ns: i64) {
    // Waits without a stack are in no component's samples.
    let (Some(one_ns), more) = (times.of_one(), times.unplaced(whole)) else { return };
    let (own, attributed) = sums.iter().fold((0.0, 0.0), |(own, attributed), sum| {
        (own + sum.self_ns.max(0) as f64, attributed + sum.self_attributed_ns)
    });
    for (from, (sum, sampled)) in (0..).zip(sums.iter_mut().zip(&times.components)) {
        if let Some(ns) = sampled.times(more).instead_of(sum.self_ns, one_ns) {
            let share = if sum.self_ns > 0 {
                sum.self_attributed_ns / sum.self_ns as f64
            } else {
                attributed / f64::max(own, 1.0)
            };
            sum.self_attributed_ns = ns * share;
            sum.self_ns = ns as i64;
            sum.is_estimate = true;
        }
        for (to, other) in &mut sum.others {
            let sampled = times.edges.get(&(from, *to)).copied().unwrap_or_default();
            let Some(total) = other.total_ns else { continue };
            if let Some(ns) = sampled.times(more).instead_of(total, one_ns).filter(|&ns| ns < total as f64) {
                other.attributed_ns =
                    other.attributed_ns.map(|attributed| (attributed as f64 * ns / total as f64) as i64);
                other.total_ns = Some(ns as i64);
            }
            // Calls inside each other may be estimated at more than their threads' lives.
            other.total_ns = other.total_ns.map(|total| total.min(lifetime_ns));
            other.attributed_ns = other.attributed_ns.min(other.total_ns);
        }
    }
}

/// Gives components the time in which their code ran, called by a pointer, and takes it off whom it counted for.
fn move_to_code(sums: &mut [Sum], times: &CallTimes) {
    let mut leaves = vec![0.0; sums.len()];
    for (&(from, _), ns) in &times.elsewhere {
        leaves[from as usize] += ns;
    }
    let before: Vec<(i64, f64)> = sums.iter().map(|sum| (sum.self_ns.max(0), sum.self_attributed_ns)).collect();
    for (&(from, to), ns) in &times.elsewhere {
        let (own, attributed) = before[from as usize];
        // No more than there is.
        let share = if own > 0 { ns / leaves[from as usize].max(own as f64) } else { 0.0 };
        let (own, attributed) = ((own as f64 * share) as i64, attributed * share);
        sums[from as usize].self_ns -= own;
        sums[to as usize].self_ns += own;
        sums[from as usize].is_estimate |= own > 0;
        sums[to as usize].is_estimate |= own > 0;
        sums[from as usize].self_attributed_ns -= attributed;
        sums[to as usize].self_attributed_ns += attributed;
    }
}

impl Sum {
    fn other(&mut self, id: u32) -> &mut Other {
        let position = self.others.iter().position(|(other, _)| *other == id).unwrap_or_else(|| {
            self.others.push((id, Other::default()));
            self.others.len() - 1
        });
        &mut self.others[position].1
    }

    fn row(self, id: usize, component: &Component, prepared: &Prepared<'_>) -> ComponentRow {
        let Prepared { profile, names, totals, .. } = prepared;
        let timed = profile.meta.timing != Timing::Count;
        let time = |ns: i64| timed.then_some(ns.max(0));
        let (self_ns, wait_ns) = (time(self.self_ns), time(self.wait_ns));
        let divided = self_ns.and_then(|ns| prepared.call_times.components.get(id)?.divide(ns));
        let part = |at: usize| divided.map(|parts| parts[at]);
        let self_attributed_ns = time(self.self_attributed_ns.round() as i64);
        let wait_attributed_ns = time(self.wait_attributed_ns.round() as i64);
        let mut others: Vec<OtherRow> = self
            .others
            .into_iter()
            .map(|(id, other)| OtherRow {
                component: names.get(id).to_owned(),
                total_ns: other.total_ns,
                attributed_ns: other.attributed_ns,
                calls: other.calls,
                percent: other.attributed_ns.and_then(|ns| totals.attributed_percent(ns)),
            })
            .collect();
        others.sort_by(|a, b| {
            (b.total_ns, b.calls).cmp(&(a.total_ns, a.calls)).then_with(|| a.component.cmp(&b.component))
        });
        ComponentRow {
            component: names.get(id as u32).to_owned(),
            path: component.path.clone(),
            build_id: component.build_id.clone(),
            self_ns,
            on_cpu_ns: part(0),
            runnable_ns: part(1),
            blocked_ns: part(2),
            wait_ns,
            calls_in: self.calls_in,
            calls_out: self.calls_out,
            others,
            self_attributed_ns,
            wait_attributed_ns,
            self_percent: self_attributed_ns.and_then(|ns| totals.attributed_percent(ns)),
            wait_percent: wait_attributed_ns.and_then(|ns| totals.attributed_percent(ns)),
            self_raw_percent: self_ns.and_then(|ns| totals.raw_percent(ns)),
            wait_raw_percent: wait_ns.and_then(|ns| totals.raw_percent(ns)),
            executable: component.executable,
            synthetic: component.synthetic,
        }
    }
}

impl ComponentRow {
    fn not_placed(rest: Part, totals: &Totals) -> Self {
        let attributed_ns = rest.attributed.round() as i64;
        Self {
            component: NOT_PLACED.to_owned(),
            path: String::new(),
            build_id: String::new(),
            self_ns: Some(rest.ns),
            on_cpu_ns: None,
            runnable_ns: None,
            blocked_ns: None,
            wait_ns: Some(0),
            calls_in: 0,
            calls_out: 0,
            others: Vec::new(),
            self_attributed_ns: Some(attributed_ns),
            wait_attributed_ns: Some(0),
            self_percent: totals.attributed_percent(attributed_ns),
            wait_percent: totals.attributed_percent(0),
            self_raw_percent: totals.raw_percent(rest.ns),
            wait_raw_percent: totals.raw_percent(0),
            executable: false,
            synthetic: true,
        }
    }

    /// Self and waiting together: a component that only waits is not left out.
    fn weight(&self, totals: &Totals) -> f64 {
        let sum = |a: Option<i64>, b: Option<i64>| a.map(|a| a + b.unwrap_or(0));
        let attributed = sum(self.self_attributed_ns, self.wait_attributed_ns);
        totals.weight(attributed, sum(self.self_ns, self.wait_ns), self.calls_in + self.calls_out)
    }
}

fn sort(rows: &mut [ComponentRow], key: Option<SortKey>) {
    let value = |row: &ComponentRow| match key {
        // The order of the percentages that the view prints first.
        None | Some(SortKey::Attributed | SortKey::Total | SortKey::Mean | SortKey::P99 | SortKey::Max) => {
            row.self_attributed_ns
        }
        Some(SortKey::SelfTime) => row.self_ns,
        Some(SortKey::Wait) => row.wait_ns,
        Some(SortKey::Calls | SortKey::Bytes) => Some(row.calls_in + row.calls_out),
        Some(SortKey::Name) => None,
    };
    let calls = |row: &ComponentRow| if key == Some(SortKey::Name) { 0 } else { row.calls_in + row.calls_out };
    rows.sort_by(|a, b| {
        (value(b), calls(b))
            .cmp(&(value(a), calls(a)))
            .then_with(|| (&a.component, &a.path).cmp(&(&b.component, &b.path)))
    });
}
