//! Stacks of regions for stacks of calls, each stack translated once.

use rustc_hash::FxHashMap as HashMap;
use transect_binary_info::Object;
use transect_feature_region::{FeatureNumbers, Frame, RegionError, RegionMap, RegionTable, Translator};
use transect_profile_model::{Component, ComponentId, Dependence, FeatureTables, RegionId, RegionMethod};

use crate::feature::choice::Choice;
use crate::sched::call_stack::StackNumber;
use crate::sched::mapped_file::MappedFile;
use crate::sched::place::Place;
use crate::walk::NewStack;

/// What is known of a file that stacks lie in.
#[derive(Debug)]
enum Known {
    /// It has no regions.
    Plain,
    /// Its component, and the object that turns offsets into addresses.
    Marked(ComponentId, Box<Object>),
}

/// Objects with regions, and what was translated.
#[derive(Debug, Default)]
pub struct Translation {
    files: Vec<Known>,
    translator: Translator,
    pub choice: Choice,
    numbers: Vec<FeatureNumbers>,
    /// By stack: its regions, outermost first; `None` if they can't be told.
    stacks: HashMap<StackNumber, Option<Vec<RegionId>>>,
    /// Objects with regions.
    pub components: Vec<Component>,
    /// What their sections say, by component.
    pub tables: Vec<RegionTable>,
    /// Features, regions and variables; no times yet.
    pub feature: FeatureTables,
    /// Objects whose regions can't be read: path and reason.
    pub unreadable: Vec<(String, String)>,
    /// Stacks that were not followed to their beginning.
    pub incomplete: u64,
}

/// What a profile has of the objects with regions: see [`Translation`].
#[derive(Debug)]
pub struct MarkedObjects {
    pub components: Vec<Component>,
    pub tables: Vec<RegionTable>,
    pub feature: FeatureTables,
    pub unreadable: Vec<(String, String)>,
    /// Places at which open regions can't be told, by component.
    pub doubts: Vec<(ComponentId, usize)>,
    pub dependence: Dependence,
}

impl Translation {
    /// Nothing yet. The time of regions that `choice` does not want is that of those around them.
    pub fn choosing(choice: Choice) -> Self {
        Self { choice, ..Self::default() }
    }

    /// Takes in files by their next numbers.
    pub fn add_files(&mut self, files: &[MappedFile]) {
        for file in files {
            let known = file.object().map_or(Known::Plain, |object| self.read(&file.path, object));
            self.files.push(known);
        }
    }

    fn read(&mut self, path: &str, object: Object) -> Known {
        let table = match RegionTable::of(&object) {
            Ok(table) => table,
            Err(RegionError::NotMarked { .. }) => return Known::Plain,
            Err(error) => {
                self.unreadable.push((path.to_owned(), error.to_string()));
                return Known::Plain;
            }
        };
        let component = self.components.len() as ComponentId;
        self.translator.add(component, RegionMap::of(&object, &table));
        let numbers = table.add_to(component, &mut self.feature);
        for (number, region) in (0..).zip(&mut self.feature.regions[numbers.first_region as usize..]) {
            region.method = self.choice.wants(&table, number).then_some(RegionMethod::Sample);
        }
        self.numbers.push(numbers);
        self.tables.push(table);
        self.components.push(Component {
            path: path.to_owned(),
            build_id: object.build_id().unwrap_or_default(),
            executable: false,
            synthetic: false,
            static_in: None,
        });
        Known::Marked(component, Box::new(object))
    }

    /// Places at which open regions can't be told, over all objects.
    fn doubts(&self) -> Vec<(ComponentId, usize)> {
        let maps = (0..self.tables.len() as ComponentId).filter_map(|c| Some((c, self.translator.map(c)?)));
        maps.map(|(component, map)| (component, map.doubts().len())).filter(|(_, doubts)| *doubts > 0).collect()
    }

    /// Translates stacks that came.
    pub fn add_stacks(&mut self, stacks: &[NewStack]) {
        for stack in stacks {
            let regions = self.translate(&stack.user).filter(|_| stack.complete);
            self.incomplete += u64::from(!stack.complete);
            self.stacks.insert(stack.number, regions);
        }
    }

    fn translate(&self, places: &[Place]) -> Option<Vec<RegionId>> {
        let mut frames = Vec::new();
        for place in places {
            let Place::File { file, offset, returns } = *place else { continue };
            let Some(Known::Marked(component, object)) = self.files.get(file as usize) else { continue };
            frames.push(Frame { component: *component, vaddr: object.vaddr(offset)?, returns });
        }
        let regions = self.translator.translate(&frames)?;
        let regions = regions.into_iter().map(|frame| self.numbers[frame.component as usize].region(frame.region));
        Some(regions.filter(|region| self.feature.regions[*region as usize].method.is_some()).collect())
    }

    /// A copy of what a profile has of the objects: not enough for more stacks.
    pub fn objects(&self) -> MarkedObjects {
        MarkedObjects {
            components: self.components.clone(),
            tables: self.tables.clone(),
            feature: self.feature.clone(),
            unreadable: self.unreadable.clone(),
            doubts: self.doubts(),
            dependence: self.choice.dependence(),
        }
    }

    /// Regions of a stack; `None` if they can't be told, or the stack never came.
    pub fn regions(&self, stack: StackNumber) -> Option<&Vec<RegionId>> {
        self.stacks.get(&stack)?.as_ref()
    }
}
