//! The page in a real browser: what it shows, that it asks nobody for anything, that no name escapes, and that
//! thousands of flows stay fluid. Times are printed, not asserted: machines differ, the number of rows that the
//! document holds does not.

mod cut;
mod devtools;
mod feature;
mod page;
mod sample;
mod schedule;
mod walk;

use std::collections::BTreeSet;
use std::io::Write;

use page::{Page, page};
use serde_json::{Value, json};

fn flows(report: &Value) -> &[Value] {
    report["flows"].as_array().unwrap()
}

#[test]
fn browser_shows_every_section_without_a_request() {
    let report = sample::realistic();
    let Some(mut page) = page("browser_shows_every_section_without_a_request", &report) else { return };
    page.assert_quiet();
    let headings = page.eval("[...document.querySelectorAll('h2')].map(h => h.textContent)");
    assert_eq!(headings, json!(["Findings", "Components", "Flows", "Threads", "Waits", "Locks", "Losses"]));
    assert_eq!(
        page.eval("document.querySelector('h1').textContent"),
        "thumbd --input photos/2026 --workers 4 --upload https://images.example.org/"
    );
    let facts = page.text("header .facts");
    for expected in ["12.4 s", "adaptive, budget 3.0 %", "≈ 2.1 %", "355 (3 kinds)"] {
        assert!(facts.contains(expected), "{expected} in {facts}");
    }
    assert_eq!(page.eval("document.querySelectorAll('.findings li').length"), 4);
    assert_eq!(page.eval("document.querySelectorAll('.thread-group').length"), 6);
    assert_eq!(page.column("wait-table", "group").len(), 8);
    assert_eq!(page.column("lock-table", "object").len(), 4);
    assert_eq!(page.column("loss-table", "count"), ["212", "105", "37", "1"]);
    assert_eq!(page.text("#flow-count"), format!("{} flows", flows(&report).len()));
    // An estimate shows its interval, an exact time none; the exact value is in the title.
    page.filter("orc_executor_run");
    assert_eq!(page.eval("document.querySelector('#flow-table tbody tr[data-index] small').textContent"), "± 2.0 %");
    let title = page.eval("document.querySelector('#flow-table tbody tr[data-index] small').parentElement.title");
    assert!(title.as_str().unwrap().contains("16,400,000,000 ns"), "{title}");
    page.filter("_setjmp");
    assert_eq!(page.column("flow-table", "total_ns"), ["–"]);
    // Percentages are of the attributed lifetime of all threads.
    let whole: i64 = report["threads"].as_array().unwrap().iter().filter_map(|t| t["attributed_ns"].as_i64()).sum();
    let flow = flows(&report).iter().find(|f| f["api"] == "orc_executor_run").unwrap();
    page.filter("orc_executor_run");
    let share = 100.0 * flow["attributed_ns"].as_i64().unwrap() as f64 / whole as f64;
    assert_eq!(page.column("flow-table", "attributed_ns"), [format!("{share:.1} %")]);
    page.assert_quiet();
}

