//! A measure by the stack at which it was, and the thread's state there: what views of functions, calls and lines are read from.

use transect_profile_model::{Profile, StackId};

use super::super::keys::NO_KEY;
use super::super::stretch::State;
use super::super::sum::{group, scope};
use super::super::{CutDimension, CutError, CutMeasure, CutQuery, CutScope, of_stretches};

/// What was at one stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackSum {
    /// `None`: the remainder of which no stack is known.
    pub stack: Option<StackId>,
    pub state: State,
    /// In the unit of the measure.
    pub value: i64,
}

/// Sums by stack and state, in the order of their rows, and what they are of.
pub(super) fn by_stack(profile: &Profile, query: &CutQuery) -> Result<(CutScope, Vec<StackSum>), CutError> {
    if matches!(query.measure, CutMeasure::Calls | CutMeasure::Bytes) {
        let measure = query.measure.as_str();
        return Err(CutError::NotCounted { measure, dimension: CutDimension::Stack.to_string() });
    }
    // Grouped by the numbers of stacks: no text is made of them.
    let filtered = CutQuery { by: Vec::new(), ..query.clone() };
    of_stretches(profile, &filtered, |keys, stretches, range, known| {
        let query = CutQuery { by: vec![CutDimension::Stack, CutDimension::State], ..query.clone() };
        let groups = group(&query, keys, &stretches, range, known, |keys, dimension, stretch| match dimension {
            CutDimension::Stack => stretch.stack.map_or(NO_KEY, |stack| stack + 1),
            other => keys.of(other, stretch),
        })?;
        let sum = |(of, row): (&Vec<i64>, &u32)| {
            let state = keys.state(u32::try_from(of[1]).ok()?)?;
            Some(StackSum { stack: u32::try_from(of[0] - 1).ok(), state, value: groups.values[*row as usize] })
        };
        let mut sums: Vec<StackSum> = groups.numbers.iter().filter_map(sum).collect();
        sums.sort_unstable_by_key(|sum| (sum.stack, sum.state));
        Ok((scope(&query, &groups), sums))
    })
}
