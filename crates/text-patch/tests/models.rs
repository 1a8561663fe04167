//! The protocols' state machines, looked at in full; and that the search finds what is wrong with wrong ones.

mod model;

use model::{Legal, MEMORY, Machine, Step};
use transect_text_patch::form::{CALL, JUMP, RETURN, off_form, short_jump_over, transfer};
use transect_text_patch::{CallSite, Refusal};

const ON: [u8; 5] = [CALL, 0x50, 0xC1, 0xCC - 1, 0x01];

fn length_of(form: [u8; 5]) -> usize {
    match form[0] {
        0xEB => 2,
        0xC3 => 1,
        _ => 5,
    }
}

fn forms(at: usize, on: [u8; 5], off: [u8; 5]) -> Vec<Legal> {
    [on, off].iter().map(|form| Legal { at, bytes: form[..length_of(*form)].to_vec(), next: None }).collect()
}

fn memory(at: usize, bytes: &[u8]) -> [u8; MEMORY] {
    let mut memory = [0x11; MEMORY];
    memory[at..at + bytes.len()].copy_from_slice(bytes);
    memory
}

/// The toggle as [`CallSite`] does it: the bytes of its one store, at the site's place in its word.
fn toggle_machine(at: usize, on: [u8; 5], off: [u8; 5]) -> Machine {
    let address = 0x10_0000 + at as u64;
    let site = CallSite::new(address, address, on, off).unwrap();
    let stored = site.stored();
    assert_eq!(stored.start / 8, (stored.end - 1) / 8, "a store across words");
    let store = |form: [u8; 5]| {
        let memory = memory(at, &form);
        let range = (stored.start - 0x10_0000) as usize..(stored.end - 0x10_0000) as usize;
        Step::Store(range.start, memory[range].to_vec())
    };
    Machine {
        memory: memory(at, &off),
        window: at..at + 5,
        legal: forms(at, on, off),
        steps: vec![store(on), store(off)],
        signals: true,
    }
}

#[test]
fn toggles_are_safe_at_every_place() {
    for at in 0..8 {
        let on = ON;
        let off = off_form(0x10_0000 + at as u64, on, 0x20_0000).unwrap();
        let search = toggle_machine(at, on, off).search();
        assert!(search.violation.is_none(), "place {at}: {search:?}");
        assert!(search.states >= 10, "place {at}: {search:?}");
    }
    for at in 0..7 {
        // XRay's entry sled, with a jump.
        let on = [JUMP, 0x50, 0xC1, 0xCC, 0x01];
        assert!(toggle_machine(at, on, short_jump_over(on, 11)).search().violation.is_none());
    }
    for at in 0..8 {
        // XRay's exit sled: ret and its padding; and a displacement whose low byte is the short jump's.
        let on = [JUMP, 0x50, 0xC1, 0xCC, 0x01];
        assert!(toggle_machine(at, on, [RETURN, 0x50, 0xC1, 0xCC, 0x01]).search().violation.is_none());
        let on = [CALL, 0x03, 0xC1, 0xCC, 0x01];
        assert!(toggle_machine(at, on, short_jump_over(on, 5)).search().violation.is_none());
    }
}

#[test]
fn a_toggle_by_two_stores_is_found_unsafe() {
    for at in 0..8 {
        for first in 1..5 {
            let off = [0x0F, 0x1F, 0x44, 0, 0];
            let pieces = |form: [u8; 5]| {
                // First byte last, as one would do it.
                (0..5).rev().map(move |i| Step::Store(at + i, vec![form[i]])).collect::<Vec<_>>()
            };
            let mut steps = pieces(ON);
            steps.extend(pieces(off));
            let _ = first;
            let machine = Machine {
                memory: memory(at, &off),
                window: at..at + 5,
                legal: forms(at, ON, off),
                steps,
                signals: false,
            };
            assert!(machine.search().violation.is_some(), "place {at}");
        }
    }
}

