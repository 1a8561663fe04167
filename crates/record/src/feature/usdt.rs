//! Recording from the kernel: uprobes at the region sites, nothing in the process changes but what the kernel does for
//! them. For who prefers that, and for programs whose code may not be touched; needs privileges.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use transect_attach::{Launch, LaunchEvent, Mapping};
use transect_bpf_collect::privilege;
use transect_bpf_collect::region_events::{LOADER_EVENT, RegionEvents, WatchedSite};
use transect_event_abi::region_arena::{EVENT_BEGIN, EVENT_END, EVENT_RESTORE};
use transect_feature_region::{RegionError, RegionTable, SiteKind};
use transect_profile_model::{Loss, LossKind, Profile, RegionMethod};

use super::assemble::{Facts, assemble};
use super::choice::Choice;
use super::pid_namespace_map::own_number;
use super::reader::{Collected, Reader, Update};
use super::running::commands;
use super::session::words;
use super::settings::{FeatureOutcome, FeatureSettings};
use crate::RecordError;
use crate::clock::{Clock, ticks};
use crate::launch::shell_status;
use crate::lead::Lead;
use crate::probe_session::{KnownMappings, LoadedObject, load};

/// How often it is looked what there is to do: so long a library that was just loaded is not watched.
const TICK: Duration = Duration::from_millis(2);
/// The loader calls it, for debuggers, when it has changed what is mapped.
const LOADER_FUNCTION: &str = "_dl_debug_state";

/// Everything that is under way.
struct Recording {
    choice: Choice,
    clock: Clock,
    events: RegionEvents,
    reader: Reader,
    /// Mappings of each process that were looked at.
    looked_at: HashMap<i32, KnownMappings>,
    /// The kernel tells of threads.
    heard: bool,
    /// Files that are watched.
    watched: HashSet<((u32, u32), u64)>,
    sites: u64,
    any_regions: bool,
    refused: BTreeMap<(String, String), u64>,
    loss: Vec<Loss>,
}

/// Launches a program and records it to its end.
pub fn launch(
    settings: &FeatureSettings,
    command: &[OsString],
    follow: bool,
    lead: &Lead<'_>,
) -> Result<FeatureOutcome, RecordError> {
    let mut recording = Recording::new(settings, follow, lead.clock)?;
    let mut launch = Launch::start(command, follow)?;
    let status = loop {
        match launch.next(Some(TICK))? {
            LaunchEvent::Nothing | LaunchEvent::Forked { .. } | LaunchEvent::Ending { .. } => {}
            LaunchEvent::Image(target) => {
                let pid = target.pid();
                recording.image(pid, pid == launch.pid())?;
                launch.go_on(&target)?;
            }
            LaunchEvent::Ended { pid, status } => {
                recording.looked_at.remove(&pid);
                if pid == launch.pid() {
                    break status;
                }
            }
        }
        lead.signals().forward(launch.pid());
        recording.tick()?;
        lead.so_far(|| recording.so_far(words(command)))?;
    };
    drop(launch);
    recording.conclude(words(command), Some(shell_status(status)))
}

/// Records running processes until the time is up, they have ended, or a signal says that it is enough.
pub fn attach(settings: &FeatureSettings, pids: &[i32], lead: &Lead<'_>) -> Result<FeatureOutcome, RecordError> {
    let command = commands(pids);
    let mut recording = Recording::new(settings, true, lead.clock)?;
    for &pid in pids {
        recording.events.follow(pid)?;
        recording.begin(pid, true)?;
    }
    let end = lead.begin();
    let runs =
        |pid: &i32| Path::new(&format!("/proc/{pid}/maps")).exists() && !crate::feature::task_list::is_over(*pid);
    while !lead.ends() && pids.iter().any(runs) {
        recording.tick()?;
        lead.so_far(|| recording.so_far(command.clone()))?;
        std::thread::sleep(end.map_or(TICK, |end| end.saturating_duration_since(Instant::now()).min(TICK)));
    }
    recording.conclude(command, None)
}

impl Recording {
    fn new(settings: &FeatureSettings, follow: bool, clock: Clock) -> Result<Self, RecordError> {
        privilege::prepare_to_load().map_err(RecordError::UsdtPrivilege)?;
        let events = RegionEvents::load(follow)?;
        let reader = Reader::start(None, Choice::default())?;
        reader.tell(Update::Kernel(events.source()?));
        Ok(Self {
            choice: Choice::of(settings),
            clock,
            events,
            reader,
            looked_at: HashMap::new(),
            heard: false,
            watched: HashSet::new(),
            sites: 0,
            any_regions: false,
            refused: BTreeMap::new(),
            loss: Vec::new(),
        })
    }

    /// A new program stands at its entry point.
    fn image(&mut self, pid: i32, first: bool) -> Result<(), RecordError> {
        self.looked_at.remove(&pid);
        if first {
            self.events.follow(pid)?;
        }
        if first || self.has_regions(pid) {
            self.begin(pid, false)?;
        }
        Ok(())
    }

    fn has_regions(&self, pid: i32) -> bool {
        let Ok(mappings) = Mapping::all(pid) else { return false };
        let (objects, _) = load(pid, &mappings, &mut HashSet::new());
        objects.iter().any(|loaded| RegionTable::of(&loaded.object).is_ok())
    }

