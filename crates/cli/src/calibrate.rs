//! `transect calibrate`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use transect_calibrate::wait::{self, Budget};
use transect_calibrate::{Calibration, svg, text};

use crate::arguments::{CalibrateArguments, CalibrateFormat};
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::progress::Progress;

/// Measures this machine and prints the results.
pub fn calibrate(arguments: &CalibrateArguments) -> Result<u8, Failure> {
    let budget = if arguments.quick { Budget::Quick } else { Budget::Usual };
    if let Some(first) = arguments.trials_from {
        wait::run_child(&budget.trials(), first, budget.trial_time())?;
        return Ok(0);
    }
    let picture = |path: &&Path| path.extension() == Some(OsStr::new("svg"));
    let mut pictures: Vec<&Path> = arguments.svg.as_deref().into_iter().collect();
    let mut output = arguments.output.as_deref();
    if arguments.format != CalibrateFormat::Svg && output.as_ref().is_some_and(picture) {
        pictures.extend(output.take());
    }
    // A folder that isn't there is told before the measuring, not after.
    for path in pictures.iter().copied().chain(output) {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::metadata(folder).map_err(|source| Failure::Write { place: path.display().to_string(), source })?;
    }
    let progress = Progress::start("measuring");
    let calibration = transect_calibrate::calibrate(budget, |first| {
        let mut child = Command::new("/proc/self/exe");
        child.args(["calibrate", "--trials-from", &first.to_string()]);
        child.args(arguments.quick.then_some("--quick"));
        child
    })?;
    drop(progress);
    for path in pictures {
        output::write_file(path, |out| write_all(out, &svg(&calibration)))?;
    }
    let rendered = render(&calibration, arguments.format)?;
    match output {
        Some(path) => output::write_file(path, |out| write_all(out, &rendered))?,
        None => Stream::Stdout.write(|out| write_all(out, &rendered))?,
    }
    Ok(0)
}

fn render(calibration: &Calibration, format: CalibrateFormat) -> Result<String, Failure> {
    Ok(match format {
        CalibrateFormat::Text => text(calibration),
        CalibrateFormat::Svg => svg(calibration),
        CalibrateFormat::Json => {
            let mut json = serde_json::to_string_pretty(calibration)
                .map_err(|error| Failure::Write { place: "JSON".to_owned(), source: error.into() })?;
            json.push('\n');
            json
        }
    })
}

fn write_all(out: &mut dyn Write, rendered: &str) -> Result<(), Failure> {
    let written = out.write_all(rendered.as_bytes());
    written.map_err(|source| Failure::Write { place: "the results".to_owned(), source })
}
