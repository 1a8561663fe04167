//! What a place waits for.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedWait, WaitKind};

use super::Source;

/// What a place waited for while nothing else ran.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceWait {
    /// What for.
    pub kind: WaitKind,
    /// The object, empty if there is none.
    pub object: String,
    /// Idle time that these waits ended, ns.
    pub idle_ns: i64,
    /// Their whole time, ns.
    pub ns: i64,
    /// Of it, time in which another thread was active, ns.
    pub beside_ns: i64,
    /// Waits, also those that ended no idle time.
    pub count: i64,
}

/// Waits of a place for one thing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waited {
    pub idle_ns: i64,
    pub ns: i64,
    pub beside_ns: i64,
    pub count: i64,
}

impl Waited {
    /// One of them.
    pub fn add(&mut self, wait: &SchedWait, beside_ns: i64) {
        self.ns += wait.ns;
        self.beside_ns += beside_ns;
        self.count += wait.count;
    }
}

/// What was waited for, by idle time, longest first.
pub(super) fn waits(source: &Source<'_>, waiting: &FxHashMap<(WaitKind, u32), Waited>) -> Vec<PlaceWait> {
    let wait = |(&(kind, object), &Waited { idle_ns, ns, beside_ns, count }): (&(WaitKind, u32), &Waited)| PlaceWait {
        kind,
        object: source.objects.name(object).to_owned(),
        idle_ns,
        ns,
        beside_ns,
        count,
    };
    let mut waiting: Vec<PlaceWait> = waiting.iter().map(wait).collect();
    waiting.sort_by(|a, b| (Reverse(a.idle_ns), a.kind, &a.object).cmp(&(Reverse(b.idle_ns), b.kind, &b.object)));
    waiting
}
