//! From sampled threads to a profile.

use rustc_hash::FxHashMap as HashMap;
use transect_feature_region::Unit;
use transect_profile_model::{
    Clock as ClockFacts, FeatureSession, ImplicitFlow, Loss, LossKind, Meta, Process, Profile, RegionMethod, Thread,
};

use super::estimate::add_thread;
use super::kernel_stacks::Sampled;
use crate::clock::Clock;
use crate::machine;

/// Builds the profile.
pub(super) fn profile(clock: &Clock, mut sampled: Sampled) -> Profile {
    let mut feature = std::mem::take(&mut sampled.objects.feature);
    let mut numbers: HashMap<i32, u32> = HashMap::default();
    let mut processes: Vec<Process> = Vec::new();
    let mut threads = Vec::new();
    let (mut samples, mut untold) = (0, 0);
    for thread in &sampled.threads {
        let wall_ns = thread.exact.wall.round() as i64;
        let process = *numbers.entry(thread.tgid).or_insert_with(|| {
            processes.push(Process {
                pid: thread.tgid,
                parent_pid: sampled.parents.get(&thread.tgid).copied().unwrap_or(0),
                executable: sampled.executables.get(&thread.tgid).cloned().unwrap_or_default(),
                start_ns: thread.start_ns,
                wall_ns: 0,
            });
            processes.len() as u32 - 1
        });
        let of = &mut processes[process as usize];
        of.start_ns = of.start_ns.min(thread.start_ns);
        of.wall_ns = of.wall_ns.max(thread.start_ns + wall_ns - of.start_ns);
        let told = add_thread(threads.len() as u32, &thread.exact, &thread.seen, &mut feature.nodes);
        samples += told.samples;
        untold += told.untold;
        let main = thread.tid == thread.tgid;
        threads.push(Thread {
            process,
            tid: thread.tid,
            name: thread.name.clone(),
            group: if main { "main".to_owned() } else { crate::assemble::group(&thread.name, "", "") },
            start_routine: String::new(),
            start_ns: thread.start_ns,
            wall_ns,
            busy_ns: (thread.exact.running + thread.exact.runnable).round() as i64,
            wait_ns: thread.exact.blocked.round() as i64,
            calls: 0,
            outermost_ns: 0,
            outermost_attributed_ns: 0,
            attributed_ns: 0,
        });
    }
    let mut components = std::mem::take(&mut sampled.objects.components);
    for component in &mut components {
        component.executable = processes.iter().any(|process| process.executable == component.path);
    }
    let loss = loss(&sampled, &components, untold);
    let tables = &sampled.objects.tables;
    let unit = tables.iter().flat_map(|table| &table.units).next();
    let session = FeatureSession {
        methods: vec![RegionMethod::Sample],
        sample_hz: sampled.sample_hz.into(),
        implicit: unit.map_or(ImplicitFlow::default(), |unit| unit.implicit),
        dependence: sampled.objects.dependence,
        ignored: tables.iter().flat_map(|table| &table.units).flat_map(Unit::ignored_in_words).collect(),
        builds: tables.iter().map(|table| format!("{:016x}", table.build())).collect(),
        model: unit.map_or_else(String::new, |unit| format!("{:016x}", unit.model)),
        events: 0,
        dropped: 0,
        blocked: 0,
        waited_ns: 0,
        stopped_ns: 0,
        sites: 0,
        samples: samples as i64,
        untranslated: untold as i64,
        event_ns: 0.0,
    };
    Profile {
        components,
        processes,
        threads,
        feature,
        loss,
        ..Profile::new(Meta {
            command: sampled.command.clone(),
            collectors: vec!["feature".to_owned()],
            wall_ns: sampled.wall_ns,
            started_unix_ns: clock.started_unix_ns,
            exit_status: sampled.status,
            feature: Some(session),
            ..Meta::new(
                machine::here(),
                ClockFacts {
                    source: "tsc".to_owned(),
                    ticks_per_ns: clock.rate(),
                    timed_call_ns: 0.0,
                    counted_call_ns: 0.0,
                },
            )
        })
    }
}

fn loss(sampled: &Sampled, components: &[transect_profile_model::Component], untold: u64) -> Vec<Loss> {
    let mut rows = sampled.unseen.clone();
    let mut add = |what, place: &str, count: u64, reason: &str| {
        if count > 0 {
            rows.push(Loss { what, place: place.to_owned(), count: count as i64, reason: reason.to_owned() });
        }
    };
    let objects = &sampled.objects;
    add(
        LossKind::TruncatedStacks,
        "samples",
        untold,
        "their region stack can't be told; their time is in the row of no feature",
    );
    for &(component, doubts) in &objects.doubts {
        add(
            LossKind::UnresolvedNames,
            &components[component as usize].path,
            doubts as u64,
            "places at which open regions can't be told: transect feature regions names them",
        );
    }
    add(LossKind::DroppedEvents, "stacks", sampled.lost, "the kernel's buffer or our tables were full");
    for (path, reason) in &objects.unreadable {
        add(LossKind::SkippedFunctions, path, 1, reason);
    }
    rows
}
