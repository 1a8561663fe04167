//! Time per feature against sums made the slow way, and the thesis' listing 2.2 by hand.

use std::collections::BTreeSet;

use transect_analyze::synthetic::{feature_hostile, feature_listing, feature_packer, large_features};
use transect_analyze::{
    FeatureRow, FeaturesView, FindingKind, RegionRow, Selection, features, flows, full_report, region_timeline,
    region_tree, summary,
};
use transect_profile_model::{Profile, RegionMethod};

const SECOND: i64 = 1_000_000_000;

fn view(profile: &Profile) -> FeaturesView {
    features(profile, &Selection::default())
}

fn row<'a>(view: &'a FeaturesView, features: &[&str]) -> &'a FeatureRow {
    view.features.iter().find(|row| row.features == features).unwrap_or_else(|| panic!("no row {features:?}"))
}

/// Features, inclusive, exclusive and decided seconds, entries.
type FeatureSums<'a> = (Vec<&'a str>, i64, i64, i64, Option<i64>);

#[test]
fn listing_of_the_thesis() {
    let view = view(&feature_listing());
    let told: Vec<FeatureSums<'_>> = view
        .features
        .iter()
        .map(|row| {
            let names = row.features.iter().map(String::as_str).collect();
            (names, row.inclusive_ns / SECOND, row.exclusive_ns / SECOND, row.decided_ns / SECOND, row.entries)
        })
        .collect();
    assert_eq!(
        told,
        [
            (vec![], 12, 1, 1, None),
            (vec!["A"], 9, 2, 9, Some(1)),
            // R2, and R4 inside of R3.
            (vec!["A", "B"], 7, 7, 4, Some(2)),
            (vec!["B"], 9, 2, 6, Some(1)),
        ]
    );
    let named: Vec<(u32, i64, String)> =
        view.regions.iter().map(|row| (row.id, row.line, row.features.join(","))).collect();
    assert_eq!(named, [(1, 17, "A,B".into()), (3, 25, "A".into()), (2, 22, "B".into()), (0, 12, "A".into())]);
    let timed: Vec<(i64, i64)> =
        view.regions.iter().map(|row| (row.inclusive_ns / SECOND, row.exclusive_ns / SECOND)).collect();
    assert_eq!(timed, [(4, 4), (3, 3), (5, 2), (2, 2)]);
    assert!(view.regions.iter().all(|row| row.entries == Some(1)));
    assert_eq!(view.regions[1].parent, Some(2), "R4 lies in R3");
    assert!(
        view.features.iter().all(|row| row.method == "trace" && row.threads == 1 && row.exclusive_ns_low.is_none())
    );
}

