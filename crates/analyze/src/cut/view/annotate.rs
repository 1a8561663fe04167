//! Time of one function's lines: its own, and what it called from there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use transect_profile_model::{Profile, StackFrame, StackId};

use super::super::stack_keys::{FunctionName, StackReader};
use super::super::stretch::State;
use super::super::{CutError, CutQuery, CutScope};
use super::by_stack::by_stack;
use super::{Disassembly, StateTimes};
use crate::Names;
use crate::matching::{Pattern, short_name};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineTimes {
    /// Source file, `null` if unknown.
    pub file: Option<String>,
    /// Line, `null` if unknown.
    pub line: Option<i32>,
    /// In the function itself, ns.
    pub self_ns: i64,
    /// There and in what was called from there, ns.
    pub total_ns: i64,
    /// The total, by state.
    #[serde(flatten)]
    pub states: StateTimes,
}

/// Lines of a function, in their order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotateView {
    /// The function.
    pub function: String,
    /// What is summed up.
    #[serde(flatten)]
    pub scope: CutScope,
    /// Threads' time in the function and what it called, ns.
    pub total_ns: i64,
    /// All lines that have any.
    pub lines: Vec<LineTimes>,
    /// Its instructions, where they were asked for.
    #[serde(flatten)]
    pub disassembly: Option<Disassembly>,
}

/// The one function that is meant.
fn chosen(functions: &BTreeSet<FunctionName>, wanted: &str) -> Result<FunctionName, CutError> {
    let fail = |near: Vec<&FunctionName>| CutError::UnknownFunction {
        function: wanted.to_owned(),
        near: near.into_iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    // Names may be copied from a table that has shortened them.
    let pattern = Pattern::new(&wanted.replace('…', "*"));
    let found: Vec<&FunctionName> = functions.iter().filter(|name| pattern.matches_function(name)).collect();
    match found[..] {
        _ if functions.contains(wanted) => Ok(wanted.to_owned()),
        [one] => Ok(one.clone()),
        [] => {
            // Of `N::C<T>::f[abi:cxx11](int)` people know `f`.
            let score = |name: &str| {
                let last = short_name(name);
                let contains = if last.contains(short_name(wanted)) { 1.0 } else { 0.0 };
                contains + strsim::jaro_winkler(wanted, name).max(strsim::jaro_winkler(wanted, last))
            };
            let mut near: Vec<&FunctionName> = functions.iter().collect();
            near.sort_by(|a, b| score(b).total_cmp(&score(a)));
            Err(fail(near))
        }
        _ => Err(fail(found)),
    }
}

/// A function on a stack.
pub(super) struct MetFunction<'a> {
    pub stack: StackId,
    pub state: State,
    /// In the unit of the measure.
    pub value: i64,
    /// Its innermost frame.
    pub frame: &'a StackFrame,
    /// Place in the stack of the frame that is no inlined one: this, or that which it is inlined into.
    pub depth: u32,
    /// It is what runs or waits there.
    pub is_leaf: bool,
    /// The same, or a function that is inlined at the same instruction.
    pub at_instruction: bool,
}

/// Calls `meet` with each stack that `function` is on: its name, also without parameters, or a pattern that one function meets.
pub(super) fn each_stack(
    profile: &Profile,
    query: &CutQuery,
    function: &str,
    mut meet: impl FnMut(MetFunction<'_>),
) -> Result<(CutScope, FunctionName), CutError> {
    let (scope, sums) = by_stack(profile, query)?;
    let names = Names::new(profile);
    let reader = StackReader::new(profile, &names);
    let frames: Vec<_> =
        sums.iter().map(|sum| sum.stack.map(|stack| reader.frames(stack)).unwrap_or_default()).collect();
    let all = frames.iter().flat_map(|frames| &frames.user).map(|(_, frame)| reader.function_name(frame));
    let near: BTreeSet<FunctionName> = all.collect();
    let function = chosen(&near, function)?;
    for (sum, frames) in sums.iter().zip(&frames) {
        let user = &frames.user;
        let (Some(stack), Some(at)) =
            (sum.stack, user.iter().rposition(|(_, frame)| reader.function_name(frame) == function))
        else {
            continue;
        };
        let frame = user[at].1;
        // Inlined frames follow the one that holds their code.
        let holder = |at: usize| user[..=at].iter().rposition(|(_, frame)| !frame.inlined).unwrap_or(0);
        let leaf = reader.leaf(user).and_then(|leaf| user.iter().rposition(|(_, frame)| std::ptr::eq(*frame, leaf)));
        meet(MetFunction {
            stack,
            state: sum.state,
            value: sum.value,
            frame,
            depth: user[holder(at)].0 as u32,
            is_leaf: leaf == Some(at),
            at_instruction: leaf.map(holder) == Some(holder(at)),
        });
    }
    Ok((scope, function))
}

/// Lines of `function`: see [`each_stack`].
pub(super) fn annotate(profile: &Profile, query: &CutQuery, function: &str) -> Result<AnnotateView, CutError> {
    let mut lines: BTreeMap<(String, i32), (i64, StateTimes)> = BTreeMap::new();
    let (scope, function) = each_stack(profile, query, function, |met| {
        let (own, states) = lines.entry((met.frame.file.clone(), met.frame.line)).or_default();
        *own += if met.is_leaf { met.value } else { 0 };
        states.add(met.state, met.value);
    })?;
    let line = |((file, line), (self_ns, states)): ((String, i32), (i64, StateTimes))| LineTimes {
        file: Some(file).filter(|file| !file.is_empty()),
        line: Some(line).filter(|line| *line > 0),
        self_ns,
        total_ns: states.total(),
        states,
    };
    let lines: Vec<LineTimes> = lines.into_iter().map(line).collect();
    let total_ns = lines.iter().map(|line| line.total_ns).sum();
    Ok(AnnotateView { function, scope, total_ns, lines, disassembly: None })
}
