//! One process whose probes are switched and read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use transect_attach::{Mapping, Unwritten};
use transect_event_abi::probe_arena::PROBE_FILE_NAME;
use transect_event_abi::thread::{HISTOGRAM_BUCKETS, bucket_floor};
use transect_probe::Handler;
use transect_probe_plan::{Event, ExitSupport, Function, Refused};

use super::ProbeAction;
use super::choice::{Choice, Chosen};
use super::row::{ProbeRow, ProbeState, ProbeTimes, Sources, event_word, provider_word};
use super::semaphore::Semaphores;
use crate::RecordError;
use crate::latency::BucketScale;
use crate::probe_session::{
    Guard, LoadedObject, MemoryKept, ProbeSession, Purpose, SavedProbe, SiteCounts, SiteId, SiteState,
};

/// Why a point is not left switched on.
const GUARDED: &str = "the program skips it unless a semaphore is raised, which count and time do while they run";

/// Why a function has no probe of the kind that was asked for.
const SERVES: &str = "its probe serves the others: by it unwinders find their way, or the end of the clock is noticed";

/// A process under control.
pub struct Controlled {
    pub session: ProbeSession,
    program: PathBuf,
    probes: Vec<Probe>,
    refused: Vec<ProbeRow>,
    semaphores: Semaphores,
    /// Sites that have had a jump before us.
    before: BTreeSet<SiteId>,
    /// Puts everything back if we are killed.
    guard: Option<Guard>,
    /// Patterns that matched nothing yet.
    pub unmatched: Vec<String>,
}

struct Probe {
    id: SiteId,
    row: ProbeRow,
    /// What it was before we came, to be put back.
    before: SavedProbe,
    counts: SiteCounts,
    recent: u64,
    histogram: Vec<u32>,
}

impl Controlled {
    /// Takes over a session.
    pub fn new(session: ProbeSession, program: PathBuf, guard: Option<Guard>) -> Controlled {
        let before: BTreeSet<SiteId> = session.saved().into_keys().collect();
        Controlled {
            before,
            guard,
            session,
            program,
            probes: Vec::new(),
            refused: Vec::new(),
            semaphores: Semaphores::default(),
            unmatched: Vec::new(),
        }
    }

    /// Does what is asked for with the chosen functions of all objects.
    ///
    /// # Errors
    /// If the process can't be written, or ends.
    pub fn begin(&mut self, chosen: &Chosen, action: ProbeAction, sources: &mut Sources) -> Result<(), RecordError> {
        let objects = 0..self.session.objects.len();
        if matches!(action, ProbeAction::Count | ProbeAction::Time) {
            if action == ProbeAction::Time {
                self.session.check_clock()?;
            }
            self.install_service_probes(objects, chosen, action)?;
        }
        self.apply(chosen, action, sources)
    }

    /// The unwinders must find true return addresses while calls are timed; the loader tells of new objects; and who confines
    /// itself is not ended by what handlers do.
    fn install_service_probes(
        &mut self,
        objects: std::ops::Range<usize>,
        chosen: &Chosen,
        action: ProbeAction,
    ) -> Result<(), RecordError> {
        // Who asks for the number of calls of these functions themselves gets it. Timing stops when the program gives up the clock.
        let all = &self.session.objects;
        let chosen: HashSet<u64> = chosen
            .functions
            .iter()
            .flat_map(|(&object, functions)| functions.iter().map(move |vaddr| all[object].bias.wrapping_add(*vaddr)))
            .collect();
        self.session.watch_confinement_but(objects.clone(), &|object, function| {
            action == ProbeAction::Count && chosen.contains(&object.bias.wrapping_add(function.vaddr))
        })?;
        self.session.install_service_probes(objects)?;
        Ok(())
    }

