//! A machine small enough to look at all of its states: one thread that patches, one that executes.
//!
//! The executing thread fetches the aligned 8-byte words of its instruction one by one, in any order and at any time
//! before it executes, and keeps what it has fetched until it has executed, was interrupted, or was serialized. That is
//! more than CPUs do, so what is safe here is safe there.

use std::collections::HashSet;

pub const MEMORY: usize = 24;

/// An instruction that may be executed.
#[derive(Clone, Debug)]
pub struct Legal {
    /// Offset in memory.
    pub at: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where it leads, if not out of the window.
    pub next: Option<usize>,
}

/// One step of the patching thread.
#[derive(Clone, Debug)]
pub enum Step {
    /// One store; within a word.
    Store(usize, Vec<u8>),
    /// All threads' fetches are dropped.
    Serialize,
    /// Shows or hides the table of windows.
    Publish(bool),
    /// Visits the thread: its program counter is moved out of the window; so are those in signal frames, if `saved`.
    Visit { saved: bool },
    /// The thread stops in a visit, moved out of the window if `moved`.
    Stop { moved: bool },
    /// It goes on.
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Thread {
    /// Elsewhere.
    Out,
    /// At an instruction.
    At(usize),
    /// INT3 executed at an offset, its signal not yet handled.
    Trapped(usize),
    /// In a handler of the application's, that will return to an offset.
    Interrupted(usize),
    /// Stopped; goes on at an offset, or elsewhere.
    Stopped(Option<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: [u8; MEMORY],
    thread: Thread,
    fetched: [Option<[u8; 8]>; 3],
    step: usize,
    published: bool,
}

/// A protocol and what may be executed under it.
pub struct Machine {
    pub memory: [u8; MEMORY],
    pub window: std::ops::Range<usize>,
    pub legal: Vec<Legal>,
    /// Repeated for ever.
    pub steps: Vec<Step>,
    /// Whether signals of the application arrive.
    pub signals: bool,
}

/// What the search has found.
#[derive(Debug)]
pub struct Search {
    pub states: usize,
    /// The steps to the first mixed instruction.
    pub violation: Option<String>,
}

impl Machine {
    /// Looks at every state that can be reached.
    pub fn search(&self) -> Search {
        let first = State { memory: self.memory, thread: Thread::Out, fetched: [None; 3], step: 0, published: false };
        let mut seen = HashSet::from([first.clone()]);
        let mut open = vec![first];
        while let Some(state) = open.pop() {
            match self.successors(&state) {
                Err(violation) => return Search { states: seen.len(), violation: Some(violation) },
                Ok(next) => open.extend(next.into_iter().filter(|state| seen.insert(state.clone()))),
            }
        }
        Search { states: seen.len(), violation: None }
    }

    fn successors(&self, state: &State) -> Result<Vec<State>, String> {
        let mut next = Vec::new();
        self.patching(state, &mut next);
        self.executing(state, &mut next)?;
        Ok(next)
    }

    fn patching(&self, state: &State, next: &mut Vec<State>) {
        let mut new = state.clone();
        new.step = (state.step + 1) % self.steps.len();
        let interior = |at: usize| at != self.window.start;
        match &self.steps[state.step] {
            Step::Store(at, bytes) => {
                assert_eq!(at / 8, (at + bytes.len() - 1) / 8, "a store across words");
                new.memory[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Step::Serialize => new.fetched = [None; 3],
            Step::Publish(published) => new.published = *published,
            Step::Visit { saved } => {
                match new.thread {
                    Thread::Trapped(_) => return, // its own handler comes first
                    Thread::At(at) if interior(at) => new.thread = Thread::Out,
                    Thread::Interrupted(at) if *saved && interior(at) => new.thread = Thread::Out,
                    _ => {}
                }
                new.fetched = [None; 3];
            }
            Step::Stop { moved } => {
                let place = match new.thread {
                    Thread::Trapped(_) => return,
                    Thread::At(at) | Thread::Interrupted(at) if !(*moved && interior(at)) => Some(at),
                    _ => None,
                };
                new.thread = Thread::Stopped(place);
                new.fetched = [None; 3];
            }
            Step::Release => {
                if let Thread::Stopped(place) = new.thread {
                    new.thread = place.map_or(Thread::Out, Thread::At);
                }
            }
        }
        next.push(new);
    }

    fn executing(&self, state: &State, next: &mut Vec<State>) -> Result<(), String> {
        let mut go = |thread: Thread| next.push(State { thread, fetched: [None; 3], ..state.clone() });
        match state.thread {
            Thread::Out => go(Thread::At(self.window.start)),
            Thread::Stopped(_) => {}
            Thread::Interrupted(at) => go(Thread::At(at)),
            Thread::Trapped(at) if state.published => {
                let _ = at;
                go(Thread::Out);
            }
            Thread::Trapped(at) if state.memory[at] != 0xCC => go(Thread::At(at)),
            Thread::Trapped(at) => return Err(format!("INT3 at {at} that nobody knows, at step {}", state.step)),
            Thread::At(at) => {
                if self.signals {
                    go(Thread::Interrupted(at));
                }
                let words = at / 8..self.window.end.div_ceil(8);
                for word in words.clone().filter(|&word| state.fetched[word].is_none()) {
                    let mut new = state.clone();
                    new.fetched[word] = Some(state.memory[word * 8..word * 8 + 8].try_into().unwrap());
                    next.push(new);
                }
                // An instruction may be executed when the words that it lies in are there.
                let byte = |i: usize| state.fetched[i / 8].map(|word| word[i % 8]);
                if byte(at) == Some(0xCC) {
                    next.push(State { thread: Thread::Trapped(at), fetched: [None; 3], ..state.clone() });
                    return Ok(());
                }
                let matches = |legal: &&Legal| {
                    legal.at == at && legal.bytes.iter().enumerate().all(|(i, &b)| byte(at + i) == Some(b))
                };
                if let Some(legal) = self.legal.iter().find(matches) {
                    let thread = legal.next.map_or(Thread::Out, Thread::At);
                    // What was fetched ahead is kept: the next instruction may be in it.
                    let fetched = if legal.next.is_some() { state.fetched } else { [None; 3] };
                    next.push(State { thread, fetched, ..state.clone() });
                } else if words.clone().all(|word| state.fetched[word].is_some()) {
                    let bytes: Vec<_> = (at..self.window.end).filter_map(byte).collect();
                    return Err(format!("{bytes:02x?} executed at {at}, at step {} of {:?}", state.step, self.steps));
                }
            }
        }
        Ok(())
    }
}
