use transect_analyze::{FeaturesView, RegionStrip, StripCell};

use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::{Kind, shorten, width};
use super::super::style::Role;
use super::super::units::duration;
use super::set_text;

/// Marks of sets of features; what comes after the last one is `?`.
const MARKS: [&str; 35] = [
    "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
    "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z",
];
const NOTHING: &str = "·";
const LABEL: usize = 14;

/// Prints when the regions of the busiest threads ran.
pub(super) fn strips(page: &mut Page, view: &FeaturesView) {
    let Some(first) = view.strips.first() else { return };
    let columns = page.style.columns().saturating_sub(LABEL + 4).clamp(10, 120);
    let span = duration(first.end_ns.saturating_sub(first.start_ns));
    page.section(
        "Over time",
        &format!("{span} from left to right; a line per nesting of regions, a mark for what decides most of a column"),
    );
    let mut sets: Vec<&[String]> = Vec::new();
    for strip in &view.strips {
        for (depth, line) in strip.lines.iter().enumerate() {
            let label = if depth == 0 { label(strip) } else { String::new() };
            let pad = " ".repeat(LABEL.saturating_sub(width(&label)));
            let (mut text, mut role) = (String::new(), Role::Dim);
            let mut pieces = vec![(Role::Name, format!("  {label}{pad}  "))];
            for cell in squeeze(line, columns) {
                let (mark, of) = match cell {
                    None => (NOTHING, Role::Dim),
                    Some((features, most)) => (mark(&mut sets, features), if most { Role::Bar } else { Role::Dim }),
                };
                if of != role {
                    pieces.push((role, std::mem::take(&mut text)));
                    role = of;
                }
                text.push_str(mark);
            }
            pieces.push((role, text));
            let pieces: Vec<(Role, &str)> = pieces.iter().map(|(role, text)| (*role, text.as_str())).collect();
            page.line(&pieces);
        }
    }
    let legend: Vec<String> = sets
        .iter()
        .enumerate()
        .map(|(at, set)| format!("{} {}", MARKS.get(at).unwrap_or(&"?"), shorten(&set_text(set), Kind::Text, 40)))
        .collect();
    page.items(2, &legend);
}

fn label(strip: &RegionStrip) -> String {
    shorten(&escape(&strip.thread), Kind::Text, LABEL)
}

fn mark<'a>(sets: &mut Vec<&'a [String]>, features: &'a [String]) -> &'static str {
    let at = sets.iter().position(|set| *set == features).unwrap_or_else(|| {
        sets.push(features);
        sets.len() - 1
    });
    MARKS.get(at).unwrap_or(&"?")
}

/// As many columns: what holds most of each, if anything does, and whether it holds half of it.
fn squeeze(line: &[StripCell], columns: usize) -> Vec<Option<(&[String], bool)>> {
    (0..columns)
        .map(|column| {
            let from = column * line.len() / columns;
            let to = ((column + 1) * line.len() / columns).max(from + 1).min(line.len());
            let cells = line.get(from..to)?;
            let mut sums: Vec<(&[String], f32)> = Vec::new();
            for cell in cells.iter().filter(|cell| cell.share > 0.0) {
                match sums.iter_mut().find(|(set, _)| *set == cell.features) {
                    Some((_, sum)) => *sum += cell.share,
                    None => sums.push((&cell.features, cell.share)),
                }
            }
            let (set, sum) = sums.into_iter().reduce(|most, other| if other.1 > most.1 { other } else { most })?;
            Some((set, sum >= cells.len() as f32 / 2.0))
        })
        .collect()
}
