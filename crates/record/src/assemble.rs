//! From extents to the tables of a profile.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use transect_event_abi::process::{
    OBJECT_APART, OBJECT_EXECUTABLE, OBJECT_GONE, OBJECT_SYNTHETIC, SLOT_DLSYM, SLOT_INTERNAL, SLOT_STATIC,
};
use transect_event_abi::published::FRACTION_BITS;
use transect_profile_model::{
    ApiClass, Component, ComponentId, Flow, Loss, LossKind, Process, ProcessId, Profile, Thread, ThreadId, Timing,
    TraceEvent, Wait,
};

use crate::api_data::{ApiData, WaitObject};
use crate::extent;
use crate::names::Names;
use crate::static_components::StaticComponents;

mod flow;
mod hold;
mod locks;
mod losses;

use flow::Room;

/// Turns ticks of the arena into nanoseconds of the recording.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Time stamp at the recording's start.
    pub epoch: u64,
    /// Ticks per nanosecond.
    pub rate: f64,
}

impl Scale {
    fn ns(self, ticks: f64) -> i64 {
        (ticks / self.rate).round() as i64
    }
    /// Of nanoseconds in fixed point.
    fn ticks(self, nanoseconds: u64) -> u64 {
        (nanoseconds as f64 / f64::from(1 << FRACTION_BITS) * self.rate) as u64
    }
    fn since_start(self, ticks: u64) -> i64 {
        self.ns(ticks.saturating_sub(self.epoch) as f64)
    }
}

/// Builds a profile process by process.
pub struct Assembler<'a> {
    profile: Profile,
    scale: Scale,
    apis: &'a ApiData,
    statics: Option<&'a StaticComponents>,
    components: HashMap<(String, String), ComponentId>,
    contexts: Vec<SiteStack>,
}

/// A stack of feature regions in which flows were called, by the places where the regions began: component and virtual
/// address in it, outermost first.
pub type SiteStack = Vec<(ComponentId, u64)>;

/// One slot's names, looked up once per process.
#[derive(Clone)]
struct Named {
    caller: ComponentId,
    callee: ComponentId,
    symbol: String,
    version: String,
    api: String,
    class: ApiClass,
    dlsym: bool,
}

fn class_of(number: u8) -> ApiClass {
    match number {
        1 => ApiClass::Io,
        2 => ApiClass::Lock,
        3 => ApiClass::Wait,
        4 => ApiClass::CountOnly,
        _ => ApiClass::Compute,
    }
}

impl<'a> Assembler<'a> {
    /// Continues a profile.
    pub fn new(profile: Profile, scale: Scale, apis: &'a ApiData, statics: Option<&'a StaticComponents>) -> Self {
        let components = profile
            .components
            .iter()
            .enumerate()
            .map(|(i, c)| ((c.path.clone(), c.build_id.clone()), i as ComponentId))
            .collect();
        Assembler { profile, scale, apis, statics, components, contexts: Vec::new() }
    }

    /// The profile so far, and what its flows' contexts are: context `k + 1` is the `k`-th of the list.
    pub fn finish(self) -> (Profile, Vec<SiteStack>) {
        (self.profile, self.contexts)
    }

    /// The number of a context by the sites that a process knows it by; 0 if they are in no object.
    fn context(&mut self, p: &extent::Process, sites: &[u64]) -> u32 {
        let place = |&site: &u64| {
            let object = p.object_at(site)?;
            // A static component's regions are its file's.
            let file = p.objects.get(object)?.parent.map_or(object, |file| file as usize);
            Some((self.component_of(p, file)?, site.wrapping_sub(p.file_of(object)?.base)))
        };
        let Some(stack) = sites.iter().map(place).collect::<Option<SiteStack>>() else { return 0 };
        let known = self.contexts.iter().position(|c| *c == stack);
        let at = known.unwrap_or_else(|| {
            self.contexts.push(stack);
            self.contexts.len() - 1
        });
        at as u32 + 1
    }

