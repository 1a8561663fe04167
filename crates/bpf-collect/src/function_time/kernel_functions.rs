//! Functions of the kernel: where their code is.

use std::fs;
use std::io;

/// The kernel's functions by address, its modules' included.
#[derive(Debug, Clone, Default)]
pub struct KernelFunctions {
    /// Begin, and where the name begins in `names`.
    starts: Vec<(u64, u32)>,
    /// Names, each ended by a line feed.
    names: String,
}

impl KernelFunctions {
    /// Reads them of `/proc/kallsyms`.
    ///
    /// # Errors
    /// If it can't be read, or hides its addresses from this process.
    pub fn read() -> io::Result<Self> {
        let functions = Self::parse(&fs::read_to_string("/proc/kallsyms")?);
        if functions.starts.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "/proc/kallsyms hides the kernel's addresses (kernel.kptr_restrict; needs root or cap_syslog)",
            ));
        }
        Ok(functions)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut functions = Self::default();
        for line in text.lines() {
            // address, type, name, [module]; BPF programs are listed as a module's.
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") || words.next() == Some("[bpf]") {
                continue;
            }
            functions.starts.push((address, functions.names.len() as u32));
            functions.names.push_str(name);
            functions.names.push('\n');
        }
        functions.starts.sort_by_key(|(address, _)| *address);
        functions
    }

    fn name_at(&self, offset: u32) -> &str {
        self.names.get(offset as usize..).and_then(|rest| rest.lines().next()).unwrap_or_default()
    }

    /// Name and code, begin and end, of the function that holds an address.
    pub fn at(&self, address: u64) -> Option<(&str, u64, u64)> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (begin, name) = *self.starts.get(after.checked_sub(1)?)?;
        let end = self.starts.get(after).map_or(begin + 4096, |(next, _)| *next);
        Some((self.name_at(name), begin, end))
    }

    /// All names of the function that begins at an address.
    pub fn names(&self, address: u64) -> impl Iterator<Item = &str> {
        let first = self.starts.partition_point(|(start, _)| *start < address);
        let same = self.starts[first..].iter().take_while(move |(start, _)| *start == address);
        same.map(|(_, name)| self.name_at(*name))
    }

    /// Begins of all functions of a name.
    pub fn named(&self, name: &str) -> Vec<u64> {
        let wanted = format!("\n{name}\n");
        let mut found = Vec::new();
        let mut from = 0;
        if self.names.starts_with(&wanted[1..]) {
            found.push(0);
        }
        while let Some(at) = self.names.get(from..).and_then(|rest| rest.find(&wanted)) {
            found.push(from + at + 1);
            from += at + 1;
        }
        let begin =
            |offset: &usize| self.starts.iter().find(|(_, name)| *name as usize == *offset).map(|(begin, _)| *begin);
        found.iter().filter_map(begin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_end_where_the_next_begins() {
        let text = "ffffffff81000000 T first\nffffffff81000100 t second\nffffffff81000080 D data\nffffffff81000180 t first\n\
                    ffffffffc0000000 t of_a_module\t[module]\nffffffffc0001000 t bpf_prog_1\t[bpf]\n0 t hidden\n";
        let functions = KernelFunctions::parse(text);
        assert_eq!(functions.at(0xffff_ffff_8100_0010), Some(("first", 0xffff_ffff_8100_0000, 0xffff_ffff_8100_0100)));
        assert_eq!(functions.at(0xffff_ffff_8100_0100).map(|found| found.0), Some("second"));
        assert_eq!(functions.at(1), None);
        assert_eq!(functions.names(0xffff_ffff_8100_0100).collect::<Vec<_>>(), ["second"]);
        assert_eq!(functions.named("first"), [0xffff_ffff_8100_0000, 0xffff_ffff_8100_0180]);
        assert_eq!(functions.named("of_a_module"), [0xffff_ffff_c000_0000]);
        assert!(functions.named("hidden").is_empty() && functions.named("irst").is_empty());
    }
}