#[test]
fn browser_sorts_and_filters_flows() {
    let report = sample::realistic();
    let Some(mut page) = page("browser_sorts_and_filters_flows", &report) else { return };
    let apis =
        |rows: &[&Value]| -> Vec<String> { rows.iter().map(|r| r["api"].as_str().unwrap().to_owned()).collect() };
    let first = |names: Vec<String>| names.into_iter().take(10).collect::<Vec<_>>();

    let mut rows: Vec<&Value> = flows(&report).iter().collect();
    rows.sort_by_key(|r| -r["calls"].as_i64().unwrap());
    page.sort("flow-table", "calls");
    assert_eq!(first(page.column("flow-table", "api")), first(apis(&rows)));
    assert_eq!(page.eval("document.querySelector('#flow-table th[data-column=calls]').ariaSort"), "descending");
    rows.sort_by_key(|r| r["calls"].as_i64().unwrap());
    page.sort("flow-table", "calls");
    assert_eq!(first(page.column("flow-table", "api")), first(apis(&rows)));
    rows.sort_by_key(|r| r["api"].as_str().unwrap().to_lowercase());
    page.sort("flow-table", "api");
    assert_eq!(first(page.column("flow-table", "api")), first(apis(&rows)));
    // A time that was not taken is last in both directions.
    for _ in 0..2 {
        page.sort("flow-table", "total_ns");
        page.eval("document.getElementById('flow-table').scrollTop = 1e6");
        page.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
        assert_eq!(page.column("flow-table", "api").last().unwrap(), "_setjmp");
    }

    page.filter("LIBPNG memcpy");
    assert_eq!(page.column("flow-table", "api"), ["memcpy"]);
    assert_eq!(page.text("#flow-count"), format!("1 of {} flows", flows(&report).len()));
    page.filter("");
    page.eval("(() => { const s = document.getElementById('flow-callee'); s.value = 'libc.so.6'; s.dispatchEvent(new Event('change')); })()");
    let expected = flows(&report).iter().filter(|r| r["callee"] == "libc.so.6").count();
    assert_eq!(page.text("#flow-count"), format!("{expected} of {} flows", flows(&report).len()));
    page.eval("document.querySelector('[data-kind=compute]').click()");
    page.eval("document.querySelector('[data-kind=io]').click()");
    let expected = flows(&report)
        .iter()
        .filter(|r| r["callee"] == "libc.so.6" && (r["wait"] == true || r["class"] == "count-only"))
        .count();
    assert_eq!(page.text("#flow-count"), format!("{expected} of {} flows", flows(&report).len()));
    page.filter("no such name");
    assert!(page.text("#flow-table").contains("No flow passes the filter."));
    page.click("#flow-clear");
    assert_eq!(page.text("#flow-count"), format!("{} flows", flows(&report).len()));
    page.assert_quiet();
}

#[test]
fn browser_drills_down_by_pointer_keyboard_and_address() {
    let report = sample::realistic();
    let Some(mut page) = page("browser_drills_down_by_pointer_keyboard_and_address", &report) else { return };
    page.click("[data-component='libvips.so.42']");
    page.browser.wait("document.querySelector('.crumbs').innerText.includes('libvips.so.42')");
    assert_eq!(page.eval("location.hash"), "#/component/libvips.so.42");
    assert_eq!(page.column("api-table", "api"), ["vips_thumbnail_buffer", "vips_image_write_to_buffer"]);
    let callees: BTreeSet<&str> =
        flows(&report).iter().filter(|r| r["caller"] == "libvips.so.42").filter_map(|r| r["callee"].as_str()).collect();
    let shown: BTreeSet<String> = page.column("callee-table", "component").into_iter().collect();
    assert_eq!(shown.iter().map(String::as_str).collect::<BTreeSet<_>>(), callees);
    assert_eq!(page.eval("document.querySelector('.box.selected').dataset.component"), "libvips.so.42");

    // By keyboard: a box of the graph, then a row of its table.
    page.eval("document.querySelector(\"[data-component='libc.so.6']\").focus()");
    page.browser.press("Enter", 13);
    page.browser.wait("document.querySelector('.crumbs').innerText.includes('libc.so.6')");
    page.eval("document.getElementById('api-table').focus()");
    let apis = page.column("api-table", "api");
    page.browser.press("ArrowDown", 40);
    page.browser.press("ArrowDown", 40);
    page.browser.press("Enter", 13);
    let wanted = format!("#/component/libc.so.6/api/{}", apis[1]);
    page.browser.wait("document.getElementById('caller-table') !== null");
    assert_eq!(page.eval("location.hash"), wanted);
    let callers: BTreeSet<&str> = flows(&report)
        .iter()
        .filter(|r| r["callee"] == "libc.so.6" && r["api"] == apis[1].as_str())
        .filter_map(|r| r["caller"].as_str())
        .collect();
    assert_eq!(page.column("caller-table", "caller").iter().map(String::as_str).collect::<BTreeSet<_>>(), callers);
    // The focus went along; Escape goes up again.
    assert_eq!(page.eval("document.activeElement.id"), "caller-table");
    page.browser.press("Escape", 27);
    page.browser.wait("document.getElementById('api-table') !== null");

    // The address alone leads to the same place, and a step back to the one before.
    let url = format!("{}#/component/libc.so.6/api/memcpy", page.url);
    page.browser.open(&url);
    assert_eq!(page.column("caller-table", "caller"), ["libvips.so.42", "libpng16.so.16"]);
    page.click(".crumbs li:first-child a");
    page.browser.wait("document.getElementById('component-table') !== null");
    page.eval("history.back()");
    page.browser.wait("document.getElementById('caller-table') !== null");

    // A finding leads to what it is about.
    page.click(".findings li:nth-child(2) .next a");
    page.browser.wait("document.querySelector('.crumbs').innerText.includes('orc_executor_run')");

    // A flow's row leads to its API; the slash leads to the filter.
    page.click("#flow-table tbody tr[data-index='1'] td");
    page.browser.wait("document.querySelector('.crumbs').innerText.includes('vips_thumbnail_buffer')");
    page.browser.press("/", 191);
    assert_eq!(page.eval("document.activeElement.id"), "flow-filter");
    assert_eq!(page.eval("document.activeElement.value"), "");
    page.assert_quiet();
}

