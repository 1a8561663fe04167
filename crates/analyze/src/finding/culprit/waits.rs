//! A place's waits in words.

use transect_profile_model::WaitKind;

use super::super::critical;
use super::super::words::{count, time};
use crate::criticality::{PlaceRow, PlaceWait};

/// A file with less of the time waited for files is one of many.
const ONE_OF_MANY: f64 = 0.5;
/// Part of the waits' time in which others run, from which that is said.
const BESIDE: f64 = 0.1;
/// Part of a place's idle time that waits of one kind have, from which the others are left out of their number.
const ONE_KIND: f64 = 0.9;
/// Mean time of a wait for a delayed acknowledgement, ns, and how many of them are a pattern.
const DELAYED_NS: std::ops::Range<i64> = 36_000_000..50_000_000;
const LEAST_ACKNOWLEDGED: i64 = 10;

/// How many waits the sentence is about, and how long they are: those of the kind that it names, unless others have a good part.
pub(super) fn counted_waits(place: &PlaceRow) -> String {
    let idle = |waits: &[&PlaceWait]| waits.iter().map(|wait| wait.idle_ns).sum::<i64>();
    let all: Vec<&PlaceWait> = place.waiting.iter().collect();
    let kind = all.first().map(|wait| wait.kind);
    let same: Vec<&PlaceWait> = all.iter().copied().filter(|wait| Some(wait.kind) == kind).collect();
    let of = if idle(&same) as f64 >= ONE_KIND * idle(&all) as f64 { same } else { all };
    let sum = |what: fn(&PlaceWait) -> i64| of.iter().map(|wait| what(wait)).sum::<i64>();
    let (number, waited, ran) = (sum(|wait| wait.count), sum(|wait| wait.ns), sum(|wait| wait.beside_ns));
    let beside = match ran as f64 >= BESIDE * waited as f64 {
        true => format!(", others ran for {} of that", time(ran)),
        false => String::new(),
    };
    match number {
        1 => format!("one wait of {}{beside}", time(waited)),
        _ => format!("{} waits, {} each{beside}", count(number), time(waited / number.max(1))),
    }
}

/// What a place waits for most, named where it is one thing and not one of many.
pub(super) fn waited(place: &PlaceRow, wait: &PlaceWait) -> String {
    let same = || place.waiting.iter().filter(|other| other.kind == wait.kind);
    let (ns, most): (i64, i64) = (same().map(|wait| wait.idle_ns).sum(), wait.idle_ns);
    let files = wait.kind.is_of_files();
    if files && (most as f64) < ONE_OF_MANY * ns as f64 {
        let name = critical::name(wait.kind).replace("the file", "files");
        return format!("{name}, {} among {}", wait.object, count(same().count() as i64));
    }
    critical::named(wait.kind, &wait.object)
}

/// Both ends wait: the one holds back its acknowledgement, some 40 ms on Linux (`TCP_DELACK_MIN`), the other holds back data
/// until that comes (RFC 896, Nagle's algorithm).
pub(super) fn waits_for_acknowledgement(wait: &PlaceWait) -> bool {
    wait.kind == WaitKind::Socket
        && wait.object.starts_with("tcp")
        && wait.count >= LEAST_ACKNOWLEDGED
        && DELAYED_NS.contains(&(wait.ns / wait.count))
}
