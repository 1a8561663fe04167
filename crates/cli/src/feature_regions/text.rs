//! For the terminal.

use std::fmt::Write as _;

use transect_feature_region::{ListedFile, ListedLine, RegionIndex};
use transect_profile_model::Verdict;
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
    let _ = writeln!(out, "          by feature: {}", escape(&shown.by_feature()));
    if let Some(confirmed) = &shown.confirmed {
        let _ = writeln!(out, "          {}", escape(&confirmed.summary(&shown.wanted)));
    }
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

/// A column of the table of regions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Id,
    Features,
    Dependences,
    Verdict(Verdict),
    Executions,
    Kind,
    Lines,
    Function,
    Sites,
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::Features => "FEATURES",
            Self::Dependences => "DEPENDENCE",
            Self::Verdict(Verdict::Confirmed) => "CONFIRMED",
            Self::Verdict(Verdict::Unconfirmed) => "UNCONFIRMED",
            Self::Verdict(Verdict::Unseen) => "UNSEEN",
            Self::Executions => "RAN",
            Self::Kind => "KIND",
            Self::Lines => "LINES",
            Self::Function => "FUNCTION",
            Self::Sites => "SITES",
        }
    }

    fn is_set(self) -> bool {
        matches!(self, Self::Features | Self::Verdict(_))
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Id | Self::Executions)
    }

    fn text(self, shown: &Shown, region: RegionIndex) -> String {
        let facts = &shown.table.regions[region as usize];
        let confirmed = shown.confirmed.as_ref();
        let text = match self {
            Self::Id => region.to_string(),
            Self::Features => shown.features(region),
            Self::Dependences => shown.dependences(region),
            Self::Verdict(verdict) => confirmed.map_or(String::new(), |known| known.features(region, verdict)),
            Self::Executions => confirmed.map_or(String::new(), |known| known.executions(region)),
            Self::Kind => facts.kind.as_str().to_owned(),
            Self::Lines => format!("{}:{}", facts.file, shown.lines(region)),
            Self::Function => shown.function(region),
            Self::Sites => facts.irregular.clone().unwrap_or_else(|| shown.sites(region).to_string()),
        };
        // Sets lose their ends, paths and functions their beginnings.
        cut(&escape(&text), self.is_set())
    }
}

fn regions(shown: &Shown, paint: &Paint, out: &mut String) {
    use Column::{Dependences, Executions, Features, Function, Id, Kind, Lines, Sites};
    let _ = writeln!(out, "\n{}", paint.bold("Regions"));
    let verdicts = [Verdict::Confirmed, Verdict::Unconfirmed, Verdict::Unseen].map(Column::Verdict);
    let columns: &[Column] = match shown.confirmed {
        None => &[Id, Features, Dependences, Kind, Lines, Function, Sites],
        Some(_) => &[Id, verdicts[0], verdicts[1], verdicts[2], Executions, Kind, Lines, Function],
    };
    let rows: Vec<Vec<String>> =
        shown.wanted.iter().map(|&region| columns.iter().map(|column| column.text(shown, region)).collect()).collect();
    let heads: Vec<String> = columns.iter().map(|column| column.head().to_owned()).collect();
    let width = |place: usize| rows.iter().chain([&heads]).map(|row| row[place].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let padded = |row: &[String], place: usize| match columns[place] {
        column if column.is_number() => format!("{:>width$}", row[place], width = widths[place]),
        _ if place + 1 == columns.len() => row[place].clone(),
        _ => format!("{:<width$}", row[place], width = widths[place]),
    };
    let heads: Vec<String> = (0..columns.len()).map(|place| padded(&heads, place)).collect();
    let _ = writeln!(out, "  {}", paint.dim(&heads.join("  ")));
    for (row, &region) in rows.iter().zip(&shown.wanted) {
        let cells: Vec<String> = (0..columns.len())
            .map(|place| match padded(row, place) {
                cell if columns[place].is_set() => paint.set(shown, region, &cell),
                cell => cell,
            })
            .collect();
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