#[test]
fn browser_shows_hostile_names_as_text() {
    let report = sample::hostile();
    let Some(mut page) = page("browser_shows_hostile_names_as_text", &report) else { return };
    page.assert_quiet();
    let places: Vec<Value> = flows(&report).iter().map(|r| json!([r["callee"], r["api"]])).collect();
    for place in &places {
        let script = format!(
            "(() => {{ const [c, a] = {place}; location.hash = '#/component/' + encodeURIComponent(c); location.hash += '/api/' + encodeURIComponent(a); }})()"
        );
        page.eval(&script);
        page.browser.wait("document.getElementById('caller-table') !== null");
        assert_eq!(page.column("caller-table", "caller").len(), 1, "{place}");
        page.click("#caller-table tbody tr[data-index] td");
        page.browser.wait("document.getElementById('api-table') !== null");
    }
    for row in 0..report["latency"].as_array().unwrap().len() {
        page.click(&format!("#latency-table tbody tr[data-index='{row}'] td"));
        assert_ne!(page.text("#latency-function"), "", "{row}");
    }
    page.eval("for (const d of document.querySelectorAll('details')) d.open = true");
    page.filter("</script>");
    page.eval("new Promise(done => setTimeout(done, 50))");
    assert_eq!(page.eval("window.injected"), Value::Null);
    // Only our own elements: one data block, one script, no picture, no drawing but the graph, no handler attribute.
    assert_eq!(page.eval("document.querySelectorAll('img, iframe, object, base, form, svg svg').length"), 0);
    assert_eq!(page.eval("document.querySelectorAll('svg').length"), 1);
    let handlers =
        "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length";
    assert_eq!(page.eval(handlers), 0);
    assert_eq!(page.eval("[...document.links].filter(a => !a.getAttribute('href').startsWith('#')).length"), 0);
    // What would reorder or hide text is spelled out; everything else is there letter by letter.
    let everything = page.eval("document.body.innerText + [...document.querySelectorAll('[title],[aria-label]')].map(e => e.title + e.ariaLabel).join('')");
    let everything = everything.as_str().unwrap();
    assert!(!everything.contains(['\u{202e}', '\u{202c}', '\u{2028}', '\u{0}', '\u{1b}']));
    assert!(everything.contains("evil\\u{202e}gpj.exe\\u{202c}"));
    assert!(everything.contains("</script><img src=x onerror=window.injected=1>"));
    assert!(everything.contains("&lt;b&gt;&amp;"));
    page.assert_quiet();
    // And if a name did get in: the policy refuses scripts, handlers and connections.
    page.eval(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.injected = 5'}))",
    );
    page.eval("document.body.insertAdjacentHTML('beforeend', '<svg onload=\"window.injected = 6\"></svg>')");
    assert_eq!(page.eval("fetch('https://example.org/').then(() => 'sent', () => 'refused')"), "refused");
    page.eval("new Promise(done => setTimeout(done, 50))");
    assert_eq!(page.eval("window.injected"), Value::Null);
}

