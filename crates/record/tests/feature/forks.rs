//! Children of fork begin in the regions in which they were forked.

use std::collections::BTreeMap;

use transect_bpf_collect::privilege;
use transect_profile_model::{Profile, RegionMethod};
use transect_testkit::judged;

use crate::program::{alone, build, check_times, entries};

/// Milliseconds per stack of regions, of all processes but the first.
fn in_children(profile: &Profile) -> BTreeMap<Vec<i64>, f64> {
    let nodes = &profile.feature.nodes;
    let mut sums = BTreeMap::new();
    for node in nodes.iter().filter(|node| profile.threads[node.thread as usize].process != 0) {
        let mut stack = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            stack.extend(node.region.map(|region| profile.feature.regions[region as usize].number));
            at = node.parent.map(|parent| &nodes[parent as usize]);
        }
        stack.reverse();
        *sums.entry(stack).or_default() += node.exclusive_ns as f64 / 1e6;
    }
    // Of a process between two of its regions, on a busy machine.
    sums.retain(|_, ms| *ms > 12.0);
    sums
}

/// By each method: the time of children is what they spin, and more if others run meanwhile.
fn check(kind: &str, expected: &[(&[i64], f64)], entered: &[(&[i64], i64)]) {
    let _alone = alone();
    for method in [RegionMethod::Trace, RegionMethod::Probe, RegionMethod::Usdt] {
        if method == RegionMethod::Usdt
            && let Err(why) = privilege::prepare_to_load()
        {
            println!("NOT RUN: {why}");
            continue;
        }
        let program = build("forks.c", method == RegionMethod::Trace, &[]);
        judged(&format!("children by {method:?}: {kind}"), || {
            let profile = program.record(&[kind], method).profile;
            let mut counts = entries(&profile);
            counts.retain(|_, count| *count > 0);
            let mut wanted: BTreeMap<Vec<i64>, i64> = [(vec![0], 1), (vec![0, 1], 1), (vec![0, 2], 1)].into();
            wanted.extend(entered.iter().map(|(stack, count)| (stack.to_vec(), *count)));
            assert_eq!(counts, wanted, "{method:?} {kind}");
            assert_eq!(profile.loss, [], "{method:?} {kind}");
            check_times(&profile);
            let found = in_children(&profile);
            for (stack, ms) in expected {
                let got = found.get(*stack).copied().unwrap_or(0.0);
                if got <= ms - 3.0 || got >= ms * 2.0 + 60.0 {
                    return Err(format!("{stack:?} {ms} ms, {found:?}"));
                }
            }
            let known = |stack: &Vec<i64>| expected.iter().any(|(known, _)| stack == known);
            match found.keys().find(|stack| !known(stack)) {
                Some(other) => Err(format!("{other:?} in {found:?}")),
                None => Ok(()),
            }
        });
    }
}

#[test]
fn one_that_writes_no_event() {
    check("silent", &[(&[0, 1], 60.0)], &[]);
}

#[test]
fn one_that_leaves_the_regions() {
    check("leaves", &[(&[0, 1], 40.0), (&[0], 30.0), (&[], 50.0), (&[2], 20.0)], &[(&[2], 1)]);
}

#[test]
fn one_whose_thread_comes_first() {
    check("thread", &[(&[0, 1], 30.0), (&[0], 30.0), (&[], 50.0), (&[2], 50.0)], &[(&[2], 2)]);
}

#[test]
fn one_that_forks_again() {
    // The one in between waits for the other.
    check("again", &[(&[0, 1], 150.0), (&[0, 1, 2], 30.0)], &[(&[0, 1, 2], 1)]);
}

#[test]
fn one_that_becomes_another_program() {
    let _alone = alone();
    for method in [RegionMethod::Trace, RegionMethod::Probe, RegionMethod::Usdt] {
        if method == RegionMethod::Usdt && privilege::prepare_to_load().is_err() {
            continue;
        }
        let program = build("forks.c", method == RegionMethod::Trace, &[]);
        judged(&format!("another program by {method:?}"), || {
            let profile = program.record(&["executes"], method).profile;
            assert_eq!(profile.loss, [], "{method:?}");
            check_times(&profile);
            let found = in_children(&profile);
            let inside = found.get(&vec![0, 1]).copied().unwrap_or(0.0);
            // The other program, which has no regions, is in none.
            let alone = found.keys().all(|stack| stack.is_empty() || *stack == [0, 1]);
            if alone && inside > 37.0 && inside < 135.0 { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }
}
