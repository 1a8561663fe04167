//! What can go wrong in a subcommand, and the exit status that says so.

use std::io;
use std::path::PathBuf;

use transect_attach::AttachError;
use transect_calibrate::CalibrateError;
use transect_feature_compiler::CompilerError;
use transect_feature_model::ModelError;
use transect_influence::InfluenceError;
use transect_profile_export::ExportError;
use transect_profile_store::StoreError;
use transect_record::RecordError;
use transect_report::ReportError;

/// Exit status if recording failed, as env(1) and timeout(1) use it.
const RECORDING_FAILED: u8 = 125;

/// Why a subcommand failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The configuration file has a mistake.
    #[error("{path}: {problem}; mend the file or remove it", path = .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The program could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The recorded profile could not be kept.
    #[error(transparent)]
    Keep(StoreError),
    /// A profile could not be read.
    #[error(transparent)]
    Read(StoreError),
    /// A view could not be rendered.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A profile could not be converted.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// This machine's costs could not be measured.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// There is no compiler that marks feature regions.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// A feature model has a mistake.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The influence of features could not be found.
    #[error(transparent)]
    Influence(#[from] InfluenceError),
    /// A file with the results of `transect influence` is none.
    #[error("{path} has no results of transect influence: {problem}; write them with --format json --output FILE", path = .path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// An output file or stream could not be written.
    #[error("cannot write {place}: {source}")]
    Write {
        /// The file, or `standard output`.
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The program ran and its profile is kept, but the report on it failed.
    #[error("{failure}; the profile is kept, see it with: transect report {folder}", folder = .folder.display())]
    Unreported {
        /// Where the profile is.
        folder: PathBuf,
        /// What went wrong.
        failure: Box<Failure>,
    },
    /// No function was found to measure.
    #[error("{0}")]
    NoFunction(String),
    /// `top` found no recording.
    #[error("{0}")]
    NoRecording(String),
}

impl Failure {
    /// 125, 126, 127 for a recording that did not come about, 2 for usage, else 1.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config { .. } | Self::Model(_) => 2,
            Self::Influence(InfluenceError::NoPlace | InfluenceError::NoCommand) => 2,
            Self::Record(RecordError::Launch(error)) => error.exit_status(),
            Self::Record(RecordError::Select(_) | RecordError::Point(_) | RecordError::NoComponent { .. }) => 2,
            Self::Record(RecordError::Attach(AttachError::Start { source, .. })) => match source.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            },
            Self::Record(RecordError::Spawn { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            },
            Self::Record(_) | Self::Keep(_) | Self::Unreported { .. } => RECORDING_FAILED,
            _ if self.is_closed_pipe() => 0,
            _ => 1,
        }
    }

    /// True if the reader of the output has gone (`transect report … | head`): not worth a message.
    pub fn is_closed_pipe(&self) -> bool {
        let (Self::Write { source, .. }
        | Self::Report(ReportError::Write(source))
        | Self::Export(ExportError::Write(source))) = self
        else {
            return false;
        };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}
