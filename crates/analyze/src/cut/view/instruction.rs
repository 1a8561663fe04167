//! Time of one function's instructions.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{ComponentId, Profile, StackId, StackInstruction};

use super::super::stretch::State;
use super::super::{CutError, CutMeasure, CutQuery};
use super::StateTimes;
use super::annotate::each_stack;
use crate::criticality::apportion;

/// Time at one address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddressTimes {
    /// Samples of the timer at the instruction itself.
    pub samples: i64,
    /// At the instruction itself, ns.
    pub self_ns: i64,
    /// There and in what it called, by state.
    pub states: StateTimes,
}

/// Where a function was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionAddress {
    /// Component that holds the code.
    pub component: ComponentId,
    /// As its file numbers addresses: where an instruction begins, or the last byte of a call.
    pub address: u64,
    /// The function was inlined into another one there.
    pub inlined: bool,
}

/// A function's time by address.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FunctionAddresses {
    /// Where it was met, and how long.
    pub addresses: BTreeMap<FunctionAddress, AddressTimes>,
    /// Time of which no address is known: of frames that were not on the stack but are known to have called.
    pub elsewhere: StateTimes,
}

/// One instruction of a function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstructionTimes {
    /// Name of the component that holds it.
    pub component: String,
    /// The function that holds it, demangled: another one where the function is inlined.
    pub symbol: String,
    /// Where it begins, as the component's file numbers addresses.
    pub address: u64,
    /// Its name.
    pub mnemonic: String,
    /// Its operands.
    pub operands: String,
    /// What it calls, jumps to in another function or refers to by name; `null` if nothing.
    pub target: Option<String>,
    /// Source file of its line in the function, `null` if unknown.
    pub file: Option<String>,
    /// The line, `null` if unknown.
    pub line: Option<i32>,
    /// Samples of the timer at the instruction itself.
    pub samples: i64,
    /// At the instruction itself, ns.
    pub self_ns: i64,
    /// There and in what it called, ns.
    pub total_ns: i64,
    /// The total, by state.
    #[serde(flatten)]
    pub states: StateTimes,
    /// The one that has most time of its own, or if none has any, most time.
    pub hottest: bool,
}

/// A function's instructions, by address.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Disassembly {
    /// All of them, those without time, too.
    pub instructions: Vec<InstructionTimes>,
    /// Time of the function that is at none of them, ns.
    pub elsewhere_ns: i64,
}

/// Time of `function` by address: see [`super::CutViewKind::Annotate`]. Stacks are told apart by lines; of one stack that was at
/// several instructions of a line, each has its part of the stack's time as over the whole run.
///
/// # Errors
/// [`CutError`] where the profile does not hold what is needed.
pub fn function_addresses(profile: &Profile, query: &CutQuery, function: &str) -> Result<FunctionAddresses, CutError> {
    if profile.sched.instructions.is_empty() {
        return Err(CutError::NoAddresses);
    }
    let mut of_frame: FxHashMap<(StackId, u32), Vec<&StackInstruction>> = FxHashMap::default();
    for row in &profile.sched.instructions {
        of_frame.entry((row.stack, row.depth)).or_default().push(row);
    }
    let mut found = FunctionAddresses::default();
    let of_time = CutQuery { measure: CutMeasure::Time, ..query.clone() };
    each_stack(profile, &of_time, function, |met| {
        let rows = of_frame.get(&(met.stack, met.depth));
        let Some((rows, component)) = rows.zip(met.frame.component) else {
            return found.elsewhere.add(met.state, met.value);
        };
        for (row, ns) in rows.iter().zip(apportion(met.value, &weights(rows, met.state))) {
            let at = FunctionAddress { component, address: row.address, inlined: met.frame.inlined };
            let times = found.addresses.entry(at).or_default();
            times.self_ns += if met.at_instruction { ns } else { 0 };
            times.states.add(met.state, ns);
        }
    })?;
    let of_samples = CutQuery { measure: CutMeasure::Samples, ..query.clone() };
    let counted = each_stack(profile, &of_samples, function, |met| {
        let Some((rows, component)) = of_frame.get(&(met.stack, met.depth)).zip(met.frame.component) else { return };
        let weights: Vec<i64> = rows.iter().map(|row| row.samples.max(0)).collect();
        for (row, samples) in rows.iter().zip(apportion(met.value, &weights)).filter(|_| met.at_instruction) {
            let at = FunctionAddress { component, address: row.address, inlined: met.frame.inlined };
            found.addresses.entry(at).or_default().samples += samples;
        }
    });
    match counted {
        // No sample has met it: it was seen when it blocked.
        Ok(_) | Err(CutError::UnknownFunction { .. }) => Ok(found),
        Err(error) => Err(error),
    }
}

/// How the time of a stack in a state is divided among its instructions.
fn weights(rows: &[&StackInstruction], state: State) -> Vec<i64> {
    let by = |of: fn(&StackInstruction) -> i64| rows.iter().map(|row| of(row).max(0)).collect::<Vec<_>>();
    let ordered = match state {
        State::Blocked => [by(|row| row.blocked_ns), by(|row| row.running_ns)],
        State::Running | State::Runnable => [by(|row| row.running_ns), by(|row| row.blocked_ns)],
    };
    let of_any = ordered.into_iter().find(|weights| weights.iter().any(|weight| *weight > 0));
    of_any.unwrap_or_else(|| vec![1; rows.len()])
}
