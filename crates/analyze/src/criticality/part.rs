//! Functions that were inlined and are told apart from the one around them.
//!
//! Compilers inline large functions that are called once as well as small ones that many share. The large ones are what a
//! reader knows as functions, with their own time; a small one says less than the one that uses it.

use std::cmp::Reverse;

use rustc_hash::FxHashSet;
use transect_profile_model::{FrameId, StackFrame};

use super::Source;
use super::call_path::{FunctionId, InliningId};
use super::place::Sum;
use super::tally::Tally;

/// An inlined function with this part of what was inlined into `main` is told apart, wherever it stands.
const MOST_OF_IT: f64 = 0.7;
/// One with less of the place's time is a part of the function around it.
const LEAST_PART: f64 = 0.1;
/// With fewer lines it is a step of the function around it, if that does anything itself.
const FEW_LINES: usize = 3;
/// A function does nothing itself that has less of its time in its own lines.
const OWN_PART: f64 = 0.1;

/// The parts of one place: by number, chains of functions inlined one into the other. The first is the place itself.
pub(super) struct Parts(Vec<Vec<FunctionId>>);

impl Parts {
    /// `sum`: all time of the place.
    pub fn of(source: &Source<'_>, place: FunctionId, sum: &Sum) -> Self {
        let mut parts = vec![Vec::new()];
        if sum.inlinings().keys().any(|(inlining, _)| !source.paths.inlinings[*inlining as usize].is_empty()) {
            let total = sum.inlinings().values().sum();
            descend(source, (place, total), sum, &mut Vec::new(), &mut parts);
        }
        Self(parts)
    }

    /// Nothing is told apart.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 1
    }

    /// The part to which code of this inlining belongs: the innermost.
    pub fn number(&self, source: &Source<'_>, inlining: InliningId) -> usize {
        let inlined = &source.paths.inlinings[inlining as usize];
        let within = |(_, chain): &(usize, &Vec<FunctionId>)| inlined.starts_with(chain);
        let parts = self.0.iter().enumerate().filter(within);
        parts.max_by_key(|(number, chain)| (chain.len(), Reverse(*number))).map_or(0, |(number, _)| number)
    }

    /// Its functions, the innermost last.
    pub fn chain(&self, number: usize) -> &[FunctionId] {
        self.0.get(number).map_or(&[], Vec::as_slice)
    }
}

/// Finds the parts inlined along `chain`, and theirs.
fn descend(
    source: &Source<'_>,
    (place, total): (FunctionId, i64),
    sum: &Sum,
    chain: &mut Vec<FunctionId>,
    parts: &mut Vec<Vec<FunctionId>>,
) {
    let (mut whole, mut next) = (0, Tally::default());
    for (&(inlining, _), &ns) in sum.inlinings() {
        let Some(deeper) = source.paths.inlinings[inlining as usize].strip_prefix(&chain[..]) else { continue };
        whole += ns;
        if let Some(&function) = deeper.first() {
            next.add(function, ns);
        }
    }
    let around = lines_at(source, sum, chain);
    let name = chain.is_empty().then(|| source.paths.functions[place as usize].name.as_str());
    let is_main = name.is_some_and(|name| name == "main" || name.ends_with("::main"));
    let calls = || name.and_then(|name| Some(source.tables.frames[frame_of(source, name)? as usize].file.as_str()));
    let mut found = Vec::new();
    let mut inlined = 0;
    for (function, ns) in next.iter() {
        chain.push(function);
        let lines = lines_of(source, sum, chain);
        chain.pop();
        let same_file = same_file(&around, &lines, calls);
        inlined += if same_file { ns } else { 0 };
        found.push((function, ns, lines.len(), same_file));
    }
    let does_nothing = (whole - inlined) as f64 <= OWN_PART * whole as f64;
    found.sort_by_key(|&(function, ns, ..)| (Reverse(ns), function));
    for (function, ns, lines, same_file) in found {
        let is_part = ns as f64 >= LEAST_PART * total as f64
            && (same_file && (lines >= FEW_LINES || does_nothing) || is_main && ns as f64 >= MOST_OF_IT * whole as f64);
        if is_part {
            chain.push(function);
            parts.push(chain.clone());
            descend(source, (place, total), sum, chain, parts);
            chain.pop();
        }
    }
}

/// Lines seen in what was inlined along `chain`, or deeper.
fn lines_of<'a>(source: &Source<'a>, sum: &Sum, chain: &[FunctionId]) -> FxHashSet<(&'a str, i32)> {
    lines(source, sum, |inlined| inlined.starts_with(chain))
}

/// Lines seen in the last function of `chain` itself, or in the place.
fn lines_at<'a>(source: &Source<'a>, sum: &Sum, chain: &[FunctionId]) -> FxHashSet<(&'a str, i32)> {
    lines(source, sum, |inlined| inlined == chain)
}

