//! What is waited for in a chain, and who ends the waiting.

use rustc_hash::FxHashMap;
use transect_bpf_collect::record::{text, waker_context};
use transect_call_walk::Tally;

use super::evidence::{WaitKey, WaitsSeen, is_walk};
use super::frames::Frames;
use super::state::WalkState;
use crate::sched::call_stack::StackNumber;
use crate::sched::kind::{KernelWait, UserWait, kind};
use crate::sched::object::RawObject;

/// What waits in one tree were for, and who ended them, by node.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitWords {
    /// Kind and object.
    pub waiting_for: Tally,
    /// Thread and function.
    pub woken_by: Tally,
}

/// For each tree.
pub(super) fn words(state: &mut WalkState) -> Vec<WaitWords> {
    let mut words = vec![WaitWords::default(); state.trees.len()];
    let waits = std::mem::take(&mut state.waits);
    state.waits_refused = waits.refused;
    state.objects_refused = waits.objects.refused + waits.causes.refused;
    let mut keys: Vec<(&WaitKey, &f64)> = waits.times.iter().collect();
    // Of equal ones always the same comes first.
    keys.sort_by_key(|(key, _)| (key.at.task, key.at.stack, key.cause, key.waker, key.waker_stack, key.comm));
    // Many threads and wakers meet in one stack.
    let mut means = FxHashMap::default();
    for (key, ns) in keys {
        let Some(group) = state.group_of(key.at.task) else { continue };
        let Some(node) = state.trees[group].leaf(key.at.stack, key.at.call) else { continue };
        let waiting_for = waiting_for(key, &waits, &mut state.frames, &mut means);
        let woken_by = woken_by(key, state);
        words[group].waiting_for.add(node, &waiting_for, *ns);
        words[group].woken_by.add(node, &woken_by, *ns);
    }
    words
}

/// What the halves of a stack say of its waits.
type Means = FxHashMap<StackNumber, (Option<UserWait>, Option<KernelWait>)>;

fn waiting_for(key: &WaitKey, waits: &WaitsSeen, frames: &mut Frames, means: &mut Means) -> String {
    let cause = waits.causes.get(key.cause);
    let (user, kernel) = *means.entry(key.at.stack).or_insert_with(|| {
        let (user, kernel) = frames.names(key.at.stack);
        (UserWait::of(user.into_iter()), KernelWait::of(kernel.into_iter()))
    });
    let kind = kind(&cause.blocked(&waits.objects, user, kernel)).as_str();
    let object = match waits.objects.get(cause.object) {
        RawObject::None => return kind.to_owned(),
        RawObject::Named(name) => name.to_string(),
        RawObject::Word { address, place, .. } => {
            let variable = place.and_then(|(file, offset)| frames.naming().variable(file, offset));
            variable.unwrap_or_else(|| format!("{address:#x}"))
        }
    };
    if object.is_empty() { kind.to_owned() } else { format!("{kind}: {object}") }
}

fn woken_by(key: &WaitKey, state: &WalkState) -> String {
    match key.context {
        waker_context::INTERRUPT => "interrupt".to_owned(),
        waker_context::OTHER_TASK => {
            let name: Vec<u8> = key.comm.iter().copied().take_while(|byte| *byte != 0).collect();
            let name = String::from_utf8_lossy(&name).into_owned();
            // Who lets the program go on after a stop is the walk itself, and no answer.
            if is_walk(&name) { String::new() } else { name }
        }
        waker_context::TASK => {
            let Some(task) = state.threads.all().get(&key.waker) else { return String::new() };
            let name = text(&task.record.comm);
            let (user, _) = state.frames.names(key.waker_stack);
            user.first().map_or_else(|| name.clone(), |(function, _)| format!("{name} in {function}"))
        }
        _ => String::new(),
    }
}
