//! `transect report`, and the report at the end of `transect run`.

use std::io::Write;

use transect_analyze::{CutDimensions, Dimensions, Selection, Unmatched, View, unmatched};
use transect_profile_model::Profile;
use transect_report::terminal::Style;
use transect_report::{Content, ReportError, csv, html, json, terminal};

use crate::arguments::{ReportArguments, ReportFormat, ViewArguments};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::progress::Progress;
use crate::{cut, dependence, newest};

/// Reads the profile and prints the view.
pub fn report(arguments: &ReportArguments, config: &Config) -> Result<u8, Failure> {
    let asked = cut::asked(&arguments.view, &arguments.cut, config)?;
    let selection = match asked {
        Some(_) => Selection { top: arguments.view.top.or(config.report.top), ..Selection::default() },
        None => selection(&arguments.view, config)?,
    };
    let folder = newest::profile(arguments.folder.as_deref())?;
    let mut profile = {
        let _progress = Progress::start(format!("reading {}", folder.display()));
        // The timeline is the longest table, and few need it.
        let whole = asked.as_ref().is_some_and(cut::Asked::needs_whole) || arguments.view.html.is_some();
        let read = match whole {
            true => transect_profile_store::read,
            false => transect_profile_store::read_without_slices,
        };
        read(&folder).map_err(Failure::Read)?
    };
    dependence::apply(&mut profile, arguments.regions.dependence)?;
    if let Some(asked) = asked {
        if let Some(content) = asked.content(&profile, selection.top)? {
            write(&content, &arguments.view, config, Stream::Stdout)?;
        }
        return Ok(0);
    }
    show(&profile, &arguments.view, &selection, config, Stream::Stdout, Extent::All)?;
    Ok(0)
}

/// By what views split flows.
fn split(by: &CutDimensions) -> Result<Dimensions, Failure> {
    by.of_views().map_err(|other| {
        Failure::Usage(format!(
            "views split flows by thread, process and feature; by {other} is a cut: transect report DIR --by {other}, without a \
             view"
        ))
    })
}

/// What the flags and the configuration select.
pub fn selection(view: &ViewArguments, config: &Config) -> Result<Selection, Failure> {
    let usage = |error: transect_analyze::SelectionError| Failure::Usage(error.to_string());
    let sort = view.sort.as_deref().or(config.report.sort.as_deref());
    Ok(Selection {
        // Views of cuts are not of these.
        view: view.view.as_deref().filter(|_| cut::kind(view).is_none()).map(str::parse).transpose().map_err(usage)?,
        component: view.component.clone(),
        api: view.api.clone(),
        sort: sort.map(str::parse).transpose().map_err(usage)?,
        top: view.top.or(config.report.top),
        min_percent: view.min_percent.or(config.report.min_percent),
        by: view.by.as_ref().map(split).transpose()?.unwrap_or_default(),
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
    if let Some(kind) = cut::kind(view) {
        let content = cut::of_run(kind)?.content(profile, selection.top)?;
        return content.map_or(Ok(()), |content| write(&content, view, config, stream));
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
    write(&content, view, config, stream)
}

/// Writes what was computed: to a file, or to `stream`.
fn write(content: &Content, view: &ViewArguments, config: &Config, stream: Stream) -> Result<(), Failure> {
    let (format, color) = (format(view, config), view.color.or(config.report.color));
    match &view.output {
        Some(path) => output::write_file(path, |out| render(content, format, output::file_style(color), out)),
        None => stream.write(|out| render(content, format, stream.style(color), out)),
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
        ReportFormat::Markdown => terminal::render_markdown(content, out),
    }
}
