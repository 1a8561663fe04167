//! Stacks with names: frames root first, and what they tell about a wait.

use std::collections::HashMap;

use transect_bpf_collect::record::stack_flags;
use transect_profile_model::{CallStack, CodeAddress, FrameId, LocatedStack, StackId};
use transect_symbolize::{is_beginning, makes_threads};

use super::broken_off::BrokenOff;
use super::call_stack::{RawStacks, StackNumber};
use super::entered_calls::EnteredCalls;
use super::kernel_symbols::{UNNAMED, is_below_the_wait, is_entry_code, is_interrupt, shown};
use super::kind::{KernelWait, UserWait, ends_scope, is_unlocking};
use super::naming::{LeftFrame, Naming};
use super::place::{PlaceId, Places};
use super::spin::is_polling;
use super::spin::runtime::{is_called_while_waiting, is_runtime};
use super::stack_instructions::{FrameAddresses, MetStacks, StackInstructions};

/// What a stack tells about a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StackHint {
    /// By its user half.
    pub user: Option<UserWait>,
    /// By its kernel half.
    pub kernel: Option<KernelWait>,
    /// It gives a lock free.
    pub unlocks: bool,
    /// It ends a scope of threads that another one waits for.
    pub ends_scope: bool,
    /// Nothing is missing of its user half: what it does not tell is not so.
    pub complete: bool,
}

/// Stacks by their names; those that differ in addresses only are one, but for addresses whose function or line is not known.
#[derive(Debug, Default)]
pub struct NamedStacks {
    /// Rows of the table.
    pub rows: Vec<CallStack>,
    /// Instructions at which their frames were met.
    pub instructions: StackInstructions,
    /// Where they were without a name or line.
    pub addresses: Vec<CodeAddress>,
    /// Whether the leaf is in a loop that waits.
    spin: Vec<bool>,
    /// Whether the leaf is in the agent, or in the kernel on its behalf.
    in_agent: Vec<bool>,
    /// Whether the leaf is where the agent counts calls.
    counts: Vec<bool>,
    /// By stack number.
    by_number: Vec<Option<(StackId, StackHint)>>,
    /// Stacks that records name and that never came.
    pub missing: u64,
    /// Stacks whose unwinding stopped early, by flag.
    stopped: HashMap<u32, u64>,
}

/// The bit of a frame; stacks have no more frames than that, but for inlined ones.
fn bit(frame: usize) -> u128 {
    u32::try_from(frame).ok().and_then(|frame| 1_u128.checked_shl(frame)).unwrap_or(0)
}

/// Where the agent counts calls.
const COUNTING_STUBS: &str = "transect_stubs";

