//! Keys of a cut's dimensions as numbers, for each stretch of a thread's life.

use rustc_hash::FxHashMap;
use transect_profile_model::{OtherThread, Profile, StackId, TaskId};

use super::dimension::CutDimension;
use super::stack_keys::{StackKeys, StackReader};
use super::stretch::{State, Stretch};
use crate::Names;
use crate::feature::{ActiveSets, names as feature_names};
use crate::names::file_name;

/// Number of a text in [`Interner`].
pub(super) type KeyId = u32;
/// A row has no key in a dimension: the remainder.
pub(super) const NO_KEY: KeyId = 0;

/// Texts, each once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: Vec<String>,
    ids: FxHashMap<String, KeyId>,
}

impl Interner {
    /// Number of a text; an empty one is no key.
    pub fn id(&mut self, text: &str) -> KeyId {
        if text.is_empty() {
            return NO_KEY;
        }
        if let Some(&known) = self.ids.get(text) {
            return known;
        }
        self.texts.push(text.to_owned());
        let id = self.texts.len() as KeyId;
        self.ids.insert(text.to_owned(), id);
        id
    }

    /// The text of a number; `None` for no key.
    pub fn text(&self, id: KeyId) -> Option<&str> {
        self.texts.get((id as usize).checked_sub(1)?).map(String::as_str)
    }

    /// All texts in the order of their numbers, which begin with one.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// Keys of everything in a profile.
pub(super) struct Keys<'a> {
    profile: &'a Profile,
    pub interner: Interner,
    stacks: Vec<StackKeys>,
    tasks: Vec<ThreadKeys>,
    objects: Vec<KeyId>,
    kinds: Vec<KeyId>,
    states: [KeyId; 3],
    run_queue: KeyId,
    spin: KeyId,
    /// Names of each set of active features, together and each alone.
    features: Vec<(KeyId, Vec<KeyId>)>,
    host: KeyId,
    run: KeyId,
}

/// Keys of one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThreadKeys {
    pub process: KeyId,
    pub thread: KeyId,
    pub group: KeyId,
}

impl ThreadKeys {
    pub fn new(keys: &mut Interner, profile: &Profile, process: u32, tid: i32, name: &str, group: &str) -> Self {
        let process = profile.processes.get(process as usize);
        let process = process.map_or_else(String::new, |one| format!("{} ({})", file_name(&one.executable), one.pid));
        Self { process: keys.id(&process), thread: keys.id(&format!("{name} ({tid})")), group: keys.id(group) }
    }
}

impl<'a> Keys<'a> {
    /// `whole_stacks`: the cut is by them.
    pub fn new(profile: &'a Profile, names: &'a Names, active: &ActiveSets, whole_stacks: bool) -> Self {
        let mut interner = Interner::default();
        let reader = StackReader::new(profile, names);
        let stacks =
            (0..profile.sched.stacks.len()).map(|stack| reader.read(stack, whole_stacks, &mut interner)).collect();
        let task = |task: &transect_profile_model::Task| {
            ThreadKeys::new(&mut interner, profile, task.process, task.tid, &task.name, &task.group)
        };
        let tasks = profile.sched.tasks.iter().map(task).collect();
        let objects = profile.sched.waits.iter().map(|wait| interner.id(&wait.object)).collect();
        let kinds = profile.sched.waits.iter().map(|wait| interner.id(wait.kind.as_str())).collect();
        let states = State::ALL.map(|state| interner.id(state.as_str()));
        let features = active.sets.iter().map(|set| feature_keys(&mut interner, profile, set)).collect();
        let (run_queue, spin) = (interner.id("run-queue"), interner.id("spin"));
        let (host, run) = (interner.id(&profile.meta.machine.hostname), interner.id(&run_of(profile)));
        Self { profile, interner, stacks, tasks, objects, kinds, states, run_queue, spin, features, host, run }
    }

