//! Whether a process that runs already serves others: it has a socket for connections.

use std::fs;
use std::path::Path;

/// Descriptors of a process that are looked at.
const MAX_DESCRIPTORS: usize = 4096;
/// Of `/proc/net/tcp` and `/proc/net/unix`: waits for connections.
const TCP_LISTEN: &str = "0A";
const UNIX_ACCEPTS: &str = "00010000";

/// Whether the process has a socket on which it listens. False if that can't be told.
pub fn listens(tgid: i32) -> bool {
    let process = Path::new("/proc").join(tgid.to_string());
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    let inode = |link: &str| link.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned);
    let sockets: Vec<String> = descriptors
        .flatten()
        .take(MAX_DESCRIPTORS)
        .filter_map(|entry| inode(fs::read_link(entry.path()).ok()?.to_str()?))
        .collect();
    // State and inode are the fields of these numbers.
    let tables = [("tcp", TCP_LISTEN, 3, 9), ("tcp6", TCP_LISTEN, 3, 9), ("unix", UNIX_ACCEPTS, 3, 6)];
    !sockets.is_empty()
        && tables.iter().any(|&(name, state, at, inode)| {
            let table = fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
            table.lines().any(|line| is_listening(line, state, (at, inode), &sockets))
        })
}

fn is_listening(line: &str, state: &str, (at, inode): (usize, usize), sockets: &[String]) -> bool {
    let fields: Vec<&str> = line.split_whitespace().take(inode + 1).collect();
    fields.get(at) == Some(&state) && fields.get(inode).is_some_and(|inode| sockets.iter().any(|own| own == inode))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// One test for all: they share their process's descriptors.
    #[test]
    fn a_process_listens_while_it_has_a_socket_for_connections() {
        let own = std::process::id() as i32;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens(own));
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener);
        assert!(!listens(own), "a connection is none");
        drop(client);
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(listens(own));
        drop(listener);
        assert!(!listens(own));
    }
}
