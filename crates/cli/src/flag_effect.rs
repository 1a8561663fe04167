//! Flags of a recording that belong to collectors: one without its collector would do nothing, and nobody would know.

use clap::ValueEnum;
use transect_analyze::View;

use crate::arguments::{Collector, FeatureMethod, Processes, Recording, RegionOverflow, TimingMode};
use crate::collection::Collection;
use crate::failure::Failure;

/// A flag, and what it takes to have an effect.
struct Flag {
    name: &'static str,
    given: bool,
    /// Collectors of which one must take part.
    of: &'static [Collector],
    /// Collectors that do not know it.
    not_beside: &'static [Collector],
}

const FLOW: &[Collector] = &[Collector::Flow];
const SCHED: &[Collector] = &[Collector::Sched];
const FEATURE: &[Collector] = &[Collector::Feature];

/// Refuses flags that would have no effect.
pub fn check(recording: &Recording, collection: &Collection) -> Result<(), Failure> {
    flags(recording).iter().filter(|flag| flag.given).try_for_each(|flag| flag.check(collection))?;
    // A walk by itself, beside the scheduler's events or not, ends with its command.
    if recording.wait_all
        && collection.wants(Collector::Walk)
        && !collection.wants(Collector::Flow)
        && !collection.walks_by_samples()
    {
        return Err(Failure::Usage("--wait-all has no effect on walk without flow: leave one of them out".to_owned()));
    }
    if recording.histogram && recording.timing == Some(TimingMode::Count) {
        return Err(Failure::Usage("--histogram is of times, and --timing count takes none: leave one out".to_owned()));
    }
    Ok(())
}

/// Refuses a view of which none of the collectors makes rows.
pub fn check_view(view: Option<View>, taking_part: &[Collector]) -> Result<(), Failure> {
    let Some(view) = view else { return Ok(()) };
    let of: &[Collector] = match view {
        View::Components | View::Apis | View::Callers | View::Flows => FLOW,
        View::Latency => &[Collector::Latency],
        View::Walk => &[Collector::Walk],
        View::Features => FEATURE,
        View::Summary | View::Threads | View::Waits | View::Locks | View::Criticality | View::Meta | View::Loss => {
            return Ok(());
        }
    };
    if of.iter().any(|one| taking_part.contains(one)) {
        return Ok(());
    }
    let (view, of, recorded) = (view.as_str(), names(of.iter()), names(taking_part.iter()));
    Err(Failure::Usage(format!("--view {view} shows what {of} records, and this recording is of {recorded}")))
}

fn flags(recording: &Recording) -> Vec<Flag> {
    let (sched, feature) = (&recording.sched, &recording.feature);
    let flag = |name, given, of| Flag { name, given, of, not_beside: &[] };
    let beside = |name, given, of, not_beside| Flag { name, given, of, not_beside };
    vec![
        flag("--timing", recording.timing.is_some(), FLOW),
        flag("--histogram", recording.histogram, FLOW),
        flag("--trace", !recording.trace.is_empty(), FLOW),
        flag("--interval", recording.snapshots.interval.is_some(), Collector::value_variants()),
        flag("--wait-apis", !recording.wait_apis.is_empty(), FLOW),
        flag("--static-components", recording.static_components.is_some(), FLOW),
        flag("--overhead", recording.overhead.is_some(), &[Collector::Flow, Collector::Feature]),
        // The kernel tells of all descendants.
        beside(
            "--no-follow",
            recording.no_follow,
            &[Collector::Flow, Collector::Feature],
            &[Collector::Sched, Collector::Walk],
        ),
        flag("--wait-all", recording.wait_all, &[Collector::Flow, Collector::Sched]),
        flag("--sample-hz", sched.sample_hz.is_some(), &[Collector::Sched, Collector::Walk, Collector::Feature]),
        flag("--min-parallelism", sched.min_parallelism.is_some(), SCHED),
        flag("--stack-depth", sched.stack_depth.is_some(), SCHED),
        flag("--detailed-waits", sched.detailed_waits.is_some(), SCHED),
        flag("--processes", sched.processes == Processes::Apart, SCHED),
        // A walk is made of stacks.
        beside("--totals-only", sched.totals_only, SCHED, &[Collector::Walk]),
        flag("--feature-method", feature.feature_method != FeatureMethod::Auto, FEATURE),
        flag("--feature-program", feature.feature_program.is_some(), FEATURE),
        flag("--feature", !feature.feature.is_empty(), FEATURE),
        flag("--region", !feature.region.is_empty(), FEATURE),
        flag("--dependence", feature.dependence.is_some(), FEATURE),
        flag("--selection", feature.selection.is_some(), FEATURE),
        flag("--region-overflow", feature.region_overflow != RegionOverflow::Block, FEATURE),
        flag("--model", feature.model.is_some(), FEATURE),
    ]
}

impl Flag {
    fn check(&self, collection: &Collection) -> Result<(), Failure> {
        let taking_part = |one: &&Collector| collection.wants(**one);
        if !self.of.iter().any(|one| collection.wants(*one)) {
            let of = names(self.of.iter());
            let left = self.of.iter().find_map(|one| collection.why_left_out(*one));
            let why = left.map_or_else(|| "not in this recording".to_owned(), |why| format!("left out: {why}"));
            return Err(Failure::Usage(format!("{} is for {of}, which is {why}", self.name)));
        }
        let in_the_way: Vec<_> = self.not_beside.iter().filter(taking_part).collect();
        if !in_the_way.is_empty() {
            let others = names(in_the_way.into_iter());
            return Err(Failure::Usage(format!(
                "{} has no effect on {others}: leave {others} out of --collect, or the flag",
                self.name
            )));
        }
        Ok(())
    }
}

/// The collectors that a flag of a recording is for; `None` for flags of all of them.
pub fn collectors_of(recording: &Recording, name: &str) -> Option<&'static [Collector]> {
    flags(recording).into_iter().find(|flag| flag.name == name).map(|flag| flag.of)
}

/// Whether a flag of a recording has no effect on a collector, so that the two are refused together.
pub fn is_refused_beside(recording: &Recording, name: &str, collector: Collector) -> bool {
    flags(recording).iter().any(|flag| flag.name == name && flag.not_beside.contains(&collector))
}

/// Collectors in words.
pub fn names<'a>(collectors: impl Iterator<Item = &'a Collector>) -> String {
    collectors.map(|one| one.as_str()).collect::<Vec<_>>().join(" or ")
}
