use std::fmt::Write;

use crate::picture::{escape, svg};
use crate::table::{interval, signed, time};
use crate::{FailedConfiguration, Influence};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d5dae1;--back:#fff;--costs:#c4562e;--saves:#2e7d5b;--chance:#c3c9d1}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa5b4;--line:#39424f;--back:#161b22;--costs:#e07b52;--saves:#55b88b;--chance:#4b5563}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin-top:2rem}p.facts{color:var(--soft);margin:.3rem 0 1.5rem}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
.scroll{overflow-x:auto}svg{width:100%;min-width:34rem;height:auto;font:13px system-ui,sans-serif}
svg text{fill:var(--ink)}.label,.number{text-anchor:end}.tick{text-anchor:middle;font-size:11px}svg .tick{fill:var(--soft)}
.costs{fill:var(--costs)}.saves{fill:var(--saves)}.chance{fill:var(--chance)}
.interval{stroke:var(--ink);stroke-width:1.4;fill:none}.axis{stroke:var(--line);fill:none}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{text-align:right;padding:.2rem .9rem .2rem 0;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}
tr.chance td{color:var(--soft)}";

/// The result as one page for the browser, without scripts or anything from elsewhere.
pub fn page(influence: &Influence) -> String {
    let name = if influence.model.is_empty() { "Influence of features" } else { &influence.model };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{0}: influence of features</title><style>{STYLE}</style></head><body>\n<h1>{0}: influence of features</h1>\n",
        escape(name)
    );
    let base = influence.terms.iter().find(|term| term.features.is_empty());
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<p class=\"facts\"><code>{}</code><br>{}; {}{} configurations, {} runs; base {}{}</p>",
        escape(&influence.command.join(" ")),
        influence.method.what(),
        if influence.complete { "all " } else { "" },
        influence.configurations,
        influence.runs,
        base.filter(|_| influence.is_reliable()).map_or_else(|| "unknown".to_owned(), |base| time(base.ns)),
        influence
            .explained
            .map(|own| format!("; {:.0} % of the differences explained", own * 100.0))
            .unwrap_or_default()
    );
    if let Some(error) = influence.error_line() {
        let _ = writeln!(out, "<p><strong>{}</strong></p>", escape(&error));
    }
    if influence.outliers > 0 {
        let _ =
            writeln!(out, "<p>Runs left out, far from the others of their configuration: {}</p>", influence.outliers);
    }
    for note in &influence.notes {
        let _ = writeln!(out, "<p>Note: {}</p>", escape(note));
    }
    if influence.is_reliable() {
        terms(&mut out, influence);
    } else {
        let _ = writeln!(out, "<p>{}</p>", escape(&influence.unreliable_line()));
    }
    if !influence.held_out.is_empty() {
        out.push_str("<h2>Predicted configurations</h2>\n<div class=\"scroll\"><table>");
        out.push_str("<tr><th>options</th><th>measured</th><th>predicted</th><th>error</th></tr>\n");
        for own in &influence.held_out {
            let error = (own.predicted_ns as f64 - own.measured_ns as f64) / (own.measured_ns as f64).max(1.0) * 100.0;
            let _ = writeln!(
                out,
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{error:+.1} %</td></tr>",
                escape(&own.options),
                time(own.measured_ns),
                time(own.predicted_ns)
            );
        }
        out.push_str("</table></div>\n");
    }
    for doubt in influence.doubts() {
        let _ = writeln!(out, "<p>{}</p>", escape(&doubt));
    }
    for FailedConfiguration { options, reason } in &influence.failed {
        let _ = writeln!(out, "<p>Left out: <code>{}</code>: {}</p>", escape(options), escape(reason));
    }
    out.push_str("</body></html>\n");
    out
}

/// The terms as a picture and as a table.
fn terms(out: &mut String, influence: &Influence) {
    let _ = writeln!(
        out,
        "<h2>What each option adds, alone and together</h2>\n<div class=\"scroll\">{}</div>\n\
         <p class=\"facts\">Bars: time added while selected (numeric features: from their smallest to their largest \
         value). Whiskers: 95 % intervals; pale bars can be chance.</p>",
        svg(influence)
    );
    out.push_str("<div class=\"scroll\"><table><tr><th>term</th><th>time</th><th>95 % interval</th></tr>\n");
    for term in &influence.terms {
        let ns = if term.features.is_empty() { time(term.ns) } else { signed(term.ns) };
        let class = if term.is_significant() { "" } else { " class=\"chance\"" };
        let interval = escape(&interval(term.low, term.high));
        let _ = writeln!(out, "<tr{class}><td>{}</td><td>{ns}</td><td>{interval}</td></tr>", escape(&term.label()));
    }
    out.push_str("</table></div>\n");
}