#[test]
fn browser_keeps_thousands_of_flows_fluid() {
    for &n in transect_testkit::sized(&[20_000][..], &[5_000, 20_000]) {
        let report = sample::many(n);
        let Some(mut page) = page("browser_keeps_thousands_of_flows_fluid", &report) else { return };
        let rows = "document.querySelectorAll('#flow-table tbody tr').length";
        assert!(page.eval(rows).as_i64().unwrap() < 60);
        let nodes = page.eval("document.querySelectorAll('*').length").as_i64().unwrap();
        assert!(nodes < 4_000, "{nodes} elements for {n} flows");
        // From the event to the finished layout of the frame, which the browser then paints.
        let timed = |page: &mut Page, action: &str| -> f64 {
            let script = format!(
                "(() => {{ const t = performance.now(); {action}; document.body.offsetHeight; return performance.now() - t; }})()"
            );
            page.eval(&script).as_f64().unwrap()
        };
        let load =
            page.eval("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd").as_f64().unwrap();
        let mut keystrokes = Vec::new();
        for text in ["i", "in", "ins", "inse", "inser", "insert", "insert 7"] {
            let action = format!(
                "const f = document.getElementById('flow-filter'); f.value = {}; f.dispatchEvent(new Event('input'))",
                json!(text)
            );
            keystrokes.push(timed(&mut page, &action));
        }
        let expected = flows(&report)
            .iter()
            .filter(|r| {
                let text = ["caller", "callee", "api", "symbol", "version", "class"]
                    .map(|k| r[k].as_str().unwrap().to_lowercase())
                    .join(" ");
                text.contains("insert") && text.contains('7')
            })
            .count();
        let digits =
            |text: String| text.chars().take_while(|c| *c != ' ').filter(char::is_ascii_digit).collect::<String>();
        assert_eq!(digits(page.text("#flow-count")), expected.to_string());
        page.filter("");
        let mut sorts = Vec::new();
        for column in ["api", "calls", "total_ns", "caller", "mean_ns"] {
            let action = format!("document.querySelector('#flow-table th[data-column={column}] button').click()");
            sorts.push(timed(&mut page, &action));
        }
        // Jumps to places: the row there is the one that the order says.
        page.sort("flow-table", "calls");
        let mut calls: Vec<i64> = flows(&report).iter().map(|r| r["calls"].as_i64().unwrap()).collect();
        calls.sort_by_key(|c| -c);
        for place in [0, n / 3, n / 2, n - 1] {
            page.eval(&format!("document.getElementById('flow-table').scrollTop = {} * 30", place));
            page.browser.wait(&format!("document.querySelector('#flow-table tr[data-index=\"{place}\"]') !== null"));
            let title =
                page.eval(&format!("document.querySelector('#flow-table tr[data-index=\"{place}\"]').cells[4].title"));
            let shown: String =
                title.as_str().unwrap().chars().take_while(|c| *c != ' ').filter(char::is_ascii_digit).collect();
            assert_eq!(shown, calls[place].to_string(), "row {place}");
            assert!(page.eval(rows).as_i64().unwrap() < 60);
        }
        // A fast scroll, 400 pixels a frame: time from frame to frame, and rows always in sight.
        page.eval("document.getElementById('flow-table').scrollIntoView(); document.getElementById('flow-table').scrollTop = 0");
        page.browser.wait("document.querySelector('#flow-table tr[data-index=\"0\"]') !== null");
        let before = page.main_thread_ms();
        let scroll = page.eval(
            "new Promise(done => { const t = document.getElementById('flow-table'); 
               const gaps = []; let empty = 0, last = performance.now();
               const step = now => { gaps.push(now - last); last = now; t.scrollTop += 400;
                 const box = t.getBoundingClientRect();
                 const seen = document.elementFromPoint(box.left + 50, box.top + box.height / 2);
                 if (!seen || !seen.closest('tr[data-index]')) empty += 1;
                 if (gaps.length < 120) requestAnimationFrame(step);
                 else done({ gaps: gaps.slice(2).sort((a, b) => a - b), empty }); };
               requestAnimationFrame(step); })",
        );
        let gap = |part: f64| {
            let gaps = scroll["gaps"].as_array().unwrap();
            gaps[((gaps.len() - 1) as f64 * part) as usize].as_f64().unwrap()
        };
        let busy = (page.main_thread_ms() - before) / 120.0;
        // Rows are built ahead of the sight, so this does not depend on how fast the machine is.
        assert_eq!(scroll["empty"], 0, "a frame had no row in sight");
        let spread = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            format!("{:.0} ms (slowest {:.0})", times[times.len() / 2], times[times.len() - 1])
        };
        let _ = writeln!(
            std::io::stderr(),
            "{n} flows: loaded in {load:.0} ms, {nodes} elements; keystroke {}, sort {}; scroll: {busy:.1} ms of script, \
             style and layout a frame, frame median {:.1} ms, p95 {:.1} ms",
            spread(&mut keystrokes),
            spread(&mut sorts),
            gap(0.5),
            gap(0.95),
        );
        page.assert_quiet();
    }
}

