//! `transect probe`: probes of a running or launched program.

use serde_json::json;
use transect_record::probe_control::{
    ProbeAction, ProbeOutcome, ProbeRow, ProbeSettings, ProbeState, ProbeTarget, control,
};

use crate::arguments::{DoctorFormat, ProbeCommand, ProbeSelection};
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::probe_table;

/// Rows of a live table where the terminal does not tell its height.
const PLAIN_ROWS: usize = 20;

/// Exit status if no pattern has matched anything, as for patterns that can't.
const NOTHING_MATCHED: u8 = 2;

/// Does it and shows what came of it; gives the launched program's exit status, else 0.
pub fn probe(command: &ProbeCommand) -> Result<u8, Failure> {
    let (action, selection) = match command {
        ProbeCommand::List(selection) => (ProbeAction::List, selection),
        ProbeCommand::Enable(selection) => (ProbeAction::Enable, selection),
        ProbeCommand::Disable(selection) => (ProbeAction::Disable, selection),
        ProbeCommand::Count(selection) => (ProbeAction::Count, selection),
        ProbeCommand::Time(selection) => (ProbeAction::Time, selection),
        ProbeCommand::Detach(selection) => (ProbeAction::Detach, selection),
    };
    check(action, selection)?;
    let (target, stream) = match selection.pid {
        Some(pid) => (ProbeTarget::Attach { pid, duration: selection.duration }, Stream::Stdout),
        None => {
            let (command, follow) = (selection.command.clone(), !selection.no_follow);
            (ProbeTarget::Launch { command, follow }, Stream::Stderr)
        }
    };
    let settings = ProbeSettings { target, action, patterns: selection.patterns.clone(), interval: selection.delay };
    let screen = selection.pid.is_some()
        && selection.format == DoctorFormat::Text
        && selection.output.is_none()
        && stream.is_terminal();
    let mut drawn = false;
    let outcome = control(&settings, &mut |rows, seconds| {
        if screen {
            // A terminal that has gone ends the command by SIGHUP, not by an error here.
            let _ = draw(rows, seconds, action, selection, drawn);
            drawn = true;
        }
    })?;
    let status = outcome.status.map_or(0, |status| u8::try_from(status & 0xff).unwrap_or(u8::MAX));
    // A program that has ended well does not make a mistake in the patterns a success.
    let status =
        if outcome.rows.is_empty() && !outcome.unmatched.is_empty() { status.max(NOTHING_MATCHED) } else { status };
    match show(&outcome, action, selection, stream, drawn) {
        Err(failure) if failure.is_closed_pipe() && outcome.status.is_some() => Ok(status),
        Err(failure) => Err(failure),
        Ok(()) => Ok(status),
    }
}

/// Combinations that make no sense.
fn check(action: ProbeAction, selection: &ProbeSelection) -> Result<(), Failure> {
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    let launched = selection.pid.is_none();
    match action {
        ProbeAction::Disable | ProbeAction::Detach if launched => {
            return usage("a program that is only started now has no probes yet: give the process with -p PID");
        }
        ProbeAction::Detach if !selection.patterns.is_empty() => {
            return usage("detach takes all probes out and no patterns; to switch some of them off: disable");
        }
        ProbeAction::Enable | ProbeAction::Count | ProbeAction::Time if selection.patterns.is_empty() => {
            return usage("no functions given: name them, such as malloc, 'libz*:deflate*' or '*' for all");
        }
        ProbeAction::Count | ProbeAction::Time => {}
        _ if selection.duration.is_some() => return usage("--for goes with count and time"),
        _ => {}
    }
    if launched && selection.format == DoctorFormat::Json && selection.output.is_none() {
        return usage("the standard streams belong to the program: give --output FILE with --format json");
    }
    Ok(())
}

/// Overwrites the table on the terminal.
fn draw(
    rows: &[ProbeRow],
    seconds: f64,
    action: ProbeAction,
    selection: &ProbeSelection,
    again: bool,
) -> Result<(), Failure> {
    let most = Stream::Stdout.rows().map_or(PLAIN_ROWS, |rows| rows.saturating_sub(4).max(3));
    let most = selection.top.map_or(most, |top| top.min(most));
    let interval = selection.delay.as_secs_f64();
    let width = Some(Stream::Stdout.style(None).width);
    let page = probe_table::render(rows, action, seconds, Some(interval), Some(most), width);
    Stream::Stdout.write::<Failure>(|out| {
        let mut paint = || {
            out.write_all(if again { b"\x1b[H" } else { b"\x1b[H\x1b[2J" })?;
            for line in page.lines() {
                writeln!(out, "{line}\x1b[K")?;
            }
            out.write_all(b"\x1b[J")
        };
        paint().map_err(|source| Failure::Write { place: "standard output".to_owned(), source })
    })
}

