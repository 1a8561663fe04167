//! Loading programs of an object that libbpf has prepared.
//!
//! libbpf reads all of the kernel's types for each object with programs that are attached by their types, 150,000 of them, and
//! loads an object's programs one after the other. Here an object is prepared without those types, and its programs are
//! loaded side by side: the kernel verifies each by itself.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{AsRawLibbpf, OpenObject, OpenProgramMut, ProgramType};

use crate::bpf_link;
use crate::error::CollectError;
use crate::kernel_types::KernelTypes;

/// What a program runs at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    /// A tracepoint whose arguments have types; which one is said by the number of its type.
    Tracepoint(u32),
    /// An iterator over objects of the kernel, likewise.
    Iterator(u32),
    /// An event of `perf_event_open(2)`.
    Event,
}

/// Has libbpf make the object's maps and relocate those of its programs that are `wanted`, without reading the kernel's types for
/// what they are attached to. Nothing is left to load for libbpf: the programs are returned.
///
/// # Errors
/// If a map can't be made, the object does not suit this kernel, or the kernel lacks what a program is attached to.
pub(crate) fn prepare(
    object: &mut OpenObject,
    wanted: impl Fn(&OpenProgramMut<'_>) -> bool,
    types: &KernelTypes,
) -> Result<Vec<PreparedProgram>, CollectError> {
    for mut program in object.progs_mut() {
        program.set_autoload(wanted(&program));
        // For programs of the kind "tracing" the library reads the types. As what it prepares them makes no difference.
        if program.prog_type() == ProgramType::Tracing {
            program.set_prog_type(ProgramType::RawTracepoint);
        }
    }
    // SAFETY: the object is open, and borrowed mutably for this call.
    let outcome = unsafe { libbpf_sys::bpf_object__prepare(object.as_libbpf_object().as_ptr()) };
    if outcome < 0 {
        return Err(CollectError::Load(io::Error::from_raw_os_error(-outcome).into()));
    }
    // SAFETY: the object is open and borrowed; both functions only read.
    let own_types = unsafe { libbpf_sys::btf__fd(libbpf_sys::bpf_object__btf(object.as_libbpf_object().as_ptr())) };
    let mut prepared = Vec::new();
    for mut program in object.progs_mut().filter(wanted) {
        let section = program.section().to_string_lossy().into_owned();
        let name = section.rsplit_once('/').map_or(section.as_str(), |(_, name)| name).to_owned();
        let copy = PreparedProgram::copy(&program, &section, own_types, types);
        prepared.push(copy.map_err(|why| CollectError::Attach { name, source: why.into() })?);
        program.set_autoload(false);
    }
    Ok(prepared)
}

/// A program that only has to be loaded.
#[derive(Debug)]
pub(crate) struct PreparedProgram {
    name: CString,
    /// What it is attached to, in words.
    point: String,
    hook: Hook,
    instructions: Vec<libbpf_sys::bpf_insn>,
    /// Its functions, as the object's types describe them.
    functions: Vec<libbpf_sys::bpf_func_info>,
    /// Descriptor of those types, the object's.
    own_types: i32,
}

impl PreparedProgram {
    /// Copies a program out of an object that is prepared.
    fn copy(program: &OpenProgramMut<'_>, section: &str, own_types: i32, types: &KernelTypes) -> io::Result<Self> {
        let hook = match section.split_once('/') {
            Some(("tp_btf", name)) => Hook::Tracepoint(types.tracepoint(name).ok_or(io::ErrorKind::NotFound)?),
            Some(("iter", name)) => Hook::Iterator(types.iterator(name).ok_or(io::ErrorKind::NotFound)?),
            _ => Hook::Event,
        };
        let point = section.replace("tp_btf/", "");
        let raw = program.as_libbpf_object().as_ptr();
        // SAFETY: the object that the program is part of is borrowed, so that both live and don't change. libbpf says how many
        // of each there are; where it has none the pointer is null, or an error as a pointer, and the number 0.
        let (instructions, functions) = unsafe {
            let copy_of = |count: usize, from: *const _| {
                if count == 0 { Vec::new() } else { std::slice::from_raw_parts(from, count).to_vec() }
            };
            let instructions = std::slice::from_raw_parts(
                libbpf_sys::bpf_program__insns(raw),
                libbpf_sys::bpf_program__insn_cnt(raw) as usize,
            );
            (
                instructions.to_vec(),
                copy_of(libbpf_sys::bpf_program__func_info_cnt(raw) as usize, libbpf_sys::bpf_program__func_info(raw)),
            )
        };
        let name = CString::new(program.name().to_string_lossy().as_bytes())?;
        Ok(Self { name, point, hook, instructions, functions, own_types })
    }

    /// Its function's name.
    pub fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// How much there is to verify, roughly: instructions.
    pub fn size(&self) -> usize {
        self.instructions.len()
    }

    /// Has the kernel verify it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(&self) -> Result<LoadedProgram, CollectError> {
        let (kind, attach_type, attach_to) = match self.hook {
            Hook::Tracepoint(id) => (libbpf_sys::BPF_PROG_TYPE_TRACING, libbpf_sys::BPF_TRACE_RAW_TP, id),
            Hook::Iterator(id) => (libbpf_sys::BPF_PROG_TYPE_TRACING, libbpf_sys::BPF_TRACE_ITER, id),
            Hook::Event => (libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_PERF_EVENT, 0),
        };
        let mut options = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
            expected_attach_type: if self.hook == Hook::Event { 0 } else { attach_type },
            attach_btf_id: attach_to,
            ..Default::default()
        };
        if self.own_types >= 0 && !self.functions.is_empty() {
            options.prog_btf_fd = self.own_types as u32;
            options.func_info = self.functions.as_ptr().cast();
            options.func_info_cnt = self.functions.len() as u32;
            options.func_info_rec_size = size_of::<libbpf_sys::bpf_func_info>() as u32;
        }
        // SAFETY: `options` says its own size; it, what it points to, the names and the instructions live through the call, which
        // only reads them.
        let descriptor = unsafe {
            libbpf_sys::bpf_prog_load(
                kind,
                self.name.as_ptr(),
                c"Dual MIT/GPL".as_ptr(),
                self.instructions.as_ptr(),
                self.instructions.len() as libbpf_sys::size_t,
                &raw mut options,
            )
        };
        let descriptor = bpf_link::made(descriptor).map_err(|why| CollectError::Load(why.into()))?;
        let name = self.name.to_string_lossy().into_owned();
        Ok(LoadedProgram { name, point: self.point.clone(), descriptor, attach_type })
    }
}

