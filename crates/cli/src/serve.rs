//! Pages of profiles in the browser, from a server of this machine alone.
//!
//! It answers on the loopback interface, to paths that begin with a secret word: other users of the machine, and pages of other
//! sites, don't know it. A page is made when it is asked for, so that one of a running recording shows the newest state.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempPath;
use tiny_http::{Header, Method, Request, Response, Server};
use transect_report::html;

use crate::failure::Failure;
use crate::feature_regions::escaped;
use crate::{dependence, output};

/// Bytes of the secret word; twice as many hexadecimal digits.
const SECRET: usize = 16;

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
    let server = Server::http(("127.0.0.1", port)).map_err(|error| failed(&error))?;
    let secret = secret().map_err(|error| failed(&error))?;
    let port = server.server_addr().to_ip().map_or(port, |address| address.port());
    let site = Site { folders, secret, port };
    output::say(&format!("serving until Ctrl-C: {}", site.address()));
    // Removed as soon as the browser has come.
    let mut leading = opens.then(|| open(&site)).flatten();
    loop {
        if site.answer(server.recv().map_err(|error| failed(&error))?) {
            drop(leading.take());
        }
    }
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

    /// Answers a request; true if there is a page. Who does not know the word learns nothing, not even that it is this program.
    fn answer(&self, request: Request) -> bool {
        let page = match (self.is_ours(&request), request.method()) {
            (true, Method::Get | Method::Head) => self.page(request.url()),
            _ => None,
        };
        let found = page.is_some();
        let response = match page {
            Some(Ok(page)) => Response::from_data(page),
            Some(Err(error)) => Response::from_data(message(&error.to_string())).with_status_code(500),
            None => Response::from_data(Vec::new()).with_status_code(404),
        };
        let headers = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
        ];
        let headers = headers.into_iter().filter_map(|(name, value)| Header::from_bytes(name, value).ok());
        let response = headers.fold(response, Response::with_header);
        // Who asked may have gone.
        let _ = request.respond(response);
        found
    }

    /// A name that leads here from another site (DNS rebinding) is not ours.
    fn is_ours(&self, request: &Request) -> bool {
        let host = request.headers().iter().find(|header| header.field.equiv("Host"));
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        host.is_some_and(|host| names.iter().any(|name| name == host.value.as_str()))
    }

    /// The page of a path; `None` where there is none.
    fn page(&self, path: &str) -> Option<Result<Vec<u8>, Failure>> {
        let rest = path.strip_prefix('/')?.strip_prefix(&self.secret)?.strip_prefix('/')?;
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
        let list = site.page("/5ec2e7/").unwrap().unwrap();
        assert!(String::from_utf8(list).unwrap().contains("<a href=\"0\">/nowhere/a &amp; &lt;b&gt;</a>"));
        for none in ["/", "", "/5ec2e7", "/5ec2e/", "/5ec2e70/", "/5ec2e7/2", "/5ec2e7/-1", "/5ec2e7/../etc", "5ec2e7/"]
        {
            assert!(site.page(none).is_none(), "{none}");
        }
        assert!(site.page("/5ec2e7/1").unwrap().is_err(), "there is no such profile");
    }

    #[test]
    fn secrets_differ() {
        let [one, other] = [secret().unwrap(), secret().unwrap()];
        assert_ne!(one, other);
        assert_eq!(one.len(), 2 * SECRET);
    }
}
