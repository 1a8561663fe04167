//! All that is shown and exported of a profile.

use transect_analyze::{Dimensions, Selection, SortKey, View};
use transect_profile_export::{Format, Subject, export_subject};
use transect_profile_model::Profile;
use transect_report::terminal::{self, Style};
use transect_report::{Content, csv, html, json};

/// Makes the page, one of the views or one of the exports: all together take too long for each input.
pub fn show(profile: &Profile, which: u64) {
    let out = &mut std::io::sink();
    let narrow = Selection {
        component: Some("lib*".to_owned()),
        api: Some("*a*".to_owned()),
        sort: Some(SortKey::Mean),
        top: Some(3),
        min_percent: Some(1.0),
        by: Dimensions { thread: true, process: true, feature: true },
        ..Selection::default()
    };
    let mut selections = vec![Selection::default(), narrow.clone()];
    selections.extend(View::ALL.map(|view| Selection { view: Some(view), ..Selection::default() }));
    selections.extend(View::ALL.map(|view| Selection { view: Some(view), ..narrow.clone() }));
    let subjects = [Subject::Flows, Subject::Criticality, Subject::Walk, Subject::Features];
    let mut exports = Format::ALL.into_iter().flat_map(|format| subjects.map(|subject| (format, subject)));
    match which as usize % (selections.len() + 28 + 1) {
        at if at < selections.len() => {
            let content = Content::new(profile, &selections[at]);
            let _ = terminal::render(&content, Style { width: 80, color: true }, out);
            let _ = json::render(&content, out);
            let _ = csv::render(&content, out);
            transect_analyze::unmatched(profile, &selections[at]);
        }
        at => match exports.nth(at - selections.len()) {
            Some((format, subject)) => _ = export_subject(profile, format, subject, out),
            None => _ = html::render(&html::PageReport::new(profile), out),
        },
    }
}
