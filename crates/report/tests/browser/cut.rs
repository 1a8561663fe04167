//! Cuts in the page: its sums and their intervals are those of `cut`, row by row, on random questions; and its section can be used.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use transect_analyze::synthetic::{feature_packer, scheduled_compressor};
use transect_analyze::{CutDimensions, CutFilter, CutKey, CutQuery, CutView, cut};
use transect_profile_model::Profile;
use transect_report::html::PageReport;

use crate::page::{Page, page};

const ENGINE: &str = include_str!("../../web/dist/cut.js");
const MEASURES: [&str; 6] = ["time", "on-cpu", "runnable", "blocked", "critical", "samples"];
const DIMENSIONS: [&str; 20] = [
    "process",
    "thread",
    "thread-group",
    "component",
    "api",
    "caller",
    "function",
    "line",
    "kernel-function",
    "system-call",
    "state",
    "wait",
    "object",
    "holder",
    "waker",
    "stack",
    "host",
    "run",
    "service",
    "version",
];

/// A question in the words of the command line.
#[derive(Debug, Clone)]
struct Asked {
    by: Vec<String>,
    measure: &'static str,
    filter: Option<String>,
    from: Option<i64>,
    to: Option<i64>,
}

impl Asked {
    fn of(&self, profile: &Profile) -> CutView {
        let query = CutQuery {
            by: match self.by[..] {
                [] => Vec::new(),
                _ => self.by.join(",").parse::<CutDimensions>().unwrap().0,
            },
            measure: self.measure.parse().unwrap(),
            filter: self.filter.as_deref().map(|filter| CutFilter::parse(filter).unwrap()),
            from_ns: self.from,
            to_ns: self.to,
        };
        cut(profile, &query).unwrap()
    }

    fn json(&self) -> Value {
        json!({ "by": self.by, "measure": self.measure, "where": self.filter, "from": self.from, "to": self.to })
    }
}

/// The rows of an answer as the page gives them.
fn rows(view: &CutView) -> Value {
    let key = |key: &CutKey| match key {
        CutKey::None => Value::Null,
        CutKey::Name(name) => json!(name),
        CutKey::Time(ns) => json!(ns),
    };
    let rows = view.rows.iter().map(|row| json!([row.keys.iter().map(key).collect::<Vec<_>>(), row.value]));
    rows.collect()
}

/// Names that a profile has in a dimension.
fn names(profile: &Profile, dimension: &str) -> Vec<String> {
    let asked = Asked { by: vec![dimension.to_owned()], measure: "time", filter: None, from: None, to: None };
    let name = |key: &CutKey| match key {
        CutKey::Name(name) => Some(name.clone()),
        _ => None,
    };
    let mut names: Vec<String> = asked.of(profile).rows.iter().filter_map(|row| name(&row.keys[0])).collect();
    names.retain(|name| !name.contains('\''));
    names.truncate(40);
    names.push("none".to_owned());
    names
}

/// Comparisons of one dimension with names that it has.
fn term(dimension: &str, names: Vec<String>) -> impl Strategy<Value = String> + use<> {
    let dimension = dimension.to_owned();
    (0..6usize, select(names.clone()), select(names)).prop_map(move |(operator, one, other)| {
        // A part of a name that means itself.
        let plain: String =
            one.chars().skip_while(|c| !c.is_alphanumeric()).take_while(|c| c.is_alphanumeric()).collect();
        match operator {
            0 => format!("{dimension} = '{one}'"),
            1 => format!("{dimension} != '{one}'"),
            2 => format!("{dimension} in ('{one}', '{other}')"),
            3 => format!("{dimension} not in ('{one}','{other}')"),
            4 => format!("{dimension} ~ '{plain}'"),
            _ => format!("{dimension} !~ '^{plain}'"),
        }
    })
}

