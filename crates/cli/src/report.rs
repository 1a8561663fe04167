//! `transect report`, and the report at the end of `transect run`.

use std::io::Write;

use transect_analyze::{Selection, Unmatched, View, unmatched};
use transect_profile_model::Profile;
use transect_report::terminal::Style;
use transect_report::{Content, ReportError, csv, html, json, terminal};

use crate::arguments::{ReportArguments, ReportFormat, ViewArguments};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::progress::Progress;

/// Reads the profile and prints the view.
pub fn report(arguments: &ReportArguments, config: &Config) -> Result<u8, Failure> {
    let selection = selection(&arguments.view, config)?;
    let profile = {
        let _progress = Progress::start(format!("reading {}", arguments.folder.display()));
        // The timeline is for pages only, and is the longest table.
        let read = match arguments.view.html {
            Some(_) => transect_profile_store::read,
            None => transect_profile_store::read_without_slices,
        };
        read(&arguments.folder).map_err(Failure::Read)?
    };
    show(&profile, &arguments.view, &selection, config, Stream::Stdout, Extent::All)?;
    Ok(0)
}

/// What the flags and the configuration select.
pub fn selection(view: &ViewArguments, config: &Config) -> Result<Selection, Failure> {
    let usage = |error: transect_analyze::SelectionError| Failure::Usage(error.to_string());
    let sort = view.sort.as_deref().or(config.report.sort.as_deref());
    Ok(Selection {
        view: view.view.as_deref().map(str::parse).transpose().map_err(usage)?,
        component: view.component.clone(),
        api: view.api.clone(),
        sort: sort.map(str::parse).transpose().map_err(usage)?,
        top: view.top.or(config.report.top),
        min_percent: view.min_percent.or(config.report.min_percent),
        by: view.by.unwrap_or_default(),
    })
}

/// The format that the flags and the configuration ask for.
pub fn format(view: &ViewArguments, config: &Config) -> ReportFormat {
    view.format.or(config.report.format).unwrap_or(ReportFormat::Text)
}

/// How much a report without a named view says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// One screen, at the end of a recording; the rest is a command away.
    FirstScreen,
    /// Everything.
    All,
}

/// Writes the page if one is asked for, and the view: to a file, or to `stream`.
pub fn show(
    profile: &Profile,
    view: &ViewArguments,
    selection: &Selection,
    config: &Config,
    stream: Stream,
    extent: Extent,
) -> Result<(), Failure> {
    if let Some(path) = &view.html {
        let _progress = Progress::start(format!("writing {}", path.display()));
        let page = html::PageReport::new(profile);
        output::write_file(path, |out| html::render(&page, out))?;
    }
    if let Some(Unmatched { what, pattern, near }) = unmatched(profile, selection) {
        let near = if near.is_empty() { "nothing".to_owned() } else { near.join(", ") };
        return Err(Failure::NoMatch { what, pattern, near });
    }
    // The page is what was asked for; text beside it only if something more was.
    let only_page = view.html.is_some() && view.output.is_none() && view.view.is_none() && view.format.is_none();
    if only_page && stream == Stream::Stdout {
        return Ok(());
    }
    let format = format(view, config);
    let mut selection = selection.clone();
    if format == ReportFormat::Text && selection.view.is_none() {
        selection.view = implied_view(&selection);
    }
    let content = {
        let _progress = Progress::start("computing the views");
        let on_screen = format == ReportFormat::Text && view.output.is_none() && selection.view.is_none();
        match extent {
            Extent::FirstScreen if on_screen => Content::first_screen(profile, &selection),
            _ => Content::new(profile, &selection),
        }
    };
    let color = view.color.or(config.report.color);
    match &view.output {
        Some(path) => output::write_file(path, |out| render(&content, format, output::file_style(color), out)),
        None => stream.write(|out| render(&content, format, stream.style(color), out)),
    }
}

/// The view that a question implies: who calls this API, which APIs has this component.
fn implied_view(selection: &Selection) -> Option<View> {
    match selection {
        Selection { api: Some(_), .. } => Some(View::Callers),
        Selection { component: Some(_), .. } => Some(View::Apis),
        _ => None,
    }
}

/// Writes a view in one of the formats of tables.
pub fn render(content: &Content, format: ReportFormat, style: Style, out: &mut dyn Write) -> Result<(), ReportError> {
    match format {
        ReportFormat::Text => terminal::render(content, style, out),
        ReportFormat::Json => json::render(content, out),
        ReportFormat::Csv => csv::render(content, out),
    }
}