#[test]
fn forms_that_one_store_cannot_switch_are_refused() {
    let off = [0x0F, 0x1F, 0x44, 0, 0];
    for at in 4..8 {
        let address = 0x10_0000 + at;
        assert_eq!(CallSite::new(address, address, ON, off).unwrap_err(), Refusal::Straddles { address });
    }
    let address = 0x10_0007;
    let short = short_jump_over(ON, 5);
    assert_eq!(CallSite::new(address, address, ON, short).unwrap_err(), Refusal::Straddles { address });
}

/// INT3, tail, first byte; `pauses` says which of the three pauses serialize.
fn word_machine(at: usize, pauses: [bool; 3]) -> Machine {
    let old = transfer(JUMP, 0x10_0000, 0x30_2015).unwrap();
    let new = ON;
    let mut steps = Vec::new();
    for form in [new, old] {
        steps.push(Step::Publish(true));
        steps.push(Step::Store(at, vec![0xCC]));
        steps.extend(pauses[0].then_some(Step::Serialize));
        steps.extend((1..5).map(|i| Step::Store(at + i, vec![form[i]])));
        steps.extend(pauses[1].then_some(Step::Serialize));
        steps.push(Step::Store(at, vec![form[0]]));
        steps.extend(pauses[2].then_some(Step::Serialize));
        steps.push(Step::Publish(false));
    }
    Machine { memory: memory(at, &old), window: at..at + 5, legal: forms(at, new, old), steps, signals: true }
}

#[test]
fn word_patches_are_safe_with_serialization_and_only_with_it() {
    for at in 4..8 {
        let search = word_machine(at, [true, true, false]).search();
        assert!(search.violation.is_none(), "place {at}: {search:?}");
        // The published protocol: time goes by, which forces nobody to fetch anew.
        assert!(word_machine(at, [false, false, false]).search().violation.is_some(), "place {at}: wait");
        assert!(word_machine(at, [false, true, false]).search().violation.is_some(), "place {at}: no first");
        assert!(word_machine(at, [true, false, false]).search().violation.is_some(), "place {at}: no second");
    }
}

/// A window of old instructions with these lengths, replaced by a jump of five bytes and put back.
fn batch_steps(
    at: usize,
    old: &[u8],
    new: &[u8],
    starts: &[usize],
    pauses: [bool; 3],
    visit: Option<bool>,
) -> Vec<Step> {
    let mut steps = vec![Step::Publish(true)];
    steps.extend(starts.iter().map(|i| Step::Store(at + i, vec![0xCC])));
    steps.extend(pauses[0].then_some(Step::Serialize));
    steps.extend(visit.map(|saved| Step::Visit { saved }));
    steps.extend((1..new.len()).map(|i| Step::Store(at + i, vec![new[i]])));
    steps.extend(pauses[1].then_some(Step::Serialize));
    steps.push(Step::Store(at, vec![new[0]]));
    steps.extend(pauses[2].then_some(Step::Serialize));
    steps.push(Step::Publish(false));
    let _ = old;
    steps
}

fn batch_machine(at: usize, lengths: &[usize], pauses: [bool; 3], visit: Option<bool>) -> Machine {
    let total: usize = lengths.iter().sum();
    let old: Vec<u8> = (0..total as u8).map(|i| 0x41 + i).collect();
    let mut new = vec![JUMP, 0x10, 0x20, 0x30, 0x00];
    new.extend(std::iter::repeat_n(0x06, total - 5));
    let mut legal = vec![Legal { at, bytes: new[..5].to_vec(), next: None }];
    let mut starts = Vec::new();
    let mut offset = 0;
    for length in lengths {
        let next = offset + length;
        legal.push(Legal {
            at: at + offset,
            bytes: old[offset..next].to_vec(),
            next: (next < total).then_some(at + next),
        });
        starts.push(offset);
        offset = next;
    }
    let mut steps = batch_steps(at, &old, &new, &starts, pauses, visit);
    // And back: the jump is one instruction.
    steps.extend(batch_steps(at, &new, &old, &[0], [true; 3], None));
    Machine { memory: memory(at, &old), window: at..at + total, legal, steps, signals: true }
}

