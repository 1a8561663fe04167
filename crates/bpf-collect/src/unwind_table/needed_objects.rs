//! The objects that a program will map when it starts, as far as its files tell.
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::StringTable;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian as LE, ReadCache};
use transect_binary_info::{LastLink, open_plain};

/// More objects than this are found as the program maps them.
const MAX_OBJECTS: usize = 256;

/// What an object says of others.
#[derive(Debug, Default)]
struct Links {
    interpreter: Option<PathBuf>,
    needed: Vec<String>,
    /// Folders that it wants them looked for in.
    folders: Vec<PathBuf>,
}

/// The program itself (or a script's interpreter), the dynamic linker, and the libraries that they need. A program
/// without a slash is looked for as a shell does.
pub(crate) fn of_program(program: &Path) -> Vec<PathBuf> {
    let program = in_search_path(program).unwrap_or_else(|| program.to_owned());
    let program = interpreter_of_script(&program).unwrap_or(program);
    let usual = usual_folders();
    let mut found = vec![program];
    let mut names = HashSet::new();
    let mut next = 0;
    while next < found.len() && found.len() < MAX_OBJECTS {
        let links = links_of(&found[next]).unwrap_or_default();
        next += 1;
        found.extend(links.interpreter);
        for name in links.needed {
            if names.insert(name.clone()) {
                let place = |folder: &PathBuf| Some(folder.join(&name)).filter(|path| is_x86_64(path));
                found.extend(links.folders.iter().chain(&usual).find_map(place));
            }
        }
    }
    found
}

fn in_search_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() != 1 || program.is_absolute() {
        return None;
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn interpreter_of_script(program: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let length = open_plain(program, LastLink::Follow).ok()?.read(&mut head).ok()?;
    let line = head[..length].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let interpreter = Path::new(words.next()?);
    if interpreter.file_name().is_some_and(|name| name == "env") {
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        return in_search_path(Path::new(name));
    }
    Some(interpreter.to_owned())
}

/// Where the dynamic linker looks, without its cache.
fn usual_folders() -> Vec<PathBuf> {
    let asked = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&asked).filter(|path| path.is_absolute()).collect();
    for entry in fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        folders.extend(text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    let fixed = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    folders.extend(fixed.map(PathBuf::from));
    folders
}

/// Folders for other machines may come first.
fn is_x86_64(path: &Path) -> bool {
    let mut head = [0; 20];
    let read = open_plain(path, LastLink::Follow).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(b"\x7fELF\x02\x01") && head[18..] == [0x3e, 0]
}

fn links_of(path: &Path) -> Option<Links> {
    let file = open_plain(path, LastLink::Follow).ok()?;
    let cache = ReadCache::new(&file);
    let data = &cache;
    let header = FileHeader64::<LE>::parse(data).ok()?;
    let programs = header.program_headers(LE, data).ok()?;
    let mut links = Links::default();
    for program in programs {
        if let Ok(Some(interpreter)) = program.interpreter(LE, data) {
            links.interpreter = Some(PathBuf::from(String::from_utf8_lossy(interpreter).into_owned()));
        }
    }
    let entries = programs.iter().find_map(|program| program.dynamic(LE, data).ok().flatten());
    let Some(entries) = entries else { return Some(links) };
    let value = |tag| entries.iter().find(|entry| entry.d_tag(LE) == tag).map(|entry| entry.d_val(LE));
    let (address, size) = (value(elf::DT_STRTAB)?, value(elf::DT_STRSZ)?);
    let start = programs.iter().filter(|program| program.p_type(LE) == elf::PT_LOAD).find_map(|program| {
        let inside = address.checked_sub(program.p_vaddr(LE)).filter(|&inside| inside < program.p_filesz(LE))?;
        Some(program.p_offset(LE) + inside)
    })?;
    let strings = StringTable::new(data, start, start.checked_add(size)?);
    let string = |offset: u64| {
        let bytes = strings.get(u32::try_from(offset).ok()?).ok()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    for entry in entries {
        match entry.d_tag(LE) {
            elf::DT_NEEDED => links.needed.extend(string(entry.d_val(LE))),
            elf::DT_RUNPATH | elf::DT_RPATH => {
                let folders = string(entry.d_val(LE)).unwrap_or_default();
                let folders = folders.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
                links.folders.extend(folders.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from));
            }
            elf::DT_NULL => break,
            _ => {}
        }
    }
    Some(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_needs_what_the_dynamic_linker_lists() {
        let program = Path::new("/usr/bin/perl");
        assert_eq!(of_program(Path::new("./perl")).len(), 1, "no such file here, and none is looked for");
        let linker = Path::new("/lib64/ld-linux-x86-64.so.2");
        let listed = std::process::Command::new(linker).arg("--list").arg(program).output();
        let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
            println!("NOT RUN: no perl, or no dynamic linker that lists");
            return;
        };
        let real = |path: &Path| fs::canonicalize(path).unwrap();
        let expected = String::from_utf8_lossy(&listed.stdout).into_owned();
        let expected = expected.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        let mut expected: Vec<_> = expected.map(|path| real(Path::new(path))).collect();
        expected.push(real(program));
        let mut found: Vec<_> = of_program(program).iter().map(|path| real(path)).collect();
        for list in [&mut expected, &mut found] {
            list.sort();
            list.dedup();
        }
        assert_eq!(found, expected);
    }
}
