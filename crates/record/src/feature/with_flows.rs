//! Features and calls between components from one recording: while a thread is in regions, its calls are counted by them.
//!
//! The agent is called at each site ([`transect_event_abi::context`]); the flow collector's session launches the program
//! and finds the stacks of sites, the feature collector's reader the regions they belong to.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

use transect_event_abi::region_arena::REGION_FILE_VARIABLE;
use transect_feature_region::{Site, SiteKind};
use transect_profile_model::{ComponentId, Process, Profile, RegionId, RegionMethod, RegionNode, Thread};

use super::assemble::{Facts, assemble};
use super::choice::Choice;
use super::event_cost::event_ticks;
use super::pid_namespace_map::own_number;
use super::reader::{Collected, Reader, Update};
use super::region_file::RegionFile;
use super::sampling::{SupplementarySamples, SupplementaryTimes};
use super::session::{words, written_by_program};
use super::settings::{FeatureSettings, FeatureTarget};
use crate::RecordError;
use crate::assemble::SiteStack;
use crate::clock::{Clock, ticks};
use crate::component_rows::place;
use crate::flow_context;

/// How features are observed beside flows.
pub enum Observation<'a> {
    /// The program writes events itself.
    Trace(Box<Trace<'a>>),
    /// Sites are switched on in the program, by whoever launches it.
    Probe(&'a FeatureSettings),
}

impl<'a> Observation<'a> {
    /// Gets ready for a command that has not been started.
    ///
    /// # Errors
    /// If the program has no regions, or the method can't be had beside flows.
    pub fn prepare(
        settings: &'a FeatureSettings,
        command: &[OsString],
        clock: &'a Clock,
    ) -> Result<Observation<'a>, RecordError> {
        match settings.method {
            Some(RegionMethod::Usdt | RegionMethod::Sample) => return Err(RecordError::FeaturesBesideFlows),
            Some(RegionMethod::Trace | RegionMethod::Probe) | None => {}
        }
        match written_by_program(settings, command)? {
            true => Ok(Observation::Trace(Box::new(Trace::start(settings, command, clock)?))),
            false => Ok(Observation::Probe(settings)),
        }
    }
}

/// A program with compiled-in events.
pub struct Trace<'a> {
    clock: &'a Clock,
    command: Vec<String>,
    choice: Choice,
    follow: bool,
    /// The process that was launched.
    pid: i32,
    event_ticks: f64,
    file: Arc<RegionFile>,
    /// Samples a second, if there are to be some.
    sample_hz: Option<u32>,
    samples: Option<SupplementarySamples>,
    /// Once the process exists: until then no thread of ours may be started.
    reader: Option<Reader>,
}

impl<'a> Trace<'a> {
    fn start(settings: &FeatureSettings, command: &[OsString], clock: &'a Clock) -> Result<Self, RecordError> {
        let file = Arc::new(RegionFile::create(settings.overflow)?);
        // Who names the method wants events.
        let sample_hz = settings.method.is_none().then_some(settings.sample_hz);
        let command = words(command);
        let (choice, event_ticks) = (Choice::of(settings), event_ticks());
        let follow = !matches!(settings.target, FeatureTarget::Launch { follow: false, .. });
        Ok(Self { clock, command, choice, follow, pid: 0, event_ticks, file, sample_hz, samples: None, reader: None })
    }

    /// What the program must find in its environment.
    pub fn variable(&self) -> (OsString, OsString) {
        (REGION_FILE_VARIABLE.into(), self.file.path().into())
    }

    /// The process exists and will become the program.
    ///
    /// # Errors
    /// If no thread can be had that reads the events.
    pub fn started(&mut self, pid: i32) -> Result<(), RecordError> {
        let reader = Reader::start(None, self.choice.clone())?;
        reader.tell(Update::File(self.file.clone()));
        reader.hear_threads(pid);
        self.samples = self.sample_hz.and_then(|hertz| SupplementarySamples::start(&[pid], hertz));
        reader.tell(Update::Process { pid, own: own_number(pid), start: ticks(), midway: false, like: None });
        (self.pid, self.reader) = (pid, Some(reader));
        Ok(())
    }

    /// It has ended.
    pub fn ended(&self, pid: i32, end: u64) {
        self.reader.iter().for_each(|reader| reader.tell(Update::Ended { pid, end }));
    }

    /// What was recorded.
    ///
    /// # Errors
    /// If nothing that ran has regions.
    pub fn finish(mut self, status: i32) -> Result<FeatureRows, RecordError> {
        let beside = self.samples.take().and_then(SupplementarySamples::finish);
        let collected = self.reader.take().ok_or(RecordError::Ended)?.finish()?;
        if collected.catalog.objects.is_empty() && collected.catalog.unreadable.is_empty() {
            return Err(RecordError::NoRegions { program: self.command.into_iter().next().unwrap_or_default() });
        }
        Ok(FeatureRows::of(self.facts(collected, beside, Some(status))))
    }

    /// The profile so far. What samples tell of regions without sites comes in the end.
    pub fn so_far(&self) -> Option<Profile> {
        let collected = self.reader.as_ref()?.so_far().ok()?;
        Some(assemble(self.facts(collected, None, None)))
    }

    fn facts(&self, mut collected: Collected, beside: Option<SupplementaryTimes>, status: Option<i32>) -> Facts<'a> {
        if !self.follow {
            collected.keep_only(self.pid);
        }
        Facts {
            command: self.command.clone(),
            clock: self.clock,
            collected,
            method: RegionMethod::Trace,
            choices: vec![self.choice.clone()],
            event_ticks: self.event_ticks,
            stopped: std::time::Duration::ZERO,
            sites: None,
            beside,
            status,
            loss: Vec::new(),
        }
    }
}

