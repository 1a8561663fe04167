//! What is done under a lock: the calls in which its holders were met when others began to wait.

use rustc_hash::FxHashMap;
use transect_profile_model::StackFrame;

use super::super::words::brief;
use super::Causes;
use super::lock::Lock;
use crate::criticality::{is_agent, lets_go, public_name};
use crate::names::file_name;

/// Part of the waiting from which a call is what the lock is held for.
const MOSTLY: f64 = 0.5;

/// The call that most of a lock's waiting goes with.
pub(super) struct UnderLock {
    /// The function that is called.
    pub callee: String,
    /// Where, `file:line`; empty if unknown.
    pub line: String,
    /// Part of the waiting in which holders are known, 0–1.
    pub part: f64,
}

/// What holders call, and where.
#[derive(Default)]
struct Call<'a> {
    ns: i64,
    /// Of it by file and line of the call.
    lines: FxHashMap<(&'a str, i32), i64>,
}

impl Causes<'_> {
    /// What `code`, which holds the lock, calls for most of the time for which others wait.
    pub(super) fn under_lock(&self, lock: &Lock<'_>, code: &str) -> Option<UnderLock> {
        let (profile, tables) = (self.facts.profile, &self.facts.profile.sched);
        let of_agent = |frame: &StackFrame| {
            frame
                .component
                .and_then(|id| profile.components.get(id as usize))
                .is_some_and(|found| is_agent(&found.path))
        };
        let mut held: FxHashMap<u32, i64> = FxHashMap::default();
        for wait in tables.waits.iter().filter(|wait| wait.kind == lock.kind && *wait.object == *lock.object) {
            if let Some(stack) = wait.holder.and_then(|holder| holder.stack) {
                *held.entry(stack).or_default() += wait.ns;
            }
        }
        let mut calls: FxHashMap<&str, Call<'_>> = FxHashMap::default();
        let mut all = 0;
        for (stack, ns) in held {
            let ids = tables.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
            let frames: Vec<&StackFrame> = ids.iter().filter_map(|&id| tables.frames.get(id as usize)).collect();
            let Some(at) = frames.iter().rposition(|frame| frame.function == code) else { continue };
            all += ns;
            let Some(callee) = frames[at + 1..].iter().find(|frame| !of_agent(frame)) else { continue };
            let call = calls.entry(public_name(&callee.function)).or_default();
            call.ns += ns;
            *call.lines.entry((&frames[at].file, frames[at].line)).or_default() += ns;
        }
        let (callee, call) = calls.into_iter().max_by_key(|(name, call)| (call.ns, *name))?;
        let part = call.ns as f64 / all.max(1) as f64;
        if part < MOSTLY || lets_go(callee) {
            return None;
        }
        let line = call.lines.into_iter().max_by_key(|&(place, ns)| (ns, place)).filter(|((_, line), _)| *line > 0);
        let line = line.map_or_else(String::new, |((file, line), _)| format!("{}:{line}", file_name(file)));
        Some(UnderLock { callee: brief(callee), line, part })
    }
}
