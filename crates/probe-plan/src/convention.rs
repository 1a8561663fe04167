//! Functions whose calls can't be paired, or that nothing may come before.

use transect_binary_info::{FrameStart, Object};

use crate::callee::Callees;
use crate::function_table::Details;
use crate::{ExitSupport, Function, FunctionTable, Refusal, prologue};

/// Entered in ways of their own: registers that no convention knows, no return address, or by the kernel. Handlers
/// themselves come through some.
const FOREIGN: &[&str] = &[
    "_start",
    "_dl_start",
    "_dl_start_user",
    "_dl_relocate_static_pie",
    "_rt_sigreturn",
    "__restore_rt",
    "__restore",
    "__tls_get_addr",
    "__tls_get_addr_slow",
    "___tls_get_addr",
    "__tlsdesc_static",
    "__tlsdesc_dynamic",
    "mcount",
    "_mcount",
    "__mcount",
    "__fentry__",
    "__cyg_profile_func_enter",
    "__cyg_profile_func_exit",
    "__morestack",
    "__morestack_non_split",
    "__chkstk",
    "___chkstk_ms",
    "__unmapself",
    "__cp_begin",
    "__cp_end",
    "__cp_cancel",
    "__syscall_cancel_arch",
    "__syscall_cp_asm",
    "__syscall_cancel_arch_start",
    "__rust_probestack",
];

/// The same, by the beginning of their names.
const FOREIGN_PREFIXES: &[&str] = &[
    "_dl_runtime_resolve",
    "_dl_runtime_profile",
    "_dl_tlsdesc_",
    "__x86_indirect_thunk",
    "__x86_return_thunk",
    "__llvm_retpoline_",
    "__llvm_lvi_thunk_",
    "__x86.get_pc_thunk",
    "_SafeFetch",
    "SafeFetch",
    "__restore_rt",
    "__xray_",
    "__asan_",
    "__tsan_",
    "__msan_",
    "__hwasan_",
    "__sanitizer_",
    "__ubsan_",
    "__dfsan_",
    "__lsan_",
    "__rseq_",
    "__cfi_",
    "transect_",
];

/// They return twice, never, by another way than they came, or look at who called them.
const RETURN_ADDRESS: &[&str] = &[
    "setjmp",
    "_setjmp",
    "__setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "__sigsetjmp_cancel",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp",
    "__longjmp_chk",
    "__libc_longjmp",
    "__libc_siglongjmp",
    "_longjmp_unwind",
    "vfork",
    "__vfork",
    "__libc_vfork",
    "__GI___vfork",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "__clone_internal",
    "syscall",
    "getcontext",
    "__getcontext",
    "setcontext",
    "__setcontext",
    "swapcontext",
    "__swapcontext",
    "__start_context",
    "makecontext",
    "__makecontext",
    "unw_getcontext",
    "_Ux86_64_getcontext",
    "__unw_getcontext",
    "unw_init_local",
    "dlopen",
    "__dlopen",
    "dlmopen",
    "__dlmopen",
    "dlsym",
    "__dlsym",
    "dlvsym",
    "__dlvsym",
    "__libc_dlsym",
    "__libc_dlopen_mode",
    "_dl_open",
    "_dl_sym",
    "_dl_vsym",
    "exit",
    "_exit",
    "_Exit",
    "__GI_exit",
    "__GI__exit",
    "quick_exit",
    "abort",
    "__GI_abort",
    "pthread_exit",
    "__pthread_exit",
    "thrd_exit",
    "__pthread_unwind",
    "__pthread_unwind_next",
    "___pthread_unwind_next",
    "__libc_start_call_main",
    "__assert_fail",
    "__assert",
    "__assert_fail_base",
    "__assert_perror_fail",
    "__stack_chk_fail",
    "__stack_chk_fail_local",
    "__fortify_fail",
    "__chk_fail",
    "__libc_fatal",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_rethrow_primary_exception",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_throw_bad_array_new_length",
    "__cxa_call_unexpected",
    "__cxa_call_terminate",
    "__cxa_pure_virtual",
    "__cxa_deleted_virtual",
    "__clang_call_terminate",
    "backtrace",
    "__backtrace",
    "_dl_signal_error",
    "_dl_signal_exception",
    "_dl_fatal_printf",
    "__libc_message",
    "_Py_FatalErrorFormat",
    "rust_begin_unwind",
    "rust_panic",
    "caml_call_gc",
    "caml_c_call",
    "caml_start_program",
    "caml_raise_exn",
    "caml_raise_exception",
    "caml_callback_asm",
    "caml_callback2_asm",
    "caml_callback3_asm",
    "caml_alloc1",
    "caml_alloc2",
    "caml_alloc3",
    "caml_allocN",
    "caml_runstack",
    "caml_perform",
    "caml_resume",
    "caml_reperform",
    "ffi_call_unix64",
    "ffi_closure_unix64",
];

