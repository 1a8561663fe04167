//! `transect influence`: what each option of a program costs.

mod regions;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use transect_feature_model::{Feature, FeatureModel};
use transect_influence::campaign::{self, CampaignSettings};
use transect_influence::{
    CommandTemplate, Comparison, Influence, Measure, Measurement, Method, Plan, PlanSettings, QuietRun, RunError,
    Sampling, WallClock, compare, comparison_text, csv, explain, page, plan, text,
};
use transect_report::terminal::escape;

use regions::{Recorder, Subject};

use crate::arguments::{InfluenceArguments, InfluenceFormat, SamplingChoice};
use crate::failure::Failure;
use crate::output::{self, Stream};

#[derive(Serialize, Deserialize)]
struct InfluenceDocument {
    influence: Influence,
}

#[derive(Serialize)]
struct ComparisonDocument {
    comparison: Comparison,
}

/// Runs the configurations and prints the terms, or compares two results.
pub fn influence(arguments: &InfluenceArguments) -> Result<u8, Failure> {
    if let Some([old, new]) = arguments.compare.as_deref() {
        let comparison = compare(&read_results(old)?, &read_results(new)?);
        let rendered = match arguments.format {
            InfluenceFormat::Text => comparison_text(&comparison),
            InfluenceFormat::Json => json(&ComparisonDocument { comparison })?,
            InfluenceFormat::Csv => return Err(Failure::Usage("a comparison is text or json".to_owned())),
        };
        return show(arguments, &rendered);
    }
    let Some(path) = &arguments.model else {
        return Err(Failure::Usage("give --model FILE".to_owned()));
    };
    let model = transect_feature_model::read(path)?;
    let plan = plan(&model, &settings(arguments))?;
    if arguments.list {
        let lines = plan.configurations.iter().map(|own| own.text(&model) + "\n");
        return show(arguments, &lines.collect::<String>());
    }
    let command = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let command = CommandTemplate::new(command)?;
    // Files and folders that are not there are told before the runs, not after.
    if let Some(path) = &arguments.stdin {
        std::fs::File::open(path)
            .map_err(|error| Failure::Usage(format!("{} can't be read: {error}", path.display())))?;
    }
    for path in [&arguments.output, &arguments.html].into_iter().flatten() {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::metadata(folder).map_err(|source| Failure::Write { place: path.display().to_string(), source })?;
    }
    let (subject, mut notes) = regions::subject(arguments.method, &command, &model);
    notes.extend(planned(&plan, &model));
    let mut influence = measure(arguments, &model, &plan, &command, subject)?;
    influence.complete = plan.complete && influence.configurations == plan.configurations.len();
    influence.notes.splice(0..0, notes);
    let rendered = match arguments.format {
        InfluenceFormat::Text => text(&influence),
        InfluenceFormat::Csv => csv(&influence),
        InfluenceFormat::Json => json(&InfluenceDocument { influence: influence.clone() })?,
    };
    if let Some(path) = &arguments.html {
        output::write_file(path, |out| write_all(out, &page(&influence)))?;
    }
    show(arguments, &rendered)
}

fn settings(arguments: &InfluenceArguments) -> PlanSettings {
    PlanSettings {
        sampling: match arguments.sampling {
            SamplingChoice::Covering => Sampling::Covering,
            SamplingChoice::Distance => Sampling::Distance,
            SamplingChoice::Random => Sampling::Random,
        },
        order: usize::from(arguments.order),
        configurations: arguments.configurations as usize,
        held_out: arguments.held_out.map(|count| count as usize),
        levels: usize::from(arguments.levels),
        vary: arguments.feature.clone(),
        seed: arguments.seed,
    }
}

/// What the reader should know about the choice of configurations.
fn planned(plan: &Plan, model: &FeatureModel) -> Vec<String> {
    let mut notes = Vec::new();
    let has_place = |feature: &&Feature| feature.option.words().iter().any(|word| word.contains("{}"));
    let switches = model.features.iter().filter(|feature| feature.domain().is_none());
    for feature in switches.filter(has_place) {
        notes.push(format!(
            "{}: {{}} in its option stands for itself, as the model gives no `values` for it",
            feature.name
        ));
    }
    if !plan.undriven.is_empty() {
        notes.push(format!("never changed, as the model gives no option text: {}", plan.undriven.join(", ")));
    }
    if plan.uncovered > 0 {
        notes.push(format!(
            "{} combinations of options occur in no configuration; run more with --configurations",
            plan.uncovered
        ));
    }
    notes
}

fn measure(
    arguments: &InfluenceArguments,
    model: &FeatureModel,
    plan: &Plan,
    command: &CommandTemplate,
    subject: Subject,
) -> Result<Influence, Failure> {
    let run = QuietRun { success: arguments.success.clone(), input: arguments.stdin.clone() };
    let (method, measure): (_, Box<dyn Measure>) = match subject {
        Subject::Whole => (Method::Wall, Box::new(WallClock(run))),
        Subject::Regions(of) => (Method::Regions, Box::new(Recorder::new(run, of)?)),
    };
    let mut measure = Prepared { before: arguments.before.clone(), measure };
    let settings = CampaignSettings {
        repetitions: arguments.repeat as usize,
        seed: arguments.seed,
        stop_at_failure: !arguments.keep_going,
    };
    let bar = progress_bar(arguments.quiet);
    let observations = campaign::run(plan, model, command, &settings, &mut measure, &mut |progress| {
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(escape(progress.options).into_owned());
    });
    bar.finish_and_clear();
    let influence = explain(model, command.words(), &observations?, method, usize::from(arguments.order))?;
    Ok(influence)
}

/// A bar on a terminal, else nothing.
fn progress_bar(quiet: bool) -> indicatif::ProgressBar {
    if quiet {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new(0);
    let template = "{bar:30} {pos}/{len} runs, {eta} left: {wide_msg}";
    bar.set_style(
        indicatif::ProgressStyle::with_template(template).unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()),
    );
    bar
}

/// Runs a shell command before what is measured.
struct Prepared {
    before: Option<String>,
    measure: Box<dyn Measure>,
}

impl Measure for Prepared {
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
        if let Some(before) = &self.before {
            let shell = ["/bin/sh", "-c", before].map(str::to_owned);
            QuietRun { success: vec![0], input: None }
                .run(&shell)
                .map_err(|error| RunError(format!("the command of --before: {error}")))?;
        }
        self.measure.measure(command)
    }
}

fn read_results(path: &PathBuf) -> Result<Influence, Failure> {
    let wrong = |problem: String| Failure::Results { path: path.clone(), problem };
    let text = transect_binary_info::read_plain(path).map_err(|error| wrong(error.to_string()))?;
    let document: InfluenceDocument = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(document.influence)
}

fn json(document: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(document);
    let text = text.map_err(|error| Failure::Write { place: "JSON".to_owned(), source: error.into() })?;
    Ok(text + "\n")
}

fn show(arguments: &InfluenceArguments, rendered: &str) -> Result<u8, Failure> {
    match &arguments.output {
        Some(path) => output::write_file(path, |out| write_all(out, rendered))?,
        None => Stream::Stdout.write(|out| write_all(out, rendered))?,
    }
    Ok(0)
}

fn write_all(out: &mut dyn Write, rendered: &str) -> Result<(), Failure> {
    let written: io::Result<()> = out.write_all(rendered.as_bytes());
    written.map_err(|source| Failure::Write { place: "the results".to_owned(), source })
}
