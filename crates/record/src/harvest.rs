//! Collecting extents: those of ended threads and processes are read and given back, so that memory is bounded by
//! what is alive.

use std::collections::{HashMap, HashSet};

use transect_event_abi::arena::{EXTENT_PROCESS, EXTENT_THREAD};
use transect_event_abi::thread::THREAD_ENDED;
use transect_profile_model::Profile;

use crate::api_data::ApiData;
use crate::arena::Arena;
use crate::assemble::{Assembler, Scale, SiteStack};
use crate::clock;
use crate::extent::{Context, Head, Process, Thread};
use crate::liveness::is_alive;
use crate::names::Names;
use crate::published::Pages;
use crate::static_components::StaticComponents;

/// Processes with their threads and the time until which they are known.
pub type Rows = Vec<(Process, Vec<Thread>, u64)>;

/// What has been collected so far.
pub struct Harvest<'a> {
    pages: Option<&'a Pages>,
    names: Names,
    /// Threads that ended in processes that live, by process extent.
    threads: HashMap<u32, Vec<Thread>>,
    /// Ended processes with their threads and end times.
    ended: Rows,
    /// Contexts of the last profile's flows.
    contexts: Vec<SiteStack>,
}

impl<'a> Harvest<'a> {
    /// Nothing yet. `pages`: what the scheduler collector publishes.
    pub fn new(pages: Option<&'a Pages>) -> Self {
        Harvest { pages, names: Names::default(), threads: HashMap::new(), ended: Vec::new(), contexts: Vec::new() }
    }

    /// Notes where the kernel's clock stood at the end of a thread that could not say so itself, or stands now.
    fn note_clock(&self, process: &Process, thread: &mut Thread) {
        if let (Some(pages), Some(application), 0) = (self.pages, process.application, thread.end) {
            let at_end = thread.published.and_then(|(index, task)| pages.attribution_at_end(index, task));
            thread.last_attribution = at_end.or_else(|| Some(pages.attribution(application, clock::monotonic_ns())));
        }
    }

    /// Reads and frees what has ended, and gives whether anything had. `launched` (pid, end) tells when the launched process was reaped.
    pub fn collect(&mut self, arena: &Arena, launched: Option<(u32, u64)>) -> bool {
        let (heads, ended) = processes(arena, launched);
        self.take(arena, heads, &ended)
    }

    /// Reads and frees the `ended` processes with their threads, and the other ones' threads that have ended. Which threads there
    /// are is asked only now: a process may have made one until it ended, whose record would pass to the next in its extent.
    fn take(&mut self, arena: &Arena, heads: Vec<Head>, ended: &HashMap<u32, u64>) -> bool {
        let mut found = !ended.is_empty();
        let extents = arena.extents();
        let known: HashSet<u32> = heads.iter().map(|head| head.extent).collect();
        let contexts = Context::by_thread(arena, &extents);
        let of = |thread: u32| contexts.get(&thread).map_or(&[][..], Vec::as_slice);
        let mut owners: HashMap<u32, Process> = HashMap::new();
        for &(extent, kind) in &extents {
            if kind != EXTENT_THREAD {
                continue;
            }
            let head = arena.read(extent, 0, 16);
            let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (process, state) = (word(0), word(8));
            if known.contains(&process) && (state == THREAD_ENDED || ended.contains_key(&process)) {
                let owner = owners.entry(process).or_insert_with(|| Process::read(arena, process));
                let mut thread = Thread::read(arena, extent, of(extent), owner);
                self.note_clock(owner, &mut thread);
                if thread.tid != 0 {
                    self.threads.entry(process).or_default().push(thread);
                }
                for &context in of(extent) {
                    arena.free(context);
                }
                arena.free(extent);
                found = true;
            }
        }
        for h in heads {
            if let Some(&end) = ended.get(&h.extent) {
                let mut p = owners.remove(&h.extent).unwrap_or_else(|| Process::read(arena, h.extent));
                let end = if p.end != 0 { p.end.min(end) } else { end };
                arena.free(h.extent);
                let threads = self.threads.remove(&h.extent).unwrap_or_default();
                p.keep_used(&threads);
                self.ended.push((p, threads, end));
            }
        }
        found
    }

    /// Feature regions in which the flows of the last [`Harvest::profile`] were called: context `k + 1` is the `k`-th.
    pub fn contexts(&self) -> &[SiteStack] {
        &self.contexts
    }

    /// True if no process is left.
    pub fn is_all_over(&self, arena: &Arena) -> bool {
        !arena.extents().iter().any(|e| e.1 == EXTENT_PROCESS)
    }

    /// The profile of everything collected and of what is alive now.
    pub fn profile(
        &mut self,
        arena: &Arena,
        start: &Profile,
        scale: Scale,
        apis: &ApiData,
        statics: Option<&StaticComponents>,
    ) -> Profile {
        self.assemble(self.rows(arena), start, scale, apis, statics)
    }

