//! Requests of a browser of this machine, one a connection.
//!
//! Only what a page needs: the head of a GET or HEAD request is read, within a time and a size; a body never is.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A request's head is no longer.
const HEAD_MAX: usize = 32 << 10;
/// It has its headers within these.
const HEADERS_MAX: usize = 64;
/// It has come within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Who takes nothing for so long gets no more.
const SLOWEST: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// HEAD: no body is wanted.
    pub head_only: bool,
    pub path: String,
    /// Where the browser thinks that it is, without a port.
    pub host: String,
}

/// An answer.
pub struct Answer {
    pub status: &'static str,
    /// Of a redirection.
    pub location: Option<String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn new(status: &'static str, body: Vec<u8>) -> Self {
        Self { status, location: None, body }
    }
}

/// Reads a request. An error if nothing that could be answered has come.
pub fn read(stream: &mut TcpStream) -> io::Result<Result<Request, Answer>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let n = stream.read(&mut part)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..n]);
        match parse(&head) {
            Some(request) => return Ok(request),
            None if head.len() > HEAD_MAX => {
                return Ok(Err(Answer::new("431 Request Header Fields Too Large", Vec::new())));
            }
            None => {}
        }
    }
}

/// None while there is more to come.
fn parse(head: &[u8]) -> Option<Result<Request, Answer>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let bad = || Some(Err(Answer::new("400 Bad Request", Vec::new())));
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return bad(),
    }
    let (Some(method), Some(path)) = (request.method, request.path) else { return bad() };
    let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    // Two of them would be taken differently by different programs (RFC 9112, section 3.2).
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return bad() };
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Some(Err(Answer::new("405 Method Not Allowed", Vec::new()))),
    };
    let host = String::from_utf8_lossy(host.value).to_ascii_lowercase();
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name.to_owned(),
        _ => host,
    };
    Some(Ok(Request { head_only, path: path.to_owned(), host }))
}

/// Writes an answer and ends the connection.
pub fn answer(stream: &mut TcpStream, answer: &Answer, head_only: bool) -> io::Result<()> {
    stream.set_write_timeout(Some(SLOWEST))?;
    let location = answer.location.as_ref().map_or_else(String::new, |to| format!("Location: {to}\r\n"));
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Length: {}\r\nContent-Type: text/html; charset=utf-8\r\n{location}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.body.len(),
    );
    stream.write_all(head.as_bytes())?;
    if !head_only {
        stream.write_all(&answer.body)?;
    }
    stream.shutdown(Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> Option<Result<Request, &'static str>> {
        parse(head.as_bytes()).map(|parsed| parsed.map_err(|answer| answer.status))
    }

    #[test]
    fn heads() {
        let page = |host: &str| Some(Ok(Request { head_only: false, path: "/a/".to_owned(), host: host.to_owned() }));
        assert_eq!(status("GET /a/ HTTP/1.1\r\nHost: LocalHost:9000\r\n\r\n"), page("localhost"));
        assert_eq!(status("GET /a/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), page("[::1]"));
        assert_eq!(
            status("GET /a/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999\r\n\r\nabc"),
            page("127.0.0.1")
        );
        assert_eq!(status("GET /a/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"), None);
        for bad in
            ["GET /a/ HTTP/1.1\r\n\r\n", "GET /a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "\u{1}\u{2} HTTP/9\r\n\r\n"]
        {
            assert_eq!(status(bad), Some(Err("400 Bad Request")), "{bad}");
        }
        assert_eq!(status("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(Err("405 Method Not Allowed")));
    }
}
