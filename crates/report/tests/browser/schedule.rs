//! The page of a recording of scheduler events: timeline, critical paths, graph of waits.

use std::io::Write;
use std::time::Instant;

use serde_json::{Value, json};
use transect_analyze::synthetic::scheduled_compressor;
use transect_report::html::PageReport;

use crate::page::{Page, page};

fn report(slices: usize, seconds: i64) -> Value {
    let mut report = serde_json::to_value(PageReport::new(&scheduled_compressor(slices, seconds))).unwrap();
    let row = |path: &str, speedup: Value, low: f64, high: f64| {
        json!({
            "path": path, "speedup": speedup, "saving_low": low, "saving_high": high,
            "saving_low_ns": (low * 6e9) as i64, "saving_high_ns": (high * 6e9) as i64,
        })
    };
    // What is predicted is not the page's matter.
    report["criticality"]["what_if"] = json!([
        row("crc32_update ← flush_output", json!(1.1), 0.02, 0.03),
        row("crc32_update ← flush_output", json!(2.0), 0.12, 0.16),
        row("crc32_update ← flush_output", json!("inf"), 0.24, 0.32),
        row("fsync ← commit_batch", json!("inf"), 0.098, 0.098),
    ]);
    report
}

/// Opens the page and waits until the timeline is unpacked.
fn open(test: &str, report: &Value) -> Option<Page> {
    let mut page = page(test, report)?;
    page.browser.wait("document.getElementById('timeline-canvas') !== null");
    settle(&mut page);
    Some(page)
}

fn settle(page: &mut Page) {
    page.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
}

/// Different colours of a canvas, and how many of its pixels are drawn.
fn drawn(page: &mut Page, canvas: &str) -> (i64, i64) {
    let counts = page.eval(&format!(
        "(() => {{ const s = document.querySelector({}), c = document.createElement('canvas'); \
         c.width = s.width; c.height = s.height; const x = c.getContext('2d', {{ willReadFrequently: true }}); \
         x.drawImage(s, 0, 0); const d = new Uint32Array(x.getImageData(0, 0, c.width, c.height).data.buffer); const all = new Set(); let n = 0; \
         for (const p of d) if (p >>> 24 === 255) {{ all.add(p); n += 1; }} return [all.size, n]; }})()",
        json!(canvas)
    ));
    (counts[0].as_i64().unwrap(), counts[1].as_i64().unwrap())
}

fn key(page: &mut Page, selector: &str, key: &str) {
    page.eval(&format!(
        "(() => {{ const e = document.querySelector({}); e.focus(); \
         e.dispatchEvent(new KeyboardEvent('keydown', {{ key: {}, bubbles: true }})); }})()",
        json!(selector),
        json!(key)
    ));
    settle(page);
}

/// Not that of the recording, which begins before the first thread and ends after the last.
#[test]
fn browser_shows_the_wall_time_of_the_terminal() {
    let mut report = report(100, 6);
    report["wall_ns"] = json!(4_250_000_000_i64);
    report["meta"]["wall_ns"] = json!(6_000_000_000_i64);
    let Some(mut page) = open("wall-time", &report) else { return };
    let fact = "[...document.querySelectorAll('.fact')].map(fact => fact.textContent).find(text => text.startsWith('Wall time'))";
    assert_eq!(page.eval(fact), json!("Wall time4.25 s"));
}

#[test]
fn browser_shows_a_schedule() {
    let report = report(40_000, 6);
    let Some(mut page) = open("browser_shows_a_schedule", &report) else { return };
    page.assert_quiet();
    let headings = page.eval("[...document.querySelectorAll('h2')].map(h => h.textContent)");
    let expected = [
        "Findings",
        "Cut",
        "Critical paths",
        "Timeline",
        "What if it were faster",
        "Who waits for whom",
        "Criticality of threads",
        "Losses",
    ];
    assert_eq!(headings, json!(expected), "no empty tables of calls");
    let facts = page.text("header .facts");
    for expected in ["6.00 s", "of 8", "All waiting"] {
        assert!(facts.contains(expected), "{expected} in {facts}");
    }
    let (colors, pixels) = drawn(&mut page, "#timeline-canvas");
    assert!(colors >= 5 && pixels > 100_000, "{colors} colours, {pixels} pixels");
    assert!(drawn(&mut page, ".tl-parallelism").1 > 5_000);
    // 15 threads in 4 groups; the only group of several is open.
    assert_eq!(page.eval("document.querySelectorAll('.tl-label').length"), 16);
    page.click(".tl-group[aria-expanded]");
    assert_eq!(page.eval("document.querySelectorAll('.tl-label').length"), 4);
    assert!(page.text("#timeline-note").contains("each column adds up"));
    // Rows of the table of what-ifs are paths, its columns speed-ups.
    assert_eq!(page.column("what-if-table", "xinf"), ["24.0–32.0 %", "9.8 %"]);
    assert_eq!(page.column("what-if-table", "x2"), ["12.0–16.0 %", "–"]);
    page.assert_quiet();
}