    /// Everything collected and what is alive now.
    pub fn rows(&self, arena: &Arena) -> Rows {
        let now = clock::ticks();
        let extents = arena.extents();
        let contexts = Context::by_thread(arena, &extents);
        let mut running: HashMap<u32, Vec<u32>> = HashMap::new();
        for &(extent, _) in extents.iter().filter(|e| e.1 == EXTENT_THREAD) {
            let head = arena.read(extent, 0, 4);
            let process = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            running.entry(process).or_default().push(extent);
        }
        let mut all = self.ended.clone();
        for p in extents.iter().filter(|e| e.1 == EXTENT_PROCESS).map(|e| Process::read(arena, e.0)) {
            if p.pid == 0 {
                continue;
            }
            let mut threads = self.threads.get(&p.extent).cloned().unwrap_or_default();
            for extent in running.remove(&p.extent).unwrap_or_default() {
                let of_it = contexts.get(&extent).map_or(&[][..], Vec::as_slice);
                let mut thread = Thread::read(arena, extent, of_it, &p);
                self.note_clock(&p, &mut thread);
                if thread.tid != 0 {
                    threads.push(thread);
                }
            }
            all.push((p, threads, now));
        }
        all
    }

    /// The profile of these.
    pub fn assemble(
        &mut self,
        mut all: Rows,
        start: &Profile,
        scale: Scale,
        apis: &ApiData,
        statics: Option<&StaticComponents>,
    ) -> Profile {
        let mut assembler = Assembler::new(start.clone(), scale, apis, statics);
        all.sort_by_key(|(p, ..)| p.start);
        for (p, threads, end) in &mut all {
            threads.sort_by_key(|t| t.start);
            assembler.add(p, threads, *end, &mut self.names);
        }
        let (mut profile, contexts) = assembler.finish();
        self.contexts = contexts;
        for (component, within) in statics.map(StaticComponents::unseen).unwrap_or_default() {
            profile.loss.push(transect_profile_model::Loss {
                what: transect_profile_model::LossKind::SkippedFunctions,
                place: component,
                count: 1,
                reason: format!("no program loaded {within}"),
            });
        }
        if self.names.unresolved > 0 {
            profile.loss.push(transect_profile_model::Loss {
                what: transect_profile_model::LossKind::UnresolvedNames,
                place: String::new(),
                count: self.names.unresolved,
                reason: "file gone or replaced, or no symbol".to_owned(),
            });
            self.names.unresolved = 0;
        }
        profile
    }
}

/// Processes, by their start, and when those ended that have, by extent.
fn processes(arena: &Arena, launched: Option<(u32, u64)>) -> (Vec<Head>, HashMap<u32, u64>) {
    let mut heads: Vec<Head> = arena
        .extents()
        .iter()
        .filter(|e| e.1 == EXTENT_PROCESS)
        .map(|e| Head::read(arena, e.0))
        .filter(|h| h.pid != 0)
        .collect();
    heads.sort_by_key(|h| h.start);
    let now = clock::ticks();
    let mut ended: HashMap<u32, u64> = HashMap::new();
    // Where the next program of each process began, from the last on.
    let mut later: HashMap<u32, u64> = HashMap::new();
    for h in heads.iter().rev() {
        if let Some(next) = later.insert(h.pid, h.start) {
            // Replaced by exec.
            ended.insert(h.extent, next);
        } else if let Some((_, end)) = launched.filter(|l| l.0 == h.pid) {
            ended.insert(h.extent, end);
        } else if !is_alive(h.pid) {
            ended.insert(h.extent, now);
        }
    }
    (heads, ended)
}

impl Harvest<'_> {
    /// What the agent has taken to start and to hook objects in all processes that ended, ticks.
    pub fn setup_ticks(&self) -> f64 {
        self.ended.iter().map(|(p, ..)| p.setup as f64).sum()
    }

    /// Mean cost of a timed call in the trampoline and of one through Rust, over the processes that ended, ticks.
    pub fn call_ticks(&self) -> (f64, f64) {
        let mean = |cost: fn(&Process) -> u32| {
            let costs: Vec<f64> = self.ended.iter().map(|(p, ..)| f64::from(cost(p))).filter(|&c| c > 0.0).collect();
            if costs.is_empty() { 0.0 } else { costs.iter().sum::<f64>() / costs.len() as f64 }
        };
        (mean(|p| p.timed_call), mean(|p| p.sampled_call))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    use transect_event_abi::arena::EXTENT_SIZE;
    use transect_event_abi::process::ProcessHeader;
    use transect_event_abi::thread::ThreadHeader;

    use super::*;

    /// It may have been made between the look at the extents and that at the process, which was dead by then.
    #[test]
    fn the_last_thread_of_a_dead_process_is_not_left_to_the_next() {
        const NOBODY: u32 = 0x7fff_ffff;
        let arena = Arena::unused();
        let memory = File::options().write(true).open(format!("/proc/self/fd/{}", arena.descriptor())).unwrap();
        let put = |extent: u64, at: usize, word: u32| {
            memory.write_all_at(&word.to_le_bytes(), extent * EXTENT_SIZE as u64 + at as u64).unwrap();
        };
        let add = |extent: usize, kind: u32| {
            arena.header().kind[extent].store(kind, Ordering::Relaxed);
            arena.header().next_extent.store(extent as u32 + 1, Ordering::Relaxed);
        };
        put(1, std::mem::offset_of!(ProcessHeader, pid), NOBODY);
        add(1, EXTENT_PROCESS);
        let (heads, ended) = processes(&arena, None);
        put(2, std::mem::offset_of!(ThreadHeader, process), 1);
        put(2, std::mem::offset_of!(ThreadHeader, tid), NOBODY);
        add(2, EXTENT_THREAD);
        let mut harvest = Harvest::new(None);
        harvest.take(&arena, heads, &ended);
        assert_eq!(
            harvest.ended.iter().map(|(p, threads, _)| (p.pid, threads.len())).collect::<Vec<_>>(),
            [(NOBODY, 1)]
        );
        assert!(arena.extents().is_empty());
    }
}