    /// The key of a stretch; of time, the number of its step plus one is made elsewhere.
    pub fn of(&self, dimension: CutDimension, stretch: &Stretch) -> KeyId {
        let stack = || stretch.stack.and_then(|stack| self.stacks.get(stack as usize));
        let from_stack = |of: fn(&StackKeys) -> KeyId| stack().map_or(NO_KEY, of);
        let thread = || self.tasks.get(stretch.task as usize).copied().unwrap_or_default();
        let wait = || stretch.wait.map(|row| row as usize);
        match dimension {
            CutDimension::Service | CutDimension::Version | CutDimension::Time(_) => NO_KEY,
            CutDimension::Host => self.host,
            CutDimension::Run => self.run,
            CutDimension::Process => thread().process,
            CutDimension::Thread => thread().thread,
            CutDimension::ThreadGroup => thread().group,
            CutDimension::Feature => self.feature(stretch.features).0,
            CutDimension::Component => from_stack(|stack| stack.component),
            CutDimension::Api => from_stack(|stack| stack.api),
            CutDimension::Caller => from_stack(|stack| stack.caller),
            CutDimension::Function => from_stack(|stack| stack.function),
            CutDimension::Line => from_stack(|stack| stack.line),
            CutDimension::KernelFunction => from_stack(|stack| stack.kernel_function),
            CutDimension::SystemCall if stretch.state == State::Blocked => from_stack(|stack| stack.blocked_call),
            CutDimension::SystemCall => from_stack(|stack| stack.system_call),
            CutDimension::Stack => from_stack(|stack| stack.whole),
            CutDimension::State => self.states[stretch.state as usize],
            CutDimension::Wait => match (stretch.state, wait()) {
                (_, Some(row)) => self.kinds[row],
                (State::Runnable, None) => self.run_queue,
                (State::Running, None) if stretch.spin => self.spin,
                _ => NO_KEY,
            },
            CutDimension::Object => wait().map_or(NO_KEY, |row| self.objects[row]),
            CutDimension::Holder => self.party(wait().and_then(|row| self.profile.sched.waits[row].holder)),
            CutDimension::Waker => self.party(wait().and_then(|row| self.profile.sched.waits[row].waker)),
        }
    }

    /// The state that a key of [`CutDimension::State`] names.
    pub fn state(&self, key: KeyId) -> Option<State> {
        State::ALL.into_iter().find(|state| self.states[*state as usize] == key)
    }

    fn party(&self, party: Option<OtherThread>) -> KeyId {
        party.and_then(|party| self.task(party.task)).map_or(NO_KEY, |keys| keys.thread)
    }

    fn task(&self, task: TaskId) -> Option<ThreadKeys> {
        self.tasks.get(task as usize).copied()
    }

    /// Functions of a stack.
    pub fn functions(&self, stack: Option<StackId>) -> &[KeyId] {
        stack.and_then(|stack| self.stacks.get(stack as usize)).map_or(&[], |stack| &stack.functions)
    }

    /// The name of a set of features, and of each of them.
    pub fn feature(&self, set: u32) -> (KeyId, &[KeyId]) {
        self.features.get(set as usize).map_or((NO_KEY, &[]), |(all, each)| (*all, each))
    }

    /// Keys that do not depend on what ran.
    pub fn of_run(&self, dimension: CutDimension) -> KeyId {
        match dimension {
            CutDimension::Host => self.host,
            CutDimension::Run => self.run,
            _ => NO_KEY,
        }
    }
}

fn feature_keys(keys: &mut Interner, profile: &Profile, set: &[u32]) -> (KeyId, Vec<KeyId>) {
    let names = feature_names(&profile.feature, set);
    (keys.id(&names.join(",")), names.iter().map(|name| keys.id(name)).collect())
}

/// A recording by its start, in seconds since the Unix epoch.
fn run_of(profile: &Profile) -> String {
    (profile.meta.started_unix_ns / 1_000_000_000).to_string()
}
