//! As a page: no script, nothing is requested from anywhere, and every text of the program is escaped.

use std::fmt::Write as _;

use transect_feature_region::{ListedFile, RegionIndex};
use transect_profile_model::Verdict;

use super::Shown;

/// Hues of sets of features, in turn.
const HUES: [u32; 8] = [200, 25, 130, 285, 50, 340, 170, 95];

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1c2024; --dim: #6b7280; --paper: #fff; --line: #e5e7eb; --tint: 94%; --mark: 42%; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --dim: #9aa3ad; --paper: #14171a; --line: #2b3036; --tint: 17%; --mark: 62%; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; color: var(--text); background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .25rem 0; color: var(--dim); overflow-wrap: anywhere; }
a { color: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
.regions td, .regions th { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.regions th { color: var(--dim); font-weight: 500; }
.regions td:first-child { text-align: right; font-variant-numeric: tabular-nums; }
.set { display: inline-block; padding: 0 .45rem; border-radius: .6rem; white-space: nowrap; background: var(--tint-of); box-shadow: inset 3px 0 var(--mark-of); }
.source { font: 13px/1.55 ui-monospace, monospace; border: 1px solid var(--line); border-radius: .4rem; padding: .5rem 0; min-width: min-content; }
.row { display: flex; white-space: pre; }
.row:target, .row:hover { background: color-mix(in srgb, var(--dim) 14%, transparent); }
.number { flex: none; width: 4.5em; padding-right: .8em; text-align: right; color: var(--dim); user-select: none; }
.bar { flex: none; width: 6px; margin-right: 3px; }
.on { background: var(--mark-of); }
.code { flex: 1; padding-left: .5em; }
.in { background: var(--tint-of); }
.note { flex: none; padding: 0 .8em; color: var(--dim); }
.gap { color: var(--dim); padding-left: 3em; user-select: none; }
";

/// The whole page.
pub(super) fn page(shown: &Shown) -> String {
    let mut style = STYLE.to_owned();
    for (number, hue) in HUES.iter().enumerate() {
        let _ = writeln!(
            style,
            ".s{number} {{ --mark-of: hsl({hue} 70% var(--mark)); --tint-of: hsl({hue} 60% var(--tint)); }}"
        );
    }
    let mut body = String::new();
    let _ = write!(
        body,
        "<h1>Feature regions of {}</h1><p>{}</p><p>By feature: {}</p>",
        escaped(&shown.binary),
        escaped(&shown.summary()),
        escaped(&shown.by_feature())
    );
    if let Some(confirmed) = &shown.confirmed {
        let _ = write!(body, "<p>{}</p>", escaped(&confirmed.summary(&shown.wanted)));
    }
    for doubt in shown.doubts().iter().take(50) {
        let _ = write!(body, "<p>samples can't be translated at {}</p>", escaped(doubt));
    }
    table(shown, &mut body);
    for (number, file) in shown.files.iter().enumerate() {
        source(shown, number, file, &mut body);
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Feature regions of {}</title><style>{style}</style></head><body>{body}</body></html>\n",
        escaped(&shown.binary)
    )
}

fn set(shown: &Shown, region: RegionIndex) -> String {
    format!("s{}", shown.set_of(region) % HUES.len())
}

fn table(shown: &Shown, body: &mut String) {
    let confirmed = if shown.confirmed.is_some() { "<th>confirmed<th>unconfirmed<th>unseen<th>ran" } else { "" };
    let _ = write!(
        body,
        "<h2>Regions</h2><div class=\"scroll\"><table class=\"regions\"><tr><th>id<th>features{confirmed}<th>kind<th>lines\
         <th>function<th>sites</tr>",
    );
    for &region in &shown.wanted {
        let facts = &shown.table.regions[region as usize];
        let place = shown.files.iter().position(|file| file.regions.contains(&region)).unwrap_or(0);
        let _ = write!(
            body,
            "<tr><td>{region}<td><span class=\"set {}\">{}</span>{}<td>{}<td><a href=\"#f{place}l{}\">{}:{}</a><td>{}<td>{}</tr>",
            set(shown, region),
            escaped(&shown.features(region)),
            verdicts(shown, region),
            facts.kind.as_str(),
            facts.line,
            escaped(&facts.file),
            shown.lines(region),
            escaped(&shown.function(region)),
            facts.irregular.as_deref().map_or_else(|| shown.sites(region).to_string(), escaped)
        );
    }
    body.push_str("</table></div>");
}

/// What runs have said, in cells of their own.
fn verdicts(shown: &Shown, region: RegionIndex) -> String {
    let Some(confirmed) = &shown.confirmed else { return String::new() };
    let lists = [Verdict::Confirmed, Verdict::Unconfirmed, Verdict::Unseen];
    let cells = lists.map(|verdict| format!("<td>{}", escaped(&confirmed.features(region, verdict))));
    format!("{}<td>{}", cells.concat(), confirmed.executions(region))
}

fn source(shown: &Shown, place: usize, file: &ListedFile, body: &mut String) {
    let _ = write!(body, "<h2>{}</h2>", escaped(&file.name));
    if file.path.is_none() {
        body.push_str("<p>source not found: name its folder with --sources</p>");
        return;
    }
    let deepest = file.lines.iter().map(|line| line.regions.len()).max().unwrap_or(0);
    body.push_str("<div class=\"scroll\"><div class=\"source\">");
    for line in &file.lines {
        if line.after_gap {
            body.push_str("<div class=\"gap\">⋮</div>");
        }
        let _ = write!(body, "<div class=\"row\" id=\"f{place}l{0}\"><span class=\"number\">{0}</span>", line.number);
        for level in 0..deepest {
            match line.regions.get(level) {
                Some(&region) => {
                    let title = escaped(&format!("region {region} {}", shown.features(region)));
                    let _ = write!(body, "<span class=\"bar on {}\" title=\"{title}\"></span>", set(shown, region));
                }
                None => body.push_str("<span class=\"bar\"></span>"),
            }
        }
        let inside = line.regions.last().map_or_else(String::new, |&region| format!(" in {}", set(shown, region)));
        let _ = write!(body, "<span class=\"code{inside}\">{}</span>", escaped(&line.text));
        let begins = line.regions.iter().filter(|&&region| shown.table.regions[region as usize].line == line.number);
        for &region in begins {
            let _ = write!(
                body,
                "<span class=\"note\"><span class=\"set {}\">{region} {}</span></span>",
                set(shown, region),
                escaped(&shown.features(region))
            );
        }
        body.push_str("</div>\n");
    }
    body.push_str("</div></div>");
}

/// Text that is no markup, and can't reorder the line that it stands in.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' => safe.push('\t'),
            letter
                if letter.is_control()
                    || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(letter));
            }
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn markup_of_the_program_is_text() {
        assert_eq!(escaped("<script>\"'&\u{202e}\t\u{7}"), "&lt;script&gt;&quot;&#39;&amp;\\u{202e}\t\\u{7}");
    }
}
