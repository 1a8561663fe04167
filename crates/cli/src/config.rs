//! Defaults for flags, from `$XDG_CONFIG_HOME/transect/config.toml` (else `~/.config/transect/config.toml`).
//!
//! ```toml
//! [record]
//! timing = "full"            # as --timing
//! overhead = "5%"            # as --overhead
//! histogram = true
//! follow = false             # as --no-follow
//! interval = "10s"
//! trace = ["pthread_*"]
//! wait-apis = ["/home/me/apis.txt"]
//!
//! [report]
//! format = "text"
//! color = "always"
//! top = 20
//! min-percent = 0.5
//! sort = "self"
//!
//! [cut.faults]               # report --cut faults
//! by = "thread-group,function"
//! measure = "critical"
//! where = "wait = page-fault"
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::arguments::{Color, ReportFormat};
use crate::failure::Failure;

/// The file's contents; everything is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Defaults of `run` and `record`.
    #[serde(default)]
    pub record: RecordDefaults,
    /// Defaults of `run` and `report`.
    #[serde(default)]
    pub report: ReportDefaults,
    /// Cuts by their names.
    #[serde(default)]
    pub cut: BTreeMap<String, NamedCut>,
}

/// A cut that `report --cut NAME` makes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedCut {
    /// `--by`.
    pub by: Option<String>,
    /// `--measure`.
    pub measure: Option<String>,
    /// `--where`.
    #[serde(rename = "where")]
    pub filter: Option<String>,
}

/// Defaults of `run` and `record`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecordDefaults {
    /// `--timing`.
    pub timing: Option<String>,
    /// `--overhead`.
    pub overhead: Option<String>,
    /// `--histogram`.
    #[serde(default)]
    pub histogram: bool,
    /// The opposite of `--no-follow`.
    pub follow: Option<bool>,
    /// `--interval`.
    pub interval: Option<String>,
    /// `--trace`.
    #[serde(default)]
    pub trace: Vec<String>,
    /// `--wait-apis`.
    #[serde(default)]
    pub wait_apis: Vec<PathBuf>,
}

/// Defaults of `run` and `report`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReportDefaults {
    /// `--format`.
    pub format: Option<ReportFormat>,
    /// `--color`.
    pub color: Option<Color>,
    /// `--top`.
    pub top: Option<usize>,
    /// `--min-percent`.
    pub min_percent: Option<f64>,
    /// `--sort`.
    pub sort: Option<String>,
}

/// Reads the file, if there is one.
pub fn load() -> Result<Config, Failure> {
    let Some(path) = path() else { return Ok(Config::default()) };
    let config = |problem: String| Failure::Config { path: path.clone(), problem };
    match transect_binary_info::read_plain(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
            config(format!("line {}: {}", before.matches('\n').count() + 1, error.message()))
        }),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Config::default())
        }
        // Nobody knows whether it is there: the home is another user's, as after setpriv and in cron jobs.
        Err(_) if is_out_of_reach(&path) => Ok(Config::default()),
        Err(error) => Err(config(error.to_string())),
    }
}

/// True if a folder on the way to the file may not be searched, so that the file can't even be looked for.
fn is_out_of_reach(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Where the file belongs.
pub fn path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(base.join("transect").join("config.toml"))
}