    fn begin(&mut self, pid: i32, midway: bool) -> Result<(), RecordError> {
        // A program that stands at its entry point waits until its sites are watched: its time begins after that.
        if !midway {
            self.watch_objects(pid)?;
        }
        // Those of children are heard with their parent's.
        if !std::mem::replace(&mut self.heard, true) || midway {
            self.reader.hear_threads(pid);
        }
        self.reader.tell(Update::Process { pid, own: own_number(pid), start: ticks(), midway, like: None });
        if midway {
            self.watch_objects(pid)?;
            self.reader.look(pid);
        } else {
            self.reader.look_before_it_runs(pid);
        }
        Ok(())
    }

    /// Watches the sites of what a process has mapped since the last look; gives the marked objects among that.
    fn watch_objects(&mut self, pid: i32) -> Result<Vec<PathBuf>, RecordError> {
        // Who has ended has no mappings.
        let Ok(mappings) = Mapping::all(pid) else { return Ok(Vec::new()) };
        let (objects, _) = load(pid, &mappings, self.looked_at.entry(pid).or_default());
        let mut marked = Vec::new();
        for loaded in &objects {
            if !self.watched.insert(loaded.identity) {
                continue;
            }
            let path = loaded.path.to_string_lossy().into_owned();
            let sites = match RegionTable::of(&loaded.object) {
                Ok(table) => {
                    self.any_regions = true;
                    marked.push(loaded.path.clone());
                    self.sites_of(loaded, &table)
                }
                Err(RegionError::NotMarked { .. }) => loader_event(loaded).into_iter().collect(),
                Err(error) => {
                    *self.refused.entry((path, error.to_string())).or_default() += 1;
                    continue;
                }
            };
            let file = Path::new("/proc").join(pid.to_string()).join("root");
            let file = file.join(loaded.path.strip_prefix("/").unwrap_or(&loaded.path));
            for (_, reason) in self.events.watch(&file, &sites)? {
                *self.refused.entry((path.clone(), format!("{reason:#}"))).or_default() += 1;
            }
            self.sites += sites.iter().filter(|site| site.kind != LOADER_EVENT).count() as u64;
        }
        Ok(marked)
    }

    fn sites_of(&self, loaded: &LoadedObject, table: &RegionTable) -> Vec<WatchedSite> {
        let wanted = table.sites.iter().filter(|site| self.choice.wants_site(table, site));
        wanted
            .filter_map(|site| {
                let kind = match site.kind {
                    SiteKind::Begin => EVENT_BEGIN,
                    SiteKind::End => EVENT_END,
                    SiteKind::Restore => EVENT_RESTORE,
                };
                Some(WatchedSite { offset: loaded.object.file_offset(site.vaddr)?, kind })
            })
            .collect()
    }

    /// Deals with what loaders have loaded.
    fn tick(&mut self) -> Result<(), RecordError> {
        let pids: HashSet<i32> = self.reader.take_loaded().collect();
        for pid in pids {
            for path in self.watch_objects(pid)? {
                self.reader.look(pid);
                self.loss.push(Loss {
                    what: LossKind::UntimedCalls,
                    place: path.to_string_lossy().into_owned(),
                    count: 1,
                    reason:
                        "loaded while the program ran: regions entered in the first milliseconds after that were not \
                             watched yet (--feature-method probe misses none)"
                            .to_owned(),
                });
            }
        }
        Ok(())
    }

    fn conclude(mut self, command: Vec<String>, status: Option<i32>) -> Result<FeatureOutcome, RecordError> {
        self.events.stop();
        let collected = self.reader.finish()?;
        if !self.any_regions && collected.catalog.objects.is_empty() {
            let program = command.first().cloned().unwrap_or_default();
            return Err(RecordError::NoRegions { program });
        }
        let facts = self.facts(command, collected, status);
        Ok(FeatureOutcome { profile: assemble(facts), status })
    }

    /// The profile so far.
    fn so_far(&self, command: Vec<String>) -> Result<Profile, RecordError> {
        Ok(assemble(self.facts(command, self.reader.so_far()?, None)))
    }

    fn facts(&self, command: Vec<String>, collected: Collected, status: Option<i32>) -> Facts<'_> {
        let refused = self.refused.iter().map(|((place, reason), &count)| Loss {
            what: LossKind::SkippedFunctions,
            place: place.clone(),
            count: count as i64,
            reason: reason.clone(),
        });
        Facts {
            command,
            clock: &self.clock,
            collected,
            method: RegionMethod::Usdt,
            choices: vec![self.choice.clone()],
            event_ticks: self.events.event_ns() * self.clock.rate(),
            stopped: std::time::Duration::ZERO,
            sites: Some(self.sites),
            beside: None,
            status,
            loss: self.loss.iter().cloned().chain(refused).collect(),
        }
    }
}

/// The loader's event function, if the object is a loader.
fn loader_event(loaded: &LoadedObject) -> Option<WatchedSite> {
    let object = &loaded.object;
    let mut symbols = (0..object.dynamic_symbol_count()).filter_map(|index| object.dynamic_symbol(index));
    let symbol = symbols.find(|symbol| symbol.defined && symbol.name == LOADER_FUNCTION)?;
    Some(WatchedSite { offset: object.file_offset(symbol.address)?, kind: LOADER_EVENT })
}