#[test]
fn browser_folds_small_components_and_says_so() {
    let report = sample::many(2_000);
    let Some(mut page) = page("browser_folds_small_components_and_says_so", &report) else { return };
    assert_eq!(page.eval("document.querySelectorAll('.box').length"), 13);
    assert_eq!(page.text(".box.others .name"), "48 others");
    assert!(page.text(".graph-note").contains("48 components that take little are folded into one box."));
    page.eval("(() => { const s = document.getElementById('graph-size'); s.value = '40'; s.dispatchEvent(new Event('change')); })()");
    assert_eq!(page.eval("document.querySelectorAll('.box').length"), 41);
    // Hovering a box dims what it has nothing to do with.
    page.eval("document.querySelector('.box').dispatchEvent(new PointerEvent('pointerenter'))");
    assert_eq!(page.eval("document.querySelector('#graph svg').classList.contains('emphasis')"), true);
    page.eval("document.querySelector('.box').dispatchEvent(new PointerEvent('pointerleave'))");
    assert_eq!(page.eval("document.querySelector('#graph svg').classList.contains('emphasis')"), false);
    page.assert_quiet();
}

#[test]
fn browser_follows_the_system_theme_and_a_narrow_window() {
    let Some(mut page) = page("browser_follows_the_system_theme_and_a_narrow_window", &sample::realistic()) else {
        return;
    };
    let background = "getComputedStyle(document.body).backgroundColor";
    let prefer = |page: &mut Page, scheme: &str| {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        page.browser.call("Emulation.setEmulatedMedia", features);
    };
    prefer(&mut page, "light");
    let light = page.eval(background);
    prefer(&mut page, "dark");
    let dark = page.eval(background);
    assert_ne!(light, dark);
    page.click("#theme-toggle");
    assert_eq!(page.eval(background), light);
    page.click("#theme-toggle");
    assert_eq!(page.eval(background), dark);
    for width in [1400, 1000, 480] {
        let window = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        page.browser.call("Emulation.setDeviceMetricsOverride", window);
        let overflow = page.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
        assert!(overflow <= 0, "the page is {overflow} pixels too wide at {width}");
    }
    page.assert_quiet();
}

