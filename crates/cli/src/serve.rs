//! Pages of profiles in the browser, from a server of this machine alone.
//!
//! It answers on the loopback interface, to paths that begin with a secret word: other users of the machine, and pages of other
//! sites, don't know it. A page is made when it is asked for, so that one of a running recording shows the newest state.

mod request;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempPath;
use transect_report::html;

use self::request::{Answer, Request};
use crate::failure::Failure;
use crate::feature_regions::escaped;
use crate::{dependence, output};

/// Bytes of the secret word; twice as many hexadecimal digits.
const SECRET: usize = 16;
/// Browsers that are served at a time; who comes beyond is turned away.
const CONNECTIONS_MAX: usize = 64;
/// Names of this machine.
const OUR_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
const OK: &str = "200 OK";
const NOT_FOUND: &str = "404 Not Found";

/// What is served, and where.
struct Site {
    folders: Vec<PathBuf>,
    /// First part of every path.
    secret: String,
    port: u16,
}

/// Serves the pages of these profiles until the user ends it; `opens` shows the first page in the user's browser.
///
/// # Errors
/// [`Failure::Serve`] if the port can't be had or no more requests come; [`Failure::Read`] if a profile can't be read.
pub fn pages(folders: Vec<PathBuf>, port: u16, opens: bool) -> Result<u8, Failure> {
    for folder in &folders {
        transect_profile_store::read_without_slices(folder).map_err(Failure::Read)?;
    }
    let failed = |reason: &dyn std::fmt::Display| Failure::Serve { port, reason: reason.to_string() };
    let server = TcpListener::bind(("127.0.0.1", port)).map_err(|error| failed(&error))?;
    let secret = secret().map_err(|error| failed(&error))?;
    let port = server.local_addr().map_or(port, |address| address.port());
    let site = Site { folders, secret, port };
    output::say(&format!("serving until Ctrl-C: {}", site.address()));
    // Removed as soon as the browser has come.
    let leading = Mutex::new(opens.then(|| open(&site)).flatten());
    let served = AtomicUsize::new(0);
    thread::scope(|scope| {
        loop {
            let (mut stream, _) = server.accept().map_err(|error| failed(&error))?;
            if served.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                served.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (site, leading, served) = (&site, &leading, &served);
            scope.spawn(move || {
                // Who asked may have gone.
                if let Ok(true) = site.serve(&mut stream)
                    && let Ok(mut leading) = leading.lock()
                {
                    drop(leading.take());
                }
                served.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}

/// A word that nobody guesses.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0u8; SECRET];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Site {
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.secret)
    }

    /// Serves a connection; true if it got a page.
    fn serve(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let request = request::read(stream)?;
        let head_only = request.as_ref().is_ok_and(|request| request.head_only);
        let answer = request.map_or_else(|refusal| refusal, |request| self.answer(&request));
        request::answer(stream, &answer, head_only)?;
        Ok(answer.status == OK)
    }

    /// Who does not know the word learns nothing, not even that it is this program.
    fn answer(&self, request: &Request) -> Answer {
        if request.path == format!("/{}", self.secret) {
            return Answer {
                location: Some(format!("/{}/", self.secret)),
                ..Answer::new("308 Permanent Redirect", Vec::new())
            };
        }
        let Some(page) = self.page(request) else { return Answer::new(NOT_FOUND, Vec::new()) };
        match page {
            Ok(page) => Answer::new(OK, page),
            Err(error) => Answer::new("500 Internal Server Error", message(&error.to_string())),
        }
    }

    /// The page of a path; `None` where there is none.
    fn page(&self, request: &Request) -> Option<Result<Vec<u8>, Failure>> {
        // A name that leads here from another site (DNS rebinding) is not ours; a port may be forwarded.
        if !OUR_NAMES.contains(&request.host.as_str()) {
            return None;
        }
        let rest = request.path.strip_prefix('/')?.strip_prefix(&self.secret)?.strip_prefix('/')?;
        match (self.folders.as_slice(), rest) {
            ([only], "") => Some(page(only)),
            (several, "") => Some(Ok(list(several))),
            (several, number) => Some(page(several.get(number.parse::<usize>().ok()?)?)),
        }
    }
}

fn page(folder: &Path) -> Result<Vec<u8>, Failure> {
    let profile = dependence::read(folder)?;
    let mut page = Vec::new();
    html::render(&html::PageReport::new(&profile), &mut page)?;
    Ok(page)
}

fn list(folders: &[PathBuf]) -> Vec<u8> {
    let rows = folders.iter().enumerate();
    let rows: String = rows
        .map(|(number, folder)| format!("<li><a href=\"{number}\">{}</a>\n", escaped(&folder.to_string_lossy())))
        .collect();
    document(&format!("<h1>Profiles</h1>\n<ul>\n{rows}</ul>")).into_bytes()
}

fn message(text: &str) -> Vec<u8> {
    document(&format!("<p>{}</p>", escaped(text))).into_bytes()
}

fn document(body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Transect</title>\n\
         <style>:root {{ color-scheme: light dark; font: 1rem/1.6 system-ui, sans-serif; margin: 2rem }}</style>\n{body}\n</html>\n"
    )
}

/// Shows the page in the browser, if there is a screen. The word must not stand in a command line, which everybody can read: a file
/// of the user's own leads there.
fn open(site: &Site) -> Option<TempPath> {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().find_map(std::env::var_os)?;
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let mut file = tempfile::Builder::new().prefix("transect-").suffix(".html").tempfile_in(folder).ok()?;
    let leads = document(&format!("<meta http-equiv=\"refresh\" content=\"0; url={}\">", site.address()));
    file.write_all(leads.as_bytes()).ok()?;
    let mut command = Command::new("xdg-open");
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()?;
    Some(file.into_temp_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(folders: &[&str]) -> Site {
        Site { folders: folders.iter().map(PathBuf::from).collect(), secret: "5ec2e7".to_owned(), port: 1 }
    }

    #[test]
    fn only_paths_with_the_secret_word_have_pages() {
        let site = site(&["/nowhere/a & <b>", "/nowhere/c"]);
        let page = |path: &str, host: &str| {
            site.page(&Request { head_only: false, path: path.to_owned(), host: host.to_owned() })
        };
        let list = page("/5ec2e7/", "localhost").unwrap().unwrap();
        assert!(String::from_utf8(list).unwrap().contains("<a href=\"0\">/nowhere/a &amp; &lt;b&gt;</a>"));
        for none in ["/", "", "/5ec2e/", "/5ec2e70/", "/5ec2e7/2", "/5ec2e7/-1", "/5ec2e7/../etc", "5ec2e7/"] {
            assert!(page(none, "127.0.0.1").is_none(), "{none}");
        }
        assert!(page("/5ec2e7/", "evil.example").is_none());
        assert!(page("/5ec2e7/1", "127.0.0.1").unwrap().is_err(), "there is no such profile");
        let moved =
            site.answer(&Request { head_only: false, path: "/5ec2e7".to_owned(), host: "127.0.0.1".to_owned() });
        assert_eq!(moved.location.as_deref(), Some("/5ec2e7/"));
    }

    #[test]
    fn secrets_differ() {
        let [one, other] = [secret().unwrap(), secret().unwrap()];
        assert_ne!(one, other);
        assert_eq!(one.len(), 2 * SECRET);
    }
}