#[test]
fn findings_name_features_and_what_they_do_together() {
    let findings = summary(&feature_listing());
    let said: Vec<&str> = findings.iter().map(|row| row.finding.as_str()).collect();
    assert!(said.contains(&"Feature A decides 75 % of the threads' time"), "{said:?}");
    assert!(said.contains(&"A and B together take 58 % of the threads' time"), "{said:?}");
    assert!(findings.iter().all(|row| row.view == "features"));

    let kinds: Vec<FindingKind> = summary(&feature_packer()).iter().map(|row| row.kind).collect();
    for kind in [FindingKind::HeavyFeature, FindingKind::FeatureInteraction, FindingKind::FeatureGap] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

/// Regions on a node's stack, innermost first.
fn stack(profile: &Profile, node: usize) -> Vec<u32> {
    let mut regions = Vec::new();
    let mut at = Some(node);
    while let Some(id) = at {
        let node = &profile.feature.nodes[id];
        regions.extend(node.region);
        at = node.parent.map(|parent| parent as usize);
    }
    regions
}

#[test]
fn rows_are_what_the_definitions_say() {
    for profile in [feature_listing(), feature_packer(), feature_hostile(), large_features(6_000, 5, 9)] {
        let view = view(&profile);
        let tables = &profile.feature;
        let whole: i64 = tables.nodes.iter().map(|node| node.exclusive_ns).sum();
        assert_eq!(view.features.iter().map(|row| row.exclusive_ns).sum::<i64>(), whole, "a partition");
        assert_eq!(whole, profile.threads.iter().map(|thread| thread.wall_ns).sum::<i64>());
        let entries = |rows: &mut dyn Iterator<Item = Option<i64>>| rows.flatten().sum::<i64>();
        let by_set = entries(&mut view.features.iter().map(|row| row.entries));
        assert_eq!(by_set, entries(&mut view.regions.iter().map(|row| row.entries)));

        let sets: Vec<BTreeSet<&str>> = (0..tables.nodes.len())
            .map(|id| {
                let features = stack(&profile, id).into_iter().flat_map(|r| &tables.regions[r as usize].features);
                features.map(|&f| tables.features[f as usize].name.as_str()).collect()
            })
            .collect();
        for row in &view.features {
            let set: BTreeSet<&str> = row.features.iter().map(String::as_str).collect();
            let sum = |wanted: &dyn Fn(&BTreeSet<&str>) -> bool| -> i64 {
                tables.nodes.iter().zip(&sets).filter(|(_, of)| wanted(of)).map(|(node, _)| node.exclusive_ns).sum()
            };
            assert_eq!(row.exclusive_ns, sum(&|of| *of == set), "{set:?}");
            assert_eq!(row.inclusive_ns, sum(&|of| set.is_subset(of)), "{set:?}");
            let decided: i64 = tables
                .nodes
                .iter()
                .filter(|node| match node.region {
                    None => set.is_empty(),
                    Some(region) => {
                        let own = &tables.regions[region as usize].features;
                        let own: BTreeSet<&str> =
                            own.iter().map(|&f| tables.features[f as usize].name.as_str()).collect();
                        !own.is_empty() && !set.is_empty() && set.is_subset(&own)
                    }
                })
                .map(|node| node.exclusive_ns)
                .sum();
            assert_eq!(row.decided_ns, decided, "{set:?}");
            let threads: BTreeSet<u32> = tables
                .nodes
                .iter()
                .zip(&sets)
                .filter(|(node, of)| set.is_subset(of) && (node.exclusive_ns > 0 || node.entries.unwrap_or(0) > 0))
                .map(|(node, _)| node.thread)
                .collect();
            assert_eq!(row.threads, threads.len() as i64, "{set:?}");
        }
        for row in &view.regions {
            let of = |id: usize| tables.nodes[id].exclusive_ns;
            let innermost = (0..sets.len()).filter(|&id| tables.nodes[id].region == Some(row.id));
            assert_eq!(row.exclusive_ns, innermost.map(of).sum::<i64>());
            // Recursion: each node once, however often the region is on its stack.
            let anywhere = (0..sets.len()).filter(|&id| stack(&profile, id).contains(&row.id));
            assert_eq!(row.inclusive_ns, anywhere.map(of).sum::<i64>());
        }
        let rows = view.regions.len();
        assert_eq!(rows, tables.regions.len(), "also those that never ran");
        assert!(view.regions.is_sorted_by(|a, b| a.exclusive_ns >= b.exclusive_ns));
    }
}

#[test]
fn what_was_not_measured_is_not_zero() {
    let view = view(&feature_packer());
    let region = |function: &str| -> &RegionRow {
        view.regions.iter().find(|row| row.function.starts_with(function)).unwrap_or_else(|| panic!("{function}"))
    };
    let sampled = region("longest_match");
    assert_eq!((sampled.entries, sampled.method.as_str()), (None, "sample"));
    let (low, high) = (sampled.exclusive_ns_low.unwrap(), sampled.exclusive_ns_high.unwrap());
    assert!(low < sampled.exclusive_ns && sampled.exclusive_ns < high);
    let irregular = region("Key::derive");
    assert_eq!((irregular.entries, irregular.method.as_str()), (None, ""));
    assert_eq!(region("report_progress").entries, Some(0), "observed, never entered");
    assert_eq!(row(&view, &["Verbose"]).entries, Some(0));
    assert_eq!(row(&view, &["Level", "Threads"]).method, "trace+sample");
    assert_eq!(view.lost.len(), 2);
    assert_eq!(view.without_regions, ["Sparse"]);
}

#[test]
fn a_recording_without_features_has_empty_rows() {
    let report = full_report(&transect_analyze::synthetic::image_server(), &Selection::default());
    assert_eq!(report.features, FeaturesView::default());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((json["features"].to_string(), json["regions"].to_string()), ("[]".into(), "[]".into()));
    let json = serde_json::to_value(view(&feature_listing())).unwrap();
    assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), ["features", "regions"], "these two and no other");
}