    fn apply(&mut self, chosen: &Chosen, action: ProbeAction, sources: &mut Sources) -> Result<(), RecordError> {
        if action == ProbeAction::Disable {
            for id in self.installed(chosen) {
                self.take(id, action, sources);
            }
            return Ok(());
        }
        let mut ids: Vec<SiteId> = Vec::new();
        for (&index, functions) in &chosen.functions {
            let purpose = Some(Purpose::chosen(functions));
            let wanted = |_: &LoadedObject, function: &Function| functions.contains(&function.vaddr);
            let prepared = self.session.prepare_for(purpose, index..index + 1, &wanted)?;
            for id in prepared.sites {
                let site = &self.session.sites[id as usize];
                if self.session.is_service(id) {
                    let row = sources.row(&self.session.objects[site.object], &site.function, site.function.vaddr);
                    self.refused.push(ProbeRow { state: ProbeState::Refused, reason: SERVES.to_owned(), ..row });
                } else if site.event == Event::Entry {
                    ids.push(id);
                }
            }
            for refused in prepared.refused {
                let object = &self.session.objects[refused.object];
                let row = sources.row(object, &refused.function, refused.function.vaddr);
                let reason = refused.reason.to_string();
                self.refused.push(ProbeRow { state: ProbeState::Refused, reason, ..row });
            }
        }
        for (index, function, refused) in &chosen.refused {
            let row = sources.row(&self.session.objects[*index], function, refused.vaddr);
            self.refused.push(refused_row(row, refused));
        }
        for (index, function, site) in &chosen.points {
            if let Some(semaphore) = site.usdt.as_ref().and_then(|note| note.semaphore) {
                let object = &self.session.objects[*index];
                if action == ProbeAction::Enable {
                    let row = sources.row(object, function, site.vaddr);
                    let (name, provider) = (site.name.clone(), provider_word(site.provider));
                    let (state, event) = (ProbeState::Refused, event_word(site.event));
                    let reason = GUARDED.to_owned();
                    self.refused.push(ProbeRow { state, name, provider, event, reason, ..row });
                    continue;
                }
                let address = object.bias.wrapping_add(semaphore);
                self.semaphores.raise(self.session.target().memory(), address)?;
            }
            ids.extend(self.session.prepare_site(*index, function, site)?);
        }
        ids.sort_unstable();
        ids.dedup();
        self.session.install(&ids)?;
        for id in ids {
            self.take(id, action, sources);
        }
        Ok(())
    }

    /// Chosen probes that are in the text.
    fn installed(&self, chosen: &Chosen) -> Vec<SiteId> {
        let is_chosen = |id: &SiteId| {
            let site = &self.session.sites[*id as usize];
            let functions = chosen.functions.get(&site.object);
            let of_function = functions.is_some_and(|all| all.contains(&site.function.vaddr));
            let address = self.session.arena().site(*id as usize).address.load(Relaxed);
            let at_point = chosen.points.iter().any(|(object, _, point)| {
                let bias = self.session.objects.get(*object).map_or(0, |object| object.bias);
                *object == site.object && bias.wrapping_add(point.vaddr) == address
            });
            site.state == SiteState::Installed && !self.session.is_service(*id) && (of_function || at_point)
        };
        (0..self.session.sites.len() as SiteId).filter(is_chosen).collect()
    }

    fn take(&mut self, id: SiteId, action: ProbeAction, sources: &mut Sources) {
        let session = &self.session;
        let site = &session.sites[id as usize];
        let Some(object) = session.objects.get(site.object) else { return };
        let address = session.arena().site(id as usize).address.load(Relaxed).wrapping_sub(object.bias);
        let mut row = sources.row(object, &site.function, address);
        row.provider = provider_word(site.provider);
        row.event = event_word(site.event);
        row.name = site.name.clone();
        if site.event == Event::Point {
            (row.file, row.line) = sources.of(object, address);
        }
        if let SiteState::Refused(reason) = site.state {
            row.state = ProbeState::Refused;
            row.reason = words(reason).to_owned();
            self.refused.push(row);
            return;
        }
        let before = session.save(id);
        if action == ProbeAction::Enable {
            session.keep(id);
        }
        match action {
            ProbeAction::List => {}
            ProbeAction::Disable => session.switch(id, false),
            ProbeAction::Time if site.can_time => {
                session.set_handler(id, Handler::TimeEnter);
                session.arena().site(id as usize).max_ticks.store(0, Relaxed);
                session.switch(id, true);
            }
            _ => {
                if action == ProbeAction::Time {
                    row.reason = untimed(site.exit).to_owned();
                }
                session.set_handler(id, Handler::Count);
                session.switch(id, true);
            }
        }
        let state = if session.is_on(id) { ProbeState::Enabled } else { ProbeState::Disabled };
        row.state = state;
        let counts = session.counts(id);
        let histogram = if action == ProbeAction::Time { self.histogram(id) } else { Vec::new() };
        self.probes.push(Probe { id, row, before, counts, recent: counts.calls, histogram });
    }

