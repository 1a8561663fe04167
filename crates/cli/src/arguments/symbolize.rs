//! `transect symbolize`.

use std::path::PathBuf;

use clap::Args;

/// `transect symbolize`.
#[derive(Debug, Args)]
#[command(after_help = "\
A recording keeps the addresses of functions and lines that it finds no names for: in stripped programs, without the debug
package, in containers. This looks for the files of each component by its build-id and puts functions, lines and inlined
calls in the place of these addresses, on any machine. Searched are --binary and --debug-dir, /usr/lib/debug, the files of
debuginfod's client, the path that was recorded, and the servers in DEBUGINFOD_URLS. Files of another build are refused.

Examples:
  transect symbolize p.transect
  transect symbolize p.transect --binary build/app --binary build/libapp.so
  transect symbolize p.transect --debug-dir /srv/symbols
  DEBUGINFOD_URLS=https://debuginfod.debian.net transect symbolize p.transect")]
pub struct SymbolizeArguments {
    /// Profile folder [default: the newest *.transect here]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Folder of debug files: laid out as /usr/lib/debug is, or with the files in it (repeatable)
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// A program, library or debug file of the build that was recorded (repeatable)
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
}
