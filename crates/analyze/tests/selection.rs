//! Which rows a selection keeps, and in which order.

use transect_analyze::synthetic::{image_server, scheduled_compressor};
use transect_analyze::{Selection, SortKey, View, apis, callers, components, flows, locks, threads, totals, waits};
use transect_profile_model::{Lock, Profile, SchedSession, Task, Thread, Timing};

fn select() -> Selection {
    Selection::default()
}

#[test]
fn callers_of_an_api_are_listed_longest_first() {
    let rows = callers(
        &image_server(),
        &Selection { component: Some("libc.so.6".into()), api: Some("memcpy".into()), ..select() },
    );
    let callers: Vec<&str> = rows.iter().map(|row| row.caller.as_str()).collect();
    assert_eq!(callers, ["libjpeg.so.62", "libz.so.1", "fast/libscale.so"]);
    assert!(rows.iter().all(|row| row.api == "memcpy" && row.version == "GLIBC_2.14"));
}

#[test]
fn components_of_one_file_name_are_told_apart() {
    let rows = callers(&image_server(), &Selection { api: Some("scale_rows".into()), ..select() });
    let callees: Vec<&str> = rows.iter().map(|row| row.callee.as_str()).collect();
    assert_eq!(callees, ["fast/libscale.so", "fine/libscale.so"]);
    let rows = components(&image_server(), &Selection { component: Some("fine/libscale.so".into()), ..select() });
    assert_eq!(rows.len(), 1);
    assert_eq!(components(&image_server(), &Selection { component: Some("libscale".into()), ..select() }).len(), 2);
}

#[test]
fn api_view_shows_what_a_component_offers_and_what_it_calls() {
    let view = apis(&image_server(), &Selection { component: Some("libz*".into()), ..select() });
    let names = |groups: &[transect_analyze::ApiGroup]| groups.iter().map(|g| g.api.clone()).collect::<Vec<_>>();
    assert_eq!(names(&view.incoming), ["deflate", "crc32"]);
    assert_eq!(names(&view.outgoing), ["memcpy"]);
    assert_eq!(view.rows().len(), 3);
    let all = apis(&image_server(), &select());
    assert!(all.outgoing.is_empty());
    let memcpy = all.incoming.iter().find(|group| group.api == "memcpy").unwrap();
    assert_eq!(memcpy.callers.len(), 3);
    assert_eq!(memcpy.calls, memcpy.callers.iter().map(|row| row.calls).sum::<i64>());
    assert_eq!(memcpy.total_ns, memcpy.callers.iter().map(|row| row.total_ns).sum());
}

#[test]
fn sort_keys_order_rows() {
    let profile = image_server();
    let sorted = |key| flows(&profile, &Selection { sort: Some(key), ..select() });
    assert!(sorted(SortKey::Total).is_sorted_by_key(|row| std::cmp::Reverse(row.total_ns)));
    assert!(sorted(SortKey::SelfTime).is_sorted_by_key(|row| std::cmp::Reverse(row.self_ns)));
    assert!(sorted(SortKey::Attributed).is_sorted_by_key(|row| std::cmp::Reverse(row.attributed_ns)));
    assert!(sorted(SortKey::Calls).is_sorted_by_key(|row| std::cmp::Reverse(row.calls)));
    assert!(sorted(SortKey::Bytes).is_sorted_by_key(|row| std::cmp::Reverse(row.bytes)));
    assert!(sorted(SortKey::Name).is_sorted_by(|a, b| a.api <= b.api));
    assert!(sorted(SortKey::Wait)[0].wait);
}

#[test]
fn locks_that_are_waited_for_come_before_those_that_are_held() {
    let mut profile = image_server();
    let lock =
        |object: &str, wait_ns, hold_ns, of: &Lock| Lock { object: object.into(), wait_ns, hold_ns, ..of.clone() };
    profile.locks = vec![lock("held", 1, 9, &profile.locks[0]), lock("waited for", 2, 1, &profile.locks[0])];
    let objects: Vec<String> = locks(&profile, &select()).into_iter().map(|row| row.object).collect();
    assert_eq!(objects, ["waited for", "held"]);
}

#[test]
fn top_and_min_percent_cut() {
    let profile = image_server();
    let all = flows(&profile, &select());
    let top = flows(&profile, &Selection { top: Some(3), ..select() });
    assert_eq!(top[..], all[..3]);
    let heavy = flows(&profile, &Selection { min_percent: Some(5.0), ..select() });
    assert!(!heavy.is_empty() && heavy.len() < all.len());
    let attributed: i64 = profile.threads.iter().map(|thread| thread.attributed_ns).sum();
    assert!(heavy.iter().all(|row| row.attributed_ns.unwrap() as f64 >= attributed as f64 * 0.05));
    assert!(components(&profile, &Selection { min_percent: Some(10.0), ..select() }).len() < profile.components.len());
}

