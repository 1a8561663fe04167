//! The objects of this process, as the loader lists them.

use std::ffi::CStr;
use std::path::PathBuf;

/// One object at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    /// Path of its file.
    pub path: PathBuf,
    /// Added to a virtual address of the file, gives its address here.
    pub bias: u64,
    /// First address of its segments.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Executable segments: address and address after the last.
    pub code: Vec<(u64, u64)>,
    /// The program itself.
    pub executable: bool,
    /// Address of the program headers in memory: tells objects apart that followed each other at one place.
    pub headers: u64,
}

impl LoadedObject {
    /// The path as text.
    pub fn path_text(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// The file name.
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(|| self.path_text(), |name| name.to_string_lossy().into_owned())
    }
}

/// All objects that have a file (the vdso has none).
pub fn all() -> Vec<LoadedObject> {
    let mut found: Vec<LoadedObject> = Vec::new();
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _size: usize, data: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `data` is the vector below; `info` is the loader's, valid during the callback.
        let (found, info) = unsafe { (&mut *data.cast::<Vec<LoadedObject>>(), &*info) };
        // SAFETY: the loader's array of program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let bias = info.dlpi_addr;
        let name = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: a string of the loader's.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        // The first entry is the program.
        let executable = found.is_empty();
        let path = if executable {
            std::fs::read_link("/proc/self/exe").unwrap_or_else(|_| PathBuf::from(name.to_string_lossy().into_owned()))
        } else {
            PathBuf::from(std::ffi::OsStr::new(&*name.to_string_lossy()))
        };
        let mut object = LoadedObject {
            path,
            bias,
            start: u64::MAX,
            end: 0,
            code: Vec::new(),
            executable,
            headers: info.dlpi_phdr as u64,
        };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = bias.wrapping_add(header.p_vaddr);
            let end = start.wrapping_add(header.p_memsz);
            object.start = object.start.min(start);
            object.end = object.end.max(end);
            if header.p_flags & libc::PF_X != 0 {
                object.code.push((start, end));
            }
        }
        found.push(object);
        0
    }
    // SAFETY: the callback matches, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found.retain(|object| object.path.is_absolute());
    found
}
