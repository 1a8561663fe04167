//! Tables of the profile, from what a walk knows.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::text;
use transect_call_walk::{Search, Share, Tally, Unit};
use transect_profile_model::{
    Process, ProcessId, Profile, RECORDING_OVERHEAD, WAITING_FOR_CPU, WaitKind, WalkChain, WalkEnd, WalkFrame,
    WalkGroup, WalkNode, WalkSession, WalkSystemCall, WalkTables,
};

use super::frames::{CodeLine, system_call_name};
use super::joined_tree::JoinedTree;
use super::loss::{self, NotSearched};
use super::settings::WalkSettings;
use super::state::WalkState;
use super::steps::Decided;
use super::timers::TimingFacts;
use super::waits::{self, WaitWords};
use crate::clock::Clock;
use crate::sched::empty_profile;

/// A search and what it did.
pub(super) struct Searched {
    pub search: Search,
    pub steps: Vec<Decided>,
    pub found_after_ns: Option<i64>,
    /// When the program began, or was attached to.
    pub begun_ns: i64,
    pub timing: TimingFacts,
    /// What was not kept, or not timed.
    pub not_searched: NotSearched,
    /// The chain of the step before, as the nodes that it leads to.
    before: Vec<u32>,
}

impl Searched {
    /// Has found nothing yet.
    pub fn new(search: Search) -> Self {
        let timing = TimingFacts::default();
        Self {
            search,
            steps: Vec::new(),
            found_after_ns: None,
            begun_ns: 0,
            timing,
            not_searched: NotSearched::default(),
            before: Vec::new(),
        }
    }

    /// Whether there is a chain, as it was in the step before or certain.
    pub fn has_chain(&mut self, state: &WalkState) -> bool {
        let trees = state.trees.iter().enumerate();
        let Some((number, tree)) = trees.max_by(|one, other| one.1.tree.total.total_cmp(&other.1.tree.total)) else {
            return false;
        };
        let chains = self.search.chains(number, &tree.tree);
        let now: Vec<u32> =
            chains.first().into_iter().flat_map(|chain| &chain.frames).map(|frame| frame.node).collect();
        let found = !now.is_empty() && (self.before == now || self.search.is_complete());
        self.before = now;
        found
    }
}

/// The profile of a walk.
pub(super) fn profile(
    settings: &WalkSettings,
    clock: &Clock,
    wall_ns: i64,
    status: Option<i32>,
    command: Vec<String>,
    state: &mut WalkState,
    searched: &Searched,
) -> Profile {
    let mut profile = empty_profile(clock, command, wall_ns, status);
    let (processes, rows) = processes(state, clock.started_monotonic_ns(), wall_ns);
    profile.processes = processes;
    let words = waits::words(state);
    profile.walk = tables(settings, state, searched, &rows, &words);
    profile.loss = loss::losses(state, &searched.not_searched);
    profile.components = state.frames.naming().components.clone();
    profile.meta.collectors.push("walk".to_owned());
    profile.meta.walk = Some(WalkSession {
        metric: settings.metric,
        threshold: settings.threshold,
        window_ns: settings.window.as_nanos() as i64,
        max_probes: settings.max_probes.into(),
        kernel_timing: searched.timing.kernel,
        user_timing: searched.timing.user,
        critical: settings.critical,
        sample_hz: settings.first_hz().into(),
        found_after_ns: searched.found_after_ns,
        start_ns: searched.begun_ns,
        end_ns: wall_ns,
        system_calls_until_ns: state.calls.until.map(|until| until.saturating_sub(clock.started_monotonic_ns()) as i64),
        probes_live: searched.timing.probes_live as i64,
        probes_inserted: searched.timing.probes_inserted as i64,
        longest_stop_ns: searched.timing.longest_stop_ns as i64,
    });
    profile
}

