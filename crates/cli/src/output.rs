//! Where views and exports go: standard output, standard error, or a file that appears as a whole.

use std::fs::Permissions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use transect_profile_store::META_FILE;
use transect_report::terminal::{ColorChoice, Style, escape};

use crate::arguments::Color;
use crate::failure::Failure;

/// Its descriptor.
const STANDARD_OUTPUT: i32 = 1;

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
        let failure = |source| Failure::Write { place: place.to_owned(), source };
        // Nothing that is shown on standard error is asked for by itself; a standard output without a reader is a mistake.
        if self == Self::Stdout && transect_attach::was_closed(STANDARD_OUTPUT) {
            return Err(failure(io::Error::other("it is closed")));
        }
        render(&mut *out)?;
        out.flush().map_err(failure)
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

/// Where a path leads.
#[derive(Debug, PartialEq)]
enum Destination {
    /// A file, or nothing yet: links are followed, so that they stay.
    File(PathBuf),
    /// A device or a pipe.
    Device(PathBuf),
    /// A descriptor that is open already (`/dev/stdout`): it goes on where that ends.
    Descriptor(PathBuf),
}

impl Destination {
    fn of(path: &Path) -> Self {
        /// As many as the kernel follows.
        const LINKS: usize = 40;
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let Ok(target) = std::fs::read_link(&path) else { break };
            let folder = folder_of(&path).to_owned();
            let known = folder.canonicalize().unwrap_or_default();
            if known.starts_with("/proc") && known.ends_with("fd") {
                return Self::Descriptor(path);
            }
            path = folder.join(target);
        }
        if path.exists() && !path.is_file() && !path.is_dir() { Self::Device(path) } else { Self::File(path) }
    }
}

/// A path as one types it into a shell, where it is no option.
pub fn shell_path(path: &Path) -> String {
    let path =
        if path.as_os_str().as_encoded_bytes().starts_with(b"-") { Path::new(".").join(path) } else { path.to_owned() };
    transect_report::terminal::parts::shell_words(&[path.display().to_string()])
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Lets `render` write the file `path`, readable by its user only; on failure what was there before is kept.
pub fn write_file<E>(path: &Path, render: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), Failure>
where
    Failure: From<E>,
{
    let failure = |source| Failure::Write { place: path.display().to_string(), source };
    let mut options = std::fs::OpenOptions::new();
    let (open, path) = match Destination::of(path) {
        Destination::File(path) => (None, path),
        Destination::Device(path) => (Some(options.write(true)), path),
        Destination::Descriptor(path) => (Some(options.append(true)), path),
    };
    if folder_of(&path).join(META_FILE).is_file() && path.exists() {
        let shown = path.display();
        return Err(Failure::Usage(format!(
            "{shown} is a file of a profile, which would be lost; write to another place"
        )));
    }
    if let Some(open) = open {
        // Who opens a pipe waits for its reader.
        transect_record::let_signals_end();
        let mut out = BufWriter::new(open.open(&path).map_err(failure)?);
        render(&mut out)?;
        return out.flush().map_err(failure);
    }
    let draft = tempfile::Builder::new()
        .prefix(".transect-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder_of(&path))
        .map_err(failure)?;
    let mut out = BufWriter::new(draft);
    render(&mut out)?;
    let draft = out.into_inner().map_err(|error| failure(error.into_error()))?;
    draft.persist(&path).map_err(|error| failure(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: &[u8]) {
        let render = |out: &mut dyn Write| -> Result<(), Failure> {
            out.write_all(bytes).unwrap();
            Ok(())
        };
        write_file(path, render).unwrap();
    }

    #[test]
    fn a_profiles_own_files_are_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let (metadata, table) = (folder.path().join(META_FILE), folder.path().join("flows.parquet"));
        std::fs::write(&metadata, "{}").unwrap();
        std::fs::write(&table, "rows").unwrap();
        for own in [&metadata, &table] {
            let refused = write_file(own, |_| -> Result<(), Failure> { Ok(()) }).unwrap_err();
            assert!(refused.to_string().contains("a file of a profile"), "{refused}");
        }
        assert_eq!(std::fs::read(&table).unwrap(), b"rows");
        write(&folder.path().join("page.html"), b"beside them");
    }

    #[test]
    fn next_commands_can_be_pasted() {
        assert_eq!(shell_path(Path::new("a/b.transect")), "a/b.transect");
        assert_eq!(shell_path(Path::new("sp ace")), "'sp ace'");
        assert_eq!(shell_path(Path::new("-dash")), "./-dash");
    }

    #[test]
    fn links_stay_and_lead_where_they_did() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, b"after");
        assert!(link.is_symlink() && std::fs::read(&file).unwrap() == b"after");
        std::fs::remove_file(&file).unwrap();
        write(&link, b"new");
        assert!(link.is_symlink() && std::fs::read(&file).unwrap() == b"new");
    }

    #[test]
    fn a_descriptor_is_written_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "before ").unwrap();
        let open = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
        let descriptor = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open)));
        assert_eq!(Destination::of(&descriptor), Destination::Descriptor(descriptor.clone()));
        write(&descriptor, b"after");
        assert_eq!(std::fs::read(&file).unwrap(), b"before after");
        assert_eq!(Destination::of(Path::new("/dev/null")), Destination::Device("/dev/null".into()));
    }
}