/// The same, by the beginning of their names.
const RETURN_ADDRESS_PREFIXES: &[&str] = &["_Unwind_", "_UL", "_Ux86_64_step", "unw_step"];

/// C++ functions of runtimes that find return addresses on the stack by themselves: the generated code that calls them
/// left none elsewhere.
const WALKED: &[&str] = &["v8::internal::Runtime_", "v8::internal::Builtin_"];

/// Virtual machines whose generated code calls functions of theirs, any of them, and leaves the address that it goes on at nowhere
/// but on the stack; by the beginning of the library's name. HotSpot reads it at each safepoint (`frame::sender`), .NET and Mono
/// while they look for a caller, JavaScriptCore to find the place of a call.
const WALKERS: &[&str] =
    &["libjvm.so", "libcoreclr.so", "libmonosgen-", "libmono-", "libjavascriptcoregtk-", "libart.so"];

/// What is peculiar to an object.
#[derive(Debug, Default)]
pub(crate) struct Conventions {
    go: bool,
    haskell: bool,
    /// A virtual machine that walks its own frames.
    walker: bool,
    v8: bool,
    /// The unwinder is inside of the object and nobody knows where: no return address may be replaced.
    hidden_unwinder: bool,
    /// Every function passes its return address to `__cyg_profile_func_enter`, which is no use of it.
    instrumented: bool,
}

impl Conventions {
    pub(crate) fn of(object: &Object, table: &FunctionTable) -> Self {
        let sections = object.section_list();
        let named = |wanted: &str| sections.iter().any(|s| s.name == wanted);
        let file = object.path().file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let has = |test: &dyn Fn(&str) -> bool| table.functions().iter().any(|f| test(&f.symbol));
        Self {
            go: named(".gopclntab") || named(".go.buildinfo") || named(".note.go.buildid"),
            haskell: named(".debug-ghc-link-info")
                || has(&|symbol| symbol == "stg_upd_frame_info" || symbol == "hs_main"),
            walker: object.soname().is_some_and(|name| begins_with(name, WALKERS)) || begins_with(&file, WALKERS),
            v8: has(&|symbol| symbol.starts_with("Builtins_")),
            hidden_unwinder: has_hidden_unwinder(object, table),
            instrumented: Callees::of(object, table).has_any(&["__cyg_profile_func_enter"]),
        }
    }

    /// Whether calls of the function can be paired.
    pub(crate) fn exit(&self, function: &Function, details: &Details) -> Result<ExitSupport, Refusal> {
        if matches!(details.frame, Some(FrameStart::Inside | FrameStart::Outermost | FrameStart::Signal)) {
            return Err(Refusal::ForeignConvention);
        }
        let symbols = || std::iter::once(&function.symbol).chain(&function.aliases).map(|name| undecorated(name));
        if symbols().any(|name| FOREIGN.contains(&name) || begins_with(name, FOREIGN_PREFIXES)) {
            return Err(Refusal::ForeignConvention);
        }
        if symbols().any(|name| RETURN_ADDRESS.contains(&name) || begins_with(name, RETURN_ADDRESS_PREFIXES)) {
            return Ok(ExitSupport::ReturnAddressUsed);
        }
        // A Go program's C functions have frame descriptions, its own have not.
        let managed = self.walker
            || self.go && details.frame.is_none()
            || self.haskell && symbols().any(is_haskell)
            || self.v8 && function.symbol.starts_with("Builtins_")
            || symbols().any(is_ocaml);
        if managed {
            return Ok(ExitSupport::ManagedStack);
        }
        let walked = self.hidden_unwinder
            || self.v8
                && (begins_with(&function.name, WALKED)
                    || function.name.contains("v8::FunctionCallbackInfo")
                    || function.name.contains("v8::PropertyCallbackInfo"));
        Ok(if walked { ExitSupport::ReturnAddressUsed } else { ExitSupport::PairedCall })
    }