/// Rows of processes, and each one's row by its number.
fn processes(state: &WalkState, origin: u64, wall_ns: i64) -> (Vec<Process>, HashMap<i32, ProcessId>) {
    let mut rows: Vec<Process> = Vec::new();
    let mut numbers = HashMap::default();
    for task in state.threads.all().values() {
        let record = &task.record;
        let start_ns = task.begin.saturating_sub(origin) as i64;
        let end_ns = if task.end != 0 { task.end.saturating_sub(origin) as i64 } else { wall_ns };
        let row = *numbers.entry(record.tgid).or_insert_with(|| {
            rows.push(Process {
                pid: if record.ns_tgid != 0 { record.ns_tgid } else { record.tgid },
                parent_pid: record.parent_tgid,
                executable: state.executable(record.tgid).map_or_else(|| text(&record.comm), str::to_owned),
                start_ns,
                wall_ns: end_ns - start_ns,
            });
            (rows.len() - 1) as ProcessId
        });
        let process = &mut rows[row as usize];
        let end_ns = end_ns.max(process.start_ns + process.wall_ns);
        process.start_ns = process.start_ns.min(start_ns);
        process.wall_ns = end_ns - process.start_ns;
    }
    (rows, numbers)
}

fn tables(
    settings: &WalkSettings,
    state: &WalkState,
    searched: &Searched,
    processes: &HashMap<i32, ProcessId>,
    words: &[WaitWords],
) -> WalkTables {
    let search = &searched.search;
    let mut tables = WalkTables::default();
    // Group and first node of each tree.
    let mut begins: Vec<Option<(u32, u32)>> = Vec::new();
    let facts = state.threads.groups();
    let mut whole: HashMap<i32, f64> = HashMap::default();
    for tree in &state.trees {
        *whole.entry(tree.key.tgid).or_default() += tree.tree.total;
    }
    for (number, tree) in state.trees.iter().enumerate() {
        let Some(&process) = processes.get(&tree.key.tgid) else {
            begins.push(None);
            continue;
        };
        let facts = facts.get(&tree.key).cloned().unwrap_or_default();
        let group = tables.groups.len() as u32;
        tables.groups.push(WalkGroup {
            process,
            thread_group: tree.key.name.clone(),
            threads: facts.threads as i64,
            total: tree.tree.total as i64,
            on_ns: facts.time.on_ns as i64,
            runnable_ns: facts.time.runnable_ns as i64,
            blocked_ns: facts.time.blocked_ns as i64,
        });
        let first = tables.nodes.len() as u32;
        begins.push(Some((group, first)));
        add_nodes(&mut tables.nodes, group, tree, search.shares(number), state);
        let words = &words[number];
        let of_process = whole.get(&tree.key.tgid).copied().unwrap_or(0.0);
        let chains = search.chains(number, &tree.tree);
        // Threads before they have taken their name are no group to speak of.
        let small = tree.tree.total <= of_process * SMALL_GROUP;
        let chains = chains.into_iter().filter(|chain| !small || !chain.frames.is_empty());
        let heaviest = |tally: &Tally, node| tally.heaviest(&tree.tree, node).map_or("", |(word, _)| word).to_owned();
        let begun = tables.chains.len();
        tables.chains.extend(chains.map(|chain| {
            let last = chain.frames.last().map(|frame| frame.node).filter(|_| chain.ends == WalkEnd::Waiting);
            WalkChain {
                group,
                share: chain.share,
                ends: chain.ends,
                waiting_for: last.map(|node| heaviest(&words.waiting_for, node)).unwrap_or_default(),
                woken_by: last.map(|node| heaviest(&words.woken_by, node)).unwrap_or_default(),
                frames: chain
                    .frames
                    .iter()
                    .map(|frame| WalkFrame {
                        node: frame.node + first,
                        share: frame.share.share,
                        share_low: frame.share.low,
                        share_high: frame.share.high,
                        method: frame.share.method,
                        disputed: frame.share.disputed,
                        woken_by: heaviest(&words.woken_by, frame.node),
                    })
                    .collect(),
            }
        }));
        if tree.tree.unit == Unit::Wall {
            part_from_cpu_waits(&mut tables, group, begun, settings.threshold);
        }
    }
    let rows = searched.steps.iter().filter_map(|decided| {
        let (group, first) = (*begins.get(decided.step.group)?)?;
        Some(decided.row(group, first))
    });
    tables.steps = rows.collect();
    tables.system_calls = system_calls(state, &begins);
    tables.chains.sort_by(|one, other| other.share.total_cmp(&one.share));
    tables
}

