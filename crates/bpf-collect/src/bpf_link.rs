//! Links between programs and what they run at. A link lives as long as its descriptor: when this process ends, however it
//! ends, nothing is left.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Attaches a loaded program (`bpf(2)`, `BPF_LINK_CREATE`). `target` is a descriptor of what it is attached to, 0 for what the
/// program was loaded for.
///
/// # Errors
/// The kernel's.
pub(crate) fn create(
    program: BorrowedFd<'_>,
    target: i32,
    attach_type: libbpf_sys::bpf_attach_type,
    options: &libbpf_sys::bpf_link_create_opts,
) -> io::Result<OwnedFd> {
    // SAFETY: `options` says its own size, and it and what it points to live through the call, which only reads them.
    let link = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), target, attach_type, options) };
    made(link)
}

/// What options hold when nothing is asked for.
pub(crate) fn no_options() -> libbpf_sys::bpf_link_create_opts {
    libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    }
}

/// Runs the iterator that was attached as `link`, to its end. Returns what it printed.
///
/// # Errors
/// The kernel's.
pub(crate) fn run_iterator(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    // SAFETY: a system call that takes a descriptor; this one is open for as long as it is borrowed.
    let run = made(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) })?;
    let mut printed = Vec::new();
    File::from(run).read_to_end(&mut printed)?;
    Ok(printed)
}

/// The descriptor that a function of libbpf returned: negative is an error's number.
pub(crate) fn made(descriptor: i32) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: the functions that call this hand over a descriptor that the kernel just made; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