impl NamedStacks {
    /// Names all stacks that came; `met`: how often each was.
    pub fn of(stacks: &RawStacks, places: &Places, naming: &mut Naming, met: &MetStacks) -> Self {
        let mut named = Self { by_number: vec![None; stacks.len()], ..Self::default() };
        let mut known: HashMap<(LocatedStack, bool, bool), StackId> = HashMap::new();
        let mut user: HashMap<PlaceId, Vec<FrameId>> = HashMap::new();
        let mut addresses: HashMap<PlaceId, Option<u64>> = HashMap::new();
        let mut jumped: HashMap<(PlaceId, PlaceId), Option<LeftFrame>> = HashMap::new();
        let mut served: HashMap<PlaceId, Option<FrameId>> = HashMap::new();
        let mut in_table: HashMap<PlaceId, bool> = HashMap::new();
        let mut by_linkage: HashMap<PlaceId, bool> = HashMap::new();
        let mut by_jump: HashMap<(PlaceId, PlaceId), bool> = HashMap::new();
        let mut kernel: HashMap<PlaceId, String> = HashMap::new();
        let mut in_runtime: HashMap<PlaceId, RuntimeCode> = HashMap::new();
        let mut hints: HashMap<Vec<FrameId>, Option<UserWait>> = HashMap::new();
        let entered = EnteredCalls::of(stacks, places, naming);
        let broken_off = BrokenOff::of(stacks);
        for number in 1..stacks.len() as StackNumber {
            let Some(stack) = stacks.get(number) else {
                named.missing += 1;
                continue;
            };
            let rest = broken_off.rest(number);
            let complete = stack.flags & stack_flags::COMPLETE != 0 || rest.is_some();
            let mut frames = Vec::new();
            let mut at_addresses = FrameAddresses::default();
            let (mut caller, mut linked) = (None, 0);
            // Where the agent's frames begin, if nothing else runs inside of them.
            let mut agent = None;
            for place in stack.user.iter().chain(rest.unwrap_or_default()).rev() {
                let to = places.all()[*place as usize];
                // The agent stands between caller and callee where it times the call.
                if naming.is_agent(to) {
                    agent.get_or_insert(frames.len());
                    frames.extend_from_slice(user.entry(*place).or_insert_with(|| naming.user_frames(to)));
                    continue;
                }
                agent = None;
                if !frames.is_empty() && *in_table.entry(*place).or_insert_with(|| naming.is_linkage_table(to)) {
                    continue;
                }
                if let Some(caller) = caller.replace(*place) {
                    let from = places.all()[caller as usize];
                    if from.file() != to.file()
                        && (*by_linkage.entry(caller).or_insert_with(|| naming.calls_by_linkage(from))
                            || *by_jump.entry((caller, *place)).or_insert_with(|| naming.left_by_table(from, to)))
                    {
                        linked |= bit(frames.len());
                    }
                    let between = *jumped.entry((caller, *place)).or_insert_with(|| naming.tail_called(from, to));
                    if let Some((left, address)) = between {
                        at_addresses.push_unnamed(frames.len(), address);
                        frames.push(left);
                        // What left by a jump into another file has done so by its own table.
                        linked |= bit(frames.len());
                    }
                }
                let address = *addresses.entry(*place).or_insert_with(|| naming.address(to));
                at_addresses.push(frames.len(), address);
                let found = user.entry(*place).or_insert_with(|| naming.user_frames(to));
                at_addresses.push_unnamed(frames.len(), naming.incomplete(to));
                frames.extend_from_slice(found);
            }
            // What the agent does there is for the call that it counts and times.
            if let (Some(at), Some(caller)) = (agent, caller) {
                let from = places.all()[caller as usize];
                let callee = *served.entry(caller).or_insert_with(|| naming.called_by_linkage(from));
                linked |= callee.map_or(0, |_| bit(at));
                if callee.is_some() {
                    at_addresses.insert(at);
                }
                frames.splice(at..at, callee);
            }
            let polls = is_polling(frames.iter().rev().map(|&frame| naming.frames[frame as usize].function.as_str()));
            let mut functions: Vec<String> = Vec::with_capacity(stack.kernel.len());
            for place in stack.kernel {
                let name =
                    kernel.entry(*place).or_insert_with(|| naming.kernel_function(places.all()[*place as usize]));
                functions.push(name.clone());
            }
            // Threads begin in one function or, where unwinding knows more, in that which made them.
            if frames.len() > 1 && makes_threads(&naming.frames[frames[0] as usize].function) {
                frames.remove(0);
                at_addresses.remove_root();
                linked >>= 1;
            }
            let leaf_first = || frames.iter().rev().map(|&id| naming.frames[id as usize].function.as_str());
            let hint = StackHint {
                user: match hints.get(&frames) {
                    Some(known) => *known,
                    None => *hints.entry(frames.clone()).or_insert_with(|| user_hint(&frames, naming)),
                },
                kernel: KernelWait::of(functions.iter().map(|function| shown(function))),
                unlocks: is_unlocking(leaf_first()),
                ends_scope: ends_scope(leaf_first()),
                complete,
            };
            let counts = agent.is_some() && stack.kernel.is_empty() && leaf_first().next() == Some(COUNTING_STUBS);
            let own = functions.iter().rposition(|function| is_below_the_wait(function)).map_or(0, |last| last + 1);
            let mut wanted: Vec<&String> =
                functions[own..].iter().filter(|function| !is_entry_code(function)).collect();
            if own == 0 && wanted.is_empty() && !functions.is_empty() {
                wanted.extend(entered.get(&stack));
            }
            // One frame stands for a kernel without names.
            wanted.dedup_by(|one, other| one == other && *one == UNNAMED);
            // What the kernel does for the agent is no call of the program's.
            if agent.is_none() {
                frames.extend(wanted.into_iter().rev().map(|function| naming.kernel_frame(function)));
            }
            let at_root = frames.first().is_some_and(|&root| is_beginning(&naming.frames[root as usize].function));
            // What an interrupt broke off goes on afterwards.
            let interrupted = || functions.last().is_some_and(|function| is_interrupt(function));
            let leaf = stack.user.first().filter(|_| stack.kernel.is_empty() || interrupted());
            let spin = polls
                || leaf.is_some_and(|place| naming.is_spin(places.all()[*place as usize]))
                || waits_in_runtime(stack.user, |place| {
                    // On the way from one function to another it is in neither.
                    let Some(frames) = user.get(&place) else { return RuntimeCode::Runtime };
                    *in_runtime.entry(place).or_insert_with(|| RuntimeCode::of(frames, place, places, naming))
                });
            let row = CallStack { frames, complete: complete || at_root, linked };
            for flag in [stack_flags::TRUNCATED, stack_flags::UNKNOWN_CODE, stack_flags::UNREADABLE] {
                if stack.flags & flag != 0 && !row.complete {
                    *named.stopped.entry(flag).or_default() += 1;
                }
            }
            let located = LocatedStack { stack: row, addresses: at_addresses.take_unnamed() };
            let id = *known.entry((located, spin, agent.is_some())).or_insert_with_key(|(located, spin, in_agent)| {
                let stack = named.rows.len() as StackId;
                let kept = located.addresses.iter();
                named.addresses.extend(kept.map(|&(depth, address)| CodeAddress { stack, depth, address }));
                named.rows.push(located.stack.clone());
                named.spin.push(*spin);
                named.in_agent.push(*in_agent);
                named.counts.push(counts);
                named.rows.len() as StackId - 1
            });
            named.instructions.add(id, &at_addresses, met.get(number));
            named.by_number[number as usize] = Some((id, hint));
        }
        named
    }

