//! Whether the kernel lets a kind of probes be had at all: tried with a program of two instructions, since loading the
//! timer's own, only to find them refused, takes half a second for each kind.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use transect_profile_model::KernelTiming;

use super::link::{Multi, attach_kprobe, attach_multi, kprobe_type};

const MOVE: u8 = 0xb7; // r0 = 0
const EXIT: u8 = 0x95;

/// Attaches a program that does nothing to a function, for a moment: to the one at the `address` that is asked for once it is
/// certain that the kernel knows such probes, since it takes long to be found. Its type information has one of the `names`.
///
/// # Errors
/// The kernel's, by loading or attaching.
pub(crate) fn trial(timing: KernelTiming, names: &[&str], address: impl Fn() -> io::Result<u64>) -> io::Result<()> {
    // The caller reports what fails, not the library.
    libbpf_rs::set_print(None);
    let kprobe = |kind| load(libbpf_sys::BPF_PROG_TYPE_KPROBE, kind, 0);
    let multi = |program: OwnedFd, kind| {
        // Nowhere: a kernel that has such probes finds fault with that.
        match attach_multi(program.as_fd(), kind, 0, 0) {
            Err(why) if why.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => Err(why),
            _ => attach_multi(program.as_fd(), kind, address()?, 0).map(drop),
        }
    };
    match timing {
        KernelTiming::KprobeSession => multi(kprobe(libbpf_sys::BPF_TRACE_KPROBE_SESSION)?, Multi::Session),
        KernelTiming::KprobeMulti => multi(kprobe(libbpf_sys::BPF_TRACE_KPROBE_MULTI)?, Multi::Entry),
        KernelTiming::Kprobe => {
            kprobe_type()?;
            attach_kprobe(kprobe(0)?.as_fd(), false, address()?, 0).map(drop)
        }
        KernelTiming::Fentry => {
            let id = names.iter().find_map(|name| type_id(name)).ok_or(rustix::io::Errno::SRCH)?;
            let program = load(libbpf_sys::BPF_PROG_TYPE_TRACING, libbpf_sys::BPF_TRACE_FENTRY, id)?;
            attach_trampoline(program.as_fd()).map(drop)
        }
        KernelTiming::Sampling => Ok(()),
    }
}

/// Number of the kernel's function of this name in its type information.
fn type_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the call reads the string, which lives through it, and nothing else of ours.
    let id = unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), libbpf_sys::BPF_TRACE_FENTRY) };
    u32::try_from(id).ok().filter(|id| *id > 0)
}

fn load(
    kind: libbpf_sys::bpf_prog_type,
    attach_type: libbpf_sys::bpf_attach_type,
    attach_btf_id: u32,
) -> io::Result<OwnedFd> {
    let instruction = |code| libbpf_sys::bpf_insn { code, ..Default::default() };
    let program = [instruction(MOVE), instruction(EXIT)];
    let options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        expected_attach_type: attach_type,
        attach_btf_id,
        ..Default::default()
    };
    let length = program.len() as libbpf_sys::size_t;
    // SAFETY: program, options and strings live through the call, which only reads them; `length` is the program's.
    let descriptor = unsafe {
        libbpf_sys::bpf_prog_load(
            kind,
            c"trial".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            length,
            (&raw const options).cast_mut(),
        )
    };
    owned(descriptor)
}

fn attach_trampoline(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that is open, and no name.
    owned(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}

fn owned(descriptor: i32) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: the call that gave it has just made it; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
