//! From what was read to the tables of a profile.

use std::time::Duration;

use transect_feature_region::Unit;
use transect_profile_model::{
    Clock as ClockFacts, Component, FeatureSession, FeatureTables, ImplicitFlow, Loss, LossKind, Meta, Process,
    Profile, RegionMethod, RegionNode, RegionSlice, Thread,
};

use super::choice::Choice;
use super::fold::{NONE, ThreadFold};
use super::reader::Collected;
use super::sampling::SupplementaryTimes;
use super::spent;
use super::unprobed_regions::{self, SampleCounts};
use crate::clock::Clock;
use crate::machine;

/// Regions that were too hot with a row of their own, at most.
const HOT_SHOWN: usize = 50;

/// A recording that has ended.
pub struct Facts<'a> {
    /// The command, word by word.
    pub command: Vec<String>,
    /// Its clock.
    pub clock: &'a Clock,
    /// What was read.
    pub collected: Collected,
    /// How regions were observed.
    pub method: RegionMethod,
    /// Regions were observed that one of these wants; empty: all.
    pub choices: Vec<Choice>,
    /// Ticks of one event.
    pub event_ticks: f64,
    /// Sites switched on; `None`: all there are.
    pub sites: Option<u64>,
    /// For so long the program was stopped for the sake of its sites.
    pub stopped: Duration,
    /// Samples of regions that tell nothing by events.
    pub beside: Option<SupplementaryTimes>,
    /// Exit status of the launched process.
    pub status: Option<i32>,
    /// What else is known to be missing.
    pub loss: Vec<Loss>,
}

/// Ticks to nanoseconds since the recording's start.
struct Scale {
    epoch: u64,
    rate: f64,
}

impl Scale {
    fn since_start(&self, ticks: u64) -> i64 {
        self.long(ticks.saturating_sub(self.epoch))
    }

    fn long(&self, ticks: u64) -> i64 {
        (ticks as f64 / self.rate).round() as i64
    }
}

