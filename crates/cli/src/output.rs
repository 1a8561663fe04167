//! Where views and exports go: standard output, standard error, or a file that appears as a whole.

use std::fs::Permissions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use transect_report::terminal::{ColorChoice, Style, escape};

use crate::arguments::Color;
use crate::failure::Failure;

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// True if it is a terminal.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }

    fn columns(self) -> Option<usize> {
        let size = match self {
            Self::Stdout => terminal_size::terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size::terminal_size_of(io::stderr()),
        };
        size.map(|(terminal_size::Width(columns), _)| usize::from(columns))
    }

    /// Rows of the terminal, if it is one.
    pub fn rows(self) -> Option<usize> {
        let size = match self {
            Self::Stdout => terminal_size::terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size::terminal_size_of(io::stderr()),
        };
        size.map(|(_, terminal_size::Height(rows))| usize::from(rows))
    }

    /// Colour and width for text that goes there.
    pub fn style(self, color: Option<Color>) -> Style {
        Style::resolve(choice(color), self.is_terminal(), self.columns(), |name| std::env::var_os(name))
    }

    /// Lets `render` write to the stream.
    pub fn write<E>(self, render: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), Failure>
    where
        Failure: From<E>,
    {
        let (mut out, place): (Box<dyn Write>, _) = match self {
            Self::Stdout => (Box::new(BufWriter::new(io::stdout())), "standard output"),
            Self::Stderr => (Box::new(BufWriter::new(io::stderr())), "standard error"),
        };
        render(&mut *out)?;
        out.flush().map_err(|source| Failure::Write { place: place.to_owned(), source })
    }
}

/// A line of our own on standard error, safe for terminals. Nobody may be reading there, which is no reason to fail.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "transect: {}", escape(message));
}

/// Style for text in a file: no terminal, so colour only if it is asked for.
pub fn file_style(color: Option<Color>) -> Style {
    // A variable that forces colour onto pipes is not meant for files.
    let environment = |name: &str| (name != "CLICOLOR_FORCE").then(|| std::env::var_os(name)).flatten();
    Style::resolve(choice(color), false, None, environment)
}

fn choice(color: Option<Color>) -> ColorChoice {
    match color {
        None | Some(Color::Auto) => ColorChoice::Auto,
        Some(Color::Always) => ColorChoice::Always,
        Some(Color::Never) => ColorChoice::Never,
    }
}

/// Lets `render` write the file `path`, readable by its user only; on failure what stood there before stays.
pub fn write_file<E>(path: &Path, render: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), Failure>
where
    Failure: From<E>,
{
    let failure = |source| Failure::Write { place: path.display().to_string(), source };
    // Devices and pipes (/dev/stdout, process substitution) are written as they are.
    if path.exists() && !path.is_file() && !path.is_dir() {
        let mut out = BufWriter::new(std::fs::OpenOptions::new().write(true).open(path).map_err(failure)?);
        render(&mut out)?;
        return out.flush().map_err(failure);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = tempfile::Builder::new()
        .prefix(".transect-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(failure)?;
    let mut out = BufWriter::new(draft);
    render(&mut out)?;
    let draft = out.into_inner().map_err(|error| failure(error.into_error()))?;
    draft.persist(path).map_err(|error| failure(error.error))?;
    Ok(())
}
