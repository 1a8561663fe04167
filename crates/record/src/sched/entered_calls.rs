//! System calls of threads that were met on the way into a call or out of it, where no function tells which call it is: as in
//! other stacks from the same instruction of the program. Short calls take most of their time there.

use std::collections::HashMap;

use super::call_stack::{RawStack, RawStacks, StackNumber};
use super::kernel_symbols::is_entry_code;
use super::naming::Naming;
use super::place::{PlaceId, Places};

/// How the functions of system calls begin.
const CALLS: [&str; 3] = ["__x64_sys_", "__do_sys_", "__se_sys_"];

/// By the instruction after which the program goes on: the one call that was seen to be made there, by its function in the kernel.
#[derive(Debug, Default)]
pub(super) struct EnteredCalls(HashMap<PlaceId, Option<String>>);

impl EnteredCalls {
    /// Of all stacks.
    pub fn of(stacks: &RawStacks, places: &Places, naming: &mut Naming) -> Self {
        let mut names: HashMap<PlaceId, String> = HashMap::new();
        let mut calls = Self::default();
        for stack in (1..stacks.len() as StackNumber).filter_map(|number| stacks.get(number)) {
            let Some(&instruction) = stack.user.first() else { continue };
            let outermost = stack.kernel.iter().rev().find_map(|&place| {
                let name = names.entry(place).or_insert_with(|| naming.kernel_function(places.all()[place as usize]));
                (!is_entry_code(name)).then(|| name.clone())
            });
            if let Some(name) = outermost.filter(|name| CALLS.iter().any(|prefix| name.starts_with(prefix))) {
                calls.note(instruction, &name);
            }
        }
        calls
    }

    /// An instruction that makes several calls, as in `syscall`, tells of none.
    fn note(&mut self, instruction: PlaceId, name: &str) {
        let known = self.0.entry(instruction).or_insert_with(|| Some(name.to_owned()));
        if known.as_deref() != Some(name) {
            *known = None;
        }
    }

    /// The call of a stack that has only entry code in the kernel.
    pub fn get(&self, stack: &RawStack<'_>) -> Option<&String> {
        self.0.get(stack.user.first()?)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_stands_for_the_one_call_that_it_makes() {
        let mut calls = EnteredCalls::default();
        for (instruction, name) in
            [(1, "__x64_sys_getppid"), (2, "__x64_sys_read"), (1, "__x64_sys_getppid"), (2, "__x64_sys_write")]
        {
            calls.note(instruction, name);
        }
        let of = |user: &[PlaceId]| calls.get(&RawStack { kernel: &[9], user, flags: 0 }).map(String::as_str);
        assert_eq!(of(&[1, 7]), Some("__x64_sys_getppid"));
        assert_eq!([of(&[2]), of(&[3]), of(&[])], [None; 3]);
    }
}
