//! The joined call tree of a walk as stacks: program, thread group, then the functions of program and kernel.
//!
//! Each node gives what it holds itself, its time less its callees': one stack for time on a CPU, one for time off
//! it. So weights add up to the threads' lifetimes while they were observed.

use transect_profile_model::{ApiClass, Profile, WalkNode};

use crate::stack::{Frame, Stack, file_name};

/// Time and samples of a node.
#[derive(Clone, Copy, Default)]
struct Sum {
    on_ns: i64,
    off_ns: i64,
    samples: i64,
}

impl Sum {
    fn of(node: &WalkNode) -> Self {
        let off_ns = node.runnable_ns.saturating_add(node.blocked_ns);
        Self { on_ns: node.on_ns, off_ns, samples: node.samples }
    }

    fn add(&mut self, other: Self) {
        self.on_ns = self.on_ns.saturating_add(other.on_ns);
        self.off_ns = self.off_ns.saturating_add(other.off_ns);
        self.samples = self.samples.saturating_add(other.samples);
    }

    /// What is left; the parts of a tree are rounded, their sum may be a little more than the whole.
    fn less(self, other: Self) -> Self {
        Self {
            on_ns: self.on_ns.saturating_sub(other.on_ns).max(0),
            off_ns: self.off_ns.saturating_sub(other.off_ns).max(0),
            samples: self.samples.saturating_sub(other.samples).max(0),
        }
    }
}

/// Stacks of all groups; a row that a damaged profile lacks is left out.
pub(crate) fn stacks(profile: &Profile) -> Vec<Stack<'_>> {
    let walk = &profile.walk;
    let mut below = vec![Sum::default(); walk.nodes.len()];
    let mut roots = vec![Sum::default(); walk.groups.len()];
    for node in &walk.nodes {
        match node.parent {
            Some(parent) => below.get_mut(parent as usize),
            None => roots.get_mut(node.group as usize),
        }
        .into_iter()
        .for_each(|sum| sum.add(Sum::of(node)));
    }
    let mut stacks = Vec::new();
    for (id, node) in walk.nodes.iter().enumerate() {
        let mut frames = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            frames.push(Frame::Node(node));
            next = node
                .parent
                .and_then(|parent| walk.nodes.get(parent as usize))
                .filter(|_| frames.len() <= walk.nodes.len());
        }
        frames.extend(group_frames(profile, node.group));
        frames.reverse();
        push(&mut stacks, node.group, frames, Sum::of(node).less(below[id]));
    }
    for (id, group) in (0..).zip(&walk.groups) {
        let off_ns = group.runnable_ns.saturating_add(group.blocked_ns);
        let whole = Sum { on_ns: group.on_ns, off_ns, samples: 0 };
        let mut frames: Vec<Frame<'_>> = group_frames(profile, id).into_iter().rev().collect();
        frames.push(Frame::NoStack);
        push(&mut stacks, id, frames, whole.less(roots[id as usize]));
    }
    stacks
}

/// Thread group and program, innermost first.
fn group_frames(profile: &Profile, id: u32) -> [Frame<'_>; 2] {
    let group = profile.walk.groups.get(id as usize);
    let process = group.and_then(|group| profile.processes.get(group.process as usize));
    [
        Frame::Group(group.map_or("[unknown]", |group| group.thread_group.as_str())),
        Frame::Program(process.map_or("[unknown]", |process| file_name(&process.executable))),
    ]
}

fn push<'a>(stacks: &mut Vec<Stack<'a>>, group: u32, frames: Vec<Frame<'a>>, own: Sum) {
    let stack = |frames, calls, on_ns: i64, off_ns: i64| Stack {
        thread: group,
        frames,
        calls,
        total_ns: on_ns,
        self_ns: on_ns.saturating_add(off_ns),
        attributed_ns: off_ns,
        class: if off_ns > 0 { ApiClass::Wait } else { ApiClass::Compute },
        wait: None,
    };
    // Samples and waits are one number: it goes where most of the time is.
    let (on, off) = if own.on_ns >= own.off_ns { (own.samples, 0) } else { (0, own.samples) };
    if own.on_ns > 0 || on > 0 {
        stacks.push(stack(frames.clone(), on, own.on_ns, 0));
    }
    if own.off_ns > 0 || off > 0 {
        stacks.push(stack(frames, off, 0, own.off_ns));
    }
}
