//! Functions that are missing from a stack because they ended in a jump to the one that was found above their caller.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use transect_binary_info::{Object, SymbolKind};

/// `call rel32`.
const CALL: u8 = 0xe8;
const CALL_LENGTH: u64 = 5;

/// `jmp rel32`.
const JUMP: u8 = 0xe9;

/// `call *slot(%rip)` and `jmp *slot(%rip)`.
const CALL_SLOT: [u8; 2] = [0xff, 0x15];
const JUMP_SLOT: [u8; 2] = [0xff, 0x25];
const SLOT_LENGTH: u64 = 6;

/// Names by which an object calls others and is called.
#[derive(Debug, Default)]
pub struct Linkage {
    /// Function slots, by address.
    imports: HashMap<u64, String>,
    /// Addresses of its own functions.
    exports: HashMap<String, u64>,
    /// Where its own jumps through slots stand.
    tables: Vec<Range<u64>>,
    /// Functions of other objects that its code jumps to; searched for at the first question.
    jumped: Option<Arc<[String]>>,
}

impl Linkage {
    /// Of an object.
    pub fn of(object: &Object) -> Self {
        let symbol = |index: u32| object.dynamic_symbol(index);
        let name = |index: u32| symbol(index).map(|symbol| symbol.name.to_owned());
        let slots = object.linkage_slots().into_iter();
        let symbols = (0..object.dynamic_symbol_count()).filter_map(symbol);
        let functions = symbols.filter(|symbol| symbol.defined && symbol.kind != SymbolKind::Data);
        Self {
            imports: slots.filter_map(|slot| Some((slot.vaddr, name(slot.symbol)?))).collect(),
            exports: functions.map(|symbol| (symbol.name.to_owned(), symbol.address)).collect(),
            tables: object.linkage_tables(),
            jumped: None,
        }
    }

    /// Functions of other objects that the object's code jumps to by the linkage table: a function that ends so is not on the
    /// stack above them.
    pub fn jumped(&mut self, object: &Object) -> Arc<[String]> {
        if self.jumped.is_none() {
            self.jumped = Some(self.find_jumped(object));
        }
        self.jumped.clone().unwrap_or_default()
    }

    fn find_jumped(&self, object: &Object) -> Arc<[String]> {
        let text = object.text_range();
        let bytes = object.bytes_at(text.start).unwrap_or_default();
        let text_bytes = bytes.get(..(text.end - text.start) as usize).unwrap_or(bytes);
        // Few bytes of a library of 100 MB begin one of the two.
        let slots = memchr::memchr2_iter(JUMP, JUMP_SLOT[0], text_bytes).filter_map(|at| {
            let (code, address) = (bytes.get(at..at + SLOT_LENGTH as usize)?, text.start + at as u64);
            if code[0] == JUMP {
                let target = beside(address + CALL_LENGTH, code[1..].first_chunk()?);
                return if self.is_table(target) { object.linkage_entry(target) } else { None };
            }
            Some(beside(address + SLOT_LENGTH, code.strip_prefix(&JUMP_SLOT)?.first_chunk()?))
        });
        let names: BTreeSet<&String> = slots.filter_map(|slot| self.imports.get(&slot)).collect();
        names.into_iter().cloned().collect()
    }

    /// Whether the instruction is one of the linker's, on the way to another object's function.
    pub fn is_table(&self, vaddr: u64) -> bool {
        self.tables.iter().any(|table| table.contains(&vaddr))
    }

    /// Where a function of that name is.
    pub fn export(&self, name: &str) -> Option<u64> {
        self.exports.get(name).copied()
    }

    /// The function of another object that the call before a return address names.
    pub fn called(&self, object: &Object, return_address: u64) -> Option<&str> {
        let slot = match direct_target(object, return_address) {
            Some(target) => object.linkage_entry(target)?,
            None => {
                let code = object.bytes_from(return_address.checked_sub(SLOT_LENGTH)?)?;
                beside(return_address, code.strip_prefix(&CALL_SLOT)?.first_chunk()?)
            }
        };
        self.imports.get(&slot).map(String::as_str)
    }
}