fn lines<'a>(source: &Source<'a>, sum: &Sum, is_it: impl Fn(&[FunctionId]) -> bool) -> FxHashSet<(&'a str, i32)> {
    let within = |id: InliningId| is_it(&source.paths.inlinings[id as usize]);
    let frames = sum.inlinings().keys().filter(|(id, _)| within(*id)).filter_map(|(_, line)| *line);
    frames
        .filter_map(|id| source.tables.frames.get(id as usize))
        .map(|frame| (frame.file.as_str(), frame.line))
        .collect()
}

/// Whether `inner` is in the file of the function around it. No sample need have met a line of that one itself: then its file
/// is the one from which it `calls`.
fn same_file<'a>(
    around: &FxHashSet<(&'a str, i32)>,
    inner: &FxHashSet<(&'a str, i32)>,
    calls: impl FnOnce() -> Option<&'a str>,
) -> bool {
    let is_inner = |file: &str| inner.iter().any(|&(other, _)| other == file);
    let mut own = around.difference(inner).peekable();
    if own.peek().is_none() {
        return calls().is_none_or(is_inner);
    }
    own.all(|(file, _)| is_inner(file))
}

/// A frame of the function itself that has a line: that of a call where samples met only inlined code.
pub(super) fn frame_of(source: &Source<'_>, function: &str) -> Option<FrameId> {
    let is_it = |frame: &StackFrame| !frame.inlined && !frame.file.is_empty() && frame.function == function;
    source.tables.frames.iter().position(is_it).map(|at| at as FrameId)
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{CallStack, Component, Space};

    use super::*;
    use crate::criticality::short_lived::ShortLived;
    use crate::criticality::testing::{sample, session};
    use crate::criticality::{Source, place};
    use crate::names::Names;
    use crate::synthetic::empty;

    /// Functions and lines of a program's stacks, the innermost last, all inlined into the second, with the time of each.
    type Stacks<'s> = &'s [(&'s [(&'s str, i32)], i64)];

    /// The places: name, line and time.
    fn places(stacks: Stacks<'_>) -> Vec<(String, i32, i64)> {
        let mut profile = empty();
        profile.components.push(Component {
            path: "/opt/app".into(),
            build_id: String::new(),
            executable: true,
            synthetic: false,
            static_in: None,
        });
        for (number, (frames, ns)) in stacks.iter().enumerate() {
            let mut ids = Vec::new();
            for (depth, &(function, line)) in frames.iter().enumerate() {
                ids.push(profile.sched.frames.len() as u32);
                profile.sched.frames.push(StackFrame {
                    function: function.into(),
                    component: Some(0),
                    file: "app.c".into(),
                    line,
                    inlined: depth > 1,
                    space: Space::User,
                });
            }
            profile.sched.stacks.push(CallStack { frames: ids, complete: true, linked: 0 });
            let many = (0..10).map(|_| sample(0, number as u32, 1, ns / 10, false));
            profile.sched.samples.extend(many);
        }
        let (names, session) = (Names::new(&profile), session(1));
        let source = Source::new(&profile, &names, &session);
        let (rows, ..) = place::rows(&source, &ShortLived::default());
        // Views know the function that the others were inlined into.
        assert!(rows.iter().all(|row| row.symbol() == "work"));
        rows.into_iter().map(|row| (row.function, row.line, row.ns)).collect()
    }

    fn expect(stacks: Stacks<'_>, wanted: &[(&str, i32, i64)]) {
        let wanted: Vec<_> = wanted.iter().map(|&(name, line, ns)| (name.to_owned(), line, ns)).collect();
        assert_eq!(places(stacks), wanted);
    }

    #[test]
    fn loops_inlined_into_one_function_have_their_own_time() {
        expect(
            &[(&[("main", 20), ("work", 12), ("first", 3)], 600), (&[("main", 20), ("work", 13), ("second", 7)], 400)],
            &[("first", 3, 600), ("second", 7, 400)],
        );
    }

    #[test]
    fn a_step_of_a_loop_is_the_loops() {
        expect(
            &[(&[("main", 20), ("work", 12), ("mixed", 3)], 700), (&[("main", 20), ("work", 11)], 300)],
            &[("work", 11, 1000)],
        );
    }

    #[test]
    fn a_function_of_several_lines_is_its_own() {
        let lines: [&[(&str, i32)]; 3] = [
            &[("main", 20), ("work", 12), ("inner", 3)],
            &[("main", 20), ("work", 12), ("inner", 4)],
            &[("main", 20), ("work", 12), ("inner", 5)],
        ];
        expect(
            &[(lines[0], 300), (lines[1], 200), (lines[2], 100), (&[("main", 20), ("work", 12)], 400)],
            &[("inner", 3, 600), ("work", 12, 400)],
        );
    }

    #[test]
    fn what_is_inlined_twice_is_the_innermost() {
        expect(
            &[
                (&[("main", 20), ("work", 12), ("middle", 8), ("leaf", 3)], 950),
                (&[("main", 20), ("work", 12), ("middle", 8)], 50),
            ],
            &[("leaf", 3, 950), ("middle", 8, 50)],
        );
    }
}