#[test]
fn browser_copes_with_counts_only_and_with_nothing() {
    let mut report = sample::realistic();
    report["meta"]["timing"] = json!({ "mode": "count" });
    for row in report["flows"].as_array_mut().unwrap() {
        for key in ["total_ns", "self_ns", "attributed_ns"] {
            row[key] = Value::Null;
            row.as_object_mut().unwrap().retain(|k, _| !k.ends_with("_low") && !k.ends_with("_high"));
        }
    }
    for row in report["components"].as_array_mut().unwrap() {
        for key in ["self_ns", "wait_ns", "self_attributed_ns", "wait_attributed_ns"] {
            row[key] = Value::Null;
        }
    }
    let Some(mut counted) = page("browser_copes_with_counts_only_and_with_nothing", &report) else { return };
    assert!(counted.text(".graph-note").contains("No times were taken: arrows go by calls."));
    assert!(counted.text("header .facts").contains("counts only"));
    assert!(counted.column("flow-table", "total_ns").iter().all(|text| text == "–"));
    counted.click("[data-component='libvips.so.42']");
    counted.browser.wait("document.getElementById('callee-table') !== null");
    assert_eq!(counted.column("callee-table", "calls")[0], "24.4 M");
    counted.assert_quiet();
    drop(counted);

    let empty = json!({ "meta": {}, "summary": [], "components": [], "flows": [], "threads": [], "waits": [], "locks": [], "loss": [] });
    for report in [empty, json!({})] {
        let mut bare = page("browser_copes_with_counts_only_and_with_nothing", &report).unwrap();
        assert!(bare.text("#findings").contains("Nothing unusual"));
        assert!(bare.text("#loss").contains("Nothing: every linkage slot was hooked"));
        bare.assert_quiet();
    }
}

/// Pixels of the picture that are neither background nor grid: red, green and blue of each drawn cell's middle.
fn drawn_cells(page: &mut Page) -> i64 {
    page.eval(
        "(() => { const c = document.getElementById('latency-canvas'); \
         const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; \
         for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255 && d[i + 2] > d[i] + 40) n += 1; return n; })()",
    )
    .as_i64()
    .unwrap()
}

#[test]
fn browser_shows_latencies_over_time() {
    let report = sample::latencies(60);
    let Some(mut page) = page("browser_shows_latencies_over_time", &report) else { return };
    page.assert_quiet();
    let headings = page.eval("[...document.querySelectorAll('h2')].map(h => h.textContent)");
    assert_eq!(headings, json!(["Findings", "Latency", "Losses"]), "no empty tables of calls");
    let links = page.eval("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))");
    assert_eq!(links, json!(["#findings", "#latency", "#loss"]));
    let facts = page.text("header .facts");
    for expected in ["2,413", "2.0 % budget, every 10.0 ms", "781 / s", "195 / s", "803 µs"] {
        assert!(facts.contains(expected), "{expected} in {facts}");
    }
    // The longest comes first and is shown; its tail is marked, and its distribution has two parts.
    assert_eq!(page.text("#latency-function"), "Server::handle(Request const&)");
    assert!(drawn_cells(&mut page) > 500);
    let heavy = page.eval("[...document.querySelectorAll('#latency-table td.tone-warn')].length");
    assert_eq!(heavy, 1);
    let line = page.column("latency-table", "distribution").remove(0);
    assert!(line.trim().contains('\u{2007}') && line.contains('█'), "{line:?}");
    // Namesakes are told apart by their source.
    let notes = page.eval(
        "[...document.querySelectorAll('#latency-table tr[data-index] small')].map(s => s.textContent).filter(Boolean)",
    );
    assert_eq!(notes, json!(["src/main.c:2", "src/pool.c:3"]));
    // A finding leads to its function, a row to its own, and the place is in the address.
    page.click(".findings .next a");
    page.eval("new Promise(done => { location.hash = document.querySelector('.findings .next a').hash; setTimeout(done, 50) })");
    assert_eq!(page.text("#latency-function"), "Codec::encode(Frame const&)");
    page.click("#latency-table tbody tr[data-index='3'] td");
    assert_eq!(page.text("#latency-function"), "reset");
    assert!(page.text("#latency-picture .path").contains("src/pool.c:3"));
    let hash = page.eval("decodeURIComponent(location.hash)");
    assert_eq!(hash, "#/latency/service/reset/4288");
    page.assert_quiet();
}