/// Builds the profile.
pub fn assemble(mut facts: Facts<'_>) -> Profile {
    let scale = Scale { epoch: facts.clock.epoch(), rate: facts.clock.rate() };
    let wall_ns = facts.clock.elapsed_ns();
    let mut feature = FeatureTables::default();
    let components = components(&facts.collected, &mut feature);
    let beside = facts.beside.as_ref().map(|_| RegionMethod::Sample);
    for region in &mut feature.regions {
        region.method = match region.sites {
            1.. => Some(facts.method),
            _ => beside.filter(|_| unprobed_regions::is_hot_loop(region.irregular.as_deref())),
        };
    }
    for hot in &facts.collected.off {
        feature.regions[hot.region as usize].method = beside;
    }
    for object in facts.collected.catalog.objects.iter().filter(|_| !facts.choices.is_empty()) {
        let unwanted = |region: &u32| !facts.choices.iter().any(|choice| choice.wants(&object.table, *region));
        for region in (0..object.table.regions.len() as u32).filter(unwanted) {
            feature.regions[(object.first_region + region) as usize].method = None;
        }
    }
    let processes: Vec<Process> = facts
        .collected
        .processes
        .iter()
        .map(|process| {
            let start_ns = scale.since_start(process.start);
            Process {
                pid: process.pid,
                parent_pid: process.parent,
                executable: process.executable.clone(),
                start_ns,
                wall_ns: scale.since_start(process.end.unwrap_or(process.start)) - start_ns,
            }
        })
        .collect();
    let mut threads = Vec::new();
    // By thread and node of its tree: the row.
    let mut rows: Vec<Vec<u32>> = Vec::new();
    let mut roots = Vec::new();
    for (number, facts_of) in facts.collected.threads.iter().enumerate() {
        let end = facts_of.end.unwrap_or(facts_of.start);
        let main = facts.collected.processes.get(facts_of.process).is_some_and(|process| process.pid == facts_of.tid);
        let thread = Thread {
            process: facts_of.process as u32,
            tid: facts_of.tid,
            name: facts_of.name.clone(),
            group: if main { "main".to_owned() } else { facts_of.name.clone() },
            start_routine: String::new(),
            start_ns: scale.since_start(facts_of.start),
            wall_ns: scale.long(end.saturating_sub(facts_of.start)),
            busy_ns: 0,
            wait_ns: 0,
            calls: 0,
            outermost_ns: 0,
            outermost_attributed_ns: 0,
            attributed_ns: 0,
        };
        // Of which no switch was told, it has slept.
        let slept = facts.collected.switches.map(|_| 0);
        let fold = facts_of.fold.as_ref();
        roots.push(feature.nodes.len() as u32);
        rows.push(tree(fold, number as u32, (thread.wall_ns, slept), facts.method, &scale, &mut feature));
        threads.push(thread);
    }
    let (spans, left_out) = std::mem::take(&mut facts.collected.spans).finish();
    feature.slices = spans
        .iter()
        .filter_map(|(thread, span)| {
            Some(RegionSlice {
                node: *rows.get(*thread as usize)?.get(span.node as usize)?,
                start_ns: scale.since_start(span.start),
                duration_ns: scale.long(span.end.saturating_sub(span.start)),
            })
        })
        .collect();
    let told = facts
        .beside
        .as_ref()
        .map(|sampled| unprobed_regions::divide(&mut feature, &roots, &facts.collected, facts.clock, sampled));
    let lifetimes: i64 = threads.iter().map(|thread: &Thread| thread.wall_ns).sum();
    let event_ns = spent::event_ns(facts.method, facts.event_ticks / scale.rate);
    let waited: u64 = facts.collected.threads.iter().map(|thread| thread.waited_ticks).sum();
    let stopped_ns = facts.stopped.as_nanos() as f64 * (lifetimes as f64 / wall_ns.max(1) as f64).max(1.0);
    let spent_ns = facts.collected.events as f64 * event_ns + scale.long(waited) as f64 + stopped_ns;
    let loss = loss(&mut facts, left_out);
    Profile {
        components,
        processes,
        threads,
        feature,
        loss,
        ..Profile::new(Meta {
            command: facts.command.clone(),
            collectors: vec!["feature".to_owned()],
            overhead_estimate: (spent_ns / lifetimes.max(1) as f64).min(1.0),
            wall_ns,
            started_unix_ns: facts.clock.started_unix_ns,
            exit_status: facts.status,
            feature: Some(session(&facts, told.unwrap_or_default(), &scale)),
            ..Meta::new(
                machine::here(),
                ClockFacts {
                    source: "tsc".to_owned(),
                    ticks_per_ns: scale.rate,
                    timed_call_ns: 2.0 * facts.event_ticks / scale.rate,
                    counted_call_ns: 0.0,
                },
            )
        })
    }
}

fn components(collected: &Collected, feature: &mut FeatureTables) -> Vec<Component> {
    let mut components = Vec::new();
    for object in &collected.catalog.objects {
        object.table.add_to(components.len() as u32, feature);
        components.push(Component {
            path: object.path.clone(),
            build_id: object.build_id.clone(),
            executable: collected.processes.iter().any(|process| process.executable == object.path),
            synthetic: false,
            static_in: None,
        });
    }
    components
}