    /// The component of an object of a process, by index.
    fn component_of(&mut self, p: &extent::Process, index: usize) -> Option<ComponentId> {
        let object = p.objects.get(index)?;
        let parent = match object.parent {
            Some(parent) => Some(self.component(p.objects.get(parent as usize)?, None)),
            None => None,
        };
        Some(self.component(object, parent))
    }

    fn component(&mut self, object: &extent::Object, static_in: Option<ComponentId>) -> ComponentId {
        let key = (object.path.clone(), object.build_id.clone());
        if let Some(&known) = self.components.get(&key) {
            return known;
        }
        // /lib and /usr/lib are one folder where one is a link.
        let file = Some(&object.path).filter(|path| path.starts_with('/') && static_in.is_none());
        let file = file.and_then(|path| fs::canonicalize(path).ok()).map(|file| file.display().to_string());
        let file = (file.unwrap_or_else(|| object.path.clone()), object.build_id.clone());
        let id = self.components.get(&file).copied().unwrap_or_else(|| {
            let path = if object.path.is_empty() { "[vdso]".to_owned() } else { object.path.clone() };
            self.profile.components.push(Component {
                path,
                build_id: object.build_id.clone(),
                executable: object.flags & OBJECT_EXECUTABLE != 0,
                synthetic: object.flags & OBJECT_SYNTHETIC != 0,
                static_in,
            });
            self.profile.components.len() as ComponentId - 1
        });
        self.components.extend([(key, id), (file, id)]);
        id
    }

    fn unknown_component(&mut self) -> ComponentId {
        let object = extent::Object {
            base: 0,
            start: 0,
            end: 0,
            flags: OBJECT_SYNTHETIC,
            build_id: String::new(),
            address_taken: 0,
            refused: 0,
            unplanned: 0,
            parent: None,
            path: "[unknown]".to_owned(),
            file: PathBuf::new(),
        };
        self.component(&object, None)
    }

    fn loss(&mut self, what: LossKind, place: &str, count: i64, reason: &str) {
        if count <= 0 {
            return;
        }
        let known = self.profile.loss.iter_mut().find(|l| l.what == what && l.place == place && l.reason == reason);
        match known {
            Some(l) => l.count += count,
            None => self.profile.loss.push(Loss { what, place: place.to_owned(), count, reason: reason.to_owned() }),
        }
    }

    fn named(&mut self, p: &extent::Process, names: &mut Names, slot: u32) -> Option<Named> {
        let s = p.slots.get(&slot)?;
        let caller_file = p.file_of(s.caller as usize)?;
        if s.flags & SLOT_INTERNAL != 0 {
            return None;
        }
        let dlsym = s.flags & SLOT_DLSYM != 0;
        if s.flags & SLOT_STATIC != 0 {
            return self.named_static(p, names, s);
        }
        let (symbol, version) =
            if dlsym { (p.name(s.symbol), String::new()) } else { names.dynamic(caller_file, s.symbol) };
        let caller = self.component_of(p, s.caller as usize)?;
        let callee_object = s.callee.map(usize::from).or_else(|| {
            p.objects.iter().position(|o| {
                o.flags & (OBJECT_GONE | OBJECT_APART) == 0
                    && !o.path.is_empty()
                    && o.parent.is_none()
                    && names.defines(o, &symbol)
            })
        });
        let callee = match callee_object.and_then(|o| self.component_of(p, o)) {
            Some(component) => component,
            None => {
                names.unresolved += 1;
                self.unknown_component()
            }
        };
        if callee == caller && !dlsym {
            return None;
        }
        let api = names.demangle(&symbol);
        Some(Named { caller, callee, symbol, version, api, class: class_of(s.class), dlsym })
    }

    /// A function of a static component: its name is that of its address.
    fn named_static(&mut self, p: &extent::Process, names: &mut Names, s: &extent::Slot) -> Option<Named> {
        let file = p.file_of(usize::from(s.callee?))?;
        let symbol = names.symbol_at(file, s.target);
        let caller = self.component_of(p, usize::from(s.caller))?;
        let callee = self.component_of(p, usize::from(s.callee?))?;
        let api = names.demangle(transect_binary_info::without_suffix(&symbol));
        let class = class_of(s.class);
        Some(Named { caller, callee, symbol, version: String::new(), api, class, dlsym: false })
    }

