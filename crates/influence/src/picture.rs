//! The terms as a picture: bars with their intervals.

use std::fmt::Write;

use crate::Influence;
use crate::table::{interval, signed, time};

/// Bars, at most.
const BARS: usize = 40;
const ROW: f64 = 24.0;
const LABEL_LETTERS: usize = 34;
const LETTER: f64 = 7.6;
const BARS_WIDTH: f64 = 460.0;
const NUMBERS: f64 = 110.0;

/// Text for XML and HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// An SVG element: every term but the base, by size, those that chance explains paler.
pub(crate) fn svg(influence: &Influence) -> String {
    let terms: Vec<_> = influence.terms.iter().filter(|term| !term.features.is_empty()).take(BARS).collect();
    let bounds = terms.iter().flat_map(|term| [Some(term.ns), term.low, term.high]).flatten();
    let (low, high) = bounds.fold((0, 0), |(low, high), own: i64| (low.min(own), high.max(own)));
    let span = (high as f64 - low as f64).max(1.0);
    let longest = terms.iter().map(|term| term.label().chars().count().min(LABEL_LETTERS)).max().unwrap_or(0);
    let labels = 20.0 + LETTER * longest as f64;
    let x = |ns: i64| labels + (ns as f64 - low as f64) / span * BARS_WIDTH;
    let (width, height) = (labels + BARS_WIDTH + NUMBERS, ROW * (terms.len() as f64 + 1.5));
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Terms with their intervals\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    for (row, term) in terms.iter().enumerate() {
        let middle = (row as f64 + 0.5) * ROW;
        let label = term.label();
        let short: String = match label.char_indices().nth(LABEL_LETTERS) {
            Some((end, _)) => format!("{}…", &label[..end]),
            None => label.clone(),
        };
        let class = match (term.is_significant() || term.low.is_none(), term.ns < 0) {
            (false, _) => "chance",
            (true, true) => "saves",
            (true, false) => "costs",
        };
        let (from, to) = (x(term.ns.min(0)), x(term.ns.max(0)));
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "<g><title>{}: {} ({})</title><text class=\"label\" x=\"{}\" y=\"{}\">{}</text>\
             <rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\"/>",
            escape(&label),
            signed(term.ns),
            escape(&interval(term.low, term.high)),
            labels - 10.0,
            middle + 4.0,
            escape(&short),
            middle - 7.0,
            (to - from).max(1.0),
            14
        );
        if let (Some(low), Some(high)) = (term.low, term.high) {
            let (from, to) = (x(low), x(high));
            let _ = write!(
                out,
                "<path class=\"interval\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {0:.1}V{1:.1}M{to:.1} {0:.1}V{1:.1}\"/>",
                middle - 4.0,
                middle + 4.0
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"number\" x=\"{}\" y=\"{}\">{}</text></g>",
            width - 4.0,
            middle + 4.0,
            signed(term.ns)
        );
    }
    let bottom = terms.len() as f64 * ROW;
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{0:.1} 0V{bottom}M{labels} {bottom}H{1}\"/>\
         <text class=\"tick\" x=\"{0:.1}\" y=\"{2}\">0</text><text class=\"tick\" x=\"{1}\" y=\"{2}\">{3}</text>",
        x(0),
        labels + BARS_WIDTH,
        bottom + 16.0,
        time(high)
    );
    if low < 0 {
        let _ = writeln!(out, "<text class=\"tick\" x=\"{labels}\" y=\"{}\">{}</text>", bottom + 16.0, time(low));
    }
    out.push_str("</svg>\n");
    out
}
