//! The results as text, picture and JSON.

use transect_calibrate::probe_cost::ProbeCost;
use transect_calibrate::toggle::{SPLITS, ToggleCost};
use transect_calibrate::wait::WaitFailures;
use transect_calibrate::{Calibration, svg, text};

fn sample(failures: u64, cpus: usize) -> Calibration {
    let toggle = |split| ToggleCost { split, on_ticks: 9.0, off_ticks: 8.5, bulk_ticks: 3.5 };
    let mut wait_curve = Vec::new();
    for wait in [0, 1000] {
        for cold in [false, true] {
            wait_curve.extend(SPLITS.map(|split| WaitFailures {
                wait_ticks: Some(wait),
                split,
                cold,
                toggles: 1000,
                failures: if cold && wait == 0 && split > 0 { failures } else { 0 },
                executed: 5000,
            }));
        }
    }
    Calibration {
        cpus,
        clock_ticks: 24.5,
        ticks_per_ns: 2.6,
        toggle: SPLITS.map(toggle).into(),
        probe: vec![ProbeCost { tier: "integer", ticks: 5.0, entry_ticks: 7.0, paired_ticks: 9.0 }],
        membarrier_ticks: Some(20_000.0),
        serialized: vec![WaitFailures { wait_ticks: None, split: 1, cold: true, toggles: 9, failures: 0, executed: 1 }],
        wait_curve,
    }
}

#[test]
fn json_has_the_promised_keys() {
    let json = serde_json::to_value(sample(3, 2)).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for key in ["clock_ticks", "ticks_per_ns", "toggle", "probe", "wait_curve"] {
        assert!(json.get(key).is_some(), "{key}");
    }
    for key in ["split", "on_ticks", "off_ticks", "bulk_ticks"] {
        assert!(keys(&json["toggle"][0]).contains(&key.to_owned()), "{key}");
    }
    for key in ["tier", "ticks"] {
        assert!(keys(&json["probe"][0]).contains(&key.to_owned()), "{key}");
    }
    for key in ["wait_ticks", "split", "cold", "toggles", "failures"] {
        assert!(keys(&json["wait_curve"][0]).contains(&key.to_owned()), "{key}");
    }
}

#[test]
fn text_tells_failures_and_their_absence() {
    let failed = text(&sample(3, 2));
    assert!(failed.contains("12 failures in 16000 toggles with waits, the longest such wait 0 ticks"), "{failed}");
    let clean = text(&sample(0, 2));
    assert!(clean.contains("shows none at any wait"), "{clean}");
    assert!(clean.contains("no proof"), "{clean}");
    assert!(text(&sample(0, 1)).contains("one CPU only"), "{clean}");
    assert!(failed.lines().all(|line| line.chars().count() <= 96), "{failed}");
}

#[test]
fn the_picture_is_well_formed() {
    for calibration in [sample(3, 2), sample(0, 2), sample(1000, 1)] {
        let picture = svg(&calibration);
        let document = roxmltree::Document::parse(&picture).expect("well-formed");
        let circles = document.descendants().filter(|node| node.has_tag_name("circle")).count();
        // Four splits, two waits, hot and cold; one with membarrier; four in the legend.
        assert_eq!(circles, 16 + 1 + 4);
        assert!(!picture.contains("NaN") && !picture.contains("inf\""), "{picture}");
    }
}
