//! Which collectors take part in a recording: those that were asked for, or the default as far as it is possible.

use std::path::Path;

use transect_binary_info::{Object, inspect_launch};
use transect_bpf_collect::privilege;
use transect_feature_region::{RegionTable, SiteMode};
use transect_profile_model::{Loss, LossKind};

use crate::arguments::{Choice, Collector, Recording, RunningArguments};
use crate::failure::Failure;
use crate::limits;

/// Why regions without sites of their own are left out.
const LONE_REGIONS: &str = "feature regions of this build are recorded by themselves: --collect feature";

/// Why calls of a running program are left out.
const ASKED_FOR: &str = "calls between components of a running process are counted if asked for: --collect flow";

/// What a recording is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A command.
    Launched,
    /// One process that runs.
    Process,
    /// Several of them, or those of a cgroup.
    Processes,
    /// The machine.
    Machine,
}

impl Subject {
    fn of(running: &RunningArguments) -> Self {
        match (running.is_given(), running.one_process()) {
            (false, _) => Self::Launched,
            (true, Some(_)) => Self::Process,
            (true, None) if running.all => Self::Machine,
            (true, None) => Self::Processes,
        }
    }
}

/// Why a collector can't record a subject; `None` if it can.
fn obstacle(collector: Collector, subject: Subject) -> Option<&'static str> {
    match (collector, subject) {
        (Collector::Flow | Collector::Latency | Collector::Feature, Subject::Machine) => Some(
            "it stops each process and changes code in it, which not all of a machine's are to bear: name those that are by \
             --pid or --cgroup",
        ),
        _ => None,
    }
}

/// The collectors of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    collectors: Vec<Collector>,
    /// Nobody asked for these: what turns out to be impossible is left out.
    by_default: bool,
    /// Samples that need no privileges stand in for the scheduler's events.
    samples: bool,
    left_out: Vec<Loss>,
}

impl Collection {
    /// Reads `--collect`; without names the default for `program`.
    ///
    /// # Errors
    /// If the names contradict each other, or nothing can record the program.
    pub fn of(recording: &Recording, program: &Path, follow: bool) -> Result<Self, Failure> {
        let with = |choice: &Choice| match choice {
            Choice::With(collector) => Some(*collector),
            Choice::Without(_) => None,
        };
        let collectors: Vec<_> = recording.collect.iter().filter_map(with).collect();
        if let Some(why) = recording.running.obstacle() {
            return Err(Failure::Usage(why));
        }
        match (collectors.is_empty(), collectors.len() == recording.collect.len()) {
            (true, _) if recording.running.is_given() => Self::default_of_running(recording),
            (true, _) => Self::default_for(recording, program, follow),
            (false, true) => {
                let this = Self::these(collectors, Subject::of(&recording.running))?;
                match limits::small_stack().filter(|_| this.wants(Collector::Flow)) {
                    Some(why) => Err(Failure::Usage(format!("{why}: leave flow out of --collect, or raise it"))),
                    None => Ok(this),
                }
            }
            (false, false) => Err(Failure::Usage(
                "--collect takes the collectors that take part, or with - those that don't: not both".to_owned(),
            )),
        }
    }

    /// These, and what they take along: a walk beside others, or of more than one process, is made of the scheduler's events;
    /// latencies and features beside others are recorded with the agent in a program that is launched, and with the
    /// scheduler's events of one that runs.
    fn these(collectors: Vec<Collector>, subject: Subject) -> Result<Self, Failure> {
        let mut this = Self { collectors, by_default: false, samples: false, left_out: Vec::new() };
        let refused = |&one: &Collector| Some((one, obstacle(one, subject)?));
        if let Some((one, why)) = this.collectors.iter().find_map(refused) {
            let one = one.as_str();
            return Err(Failure::Usage(format!("{one} is not recorded here: {why}, or leave {one} out of --collect")));
        }
        if subject != Subject::Launched {
            let leads = this.collectors.len() > 1 || this.wants(Collector::Walk) && subject != Subject::Process;
            if leads && !this.wants(Collector::Sched) {
                this.collectors.push(Collector::Sched);
            }
            return Ok(this);
        }
        let of_agent = [Collector::Flow, Collector::Latency, Collector::Feature];
        let beside = of_agent.iter().any(|collector| this.wants(*collector));
        if this.wants(Collector::Walk) && beside && !this.wants(Collector::Sched) {
            this.collectors.push(Collector::Sched);
        }
        let several = this.collectors.len() > 1;
        if several && !this.wants(Collector::Flow) && (this.wants(Collector::Latency) || this.wants(Collector::Feature))
        {
            this.collectors.push(Collector::Flow);
        }
        Ok(this)
    }

    /// What a program that runs already, without the agent, can be asked for.
    fn default_of_running(recording: &Recording) -> Result<Self, Failure> {
        privilege::prepare_to_load().map_err(|why| Failure::Usage(why.to_string()))?;
        let wanted = |collector: &Collector| !recording.collect.contains(&Choice::Without(*collector));
        let collectors: Vec<_> = [Collector::Sched, Collector::Walk].into_iter().filter(wanted).collect();
        if !collectors.contains(&Collector::Sched) {
            return Err(Failure::Usage("--collect leaves nothing to record".to_owned()));
        }
        let mut this = Self { collectors, by_default: true, samples: false, left_out: Vec::new() };
        if wanted(&Collector::Flow) {
            this.set_aside(Collector::Flow, ASKED_FOR.to_owned());
        }
        Ok(this)
    }

