//! The screens against golden files under `tests/golden/`; `TRANSECT_BLESS=1` rewrites them.

use std::fs;
use std::path::Path;

use transect_analyze::synthetic;

use crate::session::{Session, compressor, text_of};

fn check(name: &str, session: &Session) {
    for (columns, rows) in [(80, 24), (120, 40)] {
        let text = session.screen(columns, rows);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let path = folder.join(format!("{name}.{columns}x{rows}.txt"));
        if std::env::var_os("TRANSECT_BLESS").is_some_and(|v| v == "1") {
            fs::write(&path, &text).unwrap();
            continue;
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            golden == text,
            "{} differs from what is drawn now; if that is right, TRANSECT_BLESS=1 rewrites it.\n{text}",
            path.display()
        );
    }
}

#[test]
fn screens() {
    let mut session = Session::new(compressor());
    check("findings", &session);
    check("finding-cut", session.keys("\n"));
    check("cut", session.keys("<2"));
    check("cut-down", session.keys("\n\n"));
    check("help", session.keys("?"));
    check("dimension", session.keys("!d").text("ho"));
    check("command", session.keys("!y"));
    check("filter-wrong", session.keys("!/").text("state = blocked and wai = mutex").keys("\n"));
    check("tree", session.keys("!<<3"));
    check("timeline", session.keys("4"));
    check("source", session.keys("2d").text("function").keys("\ns"));
    check("over-time", session.keys("2d").text("time/").keys("\n"));
}

#[test]
fn screens_of_calls_alone() {
    let mut session = Session::new(synthetic::image_server());
    check("calls-findings", &session);
    check("calls-cut", session.keys("2"));
    check("calls-tree", session.keys("3"));
}

#[test]
fn what_is_being_computed_is_said_and_the_last_rows_remain() {
    let mut session = Session::new(compressor());
    session.keys("2");
    session.held = true;
    session.keys("\n");
    (0..23).for_each(|_| session.event(transect_tui::Event::Tick));
    check("busy", &session);
    assert!(session.screen(80, 24).contains("2 s summing up by component"));
    // A second wish is met when the first has been.
    session.keys("<d").text("state").keys("\n");
    session.settle();
    assert!(session.screen(80, 24).contains("by state"), "{}", session.screen(80, 24));
}

#[test]
fn names_do_no_harm_to_the_terminal() {
    let mut session = Session::new(compressor());
    for keys in ["2", "vv\n", "4", "d\n", "y"] {
        session.keys(keys);
        let screen = session.screen(120, 40);
        assert!(screen.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{screen}");
        let shows_it = screen.contains("evil\\u{1b}[31m");
        assert!(shows_it || keys != "2", "{screen}");
    }
}

/// Colours add nothing that text and weight do not say.
#[test]
fn without_colour_the_text_is_the_same_and_no_colour_is_used() {
    let mut session = Session::new(compressor());
    for keys in ["1", "2", "3", "4", "?"] {
        session.keys(keys);
        let (with, without) = (session.buffer(80, 24, true), session.buffer(80, 24, false));
        assert_eq!(text_of(&with), text_of(&without));
        let is_plain = |cell: &ratatui::buffer::Cell| cell.fg == ratatui::style::Color::Reset;
        assert!(without.content.iter().all(is_plain));
        if keys != "?" {
            assert!(!with.content.iter().all(is_plain), "{keys}");
            assert!(text_of(&without).contains('›') || keys == "1", "the chosen row has a mark");
        }
    }
}
