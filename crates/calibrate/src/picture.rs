//! The failure curve as a picture (SVG).

use std::fmt::Write;

use crate::Calibration;
use crate::toggle::SPLITS;
use crate::wait::WaitFailures;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 470.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 380.0;
/// Where points without failure stand, below the axis of the others.
const NONE: f64 = 402.0;
const PANEL: f64 = 380.0;
const LEFT: [f64; 2] = [78.0, 528.0];
/// Decades of failures per million toggles.
const DECADES: i32 = 6;
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#aa4499"];

/// Draws how often the waiting protocol failed, against the length of the wait: one line for each split, lines in cache
/// on the left, evicted on the right.
pub fn svg(c: &Calibration) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" \
         fill=\"#1a1a1a\">\n<title>Failures of the waiting protocol</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text(&mut out, 24.0, 30.0, "start", 17, "#1a1a1a", "Mixed instructions under the waiting protocol");
    let subtitle =
        "executed per million changes of a call that straddles a cache line, against the wait between stores";
    text(&mut out, 24.0, 50.0, "start", 12, "#555555", subtitle);
    let mut waits: Vec<u64> = c.wait_curve.iter().filter_map(|row| row.wait_ticks).collect();
    waits.dedup();
    for (cold, left) in [false, true].into_iter().zip(LEFT) {
        panel(&mut out, c, &waits, cold, left);
    }
    legend(&mut out, c);
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, c: &Calibration, waits: &[u64], cold: bool, left: f64) {
    // One step for each wait, so that 0 and the longest have a place, and one for serialization.
    let step = PANEL / (waits.len() as f64 + 1.0);
    let x = |i: usize| left + step * (i as f64 + 0.5);
    let title = if cold { "second line evicted before each execution" } else { "both lines in cache" };
    text(out, left, TOP - 14.0, "start", 13, "#1a1a1a", title);
    for decade in 0..=DECADES {
        let y = height(10f64.powi(decade));
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e4e4e4\"/>",
            left + PANEL
        );
        let label = ["1", "10", "100", "1,000", "10,000", "100,000", "all"][decade as usize];
        text(out, left - 8.0, y + 4.0, "end", 11, "#555555", label);
    }
    let _ =
        writeln!(out, "<rect x=\"{left}\" y=\"{:.1}\" width=\"{PANEL}\" height=\"20\" fill=\"#f3f6f3\"/>", NONE - 10.0);
    text(out, left - 8.0, NONE + 4.0, "end", 11, "#555555", "none");
    for (i, wait) in waits.iter().enumerate() {
        text(out, x(i), NONE + 26.0, "middle", 10, "#555555", &short(*wait));
    }
    text(out, x(waits.len()), NONE + 26.0, "middle", 10, "#1a1a1a", "mb");
    text(
        out,
        left + PANEL / 2.0,
        NONE + 46.0,
        "middle",
        11,
        "#555555",
        "wait, ticks (mb: membarrier instead of waits)",
    );
    for (k, &split) in SPLITS[1..].iter().enumerate() {
        let place = |row: &&WaitFailures| row.split == split && row.cold == cold;
        let mut points: Vec<(f64, &WaitFailures)> = Vec::new();
        for (i, wait) in waits.iter().enumerate() {
            let row = c.wait_curve.iter().find(|row| row.wait_ticks == Some(*wait) && place(row));
            points.extend(row.map(|row| (x(i), row)));
        }
        // Points side by side where several splits have none.
        let shift = (k as f64 - 1.5) * (step / 6.0).min(4.0);
        let line: Vec<String> = points.iter().map(|(x, row)| format!("{:.1},{:.1}", x + shift, level(row))).collect();
        let colour = COLOURS[k];
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-opacity=\"0.75\"/>",
            line.join(" ")
        );
        points.extend(c.serialized.iter().find(place).map(|row| (x(waits.len()), row)));
        for (x, row) in points {
            let fill = if row.failures == 0 { "#ffffff" } else { colour };
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.4\">\
                 <title>{} failures in {} toggles</title></circle>",
                x + shift,
                level(row),
                row.failures,
                row.toggles
            );
        }
    }
}

fn legend(out: &mut String, c: &Calibration) {
    for (k, split) in SPLITS[1..].iter().enumerate() {
        let x = 640.0 + 76.0 * k as f64;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"26\" y2=\"26\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <circle cx=\"{}\" cy=\"26\" r=\"3\" fill=\"{colour}\"/>",
            x + 22.0,
            x + 11.0,
            colour = COLOURS[k]
        );
        text(out, x + 28.0, 30.0, "start", 12, "#1a1a1a", &format!("{split} + {}", 5 - split));
    }
    text(out, 632.0, 30.0, "end", 12, "#555555", "bytes before + after the line's end:");
    let toggles: u64 = c.wait_curve.iter().chain(&c.serialized).map(|row| row.toggles).sum();
    let note = match c.cpus {
        0 | 1 => "one CPU only: nothing runs while code is changed, so this picture means nothing".to_owned(),
        n => format!(
            "{toggles} toggles, {n} CPUs, {:.2} ticks per ns. \"None\" in so few toggles is no proof.",
            c.ticks_per_ns
        ),
    };
    text(out, WIDTH - 24.0, HEIGHT - 6.0, "end", 10, "#777777", &note);
}

/// Height of a point.
fn level(row: &WaitFailures) -> f64 {
    if row.failures == 0 { NONE } else { height(row.failures as f64 * 1e6 / row.toggles.max(1) as f64) }
}

fn height(per_million: f64) -> f64 {
    let share = per_million.log10().clamp(0.0, f64::from(DECADES)) / f64::from(DECADES);
    BOTTOM - (BOTTOM - TOP) * share
}

fn short(wait: u64) -> String {
    if wait >= 1000 && wait.is_multiple_of(1000) { format!("{}k", wait / 1000) } else { wait.to_string() }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, size: u32, colour: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{colour}\">{words}</text>"
    );
}