    fn default_for(recording: &Recording, program: &Path, follow: bool) -> Result<Self, Failure> {
        let wanted = |collector| !recording.collect.contains(&Choice::Without(collector));
        let mut this = Self { collectors: Vec::new(), by_default: true, samples: false, left_out: Vec::new() };
        let launch = inspect_launch(program);
        if wanted(Collector::Sched) && !follow {
            this.set_aside(Collector::Sched, "it records all descendants, which --no-follow leaves alone".to_owned());
        } else if wanted(Collector::Sched) {
            match privilege::prepare_to_load() {
                Ok(()) => this.collectors.push(Collector::Sched),
                Err(why) => this.leave_out(Collector::Sched, why.to_string()),
            }
        }
        if wanted(Collector::Flow) {
            match &launch {
                // Nothing is loaded into these, but the scheduler sees them, and samples do.
                Err(why) if why.can_run() && (this.wants(Collector::Sched) || this.samples()) => {
                    this.leave_out(Collector::Flow, why.to_string());
                }
                _ => match limits::small_stack().filter(|_| this.wants(Collector::Sched) || this.samples()) {
                    Some(why) => this.leave_out(Collector::Flow, why),
                    None => this.collectors.push(Collector::Flow),
                },
            }
        }
        let sites = || {
            let object = Object::open(&launch.as_ref().ok()?.object).ok()?;
            RegionTable::of(&object).ok().map(|table| table.site_mode())
        };
        // Without the scheduler's events there is nothing to search.
        if wanted(Collector::Walk) && this.wants(Collector::Sched) {
            this.collectors.push(Collector::Walk);
        }
        if wanted(Collector::Feature) && this.wants(Collector::Flow) {
            match sites() {
                None | Some(SiteMode::None | SiteMode::Confirm) => {}
                Some(SiteMode::Trace | SiteMode::Probe) => this.collectors.push(Collector::Feature),
                Some(SiteMode::Shared | SiteMode::Inlined) => {
                    this.set_aside(Collector::Feature, LONE_REGIONS.to_owned());
                }
            }
        }
        if this.collectors.is_empty() && !this.samples() {
            return Err(Failure::Usage("--collect leaves nothing to record".to_owned()));
        }
        Ok(this)
    }

    /// Whether a walk takes what the scheduler's collector samples, and times no functions of its own.
    pub fn walks_by_samples(&self) -> bool {
        self.by_default && self.wants(Collector::Walk)
    }

    /// Whether `collector` takes part.
    pub fn wants(&self, collector: Collector) -> bool {
        self.collectors.contains(&collector)
    }

    /// Whether samples that need no privileges stand in for the scheduler's events.
    pub fn samples(&self) -> bool {
        self.samples
    }

    /// The collectors that take part.
    pub fn collectors(&self) -> &[Collector] {
        &self.collectors
    }

    /// Whether the others record without `collector` if it turns out to be impossible.
    pub fn spares(&self, collector: Collector) -> bool {
        self.by_default && self.collectors.iter().any(|&other| other != collector)
    }

    /// Goes on without `collector`; samples stand in for the scheduler's events.
    pub fn leave_out(&mut self, collector: Collector, reason: String) {
        self.samples |= collector == Collector::Sched;
        self.set_aside(collector, reason);
    }

    fn set_aside(&mut self, collector: Collector, reason: String) {
        // Of two that go together one line is enough.
        if self.left_out.iter().any(|left| left.reason == reason) {
            self.collectors.retain(|&other| other != collector);
            return;
        }
        self.collectors.retain(|&other| other != collector);
        let place = collector.as_str().to_owned();
        self.left_out.push(Loss { what: LossKind::CollectorsLeftOut, place, count: 1, reason });
    }

    /// Why a collector of the default takes no part.
    pub fn why_left_out(&self, collector: Collector) -> Option<&str> {
        let left = self.left_out.iter().find(|left| left.place == collector.as_str());
        left.map(|left| left.reason.as_str())
    }

    /// What joins a cgroup later has only what needs nothing of ours in it.
    pub fn late_processes(&self, recording: &Recording) -> Vec<Loss> {
        let Some(group) = &recording.running.cgroup else { return Vec::new() };
        let within =
            [Collector::Flow, Collector::Latency, Collector::Feature].into_iter().filter(|one| self.wants(*one));
        let loss = |one: Collector| Loss {
            what: LossKind::CollectorsLeftOut,
            place: format!("{} of processes that join {} later", one.as_str(), group.display()),
            count: 1,
            reason: "it is of those that were there at the beginning".to_owned(),
        };
        within.map(loss).collect()
    }

    /// What the profile says about collectors of the default that took no part.
    pub fn loss(&self) -> &[Loss] {
        &self.left_out
    }
}
