//! speedscope's file format, <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>.
//!
//! One sampled profile for self time (criticality; of a walk, time on CPUs, off them and both) and one for calls
//! (samples), over the same stacks.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use serde::Serialize;
use transect_profile_model::Profile;

use crate::stack::{Stack, Stacks};
use crate::{ExportError, Format, Subject};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: String,
    active_profile_index: usize,
    shared: Shared,
    profiles: Vec<Sampled>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<NamedFrame>,
}

#[derive(Serialize)]
struct NamedFrame {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    samples: Vec<Vec<usize>>,
    weights: Vec<i64>,
}

pub(crate) fn write(profile: &Profile, subject: Subject, out: &mut dyn Write) -> Result<(), ExportError> {
    let stacks = Stacks::collect(profile, subject);
    let mut frames = Frames::default();
    let mut profiles = Vec::new();
    if subject == Subject::Walk {
        for (name, weight) in [
            ("both", (|s| s.self_ns) as fn(&Stack<'_>) -> i64),
            ("on-CPU", |s| s.total_ns),
            ("off-CPU", |s| s.attributed_ns),
        ] {
            profiles.push(sampled(name, "nanoseconds", &stacks, &mut frames, weight));
        }
    } else if stacks.has_times {
        let name = match subject {
            Subject::Criticality => "criticality",
            Subject::Features => "time",
            _ => "self time",
        };
        profiles.push(sampled(name, "nanoseconds", &stacks, &mut frames, |s| s.self_ns));
    }
    let counted = match subject {
        Subject::Flows => "calls",
        Subject::Features => "entries",
        _ => "samples and waits",
    };
    profiles.push(sampled(counted, "none", &stacks, &mut frames, |s| s.calls));
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("transect ", env!("CARGO_PKG_VERSION")).to_owned(),
        name: profile.meta.command.join(" "),
        active_profile_index: 0,
        shared: Shared { frames: frames.list },
        profiles,
    };
    serde_json::to_writer(out, &file).map_err(|e| ExportError::json(Format::Speedscope, e))
}

#[derive(Default)]
struct Frames {
    list: Vec<NamedFrame>,
    index: HashMap<String, usize>,
}

impl Frames {
    fn index(&mut self, name: String) -> usize {
        let next = self.list.len();
        let at = *self.index.entry(name.clone()).or_insert(next);
        if at == next {
            self.list.push(NamedFrame { name });
        }
        at
    }
}

fn sampled(
    name: &str,
    unit: &'static str,
    stacks: &Stacks<'_>,
    frames: &mut Frames,
    weight: impl Fn(&Stack<'_>) -> i64,
) -> Sampled {
    // Threads are not told apart here: equal stacks become one.
    let mut sums: BTreeMap<Vec<usize>, i64> = BTreeMap::new();
    for stack in stacks.rows.iter().filter(|s| weight(s) > 0) {
        let frames = stack.frames.iter().map(|f| frames.index(stacks.text(f))).collect();
        *sums.entry(frames).or_default() += weight(stack);
    }
    let (samples, weights): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
    let end_value = weights.iter().sum();
    Sampled { kind: "sampled", name: name.to_owned(), unit, start_value: 0, end_value, samples, weights }
}