#[test]
fn browser_zooms_to_single_slices_by_keyboard_wheel_and_drag() {
    let report = report(40_000, 6);
    let Some(mut page) = open("browser_zooms_to_single_slices", &report) else { return };
    let frame = "#timeline-frame";
    key(&mut page, frame, "ArrowDown");
    for _ in 0..20 {
        key(&mut page, frame, "+");
    }
    assert!(page.text("#timeline-note").contains("every slice is shown"), "{}", page.text("#timeline-note"));
    key(&mut page, frame, "ArrowDown");
    key(&mut page, frame, ".");
    let first = page.text("#timeline-panel");
    key(&mut page, frame, ".");
    let second = page.text("#timeline-panel");
    assert_ne!(first, second);
    let both = format!("{first}{second}");
    assert!(both.contains("waited") && both.contains("active"), "{both}");
    key(&mut page, frame, ",");
    assert_eq!(page.text("#timeline-panel"), first, "back again");
    // A wait says what for, and who held it.
    let spans = page.eval(
        "(() => { const all = []; const t = window.transectTimeline; for (let i = 0; i < 40; i += 1) { \
         document.getElementById('timeline-frame').dispatchEvent(new KeyboardEvent('keydown', { key: '.', bubbles: true })); \
         all.push(document.getElementById('timeline-panel').innerText); } return all.join('\\n'); })()",
    );
    for expected in ["mutex output_lock+0x8", "held by worker-", "pthread_mutex_lock"] {
        assert!(spans.as_str().unwrap().contains(expected), "{expected} in {spans}");
    }
    key(&mut page, frame, "Home");
    assert!(page.text("#timeline-note").starts_with("0 ns – 6.00 s"));
    // The wheel zooms around the pointer, dragging pans.
    page.eval(
        "(() => { const c = document.querySelector('.tl-area'), b = c.getBoundingClientRect(); \
         for (let i = 0; i < 8; i += 1) c.dispatchEvent(new WheelEvent('wheel', { deltaY: -120, ctrlKey: true, \
         clientX: b.left + b.width / 2, clientY: b.top + 20, bubbles: true, cancelable: true })); })()",
    );
    settle(&mut page);
    let zoomed = page.text("#timeline-note");
    assert!(zoomed.starts_with("2.8") && zoomed.contains("– 3.1"), "{zoomed}");
    page.eval(
        "(() => { const c = document.querySelector('.tl-area'), b = c.getBoundingClientRect(); \
         const at = (type, x) => c.dispatchEvent(new PointerEvent(type, { clientX: b.left + x, clientY: b.top + 20, \
         pointerId: 1, button: 0, buttons: 1, bubbles: true })); c.setPointerCapture = () => {}; \
         at('pointerdown', 400); at('pointermove', 300); at('pointerup', 300); })()",
    );
    settle(&mut page);
    assert_ne!(page.text("#timeline-note"), zoomed);
    // The place can be linked to.
    page.eval("new Promise(done => { location.hash = '#/timeline/900000000-901000000'; setTimeout(done, 80) })");
    assert!(page.text("#timeline-note").starts_with("900 ms – 901 ms"), "{}", page.text("#timeline-note"));
    page.assert_quiet();
}

#[test]
fn browser_walks_paths_and_waits_by_keyboard() {
    let report = report(40_000, 6);
    let Some(mut page) = open("browser_walks_paths_and_waits", &report) else { return };
    key(&mut page, "#flame [tabindex='0']", "ArrowDown");
    assert_eq!(page.text("#flame-panel h3"), "worker_main(Queue<Block>&)");
    let lines = page.text("#flame-panel .lines");
    assert!(lines.contains("longest_match") && lines.contains("where it stopped"), "{lines}");
    key(&mut page, "#flame [tabindex='0']", "Enter");
    assert_eq!(page.eval("document.querySelector('#flame .selected').style.width"), "100%");
    key(&mut page, "#flame [tabindex='0']", "Escape");
    assert_eq!(page.text("#flame-panel h3"), "all paths");
    assert!(page.eval("document.querySelectorAll('#wait-graph .box').length").as_i64().unwrap() >= 4);
    key(&mut page, "#wait-graph .wait-edge", "Enter");
    assert!(page.text("#wait-panel h3").contains("→"));
    key(&mut page, "#wait-graph .box", "Enter");
    assert!(page.text("#wait-panel").contains("active"));
    page.assert_quiet();
}