    /// Row of a stack, if it came.
    pub fn row(&self, number: StackNumber) -> Option<StackId> {
        self.get(number).map(|(id, _)| id)
    }

    /// Row of a stack and what it tells, if it came.
    pub fn get(&self, number: StackNumber) -> Option<(StackId, StackHint)> {
        self.by_number.get(number as usize).copied().flatten()
    }

    /// All by number.
    pub fn by_number(&self) -> &[Option<(StackId, StackHint)>] {
        &self.by_number
    }

    /// Whether the leaf of the stack in this row is in a loop that waits.
    pub fn spins(&self, row: StackId) -> bool {
        self.spin.get(row as usize).copied().unwrap_or(false)
    }

    /// Whether the leaf of the stack in this row is the agent's.
    pub fn is_agents(&self, row: StackId) -> bool {
        self.in_agent.get(row as usize).copied().unwrap_or(false)
    }

    /// Whether the leaf of the stack in this row is where the agent counts calls.
    pub fn is_counting(&self, row: StackId) -> bool {
        self.counts.get(row as usize).copied().unwrap_or(false)
    }

    /// Stacks whose unwinding stopped for the reason of a flag.
    pub fn stopped(&self, flag: u32) -> u64 {
        self.stopped.get(&flag).copied().unwrap_or(0)
    }
}

/// What a place in a program is to a runtime that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuntimeCode {
    /// It waits there.
    Waits,
    /// It is the runtime's, or what the runtime's waiting loops call.
    Runtime,
    /// Code of the program, or of another library.
    Other,
}

impl RuntimeCode {
    fn of(frames: &[FrameId], place: PlaceId, places: &Places, naming: &mut Naming) -> Self {
        // The function itself comes before what is inlined into it.
        let names = frames.first().map(|&frame| naming.file_and_function(frame));
        match names {
            Some((file, function)) if is_runtime(file, function) => {
                let waits = naming.is_runtime_loop(places.all()[place as usize]);
                if waits { Self::Waits } else { Self::Runtime }
            }
            Some((_, function)) if is_called_while_waiting(function) => Self::Runtime,
            _ => Self::Other,
        }
    }
}

/// True if nothing but a runtime's code runs inside of a loop of it that waits. Places leaf first.
fn waits_in_runtime(user: &[PlaceId], code: impl FnMut(PlaceId) -> RuntimeCode) -> bool {
    user.iter().copied().map(code).find(|code| *code != RuntimeCode::Runtime) == Some(RuntimeCode::Waits)
}

/// From the frames of a program, root first.
fn user_hint(frames: &[FrameId], naming: &Naming) -> Option<UserWait> {
    UserWait::of(frames.iter().rev().map(|&frame| {
        let (file, function) = naming.file_and_function(frame);
        (function, file)
    }))
}