/// A profile of features, with what is needed to put it together with flows.
pub struct FeatureRows {
    profile: Profile,
    method: RegionMethod,
    /// By component and virtual address: the region that begins there.
    begins: HashMap<(ComponentId, u64), RegionId>,
}

impl FeatureRows {
    /// Builds them.
    pub fn of(facts: Facts<'_>) -> FeatureRows {
        let begins = begins(&facts);
        let method = facts.method;
        FeatureRows { profile: assemble(facts), method, begins }
    }

    /// Those of a finished recording; no flows are told apart by them.
    pub fn alone(profile: Profile) -> FeatureRows {
        let method = profile.meta.feature.as_ref().and_then(|session| session.methods.first().copied());
        FeatureRows { profile, method: method.unwrap_or(RegionMethod::Probe), begins: HashMap::new() }
    }

    /// Puts them into the profile of the same run's flows. `stacks`: sites of the flows' contexts.
    pub fn merge_into(self, profile: &mut Profile, stacks: &[SiteStack]) {
        let Self { profile: mut from, method, begins } = self;
        let components: Vec<ComponentId> =
            from.components.iter().map(|component| place(&mut profile.components, component)).collect();
        let threads = merge_threads(profile, &from, method);
        for region in &mut from.feature.regions {
            region.component = components[region.component as usize];
        }
        for variable in &mut from.feature.variables {
            variable.component = components[variable.component as usize];
        }
        for node in &mut from.feature.nodes {
            let (thread, more_ns) = threads.places[node.thread as usize];
            node.thread = thread;
            if node.region.is_none() && node.parent.is_none() {
                // All nodes of a thread add up to its life as the flows know it.
                let rest = node.exclusive_ns.saturating_add(more_ns).max(0);
                (node.exclusive_ns, node.exclusive_ns_low, node.exclusive_ns_high) = (rest, rest, rest);
            }
        }
        from.feature.nodes.extend(threads.without_events);
        profile.feature = from.feature;
        let begins: HashMap<(ComponentId, u64), RegionId> = begins
            .into_iter()
            .map(|((component, at), region)| ((components[component as usize], at), region))
            .collect();
        flow_context::resolve(profile, stacks, |component, at| begins.get(&(component, at)).copied());
        profile.loss.extend(from.loss);
        profile.meta.collectors.extend(from.meta.collectors);
        profile.meta.feature = from.meta.feature;
        profile.meta.overhead_estimate = (profile.meta.overhead_estimate + from.meta.overhead_estimate).min(1.0);
    }
}

fn begins(facts: &Facts<'_>) -> HashMap<(ComponentId, u64), RegionId> {
    let (collected, choices) = (&facts.collected, &facts.choices);
    let mut begins = HashMap::new();
    for (component, object) in (0..).zip(&collected.catalog.objects) {
        let wanted = |site: &Site| choices.is_empty() || choices.iter().any(|one| one.wants_site(&object.table, site));
        for site in object.table.sites.iter().filter(|site| site.kind == SiteKind::Begin && wanted(site)) {
            let Some(region) = site.region.map(|region| object.first_region + region) else { continue };
            // Of a region that was switched off ends may be missing: its calls are those of the region around it.
            if !collected.off.iter().any(|hot| hot.region == region) {
                begins.insert((component, site.vaddr), region);
            }
        }
    }
    begins
}

struct MergedThreads {
    /// By row of the features' threads: row in the profile, and how much longer that lived.
    places: Vec<(u32, i64)>,
    /// Roots of threads that had no region.
    without_events: Vec<RegionNode>,
}

fn merge_threads(profile: &mut Profile, from: &Profile, method: RegionMethod) -> MergedThreads {
    let before = profile.processes.len();
    let span = |process: &Process| (process.start_ns, process.start_ns.saturating_add(process.wall_ns));
    let processes: Vec<u32> = from
        .processes
        .iter()
        .map(|process| {
            let known = (0..before).filter(|&at| profile.processes[at].pid == process.pid);
            // A process number stands for one program after another.
            let same = known.max_by_key(|&at| overlap(span(&profile.processes[at]), span(process)));
            same.unwrap_or_else(|| {
                profile.processes.push(process.clone());
                profile.processes.len() - 1
            }) as u32
        })
        .collect();
    let known = profile.threads.len();
    let mut taken = vec![false; known];
    let span = |thread: &Thread| (thread.start_ns, thread.start_ns.saturating_add(thread.wall_ns));
    let mut places = Vec::with_capacity(from.threads.len());
    for thread in &from.threads {
        let process = processes[thread.process as usize];
        let candidates = (0..known).filter(|&at| {
            let other = &profile.threads[at];
            !taken[at] && other.process == process && other.tid == thread.tid
        });
        let same = candidates.max_by_key(|&at| overlap(span(&profile.threads[at]), span(thread)));
        places.push(match same {
            Some(at) => {
                taken[at] = true;
                (at as u32, profile.threads[at].wall_ns.saturating_sub(thread.wall_ns))
            }
            None => {
                profile.threads.push(Thread { process, ..thread.clone() });
                (profile.threads.len() as u32 - 1, 0)
            }
        });
    }
    let root = |at: usize| {
        let exclusive_ns = profile.threads[at].wall_ns;
        RegionNode {
            parent: None,
            region: None,
            thread: at as u32,
            method,
            entries: None,
            exclusive_ns,
            exclusive_ns_low: exclusive_ns,
            exclusive_ns_high: exclusive_ns,
            cpu_ns: None,
            samples: 0,
        }
    };
    let without_events = (0..known).filter(|&at| !taken[at]).map(root).collect();
    MergedThreads { places, without_events }
}

/// How long two spans of time have in common, ns; negative: the gap between them.
fn overlap(a: (i64, i64), b: (i64, i64)) -> i64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}
