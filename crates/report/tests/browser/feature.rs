//! Features in a real browser: tables, flame graph, nested regions over time, what features call.

use serde_json::{Value, json};
use transect_analyze::synthetic::{feature_hostile, feature_listing, feature_packer, large_features};
use transect_profile_model::Profile;
use transect_report::html::PageReport;

use crate::page::{Page, page};

fn report(profile: &Profile) -> Value {
    serde_json::to_value(PageReport::new(profile)).unwrap()
}

fn texts(page: &mut Page, selector: &str) -> Vec<String> {
    let script = format!("[...document.querySelectorAll({})].map(e => e.textContent)", json!(selector));
    serde_json::from_value(page.eval(&script)).unwrap()
}

#[test]
fn browser_shows_features_alone_and_together() {
    let Some(mut page) = page("browser_shows_features_alone_and_together", &report(&feature_listing())) else { return };
    page.assert_quiet();
    assert_eq!(
        texts(&mut page, "h2"),
        ["Findings", "Features", "Features nested", "Features over time", "Regions of code", "Losses"]
    );
    assert_eq!(page.column("feature-table", "features"), ["A", "A, B", "B", "no feature"]);
    assert_eq!(page.column("feature-table", "inclusive_ns"), ["9.00 s", "7.00 s", "9.00 s", "1.00 s"]);
    assert_eq!(page.column("feature-table", "exclusive_ns"), ["2.00 s", "7.00 s", "2.00 s", "1.00 s"]);
    assert_eq!(page.column("feature-table", "decided_ns"), ["9.00 s", "4.00 s", "6.00 s", "–"]);
    assert_eq!(page.column("region-table", "entries"), ["1", "1", "1", "1"]);
    // As the thesis draws it: {A} and {A,B} beside {B}, with {A} inside.
    let names = "[...document.querySelectorAll('#feature-flame-graph .flame-box')].map(e => [e.title.split('\\n')[0], e.getAttribute('aria-level')])";
    let mut boxes: Vec<(String, String)> = serde_json::from_value(page.eval(names)).unwrap();
    boxes.sort();
    let row = |name: &str, level: &str| (name.to_owned(), level.to_owned());
    assert_eq!(boxes, [row("A", "2"), row("A", "3"), row("A, B", "2"), row("B", "2"), row("all threads", "1")]);
    // B opens its regions.
    page.eval("[...document.querySelectorAll('#feature-table tbody tr')].find(r => r.dataset.index === '2').click()");
    assert_eq!(page.column("region-table", "features"), ["A, B", "B"]);
    page.assert_quiet();
}

#[test]
fn browser_nests_regions_of_code() {
    let Some(mut page) = page("browser_nests_regions_of_code", &report(&feature_packer())) else { return };
    page.click("input[name=feature-mode][value=regions]");
    let names = texts(&mut page, "#feature-flame-graph .flame-box");
    assert!(
        names.iter().any(|name| name.starts_with("Packer::lazyMatch(Window&, unsigned int) packer.cc:301")),
        "{names:?}"
    );
    let told = page.text("#feature-panel");
    assert!(told.contains("all threads"), "{told}");
    page.eval("[...document.querySelectorAll('#feature-flame-graph .flame-box')].find(e => e.textContent.startsWith('longest_match')).click()");
    let told = page.text("#feature-panel");
    assert!(told.contains("Active: Level, Threads.") || told.contains("Active: Threads, Level."), "{told}");
    // What is not measured is said.
    let gaps = page.text(".feature-notes");
    for text in ["opt_level_legacy of Level was not found", "No code depends on Sparse", "left by goto"] {
        assert!(gaps.contains(text), "{text}: {gaps}");
    }
    page.assert_quiet();
}

#[test]
fn browser_tables_features_by_what_they_call() {
    let Some(mut page) = page("browser_tables_features_by_what_they_call", &report(&feature_packer())) else { return };
    let rows = texts(&mut page, "#feature-api-matrix tbody th");
    assert_eq!(&rows[..3], ["write libc.so.6", "pthread_cond_wait libc.so.6", "read libc.so.6"]);
    let head = texts(&mut page, "#feature-api-matrix thead th");
    assert!(head.contains(&"Level, Threads".to_owned()), "{head:?}");
    let rows = texts(&mut page, "#feature-component-matrix tbody th");
    assert_eq!(rows, ["pack", "libc.so.6", "libcodec.so.2"]);
    page.assert_quiet();
}

fn span(page: &mut Page) -> (f64, f64) {
    let view = page.eval("transectRegions()");
    (view["from"].as_f64().unwrap(), view["to"].as_f64().unwrap())
}

#[test]
fn browser_zooms_and_pans_regions_over_time() {
    let Some(mut page) = page("browser_zooms_and_pans_regions_over_time", &report(&feature_listing())) else { return };
    let settle = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))";
    page.eval("document.getElementById('region-timeline-frame').focus()");
    let whole = span(&mut page);
    assert_eq!(whole, (0.0, 12e9), "from the first thread's start to the last one's end");
    page.browser.press("+", 187);
    let near = span(&mut page);
    assert!(((near.1 - near.0) / (whole.1 - whole.0) - 0.7).abs() < 1e-9, "{near:?}");
    page.browser.press("ArrowRight", 39);
    assert!(span(&mut page).0 > near.0);
    page.browser.press("Home", 36);
    assert_eq!(span(&mut page), whole);
    page.eval(settle);
    // The canvas shows something where R2 ran, below it nothing.
    let painted = "(x, y) => { const c = document.querySelector('.rt-canvas'); const k = c.width / c.clientWidth; \
                   const copy = document.createElement('canvas'); [copy.width, copy.height] = [c.width, c.height]; \
                   const read = copy.getContext('2d', { willReadFrequently: true }); read.drawImage(c, 0, 0); \
                   return read.getImageData(Math.round(x * c.width), Math.round(y * k), 1, 1).data[3]; }";
    assert_eq!(page.eval(&format!("({painted})(0.4, 30)")), 255);
    assert_eq!(page.eval(&format!("({painted})(0.4, 46)")), 0);
    assert_eq!(page.eval(&format!("({painted})(0.9, 46)")), 255, "R4 inside of R3");
    page.assert_quiet();
}

#[test]
fn browser_holds_many_stays() {
    let Some(mut page) = page("browser_holds_many_stays", &report(&large_features(600_000, 8, 6))) else { return };
    page.assert_quiet();
    let view = page.eval(
        "new Promise(done => { document.getElementById('region-timeline-frame').dispatchEvent(new KeyboardEvent('keydown', {key: '+'})); setTimeout(() => done(transectRegions()), 600); })",
    );
    eprintln!("frame of {} ms", view["frame"]);
    assert!(page.text("#region-timeline-note").contains("of the shortest visits are left out"));
}

#[test]
fn browser_is_not_attacked_by_names_of_features() {
    let Some(mut page) = page("browser_is_not_attacked_by_names_of_features", &report(&feature_hostile())) else {
        return;
    };
    page.assert_quiet();
    assert_eq!(page.eval("document.querySelectorAll('main b, main img, main script').length"), 0);
    let names = page.column("feature-table", "features").join("|");
    assert!(names.contains("</script><b>x\\u{1b}[31m\\u{202e}\\t"), "{names}");
    page.assert_quiet();
}
