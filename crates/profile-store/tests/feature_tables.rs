//! The tables of features: what is written is what is read, what contradicts itself is refused.

use proptest::prelude::*;
use transect_analyze::synthetic::{
    empty, feature_hostile, feature_listing, feature_packer, image_server, large_features,
};
use transect_profile_model::{
    Component, Dependence, Feature, FeatureRegion, FeatureTables, FeatureVariable, Process, Profile, RegionContext,
    RegionKind, RegionMethod, RegionNode, RegionSlice, Thread, Verdict,
};
use transect_profile_store::{StoreError, read, write};

const TABLES: [&str; 7] =
    ["features", "regions", "region_features", "region_nodes", "region_slices", "region_contexts", "feature_variables"];

fn in_folder<T>(act: impl FnOnce(&std::path::Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    act(&folder.path().join("run.transect"))
}

#[test]
fn realistic_profiles_come_back_unchanged() {
    for profile in [feature_listing(), feature_packer(), feature_hostile(), large_features(3_000, 3, 9)] {
        in_folder(|path| {
            write(path, &profile).unwrap();
            assert!(read(path).unwrap() == profile, "{:?}", profile.meta.command);
        });
    }
}

#[test]
fn profiles_of_versions_without_features_are_read() {
    in_folder(|path| {
        write(path, &image_server()).unwrap();
        let meta = path.join("meta.json");
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
        for table in TABLES {
            value["tables"].as_object_mut().unwrap().remove(table).unwrap();
            std::fs::remove_file(path.join(format!("{table}.parquet"))).unwrap();
        }
        std::fs::write(&meta, transect_profile_store::sealed_meta(value)).unwrap();
        assert_eq!(read(path).unwrap(), image_server());
        write(path, &feature_packer()).unwrap();
        assert!(read(path).unwrap() == feature_packer(), "and replaced");
    });
}

#[test]
fn rows_that_contradict_others_are_refused() {
    type Change = fn(&mut Profile);
    let changes: [(&str, Change); 14] = [
        ("regions row 1 points to a missing row", |p| p.feature.regions[1].component = 99),
        ("regions row 2 points to a missing row", |p| p.feature.regions[2].features = vec![0, 99]),
        ("regions row 3 points to a missing row", |p| p.feature.regions[3].parent = Some(99)),
        ("regions row 2 has features out of order", |p| p.feature.regions[2].features = vec![3, 0]),
        ("regions row 2 has features out of order", |p| p.feature.regions[2].features = vec![3, 3]),
        ("region_nodes row 0 points to a missing row", |p| p.feature.nodes[0].thread = 99),
        ("region_nodes row 1 points to a missing row", |p| p.feature.nodes[1].region = Some(99)),
        ("region_nodes row 1 does not come after its parent", |p| p.feature.nodes[1].parent = Some(1)),
        ("region_nodes row 1 has a region but no parent", |p| p.feature.nodes[1].parent = None),
        ("region_nodes row 1 has a parent but no region", |p| p.feature.nodes[1].region = None),
        ("region_nodes row 1 is of another thread than its parent", |p| p.feature.nodes[1].thread = 1),
        ("region_slices row 7 points to a missing row", |p| p.feature.slices[7].node = 9_999),
        ("region_contexts row 1 points to a missing row", |p| p.feature.contexts[1].regions = vec![0, 99]),
        ("feature_variables row 0 points to a missing row", |p| p.feature.variables[0].feature = 99),
    ];
    for (why, change) in changes {
        let mut profile = feature_packer();
        change(&mut profile);
        in_folder(|path| match write(path, &profile).unwrap_err() {
            StoreError::Inconsistent { why: found, .. } => {
                assert_eq!(found, why);
                assert!(!path.exists());
            }
            other => panic!("{other}"),
        });
    }
}

#[test]
fn a_cost_that_is_no_number_does_not_break_the_profile() {
    let mut profile = feature_listing();
    profile.meta.feature.as_mut().unwrap().event_ns = f64::NAN;
    in_folder(|path| {
        write(path, &profile).unwrap();
        assert_eq!(read(path).unwrap().meta.feature.unwrap().event_ns, 0.0);
    });
}

/// Takes one table of another profile: each is sound, together they are not.
#[test]
fn tables_of_two_profiles_do_not_read_as_one() {
    let mixed = |table: &str, own: &Profile, other: &Profile| {
        in_folder(|path| {
            write(path, other).unwrap();
            let file = format!("{table}.parquet");
            let content = std::fs::read(path.join(&file)).unwrap();
            let listed = |path: &std::path::Path| -> serde_json::Value {
                serde_json::from_slice(&std::fs::read(path.join("meta.json")).unwrap()).unwrap()
            };
            let foreign = listed(path)["tables"][table].clone();
            write(path, own).unwrap();
            std::fs::write(path.join(&file), content).unwrap();
            let mut meta = listed(path);
            meta["tables"][table] = foreign;
            std::fs::write(path.join("meta.json"), transect_profile_store::sealed_meta(meta)).unwrap();
            match read(path).unwrap_err() {
                StoreError::Corrupt { path, why } => {
                    assert!(path.ends_with(&file), "{}", path.display());
                    why
                }
                other => panic!("{other}"),
            }
        })
    };
    let (small, large) = (feature_listing(), feature_packer());
    assert!(mixed("region_features", &small, &large).contains("does not exist"));
    assert!(mixed("region_nodes", &small, &large).contains("does not exist"));
    assert!(mixed("region_slices", &small, &large).contains("does not exist"));
    assert!(mixed("region_contexts", &small, &large).contains("does not exist"));
    assert!(mixed("feature_variables", &small, &large).contains("does not exist"));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,9}", Just("a\0b\n\u{1b}[31m\u{202e},".to_owned())]
}

fn method() -> impl Strategy<Value = RegionMethod> {
    prop::sample::select(RegionMethod::ALL.to_vec())
}

prop_compose! {
    /// Of two threads, each with a root.
    fn tables()(
        features in prop::collection::vec(text(), 1..5),
        regions in prop::collection::vec(
            (prop::collection::vec(any::<prop::sample::Index>(), 0..4), prop::sample::select(RegionKind::ALL.to_vec()), text(), text(), any::<[i64; 4]>(),
             (prop::option::of(any::<prop::sample::Index>()), prop::option::of(text()), prop::option::of(method()))), 1..6),
        nodes in prop::collection::vec((any::<(prop::sample::Index, prop::sample::Index)>(), method(), prop::option::of(any::<i64>()), prop::option::of(any::<i64>()), any::<[i64; 4]>()), 2..20),
        slices in prop::collection::vec((any::<prop::sample::Index>(), any::<[i64; 2]>()), 0..8),
        contexts in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 0..5),
        variables in prop::collection::vec((any::<prop::sample::Index>(), text(), prop::option::of(text())), 0..4),
    ) -> FeatureTables {
        let (some, many) = (features.len(), regions.len());
        let regions = regions.into_iter().map(|(set, kind, function, file, n, (parent, irregular, method))| {
            let mut features: Vec<u32> = set.into_iter().map(|index| index.index(some) as u32).collect();
            features.sort_unstable();
            features.dedup();
            let dependences = (0..features.len()).map(|place| Dependence::ALL[place % Dependence::ALL.len()]).collect();
            let verdicts = (0..features.len()).map(|place| [None, Some(Verdict::Unseen), Some(Verdict::Confirmed)][place % 3]).collect();
            FeatureRegion {
                component: 0, number: n[0], features, dependences, verdicts, kind, function, file, line: n[1], end_line: n[2],
                parent: parent.map(|parent| parent.index(many) as u32), sites: n[3], irregular, method,
            }
        }).collect();
        let mut tables = FeatureTables {
            features: features.into_iter().map(|name| Feature { name }).collect(),
            regions,
            ..FeatureTables::default()
        };
        for (row, ((parent, region), method, entries, cpu_ns, n)) in nodes.into_iter().enumerate() {
            let parent = (row >= 2).then(|| parent.index(row));
            tables.nodes.push(RegionNode {
                thread: parent.map_or(row as u32, |parent| tables.nodes[parent].thread),
                parent: parent.map(|parent| parent as u32),
                region: parent.map(|_| region.index(many) as u32),
                method, entries, cpu_ns,
                exclusive_ns: n[0], exclusive_ns_low: n[1], exclusive_ns_high: n[2], samples: n[3],
            });
        }
        let count = tables.nodes.len();
        tables.slices = slices.into_iter().map(|(node, n)| RegionSlice {
            node: node.index(count) as u32, start_ns: n[0], duration_ns: n[1],
        }).collect();
        tables.contexts = contexts.into_iter().map(|regions| RegionContext {
            regions: regions.into_iter().map(|index| index.index(many) as u32).collect(),
        }).collect();
        tables.variables = variables.into_iter().map(|(feature, variable, lost)| FeatureVariable {
            component: 0, feature: feature.index(some) as u32, variable, lost,
        }).collect();
        tables
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(16, 200)))]

    #[test]
    fn any_tables_come_back_unchanged(tables in tables()) {
        let mut profile = empty();
        profile.components = vec![Component { path: "/a".into(), build_id: String::new(), executable: true, synthetic: false, static_in: None }];
        profile.processes = vec![Process { pid: 1, parent_pid: 0, executable: "/a".into(), start_ns: 0, wall_ns: 0 }];
        let thread: Thread = feature_listing().threads.remove(0);
        profile.threads = vec![Thread { process: 0, ..thread.clone() }, Thread { process: 0, ..thread }];
        profile.feature = tables;
        in_folder(|path| {
            write(path, &profile).unwrap();
            prop_assert!(read(path).unwrap() == profile);
            Ok(())
        })?;
    }
}