fn filter(profile: &Profile, dimensions: &[&str]) -> impl Strategy<Value = String> + use<> {
    let mut terms: Vec<BoxedStrategy<String>> = dimensions
        .iter()
        .filter(|word| **word != "stack")
        .map(|word| term(word, names(profile, word)).boxed())
        .collect();
    terms.push(term("stack", names(profile, "function")).boxed());
    proptest::strategy::Union::new(terms).prop_recursive(3, 8, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|one| format!("not ({one})")),
            two.clone().prop_map(|(left, right)| format!("{left} and {right}")),
            two.clone().prop_map(|(left, right)| format!("{left} or {right}")),
            two.prop_map(|(left, right)| format!("({left} or {right}) and not {left}")),
        ]
    })
}

fn asked(profile: &Profile, dimensions: &[&'static str]) -> impl Strategy<Value = Asked> + use<> {
    let wall = profile.meta.wall_ns;
    let by = subsequence(dimensions.to_vec(), 0..4).prop_shuffle();
    let steps = prop_oneof![3 => Just(None), 1 => select(vec!["time/1s", "time/250ms", "time/3333us"]).prop_map(Some)];
    let instant = || prop_oneof![1 => Just(None), 2 => (-wall / 10..wall * 11 / 10).prop_map(Some)];
    let filter = prop_oneof![1 => Just(None), 3 => filter(profile, dimensions).prop_map(Some)];
    (by, steps, select(MEASURES.to_vec()), filter, instant(), instant()).prop_map(
        |(by, step, measure, filter, from, to)| {
            let mut by: Vec<String> = by.into_iter().map(str::to_owned).collect();
            by.extend(step.map(str::to_owned));
            let (from, to) =
                if from.is_some() && to.is_some() && from >= to { (to, from.map(|ns| ns + 1)) } else { (from, to) };
            Asked { by, measure, filter, from, to }
        },
    )
}

fn hold_to_the_command_line(test: &str, profile: &Profile, dimensions: &[&'static str]) {
    let report = serde_json::to_value(PageReport::new(profile)).unwrap();
    let packed = report["cut"].clone();
    let Some(mut page) = page(test, &json!({})) else { return };
    page.eval(&format!("{ENGINE}; globalThis.engine = transectCut; 0"));
    page.eval(&format!("engine.unpackCut({packed}).then(data => {{ globalThis.data = data; return 0; }})"));
    let questions = asked(profile, dimensions);
    let mut runner = TestRunner::deterministic();
    let (mut seen, mut uncertain) = (0, 0);
    for _ in 0..80 {
        let asked = questions.new_tree(&mut runner).unwrap().current();
        let expected = asked.of(profile);
        let question = asked.json();
        let got = page.eval(&format!(
            "(() => {{ const a = engine.answer(data, {question}); \
             return {{ rows: a.rows.map(r => [r.keys, r.value]), spreads: a.rows.map(r => [r.low, r.high]), \
             total: a.total, whole: a.whole }}; }})()"
        ));
        assert_eq!(got["total"], json!(expected.scope.total), "{asked:?}");
        assert_eq!(got["whole"], json!(expected.scope.whole), "{asked:?}");
        // The page has the weight of a sample in sixteenths.
        for (row, spread) in expected.rows.iter().zip(got["spreads"].as_array().unwrap()) {
            let [low, high] = [0, 1].map(|at| spread[at].as_i64().unwrap());
            let near = 2 + (row.high - row.low) / 500;
            assert!(
                (low - row.low).abs() <= near && (high - row.high).abs() <= near,
                "{asked:?}: {low} {high} {row:?}"
            );
            uncertain += usize::from(row.low < row.high);
        }
        let expected = rows(&expected);
        if got["rows"] != expected {
            let (got, expected) = (got["rows"].as_array().unwrap(), expected.as_array().unwrap());
            let differ = got.iter().zip(expected).find(|(got, expected)| got != expected);
            panic!("{asked:?}: {} rows, {} expected; {differ:?}", got.len(), expected.len());
        }
        seen += got["rows"].as_array().unwrap().len();
    }
    assert!(seen > 2_000 && uncertain > 500, "{seen} rows compared, {uncertain} of them estimates");
}

#[test]
fn browser_cuts_a_schedule_as_the_command_line_does() {
    let profile = scheduled_compressor(5_000, 20);
    hold_to_the_command_line("browser_cuts_a_schedule_as_the_command_line_does", &profile, &DIMENSIONS);
}

#[test]
fn browser_cuts_features_as_the_command_line_does() {
    // The packer's regions in the compressor's threads.
    let packer = feature_packer();
    let mut profile = scheduled_compressor(2_000, 20);
    profile.feature = packer.feature;
    profile.threads = packer.threads;
    for (thread, task) in profile.threads.iter_mut().zip(&profile.sched.tasks) {
        (thread.process, thread.tid) = (task.process, task.tid);
    }
    // Blocked for whatever, at some time: shares of long remainders are products beyond 2^53.
    profile.sched.tasks.iter_mut().for_each(|task| task.blocked_ns += 1_234_567_891);
    let dimensions = [&DIMENSIONS[..], &["feature"]].concat();
    hold_to_the_command_line("browser_cuts_features_as_the_command_line_does", &profile, &dimensions);
}

/// What the section says of the total, ns; waits until it is that of the address.
fn total(page: &mut Page) -> Option<i64> {
    let title = page.eval("document.querySelector('.cut-total td:last-child')?.title ?? ''");
    title.as_str()?.replace([',', ' '], "").trim_end_matches("ns").parse().ok()
}

/// Waits until the page's total is what is expected of it, which may depend on its address.
fn total_is(page: &mut Page, expected: impl Fn(&mut Page) -> Option<i64>) {
    let mut last = (None, None);
    for _ in 0..200 {
        last = (total(page), expected(page));
        if last.0.is_some() && last.0 == last.1 {
            return;
        }
        page.eval("new Promise(done => setTimeout(done, 100))");
    }
    panic!("the total is {:?} in place of {:?}", last.0, last.1);
}

fn press(page: &mut Page, selector: &str, key: &str) {
    page.eval(&format!(
        "(() => {{ const e = document.querySelector({}); e.focus(); \
         e.dispatchEvent(new KeyboardEvent('keydown', {{ key: {}, bubbles: true }})); }})()",
        json!(selector),
        json!(key)
    ));
}

/// Clicks the button with this text.
fn click(page: &mut Page, buttons: &str, text: &str) {
    let script = format!(
        "[...document.querySelectorAll({})].find(b => b.textContent === {}).click()",
        json!(buttons),
        json!(text)
    );
    page.eval(&script);
}

/// The question with the range that the address has.
fn in_address(page: &mut Page, asked: &Asked) -> Option<Asked> {
    let hash = page.eval("location.hash").as_str()?.to_owned();
    let instant =
        |name: &str| -> Option<i64> { hash.split(['/', '&']).find_map(|word| word.strip_prefix(name))?.parse().ok() };
    Some(Asked { from: Some(instant("from=")?), to: Some(instant("to=")?), ..asked.clone() })
}

#[test]
fn browser_selects_a_range_and_a_key_of_a_cut() {
    let profile = scheduled_compressor(5_000, 20);
    let report = serde_json::to_value(PageReport::new(&profile)).unwrap();
    let Some(mut page) = page("browser_selects_a_range_and_a_key_of_a_cut", &report) else { return };
    page.browser.wait("document.querySelector('.cut-total') !== null");
    let first = Asked {
        by: ["thread-group", "state", "function"].map(str::to_owned).to_vec(),
        measure: "time",
        filter: None,
        from: None,
        to: None,
    };
    let value = |asked: &Asked| asked.of(&profile).scope.total;
    total_is(&mut page, |_| Some(value(&first)));
    // Keys move the ends of the range, by bins; the address has it.
    for key in ["Home", "PageUp", "PageUp", "ArrowRight"] {
        press(&mut page, ".cut-handle[aria-label='Range from']", key);
    }
    press(&mut page, ".cut-handle[aria-label='Range to']", "PageDown");
    let in_range = |page: &mut Page| in_address(page, &first).map(|ranged| value(&ranged));
    total_is(&mut page, in_range);
    assert!(total(&mut page).unwrap() < value(&first));
    // So does the mouse: a range is dragged out.
    let strip = page.eval(
        "(() => { const e = document.getElementById('cut-strip'); e.scrollIntoView({ block: 'center' }); \
         const b = e.getBoundingClientRect(); return [b.left, b.top + b.height / 2, b.width]; })()",
    );
    let [left, y, width] = [0, 1, 2].map(|at| strip[at].as_f64().unwrap());
    for (kind, share) in [("mousePressed", 0.5), ("mouseMoved", 0.6), ("mouseMoved", 0.25), ("mouseReleased", 0.25)] {
        let event =
            json!({ "type": kind, "x": left + share * width, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        page.browser.call("Input.dispatchMouseEvent", event);
    }
    let wall = profile.meta.wall_ns as f64;
    let is_dragged = |ranged: &Asked| {
        let near = |instant: Option<i64>, share: f64| (instant.unwrap() as f64 / wall - share).abs() < 0.02;
        near(ranged.from, 0.25) && near(ranged.to, 0.5)
    };
    let dragged = |page: &mut Page| in_address(page, &first).filter(is_dragged);
    total_is(&mut page, |page| dragged(page).map(|ranged| value(&ranged)));
    let ranged = dragged(&mut page).unwrap();
    // A click on a key is a filter, one on its sign the opposite; filters are chips that can be removed.
    click(&mut page, "button.cut-key", "blocked");
    let blocked = Asked { filter: Some("state = blocked".to_owned()), ..ranged.clone() };
    total_is(&mut page, |_| Some(value(&blocked)));
    page.click("button.cut-not[aria-label^='Not function: pthread_cond_wait']");
    let filter = "state = blocked and function != pthread_cond_wait".to_owned();
    total_is(&mut page, |_| Some(value(&Asked { filter: Some(filter.clone()), ..ranged.clone() })));
    assert!(page.text("#cut-command").contains(&format!("--where '{filter}' --from")), "{}", page.text("#cut-command"));
    // Back, and a link.
    page.eval("history.back()");
    total_is(&mut page, |_| Some(value(&blocked)));
    page.click("#cut-where .cut-remove");
    total_is(&mut page, |_| Some(value(&ranged)));
    let critical = Asked {
        by: vec!["component".to_owned()],
        measure: "critical",
        filter: Some("not wait = none".to_owned()),
        ..ranged
    };
    page.eval(
        "location.hash = '#/cut/by=component&measure=critical&where=not+wait+%3D+none&from=1000000000&to=9000000000'",
    );
    let critical = Asked { from: Some(1_000_000_000), to: Some(9_000_000_000), ..critical };
    total_is(&mut page, |_| Some(value(&critical)));
    // A filter can be changed; the timeline hands over what is in sight.
    page.click("#cut-where .cut-edit");
    assert_eq!(page.eval("document.getElementById('cut-filter').value"), "not wait = none");
    page.browser.wait("window.transectTimeline !== undefined");
    page.eval("transectTimeline.show(2000000000, 5000000000)");
    click(&mut page, ".tl-buttons button", "Cut this span");
    let handed_over = Asked { filter: None, from: Some(2_000_000_000), to: Some(5_000_000_000), ..critical };
    total_is(&mut page, |_| Some(value(&handed_over)));
    // What cannot be read is said.
    page.eval(
        "(() => { const f = document.getElementById('cut-filter'); f.value = 'wait = '; f.form.requestSubmit(); })()",
    );
    assert!(page.text(".cut-controls .cut-message").contains("expected a value"));
    page.assert_quiet();
}

#[test]
fn browser_says_why_there_is_no_cut() {
    let mut report = serde_json::to_value(PageReport::new(&scheduled_compressor(500, 2))).unwrap();
    report["cut"] = json!({ "left_out": "too many parts", "lists": [], "details": "", "columns": "" });
    let Some(mut page) = page("browser_says_why_there_is_no_cut", &report) else { return };
    let said = page.text("#cut-place");
    assert!(said.contains("too many parts") && said.contains("transect report DIR --by"), "{said}");
    page.assert_quiet();
}
