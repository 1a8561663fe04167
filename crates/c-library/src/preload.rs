//! Use without linking and without code: `LD_PRELOAD=libtransect.so TRANSECT_PROBES='libz.so.1:deflate*' program`.
//!
//! | variable | meaning |
//! |---|---|
//! | `TRANSECT_PROBES` | what to probe, as for `transect_discover`; without it nothing happens |
//! | `TRANSECT_MODE` | `time` (default) or `count` |
//! | `TRANSECT_OUTPUT` | file for the report at exit (`%p` is the process id), by default standard error |
//! | `TRANSECT_CHILDREN` | `0`: programs that this one starts are not probed |
//!
//! In programs that run with more rights than their user has, the variables are ignored (and the loader ignores
//! `LD_PRELOAD`).

use std::ffi::CStr;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::discovery::{self, SiteRequest};
use crate::handler;
use crate::pattern::Pattern;
use crate::registry;
use crate::session::{self, Options};
use crate::slot::Slot;
use crate::times;

/// What the environment asks for.
struct Request {
    output: Option<String>,
    timed: bool,
    problem: Option<String>,
    failed: usize,
}

static REQUEST: OnceLock<Request> = OnceLock::new();
/// Process that has reported: each reports once.
static REPORTED: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

unsafe extern "C" {
    static mut environ: *mut *mut std::ffi::c_char;
    fn secure_getenv(name: *const std::ffi::c_char) -> *const std::ffi::c_char;
}

fn variable(name: &CStr) -> Option<String> {
    // SAFETY: constructors run before the program changes its environment; the value is copied.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    // SAFETY: a string of the environment.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// The library's constructor.
extern "C" fn begin() {
    let Some(probes) = variable(c"TRANSECT_PROBES").filter(|probes| !probes.trim().is_empty()) else { return };
    let timed = variable(c"TRANSECT_MODE").is_none_or(|mode| mode != "count");
    let output = variable(c"TRANSECT_OUTPUT").filter(|path| !path.is_empty());
    if variable(c"TRANSECT_CHILDREN").is_some_and(|value| value == "0") {
        forget_environment();
    }
    let found = Pattern::parse(&probes).and_then(|pattern| {
        session::init(&Options::default())?;
        let each = move |id| {
            // Sites whose exit can't be observed are counted.
            if timed {
                handler::set(id, handler::TIME);
            }
            SiteRequest { install: true, activate: true, stop: false }
        };
        discovery::discover(pattern, false, true, Box::new(each))
    });
    let (problem, failed) = match found {
        Ok(found) => {
            // Ids that ran out are told in words, sites that can't be installed are counted.
            let full = found.failed.iter().find(|(id, _)| *id == u32::MAX).map(|(_, error)| error.to_string());
            (full, found.failed.len())
        }
        Err(error) => (Some(error.to_string()), 0),
    };
    let _ = REQUEST.set(Request { output, timed, problem, failed });
    crate::fork::on_child(reset_in_child);
    // SAFETY: the function remains loaded: the library is never unloaded.
    unsafe { libc::atexit(report_at_exit) };
}

/// Takes the variables out of the environment that children inherit. (By hand: shells define an `unsetenv` of their
/// own, for variables that they have not read yet.)
fn forget_environment() {
    const OURS: [&[u8]; 5] =
        [b"LD_PRELOAD", b"TRANSECT_PROBES", b"TRANSECT_MODE", b"TRANSECT_OUTPUT", b"TRANSECT_CHILDREN"];
    // SAFETY: in the constructor there is one thread, as a rule; programs that load us later must not change their
    // environment meanwhile. The array ends with a null pointer, its strings with zero.
    unsafe {
        let mut from = environ;
        if from.is_null() {
            return;
        }
        let mut to = from;
        while !(*from).is_null() {
            let entry = CStr::from_ptr(*from).to_bytes();
            let name = entry.split(|&byte| byte == b'=').next().unwrap_or(entry);
            if !OURS.contains(&name) {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = std::ptr::null_mut();
    }
}

/// A child of a fork reports what it did itself.
fn reset_in_child() {
    for id in 0..registry::site_count() {
        if times::count(id).is_some_and(|calls| calls != 0) {
            times::clear(id);
        }
    }
}

extern "C" fn report_at_exit() {
    let pid = std::process::id();
    if REPORTED.swap(pid, Ordering::Relaxed) == pid {
        return;
    }
    // What the report itself does is not in it.
    let _off = crate::arch::HandlersOff::new();
    let Some(request) = REQUEST.get() else { return };
    let text = report(request, pid);
    match &request.output {
        Some(path) => {
            let path = path.replace("%p", &pid.to_string());
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            // A report that can't be written must not disturb the program's end.
            let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
        }
        None => {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// The report: one line for each site that was met, the longest or most frequent first.
fn report(request: &Request, pid: u32) -> String {
    use std::fmt::Write as _;
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut text = format!("transect: {} ({pid})", program.display());
    if let Some(problem) = &request.problem {
        let _ = write!(text, ": {problem}");
    }
    let mut rows: Vec<_> = (0..registry::site_count())
        .filter_map(|id| {
            let times = times::of(id).ok()?;
            (times.calls > 0).then_some((id, times))
        })
        .collect();
    rows.sort_by_key(|(_, times)| std::cmp::Reverse((times.total_ns, times.calls)));
    let _ = write!(text, ": {} sites, {} of them called", registry::site_count(), rows.len());
    if request.failed > 0 {
        let _ = write!(text, ", {} could not be probed", request.failed);
    }
    text.push('\n');
    if request.timed {
        let _ = writeln!(
            text,
            "{:>12} {:>14} {:>10} {:>10} {:>10}  function",
            "calls", "total_ns", "mean_ns", "p99_ns", "max_ns"
        );
    } else {
        let _ = writeln!(text, "{:>12}  function", "calls");
    }
    for (id, t) in rows {
        let Some(info) = registry::slot(id).and_then(Slot::info) else { continue };
        let label = info.label();
        let _ = if request.timed {
            writeln!(
                text,
                "{:>12} {:>14} {:>10} {:>10} {:>10}  {label}",
                t.calls, t.total_ns, t.mean_ns, t.p99_ns, t.max_ns
            )
        } else {
            writeln!(text, "{:>12}  {label}", t.calls)
        };
    }
    text
}