#[test]
fn threads_waits_and_locks_follow_the_selection() {
    let profile = image_server();
    let view = threads(&profile, &Selection { component: Some("imgserver".into()), top: Some(2), ..select() });
    assert_eq!((view.threads.len(), view.groups.len()), (2, 3));
    let worker = view.groups.iter().find(|group| group.group == "worker").unwrap();
    assert_eq!(worker.threads, 4);
    assert!((1.0..1.2).contains(&worker.imbalance.unwrap()) && worker.busy_ratio.unwrap() > 4.0);
    let rows = waits(&profile, &Selection { api: Some("pthread_cond_wait".into()), ..select() });
    let groups: Vec<(&str, i64)> = rows.iter().map(|row| (row.group.as_str(), row.count)).collect();
    assert_eq!(groups, [("writer", 5_100), ("worker", 5_200)]);
    assert_eq!(locks(&profile, &Selection { api: Some("Queue::push".into()), ..select() }).len(), 1);
    assert_eq!(locks(&profile, &Selection { component: Some("libz".into()), ..select() }).len(), 0);
    assert_eq!(locks(&profile, &Selection { sort: Some(SortKey::Calls), ..select() })[0].acquisitions, 25_200);
}

#[test]
fn words_parse_and_mistakes_name_the_choices() {
    for view in View::ALL {
        assert_eq!(view.as_str().parse(), Ok(view));
    }
    assert_eq!(View::Callers.json_key(), "flows");
    let error = "size".parse::<SortKey>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown sort key `size`: use one of total, self, attributed, wait, calls, bytes, mean, p99, max, name"
    );
}

/// Calls, scheduler events and a replaced program: whoever saw a thread, it has one row.
#[test]
fn a_thread_is_one_row_whatever_collectors_saw_it() {
    let mut profile = image_server();
    let first = profile.threads[0].clone();
    let alone = profile.threads.len();
    // Its program is replaced at the end: the same thread goes on in another program's process.
    let mut program = profile.processes[first.process as usize].clone();
    program.executable = "/usr/bin/next".into();
    profile.processes.push(program);
    profile.threads.push(Thread {
        process: profile.processes.len() as u32 - 1,
        name: "next".into(),
        start_ns: first.start_ns + first.wall_ns,
        wall_ns: 1_000,
        busy_ns: 1_000,
        wait_ns: 0,
        ..first.clone()
    });
    let both = threads(&profile, &select());
    assert_eq!((both.threads.len(), totals(&profile).threads), (alone, alone as i64));
    let row = both.threads.iter().find(|row| row.tid == first.tid).unwrap();
    assert_eq!((row.name.as_str(), row.executable.as_str()), ("next", "next"));
    assert_eq!((row.wall_ns, row.calls), (first.wall_ns + 1_000, Some(2 * first.calls)));
    assert_eq!((row.start_ns, row.on_cpu_ns), (first.start_ns, None));

    // The scheduler has the first thread whole, and one whose calls nobody counted.
    let task = |tid: i32, start_ns: i64, end_ns: i64| Task {
        process: first.process,
        tid,
        name: "seen".into(),
        group: "seen".into(),
        parent: None,
        start_ns,
        end_ns,
        criticality_ns: 70,
        running_ns: 40,
        runnable_ns: 20,
        blocked_ns: 10,
        unattributed_ns: 0,
        ..Task::default()
    };
    profile.meta.criticality = scheduled_compressor(10, 2).meta.criticality;
    profile.sched.tasks = vec![task(first.tid, 0, first.start_ns + first.wall_ns + 1_000), task(99_999, 5, 75)];
    let all = threads(&profile, &select());
    assert_eq!((all.threads.len(), totals(&profile).threads), (alone + 1, alone as i64 + 1));
    let seen = |tid: i32| all.threads.iter().find(|row| row.tid == tid).unwrap();
    let times = |tid: i32| (seen(tid).on_cpu_ns, seen(tid).runnable_ns, seen(tid).blocked_ns);
    assert_eq!(times(first.tid), (Some(40), Some(20), Some(10)));
    assert_eq!(times(99_999), times(first.tid));

    // It waited before its calls were counted, too.
    let mut longer = profile.clone();
    longer.sched.tasks[0].blocked_ns = first.wall_ns + 5_000;
    let longer = threads(&longer, &select());
    let row = longer.threads.iter().find(|row| row.tid == first.tid).unwrap();
    let wait_ns = row.wait_ns.unwrap();
    assert_eq!((row.wall_ns, row.busy_ns.unwrap() + wait_ns), (first.wall_ns + 5_060, row.wall_ns));
    assert!(wait_ns >= first.wall_ns + 5_000, "{wait_ns}");
    // What it did not run it waited, whatever its calls tell; in a queue it was in calls that wait, as far as they are longer
    // than the scheduler's waits.
    let row = seen(first.tid);
    assert_eq!((row.busy_ns, row.wait_ns), (Some(40), Some(row.wall_ns - 40)));
    for (called_ns, busy_ns) in [(0, 60), (10, 60), (15, 55), (30, 40)] {
        let mut profile = profile.clone();
        profile.threads.iter_mut().filter(|thread| thread.tid == first.tid).for_each(|thread| thread.wait_ns = 0);
        profile.threads[0].wait_ns = called_ns;
        let all = threads(&profile, &select());
        assert_eq!(all.threads.iter().find(|row| row.tid == first.tid).unwrap().busy_ns, Some(busy_ns));
    }
    let other = seen(99_999);
    assert_eq!((other.calls, other.wall_ns, other.busy_ns, other.wait_ns), (None, 70, Some(60), Some(10)));
    assert!(all.threads.iter().filter(|row| row.on_cpu_ns.is_none()).count() == alone - 1);
}