    /// Adds a process with its threads. `end` is when it ended or the time of the snapshot, in ticks.
    pub fn add(&mut self, p: &extent::Process, threads: &[extent::Thread], end: u64, names: &mut Names) {
        let process = self.profile.processes.len() as ProcessId;
        self.profile.processes.push(Process {
            pid: p.pid as i32,
            parent_pid: p.parent_pid as i32,
            executable: p.executable.clone(),
            start_ns: self.scale.since_start(p.start),
            wall_ns: self.scale.ns(end.saturating_sub(p.start) as f64),
        });
        let mut slots: HashMap<u32, Option<Named>> = HashMap::new();
        let comm: String = p.executable.rsplit('/').next().unwrap_or("").chars().take(15).collect();
        let mut used: HashMap<u32, i64> = HashMap::new();
        for t in threads {
            for (slot, c) in t.flows.iter().chain(t.contexts.iter().flat_map(|c| &c.flows)) {
                slots.entry(*slot).or_insert_with(|| self.named(p, names, *slot));
                *used.entry(*slot).or_default() += c.calls;
            }
        }
        for t in threads {
            self.add_thread(p, process, t, end, names, &slots, &comm, &used);
        }
        self.add_locks(p, process, threads, end, names, &slots);
        self.add_losses(p, threads);
    }

    #[allow(clippy::too_many_arguments)] // one process' context, used in one place
    fn add_thread(
        &mut self,
        p: &extent::Process,
        process: ProcessId,
        t: &extent::Thread,
        end: u64,
        names: &mut Names,
        slots: &HashMap<u32, Option<Named>>,
        comm: &str,
        used: &HashMap<u32, i64>,
    ) {
        let id = self.profile.threads.len() as ThreadId;
        let ended = if t.end != 0 { t.end } else { end };
        let wall = ended.saturating_sub(t.start);
        let open_wait = if t.waiting_since != 0 { ended.saturating_sub(t.waiting_since) } else { 0 };
        let wait = t.wait.saturating_add(open_wait).min(wall);
        let attributed = match p.application {
            Some(_) => {
                let last = if t.end != 0 { t.integral.1 } else { t.last_attribution.unwrap_or(t.integral.0) };
                self.scale.ticks(last.saturating_sub(t.integral.0))
            }
            None => {
                let last = if t.end != 0 { t.integral.1 } else { p.integral(self.scale.epoch, ended) };
                last.saturating_sub(t.integral.0)
            }
        };
        let attributed = attributed.min(wall);
        let start_routine = p
            .object_at(t.start_routine)
            .filter(|_| t.start_routine != 0)
            .and_then(|o| names.at(&p.objects[o], t.start_routine))
            .unwrap_or_default();
        let mut calls = 0;
        let mut all: Vec<(u32, u32, &extent::Counters)> = t.flows.iter().map(|(slot, c)| (0, *slot, c)).collect();
        for context in &t.contexts {
            let number = self.context(p, &context.sites);
            all.extend(context.flows.iter().map(|(slot, c)| (number, *slot, c)));
        }
        let every = match self.profile.meta.timing {
            Timing::Every { period } => Some(period),
            _ => None,
        };
        let outermost = flow::outermost(t.outermost, every, all.iter().map(|(_, _, c)| *c));
        let room = Room::of(wall, open_wait, outermost.0, self.scale.rate, all.iter().map(|(_, _, c)| *c))
            .with_attributed(attributed as f64 / wall.max(1) as f64);
        let mut inside = flow::Inside::default();
        for (_, slot, c) in &all {
            slots.get(slot).and_then(Option::as_ref).into_iter().for_each(|named| inside.add(named, c));
        }
        let mut waiting = open_wait;
        for (context, slot, c) in all {
            let Some(Some(n)) = slots.get(&slot) else { continue };
            calls += c.calls;
            let share = c.calls as f64 / used.get(&slot).copied().unwrap_or(c.calls).max(1) as f64;
            // The wait is in one of the slot's contexts; which one, nobody has noted.
            let open = if t.waiting_slot == slot { std::mem::take(&mut waiting) } else { 0 };
            let flow = self.flow(p, id, n, slot, c, share, open, room, &inside);
            self.profile.flows.push(Flow { context, ..flow });
        }
        for w in &t.waits {
            let Some(Some(n)) = slots.get(&(w[0] as u32)) else { continue };
            let row = Wait {
                thread: id,
                api: n.api.clone(),
                object: self.object_label(p, names, &n.symbol, w[1]),
                count: w[2] as i64,
                ns: self.scale.ns(w[3] as f64),
                caller: n.caller,
            };
            self.profile.waits.push(row);
        }
        if open_wait != 0
            && let Some(Some(n)) = slots.get(&t.waiting_slot)
        {
            let (api, caller, ns) = (n.api.clone(), n.caller, self.scale.ns(open_wait as f64));
            self.profile.waits.push(Wait { thread: id, api, object: String::new(), count: 1, ns, caller });
        }
        for e in &t.trace {
            let Some(n) = self.named(p, names, e[1] as u32) else { continue };
            self.profile.trace.push(TraceEvent {
                time_ns: self.scale.since_start(e[0]),
                thread: id,
                caller: n.caller,
                api: n.api,
                args: std::array::from_fn(|i| e[2 + i] as i64),
            });
        }
        let main = t.tid == p.pid || (t.start_routine == 0 && start_routine.is_empty() && t.name == *comm);
        let group = if main { "main".to_owned() } else { group(&t.name, &start_routine, comm) };
        self.profile.threads.push(Thread {
            process,
            tid: t.tid as i32,
            name: t.name.clone(),
            group,
            start_routine,
            start_ns: self.scale.since_start(t.start),
            wall_ns: self.scale.ns(wall as f64),
            busy_ns: self.scale.ns((wall - wait) as f64),
            wait_ns: self.scale.ns(wait as f64),
            calls,
            outermost_ns: self.scale.ns(outermost.0.min(wall) as f64),
            outermost_attributed_ns: self.scale.ns(outermost.1.min(attributed) as f64),
            attributed_ns: self.scale.ns(attributed as f64),
        });
    }

