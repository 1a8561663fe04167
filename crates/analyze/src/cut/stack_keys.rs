//! What a call stack says: whose code runs, called how, at which line, in which system call.

use std::str::FromStr;

use rustc_hash::FxHashSet;
use transect_profile_model::{ComponentId, Profile, Space, StackFrame, StackId};

use super::keys::{Interner, KeyId, NO_KEY};
use crate::Names;
use crate::criticality::{is_agent, is_c_library, is_runtime_function, public_name};
use crate::names::file_name;

/// Between the frames of a whole stack.
pub(super) const FRAME_SEPARATOR: char = ';';

/// Keys of one stack.
#[derive(Debug, Clone, Default)]
pub(super) struct StackKeys {
    pub component: KeyId,
    pub api: KeyId,
    pub caller: KeyId,
    pub function: KeyId,
    pub line: KeyId,
    pub kernel_function: KeyId,
    pub system_call: KeyId,
    /// The same of a thread that is blocked there: where the kernel's frames were left out since the call says all, it is known by
    /// its wrapper.
    pub blocked_call: KeyId,
    /// All of its frames as one text, root first; only where a cut is by it.
    pub whole: KeyId,
    /// All of its functions, each once.
    pub functions: Vec<KeyId>,
}

/// A function's name in reports.
pub(super) type FunctionName = String;

/// A stack's frames without those of the agent.
#[derive(Default)]
pub(super) struct Frames<'a> {
    /// The program's, root first, each with its depth in the whole stack.
    pub user: Vec<(usize, &'a StackFrame)>,
    /// Names of the kernel's.
    pub kernel: Vec<&'a str>,
}

/// Reads the stacks of a profile.
pub(super) struct StackReader<'a> {
    profile: &'a Profile,
    names: &'a Names,
    agent: Vec<bool>,
    c_library: Vec<bool>,
}

impl<'a> StackReader<'a> {
    pub fn new(profile: &'a Profile, names: &'a Names) -> Self {
        let of = |test: fn(&str) -> bool, path: fn(&str) -> &str| {
            profile.components.iter().map(|component| test(path(&component.path))).collect()
        };
        Self { profile, names, agent: of(is_agent, |path| path), c_library: of(is_c_library, file_name) }
    }

    /// Frames of the stack in this row.
    pub fn frames(&self, stack: StackId) -> Frames<'a> {
        let stack = self.profile.sched.stacks.get(stack as usize);
        let frame = |id: u32| self.profile.sched.frames.get(id as usize);
        let frames = stack.into_iter().flat_map(|stack| stack.frames.iter().enumerate());
        let mut read = Frames::default();
        for (depth, frame) in frames.filter_map(|(depth, &id)| Some((depth, frame(id)?))) {
            match frame.space {
                Space::User if !is(&self.agent, frame.component) => read.user.push((depth, frame)),
                Space::User => {}
                Space::Kernel => read.kernel.push(frame.function.as_str()),
            }
        }
        read
    }

    /// Keys of the stack in this row; `whole`: a cut is by whole stacks.
    pub fn read(&self, stack: usize, whole: bool, keys: &mut Interner) -> StackKeys {
        let Frames { user, kernel } = self.frames(stack as u32);
        let stack = &self.profile.sched.stacks[stack];
        let mut read = StackKeys::default();
        if whole {
            read.whole = keys.id(&self.folded(&user, &kernel));
        }
        let wrapper = user.last().map(|(_, frame)| public_name(&frame.function));
        self.read_kernel(&kernel, wrapper, &mut read, keys);
        read.blocked_call = match kernel.is_empty() {
            true => wrapper.and_then(call_of_wrapper).map_or(NO_KEY, |call| keys.id(call)),
            false => read.system_call,
        };
        let mut seen = FxHashSet::default();
        for (_, frame) in &user {
            read.functions.extend(Some(keys.id(&self.function_name(frame))).filter(|id| seen.insert(*id)));
        }
        // The innermost call by a linkage table; code called by a pointer runs for whoever called it. The program itself does
        // not run for the C library that starts it.
        let main = user.iter().position(|(_, frame)| frame.function == "main").unwrap_or(0);
        for pair in user[main.min(user.len())..].windows(2) {
            let ([(_, caller), (depth, callee)], true) = (pair, !pair[1].1.inlined) else { continue };
            if let (Some(from), Some(to)) = (caller.component, callee.component)
                && from != to
                && stack.is_linked(*depth)
            {
                (read.api, read.caller) = (keys.id(&self.function_name(callee)), keys.id(self.names.get(from)));
            }
        }
        if let Some(leaf) = self.leaf(&user) {
            read.function = keys.id(&self.function_name(leaf));
            read.component = leaf.component.map_or(NO_KEY, |component| keys.id(self.names.get(component)));
            if !leaf.file.is_empty() && leaf.line > 0 {
                read.line = keys.id(&format!("{}:{}", leaf.file, leaf.line));
            }
        }
        read
    }

    /// Frames joined by `;`, those of the kernel marked `_[k]`, as `flamegraph.pl` and inferno read them.
    fn folded(&self, user: &[(usize, &StackFrame)], kernel: &[&str]) -> String {
        let user = user.iter().map(|(_, frame)| self.function_name(frame));
        let kernel = kernel.iter().map(|function| format!("{function}_[k]"));
        user.chain(kernel).map(|name| name.replace(FRAME_SEPARATOR, ":")).collect::<Vec<_>>().join(";")
    }

    /// The frame that a reader would call the function: what the C library does inside of itself is the function that was
    /// called, and what a runtime has inlined belongs to the function that it is inlined into.
    pub fn leaf<'b>(&self, user: &[(usize, &'b StackFrame)]) -> Option<&'b StackFrame> {
        let in_c_library = |frame: &StackFrame| is(&self.c_library, frame.component);
        let mut last = user.len().checked_sub(1)?;
        while last > 0 && in_c_library(user[last].1) && in_c_library(user[last - 1].1) {
            last -= 1;
        }
        while last > 0 && user[last].1.inlined && is_runtime_function(&user[last].1.function) {
            last -= 1;
        }
        Some(user[last].1)
    }

    /// A function's name in reports; code without one is named by its component.
    pub fn function_name(&self, frame: &StackFrame) -> FunctionName {
        match (frame.function.as_str(), frame.component) {
            (name, Some(component)) if name.is_empty() || name.starts_with("0x") => {
                format!("[{}]", self.names.get(component))
            }
            (name, None) if name.is_empty() || name.starts_with("0x") => "[unknown]".to_owned(),
            (name, component) if is(&self.c_library, component) => public_name(name).to_owned(),
            (name, _) => name.to_owned(),
        }
    }

    /// `wrapper` is the program's innermost function: where the compiler left out the function of the system call itself
    /// (`ksys_mmap_pgoff` is the first of `mmap`), it has the call's name.
    fn read_kernel(&self, functions: &[&str], wrapper: Option<&str>, read: &mut StackKeys, keys: &mut Interner) {
        let ([first, ..], [.., innermost]) = (functions, functions) else { return };
        read.kernel_function = keys.id(innermost);
        let is_call = |name: &&str| syscalls::Sysno::from_str(name).is_ok();
        // `mmap64` is `mmap` by its other name.
        let short = || wrapper.and_then(|wrapper| wrapper.strip_suffix("64"));
        let by_wrapper =
            || [wrapper, short()].into_iter().flatten().find(is_call).filter(|_| !first.starts_with("asm_"));
        read.system_call = Some(*first).filter(is_call).or_else(by_wrapper).map_or(NO_KEY, |call| keys.id(call));
    }
}

