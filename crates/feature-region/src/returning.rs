//! Which functions never return: by name where they are the C and C++ libraries', else by following their control. What
//! stands behind a call of one belongs to something else.

use rustc_hash::FxHashMap as HashMap;

use transect_probe_plan::slot_of_stub;

use crate::body::{Exit, Program, Walk};

/// Functions of libraries that don't return to their caller.
const NEVER: &[&str] = &[
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
    "__assert_fail",
    "__assert_perror_fail",
    "__assert",
    "__assert_rtn",
    "__stack_chk_fail",
    "__fortify_fail",
    "__chk_fail",
    "__libc_fatal",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "__libc_longjmp",
    "__libc_siglongjmp",
    "pthread_exit",
    "thrd_exit",
    "err",
    "errx",
    "verr",
    "verrx",
    "__libc_start_main",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_throw_bad_array_new_length",
    "__cxa_call_unexpected",
    "__cxa_call_terminate",
    "__cxa_pure_virtual",
    "__cxa_deleted_virtual",
    "__clang_call_terminate",
    "_Unwind_Resume",
    "_ZSt9terminatev",
    "_ZSt10unexpectedv",
    "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
    "__ubsan_handle_builtin_unreachable",
    "g_assertion_message",
    "g_assertion_message_expr",
    "rust_panic",
    "__rust_start_panic",
];

/// `std::__throw_out_of_range_fmt` and its like.
const NEVER_PREFIX: &str = "_ZSt";

fn never(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    NEVER.contains(&name)
        || name
            .strip_prefix(NEVER_PREFIX)
            .is_some_and(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("__throw_"))
}

/// Deeper chains of calls are taken to return.
const DEEPEST: u32 = 48;

/// What is known of an object's functions.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    known: HashMap<u64, bool>,
    depth: u32,
}

impl Returning {
    /// True unless a call of the code at `target` is known not to return.
    pub fn returns(&mut self, program: &Program<'_>, target: u64) -> bool {
        if let Some(&known) = self.known.get(&target) {
            return known;
        }
        if let Some(slot) = slot_of_stub(program.object, target) {
            return self.returns_through(program, slot);
        }
        let Some(function) = program.functions.at(target) else { return true };
        let f = &program.functions.functions()[function as usize];
        if std::iter::once(&f.symbol).chain(&f.aliases).any(|name| never(name)) {
            self.known.insert(target, false);
            return false;
        }
        if self.depth >= DEEPEST {
            return true;
        }
        // Functions that call each other are taken to return while they are looked at.
        self.known.insert(target, true);
        self.depth += 1;
        let mut walk = Walk::new(program, program.functions.ranges(function));
        walk.follow(target, self);
        self.depth -= 1;
        let mut leaves = |exit: Exit, vaddr: u64| match exit {
            Exit::Return | Exit::Unknown => true,
            Exit::TailCall => program.jump_target(vaddr).is_none_or(|to| self.returns(program, to)),
        };
        // A jump by a table or a pointer may lead to a return.
        let returns = !walk.indirect.is_empty()
            || walk.body.steps.iter().any(|step| step.exit.is_some_and(|exit| leaves(exit, step.vaddr)));
        self.known.insert(target, returns);
        returns
    }

    /// True unless the function behind a linkage slot is known not to return.
    pub fn returns_through(&mut self, program: &Program<'_>, slot: u64) -> bool {
        if let Some(symbol) = program.linkage.symbol_of_slot(program.object, slot) {
            // The object's own function, unless another one takes its place, which will hardly behave otherwise.
            return !never(symbol.name) && (!symbol.defined || self.returns(program, symbol.address));
        }
        // A static object's slot, or one that the linker bound inside of the object.
        program.pointer_at(slot).is_none_or(|target| self.returns(program, target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        assert!(never("abort") && never("_ZSt20__throw_length_errorPKc") && never("exit@GLIBC_2.2.5"));
        assert!(!never("atexit") && !never("_ZSt4cout") && !never("error"));
    }
}
