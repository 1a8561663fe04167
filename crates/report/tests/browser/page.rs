//! A report opened in the browser, and what tests ask of it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::devtools::{self, Browser};

/// One browser at a time: several would time each other.
static TURN: Mutex<()> = Mutex::new(());

/// A page on disk and the browser that has it open; `None`, and said so, on a machine without a browser.
pub struct Page {
    pub browser: Browser,
    pub url: String,
    _turn: MutexGuard<'static, ()>,
    _folder: tempfile::TempDir,
}

pub fn page(test: &str, report: &Value) -> Option<Page> {
    let Some(executable) = devtools::find() else {
        // Straight to the stream: the test harness hides what passing tests print.
        let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: no Chromium (apt install chromium)");
        return None;
    };
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("report.html");
    let mut bytes = Vec::new();
    transect_report::html::render(report, &mut bytes).unwrap();
    // To look at them: `TRANSECT_KEEP_PAGES=folder cargo test -p transect-report --test browser`.
    if let Some(keep) = std::env::var_os("TRANSECT_KEEP_PAGES") {
        std::fs::write(PathBuf::from(keep).join(format!("{test}.html")), &bytes).unwrap();
    }
    std::fs::write(&file, bytes).unwrap();
    let url = format!("file://{}", file.display());
    let mut browser = Browser::launch(&executable);
    browser.open(&url);
    Some(Page { browser, url, _turn: turn, _folder: folder })
}

impl Page {
    pub fn eval(&mut self, expression: &str) -> Value {
        self.browser.eval(expression)
    }

    pub fn text(&mut self, selector: &str) -> String {
        let value =
            self.eval(&format!("(e => e.innerText ?? e.textContent)(document.querySelector({}))", json!(selector)));
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Texts of one column of the rows in the document.
    pub fn column(&mut self, table: &str, column: &str) -> Vec<String> {
        let script = format!(
            "(() => {{ const t = document.getElementById({0});
               const i = [...t.querySelectorAll('th')].findIndex(th => th.dataset.column === {1});
               return [...t.querySelectorAll('tbody tr[data-index]')].map(r => r.cells[i].querySelector('.text').textContent); }})()",
            json!(table),
            json!(column)
        );
        serde_json::from_value(self.eval(&script)).unwrap()
    }

    pub fn click(&mut self, selector: &str) {
        let script = format!(
            "document.querySelector({}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))",
            json!(selector)
        );
        self.eval(&script);
    }

    pub fn sort(&mut self, table: &str, column: &str) {
        self.click(&format!("#{table} th[data-column={column}] button"));
    }

    pub fn filter(&mut self, text: &str) {
        let script = format!(
            "(() => {{ const f = document.getElementById('flow-filter'); f.value = {}; f.dispatchEvent(new Event('input')); }})()",
            json!(text)
        );
        self.eval(&script);
    }

    /// Time that the page's main thread has spent in script, style and layout.
    pub fn main_thread_ms(&mut self) -> f64 {
        let metrics = self.browser.call("Performance.getMetrics", json!({}));
        let value = |name: &str| -> f64 {
            let all = metrics["metrics"].as_array().unwrap();
            all.iter().find(|m| m["name"] == name).and_then(|m| m["value"].as_f64()).unwrap()
        };
        ["ScriptDuration", "RecalcStyleDuration", "LayoutDuration"].map(value).iter().sum::<f64>() * 1e3
    }

    pub fn assert_quiet(&mut self) {
        // One frame, so that anything pending has run.
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
        let strangers: Vec<String> =
            self.browser.requests().into_iter().filter(|u| !u.starts_with(&self.url) && u != "data:,").collect();
        assert_eq!(strangers, Vec::<String>::new());
    }
}