/// The system call that a function of the C library blocks in.
fn call_of_wrapper(wrapper: &str) -> Option<&str> {
    // Locks, conditions, joins and semaphores end in functions of these names.
    if wrapper.contains("futex") || wrapper.starts_with("lll_lock") || wrapper.starts_with("__lll_lock") {
        return Some("futex");
    }
    let short = wrapper.strip_suffix("64").unwrap_or(wrapper);
    [wrapper, short].into_iter().find(|name| syscalls::Sysno::from_str(name).is_ok())
}

fn is(of: &[bool], component: Option<ComponentId>) -> bool {
    component.is_some_and(|id| of.get(id as usize) == Some(&true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn who_is_blocked_is_in_the_call_of_its_wrapper() {
        let calls = ["fsync", "wait4", "pread64", "__futex_abstimed_wait_common64", "lll_lock_wait", "compress"];
        let expected = [Some("fsync"), Some("wait4"), Some("pread64"), Some("futex"), Some("futex"), None];
        assert_eq!(calls.map(call_of_wrapper), expected);
    }

    #[test]
    fn system_calls_by_the_kernels_name_else_by_the_wrappers() {
        let profile = synthetic::empty();
        let names = Names::new(&profile);
        let reader = StackReader::new(&profile, &names);
        let of = |functions: &[&str], wrapper| {
            let (mut keys, mut read) = (Interner::default(), StackKeys::default());
            reader.read_kernel(functions, wrapper, &mut read, &mut keys);
            let text = |id| keys.text(id).unwrap_or("").to_owned();
            (text(read.system_call), text(read.kernel_function))
        };
        let pair = |call: &str, innermost: &str| (call.to_owned(), innermost.to_owned());
        assert_eq!(of(&["fsync", "do_fsync"], Some("flush")), pair("fsync", "do_fsync"));
        assert_eq!(of(&["ksys_mmap_pgoff", "do_mmap"], Some("mmap")), pair("mmap", "do_mmap"));
        assert_eq!(of(&["vm_mmap_pgoff", "do_mmap"], Some("mmap64")), pair("mmap", "do_mmap"));
        assert_eq!(of(&["read", "copy_page_to_iter", "asm_exc_page_fault"], None), pair("read", "asm_exc_page_fault"));
        assert_eq!(of(&["asm_exc_page_fault", "filemap_fault"], Some("read")), pair("", "filemap_fault"));
        assert_eq!(of(&["exit_mmap"], Some("work")), pair("", "exit_mmap"));
        assert_eq!(of(&[], Some("read")), pair("", ""));
    }
}
