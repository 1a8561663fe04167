//! Sources with the regions of a binary marked: which lines lie in which regions.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use transect_binary_info::{LastLink, open_plain};

use crate::{RegionIndex, RegionTable};

/// A source file with regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path as the compiler was told.
    pub name: String,
    /// Where it was found; `None` if it is not there.
    pub path: Option<PathBuf>,
    /// Its regions, in the order of their lines.
    pub regions: Vec<RegionIndex>,
    /// Lines in and around regions.
    pub lines: Vec<ListedLine>,
}

/// A line of source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedLine {
    /// From 1.
    pub number: u32,
    /// Its text, without its end.
    pub text: String,
    /// Regions that it lies in, outermost first.
    pub regions: Vec<RegionIndex>,
    /// Lines before this one are left out.
    pub after_gap: bool,
}

/// Lines shown before and after regions.
const AROUND: u32 = 2;
/// Larger files are no sources.
const LARGEST: u64 = 32 << 20;

impl RegionTable {
    /// Lines of the last region line; a region without known end has one line.
    fn last_line(&self, region: RegionIndex) -> u32 {
        let region = &self.regions[region as usize];
        region.end_line.max(region.line)
    }

    /// The sources of those regions that `wanted` picks, file by file. Sources are looked for where the compiler found
    /// them, then below `folder`.
    pub fn listing(&self, folder: &Path, wanted: &dyn Fn(RegionIndex) -> bool) -> Vec<ListedFile> {
        let mut files: BTreeMap<(&str, &str), Vec<RegionIndex>> = BTreeMap::new();
        for (index, region) in (0..).zip(&self.regions) {
            if wanted(index) {
                let directory = region.directory.as_deref().unwrap_or("");
                files.entry((&region.file, directory)).or_default().push(index);
            }
        }
        files
            .into_iter()
            .map(|((name, directory), mut regions)| {
                // Around others first where both begin in one line.
                regions.sort_by_key(|&region| {
                    let facts = &self.regions[region as usize];
                    (facts.line, facts.depth, std::cmp::Reverse(self.last_line(region)), region)
                });
                let found = find(name, directory, folder);
                let text = found.as_deref().and_then(read).unwrap_or_default();
                let lines = self.lines(&text, &regions);
                let path = found.filter(|_| !lines.is_empty());
                ListedFile { name: name.to_owned(), path, regions, lines }
            })
            .collect()
    }

    fn lines(&self, text: &str, regions: &[RegionIndex]) -> Vec<ListedLine> {
        let mut lines: Vec<ListedLine> = Vec::new();
        for (number, text) in (1u32..).zip(text.lines()) {
            let range = |region: RegionIndex| {
                let first = self.regions[region as usize].line;
                (first > 0).then(|| first..=self.last_line(region))
            };
            let inside: Vec<RegionIndex> =
                regions.iter().copied().filter(|&region| range(region).is_some_and(|r| r.contains(&number))).collect();
            let near = !inside.is_empty()
                || regions.iter().filter_map(|&region| range(region)).any(|range| {
                    (range.start().saturating_sub(AROUND)..=range.end().saturating_add(AROUND)).contains(&number)
                });
            if near {
                let after_gap = lines.last().map_or(number > 1, |last| last.number + 1 != number);
                lines.push(ListedLine { number, text: text.to_owned(), regions: inside, after_gap });
            }
        }
        lines
    }
}

fn find(name: &str, directory: &str, folder: &Path) -> Option<PathBuf> {
    let mut places = vec![Path::new(directory).join(name), folder.join(name)];
    // A build elsewhere, or one that has moved: by ever shorter ends of the path.
    let parts: Vec<_> = Path::new(name).components().collect();
    places.extend((1..parts.len()).map(|first| folder.join(parts[first..].iter().collect::<PathBuf>())));
    places.into_iter().find(|place| place.is_file())
}

fn read(path: &Path) -> Option<String> {
    // A binary may name what it likes as its source.
    let file = open_plain(path, LastLink::Follow).ok()?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).ok().filter(|&size| size as u64 <= LARGEST)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;
    use transect_profile_model::RegionKind;

    fn region(line: u32, end_line: u32, parent: Option<RegionIndex>) -> Region {
        Region {
            unit: 0,
            number: 0,
            features: vec![0],
            dependences: vec![transect_profile_model::Dependence::Direct],
            kind: RegionKind::Branch,
            function: "f".to_owned(),
            file: "src/main.c".to_owned(),
            directory: Some("/nowhere".to_owned()),
            line,
            column: 1,
            end_line,
            parent,
            depth: u32::from(parent.is_some()),
            irregular: None,
        }
    }

    #[test]
    fn lines_in_and_around_regions_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        std::fs::write(folder.path().join("main.c"), text).unwrap();
        let regions = vec![region(5, 9, None), region(6, 7, Some(0)), region(20, 0, None)];
        let table = RegionTable { regions, ..RegionTable::default() };
        let files = table.listing(folder.path(), &|_| true);
        let numbers: Vec<u32> = files[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [3, 4, 5, 6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22]);
        assert_eq!(files[0].lines[3].regions, [0, 1]);
        assert_eq!((files[0].lines[3].text.as_str(), files[0].lines[9].after_gap), ("line 6", true));
        assert!(files[0].path.is_some());
        let none = table.listing(Path::new("/nowhere"), &|region| region == 2);
        assert_eq!((none[0].path.as_ref(), none[0].regions.as_slice()), (None, &[2][..]));
    }
}
