//! `transect feature regions`: the source of a program with its feature regions marked.

mod confirmed;
mod page;
mod precision;
mod text;

pub use page::escaped;

use std::path::Path;

use transect_binary_info::Object;
use transect_feature_region::{ListedFile, Region, RegionIndex, RegionMap, RegionTable};
use transect_profile_model::Dependence;

use self::confirmed::Confirmed;
use crate::arguments::RegionsArguments;
use crate::failure::Failure;
use crate::output::{Stream, write_file};

/// What is shown.
struct Shown {
    binary: String,
    table: RegionTable,
    map: RegionMap,
    /// Regions that were asked for.
    wanted: Vec<RegionIndex>,
    files: Vec<ListedFile>,
    /// Sets of features, as regions have them: a region's place here is its colour.
    sets: Vec<Vec<String>>,
    /// Dependences that count.
    weakest: Dependence,
    confirmed: Option<Confirmed>,
}

impl Shown {
    fn set_of(&self, region: RegionIndex) -> usize {
        let features = self.table.features_at(region, self.weakest);
        self.sets.iter().position(|set| set.iter().map(String::as_str).eq(features.iter().copied())).unwrap_or(0)
    }

    /// `{A,B}`.
    fn features(&self, region: RegionIndex) -> String {
        format!("{{{}}}", self.table.features_at(region, self.weakest).join(","))
    }

    /// How the decision depends on each of them: `direct,stored`; once if it is one word for all.
    fn dependences(&self, region: RegionIndex) -> String {
        let all = self.table.regions[region as usize].dependences.iter();
        let mut words: Vec<&str> =
            all.filter(|dependence| **dependence <= self.weakest).map(|dependence| dependence.as_str()).collect();
        if words.windows(2).all(|pair| pair[0] == pair[1]) {
            words.truncate(1);
        }
        words.join(",")
    }

    fn sites(&self, region: RegionIndex) -> usize {
        self.table.sites.iter().filter(|site| site.region == Some(region)).count()
    }

    fn function(&self, region: RegionIndex) -> String {
        transect_binary_info::demangle(&self.table.regions[region as usize].function)
    }

    /// `12` or `12-18`.
    fn lines(&self, region: RegionIndex) -> String {
        let region = &self.table.regions[region as usize];
        match (region.line, region.end_line) {
            (0, _) => "?".to_owned(),
            (first, last) if last > first => format!("{first}-{last}"),
            (first, _) => first.to_string(),
        }
    }

    /// One line on the whole.
    fn summary(&self) -> String {
        let table = &self.table;
        let features: std::collections::BTreeSet<&str> =
            table.units.iter().flat_map(|unit| &unit.features).map(String::as_str).collect();
        let counted: Vec<&Region> = (0..)
            .zip(&table.regions)
            .filter(|(number, _)| !table.features_at(*number, self.weakest).is_empty())
            .map(|(_, region)| region)
            .collect();
        let irregular = counted.iter().filter(|region| region.irregular.is_some()).count();
        let weaker = match table.regions.len() - counted.len() {
            0 => String::new(),
            more => format!(" and {more} of weaker dependence"),
        };
        let unit = table.units.first();
        let model =
            unit.filter(|unit| unit.model != 0).map_or("none".to_owned(), |unit| format!("{:016x}", unit.model));
        format!(
            "{} regions of {} features, dependence {}{weaker} · {irregular} without sites · {} sites ({}) · implicit flow {} · model {model} · \
             build {:016x}",
            counted.len(),
            features.len(),
            self.weakest.as_str(),
            table.sites.len(),
            table.site_mode().as_str(),
            unit.map_or("", |unit| unit.implicit.as_str()),
            table.build()
        )
    }

    /// Regions of each feature.
    fn by_feature(&self) -> String {
        precision::Precision::of(&self.table, self.weakest).summary()
    }

    /// What samples can't be translated by.
    fn doubts(&self) -> Vec<String> {
        let doubts = self.map.doubts().iter();
        doubts.map(|doubt| format!("{:#x} in {}: {}", doubt.vaddr, doubt.function, doubt.kind.as_str())).collect()
    }
}

/// Runs the subcommand.
pub fn regions(arguments: &RegionsArguments) -> Result<u8, Failure> {
    let object = Object::open(&arguments.binary).map_err(|error| Failure::Usage(error.to_string()))?;
    let table = RegionTable::of(&object).map_err(|error| Failure::Usage(error.to_string()))?;
    let known: Vec<&str> = table.units.iter().flat_map(|unit| &unit.features).map(String::as_str).collect();
    if let Some(unknown) = arguments.feature.iter().find(|feature| !known.contains(&feature.as_str())) {
        return Err(Failure::Usage(format!(
            "{}: no feature {unknown:?}; its features are {}",
            arguments.binary.display(),
            known.join(", ")
        )));
    }
    let weakest = arguments.regions.dependence.unwrap_or_default();
    let map = RegionMap::of(&object, &table);
    let asked = |region: RegionIndex| {
        let features = table.features_at(region, weakest);
        let is_asked =
            |name: &&str| arguments.feature.is_empty() || arguments.feature.iter().any(|asked| asked == name);
        features.iter().any(is_asked)
    };
    let folder = arguments.sources.as_deref().unwrap_or(Path::new("."));
    let files = table.listing(folder, &asked);
    let wanted: Vec<RegionIndex> = (0..table.regions.len() as RegionIndex).filter(|&region| asked(region)).collect();
    let mut sets: Vec<Vec<String>> = wanted
        .iter()
        .map(|&region| table.features_at(region, weakest).into_iter().map(str::to_owned).collect())
        .collect();
    sets.sort_by_key(|set| (set.len(), set.clone()));
    sets.dedup();
    let confirmed = Confirmed::find(arguments.confirmed.as_deref(), &arguments.binary, &table)?;
    let binary = arguments.binary.display().to_string();
    let shown = Shown { binary, table, map, wanted, files, sets, weakest, confirmed };
    match &arguments.html {
        Some(file) => write_file(file, |out| out.write_all(page::page(&shown).as_bytes()).map_err(written)),
        None => {
            let style = Stream::Stdout.style(arguments.color);
            Stream::Stdout.write(|out| out.write_all(text::text(&shown, style.color).as_bytes()).map_err(written))
        }
    }?;
    Ok(0)
}

fn written(source: std::io::Error) -> Failure {
    Failure::Write { place: "the regions".to_owned(), source }
}
