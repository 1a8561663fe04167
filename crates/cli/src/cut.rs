//! `transect report`: cuts, the views read from them, and flame graphs.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use transect_analyze::{
    CutDimension, CutDimensions, CutFilter, CutMeasure, CutQuery, CutReading, CutViewKind, SelectionError, cut,
    cut_view, function_addresses,
};
use transect_binary_info::Syntax;
use transect_profile_model::Profile;
use transect_report::{Content, Rows, Sources, flame};

use crate::arguments::{AssemblySyntax, CutArguments, ViewArguments};
use crate::config::{Config, NamedCut};
use crate::failure::Failure;
use crate::{disassembly, output};

/// What is asked for, in place of views of one collector.
#[derive(Default)]
pub struct Asked {
    query: CutQuery,
    /// A view of cuts; `None`: the rows of the cut itself.
    kind: Option<CutViewKind>,
    tree: bool,
    function: Option<String>,
    /// How the function's instructions are written, if they are wanted.
    syntax: Option<Syntax>,
    source_folders: Vec<PathBuf>,
    flame: Option<PathBuf>,
    /// `--by` was given, or rows are wanted beside the graph.
    rows: bool,
}

fn usage(error: SelectionError) -> Failure {
    Failure::Usage(error.to_string())
}

/// The view of cuts that is named, if it is one.
pub fn kind(view: &ViewArguments) -> Option<CutViewKind> {
    view.view.as_deref().and_then(|word| word.parse().ok())
}

/// The cut or view of cuts that the flags ask for; `None` if they ask for views of collectors.
pub fn asked(view: &ViewArguments, cut: &CutArguments, config: &Config) -> Result<Option<Asked>, Failure> {
    let kind = kind(view);
    let of_views = [
        ("--view", view.view.is_some() && kind.is_none()),
        ("--component", view.component.is_some()),
        ("--api", view.api.is_some()),
        ("--sort", view.sort.is_some()),
        ("--min-percent", view.min_percent.is_some()),
        ("--html", view.html.is_some()),
    ];
    let of_views = of_views.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
    let of_cut = cut.given().or_else(|| kind.map(|kind| kind.as_str()));
    match (of_cut, of_views) {
        (Some(cut), Some(view)) => {
            return Err(Failure::Usage(format!("{cut} is of a cut, and {view} of a view: leave one of them out")));
        }
        (None, Some(_)) => return Ok(None),
        (None, None) if view.by.is_none() => return Ok(None),
        _ => {}
    }
    let named = cut.cut.as_deref().map(|name| named(name, config)).transpose()?;
    let query = query(view, cut, kind, named)?;
    let unused = [
        ("--by", kind.is_some() && view.by.is_some(), "the view has dimensions of its own: filter with --where"),
        (
            "--measure",
            kind.is_some_and(|kind| !kind.has_measure()) && cut.measure.is_some(),
            "the view shows all states",
        ),
        ("--tree", kind.is_some() && cut.tree, "it is of cuts by --by"),
        ("--function", kind != Some(CutViewKind::Annotate) && cut.function.is_some(), "it is of --view annotate"),
        ("--disassemble", kind != Some(CutViewKind::Annotate) && cut.disassemble.is_some(), "it is of --view annotate"),
        ("--source-dir", kind != Some(CutViewKind::Annotate) && !cut.source_dir.is_empty(), "it is of --view annotate"),
        ("--flame", kind.is_some() && cut.flame.is_some(), "it draws a cut: leave out --view"),
    ];
    if let Some((flag, _, why)) = unused.into_iter().find(|(_, given, _)| *given) {
        return Err(Failure::Usage(format!("{flag} has no effect here: {why}")));
    }
    Ok(Some(Asked {
        rows: view.by.is_some() || view.format.is_some() || view.output.is_some() || cut.flame.is_none(),
        query,
        kind,
        tree: cut.tree,
        function: cut.function.clone(),
        syntax: cut.disassemble.map(AssemblySyntax::syntax),
        source_folders: cut.source_dir.clone(),
        flame: cut.flame.clone(),
    }))
}

/// A view of cuts at the end of a recording: of all of it.
pub fn of_run(kind: CutViewKind) -> Result<Asked, Failure> {
    if kind == CutViewKind::Annotate {
        return Err(Failure::Usage(
            "--view annotate is of one function: record first, then transect report DIR --view annotate --function NAME"
                .to_owned(),
        ));
    }
    let query = CutQuery { measure: kind.default_measure(), ..CutQuery::default() };
    Ok(Asked { query, kind: Some(kind), rows: true, ..Asked::default() })
}

fn named<'a>(name: &str, config: &'a Config) -> Result<&'a NamedCut, Failure> {
    config.cut.get(name).ok_or_else(|| {
        let known: Vec<&str> = config.cut.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Failure::Usage(format!(
            "no cut `{name}` in the configuration; there: {known}. Add [cut.{name}] with by, measure, where"
        ))
    })
}