/// Adds a thread's tree, parents first; gives the rows of its nodes. Without a tree the thread's lifetime and CPU time
/// are all there is.
fn tree(
    fold: Option<&ThreadFold>,
    thread: u32,
    (wall_ns, cpu_ns): (i64, Option<i64>),
    method: RegionMethod,
    scale: &Scale,
    feature: &mut FeatureTables,
) -> Vec<u32> {
    let row = |parent, region, entries, exclusive_ns, cpu_ns| RegionNode {
        parent,
        region,
        thread,
        method,
        entries,
        exclusive_ns,
        exclusive_ns_low: exclusive_ns,
        exclusive_ns_high: exclusive_ns,
        cpu_ns,
        samples: 0,
    };
    let root = feature.nodes.len() as u32;
    feature.nodes.push(row(None, None, None, wall_ns, cpu_ns));
    let Some(fold) = fold else { return vec![root] };
    let nodes = fold.nodes();
    let on_cpu = |exclusive_ns: i64, off_ticks| {
        let known = fold.knows_cpu();
        known.then(|| exclusive_ns.saturating_sub(scale.long(off_ticks)).max(0))
    };
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (number, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            children[parent as usize].push(number as u32);
        }
    }
    let mut rows = vec![root; nodes.len()];
    let mut rest = wall_ns;
    let top = nodes.iter().position(|node| node.parent.is_none() && node.region == NONE).unwrap_or(0);
    let mut next: Vec<u32> = children[top].clone();
    while let Some(number) = next.pop() {
        let node = &nodes[number as usize];
        let parent = node.parent.map_or(root, |parent| rows[parent as usize]);
        let exclusive_ns = scale.long(node.ticks);
        rest -= exclusive_ns;
        rows[number as usize] = feature.nodes.len() as u32;
        let cpu_ns = on_cpu(exclusive_ns, node.off_ticks);
        feature.nodes.push(row(Some(parent), Some(node.region), Some(node.entries as i64), exclusive_ns, cpu_ns));
        next.extend(&children[number as usize]);
    }
    // Rounding, too: all rows add up to the thread's lifetime. Who has never been outside has nothing to round there.
    if rest < 0
        && let Some(longest) = feature.nodes[root as usize + 1..].iter_mut().max_by_key(|node| node.exclusive_ns)
    {
        longest.exclusive_ns += rest;
        (longest.exclusive_ns_low, longest.exclusive_ns_high) = (longest.exclusive_ns, longest.exclusive_ns);
        rest = 0;
    }
    let root = &mut feature.nodes[root as usize];
    (root.exclusive_ns, root.exclusive_ns_low, root.exclusive_ns_high) = (rest, rest, rest);
    root.cpu_ns = on_cpu(rest, nodes[top].off_ticks);
    rows
}

fn session(facts: &Facts<'_>, told: SampleCounts, scale: &Scale) -> FeatureSession {
    let collected = &facts.collected;
    let units = || collected.catalog.objects.iter().flat_map(|object| &object.table.units);
    let sum = |value: fn(&super::task_list::ThreadFacts) -> u64| collected.threads.iter().map(value).sum::<u64>();
    FeatureSession {
        methods: std::iter::once(facts.method).chain(facts.beside.as_ref().map(|_| RegionMethod::Sample)).collect(),
        sample_hz: facts.beside.as_ref().map_or(0, |sampled| sampled.hertz.into()),
        implicit: units().next().map_or(ImplicitFlow::default(), |unit| unit.implicit),
        dependence: collected.catalog.dependence(),
        ignored: units().flat_map(Unit::ignored_in_words).collect(),
        builds: collected.catalog.objects.iter().map(|object| format!("{:016x}", object.table.build())).collect(),
        model: units().next().map_or_else(String::new, |unit| format!("{:016x}", unit.model)),
        events: collected.events as i64,
        dropped: (sum(|thread| thread.dropped + thread.interrupted) + collected.refused + collected.lost) as i64,
        blocked: sum(|thread| thread.waited) as i64,
        waited_ns: scale.long(sum(|thread| thread.waited_ticks)),
        stopped_ns: facts.stopped.as_nanos() as i64,
        sites: facts.sites.unwrap_or(collected.catalog.sites.len() as u64) as i64,
        samples: told.samples as i64,
        untranslated: told.untold as i64,
        event_ns: spent::event_ns(facts.method, facts.event_ticks / scale.rate),
    }
}