fn show(
    outcome: &ProbeOutcome,
    action: ProbeAction,
    selection: &ProbeSelection,
    stream: Stream,
    drawn: bool,
) -> Result<(), Failure> {
    let text = match selection.format {
        DoctorFormat::Json => format!("{:#}\n", as_json(outcome, action)),
        DoctorFormat::Text => as_text(outcome, action, selection, stream),
    };
    let place = || match stream {
        Stream::Stdout => "standard output".to_owned(),
        Stream::Stderr => "standard error".to_owned(),
    };
    match &selection.output {
        Some(path) => output::write_file::<Failure>(path, |out| {
            let failure = |source| Failure::Write { place: path.display().to_string(), source };
            out.write_all(text.as_bytes()).map_err(failure)
        })?,
        None => stream.write::<Failure>(|out| {
            let clear: &[u8] = if drawn { b"\x1b[H\x1b[2J" } else { b"" };
            let written = out.write_all(clear).and_then(|()| out.write_all(text.as_bytes()));
            written.map_err(|source| Failure::Write { place: place(), source })
        })?,
    }
    for (path, reason) in &outcome.unreadable {
        output::say(&format!("{path}: its functions are not known: {reason}"));
    }
    outcome.troubles.iter().for_each(|trouble| output::say(trouble));
    for pattern in &outcome.unmatched {
        output::say(pattern);
    }
    Ok(())
}

fn as_text(outcome: &ProbeOutcome, action: ProbeAction, selection: &ProbeSelection, stream: Stream) -> String {
    let pid = selection.pid.unwrap_or_default();
    let is = |state: ProbeState| outcome.rows.iter().filter(|row| row.state == state).count();
    let refused = is(ProbeState::Refused);
    let mut text = match action {
        ProbeAction::Detach if outcome.restored == 0 => format!("process {pid} has no probes in its code\n"),
        ProbeAction::Detach => format!("{} taken out\n", probe_table::counted(outcome.restored, "probe", "probes")),
        ProbeAction::Disable => {
            format!("{} switched off\n", probe_table::counted(is(ProbeState::Disabled), "probe", "probes"))
        }
        ProbeAction::Enable if selection.pid.is_some() => {
            format!("{} switched on\n", probe_table::counted(is(ProbeState::Enabled), "probe", "probes"))
        }
        _ => {
            let width = (selection.output.is_none() && stream.is_terminal()).then(|| stream.style(None).width);
            probe_table::render(&outcome.rows, action, outcome.seconds, None, selection.top, width)
        }
    };
    if matches!(action, ProbeAction::Enable) && selection.pid.is_some() && refused > 0 {
        let few: Vec<_> = outcome.rows.iter().filter(|row| row.state == ProbeState::Refused).take(10).collect();
        text.push_str(&format!("{} can't have one:\n", probe_table::counted(refused, "function", "functions")));
        for row in few {
            text.push_str(&format!("  {}: {}\n", probe_table::escaped(&row.function), row.reason));
        }
    }
    if outcome.stops.count > 0 && selection.pid.is_some() {
        text.push_str(&format!(
            "the process was held {}, at most {} at a time\n",
            probe_table::counted(outcome.stops.count as usize, "time", "times"),
            probe_table::duration(outcome.stops.longest_ns.cast_signed())
        ));
    }
    text
}

fn as_json(outcome: &ProbeOutcome, action: ProbeAction) -> serde_json::Value {
    let rows: Vec<_> = probe_table::sorted(&outcome.rows, action)
        .into_iter()
        .map(|row| {
            let mut value = json!({
                "function": row.function,
                "symbol": row.symbol,
                "component": probe_table::component(row),
                "path": row.path,
                "address": row.address,
                "file": (!row.file.is_empty()).then_some(&row.file),
                "line": (row.line > 0).then_some(row.line),
                "provider": row.provider,
                "event": row.event,
                "name": (!row.name.is_empty()).then_some(&row.name),
                "state": row.state.as_str(),
                "reason": (!row.reason.is_empty()).then_some(&row.reason),
            });
            let counted =
                !matches!(action, ProbeAction::List | ProbeAction::Disable) && row.state != ProbeState::Refused;
            if counted && let Some(fields) = value.as_object_mut() {
                fields.insert("calls".to_owned(), row.calls.into());
                let rate = row.calls as f64 / outcome.seconds.max(1e-9);
                fields.insert("calls_per_second".to_owned(), rate.into());
            }
            if action == ProbeAction::Time
                && let Some(fields) = value.as_object_mut()
            {
                fields.insert("samples".to_owned(), row.samples.into());
                let times = row.times;
                fields.insert("total_ns".to_owned(), times.map(|t| t.total_ns).into());
                fields.insert("mean_ns".to_owned(), times.map(|t| t.mean_ns).into());
                fields.insert("p50_ns".to_owned(), times.map(|t| t.p50_ns).into());
                fields.insert("p99_ns".to_owned(), times.map(|t| t.p99_ns).into());
                fields.insert("max_ns".to_owned(), times.map(|t| t.max_ns).into());
            }
            value
        })
        .collect();
    json!({
        "probes": rows,
        "seconds": outcome.seconds,
        "restored": outcome.restored,
        "abandoned_calls": outcome.abandoned,
        "stops": outcome.stops.count,
        "longest_stop_ns": outcome.stops.longest_ns,
        "total_stop_ns": outcome.stops.total_ns,
        "unreadable": outcome.unreadable.iter().map(|(path, reason)| json!({"path": path, "reason": reason})).collect::<Vec<_>>(),
        "unmatched": outcome.unmatched,
    })
}
