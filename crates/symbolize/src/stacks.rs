//! Call stacks with names in the place of addresses.

use std::collections::HashMap;

use transect_profile_model::{CallStack, FrameId, LocatedStack, SchedTables, Space, StackFrame};

use crate::complete::Location;
use crate::component_symbols::Resolved;
use crate::stack_begin::{is_beginning, makes_threads};

/// Puts what is known of addresses into the stacks that kept them. Stacks that are equal then become one.
pub(crate) fn complete(tables: &mut SchedTables, resolved: &HashMap<Location, Resolved>) {
    if tables.addresses.is_empty() {
        return;
    }
    let mut frames = Frames::default();
    let stacks = tables.located_stacks();
    let completed = stacks.iter().map(|located| frames.completed(located, &tables.frames, resolved));
    let (stacks, depths): (Vec<LocatedStack>, Vec<Depths>) = completed.unzip();
    tables.instructions.retain_mut(|at| {
        let depth = depths.get(at.stack as usize).and_then(|depths| *depths.get(at.depth as usize)?);
        at.depth = depth.unwrap_or(at.depth);
        depth.is_some()
    });
    tables.replace_stacks(stacks);
    tables.frames = frames.all;
}

/// Where the frames of a stack are once it is completed, by their depth; `None`: it is left out.
type Depths = Vec<Option<u32>>;

/// Frames, each once.
#[derive(Default)]
struct Frames {
    numbers: HashMap<StackFrame, FrameId>,
    all: Vec<StackFrame>,
}

/// A frame as it was, and what is known of its address.
struct Step<'a> {
    frame: &'a StackFrame,
    address: Option<i64>,
    resolved: Option<&'a Resolved>,
    linked: bool,
}

impl Step<'_> {
    fn function(&self) -> &str {
        let outer = self.resolved.and_then(|of| of.code.frames.first());
        outer.map_or(&self.frame.function, |outer| &outer.function)
    }

    /// It stands for a function that is missing on the stack, since it left by a jump: no call returns to a function's first
    /// instruction, and nothing runs there that has called.
    fn has_left(&self, next: Option<&Step<'_>>) -> bool {
        let entry = self.resolved.and_then(|of| of.start).zip(self.address);
        entry.is_some_and(|(start, address)| start == address.cast_unsigned())
            && next.is_some_and(|next| next.frame.space == Space::User)
    }
}

impl Frames {
    fn completed(
        &mut self,
        located: &LocatedStack,
        frames: &[StackFrame],
        resolved: &HashMap<Location, Resolved>,
    ) -> (LocatedStack, Depths) {
        let mut addresses = located.addresses.iter().peekable();
        let steps: Vec<Step<'_>> = (0_u32..)
            .zip(&located.stack.frames)
            .filter_map(|(depth, &id)| {
                let frame = frames.get(id as usize)?;
                let address = addresses.next_if(|(at, _)| *at == depth).map(|(_, address)| *address);
                let of = frame.component.zip(address).and_then(|location| resolved.get(&location));
                Some(Step { frame, address, resolved: of, linked: located.stack.is_linked(depth as usize) })
            })
            .collect();
        let mut new = CallStack { frames: Vec::new(), complete: located.stack.complete, linked: 0 };
        let (mut kept, mut depths) = (Vec::new(), vec![None; steps.len()]);
        for (at, step) in steps.iter().enumerate() {
            let next = steps.get(at + 1);
            let user = next.is_some_and(|next| next.frame.space == Space::User);
            // Threads begin in one function or, where unwinding knows more, in that which made them.
            if new.frames.is_empty() && user && step.resolved.is_some() && makes_threads(step.function()) {
                continue;
            }
            let left = step.has_left(next);
            // A part of the function itself, or a copy of it, goes by its name.
            if left && next.is_some_and(|next| next.function() == step.function()) {
                continue;
            }
            if step.linked {
                new.link(new.frames.len());
            }
            depths[at] = Some(new.frames.len() as u32);
            let whole = step.resolved.is_some_and(|of| of.code.is_whole());
            if let Some(address) = step.address.filter(|_| !whole) {
                kept.push((new.frames.len() as u32, address));
            }
            match step.resolved {
                None => new.frames.push(self.number(step.frame.clone())),
                Some(of) => {
                    let shown = if left { 1 } else { usize::MAX };
                    for code in of.code.frames.iter().take(shown) {
                        new.frames.push(self.number(StackFrame {
                            function: code.function.clone(),
                            file: code.file.clone(),
                            line: code.line,
                            inlined: code.inlined,
                            ..step.frame.clone()
                        }));
                    }
                }
            }
        }
        new.complete |= steps.first().is_some_and(|root| is_beginning(root.function()));
        (LocatedStack { stack: new, addresses: kept }, depths)
    }

    fn number(&mut self, frame: StackFrame) -> FrameId {
        if let Some(&number) = self.numbers.get(&frame) {
            return number;
        }
        let number = self.all.len() as FrameId;
        self.all.push(frame.clone());
        self.numbers.insert(frame, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{CodeAddress, StackInstruction};

    use super::*;
    use crate::named_code::{CodeFrame, NamedCode};

    #[test]
    fn instructions_go_with_their_frames() {
        let frame = |function: &str| StackFrame {
            function: function.into(),
            component: Some(0),
            file: String::new(),
            line: 0,
            inlined: false,
            space: Space::User,
        };
        let code =
            |function: &str, inlined| CodeFrame { function: function.into(), file: "a.c".into(), line: 1, inlined };
        let instruction = |stack, depth, address| StackInstruction {
            stack,
            depth,
            address,
            samples: 1,
            running_ns: 1,
            blocked_ns: 0,
        };
        let stack = CallStack { frames: vec![0, 1], complete: true, linked: 0 };
        let mut tables = SchedTables {
            frames: vec![frame("sub_10"), frame("leaf")],
            stacks: vec![stack.clone(), stack],
            addresses: vec![
                CodeAddress { stack: 0, depth: 0, address: 0x10 },
                CodeAddress { stack: 1, depth: 0, address: 0x12 },
            ],
            instructions: vec![instruction(0, 0, 0x10), instruction(0, 1, 0x80), instruction(1, 1, 0x84)],
            ..SchedTables::default()
        };
        let with = |frames| {
            let code = NamedCode { frames, named: true, described: true };
            Resolved { code, start: None, symbol: None }
        };
        let resolved = HashMap::from([
            ((0, 0x10), with(vec![code("outer", false), code("inner", true)])),
            ((0, 0x12), with(vec![code("outer", false)])),
        ]);
        complete(&mut tables, &resolved);
        let depths: Vec<_> = tables.instructions.iter().map(|at| (at.stack, at.depth, at.address)).collect();
        assert_eq!(depths, [(0, 0, 0x10), (0, 2, 0x80), (1, 1, 0x84)]);
        let names = |stack: usize| tables.stacks[stack].frames.iter().map(|&id| &*tables.frames[id as usize].function);
        assert!(names(0).eq(["outer", "inner", "leaf"]) && names(1).eq(["outer", "leaf"]));
    }
}
