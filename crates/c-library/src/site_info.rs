//! Metadata of sites and objects. It is made once and lives as long as the program: C programs hold its strings, and
//! probes may fire at any time.

use std::ffi::CString;
use std::sync::OnceLock;

use transect_probe_plan::Site;

use crate::loaded_object::LoadedObject;

/// An object that sites belong to.
#[derive(Debug)]
pub struct ObjectInfo {
    /// Its place in this process.
    pub loaded: LoadedObject,
    /// Path, for C.
    pub path: CString,
    /// File name, for C.
    pub component: CString,
}

/// A site.
#[derive(Debug)]
pub struct SiteInfo {
    /// Where it stands.
    pub address: u64,
    /// Its function's entry.
    pub function_address: u64,
    /// Bytes of the function.
    pub function_size: u64,
    /// Demangled name.
    pub function: CString,
    /// As in the symbol table, or empty.
    pub symbol: CString,
    /// `provider:name` of a note, or empty.
    pub name: CString,
    /// Its object.
    pub object: &'static ObjectInfo,
    /// As planned.
    pub site: Site,
    /// Source file and line, once looked for.
    pub source: OnceLock<Option<(CString, u32)>>,
}

/// Text for C; a zero byte ends it.
pub fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default()
}

impl SiteInfo {
    /// Name for messages: `function in component`.
    pub fn label(&self) -> String {
        format!("{} in {}", self.function.to_string_lossy(), self.object.component.to_string_lossy())
    }

    /// Bytes of code that the site occupies.
    pub fn original(&self) -> &[u8] {
        self.site.window.original()
    }
}
