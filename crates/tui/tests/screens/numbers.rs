//! Numbers on the screens are those that `transect report --by … --format json` prints.

use std::collections::BTreeMap;

use serde_json::Value;
use transect_analyze::{CutDimensions, CutFilter, CutKey, CutQuery, cut, parse_duration};
use transect_profile_model::Profile;
use transect_report::{Content, Rows, json};
use transect_tui::Tab;

use crate::session::{Session, compressor};

/// What the command that the screen shows would print: its own words, read as the command line reads them.
fn reported(profile: &Profile, command: &str) -> Value {
    let words = words(command);
    let flag = |flag: &str| words.iter().position(|word| word == flag).map(|at| words[at + 1].as_str());
    let query = CutQuery {
        by: flag("--by").unwrap().parse::<CutDimensions>().unwrap().0,
        measure: flag("--measure").map(|word| word.parse().unwrap()).unwrap_or_default(),
        filter: flag("--where").map(|text| CutFilter::parse(text).unwrap()),
        from_ns: flag("--from").map(|text| parse_duration(text).unwrap()),
        to_ns: flag("--to").map(|text| parse_duration(text).unwrap()),
    };
    let view = cut(profile, &query).unwrap();
    let mut out = Vec::new();
    let content = Content::of_cut(profile, Rows::Cut { view: Box::new(view), tree: false }, None);
    json::render(&content, &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap()["cut"].take()
}

/// The words of a command as a shell reads them.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for c in command.chars() {
        let last = words.len() - 1;
        match c {
            _ if escaped => (words[last].push(c), escaped = false).0,
            '\\' if !quoted => escaped = true,
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    words
}

fn compare(session: &Session) {
    let command = session.app.command();
    let wanted = reported(&session.profile, &command);
    let view = session.app.level().pane.get().unwrap();
    assert_eq!(wanted["total"], view.scope.total, "{command}");
    assert!(!view.rows.is_empty(), "{command}");
    let number = |row: &Value| ["value", "low", "high"].map(|key| row[key].as_i64().unwrap());
    let of_report: BTreeMap<String, [i64; 3]> =
        wanted["rows"].as_array().unwrap().iter().map(|row| (row["keys"][0].to_string(), number(row))).collect();
    let key = |key: &CutKey| serde_json::to_value(key).unwrap().to_string();
    let on_screen: BTreeMap<String, [i64; 3]> =
        view.rows.iter().map(|row| (key(&row.keys[0]), [row.value, row.low, row.high])).collect();
    assert_eq!(of_report, on_screen, "{command}");
}

#[test]
fn rows_are_those_of_the_report() {
    let mut session = Session::new(compressor());
    for keys in ["2", "\n", "\n", "\n", "<", "x", "x", "<<<<", "dwait\n", "\n", "\n", "\n", "<<<<"] {
        session.keys(keys);
        if session.app.tab == Tab::Cut {
            compare(&session);
        }
        session.keys("2");
    }
    for (keys, text, then) in [
        ("d", "time/500ms", "\n"),
        ("", "", "vv\n"),
        ("m", "critical", "\n"),
        ("d", "state", "\n"),
        ("/", "not (wait = mutex or stack ~ sync)", "\n"),
        ("r", "500ms 2s", "\n"),
        ("d", "holder", "\n"),
    ] {
        session.keys(keys).text(text).keys(then);
        compare(&session);
    }
}

/// The part that a row leads to has the row's sum.
#[test]
fn a_part_has_the_sum_of_its_row() {
    let mut session = Session::new(compressor());
    session.keys("2");
    for dimension in ["thread", "function", "state", "object", "kernel-function", "line", "waker"] {
        session.keys("d").text(dimension).keys("\n");
        let rows = session.app.level().pane.get().unwrap().rows.clone();
        for (at, row) in rows.iter().enumerate().take(4) {
            session.app.levels.last_mut().unwrap().selected = at;
            let depth = session.app.levels.len();
            session.keys("\n");
            if session.app.levels.len() == depth {
                session.keys("2");
                continue;
            }
            let total = session.app.level().pane.get().unwrap().scope.total;
            assert_eq!(total, row.value, "{}", session.app.command());
            session.keys("<");
        }
    }
}