fn system_calls(state: &WalkState, begins: &[Option<(u32, u32)>]) -> Vec<WalkSystemCall> {
    let mut rows: BTreeMap<(u32, u32), WalkSystemCall> = BTreeMap::new();
    for total in state.calls.totals.calls.iter().filter(|total| !total.call.compat) {
        let Some((group, _)) = state.group_of(total.task).and_then(|tree| *begins.get(tree)?) else { continue };
        let row = rows.entry((group, total.call.number)).or_insert_with(|| WalkSystemCall {
            group,
            name: system_call_name(total.call.number),
            calls: 0,
            on_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
        });
        row.calls += total.count as i64;
        row.on_ns += total.time.running_ns as i64;
        row.runnable_ns += total.time.runnable_ns as i64;
        row.blocked_ns += total.time.blocked_ns as i64;
    }
    rows.into_values().collect()
}

fn add_nodes(nodes: &mut Vec<WalkNode>, group: u32, tree: &JoinedTree, shares: &[Share], state: &WalkState) {
    let first = nodes.len() as u32;
    for (id, node) in (0..).zip(&tree.tree.nodes) {
        let named = state.frames.by_function(node.function);
        let (function, space) = state.frames.shown(node.function);
        let CodeLine { file, line, address } = state.frames.line(tree.line(id, &state.frames)).clone();
        let share = shares.get(id as usize);
        let time = share.map_or(node.inclusive, |share| share.inclusive);
        nodes.push(WalkNode {
            group,
            parent: node.parent.map(|parent| parent + first),
            function,
            component: named.and_then(|named| named.component),
            space,
            inlined: node.inlined,
            file,
            line,
            address,
            total: share.map_or(node.total, |share| share.total) as i64,
            on_ns: time.on_ns as i64,
            runnable_ns: time.runnable_ns as i64,
            blocked_ns: time.blocked_ns as i64,
            samples: node.samples as i64,
        });
    }
}

/// What a thread waited for a CPU where the recording was at work is not the recording's: others had the CPUs. It becomes a node,
/// and a chain, of its own. `begun`: the group's first chain.
fn part_from_cpu_waits(tables: &mut WalkTables, group: u32, begun: usize, threshold: f64) {
    let is_ours = |node: &WalkNode| node.group == group && node.parent.is_none() && node.function == RECORDING_OVERHEAD;
    let Some(ours) = tables.nodes.iter().position(is_ours).filter(|&row| tables.nodes[row].runnable_ns > 0) else {
        return;
    };
    let whole = tables.groups[group as usize].total.max(1) as f64;
    let node = &mut tables.nodes[ours];
    let before = node.total.max(1) as f64;
    let waited = std::mem::take(&mut node.runnable_ns).min(node.total);
    node.total -= waited;
    let (own, waited_share) = (node.total as f64 / before, waited as f64 / whole);
    let waiting = WalkNode {
        function: WAITING_FOR_CPU.to_owned(),
        total: waited,
        on_ns: 0,
        runnable_ns: waited,
        blocked_ns: 0,
        ..node.clone()
    };
    let row = tables.nodes.len() as u32;
    tables.nodes.push(waiting);
    let mut chains = tables.chains.split_off(begun);
    let mut frame = None;
    for chain in &mut chains {
        for ours in chain.frames.iter_mut().filter(|frame| frame.node as usize == ours) {
            let scaled = |share: f64| share * waited as f64 / before;
            frame = Some(WalkFrame {
                node: row,
                share: waited_share,
                share_low: scaled(ours.share_low),
                share_high: scaled(ours.share_high),
                woken_by: String::new(),
                ..ours.clone()
            });
            (ours.share, ours.share_low, ours.share_high) =
                (ours.share * own, ours.share_low * own, ours.share_high * own);
            chain.share = ours.share;
        }
    }
    let last = |chain: &WalkChain| chain.frames.last().map(|frame| frame.node as usize);
    chains.retain(|chain| last(chain) != Some(ours) || chain.share >= threshold);
    let chain = |ends, share, frames| WalkChain {
        group,
        share,
        ends,
        waiting_for: if ends == WalkEnd::Waiting { WaitKind::RunQueue.as_str().to_owned() } else { String::new() },
        woken_by: String::new(),
        frames,
    };
    if let Some(frame) = frame.filter(|_| waited_share >= threshold) {
        chains.push(chain(WalkEnd::Waiting, waited_share, vec![frame]));
    }
    if chains.is_empty() {
        chains.push(chain(WalkEnd::NothingAboveThreshold, 0.0, Vec::new()));
    }
    tables.chains.append(&mut chains);
}

