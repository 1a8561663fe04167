//! `transect doctor`: what works on this machine, what that means, and the command that enables what does not.

mod folders;
mod kernel;
mod recording;
mod scheduler;

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use transect_report::terminal::{Style, escape};

use crate::arguments::{DoctorArguments, DoctorFormat};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Stream;

/// How well something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should.
    Ok,
    /// In part, or with less precision.
    Limited,
    /// Not at all.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What, in a word or two.
    pub check: &'static str,
    /// How well it works.
    pub status: Status,
    /// True if nothing can be profiled without it.
    pub required: bool,
    /// What was found.
    pub finding: String,
    /// What follows from it.
    pub meaning: &'static str,
    /// The command that enables it; `None` if it works, or can't be enabled from here.
    pub fix: Option<String>,
}

impl Check {
    /// A check that came out well.
    pub fn ok(check: &'static str, finding: impl Into<String>, meaning: &'static str) -> Self {
        Self { check, status: Status::Ok, required: false, finding: finding.into(), meaning, fix: None }
    }

    /// The same check with another outcome.
    pub fn with(self, status: Status, fix: Option<&str>) -> Self {
        Self { status, fix: fix.map(str::to_owned), ..self }
    }

    /// Marks it as one that profiling can't do without.
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

/// Looks at everything and prints it; status 1 if programs can't be profiled here.
pub fn doctor(arguments: &DoctorArguments, config: &Config) -> Result<u8, Failure> {
    let mut checks = kernel::checks();
    checks.extend(scheduler::checks());
    checks.extend(folders::checks());
    checks.push(recording::check());
    let stream = Stream::Stdout;
    let style = stream.style(arguments.color.or(config.report.color));
    stream.write::<Failure>(|out| {
        match arguments.format {
            DoctorFormat::Text => print(&checks, style, out),
            DoctorFormat::Json => serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "doctor": checks }))
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out)),
        }
        .map_err(|source| Failure::Write { place: "standard output".to_owned(), source })
    })?;
    let works = checks.iter().all(|c| !c.required || c.status != Status::Missing);
    Ok(u8::from(!works))
}

struct Colored(Status, bool);

impl fmt::Display for Colored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, color) = match self.0 {
            Status::Ok => ("ok     ", "32"),
            Status::Limited => ("limited", "33"),
            Status::Missing => ("missing", "31"),
        };
        if self.1 { write!(f, "\x1b[{color}m{word}\x1b[0m") } else { f.write_str(word) }
    }
}

fn print(checks: &[Check], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let width = checks.iter().map(|c| c.check.len()).max().unwrap_or(0);
    for check in checks {
        let status = Colored(check.status, style.color);
        writeln!(out, "{status}  {:width$}  {}", check.check, escape(&check.finding))?;
        if check.status != Status::Ok {
            let indent = " ".repeat(width + 11);
            writeln!(out, "{indent}{}", check.meaning)?;
            if let Some(fix) = &check.fix {
                writeln!(out, "{indent}mend it: {fix}")?;
            }
        }
    }
    Ok(())
}