/// Calls that were counted and not timed don't tell when a thread waited: the scheduler does, or samples, or nobody.
#[test]
fn counts_alone_do_not_tell_who_was_busy() {
    let mut profile = image_server();
    profile.meta.timing = Timing::Count;
    let counted = threads(&profile, &select());
    assert!(counted.threads.iter().all(|row| row.busy_ns.is_none() && row.wait_ns.is_none() && row.wall_ns > 0));
    assert!(counted.groups.iter().all(|group| group.busy_ns.is_none() && group.imbalance.is_none()));
    assert!(counted.groups.iter().all(|group| group.mean_busy_ns.is_none() && group.max_busy_ns.is_none()));

    // One thread has slept, and the scheduler has it; another one it has lost.
    let (slept, lost) = (profile.threads[0].clone(), profile.threads[1].clone());
    let blocked_ns = slept.wall_ns - 10;
    profile.sched.tasks = vec![Task {
        process: slept.process,
        tid: slept.tid,
        start_ns: slept.start_ns,
        end_ns: slept.start_ns + slept.wall_ns,
        running_ns: 7,
        runnable_ns: 3,
        blocked_ns,
        ..Task::default()
    }];
    let row = |profile: &Profile, tid: i32| {
        let view = threads(profile, &select());
        let row = view.threads.into_iter().find(|row| row.tid == tid).unwrap();
        (row.busy_ns, row.wait_ns)
    };
    // An estimate from the counts themselves knows no more than they do; one from samples does.
    let scheduled = scheduled_compressor(10, 2).meta.criticality;
    profile.meta.criticality = scheduled.clone().map(|session| SchedSession { estimate: true, ..session });
    assert_eq!(row(&profile, slept.tid), (None, None));
    profile.meta.collectors.push("samples".into());
    assert_eq!(row(&profile, slept.tid), (Some(10), Some(blocked_ns)));
    profile.meta.criticality = scheduled;
    assert_eq!((row(&profile, slept.tid), row(&profile, lost.tid)), ((Some(10), Some(blocked_ns)), (None, None)));
}

/// A thread that is woken waits for its CPU to wake up, too: where no other program ran, none can have had it.
#[test]
fn other_programs_had_the_cpus_only_as_long_as_they_ran() {
    let mut profile = scheduled_compressor(200, 2);
    for task in &mut profile.sched.tasks {
        task.runnable_ns += 10_000_000_000;
    }
    let others = |profile: &_| totals(profile).scheduled.unwrap().others_ns;
    assert!(others(&profile) > 10_000_000_000, "without a word of the machine");
    let on_cpu_ns = totals(&profile).scheduled.unwrap().on_cpu_ns;
    profile.meta.machine_busy_ns = Some(on_cpu_ns + 70_000_000);
    assert_eq!(others(&profile), 70_000_000);
    profile.meta.machine_busy_ns = Some(0);
    assert_eq!(others(&profile), 0);
}
