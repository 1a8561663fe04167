//! speedscope files are held against the schema that speedscope publishes (`fixtures/`, from its npm package).

use crate::sample_profile;
use serde_json::Value;
use transect_profile_export::{Format, export};
use transect_profile_model::Profile;

fn exported(profile: &Profile) -> Value {
    let mut bytes = Vec::new();
    export(profile, Format::Speedscope, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn assert_valid(file: &Value) {
    let schema: Value = serde_json::from_str(include_str!("../fixtures/speedscope-file-format-schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(file).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn valid_by_the_published_schema() {
    assert_valid(&exported(&sample_profile::profile()));
    assert_valid(&exported(&sample_profile::counts_only()));
}

#[test]
fn schema_can_refuse() {
    let mut file = exported(&sample_profile::profile());
    file["profiles"][0]["unit"] = "parsecs".into();
    let schema: Value = serde_json::from_str(include_str!("../fixtures/speedscope-file-format-schema.json")).unwrap();
    assert!(!jsonschema::validator_for(&schema).unwrap().is_valid(&file));
}

#[test]
fn self_times_and_calls() {
    let file = exported(&sample_profile::profile());
    let sum = |profile: &Value| profile["weights"].as_array().unwrap().iter().map(|w| w.as_i64().unwrap()).sum::<i64>();
    let profiles = file["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 2);
    assert_eq!(sum(&profiles[0]), sample_profile::SELF_SUM_NS);
    assert_eq!(profiles[0]["endValue"], sample_profile::SELF_SUM_NS);
    assert_eq!([&profiles[0]["unit"], &profiles[1]["unit"]], ["nanoseconds", "none"]);
    assert_eq!(sum(&profiles[1]), 1131);
    // What the schema cannot say: indices point into the frame list.
    let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
    for profile in profiles {
        let samples = profile["samples"].as_array().unwrap();
        assert_eq!(samples.len(), profile["weights"].as_array().unwrap().len());
        assert!(samples.iter().flat_map(|s| s.as_array().unwrap()).all(|f| f.as_u64().unwrap() < frames));
    }
}
