//! Names that a selection asks for and a profile does not hold: most likely mistyped.

use std::collections::BTreeSet;

use transect_profile_model::Profile;

use crate::Selection;
use crate::matching::{Pattern, chosen_components};
use crate::names::Names;

/// Near names that are told.
const MOST: usize = 5;

/// What a selection names that is nowhere in the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    /// `component` or `api`.
    pub what: &'static str,
    /// What was asked for.
    pub pattern: String,
    /// Names of the profile that are written much like it, nearest first; the first of all where none is.
    pub near: Vec<String>,
}

/// The first name or pattern of a selection that matches nothing of the profile.
pub fn unmatched(profile: &Profile, selection: &Selection) -> Option<Unmatched> {
    let names = Names::new(profile);
    let chosen = chosen_components(profile, &names, selection.component.as_deref());
    if let (Some(pattern), Some(chosen)) = (&selection.component, chosen)
        && !chosen.contains(&true)
    {
        let all: BTreeSet<&str> = (0..profile.components.len()).map(|id| names.get(id as u32)).collect();
        return Some(Unmatched { what: "component", pattern: pattern.clone(), near: near(pattern, &all) });
    }
    let pattern = selection.api.as_ref()?;
    let glob = Pattern::new(pattern);
    let all = functions(profile);
    if all.iter().any(|(name, symbol)| glob.matches_api(name, symbol)) {
        return None;
    }
    let all: BTreeSet<&str> =
        all.iter().map(|(name, _)| name.split('(').next().unwrap_or(name)).filter(|name| is_name(name)).collect();
    Some(Unmatched { what: "api", pattern: pattern.clone(), near: near(pattern, &all) })
}

/// Whether a row is a function's: others have words in brackets.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('[')
}

/// Functions of all collectors, with raw symbols where they are known.
fn functions(profile: &Profile) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> =
        profile.flows.iter().map(|flow| (flow.api.as_str(), flow.symbol.as_str())).collect();
    all.extend(profile.latency.iter().map(|row| (row.function.as_str(), row.symbol.as_str())));
    all.extend(profile.waits.iter().map(|wait| (wait.api.as_str(), "")));
    let steps = profile.locks.iter().flat_map(|lock| lock.path.split(" > "));
    all.extend(steps.map(|step| (step.split_once('!').map_or(step, |(_, function)| function), "")));
    all.extend(profile.sched.frames.iter().map(|frame| (frame.function.as_str(), "")));
    all.extend(profile.walk.nodes.iter().map(|node| (node.function.as_str(), "")));
    all.extend(profile.feature.regions.iter().map(|region| (region.function.as_str(), "")));
    all
}

fn near(wanted: &str, all: &BTreeSet<&str>) -> Vec<String> {
    let wanted = wanted.trim_matches(['*', '?']).to_lowercase();
    let allowed = (wanted.chars().count() / 3).max(1);
    let rated = all.iter().filter_map(|name| {
        let lower = name.to_lowercase();
        let within = !wanted.is_empty() && (lower.contains(&wanted) || lower.len() > 2 && wanted.contains(&lower));
        let far = if within { 0 } else { strsim::osa_distance(&wanted, &lower) };
        // Two letters that changed places are one mistake.
        (far <= allowed).then_some((far, *name))
    });
    let mut rated: Vec<(usize, &str)> = rated.collect();
    rated.sort_unstable();
    if rated.is_empty() {
        return all.iter().take(MOST).map(|name| (*name).to_owned()).collect();
    }
    rated.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::image_server;

    #[test]
    fn what_is_not_there_is_told_with_near_names() {
        let profile = image_server();
        let selection = |component: Option<&str>, api: Option<&str>| Selection {
            component: component.map(str::to_owned),
            api: api.map(str::to_owned),
            ..Selection::default()
        };
        assert_eq!(unmatched(&profile, &selection(None, None)), None);
        let flow = &profile.flows[0];
        assert_eq!(unmatched(&profile, &selection(Some("libz*"), Some(&flow.api))), None);
        let found = unmatched(&profile, &selection(Some("libzz.so.1"), None)).unwrap();
        assert_eq!((found.what, found.near[0].as_str()), ("component", "libz.so.1"));
        let found = unmatched(&profile, &selection(None, Some("nosuchfunctionanywhere"))).unwrap();
        assert!(found.what == "api" && !found.near.is_empty());
        assert!(!is_name("[waiting for a CPU]") && !is_name("") && is_name("inflate"));
        assert_eq!(unmatched(&profile, &selection(Some(""), None)).unwrap().what, "component");
        let names = BTreeSet::from(["__cxa_finalize", "crc32", "inflate"]);
        assert_eq!(
            (near("crc23", &names), near("inflte", &names)),
            (vec!["crc32".to_owned()], vec!["inflate".to_owned()])
        );
    }
}