#[test]
fn browser_draws_schedules_in_both_themes_and_narrow_windows() {
    let report = report(10_000, 2);
    let Some(mut page) = open("browser_draws_schedules_in_both_themes", &report) else { return };
    let pixels = "document.getElementById('timeline-canvas').toDataURL()";
    let before = page.eval(pixels);
    page.click("#theme-toggle");
    settle(&mut page);
    assert_ne!(page.eval(pixels), before, "the timeline follows the theme");
    for width in [1400, 1000, 480] {
        let window = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        page.browser.call("Emulation.setDeviceMetricsOverride", window);
        settle(&mut page);
        let overflow = page.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
        assert!(overflow <= 0, "the page is {overflow} pixels too wide at {width}");
        assert!(drawn(&mut page, "#timeline-canvas").1 > 10_000, "{width}");
    }
    page.assert_quiet();
}

#[test]
fn browser_is_not_steered_by_names_of_threads_and_files() {
    const EVIL: &str = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m";
    let mut profile = scheduled_compressor(5_000, 2);
    for task in &mut profile.sched.tasks {
        task.name = format!("{EVIL}{}", task.tid);
        task.group = EVIL.into();
    }
    for wait in &mut profile.sched.waits {
        wait.object = EVIL.into();
    }
    for frame in &mut profile.sched.frames {
        frame.function = format!("{EVIL}{}", frame.line);
        frame.file = EVIL.into();
    }
    let report = serde_json::to_value(PageReport::new(&profile)).unwrap();
    let Some(mut page) = open("browser_is_not_steered_by_names_of_threads", &report) else { return };
    for _ in 0..16 {
        key(&mut page, "#timeline-frame", "+");
    }
    key(&mut page, "#timeline-frame", "ArrowDown");
    for _ in 0..6 {
        key(&mut page, "#timeline-frame", ".");
    }
    assert_eq!(page.eval("document.querySelectorAll('img').length"), 0);
    assert_eq!(page.eval("document.body.innerText.includes('\\u202e')"), false);
    assert!(page.text("body").contains("\\u{202e}"));
    page.assert_quiet();
}

/// CPU time of this thread: wall time says more about what else the machine does.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

/// Pages of recordings of any size: how large, how long to load, how long a frame of zooming and panning takes. Times
/// are printed; asserted is what does not depend on the machine.
fn measure(slices: usize, test: &str) {
    let profile = scheduled_compressor(slices, 60);
    let began = cpu_ms();
    let mut report = PageReport::new(&profile);
    let made = cpu_ms() - began;
    let began = cpu_ms();
    let timeline = transect_report::timeline::timeline(&profile).unwrap();
    let packed = cpu_ms() - began;
    let exact = timeline.exact_slices;
    drop(profile);
    assert!(timeline.exact_slices <= transect_report::timeline::EXACT_SLICES * 11 / 10);
    report.timeline = Some(timeline);
    let report = serde_json::to_value(report).unwrap();
    let bytes = report.to_string().len();
    assert!(bytes < 5_000_000, "{bytes} bytes");
    let began = Instant::now();
    let Some(mut page) = open(test, &report) else { return };
    let loaded = began.elapsed();
    let frames = page.eval(
        "(async () => { const t = window.transectTimeline, times = []; const frame = () => { t.draw(); \
         times.push(t.lastFrame); }; const all = t.to - t.from, start = t.from; \
         for (let z = 0; z < 40; z += 1) { t.zoom(0.75, start + all * 0.47); frame(); } \
         for (let z = 0; z < 40; z += 1) { t.zoom(1 / 0.75, start + all * 0.47); frame(); } \
         for (const width of [1, 0.3, 0.05, 0.01, 0.001, 0.0001]) for (let at = 0; at < 20; at += 1) { \
         t.show(start + all * at / 21, start + all * at / 21 + all * width); frame(); } \
         times.sort((a, b) => a - b); return [times[times.length >> 1], times[Math.floor(times.length * 0.95)], \
         times.at(-1), times.length]; })()",
    );
    let at = |i: usize| frames[i].as_f64().unwrap();
    let _ = writeln!(
        std::io::stderr(),
        "{slices} slices: page {:.2} MB with {exact} of them, rows {made:.0} ms of CPU time, of it timeline \
         {packed:.0} ms, loaded and drawn in {:.0} ms; \
         {} frames of zooming and panning: median {:.1} ms, p95 {:.1} ms, slowest {:.1} ms",
        bytes as f64 / 1e6,
        loaded.as_secs_f64() * 1e3,
        at(3),
        at(0),
        at(1),
        at(2),
    );
    assert!(drawn(&mut page, "#timeline-canvas").1 > 50_000);
    page.assert_quiet();
}

#[test]
fn browser_holds_three_hundred_thousand_slices() {
    measure(290_000, "browser_holds_three_hundred_thousand_slices");
}

#[test]
#[ignore = "takes minutes and 4 GB without --release"]
fn browser_holds_ten_million_slices() {
    measure(10_000_000, "browser_holds_ten_million_slices");
}
