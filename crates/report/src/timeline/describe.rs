//! Names of lanes and what is told about single waits.

use std::collections::HashMap;

use serde::Serialize;
use transect_profile_model::{OtherThread, Profile, SchedWait, StackId};

use super::lanes::Lanes;

/// Different waits that are told apart with object, threads and stacks; further ones are told apart by kind alone.
const MOST_WAITS: usize = 20_000;
/// Different stacks.
const MOST_STACKS: usize = 8_000;
/// Frames of a stack, innermost.
const MOST_FRAMES: usize = 24;

/// The JSON of [`super::Timeline::details`]. Strings, stacks and waits are named by their row; -1 is none.
#[derive(Debug, Default, Serialize)]
pub(super) struct Details {
    /// Lanes in their order.
    lanes: Vec<LaneRow>,
    /// Names that the others refer to.
    strings: Vec<String>,
    /// Functions of each stack, root first, by row of `strings`.
    stacks: Vec<Vec<u32>>,
    /// Kind, object, stack, holder, holder's function, waker, waker's function, one row of seven numbers each.
    waits: Vec<[i64; 7]>,
}

#[derive(Debug, Serialize)]
struct LaneRow {
    process: i32,
    tid: i32,
    name: String,
    group: String,
    start_ns: i64,
    end_ns: i64,
    criticality_ns: i64,
}

/// Collects what the kept waits refer to.
pub(super) struct Describer<'a> {
    profile: &'a Profile,
    details: Details,
    strings: HashMap<&'a str, u32>,
    stacks: HashMap<StackId, i64>,
    waits: HashMap<[i64; 7], u64>,
}

impl<'a> Describer<'a> {
    pub(super) fn new(profile: &'a Profile, lanes: &Lanes) -> Self {
        let lane = |&task: &u32| {
            let task = &profile.sched.tasks[task as usize];
            LaneRow {
                process: profile.processes.get(task.process as usize).map_or(0, |process| process.pid),
                tid: task.tid,
                name: task.name.clone(),
                group: task.group.clone(),
                start_ns: task.start_ns,
                end_ns: task.end_ns,
                criticality_ns: task.criticality_ns,
            }
        };
        Self {
            profile,
            details: Details { lanes: lanes.tasks.iter().map(lane).collect(), ..Details::default() },
            strings: HashMap::new(),
            stacks: HashMap::new(),
            waits: HashMap::new(),
        }
    }

    pub(super) fn json(&self) -> Vec<u8> {
        // Plain data with text keys always serializes.
        serde_json::to_vec(&self.details).unwrap_or_default()
    }

    /// 1 + the row of the wait with that row number in the profile; 0 if there is none.
    pub(super) fn wait(&mut self, row: i32) -> u64 {
        let profile = self.profile;
        let Some(wait) = usize::try_from(row).ok().and_then(|row| profile.sched.waits.get(row)) else { return 0 };
        let kind = wait.kind as i64;
        if self.details.waits.len() >= MOST_WAITS {
            return self.row([kind, -1, -1, -1, -1, -1, -1]);
        }
        let whole = self.whole(wait, kind);
        self.row(whole)
    }

    fn whole(&mut self, wait: &'a SchedWait, kind: i64) -> [i64; 7] {
        let object = if wait.object.is_empty() { -1 } else { i64::from(self.string(&wait.object)) };
        let stack = wait.stack.map_or(-1, |stack| self.stack(stack));
        let (holder, holder_in) = self.party(wait.holder);
        let (waker, waker_in) = self.party(wait.waker);
        [kind, object, stack, holder, holder_in, waker, waker_in]
    }

    fn row(&mut self, row: [i64; 7]) -> u64 {
        let rows = &mut self.details.waits;
        *self.waits.entry(row).or_insert_with(|| {
            rows.push(row);
            rows.len() as u64
        })
    }

    fn string(&mut self, text: &'a str) -> u32 {
        let strings = &mut self.details.strings;
        *self.strings.entry(text).or_insert_with(|| {
            strings.push(text.to_owned());
            (strings.len() - 1) as u32
        })
    }

    /// Name of the thread and the function that it was in.
    fn party(&mut self, party: Option<OtherThread>) -> (i64, i64) {
        let profile = self.profile;
        let Some(party) = party else { return (-1, -1) };
        let Some(task) = profile.sched.tasks.get(party.task as usize) else { return (-1, -1) };
        let name = i64::from(self.string(&task.name));
        let stack = party.stack.and_then(|stack| profile.sched.stacks.get(stack as usize));
        let function = stack.and_then(|stack| self.innermost(stack.frames.as_slice()));
        (name, function.map_or(-1, |function| i64::from(self.string(function))))
    }

    /// The innermost function of the program, else of the kernel.
    fn innermost(&self, frames: &[u32]) -> Option<&'a str> {
        let all = &self.profile.sched.frames;
        let user = |frame: &&u32| {
            all.get(**frame as usize).is_some_and(|frame| frame.space == transect_profile_model::Space::User)
        };
        let frame = frames.iter().rev().find(user).or(frames.last())?;
        all.get(*frame as usize).map(|frame| frame.function.as_str())
    }

    fn stack(&mut self, id: StackId) -> i64 {
        if let Some(&row) = self.stacks.get(&id) {
            return row;
        }
        let profile = self.profile;
        let Some(stack) = profile.sched.stacks.get(id as usize) else { return -1 };
        if self.details.stacks.len() >= MOST_STACKS {
            return -1;
        }
        let shown = &stack.frames[stack.frames.len().saturating_sub(MOST_FRAMES)..];
        let names = shown.iter().filter_map(|&frame| profile.sched.frames.get(frame as usize));
        let row = names.map(|frame| frame.function.as_str()).map(|name| self.string(name)).collect();
        self.details.stacks.push(row);
        let row = (self.details.stacks.len() - 1) as i64;
        self.stacks.insert(id, row);
        row
    }
}
