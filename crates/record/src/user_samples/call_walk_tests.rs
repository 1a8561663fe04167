use std::collections::HashMap;

use super::*;

/// Code with rules, and memory.
#[derive(Default)]
struct Pretended {
    rules: HashMap<u64, FrameRule>,
    memory: HashMap<u64, u64>,
    agent_frames: HashMap<u64, u64>,
}

const CODE: std::ops::Range<u64> = 0x1000..0x9000;

impl Process for Pretended {
    fn rule(&mut self, address: u64) -> Option<FrameRule> {
        self.rules.get(&address).copied()
    }

    fn is_code(&self, address: u64) -> bool {
        CODE.contains(&address)
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        self.memory.get(&address).copied()
    }

    fn agent_frame(&mut self, slot: u64) -> Option<u64> {
        self.agent_frames.get(&slot).copied()
    }
}

fn rule(base: FrameBase) -> FrameRule {
    FrameRule { base, kept: None, saved: Default::default(), outermost: false, start: 0 }
}

fn above_rsp(offset: i64) -> FrameRule {
    rule(FrameBase::Register { register: RSP as u16, offset })
}

fn outermost() -> FrameRule {
    FrameRule { outermost: true, ..above_rsp(8) }
}

fn addresses(walk: &Walk) -> Vec<u64> {
    walk.frames.iter().map(|frame| frame.address).collect()
}

