//! For the terminal.

use std::fmt::Write as _;

use transect_feature_region::{ListedFile, ListedLine, RegionIndex};
use transect_report::terminal::escape;

use super::Shown;

/// Colours of sets of features, in turn: foreground colours that dark and light terminals show well.
const COLORS: [&str; 6] = ["36", "35", "33", "32", "34", "31"];

/// The whole text.
pub(super) fn text(shown: &Shown, color: bool) -> String {
    let paint = Paint { color };
    let mut out = String::new();
    let _ = writeln!(out, "{}  {}", paint.bold("transect"), escape(&shown.binary));
    let _ = writeln!(out, "          {}", shown.summary());
    let doubts = shown.doubts();
    if !doubts.is_empty() {
        let _ = writeln!(out, "          {} places at which samples can't be translated:", doubts.len());
        doubts.iter().take(10).for_each(|doubt| {
            let _ = writeln!(out, "            {}", escape(doubt));
        });
    }
    variables(shown, &paint, &mut out);
    regions(shown, &paint, &mut out);
    for file in &shown.files {
        source(shown, file, &paint, &mut out);
    }
    out
}

struct Paint {
    color: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }

    fn set(&self, shown: &Shown, region: RegionIndex, text: &str) -> String {
        self.with(COLORS[shown.set_of(region) % COLORS.len()], text)
    }
}

fn variables(shown: &Shown, paint: &Paint, out: &mut String) {
    let lost: Vec<_> =
        shown.table.units.iter().flat_map(|unit| unit.variables.iter().map(move |v| (unit, v))).collect();
    let lost: Vec<_> = lost.into_iter().filter(|(_, variable)| variable.lost.is_some()).collect();
    if lost.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.bold("Variables that were not found"));
    for (unit, variable) in lost {
        let feature = unit.features.get(variable.feature as usize).map_or("", String::as_str);
        let reason = variable.lost.as_deref().unwrap_or("");
        let _ = writeln!(out, "  {}  {}: {}", escape(feature), escape(&variable.variable), escape(reason));
    }
}

fn regions(shown: &Shown, paint: &Paint, out: &mut String) {
    let _ = writeln!(out, "\n{}", paint.bold("Regions"));
    let rows: Vec<[String; 6]> = shown
        .wanted
        .iter()
        .map(|&region| {
            let facts = &shown.table.regions[region as usize];
            let sites = facts.irregular.clone().unwrap_or_else(|| shown.sites(region).to_string());
            [
                region.to_string(),
                escape(&shown.features(region)).into_owned(),
                facts.kind.as_str().to_owned(),
                format!("{}:{}", escape(&facts.file), shown.lines(region)),
                escape(&shown.function(region)).into_owned(),
                escape(&sites).into_owned(),
            ]
        })
        .collect();
    let heads = ["ID", "FEATURES", "KIND", "LINES", "FUNCTION", "SITES"].map(str::to_owned);
    let width = |column: usize| {
        rows.iter().chain([&heads]).map(|row| row[column].chars().count()).max().unwrap_or(0).min(WIDEST)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let line = |row: &[String; 6]| -> [String; 6] {
        std::array::from_fn(|column| {
            // Sets lose their ends, paths and functions their beginnings.
            let text = cut(&row[column], column == 1);
            match column {
                0 => format!("{text:>width$}", width = widths[0]),
                5 => text,
                _ => format!("{text:<width$}", width = widths[column]),
            }
        })
    };
    let _ = writeln!(out, "  {}", paint.dim(&line(&heads).join("  ")));
    for (row, &region) in rows.iter().zip(&shown.wanted) {
        let mut cells = line(row);
        cells[1] = paint.set(shown, region, &cells[1]);
        let _ = writeln!(out, "  {}", cells.join("  "));
    }
}

/// Longer texts are cut.
const WIDEST: usize = 48;

fn cut(text: &str, end: bool) -> String {
    let length = text.chars().count();
    if length <= WIDEST {
        return text.to_owned();
    }
    if end {
        return text.chars().take(WIDEST - 1).chain(['…']).collect();
    }
    std::iter::once('…').chain(text.chars().skip(length + 1 - WIDEST)).collect()
}

fn source(shown: &Shown, file: &ListedFile, paint: &Paint, out: &mut String) {
    let _ = writeln!(out, "\n{}", paint.bold(&escape(&file.name)));
    if file.path.is_none() {
        let _ = writeln!(out, "  {}", paint.dim("source not found: name its folder with --sources"));
        return;
    }
    let deepest = file.lines.iter().map(|line| line.regions.len()).max().unwrap_or(0);
    let number_width = file.lines.last().map_or(1, |line| line.number.to_string().len());
    for line in &file.lines {
        if line.after_gap {
            let _ = writeln!(out, "  {}", paint.dim("⋮"));
        }
        let number = format!("{:>number_width$}", line.number);
        let text = escape(&line.text.replace('\t', "    ")).into_owned();
        let bars = bars(shown, line, deepest, paint);
        let begins: Vec<String> = line
            .regions
            .iter()
            .filter(|&&region| shown.table.regions[region as usize].line == line.number)
            .map(|&region| paint.set(shown, region, &format!("{} {}", region, escape(&shown.features(region)))))
            .collect();
        let mark = if begins.is_empty() { String::new() } else { format!("  {}", begins.join("  ")) };
        let _ = writeln!(out, "{}", format!("  {} {bars} {text}{mark}", paint.dim(&number)).trim_end());
    }
}

/// One column for each level of nesting.
fn bars(shown: &Shown, line: &ListedLine, deepest: usize, paint: &Paint) -> String {
    let mut bars = String::new();
    for level in 0..deepest {
        let Some(&region) = line.regions.get(level) else {
            bars.push(' ');
            continue;
        };
        let facts = &shown.table.regions[region as usize];
        let last = facts.end_line.max(facts.line);
        let bar = match (facts.line == line.number, last == line.number) {
            (true, true) => "╺",
            (true, false) => "┏",
            (false, true) => "┗",
            (false, false) => "┃",
        };
        bars.push_str(&paint.set(shown, region, bar));
    }
    bars
}
