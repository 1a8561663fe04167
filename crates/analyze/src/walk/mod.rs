//! What a walk found: the chains of functions from `main` down to the one that finally holds the time, through program
//! and kernel, each with a plain sentence about its end.

mod chain;
mod conclusion;
mod continuation;
mod group;
mod step;
mod tree;
mod waiting;

use serde::Serialize;
use transect_profile_model::{Profile, WalkSession};

pub use chain::{WalkChainRow, WalkFrameRow};
pub(crate) use conclusion::whole;
pub use continuation::{WalkContinuation, WalkContinuedFrame};
pub use group::WalkGroupRow;
pub(crate) use step::entered;
pub use step::{WalkStepRow, WalkSystemCallRow};
pub use tree::{WalkTree, walk_tree};
pub(crate) use waiting::waiting_in_words;

use crate::matching::{Pattern, chosen_components};
use crate::{Names, Selection};

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkView {
    /// How the walk was done.
    #[serde(flatten)]
    pub session: WalkSession,
    /// The chains: those of the launched process first, its `main` before its other groups; of a group, the largest
    /// share first.
    pub chains: Vec<WalkChainRow>,
    /// Thread groups that were looked at, in the same order.
    pub groups: Vec<WalkGroupRow>,
    /// What the search did, in order of time.
    pub steps: Vec<WalkStepRow>,
    /// Exact times in system calls, longest first.
    pub system_calls: Vec<WalkSystemCallRow>,
}

/// The walk; `None` for a recording without one. `selection.api` and `selection.component` keep chains, steps and
/// system calls through them; `selection.top` limits all three.
pub fn walk(profile: &Profile, selection: &Selection) -> Option<WalkView> {
    let names = Names::new(profile);
    let mut view = of(profile, &names)?;
    narrow(&mut view, profile, &names, selection);
    Some(view)
}

/// The view of all of the profile.
pub(crate) fn of(profile: &Profile, names: &Names) -> Option<WalkView> {
    let session = profile.meta.walk.clone()?;
    let order = group::order(profile);
    Some(WalkView {
        chains: chain::rows(profile, names, &session, &order),
        groups: order.iter().filter_map(|&id| group::row(profile, id)).collect(),
        steps: step::rows(profile, names),
        system_calls: step::system_calls(profile),
        session,
    })
}

/// Leaves out what is not selected.
pub(crate) fn narrow(view: &mut WalkView, profile: &Profile, names: &Names, selection: &Selection) {
    let chosen = chosen_components(profile, names, selection.component.as_deref());
    let chosen: Option<Vec<&str>> =
        chosen.map(|chosen| (0..).zip(chosen).filter(|(_, chosen)| *chosen).map(|(id, _)| names.get(id)).collect());
    let in_component = |component: Option<&str>| {
        chosen.as_ref().is_none_or(|chosen| component.is_some_and(|name| chosen.contains(&name)))
    };
    let pattern = selection.api.as_deref().map(Pattern::new);
    let is_api = |function: &str| pattern.as_ref().is_none_or(|pattern| pattern.matches_api(function, function));
    if chosen.is_some() || pattern.is_some() {
        let through = |frame: &WalkFrameRow| in_component(frame.component.as_deref()) && is_api(&frame.function);
        view.chains.retain(|chain| chain.frames.iter().any(through));
        view.steps.retain(|step| in_component(step.component.as_deref()) && is_api(&step.function));
        view.system_calls.retain(|call| chosen.is_none() && is_api(&call.name));
    }
    if let Some(top) = selection.top {
        view.chains.truncate(top);
        view.steps.truncate(top);
        view.system_calls.truncate(top);
    }
}