/// An address by its distance from the instruction's end.
fn beside(next: u64, distance: &[u8; 4]) -> u64 {
    next.wrapping_add_signed(i32::from_le_bytes(*distance).into())
}

/// Where the direct call before a return address goes. Calls through pointers have no target here, those through linkage tables
/// have it there: [`Linkage::called`].
pub fn direct_target(object: &Object, return_address: u64) -> Option<u64> {
    let call = return_address.checked_sub(CALL_LENGTH)?;
    let [CALL, a, b, c, d] = *object.bytes_from(call)?.first_chunk::<5>()? else { return None };
    Some(beside(return_address, &[a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The file says where each function is, and the disassembly which call returns where.
    #[test]
    fn the_callee_of_a_direct_call_is_read_from_the_code() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.s"), folder.path().join("a.o"));
        let text = ".globl f\n.type f,@function\nf: jmp g\n.size f,.-f\n.globl g\n.type g,@function\ng: ret\n.size g,.-g\n\
                    .globl _start\n.type _start,@function\n_start: call f\ncall *%rax\nret\n.size _start,.-_start\n";
        std::fs::write(&source, text).unwrap();
        let built = Command::new("cc").args(["-nostdlib", "-static", "-o"]).args([&program, &source]).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("NOT RUN: no C compiler");
            return;
        }
        let object = Object::open(&program).unwrap();
        let start = object.entry_point();
        let f = direct_target(&object, start + 5).expect("a function");
        assert_eq!(object.symbol_at(f).unwrap().name, "f");
        assert_eq!(direct_target(&object, start + 7), None, "through a pointer");
    }

    /// Both ways in which compilers call functions of other objects.
    #[test]
    fn the_callee_of_a_call_by_linkage_table_is_read_from_its_slot() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("b.c"), folder.path().join("b"));
        let text = "#include <stdlib.h>\n__attribute__((noinline)) int f(const char *s) { return atoi(s) + 1; }\n\
                    int main(int n, char **v) { return f(v[n - 1]) + (int)atol(v[0]); }\n";
        std::fs::write(&source, text).unwrap();
        for option in ["-fplt", "-fno-plt"] {
            let built = Command::new("cc").args(["-O0", option, "-o"]).args([&program, &source]).status();
            if !built.is_ok_and(|status| status.success()) {
                eprintln!("NOT RUN: no C compiler");
                return;
            }
            let object = Object::open(&program).unwrap();
            let linkage = Linkage::of(&object);
            let range = object.address_range();
            let found: Vec<&str> = range.filter_map(|address| linkage.called(&object, address)).collect();
            for name in ["atoi", "atol"] {
                assert!(found.contains(&name), "{option}: {found:?}");
            }
            assert_eq!(linkage.export("atoi"), None);
        }
    }

    /// The compiler ends a function in a jump where optimizing it may.
    #[test]
    fn functions_of_others_that_code_jumps_to_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("c.c"), folder.path().join("c"));
        let text = "#include <stdlib.h>\n__attribute__((noinline)) int f(const char *s) { return atoi(s); }\n\
                    int main(int n, char **v) { int (*volatile g)(const char *) = f; return g(v[n - 1]) + (int)atol(v[0]); }\n";
        std::fs::write(&source, text).unwrap();
        for options in [["-fplt", "-s"], ["-fcf-protection=full", "-s"]] {
            let built = Command::new("cc").arg("-O2").args(options).arg("-o").args([&program, &source]).status();
            if !built.is_ok_and(|status| status.success()) {
                eprintln!("NOT RUN: no C compiler");
                return;
            }
            let object = Object::open(&program).unwrap();
            let jumped = Linkage::of(&object).jumped(&object);
            let jumped: Vec<&str> = jumped.iter().map(String::as_str).collect();
            assert!(jumped.iter().any(|name| ["strtol", "atoi"].contains(name)), "{options:?}: {jumped:?}");
            assert!(!jumped.contains(&"atol"), "{options:?}: {jumped:?}");
        }
    }
}
