//! Planning the sites of a loaded object.

use transect_probe_plan::{Function, Plan, PlanOptions};

use super::objects::LoadedObject;

/// The sites of the wanted functions.
pub fn plan(object: &LoadedObject, wanted: &(dyn Fn(&Function) -> bool + Send + Sync)) -> Plan {
    transect_probe_plan::plan(&object.object, &PlanOptions { wanted: Some(wanted), ..PlanOptions::default() })
}
