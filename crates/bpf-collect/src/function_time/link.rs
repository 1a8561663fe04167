//! Attaches the timer's programs to functions of the kernel by address.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};

use crate::bpf_link;

/// Attaches a program of one of the kinds `kprobe.multi`, `kretprobe.multi` and `kprobe.session` to the function at
/// `address`; the program finds `row` as its cookie.
///
/// # Errors
/// The kernel's: `EINVAL` also where the function can't be traced.
pub(crate) fn attach_multi(program: BorrowedFd<'_>, kind: Multi, address: u64, row: u64) -> io::Result<OwnedFd> {
    let addresses = [address];
    let cookies = [row];
    let mut options = bpf_link::no_options();
    options.__bindgen_anon_1.kprobe_multi = libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_2 {
        flags: if kind == Multi::Return { libbpf_sys::BPF_F_KPROBE_MULTI_RETURN } else { 0 },
        cnt: 1,
        addrs: addresses.as_ptr(),
        cookies: cookies.as_ptr(),
        ..Default::default()
    };
    let attach_type =
        if kind == Multi::Session { libbpf_sys::BPF_TRACE_KPROBE_SESSION } else { libbpf_sys::BPF_TRACE_KPROBE_MULTI };
    bpf_link::create(program, 0, attach_type, &options)
}

/// Which program [`attach_multi`] attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Multi {
    Entry,
    Return,
    Session,
}

/// Number of the kind of performance events that are probes.
///
/// # Errors
/// If this kernel has none.
pub(crate) fn kprobe_type() -> io::Result<u32> {
    let kind = fs::read_to_string("/sys/bus/event_source/devices/kprobe/type")?;
    kind.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Attaches a program of the kind `kprobe` or `kretprobe` to an instruction, or to the return of the function that begins
/// there.
///
/// # Errors
/// The kernel's: `EINVAL` also where no probe may be.
pub(crate) fn attach_kprobe(
    program: BorrowedFd<'_>,
    returns: bool,
    address: u64,
    row: u64,
) -> io::Result<Vec<OwnedFd>> {
    let mut attributes = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: kprobe_type()?,
        config: returns.into(),
        ..Default::default()
    };
    // No name: the address counts.
    attributes.__bindgen_anon_3.kprobe_func = 0;
    attributes.__bindgen_anon_4.kprobe_addr = address;
    // SAFETY: `attributes` is initialised, says its own size and lives through the call, which only reads it.
    let event = unsafe {
        perf_event_open_sys::perf_event_open(
            &raw mut attributes,
            -1,
            0,
            -1,
            std::ffi::c_ulong::from(PERF_FLAG_FD_CLOEXEC),
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor; nobody else has it.
    let event = unsafe { OwnedFd::from_raw_fd(event) };
    let mut options = bpf_link::no_options();
    options.__bindgen_anon_1.perf_event.bpf_cookie = row;
    let link = bpf_link::create(program, event.as_raw_fd(), libbpf_sys::BPF_PERF_EVENT, &options)?;
    // SAFETY: an ioctl without arguments on a descriptor that is open.
    if unsafe { perf_event_open_sys::ioctls::ENABLE(event.as_raw_fd(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(vec![link, event])
}
