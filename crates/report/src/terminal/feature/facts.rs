use transect_profile_model::{FeatureSession, RegionMethod};

use super::super::units::{count, counted, duration};

/// How features were recorded, for the header.
pub(crate) fn facts(session: &FeatureSession) -> Vec<String> {
    let methods: Vec<&str> = session
        .methods
        .iter()
        .map(|method| match method {
            RegionMethod::Trace => "compiled-in events",
            RegionMethod::Probe => "sites switched on in the program",
            RegionMethod::Usdt => "uprobes",
            RegionMethod::Sample => "stack samples",
        })
        .collect();
    let mut facts =
        vec![format!("features by {}", if methods.is_empty() { "nothing".to_owned() } else { methods.join(" and ") })];
    if session.sites > 0 {
        facts.push(format!("{} on", counted(session.sites, "site", "sites")));
    }
    if session.events > 0 {
        facts.push(format!(
            "{} of about {} each",
            counted(session.events, "event", "events"),
            duration(session.event_ns.round() as i64)
        ));
    }
    if session.sample_hz > 0 {
        facts.push(format!("{} at {} Hz", counted(session.samples, "sample", "samples"), count(session.sample_hz)));
    }
    if session.untranslated > 0 {
        facts.push(format!("{} of unknown region", counted(session.untranslated, "sample", "samples")));
    }
    if session.dropped > 0 {
        facts.push(format!("{} dropped", counted(session.dropped, "event", "events")));
    }
    if session.blocked > 0 {
        let long = if session.waited_ns > 0 { format!(", {}", duration(session.waited_ns)) } else { String::new() };
        facts.push(format!("threads waited {}{long} for the recorder", counted(session.blocked, "time", "times")));
    }
    if session.stopped_ns > 0 {
        facts.push(format!("stopped {} to switch sites", duration(session.stopped_ns)));
    }
    facts.push(format!("implicit flow: {}", session.implicit.as_str()));
    facts.push(format!("dependence: {} or stronger", session.dependence.as_str()));
    facts
}
