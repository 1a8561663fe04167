use transect_profile_model::{ApiClass, Profile};

use super::{Call, ProfileBuilder, ThreadSpec};

const COMPONENTS: usize = 60;

/// A profile with `flows` distinct (caller, callee, API) flows, called on each of `threads` threads: `flows × threads`
/// recorded rows. The same arguments give the same profile.
pub fn large(flows: usize, threads: usize) -> Profile {
    let paths: Vec<String> =
        (1..COMPONENTS).map(|n| format!("/usr/lib/x86_64-linux-gnu/libpart{n:02}.so.{n}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut builder = ProfileBuilder::new("/opt/large/bin/large", &paths);
    for thread in 0..threads {
        // The same program runs on every thread: one shape, other times.
        let mut random = Random(0x5eed);
        let pace = 20 + (thread * 7 % 13) as i64;
        let mut calls = Vec::new();
        let mut left = flows;
        let mut number = 0;
        while left > 0 {
            calls.push(tree(&mut random, pace, &mut left, &mut number, 0, 0));
        }
        let group = if thread == 0 { "main" } else { ["parse", "render", "store"][thread % 3] };
        builder = builder.thread(ThreadSpec {
            name: format!("{group}-{thread}"),
            group: group.into(),
            own_ns: pace * (1_000_000 + random.below(30_000_000) as i64),
            active: threads.max(1) as i64,
            calls,
        });
    }
    builder.build()
}

/// A subtree that uses up at least one of the `left` flows; API names count, so that flows are distinct.
fn tree(random: &mut Random, pace: i64, left: &mut usize, number: &mut usize, caller: u32, depth: u32) -> Call {
    *left -= 1;
    *number += 1;
    let callee = 1 + (caller + 1 + (*number % (COMPONENTS - 3)) as u32) % (COMPONENTS as u32 - 1);
    let class = match *number % 40 {
        7 => ApiClass::Io,
        11 => ApiClass::Lock,
        13 => ApiClass::Wait,
        17 => ApiClass::CountOnly,
        _ => ApiClass::Compute,
    };
    let calls = 1 + random.below(1 << (4 + *number % 16)) as i64;
    let name = format!("part::Stage{:03}::step_{number}(Buffer const&, unsigned long)", *number % 97);
    let timed = class != ApiClass::CountOnly;
    let mut call =
        Call::new(callee, &name, calls, if timed { calls * (5 + random.below(400) as i64) * pace / 20 } else { 0 })
            .class(class);
    let inner = if depth < 4 && timed { random.below(4) } else { 0 };
    for _ in 0..inner {
        if *left > 0 {
            call = call.inner([tree(random, pace, left, number, callee, depth + 1)]);
        }
    }
    call
}

/// SplitMix64: small, and the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
