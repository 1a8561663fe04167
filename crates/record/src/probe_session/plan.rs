//! Planning the sites of a loaded object.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::rc::Rc;

use transect_probe_plan::{Function, Lines, Plan, PlanOptions};

use super::objects::LoadedObject;

/// The sites of the wanted functions.
pub fn plan(object: &LoadedObject, wanted: &(dyn Fn(&Function) -> bool + Send + Sync)) -> Plan {
    transect_probe_plan::plan(&object.object, &PlanOptions { wanted: Some(wanted), ..PlanOptions::default() })
}

/// What is wanted, where that is the same in all processes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Probes that the others need.
    Services,
    /// Of these, the unwinders.
    Unwinders,
    /// Of these, the unwinders and the loader's event function.
    UnwindersAndLoader,
    /// Of these, the functions by which a program confines itself.
    Confinement,
    /// Of these, the loader's event function.
    LoaderEvent,
    /// Functions that a measurement wants, by name and component.
    Measured,
    /// None: which functions there are.
    Listed,
    /// Those at certain addresses, by a hash of them: see [`Purpose::chosen`].
    Chosen(u64),
}

impl Purpose {
    /// Of the functions at these addresses of an object.
    pub fn chosen(addresses: &BTreeSet<u64>) -> Self {
        let mut hasher = DefaultHasher::new();
        addresses.hash(&mut hasher);
        Self::Chosen(hasher.finish())
    }
}

/// What a plan is for, path and build-id of the object.
type PlanKey = (Purpose, PathBuf, String);

/// Plans of a command, kept: it may start the same program again and again, and programs share libraries. Files are told apart
/// by their build-ids, and those without are planned anew.
#[derive(Debug, Clone, Default)]
pub struct Plans {
    plans: Rc<RefCell<HashMap<PlanKey, Rc<Plan>>>>,
    /// Source lines by build-id: debug information is read once.
    lines: Rc<RefCell<HashMap<String, Option<Rc<Lines>>>>>,
}

impl Plans {
    /// The plan for a purpose, for which `wanted` is the same each time.
    pub fn get(
        &self,
        purpose: Purpose,
        object: &LoadedObject,
        wanted: &(dyn Fn(&Function) -> bool + Send + Sync),
    ) -> Rc<Plan> {
        let Some(id) = object.object.build_id() else { return Rc::new(plan(object, wanted)) };
        let key = (purpose, object.path.clone(), id);
        if let Some(known) = self.plans.borrow().get(&key) {
            return known.clone();
        }
        let planned = Rc::new(plan(object, wanted));
        self.plans.borrow_mut().insert(key, planned.clone());
        planned
    }

    /// File and line of an address; empty and 0 if unknown.
    pub fn line(&self, object: &LoadedObject, vaddr: u64) -> (String, i32) {
        let id = object.object.build_id().unwrap_or_else(|| object.path.to_string_lossy().into_owned());
        let mut known = self.lines.borrow_mut();
        let lines = known.entry(id).or_insert_with(|| Lines::of(&object.object).map(Rc::new));
        let line = lines.as_ref().and_then(|lines| lines.at(vaddr));
        line.map(|line| (line.file.to_string(), line.line as i32)).unwrap_or_default()
    }
}