/// The command line's words, else those of a named cut.
fn query(
    view: &ViewArguments,
    cut: &CutArguments,
    kind: Option<CutViewKind>,
    named: Option<&NamedCut>,
) -> Result<CutQuery, Failure> {
    let in_file = |error: String| Failure::Usage(format!("in the configuration's cut: {error}"));
    let by: CutDimensions = match (&view.by, named.and_then(|named| named.by.as_deref())) {
        (Some(by), _) => by.clone(),
        (None, Some(words)) => words.parse().map_err(|error: SelectionError| in_file(error.to_string()))?,
        (None, None) => CutDimensions::default(),
    };
    let filter = match (&cut.filter, named.and_then(|named| named.filter.as_deref())) {
        (Some(filter), _) => Some(filter.clone()),
        (None, Some(text)) => Some(CutFilter::parse(text).map_err(|error| in_file(error.to_string()))?),
        (None, None) => None,
    };
    let measure = cut.measure.as_deref().or_else(|| named?.measure.as_deref());
    let default = match kind {
        Some(kind) => kind.default_measure(),
        None if cut.flame.is_some() => CutMeasure::OnCpu,
        None => CutMeasure::Time,
    };
    let measure = measure.map(str::parse).transpose().map_err(usage)?.unwrap_or(default);
    Ok(CutQuery { by: by.0, measure, filter, from_ns: cut.from, to_ns: cut.to })
}

impl Asked {
    /// Whether the answer needs the whole profile: it depends on when things happened, or at which instructions.
    pub fn needs_whole(&self) -> bool {
        self.syntax.is_some() || self.kind == Some(CutViewKind::Timeline) || self.query.needs_timeline()
    }

    /// What is to be written; a flame graph is written here. `None`: nothing beside it was asked for.
    pub fn content(&self, profile: &Profile, top: Option<usize>) -> Result<Option<Content>, Failure> {
        let failed = |error: transect_analyze::CutError| Failure::Usage(error.to_string());
        if let Some(path) = &self.flame {
            let mut query = self.query.clone();
            query.by.retain(|dimension| *dimension != CutDimension::Stack);
            query.by.push(CutDimension::Stack);
            let view = cut(profile, &query).map_err(failed)?;
            let title = format!("{}: {}", profile.meta.command.join(" "), query.measure.as_str());
            output::write_file(path, |out| flame::render(&view, &title, out))?;
        }
        if !self.rows {
            return Ok(None);
        }
        let rows = match self.kind {
            None => Rows::Cut { view: Box::new(cut(profile, &self.query).map_err(failed)?), tree: self.tree },
            Some(kind) => {
                let mut view = cut_view(profile, kind, &self.query, self.function.as_deref()).map_err(failed)?;
                if let (CutReading::Annotate(lines), Some(syntax)) = (&mut view, self.syntax) {
                    let found = function_addresses(profile, &self.query, &lines.function).map_err(failed)?;
                    disassembly::add(lines, profile, &found, syntax)?;
                }
                let sources = sources(&view, &self.source_folders, profile.meta.started_unix_ns);
                Rows::Reading { view: Box::new(view), sources }
            }
        };
        Ok(Some(Content::of_cut(profile, rows, top)))
    }
}

/// Source files that a view shows lines of, as far as they are found.
pub fn sources(view: &CutReading, folders: &[PathBuf], recorded_unix_ns: i64) -> Sources {
    let mut sources = Sources::default();
    let CutReading::Annotate(view) = view else { return sources };
    let mut names: Vec<&str> = view.lines.iter().filter_map(|line| line.file.as_deref()).collect();
    names.dedup();
    for name in names {
        let read = |path: PathBuf| Some((transect_binary_info::read_plain(&path).ok()?, path));
        let Some((text, path)) = candidates(name, folders).find_map(read) else { continue };
        let modified = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|time| time.as_nanos());
        sources.insert(name, &text, modified.is_some_and(|ns| ns > recorded_unix_ns.max(0).unsigned_abs().into()));
    }
    sources
}

/// Where a source may be: in each folder, by as much of its path as is there; then where the compiler saw it.
fn candidates<'a>(name: &'a str, folders: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    let parts: Vec<_> =
        Path::new(name).components().skip_while(|part| matches!(part, std::path::Component::RootDir)).collect();
    let tails = (0..parts.len()).map(move |at| parts[at..].iter().collect::<PathBuf>()).collect::<Vec<_>>();
    let moved = folders.iter().flat_map(move |folder| tails.clone().into_iter().map(|tail| folder.join(tail)));
    moved.chain([PathBuf::from(name)])
}