/// The number of the type that stands for what programs are attached to, as libbpf finds it: it reads all types for that. None if
/// there is none.
pub(crate) fn find_attached_to(name: &str, attach_type: libbpf_sys::bpf_attach_type) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name lives through the call, which only reads it.
    let found = unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), attach_type) };
    u32::try_from(found).ok()
}

/// A program that the kernel has taken. It is gone when this and all its links are.
#[derive(Debug)]
pub(crate) struct LoadedProgram {
    name: String,
    point: String,
    descriptor: OwnedFd,
    attach_type: libbpf_sys::bpf_attach_type,
}

impl LoadedProgram {
    /// Its function's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it from now on at what it was loaded for, until the link is dropped.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach(&self) -> Result<OwnedFd, CollectError> {
        self.link(0)
    }

    /// Runs it from now on whenever the event comes, until the link is dropped. The link holds the event, too.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach_to_event(&self, event: &OwnedFd) -> Result<OwnedFd, CollectError> {
        let link = self.link(event.as_raw_fd())?;
        // SAFETY: an ioctl without arguments on a descriptor that is open.
        if unsafe { perf_event_open_sys::ioctls::ENABLE(event.as_raw_fd(), 0) } < 0 {
            return Err(self.refused(io::Error::last_os_error()));
        }
        Ok(link)
    }

    fn link(&self, target: i32) -> Result<OwnedFd, CollectError> {
        let options = bpf_link::no_options();
        bpf_link::create(self.descriptor.as_fd(), target, self.attach_type, &options).map_err(|why| self.refused(why))
    }

    fn refused(&self, why: io::Error) -> CollectError {
        CollectError::Attach { name: self.point.clone(), source: why.into() }
    }
}
