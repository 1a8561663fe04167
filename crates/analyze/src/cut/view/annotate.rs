//! Time of one function's lines: its own, and what it called from there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use transect_profile_model::Profile;

use super::super::stack_keys::{FunctionName, StackReader};
use super::super::{CutError, CutQuery, CutScope};
use super::StateTimes;
use super::by_stack::by_stack;
use crate::Names;
use crate::matching::Pattern;

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
            let score = |name: &str| strsim::jaro_winkler(wanted, name);
            let mut near: Vec<&FunctionName> = functions.iter().collect();
            near.sort_by(|a, b| score(b).total_cmp(&score(a)));
            Err(fail(near))
        }
        _ => Err(fail(found)),
    }
}

/// Lines of `function`: its name, also without parameters, or a pattern that one function meets.
pub(super) fn annotate(profile: &Profile, query: &CutQuery, function: &str) -> Result<AnnotateView, CutError> {
    let (scope, sums) = by_stack(profile, query)?;
    let names = Names::new(profile);
    let reader = StackReader::new(profile, &names);
    let mut lines: BTreeMap<(&str, i32), (i64, StateTimes)> = BTreeMap::new();
    let frames: Vec<_> =
        sums.iter().map(|sum| sum.stack.map(|stack| reader.frames(stack)).unwrap_or_default()).collect();
    let all = frames.iter().flat_map(|frames| &frames.user).map(|(_, frame)| reader.function_name(frame));
    let near: BTreeSet<FunctionName> = all.collect();
    let function = &chosen(&near, function)?;
    for (sum, frames) in sums.iter().zip(frames) {
        let Some(at) = frames.user.iter().rposition(|(_, frame)| reader.function_name(frame) == *function) else {
            continue;
        };
        let (_, frame) = frames.user[at];
        let (own, states) = lines.entry((&frame.file, frame.line)).or_default();
        let is_leaf = reader.leaf(&frames.user).is_some_and(|leaf| std::ptr::eq(leaf, frame));
        *own += if is_leaf { sum.value } else { 0 };
        states.add(sum.state, sum.value);
    }
    let line = |((file, line), (self_ns, states)): ((&str, i32), (i64, StateTimes))| LineTimes {
        file: Some(file.to_owned()).filter(|file| !file.is_empty()),
        line: Some(line).filter(|line| *line > 0),
        self_ns,
        total_ns: states.total(),
        states,
    };
    let lines: Vec<LineTimes> = lines.into_iter().map(line).collect();
    let total_ns = lines.iter().map(|line| line.total_ns).sum();
    Ok(AnnotateView { function: function.clone(), scope, total_ns, lines })
}