/// Of its process' time: a group with less has no chain if nothing is found.
const SMALL_GROUP: f64 = 0.01;

#[cfg(test)]
mod tests {
    use transect_profile_model::{ShareMethod, Space};

    use super::*;

    fn started(on_ns: i64, runnable_ns: i64) -> WalkTables {
        let group = WalkGroup {
            process: 0,
            thread_group: "main".to_owned(),
            threads: 1,
            total: 100,
            on_ns,
            runnable_ns,
            blocked_ns: 0,
        };
        let node = WalkNode {
            group: 0,
            parent: None,
            function: RECORDING_OVERHEAD.to_owned(),
            component: None,
            space: Space::User,
            inlined: false,
            file: String::new(),
            line: 0,
            address: None,
            total: on_ns + runnable_ns,
            on_ns,
            runnable_ns,
            blocked_ns: 0,
            samples: 5,
        };
        let share = node.total as f64 / 100.0;
        let frame = WalkFrame {
            node: 0,
            share,
            share_low: share,
            share_high: share,
            method: ShareMethod::Sampled,
            disputed: None,
            woken_by: String::new(),
        };
        let chain = WalkChain {
            group: 0,
            share,
            ends: WalkEnd::Function,
            waiting_for: String::new(),
            woken_by: String::new(),
            frames: vec![frame],
        };
        WalkTables { groups: vec![group], nodes: vec![node], chains: vec![chain], ..WalkTables::default() }
    }

    /// What is said of a start that had the CPU for `on` of 100 ns and waited for it for `runnable`.
    fn said(on: i64, runnable: i64) -> Vec<(String, WalkEnd, i64)> {
        let mut tables = started(on, runnable);
        part_from_cpu_waits(&mut tables, 0, 0, 0.25);
        assert_eq!(tables.nodes.iter().map(|node| node.total).sum::<i64>(), on + runnable);
        let of = |chain: &WalkChain| {
            let last = chain.frames.last().map(|frame| tables.nodes[frame.node as usize].function.clone());
            (last.unwrap_or_default(), chain.ends, (chain.share * 100.0).round() as i64)
        };
        tables.chains.iter().map(of).collect()
    }

    #[test]
    fn a_wait_for_a_cpu_is_not_the_recordings() {
        let (ours, waited) = (RECORDING_OVERHEAD.to_owned(), WAITING_FOR_CPU.to_owned());
        assert_eq!(said(9, 40), [(waited.clone(), WalkEnd::Waiting, 40)]);
        assert_eq!(said(30, 30), [(ours.clone(), WalkEnd::Function, 30), (waited, WalkEnd::Waiting, 30)]);
        assert_eq!(said(49, 0), [(ours, WalkEnd::Function, 49)]);
        assert_eq!(said(20, 20), [(String::new(), WalkEnd::NothingAboveThreshold, 0)]);
    }
}