#[test]
fn calls_are_followed_to_the_outermost() {
    let rules = HashMap::from([(0x1000, above_rsp(24)), (0x1fff, above_rsp(8)), (0x2fff, outermost())]);
    let memory = HashMap::from([(0x7010, 0x2000), (0x7018, 0x3000)]);
    let mut process = Pretended { rules, memory, ..Pretended::default() };
    let found = walk(Values::of_blocked(0x1000, 0x7000), &mut process);
    assert_eq!(addresses(&found), [0x1000, 0x2000, 0x3000]);
    assert!(found.complete && !found.lacks_register);
    assert_eq!(found.frames.iter().map(|frame| frame.returns).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_register_is_missing_only_where_it_is_asked_for() {
    let mut saves = above_rsp(16);
    saves.saved[RBP] = SavedRegister::AtBase(-16);
    let by_frame = rule(FrameBase::Register { register: RBP as u16, offset: 16 });
    let rules = HashMap::from([(0x1000, saves), (0x1fff, by_frame), (0x2fff, by_frame)]);
    // The first saves the frame pointer of its caller, the second does not.
    let memory = HashMap::from([(0x7000, 0x7100), (0x7008, 0x2000), (0x7108, 0x3000)]);
    let mut process = Pretended { rules, memory, ..Pretended::default() };
    let found = walk(Values::of_blocked(0x1000, 0x7000), &mut process);
    assert_eq!(addresses(&found), [0x1000, 0x2000, 0x3000]);
    // The rule says that rbp is as it was, so that the frame would be its own caller.
    assert!(!found.complete && !found.lacks_register);
    // Code without a table may keep frame pointers.
    assert!(walk(Values::of_blocked(0x2000, 0x7010), &mut process).lacks_register);
    process.rules.insert(0x2000, by_frame);
    assert!(walk(Values::of_blocked(0x2000, 0x7010), &mut process).lacks_register);
}

/// The agent's return site: the return address and rbx are in a frame of its own, rsp is the caller's already.
#[test]
fn the_agents_frames_lead_to_the_caller() {
    let mut site = above_rsp(8);
    site.kept = Some((RBX as u16, 16));
    site.saved[RBX] = SavedRegister::AtRegister(RBX as u16, 32);
    let by_rbx = rule(FrameBase::Register { register: RBX as u16, offset: 8 });
    let rules = HashMap::from([(0x1000, above_rsp(8)), (0x1fff, site), (0x2fff, by_rbx), (0x3fff, outermost())]);
    let memory = HashMap::from([(0x7000, 0x2000), (0x50010, 0x3000), (0x50020, 0x7100), (0x7100, 0x4000)]);
    let mut process = Pretended { rules, memory, ..Pretended::default() };
    let blocked = Values::of_blocked(0x1000, 0x7000);
    assert!(walk(blocked, &mut process).lacks_register);
    process.agent_frames.insert(0x7000, 0x50000);
    let found = walk(blocked, &mut process);
    assert_eq!((addresses(&found), found.complete), (vec![0x1000, 0x2000, 0x3000, 0x4000], true));
    process.agent_frames.clear();
    let registers = Registers { ip: 0x1000, sp: 0x7000, bp: 0, bx: 0x50000 };
    assert_eq!(walk(Values::of_sample(registers), &mut process), found);
}

#[test]
fn signal_handlers_return_to_what_they_interrupted() {
    let rules = HashMap::from([(0x1000, above_rsp(8)), (0x6000, outermost())]);
    let mut memory = HashMap::from([(0x7000, 0x5000), (0x5000, u64::from_le_bytes(SIGNAL_RETURN))]);
    let context = 0x7008;
    memory.insert(context + SIGNAL_REGISTERS + 15 * 8, 0x7f00);
    memory.insert(context + SIGNAL_REGISTERS + 16 * 8, 0x6000);
    let mut process = Pretended { rules, memory, ..Pretended::default() };
    let found = walk(Values::of_blocked(0x1000, 0x7000), &mut process);
    let last = found.frames.last().unwrap();
    assert_eq!((addresses(&found), last.returns, found.complete), (vec![0x1000, 0x5000, 0x6000], false, true));
}

#[test]
fn linkage_entries_have_pushed_their_number_or_not() {
    let rules = HashMap::from([
        (0x1006, rule(FrameBase::Linkage { from: 11 })),
        (0x100b, rule(FrameBase::Linkage { from: 11 })),
    ]);
    let memory = HashMap::from([(0x7000, 0x2000), (0x7008, 0x3000)]);
    let mut process = Pretended { rules, memory, ..Pretended::default() };
    assert_eq!(addresses(&walk(Values::of_blocked(0x1006, 0x7000), &mut process))[1], 0x2000);
    assert_eq!(addresses(&walk(Values::of_blocked(0x100b, 0x7000), &mut process))[1], 0x3000);
}

#[test]
fn code_without_a_table_keeps_frame_pointers_or_is_a_leaf() {
    let memory = HashMap::from([(0x7000, 0x2000), (0x7100, 0), (0x7108, 0x3000)]);
    let mut process = Pretended {
        rules: HashMap::from([(0x1fff, outermost()), (0x2fff, outermost())]),
        memory,
        ..Default::default()
    };
    let at = |bp| Values::of_sample(Registers { ip: 0xf000, sp: 0x7000, bp, bx: 0 });
    assert_eq!(addresses(&walk(at(0x7100), &mut process)), [0xf000, 0x3000]);
    // What is in rbp is no frame pointer.
    assert_eq!(addresses(&walk(at(0x1234), &mut process)), [0xf000, 0x2000]);
}

/// The second function runs on a stack of its own, and the third is the last on the one below.
#[test]
fn frame_pointers_lead_to_a_stack_below() {
    let memory = HashMap::from([
        (0x7100, 0x5000),
        (0x7108, 0x2000),
        (0x5000, 0x5080),
        (0x5008, 0x3000),
        (0x5080, 0),
        (0x5088, 0x4000),
    ]);
    let rules = HashMap::from([(0x3fff, outermost())]);
    let mut process = Pretended { rules, memory, ..Pretended::default() };
    let values = Values::of_sample(Registers { ip: 0x1000, sp: 0x7000, bp: 0x7100, bx: 0 });
    assert_eq!(addresses(&walk(values, &mut process)), [0x1000, 0x2000, 0x3000, 0x4000]);
    // Something that is no frame pointer.
    process.memory.insert(0x5000, 0x5_0000);
    assert_eq!(addresses(&walk(values, &mut process)), [0x1000, 0x2000]);
}
