//! Linker map files: which input file each stretch of the output came from. GNU ld and gold, lld, mold.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use transect_binary_info::{LastLink, open_plain};

use super::error::StaticError;

/// One input section in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Object file; a member of a library without the library.
    pub file: String,
    /// The library it is a member of.
    pub archive: Option<String>,
    /// Unrelocated address.
    pub vaddr: u64,
    /// Bytes.
    pub size: u64,
}

/// All input sections.
#[derive(Debug, Default)]
pub struct LinkMap {
    inputs: Vec<Input>,
}

/// The most that is read of a map file; those of the largest programs have some hundred MiB.
const LIMIT: u64 = 1 << 30;

/// Reads a map file.
pub fn read(path: &Path) -> Result<LinkMap, StaticError> {
    let mut bytes = Vec::new();
    open_plain(path, LastLink::Follow)
        .and_then(|file| file.take(LIMIT).read_to_end(&mut bytes))
        .map_err(|source| StaticError::Read { path: path.to_owned(), source })?;
    let map = parse(&String::from_utf8_lossy(&bytes));
    if map.inputs.is_empty() {
        let problem = "not a linker's map file (made with -Wl,-Map=FILE)".to_owned();
        return Err(StaticError::Wrong { path: path.to_owned(), problem });
    }
    Ok(map)
}

impl LinkMap {
    /// Address ranges of the inputs that `wanted` names.
    pub fn ranges(&self, wanted: impl Fn(&Input) -> bool) -> Vec<(u64, u64)> {
        self.inputs.iter().filter(|i| wanted(i)).map(|i| (i.vaddr, i.vaddr.saturating_add(i.size))).collect()
    }

    /// Libraries, each once.
    pub fn archives(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().filter_map(|i| i.archive.as_deref()).collect::<BTreeSet<_>>().into_iter()
    }

    /// Object files, each once.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|i| i.file.as_str()).collect::<BTreeSet<_>>().into_iter()
    }
}

fn parse(text: &str) -> LinkMap {
    let mut map = LinkMap::default();
    // GNU ld puts the rest of a line behind a long section name on the next one.
    let mut name_before = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = gnu(line, &words, name_before).or_else(|| columns(&words));
        if let Some((vaddr, size, file)) = found.filter(|&(vaddr, size, _)| vaddr != 0 && size != 0) {
            let (archive, file) = match file.strip_suffix(')').and_then(|f| f.rsplit_once('(')) {
                Some((archive, member)) => (Some(archive.to_owned()), member.to_owned()),
                None => match file.rsplit_once(".a:") {
                    Some((archive, member)) => (Some(format!("{archive}.a")), member.to_owned()),
                    None => (None, file.to_owned()),
                },
            };
            map.inputs.push(Input { file, archive, vaddr, size });
        }
        name_before = line.starts_with(' ') && words.len() == 1 && words[0].starts_with('.');
    }
    map
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

/// ` .text  0x401000  0x1a  file`, perhaps without the name.
fn gnu<'a>(line: &'a str, words: &[&'a str], name_before: bool) -> Option<(u64, u64, &'a str)> {
    let skip = match words.first()? {
        name if name.starts_with('.') && line.starts_with(' ') => 1,
        word if word.starts_with("0x") && name_before => 0,
        _ => return None,
    };
    let (address, size) = (words.get(skip)?, words.get(skip + 1)?);
    if !address.starts_with("0x") || !size.starts_with("0x") {
        return None;
    }
    // The file's name is the rest of the line: it may hold spaces.
    let file = line[line.find(*size).filter(|_| size.len() > 2)?..].strip_prefix(*size)?.trim();
    let file = if file.starts_with("0x") { line.rsplit_once(*size)?.1.trim() } else { file };
    (!file.is_empty()).then_some((hexadecimal(address)?, hexadecimal(size)?, file))
}

/// Columns of lld (VMA, LMA, size, alignment) or mold (VMA, size, alignment), then `file:(section)`.
fn columns<'a>(words: &[&'a str]) -> Option<(u64, u64, &'a str)> {
    let (file, numbers) = words.split_last()?;
    let (file, section) = file.rsplit_once(":(")?;
    let vaddr = hexadecimal(numbers.first()?)?;
    let size = match numbers.len() {
        4 => hexadecimal(numbers[2])?,
        3 => hexadecimal(numbers[1])?,
        _ => return None,
    };
    section.ends_with(')').then_some((vaddr, size, file))
}

/// Reads any text.
#[cfg(feature = "fuzzing")]
pub fn fuzz(text: &str) {
    parse(text).ranges(|_| true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_four_linkers() {
        let gnu = "\
Discarded input sections\n\n .group         0x0000000000000000        0x8 a.o\n
 .text          0x0000000000001139       0x1a main.o\n                0x0000000000001139                main\n
 .text.unlikely\n                0x0000000000001160       0x05 /usr/lib/libz.a(deflate.o)\n *fill*         0x1165  0x3 \n";
        let lld = "\
             VMA              LMA     Size Align Out     In      Symbol\n
            1139             1139       1a    16         main.o:(.text)\n
            1160             1160        5     1         /usr/lib/libz.a(deflate.o):(.text.unlikely)\n
            1160             1160        5     1                 deflate\n";
        for text in [gnu, lld] {
            let map = parse(text);
            assert_eq!(map.ranges(|i| i.file == "main.o"), [(0x1139, 0x1153)]);
            let zlib = |i: &Input| i.archive.as_deref() == Some("/usr/lib/libz.a") && i.file == "deflate.o";
            assert_eq!(map.ranges(zlib), [(0x1160, 0x1165)]);
        }
    }
}