    /// True if the function at `vaddr` uses its return address in its first instructions, `code`.
    pub(crate) fn uses_return_address(&self, code: &[u8], vaddr: u64, size: u64) -> bool {
        prologue::uses_return_address(code, vaddr, size, self.instrumented)
    }

    /// True if the runtime's functions re-enter themselves at their first instruction once their stack has grown.
    pub(crate) fn restarts(&self) -> bool {
        self.go
    }
}

/// True if the object's code is unwound, by an unwinder that is linked into it and has lost its name: unwinders are
/// told to expect replaced return addresses at their own entries.
fn has_hidden_unwinder(object: &Object, table: &FunctionTable) -> bool {
    /// A static C library alone has some, for the cancellation of threads.
    const MANY: usize = 32;
    let with_exceptions = |index: &u32| table.details(*index).exceptions.is_some();
    if (0..table.functions().len() as u32).filter(with_exceptions).count() < MANY {
        return false;
    }
    let tells = |name: &str| {
        name.starts_with("_Unwind_") || name.starts_with("__cxa_") && name != "__cxa_finalize" && name != "__cxa_atexit"
    };
    let imported = (0..object.dynamic_symbol_count()).filter_map(|i| object.dynamic_symbol(i)).any(|s| tells(s.name));
    let defined = || table.functions().iter().any(|f| tells(&f.symbol));
    // The C library loads its unwinder when it needs it.
    !imported && !defined() && !object.soname().is_some_and(|name| name.starts_with("libc.so"))
}

/// The name without what compilers and the C library add for versions and clones of it.
fn undecorated(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

fn begins_with(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// `base_GHCziBase_map_info`, `stg_ap_v_fast`.
fn is_haskell(symbol: &str) -> bool {
    symbol.starts_with("stg_")
        || ["_info", "_entry", "_ret", "_slow", "_fast", "_alt", "_dflt"].iter().any(|end| symbol.ends_with(end))
}

/// `camlStdlib__List__map_123`, `camlStdlib.map_123`.
fn is_ocaml(symbol: &str) -> bool {
    symbol.strip_prefix("caml").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(symbol: &str) -> Result<ExitSupport, Refusal> {
        let conventions = Conventions::default();
        let function = Function { symbol: symbol.to_owned(), ..Function::default() };
        conventions.exit(&function, &Details { frame: Some(FrameStart::Called), ..Details::default() })
    }

    #[test]
    fn names_tell() {
        assert_eq!(plain("deflate"), Ok(ExitSupport::PairedCall));
        assert_eq!(plain("__sigsetjmp"), Ok(ExitSupport::ReturnAddressUsed));
        assert_eq!(plain("_Unwind_RaiseException"), Ok(ExitSupport::ReturnAddressUsed));
        assert_eq!(plain("_dl_runtime_resolve_xsavec"), Err(Refusal::ForeignConvention));
        assert_eq!(plain("camlStdlib__List__map_285"), Ok(ExitSupport::ManagedStack));
        assert_eq!(plain("caml_alloc"), Ok(ExitSupport::PairedCall));
        assert_eq!(plain("camlfoo"), Ok(ExitSupport::PairedCall));
    }

    #[test]
    fn nothing_of_a_virtual_machine_that_walks_its_frames_is_paired() {
        let conventions = Conventions { walker: true, ..Conventions::default() };
        let function = Function { symbol: "JVM_CurrentTimeMillis".to_owned(), ..Function::default() };
        assert_eq!(conventions.exit(&function, &Details::default()), Ok(ExitSupport::ManagedStack));
        assert!(begins_with("libjvm.so", WALKERS) && !begins_with("libjvmti_agent.so", WALKERS));
    }

    #[test]
    fn an_alias_tells_as_much() {
        let conventions = Conventions::default();
        let function = Function {
            symbol: "fork2".to_owned(),
            aliases: vec!["vfork@GLIBC_2.2.5".to_owned()],
            ..Function::default()
        };
        assert_eq!(conventions.exit(&function, &Details::default()), Ok(ExitSupport::ReturnAddressUsed));
    }
}
