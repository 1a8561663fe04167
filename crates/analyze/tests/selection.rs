//! Which rows a selection keeps, and in which order.

use transect_analyze::synthetic::image_server;
use transect_analyze::{Selection, SortKey, View, apis, callers, components, flows, locks, threads, waits};

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
    assert!("thread,cpu".parse::<transect_analyze::Dimensions>().is_err());
}