const SHAPES: &[&[usize]] =
    &[&[5], &[1, 4], &[4, 1], &[2, 3], &[1, 1, 3], &[1, 2, 3], &[3, 4], &[1, 1, 1, 1, 1], &[4, 7]];

#[test]
fn batches_are_safe_for_windows_of_several_instructions() {
    for at in 0..8 {
        for shape in SHAPES {
            let search = batch_machine(at, shape, [true; 3], (shape.len() > 1).then_some(true)).search();
            assert!(search.violation.is_none(), "place {at}, {shape:?}: {search:?}");
        }
    }
}

#[test]
fn a_batch_without_one_of_its_parts_is_found_unsafe() {
    for at in 0..8 {
        for shape in SHAPES.iter().filter(|shape| shape.len() > 1) {
            let unsafe_without = |pauses, visit, what: &str| {
                let search = batch_machine(at, shape, pauses, visit).search();
                assert!(search.violation.is_some(), "place {at}, {shape:?}, without {what}: {search:?}");
            };
            unsafe_without([true; 3], None, "visiting threads");
            unsafe_without([true; 3], Some(false), "the program counters in signal frames");
        }
    }
    for at in 4..8 {
        for missing in 0..2 {
            let mut pauses = [true; 3];
            pauses[missing] = false;
            let search = batch_machine(at, &[5], pauses, None).search();
            assert!(search.violation.is_some(), "place {at}, without serialization {missing}: {search:?}");
        }
    }
}

#[test]
fn stopping_the_threads_is_safe_if_they_are_moved() {
    for at in 0..8 {
        for shape in SHAPES {
            for moved in [true, false] {
                let mut machine = batch_machine(at, shape, [true; 3], None);
                let new: Vec<u8> = machine.legal[0].bytes.clone();
                let old = machine.memory[machine.window.clone()].to_vec();
                let mut padded = new.clone();
                padded.resize(old.len(), 0x06);
                machine.steps.clear();
                for bytes in [&padded, &old] {
                    machine.steps.push(Step::Stop { moved });
                    machine.steps.extend(bytes.iter().enumerate().map(|(i, &byte)| Step::Store(at + i, vec![byte])));
                    machine.steps.push(Step::Release);
                }
                let search = machine.search();
                let safe = moved || shape.len() == 1;
                assert_eq!(search.violation.is_none(), safe, "place {at}, {shape:?}, moved {moved}: {search:?}");
            }
        }
    }
}

/// Two sites in one word, switched by two threads, each by load, merge and store, or by compare-and-swap.
fn neighbours(compare: bool) -> bool {
    // (word, per thread: step, loaded value); each thread switches its own half of the word on once.
    let mut open = vec![(0u8, [(0u8, 0u8); 2])];
    let mut seen = std::collections::HashSet::new();
    while let Some(state) = open.pop() {
        if !seen.insert(state) {
            continue;
        }
        let (word, threads) = state;
        if threads.iter().all(|&(step, _)| step == 2) && word != 0b11 {
            return false;
        }
        for thread in 0..2 {
            let mut next = threads;
            let bit = 1 << thread;
            match threads[thread].0 {
                0 => {
                    next[thread] = (1, word);
                    open.push((word, next));
                }
                1 if compare && word != threads[thread].1 => {
                    next[thread] = (1, word); // found another value: again with that
                    open.push((word, next));
                }
                1 => {
                    let new = threads[thread].1 | bit;
                    next[thread] = (2, 0);
                    open.push((new, next));
                }
                _ => {}
            }
        }
    }
    true
}

#[test]
fn a_shared_word_needs_compare_and_swap() {
    assert!(neighbours(true));
    assert!(!neighbours(false));
}
