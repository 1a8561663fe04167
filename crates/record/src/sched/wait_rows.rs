//! Rows of waits: the kind of each, and what it was for in words.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{OtherThread, SchedWait, StackId, TIME_LIMIT, TaskId, WaitKind};

use super::call_stack::{NO_STACK, StackNumber};
use super::cause::{CauseNumber, Causes};
use super::collected::since;
use super::kind::{UserWait, kind};
use super::naming::Naming;
use super::object::{NO_OBJECT, ObjectNumber, Objects, RawObject};
use super::stack_names::{NamedStacks, StackHint};
use super::timeline::WaitSum;

/// Kinds and objects by numbers.
#[derive(Debug)]
pub struct WaitNames {
    /// Rows of stacks and what they tell, by stack number.
    stacks: Vec<Option<(StackId, StackHint)>>,
    /// By object number.
    texts: Vec<Arc<str>>,
    no_text: Arc<str>,
    time_limit: Arc<str>,
    causes: Causes,
    objects: Objects,
    kinds: RefCell<HashMap<(CauseNumber, StackHint), WaitKind>>,
    /// What complete stacks showed of an object, by its number.
    remembered: HashMap<ObjectNumber, UserWait>,
    /// Waits whose cause or object had no room.
    pub refused: u64,
}

impl WaitNames {
    /// Names all objects.
    pub fn of(causes: Causes, objects: Objects, seen: &Seen, stacks: &NamedStacks, naming: &mut Naming) -> Self {
        let texts = objects.all().iter().map(|object| text(object, naming).into()).collect();
        let refused = objects.refused + causes.refused;
        let remembered = remembered(&causes, seen, stacks);
        let stacks = stacks.by_number().to_vec();
        Self {
            stacks,
            texts,
            no_text: "".into(),
            time_limit: TIME_LIMIT.into(),
            causes,
            objects,
            kinds: RefCell::default(),
            remembered,
            refused,
        }
    }

    /// What the user half of a stack tells, or else what others told that waited for the same.
    fn user_wait(&self, object: ObjectNumber, hint: &StackHint) -> Option<UserWait> {
        let others = || self.remembered.get(&object).copied();
        if hint.complete { hint.user.or_else(others) } else { others().or(hint.user) }
    }

    /// The row of a wait or of a sum of waits; `None` if its thread is not known.
    pub fn wait(&self, sum: &WaitSum, tasks: &HashMap<u32, TaskId>, origin: u64) -> Option<SchedWait> {
        let wait = &sum.wait;
        let stack = self.stack(wait.stack);
        let cause = self.causes.get(wait.cause);
        let hint = stack.map(|(_, hint)| hint).unwrap_or_default();
        let user = self.user_wait(cause.object, &hint);
        let kind = *self
            .kinds
            .borrow_mut()
            .entry((wait.cause, hint))
            .or_insert_with(|| kind(&cause.blocked(&self.objects, user, hint.kernel)));
        let party = |task: u32, stack: StackNumber| {
            let task = *tasks.get(&task)?;
            Some(OtherThread { task, stack: self.stack(stack).map(|(row, _)| row) })
        };
        let names_owner = cause.inherits_priority() || user.is_none_or(UserWait::names_owner);
        let holder = party(wait.holder, wait.holder_stack).filter(|_| names_owner && has_holder(kind));
        let waker = party(wait.waker, wait.waker_stack);
        // The owner is written after the lock's word, and another process' is not ours to read: but who gave a mutex
        // free has held it.
        let wakers = self.stack(wait.waker_stack).map(|(_, hint)| hint).unwrap_or_default();
        let joins = matches!(kind, WaitKind::Condition | WaitKind::Join) && wakers.ends_scope;
        let kind = if joins { WaitKind::Join } else { kind };
        let gain_ns = if holder.is_some() { wait.holder_gain_ns } else { wait.waker_gain_ns };
        let holder = holder.or(waker.filter(|_| joins || kind == WaitKind::Mutex && wakers.unlocks));
        Some(SchedWait {
            task: *tasks.get(&wait.task)?,
            kind,
            object: match cause.is_time_limit(kind) {
                true => Arc::clone(&self.time_limit),
                false => self.texts.get(cause.object as usize).unwrap_or(&self.no_text).clone(),
            },
            stack: stack.map(|(row, _)| row),
            holder,
            waker,
            count: sum.count as i64,
            begin_ns: since(origin, wait.begin),
            end_ns: since(origin, wait.end),
            ns: sum.ns as i64,
            idle_ns: wait.idle_ns as i64,
            holder_gain_ns: gain_ns as i64,
        })
    }

    fn stack(&self, number: StackNumber) -> Option<(StackId, StackHint)> {
        self.stacks.get(number as usize).copied().flatten()
    }
}

/// Which causes met which stacks, and how often: what tells the kind of those whose stack is cut off.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    counts: HashMap<(CauseNumber, StackNumber), u32>,
}

/// More pairs are not kept: some 3 MB.
const MAX_SEEN: usize = 60_000;

impl Seen {
    /// Counts a wait.
    pub fn add(&mut self, cause: CauseNumber, stack: StackNumber) {
        if stack != NO_STACK && (self.counts.len() < MAX_SEEN || self.counts.contains_key(&(cause, stack))) {
            *self.counts.entry((cause, stack)).or_default() += 1;
        }
    }
}

/// For each word in memory what most of the complete stacks told that waited for it.
fn remembered(causes: &Causes, seen: &Seen, stacks: &NamedStacks) -> HashMap<ObjectNumber, UserWait> {
    let mut votes: HashMap<(ObjectNumber, UserWait), u32> = HashMap::default();
    for (&(cause, stack), &count) in &seen.counts {
        let cause = causes.get(cause);
        let told = stacks.get(stack).filter(|(_, hint)| hint.complete).and_then(|(_, hint)| hint.user);
        if let Some(told) = told.filter(|_| cause.is_futex() && cause.object != NO_OBJECT) {
            *votes.entry((cause.object, told)).or_default() += count;
        }
    }
    let mut best: HashMap<ObjectNumber, (u32, UserWait)> = HashMap::default();
    for ((object, told), count) in votes {
        let first = best.entry(object).or_insert((count, told));
        if (count, told.kind()) > (first.0, first.1.kind()) {
            *first = (count, told);
        }
    }
    best.into_iter().map(|(object, (_, told))| (object, told)).collect()
}

/// Kinds of waits for which a thread can be named that holds what is waited for: the joined thread, too.
fn has_holder(kind: WaitKind) -> bool {
    matches!(kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::Join | WaitKind::Futex)
}

fn text(object: &RawObject, naming: &mut Naming) -> String {
    match object {
        RawObject::None => String::new(),
        RawObject::Named(name) => name.to_string(),
        RawObject::Word { address, place, .. } => {
            match place.and_then(|(file, offset)| naming.variable(file, offset)) {
                Some(name) => format!("{address:#x} ({name})"),
                None => format!("{address:#x}"),
            }
        }
    }
}