    fn histogram(&self, id: SiteId) -> Vec<u32> {
        self.session.arena().histogram(id as usize).iter().map(|count| count.load(Relaxed)).collect()
    }

    /// Deals with objects that were loaded or unloaded meanwhile.
    ///
    /// # Errors
    /// If the process ends.
    pub fn follow_loader(
        &mut self,
        choice: &Choice,
        action: ProbeAction,
        sources: &mut Sources,
    ) -> Result<(), RecordError> {
        if !self.session.has_loader_event() {
            return Ok(());
        }
        let event = self.session.loader_event();
        let result = self.look_again(choice, action, sources);
        self.session.loader_done(event);
        result
    }

    fn look_again(&mut self, choice: &Choice, action: ProbeAction, sources: &mut Sources) -> Result<(), RecordError> {
        let fresh = self.session.look_at_objects()?;
        if fresh.is_empty() {
            return Ok(());
        }
        let objects: Vec<_> = fresh.clone().map(|index| (index, &self.session.objects[index])).collect();
        // A name that is ambiguous only now: the functions that were chosen first stay the ones that are meant.
        let chosen = choice.among(&objects, &self.program, sources).unwrap_or_default();
        self.install_service_probes(fresh, &chosen, action)?;
        self.unmatched.retain(|pattern| chosen.unmatched.iter().any(|(error, _)| error.pattern() == pattern));
        self.apply(&chosen, action, sources)
    }

    /// The rows so far.
    pub fn rows(&mut self, scale: Option<&BucketScale>) -> Vec<ProbeRow> {
        let mut rows = Vec::with_capacity(self.probes.len() + self.refused.len());
        for index in 0..self.probes.len() {
            let id = self.probes[index].id;
            let counts = self.session.counts(id);
            let probe = &mut self.probes[index];
            let mut row = probe.row.clone();
            row.calls = counts.calls.saturating_sub(probe.counts.calls);
            row.recent_calls = counts.calls.saturating_sub(probe.recent);
            probe.recent = counts.calls;
            row.samples = counts.samples.saturating_sub(probe.counts.samples);
            if let Some(scale) = scale.filter(|_| row.samples > 0) {
                let max = self.session.arena().site(id as usize).max_ticks.load(Relaxed);
                let ticks = counts.ticks.saturating_sub(self.probes[index].counts.ticks);
                let before = &self.probes[index].histogram;
                let now = self.histogram(id);
                let histogram: Vec<u64> =
                    now.iter().zip(before).map(|(now, before)| u64::from(now.wrapping_sub(*before))).collect();
                row.times = Some(times(scale, row.samples, ticks, max, &histogram));
            }
            rows.push(row);
        }
        rows.extend(self.refused.iter().cloned());
        rows
    }

    /// Makes the process what it was before; gives what could not be taken out of it, in words.
    pub fn leave(&mut self) -> Option<String> {
        for probe in &self.probes {
            self.session.put_back(probe.id, probe.before);
        }
        self.semaphores.lower(self.session.target().memory());
        let pid = self.session.target().pid();
        let left = match self.session.leave_but(&self.before) {
            Ok(None | Some(MemoryKept::Probes)) => None,
            Ok(Some(kept)) => Some(format!("process {pid}: {kept}")),
            Err(error) if error.is_gone() => None,
            Err(error) => Some(format!("probes are left in process {pid}: {error}")),
        };
        if let Some(guard) = self.guard.take().filter(|_| left.is_none()) {
            guard.dismiss();
        }
        left
    }

    /// Timed calls left by unwinding.
    pub fn abandoned(&self) -> u64 {
        self.session.arena().header().abandoned.load(Relaxed)
    }
}

