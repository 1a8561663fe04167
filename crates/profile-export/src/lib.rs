//! Writes a recorded profile in the formats of other tools.
//!
//! [`export`] turns one [`Profile`] into one stream. The stack formats (pprof, collapsed, Firefox Profiler,
//! speedscope) show every flow as a stack of four frames, root first: program, thread group, calling component,
//! called API as `component!name`. The weight of a stack is the flow's *self* time, so that weights add up to the
//! threads' lifetimes and no instant is in two of them; the time that a program spends in its own code stands under
//! the executable's name with no API below it.
//!
//! Not for reading profiles back: the folder written by `transect-profile-store` is the only lossless form.
#![forbid(unsafe_code)]

mod chrome;
mod collapsed;
pub mod csv;
mod error;
mod firefox;
mod format;
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
/// recorded without any, [`ExportError::Encode`] if an encoder refuses the data.
pub fn export(profile: &Profile, format: Format, out: &mut dyn Write) -> Result<(), ExportError> {
    match format {
        Format::Pprof => pprof::write(profile, out),
        Format::Collapsed => collapsed::write(profile, out),
        Format::Firefox => firefox::write(profile, out),
        Format::Speedscope => speedscope::write(profile, out),
        Format::Chrome => chrome::write(profile, out),
        Format::Csv => csv::write_flows(profile, out),
    }?;
    out.flush()?;
    Ok(())
}
