//! Whatever is typed, the screens hold, and every way down leads up again.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use transect_analyze::{CutKey, synthetic};
use transect_tui::{Event, Tab};

use crate::session::{Session, compressor};

fn any_key() -> impl Strategy<Value = KeyCode> {
    let letters = prop::sample::select("12345?ydmrxsfqjkhlgG/ =!'(~ab9é".chars().collect::<Vec<_>>());
    prop_oneof![
        6 => letters.prop_map(KeyCode::Char),
        6 => prop::sample::select(vec![
            KeyCode::Enter, KeyCode::Enter, KeyCode::Backspace, KeyCode::Up, KeyCode::Down, KeyCode::Down, KeyCode::Left,
            KeyCode::Right, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Home, KeyCode::End, KeyCode::Tab,
            KeyCode::BackTab, KeyCode::Esc, KeyCode::Delete, KeyCode::F(1),
        ]),
    ]
}

/// Keys of the cut that lead on, each whole.
fn any_step() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "\n",
        "\n",
        "v",
        "v",
        "^",
        "x",
        "<",
        "dthread\n",
        "dfunction\n",
        "dstate\n",
        "dwait\n",
        "dtime/1s\n",
        "mblocked\n",
        "mcritical\n",
        "/not state = running\n",
        "r1s 3s\n",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_keys_break_the_screens(
        keys in prop::collection::vec((any_key(), any::<bool>()), 1..60),
        columns in 1u16..140,
        rows in 1u16..50,
        calls: bool,
    ) {
        let profile = if calls { synthetic::image_server() } else { synthetic::scheduled_compressor(300, 2) };
        let mut session = Session::new(profile);
        session.event(Event::Resize(columns, rows));
        for (key, held) in keys {
            // Some answers come late.
            session.held = held;
            session.event(Event::Key(KeyEvent::new(key, KeyModifiers::NONE)));
            session.screen(columns, rows);
        }
        session.settle();
        session.screen(columns, rows);
        prop_assert!(session.app.is_current() && session.app.busy.is_none());
    }

    #[test]
    fn down_and_up_again_leads_to_the_same_rows(steps in prop::collection::vec(any_step(), 0..12)) {
        let mut session = Session::new(synthetic::scheduled_compressor(300, 4));
        session.keys("2");
        for step in steps {
            session.keys(step);
            if session.app.tab != Tab::Cut {
                session.keys("2");
            }
        }
        for way in ["\n", "x", "dline\n", "mrunnable\n", "/wait = mutex\n", "r1s 2s\n"] {
            // A message goes with the next key.
            session.keys("!");
            let before = (session.app.levels.len(), session.screen(100, 30));
            session.keys(way);
            let is_lower = session.app.levels.len() > before.0;
            if session.app.tab != Tab::Cut {
                session.keys("2");
                continue;
            }
            if is_lower {
                session.keys("<");
                prop_assert_eq!(&(session.app.levels.len(), session.screen(100, 30)), &before, "{}", way);
            }
        }
    }
}

#[test]
fn the_way_leads_from_groups_to_lines_and_to_the_source() {
    let mut session = Session::new(compressor());
    session.keys("2mon-cpu\n");
    for by in ["thread-group", "component", "function", "line"] {
        assert_eq!(session.app.level().by.to_string(), by);
        session.keys("\n");
    }
    assert_eq!(session.app.tab, Tab::Source);
    assert!(session.app.source.function.is_some());
    // Of waiting it leads to what is waited for, and who has it.
    let mut session = Session::new(compressor());
    session.keys("2/wait = mutex\ndwait\n");
    for by in ["wait", "object", "holder", "function"] {
        assert_eq!(session.app.level().by.to_string(), by);
        session.keys("\n");
    }
}

#[test]
fn a_finding_leads_to_rows_that_are_about_it() {
    let mut session = Session::new(compressor());
    let findings = session.app.findings.get().unwrap().clone();
    let mut opened = 0;
    for (at, finding) in findings.iter().enumerate() {
        session.keys("1");
        session.app.finding = at;
        session.keys("\n");
        if session.app.tab == Tab::Cut {
            opened += 1;
            let view = session.app.level().pane.get().unwrap();
            assert!(!view.rows.is_empty() && view.scope.filter.is_some(), "{}", finding.finding);
        } else {
            assert!(session.app.message.is_some(), "{}", finding.finding);
        }
    }
    assert!(opened > 0);
}

#[test]
fn a_wrong_filter_is_said_with_its_place_and_changes_nothing() {
    let mut session = Session::new(compressor());
    session.keys("2/").text("featur = x").keys("\n");
    let screen = session.screen(80, 24);
    assert!(screen.contains("`featur` is no dimension; the nearest is `feature`"), "{screen}");
    let lines: Vec<&str> = screen.lines().collect();
    let text = lines.iter().rposition(|line| line.contains("  featur = x")).unwrap();
    let column = |line: &str, of: &str| line.find(of).map(|at| line[..at].chars().count());
    assert_eq!(column(lines[text + 1], "^"), column(lines[text], "featur"));
    assert_eq!(session.app.levels.len(), 1);
    // What was typed is still there, and is mended.
    session.keys("!");
    session.keys("/").text("state = running").keys("\n");
    session.keys("d").text("state").keys("\n");
    let view = session.app.level().pane.get().unwrap();
    let keys: Vec<&CutKey> = view.rows.iter().map(|row| &row.keys[0]).collect();
    assert_eq!(keys, [&CutKey::Name("running".to_owned())]);
}

#[test]
fn what_no_filter_can_say_is_refused() {
    let mut session = Session::new(compressor());
    session.keys("2d").text("time/1s").keys("\nx");
    assert!(session.app.message.as_ref().unwrap().contains("range"), "{:?}", session.app.message);
    session.keys("r").text("3s 2s").keys("\n");
    assert!(session.screen(80, 24).contains("3s is not before 2s"));
}
