//! The tree of nested regions as stacks: program, thread group, then the regions, outermost first.
//!
//! Each node gives the time in which it was the whole stack, so weights add up to the threads' lifetimes; code of no
//! feature stands under its thread group alone.

use transect_profile_model::{ApiClass, FeatureRegion, FeatureTables, Profile, RegionNode};

use crate::stack::{Frame, Stack, file_name, thread_frames};

pub(crate) fn stacks(profile: &Profile) -> Vec<Stack<'_>> {
    let told = |node: &RegionNode| node.exclusive_ns > 0 || node.entries.is_some_and(|entries| entries > 0);
    profile.feature.nodes.iter().filter(|node| told(node)).map(|node| stack(profile, node)).collect()
}

fn stack<'a>(profile: &'a Profile, node: &'a RegionNode) -> Stack<'a> {
    let tables = &profile.feature;
    let mut regions = Vec::new();
    let mut at = Some(node);
    while let Some(of) = at {
        regions.extend(of.region.and_then(|id| tables.regions.get(id as usize)).map(Frame::Region));
        at = of.parent.and_then(|parent| tables.nodes.get(parent as usize));
    }
    let mut frames = thread_frames(profile, node.thread);
    frames.extend(regions.into_iter().rev());
    Stack {
        thread: node.thread,
        frames,
        calls: node.entries.unwrap_or(0),
        total_ns: node.cpu_ns.unwrap_or(0),
        self_ns: node.exclusive_ns.max(0),
        attributed_ns: 0,
        class: ApiClass::Compute,
        wait: None,
    }
}

/// `A, B`.
pub(crate) fn features(tables: &FeatureTables, region: &FeatureRegion) -> String {
    let name = |&id: &u32| tables.features.get(id as usize).map_or("?", |feature| feature.name.as_str());
    region.features.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// `{A, B} main (listing22.c:17)`.
pub(crate) fn text(tables: &FeatureTables, region: &FeatureRegion) -> String {
    let place = match (file_name(&region.file), region.line) {
        ("", _) => String::new(),
        (file, line) if line > 0 => format!(" ({file}:{line})"),
        (file, _) => format!(" ({file})"),
    };
    format!("{{{}}} {}{place}", features(tables, region), region.function)
}
