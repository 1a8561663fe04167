//! Rows of waits: the kind of each, and what it was for in words.

use std::cell::RefCell;
use std::collections::HashMap;

use transect_profile_model::{Party, SchedWait, StackId, TaskId, WaitKind};

use super::call_stack::StackNumber;
use super::cause::{CauseNumber, Causes};
use super::collected::since;
use super::kind::kind;
use super::naming::Naming;
use super::object::{Objects, RawObject};
use super::stack_names::{NamedStacks, StackHint};
use super::timeline::WaitSum;

/// Kinds and objects by numbers.
#[derive(Debug)]
pub struct WaitNames {
    /// Rows of stacks and what they tell, by stack number.
    stacks: Vec<Option<(StackId, StackHint)>>,
    /// By object number.
    texts: Vec<String>,
    causes: Causes,
    objects: Objects,
    kinds: RefCell<HashMap<(CauseNumber, StackHint), WaitKind>>,
    /// Waits whose cause or object had no room.
    pub refused: u64,
}

impl WaitNames {
    /// Names all objects.
    pub fn of(causes: Causes, objects: Objects, stacks: &NamedStacks, naming: &mut Naming<'_>) -> Self {
        let texts = objects.all().iter().map(|object| text(object, naming)).collect();
        let refused = objects.refused + causes.refused;
        Self { stacks: stacks.by_number().to_vec(), texts, causes, objects, kinds: RefCell::default(), refused }
    }

    /// The row of a wait or of a sum of waits; `None` if its thread is not known.
    pub fn wait(&self, sum: &WaitSum, tasks: &HashMap<u32, TaskId>, origin: u64) -> Option<SchedWait> {
        let wait = &sum.wait;
        let stack = self.stack(wait.stack);
        let cause = self.causes.get(wait.cause);
        let hint = stack.map(|(_, hint)| hint).unwrap_or_default();
        let kind = *self
            .kinds
            .borrow_mut()
            .entry((wait.cause, hint))
            .or_insert_with(|| kind(&cause.blocked(&self.objects, hint.user, hint.kernel)));
        let party = |task: u32, stack: StackNumber| {
            let task = *tasks.get(&task)?;
            Some(Party { task, stack: self.stack(stack).map(|(row, _)| row) })
        };
        Some(SchedWait {
            task: *tasks.get(&wait.task)?,
            kind,
            object: self.texts.get(cause.object as usize).cloned().unwrap_or_default(),
            stack: stack.map(|(row, _)| row),
            // Memory that looks like an owner is one only where there is a lock that has owners.
            holder: party(wait.holder, wait.holder_stack).filter(|_| has_holder(kind)),
            waker: party(wait.waker, wait.waker_stack),
            count: sum.count as i64,
            begin_ns: since(origin, wait.begin),
            end_ns: since(origin, wait.end),
            ns: sum.ns as i64,
            idle_ns: wait.idle_ns as i64,
            holder_gain_ns: wait.gain_ns as i64,
        })
    }

    fn stack(&self, number: StackNumber) -> Option<(StackId, StackHint)> {
        self.stacks.get(number as usize).copied().flatten()
    }
}

/// Kinds of waits for which a thread can be named that holds what is waited for: the joined thread, too.
fn has_holder(kind: WaitKind) -> bool {
    matches!(kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::Join | WaitKind::Futex)
}

fn text(object: &RawObject, naming: &mut Naming<'_>) -> String {
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
