//! Functions by self and total time, with the line that most of the self time is at.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use transect_profile_model::{ComponentId, Profile, StackFrame};

use super::super::stack_keys::{FunctionName, StackReader};
use super::super::stretch::State;
use super::super::{CutDimension, CutError, CutKey, CutQuery, CutScope, cut};
use super::by_stack::by_stack;
use crate::Names;

/// One function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotRow {
    /// Its name; `null` for the remainder of which no stack is known.
    pub function: Option<String>,
    /// The component that holds it.
    pub component: Option<String>,
    /// Source file of the line that most of the self time is at.
    pub file: Option<String>,
    /// That line.
    pub line: Option<i32>,
    /// In the function itself and what the kernel did for it, in [`CutScope::unit`].
    #[serde(rename = "self")]
    pub own: i64,
    /// Its 95 % interval.
    pub self_low: i64,
    /// See `self_low`.
    pub self_high: i64,
    /// Of the self time, in the kernel.
    pub kernel: i64,
    /// In it and in what it called.
    pub total: i64,
    /// `self` of all, 0–1.
    pub self_share: f64,
    /// `total` of all, 0–1.
    pub total_share: f64,
}

/// Functions, by their self time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotView {
    /// What is summed up.
    #[serde(flatten)]
    pub scope: CutScope,
    /// All functions.
    pub rows: Vec<HotRow>,
}

#[derive(Default)]
struct Sums {
    own: i64,
    kernel: i64,
    total: i64,
    lines: FxHashMap<(String, i32), i64>,
}

/// Functions of the profile.
pub(super) fn hot(profile: &Profile, query: &CutQuery) -> Result<HotView, CutError> {
    let (scope, sums) = by_stack(profile, query)?;
    let names = Names::new(profile);
    let reader = StackReader::new(profile, &names);
    // By name and component; the remainder has neither.
    let mut functions: FxHashMap<(Option<FunctionName>, Option<ComponentId>), Sums> = FxHashMap::default();
    for sum in sums {
        let frames = sum.stack.map(|stack| reader.frames(stack)).unwrap_or_default();
        let key = |frame: &StackFrame| (Some(reader.function_name(frame)), frame.component);
        let leaf = reader.leaf(&frames.user);
        let on_stack: FxHashSet<_> = match leaf {
            Some(_) => frames.user.iter().map(|(_, frame)| key(frame)).collect(),
            None => [(None, None)].into_iter().collect(),
        };
        for function in on_stack {
            functions.entry(function).or_default().total += sum.value;
        }
        let own = functions.entry(leaf.map_or((None, None), key)).or_default();
        own.own += sum.value;
        let Some(leaf) = leaf else { continue };
        // Who waits for a CPU was merely interrupted in the kernel.
        let in_kernel = !frames.kernel.is_empty() && sum.state != State::Runnable;
        own.kernel += if in_kernel { sum.value } else { 0 };
        if !leaf.file.is_empty() && leaf.line > 0 {
            *own.lines.entry((leaf.file.clone(), leaf.line)).or_default() += sum.value;
        }
    }
    let intervals = intervals(profile, query)?;
    let share = |value: i64| if scope.total == 0 { 0.0 } else { value as f64 / scope.total as f64 };
    let row = |((function, component), sums): ((Option<FunctionName>, Option<ComponentId>), Sums)| {
        let named = (function, component.map(|component| names.get(component).to_owned()));
        let (self_low, self_high) = intervals.get(&named).copied().unwrap_or((sums.own, sums.own));
        let line = sums.lines.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        let (file, line) = line.map(|(place, _)| place).unzip();
        HotRow {
            function: named.0,
            component: named.1,
            file,
            line,
            own: sums.own,
            self_low,
            self_high,
            kernel: sums.kernel,
            total: sums.total,
            self_share: share(sums.own),
            total_share: share(sums.total),
        }
    };
    let mut rows: Vec<HotRow> = functions.into_iter().filter(|(_, sums)| sums.total != 0).map(row).collect();
    rows.sort_by(|a, b| {
        let order = |row: &HotRow| (std::cmp::Reverse(row.own), std::cmp::Reverse(row.total));
        order(a).cmp(&order(b)).then_with(|| (&a.function, &a.component).cmp(&(&b.function, &b.component)))
    });
    Ok(HotView { scope, rows })
}

/// Function and component.
type Named = (Option<String>, Option<String>);

/// 95 % intervals of functions' self time.
fn intervals(profile: &Profile, query: &CutQuery) -> Result<FxHashMap<Named, (i64, i64)>, CutError> {
    let by = vec![CutDimension::Function, CutDimension::Component];
    let rows = cut(profile, &CutQuery { by, ..query.clone() })?.rows.into_iter();
    let name = |key: &CutKey| match key {
        CutKey::Name(name) => Some(name.clone()),
        _ => None,
    };
    Ok(rows.map(|row| ((name(&row.keys[0]), name(&row.keys[1])), (row.low, row.high))).collect())
}