fn times(scale: &BucketScale, samples: u64, ticks: u64, max: u64, histogram: &[u64]) -> ProbeTimes {
    let total_ns = scale.total(ticks, histogram.iter().copied());
    let max_ns = scale.amount(max);
    let counted: u64 = histogram.iter().sum();
    let quantile = |share: f64| {
        let rank = ((counted as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in histogram.iter().enumerate() {
            if *count > 0 && seen + count >= rank {
                let low = bucket_floor(index);
                let high = if index + 1 < HISTOGRAM_BUCKETS { bucket_floor(index + 1) } else { low };
                let within = (rank - seen) as f64 - 0.5;
                let at = low + ((high - low) as f64 * within / *count as f64) as u64;
                return scale.amount(at).min(max_ns);
            }
            seen += count;
        }
        max_ns
    };
    let mean_ns = total_ns / i64::try_from(samples).unwrap_or(i64::MAX).max(1);
    ProbeTimes { total_ns, mean_ns, p50_ns: quantile(0.5), p99_ns: quantile(0.99), max_ns }
}

/// The row of a USDT point without probe.
pub fn refused_row(row: ProbeRow, refused: &Refused) -> ProbeRow {
    let (name, reason) = (refused.name.clone(), refused.reason.to_string());
    ProbeRow {
        state: ProbeState::Refused,
        provider: provider_word(refused.provider),
        event: "point",
        name,
        reason,
        ..row
    }
}

/// Why a jump was not written.
fn words(reason: Unwritten) -> &'static str {
    match reason {
        Unwritten::Foreign => "its code was changed by somebody else",
        Unwritten::NotWritable => "its code can't be written",
        Unwritten::ThreadInside => "a thread stands in its first bytes",
    }
}

/// Why an entry's calls are counted, not timed.
fn untimed(exit: ExitSupport) -> &'static str {
    match exit {
        ExitSupport::PairedCall => "the site has no room for timing",
        ExitSupport::ReturnAddressUsed => "not timed: it looks at its return address, or does not return once",
        ExitSupport::ManagedStack => "not timed: its runtime walks or moves stacks itself",
        ExitSupport::NotEntry => "not timed: not a function's entry",
    }
}

/// Adds up the rows of several processes.
pub fn merged(rows: Vec<ProbeRow>) -> Vec<ProbeRow> {
    let mut places: HashMap<(String, u64, &'static str), usize> = HashMap::new();
    let mut merged: Vec<ProbeRow> = Vec::new();
    for row in rows {
        let key = (row.path.clone(), row.address, row.event);
        match places.get(&key) {
            None => {
                places.insert(key, merged.len());
                merged.push(row);
            }
            Some(&place) => {
                let sum = &mut merged[place];
                sum.state = sum.state.min(row.state);
                // Percentiles of a union are bounded by the larger ones.
                sum.times = match (sum.times, row.times) {
                    (Some(a), Some(b)) => {
                        let samples = i64::try_from(sum.samples + row.samples).unwrap_or(i64::MAX).max(1);
                        let total_ns = a.total_ns + b.total_ns;
                        Some(ProbeTimes {
                            total_ns,
                            mean_ns: total_ns / samples,
                            p50_ns: if sum.samples >= row.samples { a.p50_ns } else { b.p50_ns },
                            p99_ns: a.p99_ns.max(b.p99_ns),
                            max_ns: a.max_ns.max(b.max_ns),
                        })
                    }
                    (a, b) => a.or(b),
                };
                sum.calls += row.calls;
                sum.recent_calls += row.recent_calls;
                sum.samples += row.samples;
            }
        }
    }
    merged
}

/// Path of a process' executable.
pub fn program_of(pid: i32) -> PathBuf {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(path) => Path::new(path).to_owned(),
        None => path,
    }
}

/// Whether an earlier controller has left probes.
pub fn has_probes(mappings: &[Mapping]) -> bool {
    let name = format!("/memfd:{PROBE_FILE_NAME}");
    mappings.iter().any(|mapping| mapping.path.as_os_str() == &*name)
}
