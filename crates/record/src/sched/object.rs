//! What waits are for: locks by their place, files by their path, sockets by their peer. Looked up while the process
//! lives, each once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::{object_type, sched_object, text};

use super::address_space::AddressSpaces;
use super::mapped_file::MappedFiles;
use super::peer::{Peer, Peers};
use super::place::FileId;

/// Number of an object in [`Objects`]; [`NO_OBJECT`] is none.
pub type ObjectNumber = u32;
/// Nothing that has a name.
pub const NO_OBJECT: ObjectNumber = 0;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RawObject {
    /// None, or not known.
    None,
    /// A word in memory.
    Word {
        /// Process, 0 where the word lies in a file's mapping and means the same in every process.
        tgid: i32,
        /// Its address.
        address: u64,
        /// The file that is mapped there, and where in it.
        place: Option<(FileId, u64)>,
    },
    /// Anything else, in words.
    Named(Box<str>),
}

/// Process, descriptor, device, inode, ports, peer, name. An inode's number comes again.
type DescriptorKey = (i32, i32, u64, u64, u32, [u8; 16], [i8; 28]);

/// All objects, each once.
#[derive(Debug, Clone)]
pub struct Objects {
    numbers: HashMap<RawObject, ObjectNumber>,
    all: Vec<RawObject>,
    /// Descriptors that were looked up.
    descriptors: HashMap<DescriptorKey, ObjectNumber>,
    peers: Peers,
    /// Waits whose object had no room.
    pub refused: u64,
}

/// More are not kept: some 12 MB.
const MAX_OBJECTS: usize = 80_000;
const MAX_DESCRIPTORS: usize = 60_000;

impl Default for Objects {
    fn default() -> Self {
        let numbers = HashMap::from_iter([(RawObject::None, NO_OBJECT)]);
        Self {
            numbers,
            all: vec![RawObject::None],
            descriptors: HashMap::default(),
            peers: Peers::default(),
            refused: 0,
        }
    }
}

impl Objects {
    fn number(&mut self, object: RawObject) -> ObjectNumber {
        if let Some(&number) = self.numbers.get(&object) {
            return number;
        }
        if self.all.len() >= MAX_OBJECTS {
            self.refused += 1;
            return NO_OBJECT;
        }
        let number = self.all.len() as ObjectNumber;
        self.all.push(object.clone());
        self.numbers.insert(object, number);
        number
    }

    /// A word in the memory of a process.
    pub fn word(
        &mut self,
        tgid: i32,
        address: u64,
        spaces: &mut AddressSpaces,
        files: &mut MappedFiles,
    ) -> ObjectNumber {
        if address == 0 {
            return NO_OBJECT;
        }
        let place = if tgid != 0 { spaces.known_file(tgid, address, files) } else { None };
        self.number(RawObject::Word { tgid, address, place })
    }

    /// What a descriptor of a process refers to.
    pub fn descriptor(&mut self, tgid: i32, object: &sched_object) -> ObjectNumber {
        if object.r#type == object_type::NONE {
            return NO_OBJECT;
        }
        let ports = u32::from(object.local_port) << 16 | u32::from(object.peer_port);
        let key = (tgid, object.fd, object.device, object.inode, ports, object.peer, object.name);
        if let Some(&number) = self.descriptors.get(&key) {
            return number;
        }
        let peer = match object.r#type {
            object_type::PIPE => self.peers.of_pipe(tgid, object.fd, object.inode),
            object_type::SOCKET_UNIX if text(&object.name).is_empty() => {
                self.peers.of_socket(tgid, peers_inode(object))
            }
            _ => Peer::None,
        };
        let (name, settled) = match peer {
            Peer::Is(name) => (name, true),
            Peer::None => (described(tgid, object), true),
            Peer::NotLooked => (described(tgid, object), false),
        };
        let number = self.number(RawObject::Named(name.into()));
        if !settled {
            return number;
        }
        if self.descriptors.len() >= MAX_DESCRIPTORS {
            self.descriptors.clear();
        }
        self.descriptors.insert(key, number);
        number
    }

    /// An object by its number.
    pub fn get(&self, number: ObjectNumber) -> &RawObject {
        self.all.get(number as usize).unwrap_or(&RawObject::None)
    }

    /// All of them.
    pub fn all(&self) -> &[RawObject] {
        &self.all
    }
}

/// The inode of a Unix socket's peer, 0 if it has none.
fn peers_inode(object: &sched_object) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = object.peer;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn described(tgid: i32, object: &sched_object) -> String {
    let name = text(&object.name);
    match object.r#type {
        object_type::SOCKET_INET | object_type::SOCKET_INET6 => inet(tgid, object),
        object_type::SOCKET_UNIX if name.is_empty() => match peers_inode(object) {
            0 => "unix".to_owned(),
            inode => format!("unix socket:[{inode}]"),
        },
        object_type::SOCKET_UNIX => format!("unix {name}"),
        object_type::SOCKET_OTHER => "socket".to_owned(),
        object_type::ANONYMOUS => name,
        object_type::PIPE => linked(tgid, object).unwrap_or_else(|| format!("pipe:[{}]", object.inode)),
        _ => linked(tgid, object).unwrap_or(name),
    }
}

