//! Folded stacks are read by inferno.

use crate::sample_profile;
use inferno::flamegraph;
use transect_profile_export::{ExportError, Format, export};

fn collapsed() -> String {
    let mut bytes = Vec::new();
    export(&sample_profile::profile(), Format::Collapsed, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn inferno_draws_it() {
    let text = collapsed();
    let mut svg = Vec::new();
    let mut options = flamegraph::Options::default();
    options.count_name = "ns".to_owned();
    // Strict: inferno counts lines that it cannot read only in its log, so the sums below are the check.
    flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("all (2,500,000,000 ns, 100%)"), "{svg}");
    assert!(svg.contains("libz.so.1!deflate (600,000,000 ns, 24.00%)"), "{svg}");
    assert!(svg.contains("libz.so.1!deflate (500,000,000 ns, 20.00%)"), "{svg}");
}

#[test]
fn every_line_is_frames_and_a_weight() {
    let text = collapsed();
    let mut sum = 0;
    for line in text.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        sum += weight.parse::<i64>().unwrap();
        let frames = stack.split(';').count();
        assert!(frames == 3 || frames == 4, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert_eq!(sum, sample_profile::SELF_SUM_NS);
}

#[test]
fn counts_have_no_times() {
    let error = export(&sample_profile::counts_only(), Format::Collapsed, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ExportError::NoTimes { format: Format::Collapsed }));
    assert!(error.to_string().contains("export pprof"));
}
