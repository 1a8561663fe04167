//! A cut of the invented run.

use transect_analyze::{CutDimension, CutFilter, CutKey, CutMeasure, CutRow, CutView};
use transect_report::{Content, Rows};

use crate::sample_rows::{HOSTILE, RB_TREE_FIND, content};

const MS: i64 = 1_000_000;

fn row(keys: &[Option<&str>], ms: i64, spread_ms: i64) -> CutRow {
    let key = |key: &Option<&str>| key.map_or(CutKey::None, |name| CutKey::Name(name.to_owned()));
    let keys = keys.iter().map(key).collect();
    let (value, spread) = (ms * MS, spread_ms * MS);
    CutRow { keys, value, low: (value - spread).max(0), high: value + spread, share: ms as f64 / 9_000.0 }
}

fn view() -> CutView {
    let rows = vec![
        row(&[Some("worker"), Some("libstdc++.so.6"), Some(RB_TREE_FIND)], 4_210, 130),
        row(&[Some("worker"), Some("libc.so.6"), Some("pthread_mutex_lock")], 2_600, 0),
        row(&[Some("main"), Some("libc.so.6"), Some("read")], 1_500, 0),
        row(&[Some("worker"), Some("wordcount"), Some(HOSTILE)], 620, 60),
        row(&[Some("worker"), None, None], 70, 0),
    ];
    CutView {
        by: vec![CutDimension::ThreadGroup, CutDimension::Component, CutDimension::Function],
        measure: CutMeasure::Time,
        unit: CutMeasure::Time.unit(),
        filter: Some("state != runnable".to_owned()),
        from_ns: Some(2_000 * MS),
        to_ns: None,
        total: 9_000 * MS,
        whole: 48_000 * MS,
        rows,
    }
}

/// As a table, over time, and as a tree.
pub fn contents() -> Vec<(&'static str, Content)> {
    assert!(CutFilter::parse("state != runnable").is_ok());
    let step = |at: i64| CutRow { keys: vec![CutKey::Time(at * 500 * MS)], ..row(&[], 900 - 300 * (at % 2), 8) };
    let over_time = CutView {
        by: vec![CutDimension::Time(500 * MS)],
        measure: CutMeasure::OnCpu,
        filter: None,
        from_ns: None,
        total: 9_000 * MS,
        whole: 9_000 * MS,
        rows: [0, 2, 4, 6, 1, 3, 5, 7].map(step).to_vec(),
        ..view()
    };
    let cut = |view: CutView, tree: bool| content(Rows::Cut { view: Box::new(view), tree });
    vec![("cut", cut(view(), false)), ("cut-over-time", cut(over_time, false)), ("cut-tree", cut(view(), true))]
}