/// The path that the descriptor's link shows, if it still is the same file.
fn linked(tgid: i32, object: &sched_object) -> Option<String> {
    let link = format!("/proc/{tgid}/fd/{}", object.fd);
    let path = std::fs::read_link(&link).ok()?;
    let same = std::fs::metadata(&link).is_ok_and(|found| found.ino() == object.inode);
    same.then(|| path.to_string_lossy().into_owned())
}

fn inet(tgid: i32, object: &sched_object) -> String {
    let six = object.r#type == object_type::SOCKET_INET6;
    let protocol = if is_datagram(tgid, object.inode, six) { "udp" } else { "tcp" };
    if object.peer_port == 0 {
        return format!("{protocol} *:{}", object.local_port);
    }
    let peer = if six {
        let peer = Ipv6Addr::from(object.peer);
        peer.to_ipv4_mapped().map_or(IpAddr::V6(peer), IpAddr::V4)
    } else {
        let [a, b, c, d, ..] = object.peer;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    format!("{protocol} {}", std::net::SocketAddr::new(peer, object.peer_port))
}

/// Whether the socket is listed among those of UDP in its network namespace.
fn is_datagram(tgid: i32, inode: u64, six: bool) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{tgid}/net/{}", if six { "udp6" } else { "udp" }));
    let inode = inode.to_string();
    // sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
    table.is_ok_and(|table| table.lines().any(|line| line.split_whitespace().nth(9) == Some(inode.as_str())))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    fn object(kind: u32, descriptor: &impl AsRawFd) -> sched_object {
        let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let found = std::fs::metadata(link).unwrap();
        sched_object { r#type: kind, fd: descriptor.as_raw_fd(), inode: found.ino(), ..Default::default() }
    }

    fn named(object: &sched_object) -> String {
        let mut objects = Objects::default();
        let number = objects.descriptor(std::process::id() as i32, object);
        assert_eq!(objects.descriptor(std::process::id() as i32, object), number);
        match objects.get(number) {
            RawObject::Named(name) => name.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_have_their_path_while_they_are_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let file = File::create(&path).unwrap();
        let mut found = object(object_type::FILE, &file);
        "journal".bytes().zip(&mut found.name).for_each(|(byte, at)| *at = byte as _);
        assert_eq!(named(&found), path.to_str().unwrap());
        found.inode += 1;
        assert_eq!(named(&found), "journal", "the descriptor is another file's by now");
    }

    #[test]
    fn sockets_have_their_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut found = object(object_type::SOCKET_INET, &stream);
        found.peer_port = port;
        found.peer[..4].copy_from_slice(&[127, 0, 0, 1]);
        assert_eq!(named(&found), format!("tcp 127.0.0.1:{port}"));
        let mut found = object(object_type::SOCKET_INET, &listener);
        found.local_port = port;
        assert_eq!(named(&found), format!("tcp *:{port}"));
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut found = object(object_type::SOCKET_INET, &datagrams);
        (found.peer_port, found.peer[0]) = (53, 9);
        assert_eq!(named(&found), "udp 9.0.0.0:53");
        let mut found = object(object_type::SOCKET_INET6, &listener);
        found.peer = Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped().octets();
        found.peer_port = 80;
        assert_eq!(named(&found), "tcp 10.0.0.7:80");
        found.peer = Ipv6Addr::LOCALHOST.octets();
        assert_eq!(named(&found), "tcp [::1]:80");
    }

    #[test]
    fn datagrams_to_another_address_have_another_peer() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut objects = Objects::default();
        let mut name = |last| {
            let mut found = object(object_type::SOCKET_INET, &socket);
            found.peer_port = 53;
            found.peer[..4].copy_from_slice(&[9, 0, 0, last]);
            let number = objects.descriptor(std::process::id() as i32, &found);
            objects.get(number).clone()
        };
        let [first, second] = [name(1), name(2)];
        assert_eq!(first, RawObject::Named("udp 9.0.0.1:53".into()));
        assert_eq!(second, RawObject::Named("udp 9.0.0.2:53".into()));
    }

    #[test]
    fn locks_are_words_in_memory() {
        let (mut spaces, mut files) = (AddressSpaces::default(), MappedFiles::default());
        let own = std::process::id() as i32;
        static LOCK: [u8; 64] = [7; 64];
        let address = LOCK.as_ptr() as u64;
        let mut objects = Objects::default();
        spaces.read(own, &mut files);
        let number = objects.word(own, address, &mut spaces, &mut files);
        assert!(matches!(objects.get(number), RawObject::Word { place: Some(_), .. }));
        let on_stack = 0_u32;
        let number = objects.word(own, &raw const on_stack as u64, &mut spaces, &mut files);
        assert!(matches!(objects.get(number), RawObject::Word { place: None, .. }));
        assert_eq!(objects.word(own, 0, &mut spaces, &mut files), NO_OBJECT);
    }
}
