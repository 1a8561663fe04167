//! The models that the project ships.

use std::path::Path;

use transect_feature_model::{FeatureKind, read};

#[test]
fn models_of_programs_are_read_and_drive_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/feature/models");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let model = read(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Some(model.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        for feature in &model.features {
            let reachable = !feature.option.is_empty() || !feature.places.is_empty();
            assert!(reachable || feature.parent.is_some() || feature.is_abstract, "{}: {}", model.name, feature.name);
            if let FeatureKind::Numeric { default, .. } = &feature.kind {
                assert!(default.is_some() || !feature.mandatory, "{}: {} has no default", model.name, feature.name);
            }
        }
        count += 1;
    }
    assert_eq!(count, 9);
}
