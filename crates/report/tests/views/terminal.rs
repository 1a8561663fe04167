//! The terminal views against golden files under `tests/golden/`; `TRANSECT_BLESS=1` rewrites them.

use std::fs;
use std::path::PathBuf;

use transect_report::terminal::{Style, render};
use transect_report::{Content, Rows};
use unicode_width::UnicodeWidthStr;

use crate::sample_rows::{content, full_report, views};

fn text(content: &Content, style: Style) -> String {
    let mut out = Vec::new();
    render(content, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn assert_golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("TRANSECT_BLESS").is_some_and(|v| v == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        return;
    }
    let golden =
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; make it with TRANSECT_BLESS=1", path.display()));
    assert!(
        golden == text,
        "{} differs from what is rendered now; if that is right, TRANSECT_BLESS=1 rewrites it.\n{text}",
        path.display()
    );
}

#[test]
fn golden() {
    for (name, content) in views() {
        for width in [80, 120] {
            assert_golden(&format!("{name}.{width}.txt"), &text(&content, Style { width, color: false }));
        }
    }
}

#[test]
fn golden_in_color() {
    let content = content(Rows::Overview(Box::new(full_report())));
    assert_golden("overview.100.ansi", &text(&content, Style { width: 100, color: true }));
}

#[test]
fn golden_in_markdown() {
    for (name, content) in views().into_iter().filter(|(name, _)| ["overview", "cut", "tree"].contains(name)) {
        let mut out = Vec::new();
        transect_report::terminal::render_markdown(&content, &mut out).unwrap();
        assert_golden(&format!("{name}.md"), &String::from_utf8(out).unwrap());
    }
}

#[test]
fn every_line_fits() {
    for (name, content) in views() {
        for width in (40..200).step_by(transect_testkit::sized(5, 1)) {
            for line in text(&content, Style { width, color: false }).lines() {
                assert!(line.width() <= width, "{name} at {width}: {} columns: {line}", line.width());
                assert_eq!(line, line.trim_end(), "{name} at {width}");
            }
        }
    }
}

#[test]
fn no_foreign_character_reaches_the_terminal() {
    for (name, content) in views() {
        let plain = text(&content, Style { width: 120, color: false });
        let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!plain.contains(bad), "{name}: {plain:?}");
        // In colour, the only escapes are our own: select graphic rendition.
        let colored = text(&content, Style { width: 120, color: true });
        for escape in colored.split('\u{1b}').skip(1) {
            let end = escape.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == '[')).unwrap();
            assert!(escape.starts_with('[') && escape[end..].starts_with('m'), "{name}: {escape:?}");
        }
        let stripped: String = colored
            .split('\u{1b}')
            .enumerate()
            .map(|(i, part)| if i == 0 { part } else { part.split_once('m').unwrap().1 })
            .collect();
        assert_eq!(stripped, plain, "{name}: colour changes nothing but colour");
    }
}

#[test]
fn header_comes_first() {
    for (name, content) in views().into_iter().filter(|(name, _)| !name.starts_with("overview-")) {
        let text = text(&content, Style { width: 80, color: false });
        let first_screen: String = text.lines().take(8).collect::<Vec<_>>().join("\n");
        for fact in ["./wordcount --threads 4 'books/moby dick.txt'", "12.3 s", "2.1 %", "108 unhooked slots"] {
            assert!(first_screen.contains(fact), "{name}: {fact}\n{first_screen}");
        }
    }
}