#[test]
fn flows_are_split_by_what_was_active() {
    let profile = feature_packer();
    let selection = Selection {
        by: transect_analyze::Dimensions { feature: true, ..Default::default() },
        api: Some("memcpy".into()),
        ..Selection::default()
    };
    let rows = flows(&profile, &selection);
    let named: Vec<&str> = rows.iter().map(|row| row.feature.as_deref().unwrap()).collect();
    assert_eq!(named, ["Level, Threads", "Encrypt"]);
    let split: i64 = rows.iter().map(|row| row.calls).sum();
    let whole = flows(&profile, &Selection { api: Some("memcpy".into()), ..Selection::default() });
    assert_eq!(split, whole[0].calls);
}

/// Where each set's time is: own code and callees together are all of it.
#[test]
fn components_divide_the_time_of_each_set() {
    let view = view(&feature_packer());
    for row in &view.features {
        let parts = view.components.iter().filter(|part| part.features == row.features).map(|part| part.self_ns);
        assert_eq!(parts.sum::<i64>(), row.exclusive_ns, "{:?}", row.features);
    }
    let deflated: i64 = view.apis.iter().filter(|api| api.features == ["Level"]).map(|api| api.calls).sum();
    assert_eq!(deflated, 330, "codec_block by three workers");
}

#[test]
fn trees_and_timelines_hold_all_time() {
    for profile in [feature_packer(), large_features(400_000, 4, 40)] {
        let tree = region_tree(&profile);
        let whole: i64 = profile.feature.nodes.iter().map(|node| node.exclusive_ns).sum();
        assert_eq!(tree.exclusive_ns.iter().sum::<i64>(), whole, "what is left out is its parent's");
        assert!(tree.parent.len() <= 30_001, "{}", tree.parent.len());
        assert!((1..tree.parent.len()).all(|row| (0..row as i32).contains(&tree.parent[row])));
        let timeline = region_timeline(&profile);
        assert_eq!(timeline.region.len() + timeline.left_out, profile.feature.slices.len());
        assert!(timeline.region.len() <= 200_000);
        let key = |at: usize| (timeline.thread[at], timeline.start_ns[at]);
        assert!((1..timeline.region.len()).all(|at| key(at - 1) <= key(at)));
    }
}

#[test]
fn selections_narrow_and_sort() {
    let profile = feature_packer();
    let select = |selection: Selection| features(&profile, &selection);
    let codec = select(Selection { component: Some("libcodec*".into()), ..Selection::default() });
    assert_eq!(codec.regions.iter().map(|row| row.function.as_str()).collect::<Vec<_>>(), ["codec_block"]);
    let flush = select(Selection { api: Some("Writer::flush".into()), ..Selection::default() });
    assert_eq!(flush.regions.len(), 2);
    let top = select(Selection { top: Some(2), sort: Some("calls".parse().unwrap()), ..Selection::default() });
    let whole = view(&profile);
    assert_eq!((top.features.len(), top.regions.len()), (3, 2));
    assert!(top.features.iter().any(|row| row.features.is_empty()), "code of no feature is the rest");
    assert_eq!(top.silent, whole.regions.iter().filter(|row| !row.has_run()).cloned().collect::<Vec<_>>());
    assert!(top.regions[0].entries >= top.regions[1].entries);
    let large = select(Selection { min_percent: Some(10.0), ..Selection::default() });
    assert!(large.features.len() < view(&profile).features.len());
    assert!(view(&profile).session.unwrap().methods.contains(&RegionMethod::Sample));
}
