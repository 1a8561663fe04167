//! Whatever a program calls its functions, threads and libraries, every export is readable.

use proptest::prelude::*;

use crate::sample_profile::{self, SELF_SUM_NS};
use transect_profile_export::{Format, export};
use transect_profile_model::Profile;

fn exported(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(profile, format, &mut bytes).unwrap();
    bytes
}

fn renamed(names: &[String]) -> Profile {
    let mut profile = sample_profile::profile();
    let mut names = names.iter().cycle().cloned();
    let mut next = || names.next().expect("cycle");
    for flow in &mut profile.flows {
        flow.api = next();
        flow.symbol = next();
    }
    for thread in &mut profile.threads {
        thread.name = next();
        thread.group = next();
    }
    profile.components[1].path = format!("/lib/{}", next());
    profile.meta.command = vec![next()];
    profile
}

proptest! {
    #![proptest_config(ProptestConfig { cases: transect_testkit::cases(24, 300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn collapsed_lines_keep_their_weights(names in prop::collection::vec("\\PC{0,6}|[ ;\\n\\r0-9]{0,6}|.{0,6}", 1..8)) {
        let text = String::from_utf8(exported(&renamed(&names), Format::Collapsed)).unwrap();
        let mut sum = 0;
        for line in text.lines() {
            let (stack, weight) = line.rsplit_once(' ').unwrap();
            prop_assert!(matches!(stack.split(';').count(), 3 | 4), "{}", line);
            sum += weight.parse::<i64>().unwrap();
        }
        prop_assert_eq!(sum, SELF_SUM_NS);
        // inferno skips a line that it cannot read: its total must be ours.
        let mut svg = Vec::new();
        let mut options = inferno::flamegraph::Options::default();
        inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
        let svg = String::from_utf8_lossy(&svg);
        prop_assert!(svg.contains("all (2,500,000,000 samples, 100%)"));
    }

    #[test]
    fn json_formats_parse(names in prop::collection::vec(".{0,6}", 1..8)) {
        for format in [Format::Speedscope, Format::Chrome, Format::Firefox] {
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&exported(&renamed(&names), format));
            prop_assert!(parsed.is_ok(), "{}", format);
        }
    }

    #[test]
    fn csv_has_no_formula_and_is_not_ragged(names in prop::collection::vec("[=+@\\t\\r\\n\",'-].{0,4}|.{0,6}", 1..8)) {
        let bytes = exported(&renamed(&names), Format::Csv);
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes.as_slice());
        for record in reader.records() {
            for cell in &record.unwrap() {
                prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{:?}", cell);
            }
        }
    }
}
