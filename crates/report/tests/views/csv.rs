//! CSV of each view: every key of a row has its column.

use std::collections::BTreeSet;

use serde_json::Value;
use transect_report::{ReportError, Rows, csv, json};

use crate::sample_rows::{content, flows, full_report, views};

#[test]
fn columns_cover_every_key() {
    for (name, content) in views() {
        if name.starts_with("overview") || name == "meta" {
            continue;
        }
        let (mut text, mut object) = (Vec::new(), Vec::new());
        csv::render(&content, &mut text).unwrap();
        json::render(&content, &mut object).unwrap();
        let text = String::from_utf8(text).unwrap();
        let columns: BTreeSet<&str> = text.lines().next().unwrap().split(',').collect();
        let object: Value = serde_json::from_slice(&object).unwrap();
        if name.starts_with("features") {
            let rows = transect_profile_export::csv::feature_rows(object.as_object().unwrap().clone());
            for key in rows.iter().flat_map(|row| row.as_object().unwrap().keys()) {
                assert!(columns.contains(key.as_str()), "{name}: {key}");
            }
            continue;
        }
        let rows = object.as_object().unwrap().values().next().unwrap();
        // Of the criticality view, its call paths; of the walk, frames of chains; null without one.
        let chains = rows.get("chains").and_then(Value::as_array);
        let frames = chains.map(|chains| Value::Array(transect_profile_export::csv::walk_rows(chains.clone())));
        let rows = rows.get("paths").or(frames.as_ref()).unwrap_or(rows).as_array().map_or(&[][..], Vec::as_slice);
        for key in rows.iter().flat_map(|row| row.as_object().unwrap().keys()) {
            assert!(columns.contains(key.as_str()), "{name}: {key}");
        }
    }
}

/// A row with every optional field has no key outside of the columns either.
#[test]
fn columns_cover_optional_keys() {
    let mut row = flows().remove(0);
    row.self_ns_low = Some(1);
    row.self_ns_high = Some(1);
    row.criticality_ns = Some(1);
    row.p50_ns = Some(1);
    row.p99_ns = Some(1);
    row.max_ns = Some(1);
    row.bytes = Some(1);
    row.thread = Some("t".into());
    row.tid = Some(1);
    row.process = Some(1);
    row.feature = Some("f".into());
    let keys = serde_json::to_value(&row).unwrap();
    let mut text = Vec::new();
    csv::render(&content(Rows::Flows(vec![row])), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let columns: BTreeSet<&str> = text.lines().next().unwrap().split(',').collect();
    assert_eq!(columns, keys.as_object().unwrap().keys().map(String::as_str).collect());
}

#[test]
fn what_is_no_table_is_an_error() {
    let overview = content(Rows::Overview(Box::new(full_report())));
    let error = csv::render(&overview, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ReportError::NoView));
    assert!(error.to_string().contains("--view"), "says what to do");
    assert!(matches!(csv::render(&content(Rows::Meta), &mut Vec::new()), Err(ReportError::NoTable(_))));
}
