//! Names of code that a just-in-time compiler made, from the map that it writes for profilers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// `/tmp/perf-PID.map`: a line for each function, with its address and size.
#[derive(Debug, Default)]
pub struct PerfMap {
    functions: BTreeMap<u64, (u64, Box<str>)>,
}

impl PerfMap {
    /// The map of a process, wherever it can still be found.
    pub fn of(tgid: i32, ns_tgid: i32) -> Self {
        let root = format!("/proc/{tgid}/root");
        let places = [
            format!("{root}/tmp/perf-{ns_tgid}.map"),
            format!("/tmp/perf-{tgid}.map"),
            format!("/tmp/perf-{ns_tgid}.map"),
        ];
        let file = places.iter().find_map(|place| File::open(place).ok().filter(is_plain));
        file.map_or_else(Self::default, |file| Self::read(BufReader::new(file)))
    }

    fn read(mut lines: impl BufRead) -> Self {
        let mut map = Self::default();
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if let Some((address, size, name)) = parse(&String::from_utf8_lossy(&line)) {
                map.insert(address, size, name);
            }
            line.clear();
        }
        map
    }

    /// Later lines are newer: what they overlap has been thrown away by the compiler.
    fn insert(&mut self, address: u64, size: u64, name: &str) {
        let end = address.saturating_add(size);
        while let Some((&start, &(length, _))) = self.functions.range(..end).next_back() {
            if start.saturating_add(length) <= address {
                break;
            }
            self.functions.remove(&start);
        }
        self.functions.insert(address, (size, name.into()));
    }

    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let (start, (size, name)) = self.functions.range(..=address).next_back()?;
        (address - start < *size).then_some(name)
    }
}

/// Anybody may put a file of that name into /tmp: a pipe would make us wait.
fn is_plain(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

fn parse(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (address, size) = (number()?, number()?);
    Some((address, size, words.next().filter(|name| !name.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_functions_replace_older_ones() {
        let map = PerfMap::read(
            &b"1000 100 LazyCompile:~f a.js:1\n0x1100 0x40 g\n10c0 80 LazyCompile:*h a.js:9\nbad\n2000 0 nothing\n\xff\n3000 10\n"[..],
        );
        assert_eq!(map.at(0x1000), None, "thrown away");
        assert_eq!(map.at(0x10c0), Some("LazyCompile:*h a.js:9"));
        assert_eq!(map.at(0x113f), Some("LazyCompile:*h a.js:9"));
        assert_eq!(map.at(0x1140), None);
        assert_eq!(map.at(0x2000), None);
        assert_eq!(map.functions.len(), 2);
    }
}