#[test]
fn browser_tells_what_lies_under_the_pointer() {
    let report = sample::latencies(60);
    let Some(mut page) = page("browser_tells_what_lies_under_the_pointer", &report) else { return };
    let point = |page: &mut Page, x: f64, y: f64| {
        page.eval(&format!(
            "(() => {{ const c = document.getElementById('latency-canvas'), b = c.getBoundingClientRect(); \
             c.dispatchEvent(new PointerEvent('pointermove', {{clientX: b.left + {x}, clientY: b.top + {y}}})); \
             const t = document.querySelector('.latency-tip'); return t.hidden ? '' : t.innerText; }})()"
        ))
    };
    assert_eq!(point(&mut page, 3.0, 3.0), "", "beside the picture");
    // Somewhere in the first second's column there are cells with samples.
    let found: Vec<String> =
        (9..274).map(|y| point(&mut page, 66.0, f64::from(y)).as_str().unwrap().to_owned()).collect();
    let with_samples: BTreeSet<&String> = found.iter().filter(|text| !text.contains("\n0 samples")).collect();
    assert_eq!(with_samples.len(), 4, "{with_samples:?}");
    assert!(with_samples.iter().any(|text| text.contains("9 samples")), "{with_samples:?}");
    assert!(found.iter().all(|text| text.starts_with("0 ns – 1.00 s after the start")), "{:?}", found[0]);
    page.assert_quiet();
}

#[test]
fn browser_draws_in_both_themes_and_says_when_there_is_nothing_to_draw() {
    let report = sample::latencies(60);
    let Some(mut page) = page("browser_draws_in_both_themes", &report) else { return };
    let pixel = "document.getElementById('latency-canvas').toDataURL()";
    let before = page.eval(pixel);
    page.click("#theme-toggle");
    page.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert_ne!(page.eval(pixel), before, "the picture follows the theme");
    let last = report["latency"].as_array().unwrap().len() - 1;
    page.eval(&format!(
        "new Promise(done => {{ location.hash = '#/latency/libcodec.so.2/main/{}'; setTimeout(done, 50) }})",
        4096 + last * 64
    ));
    assert_eq!(page.text("#latency-function"), "main");
    assert!(page.text("#latency-picture").contains("nothing to draw"));
    assert_eq!(page.eval("document.querySelector('#latency-canvas').offsetParent === null"), true);
    page.assert_quiet();
}

#[test]
fn browser_holds_five_thousand_latencies() {
    let report = sample::latencies(5_000);
    let Some(mut page) = page("browser_holds_five_thousand_latencies", &report) else { return };
    assert_eq!(page.text("#latency-count"), "5,000 functions");
    let rows = page.eval("document.querySelectorAll('#latency-table tr[data-index]').length").as_i64().unwrap();
    assert!(rows < 60, "{rows} rows in the document");
    page.eval(
        "(() => { const f = document.getElementById('latency-filter'); f.value = 'codec step_4711'; \
         f.dispatchEvent(new Event('input')); })()",
    );
    assert_eq!(page.text("#latency-count"), "1 of 5,000 functions");
    let began = page.main_thread_ms();
    page.click("#latency-table tbody tr[data-index='0'] td");
    let took = page.main_thread_ms() - began;
    let _ = writeln!(std::io::stderr(), "showing one of 5,000 functions: {took:.1} ms");
    assert!(page.text("#latency-function").contains("step_4711"));
    page.assert_quiet();
}