fn loss(facts: &mut Facts<'_>, left_out: u64) -> Vec<Loss> {
    let mut rows = std::mem::take(&mut facts.loss);
    let mut add = |what, place: String, count: u64, reason: &str| {
        if count > 0 {
            rows.push(Loss { what, place, count: count as i64, reason: reason.to_owned() });
        }
    };
    let collected = &facts.collected;
    for thread in &collected.threads {
        let place = || format!("thread {} ({})", thread.tid, thread.name);
        add(
            LossKind::DroppedEvents,
            place(),
            thread.dropped,
            "its ring of region events was full (--region-overflow block waits instead)",
        );
        add(
            LossKind::DroppedEvents,
            place(),
            thread.interrupted,
            "a signal handler has interrupted the thread in the middle of them, and has not returned (siglongjmp)",
        );
        let Some(unfitting) = thread.fold.as_ref().map(ThreadFold::unfitting) else { continue };
        add(LossKind::DroppedEvents, place(), unfitting.unmatched, "ends of regions whose begin was not seen");
        add(
            LossKind::SummedEvents,
            place(),
            unfitting.folded,
            "recursion made more stacks of regions than are told apart (65536): they count as shorter ones",
        );
        add(
            LossKind::UntimedCalls,
            place(),
            unfitting.begun_before,
            "regions that had begun before the recording: timed from its start, the entry is not counted",
        );
    }
    add(
        LossKind::DroppedEvents,
        "all threads".to_owned(),
        facts.collected.refused,
        "threads that found no ring of region events: more than 4096 at once",
    );
    add(
        LossKind::DroppedEvents,
        "all threads".to_owned(),
        collected.lost,
        "the kernel's buffer of region events was full; --region or --feature watches fewer, --feature-method probe waits",
    );
    add(
        LossKind::DroppedEvents,
        "all threads".to_owned(),
        collected.switches.unwrap_or(0),
        "switches of threads that the kernel had no room for: CPU time of regions is too long or too short by them",
    );
    add(
        LossKind::DroppedEvents,
        "samples".to_owned(),
        facts.beside.as_ref().map_or(0, |sampled| sampled.lost),
        "the kernel's buffer was full: what they saw of regions without events is missing",
    );
    add(
        LossKind::UnresolvedNames,
        "region events".to_owned(),
        collected.unresolved,
        "their sites are in no object that could be read",
    );
    add(
        LossKind::SummedEvents,
        "timeline of regions".to_owned(),
        left_out,
        "the shortest spans in regions are left out of the timeline; counts and times have them",
    );
    let mut by_share = collected.off.clone();
    by_share.sort_by(|a, b| b.share.total_cmp(&a.share));
    let rest = by_share.split_off(by_share.len().min(HOT_SHOWN));
    for hot in &by_share {
        let Some((object, number)) = collected.catalog.region(hot.region) else { continue };
        let share = hot.share * 100.0;
        let then = match &facts.beside {
            Some(sampled) => format!("its time from then on is by {} samples a second", sampled.hertz),
            None => "counts and times are those until then".to_owned(),
        };
        let reason = format!(
            "its events took {share:.1} % of the time, more than --overhead allows: switched off, {then} \
             (--feature-method probe keeps all sites on)"
        );
        let place = format!("region {number} of {}", collected.catalog.objects[object].path);
        add(LossKind::SkippedFunctions, place, 1, &reason);
    }
    let rest_share = rest.iter().map(|hot| hot.share).sum::<f64>() * 100.0;
    add(
        LossKind::SkippedFunctions,
        "other regions".to_owned(),
        rest.len() as u64,
        &format!(
            "their events took up to {rest_share:.1} % of the time, together with those above more than --overhead allows: \
             switched off, samples tell their time from then on (--feature-method probe keeps all sites on)"
        ),
    );
    for (path, why) in &collected.catalog.unreadable {
        add(LossKind::SkippedFunctions, path.clone(), 1, why);
    }
    for object in &collected.catalog.objects {
        let seen = |why: Option<&str>| facts.beside.is_some() && unprobed_regions::is_hot_loop(why);
        let lost = object.table.regions.iter().filter(|region| !seen(region.irregular.as_deref()));
        for region in lost.filter(|region| region.irregular.is_some()) {
            let reason = region.irregular.as_deref().unwrap_or_default();
            add(LossKind::SkippedFunctions, format!("region {} of {}", region.number, object.path), 1, reason);
        }
    }
    rows
}
