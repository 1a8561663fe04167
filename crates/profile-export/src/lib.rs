//! Writes a recorded profile in the formats of other tools.
//!
//! [`export`] turns one [`Profile`] into one stream. The stack formats (pprof, collapsed, Firefox Profiler,
//! speedscope) show every flow as a stack of four frames, root first: program, thread group, calling component,
//! called API as `component!name`. The weight of a stack is the flow's *self* time, so that weights add up to the
//! threads' lifetimes and no instant is in two of them; the time that a program spends in its own code stands under
//! the executable's name with no API below it.
//!
//! Sampled latencies of functions are no stacks: CSV has them as rows (of a profile that holds nothing else), Chrome
//! traces as counters over time.
//!
//! Not for reading profiles back: the folder written by `transect-profile-store` is the only lossless form.
#![forbid(unsafe_code)]

mod chrome;
mod collapsed;
pub mod csv;
mod error;
mod firefox;
mod format;
mod latency_counters;
mod pprof;
mod speedscope;
mod stack;

use std::io::Write;

use transect_profile_model::Profile;

pub use error::ExportError;
pub use format::{Format, UnknownFormat};

/// Writes `profile` to `out` as `format`.
///
/// # Errors
/// [`ExportError::Write`] if `out` fails, [`ExportError::NoTimes`] if the format shows times and the profile was
/// recorded without any, [`ExportError::NoFlows`] if the format shows stacks and the profile holds latencies alone, [`ExportError::Encode`] if an encoder refuses the data.
pub fn export(profile: &Profile, format: Format, out: &mut dyn Write) -> Result<(), ExportError> {
    let stacks = matches!(format, Format::Pprof | Format::Collapsed | Format::Firefox | Format::Speedscope);
    if stacks && profile.flows.is_empty() && profile.threads.is_empty() && !profile.latency.is_empty() {
        return Err(ExportError::NoFlows { format });
    }
    match format {
        Format::Pprof => pprof::write(profile, out),
        Format::Collapsed => collapsed::write(profile, out),
        Format::Firefox => firefox::write(profile, out),
        Format::Speedscope => speedscope::write(profile, out),
        Format::Chrome => chrome::write(profile, out),
        Format::Csv if profile.flows.is_empty() && !profile.latency.is_empty() => csv::write_latency(profile, out),
        Format::Csv => csv::write_flows(profile, out),
    }?;
    out.flush()?;
    Ok(())
}
