//! The objects with regions that any process has loaded, and where their sites lie in each.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use transect_attach::Mapping;
use transect_feature_region::{RegionError, RegionMap, RegionTable, SiteKind};
use transect_profile_model::Dependence;

use super::choice::Choice;
use super::fold::{NONE, RegionNumber};
use crate::probe_session::{KnownMappings, LoadedObject, load};

/// What a site does, for the folding.
#[derive(Debug, Clone)]
pub struct SiteFacts {
    /// What happens.
    pub kind: SiteKind,
    /// Its region; [`NONE`] for a restoring outside of regions.
    pub region: RegionNumber,
    /// After a restoring: the regions that are open in its frame, outermost first.
    pub remain: Box<[RegionNumber]>,
    /// What it tells is to be heard.
    pub wanted: bool,
}

/// An object with regions.
#[derive(Debug, Clone)]
pub struct MarkedObject {
    /// Path as the process sees it.
    pub path: String,
    /// Build-id in hexadecimal.
    pub build_id: String,
    /// What its sections say.
    pub table: RegionTable,
    /// Number of its first region in the recording.
    pub first_region: RegionNumber,
    /// Number of its first site in [`Catalog::sites`].
    first_site: u32,
}

/// All objects with regions.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Objects.
    pub objects: Vec<MarkedObject>,
    /// Sites of all of them.
    pub sites: Vec<SiteFacts>,
    /// By region's number: the region of the same function around it, or [`NONE`].
    pub parents: Vec<RegionNumber>,
    known: HashMap<((u32, u32), u64), Option<usize>>,
    /// Which regions are wanted of those whose sites are on.
    choice: Choice,
    /// Objects whose regions can't be read: (path, why).
    pub unreadable: Vec<(String, String)>,
}

/// Sites by address, in one program in memory.
#[derive(Debug, Default)]
pub struct Image {
    /// Number in [`Catalog::sites`].
    pub sites: FxHashMap<u64, u32>,
    /// Mappings that were looked at.
    looked_at: KnownMappings,
}

impl Catalog {
    /// Nothing yet. What `choice` does not want is not heard.
    pub fn choosing(choice: Choice) -> Self {
        Self { choice, ..Self::default() }
    }

    /// The weakest dependence of regions on features that is observed.
    pub fn dependence(&self) -> Dependence {
        self.choice.dependence()
    }

    /// Adds what process `pid` has mapped since the last look; gives whether there is anything new.
    pub fn look(&mut self, pid: i32, image: &mut Image) -> bool {
        let Ok(mappings) = Mapping::all(pid) else { return false };
        let (objects, _) = load(pid, &mappings, &mut image.looked_at);
        let before = image.sites.len();
        for loaded in &objects {
            let Some(index) = self.object(loaded) else { continue };
            let object = &self.objects[index];
            for (site, number) in object.table.sites.iter().zip(object.first_site..) {
                image.sites.insert(site.vaddr.wrapping_add(loaded.bias), number);
            }
        }
        image.sites.len() > before
    }

    /// The object's number, if it has regions.
    pub fn object(&mut self, loaded: &LoadedObject) -> Option<usize> {
        if let Some(known) = self.known.get(&loaded.identity) {
            return *known;
        }
        let found = match RegionTable::of(&loaded.object) {
            Ok(table) => Some(self.add(loaded, table)),
            Err(RegionError::NotMarked { .. }) => None,
            Err(error) => {
                self.unreadable.push((loaded.path.to_string_lossy().into_owned(), error.to_string()));
                None
            }
        };
        self.known.insert(loaded.identity, found);
        found
    }

    fn add(&mut self, loaded: &LoadedObject, table: RegionTable) -> usize {
        let first_region = self.parents.len() as RegionNumber;
        let first_site = self.sites.len() as u32;
        let number = |region: u32| first_region + region;
        self.parents.extend(table.regions.iter().map(|region| region.parent.map_or(NONE, number)));
        let restores = table.sites.iter().any(|site| site.kind == SiteKind::Restore);
        // Only what restores needs the control flow.
        let map = restores.then(|| RegionMap::of(&loaded.object, &table));
        for site in &table.sites {
            let spans = |map: &RegionMap| map.after_restore(site.vaddr).map(<[u32]>::to_vec);
            let remain = match site.kind {
                SiteKind::Restore => map.as_ref().and_then(spans).unwrap_or_else(|| enclosing(&table, site.region)),
                _ => Vec::new(),
            };
            self.sites.push(SiteFacts {
                kind: site.kind,
                region: site.region.map_or(NONE, number),
                remain: remain.into_iter().map(number).collect(),
                wanted: self.choice.wants_site(&table, site),
            });
        }
        self.objects.push(MarkedObject {
            path: loaded.path.to_string_lossy().into_owned(),
            build_id: loaded.object.build_id().unwrap_or_default(),
            table,
            first_region,
            first_site,
        });
        self.objects.len() - 1
    }

    /// The object that a region belongs to, and its number there.
    pub fn region(&self, number: RegionNumber) -> Option<(usize, u32)> {
        let after = self.objects.partition_point(|object| object.first_region <= number);
        let object = after.checked_sub(1)?;
        Some((object, number - self.objects[object].first_region))
    }
}

/// A region with those of the same function around it, outermost first.
fn enclosing(table: &RegionTable, region: Option<u32>) -> Vec<u32> {
    let next = |region: &u32| table.regions.get(*region as usize).and_then(|region| region.parent);
    let mut all: Vec<u32> = std::iter::successors(region, next).take(table.regions.len()).collect();
    all.reverse();
    all
}
