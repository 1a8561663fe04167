//! Libraries that take an unusual share.

use super::facts::{ApiFact, Facts};
use super::words::{count, percent, shell, time};
use super::{Confidence, FindingKind, FindingRow, Place};

/// A library that does a special job (a codec, a parser) is what its program is for; from here on it is the place to
/// look first all the same.
const LIBRARY_PERCENT: f64 = 30.0;
/// The C and C++ runtime does small services; a program that spends this much in it spends it on copying, comparing,
/// allocating or formatting.
const RUNTIME_PERCENT: f64 = 20.0;
/// File names of runtime libraries, up to `.so`.
const RUNTIME: [&str; 9] =
    ["libc", "libm", "libstdc++", "libc++", "libgcc_s", "libpthread", "ld-linux-x86-64", "ld-musl-x86_64", "libgomp"];
/// If findings about single APIs explain this part of the library's time, it needs no finding of its own.
const EXPLAINED_PART: f64 = 0.6;

pub(super) fn find(facts: &Facts<'_>, findings: &mut Vec<FindingRow>, explained: &[&ApiFact<'_>]) {
    for (id, component) in facts.profile.components.iter().enumerate() {
        if component.executable || component.synthetic {
            continue;
        }
        let attributed = facts.compute_ns[id];
        let share = facts.running_percent(attributed);
        let name = facts.names.get(id as u32);
        let stem = crate::names::file_name(&component.path).split(".so").next().unwrap_or(name);
        let threshold = if RUNTIME.contains(&stem) { RUNTIME_PERCENT } else { LIBRARY_PERCENT };
        let told: f64 =
            explained.iter().filter(|api| api.callee as usize == id).map(|api| api.all.self_attributed_ns).sum();
        if share < threshold || told >= attributed * EXPLAINED_PART {
            continue;
        }
        let apis = || facts.apis.iter().filter(|api| api.callee as usize == id);
        let most = apis().max_by(|a, b| a.all.self_attributed_ns.total_cmp(&b.all.self_attributed_ns));
        let top = most.map_or(String::new(), |api| {
            let part = api.all.self_attributed_ns * 100.0 / attributed.max(1.0);
            format!("; most of it in {} ({} of the library's time)", api.bare_name(), percent(part))
        });
        let row = facts.components.iter().find(|row| row.path == component.path && row.build_id == component.build_id);
        let (own, calls) = row.map_or((0, 0), |row| (row.self_ns.unwrap_or(0), row.calls_in));
        let share_of_run = facts.percent(attributed);
        findings.push(FindingRow {
            finding: format!("{name} takes an unusual share of the time"),
            evidence: format!("{} of the running time ({}) in {} calls{top}", percent(share), time(own), count(calls)),
            view: "apis".to_owned(),
            next: format!("See which of its APIs, and for whom: --view apis --component {}", shell(name)),
            kind: FindingKind::HeavyComponent,
            percent: share_of_run,
            saves_percent: facts.totals.timed.then_some(share_of_run),
            confidence: Some(Confidence::Interval),
            place: Place { component: Some(name.to_owned()), ..Place::default() },
        });
    }
}