    fn object_label(&self, p: &extent::Process, names: &mut Names, symbol: &str, object: u64) -> String {
        match self.apis.get(symbol).map_or(WaitObject::Address, |a| a.object) {
            WaitObject::None => String::new(),
            WaitObject::Descriptor => format!("fd {}", object as i32),
            WaitObject::Address => address_label(p, names, object),
        }
    }
}

fn address_label(p: &extent::Process, names: &mut Names, address: u64) -> String {
    let symbol = p.object_at(address).and_then(|o| names.at(&p.objects[o], address));
    match symbol {
        Some(name) => format!("{address:#x} ({name})"),
        None => format!("{address:#x}"),
    }
}

/// Thread group: the name's stem if the thread was given a name of its own, else its start routine.
pub fn group(name: &str, start_routine: &str, comm: &str) -> String {
    let stem =
        name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | ' ' | '#' | ':' | '/' | '.'));
    if name != comm && !stem.is_empty() {
        stem.to_owned()
    } else if !start_routine.is_empty() {
        start_routine.to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_parts_go_by_their_functions_name() {
        for raw in ["f", "f.isra.0", "f.part.3", "f.constprop.0.isra.1", "f.lto_priv.0", "f.llvm.123"] {
            assert_eq!(transect_binary_info::without_suffix(raw), "f");
        }
        assert_eq!(transect_binary_info::without_suffix("main._omp_fn.0"), "main._omp_fn.0");
    }

    #[test]
    fn groups_follow_names_then_start_routines() {
        assert_eq!(group("worker-12", "run", "app"), "worker");
        assert_eq!(group("app", "consume(void*)", "app"), "consume(void*)");
        assert_eq!(group("7", "run", "app"), "run");
    }
}
