//! The component view is a partition of the threads' lifetime, whatever the call tree.

use proptest::prelude::*;
use transect_analyze::synthetic::{Call, ProfileBuilder, ThreadSpec};
use transect_analyze::{CutDimensions, Selection, components, flows, threads, totals};
use transect_profile_model::{ApiClass, Profile};

const LIBRARIES: [&str; 4] = ["/lib/liba.so", "/lib/libb.so", "/usr/lib/liba.so", "/lib/libc.so.6"];

fn call() -> impl Strategy<Value = Call> {
    let class = prop_oneof![
        5 => Just(ApiClass::Compute),
        1 => Just(ApiClass::Io),
        1 => Just(ApiClass::Lock),
        1 => Just(ApiClass::Wait),
    ];
    let leaf =
        (1_u32..5, 0_usize..6, class, 1_i64..1000, 0_i64..5_000_000).prop_map(|(callee, api, class, calls, ns)| {
            // An API has one class, so the class is part of the name.
            Call::new(callee, &format!("{}_{api}", class.as_str()), calls, ns).class(class)
        });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (1_u32..5, 0_usize..6, 1_i64..1000, 0_i64..5_000_000, prop::collection::vec(inner, 0..4)).prop_map(
            |(callee, api, calls, ns, inner)| {
                let other = inner.into_iter().filter(|inner| inner.callee != callee);
                Call::new(callee, &format!("compute_{api}"), calls, ns).inner(other)
            },
        )
    })
}

fn thread() -> impl Strategy<Value = ThreadSpec> {
    (0_usize..3, 0_i64..9_000_000, 1_i64..5, prop::collection::vec(call(), 0..6)).prop_map(
        |(group, own_ns, active, calls)| {
            let group = ["main", "worker", "writer"][group];
            ThreadSpec { name: group.into(), group: group.into(), own_ns, active, calls }
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    prop::collection::vec(prop::collection::vec(thread(), 1..5), 1..3).prop_map(|processes| {
        let mut builder = ProfileBuilder::new("/opt/app", &LIBRARIES);
        for (number, threads) in processes.into_iter().enumerate() {
            if number > 0 {
                builder = builder.process("/opt/app");
            }
            builder = threads.into_iter().fold(builder, ProfileBuilder::thread);
        }
        builder.build()
    })
}

proptest! {
    #[test]
    fn self_and_wait_add_up_to_the_lifetime(profile in profile()) {
        let rows = components(&profile, &Selection::default());
        let lifetime: i64 = profile.threads.iter().map(|thread| thread.wall_ns).sum();
        let sum: i64 = rows.iter().map(|row| row.self_ns.unwrap() + row.wait_ns.unwrap()).sum();
        prop_assert_eq!(sum, lifetime);
        prop_assert_eq!(totals(&profile).lifetime_ns, lifetime);

        let attributed: i64 = profile.threads.iter().map(|thread| thread.attributed_ns).sum();
        let sum: i64 = rows.iter().map(|row| row.self_attributed_ns.unwrap() + row.wait_attributed_ns.unwrap()).sum();
        let rounding = (profile.flows.len() + rows.len() * 2 + profile.threads.len()) as i64;
        prop_assert!((sum - attributed).abs() <= rounding, "{} of {}", sum, attributed);

        if lifetime > 0 {
            let raw: f64 = rows.iter().map(|row| row.self_raw_percent.unwrap() + row.wait_raw_percent.unwrap()).sum();
            prop_assert!((raw - 100.0).abs() < 1e-6, "{}", raw);
        }
    }

    /// Own times of sampled calls are off, each by its own chance: the rows are what the threads lived, all the same, and no
    /// share is more than that of the time.
    #[test]
    fn rows_add_up_whatever_estimates_say(profile in profile(), off in prop::collection::vec(0.2..3.0_f64, 8)) {
        let mut profile = profile;
        for (at, flow) in profile.flows.iter_mut().enumerate().filter(|(_, flow)| !flow.class.is_wait()) {
            flow.calls += 1;
            flow.timed_calls = flow.calls - 1;
            flow.self_ns = flow.self_ns.map(|ns| (ns as f64 * off[at % off.len()]) as i64);
        }
        let rows = components(&profile, &Selection::default());
        let totals = totals(&profile);
        let sum: i64 = rows.iter().map(|row| row.self_ns.unwrap() + row.wait_ns.unwrap()).sum();
        // Less than a thousandth has no row.
        prop_assert!(sum <= totals.lifetime_ns && sum >= totals.lifetime_ns - totals.lifetime_ns / 1000, "{sum} of {}", totals.lifetime_ns);
        let sum: i64 = rows.iter().map(|row| row.self_attributed_ns.unwrap() + row.wait_attributed_ns.unwrap()).sum();
        let least = totals.attributed_ns - totals.attributed_ns / 1000 - rows.len() as i64 * 2;
        prop_assert!(sum >= least && sum <= totals.attributed_ns + rows.len() as i64 * 2, "{sum} of {}", totals.attributed_ns);
        prop_assert!(rows.iter().all(|row| row.self_attributed_ns <= row.self_ns.map(|ns| ns + 1)));
    }

    #[test]
    fn calls_are_neither_lost_nor_invented(profile in profile()) {
        let calls: i64 = profile.flows.iter().map(|flow| flow.calls).sum();
        let rows = components(&profile, &Selection::default());
        prop_assert_eq!(rows.iter().map(|row| row.calls_in).sum::<i64>(), calls);
        prop_assert_eq!(rows.iter().map(|row| row.calls_out).sum::<i64>(), calls);
        prop_assert_eq!(rows.iter().flat_map(|row| &row.others).map(|other| other.calls).sum::<i64>(), calls);
        for by in ["", "thread", "process", "feature", "thread,process,feature"] {
            let rows = flows(&profile, &Selection { by: by.parse::<CutDimensions>().unwrap().of_views().unwrap(), ..Selection::default() });
            prop_assert_eq!(rows.iter().map(|row| row.calls).sum::<i64>(), calls);
            let total: i64 = rows.iter().filter_map(|row| row.total_ns).sum();
            prop_assert_eq!(total, profile.flows.iter().filter_map(|flow| flow.total_ns).sum::<i64>());
        }
        let view = threads(&profile, &Selection::default());
        prop_assert_eq!(view.threads.iter().map(|row| row.busy_ns).sum::<Option<i64>>(), view.groups.iter().map(|g| g.busy_ns).sum::<Option<i64>>());
        prop_assert_eq!(view.groups.iter().map(|group| group.threads).sum::<i64>(), profile.threads.len() as i64);
    }
}
