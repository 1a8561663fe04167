//! Rows of the locks that a process' threads took.

use std::collections::HashMap;

use transect_profile_model::{Lock, ProcessId};

use super::hold::{Cost, Hold, Record};
use super::{Assembler, Named, address_label};
use crate::extent;
use crate::names::Names;

/// A lock as taken from one place by all threads.
#[derive(Default)]
struct Row {
    acquisitions: f64,
    contended: f64,
    wait: f64,
    hold: Hold,
    /// Ticks in which it could be held.
    room: f64,
    slots: u64,
}

/// No lock is held longer, from all places together, than there is `room` for, by the slots of its first place.
fn fit(rows: &mut HashMap<(u64, u64), Row>, room: impl Fn(u64) -> f64) {
    let mut locks: HashMap<u64, (f64, f64)> = HashMap::new();
    for ((object, _), row) in rows.iter() {
        let lock = locks.entry(*object).or_default();
        *lock = (lock.0 + row.hold.ticks, lock.1.max(room(row.slots)));
    }
    for ((object, _), row) in rows.iter_mut() {
        let (held, room) = locks[object];
        row.room = row.room.min(room);
        if held > room {
            row.hold = row.hold.times(room / held);
        }
    }
}

impl Assembler<'_> {
    pub(super) fn add_locks(
        &mut self,
        p: &extent::Process,
        process: ProcessId,
        threads: &[extent::Thread],
        end: u64,
        names: &mut Names,
        slots: &HashMap<u32, Option<Named>>,
    ) {
        let cost = Cost::of(p, self.scale.rate);
        let mut rows: HashMap<(u64, u64), Row> = HashMap::new();
        for t in threads {
            let lived = t.life(end) as f64;
            for l in &t.locks {
                let record = Record::of(l);
                let row = rows.entry((l[0], l[1])).or_insert_with(|| Row { slots: l[7], ..Row::default() });
                row.acquisitions += record.acquisitions;
                row.contended += l[3] as f64;
                row.wait += record.wait;
                row.hold = row.hold.and(Hold::of(record, cost, (lived - record.wait).max(0.0)));
                row.room += lived;
            }
        }
        let lived = threads.iter().map(|t| t.life(end)).sum();
        let name = |word: u64| slots.get(&(word as u32)).and_then(|n| n.as_ref()).map(|n| n.symbol.as_str());
        // Those who read have it together.
        let reads = |word| name(word).is_some_and(|name| name.contains("rdlock"));
        let wall = end.saturating_sub(p.start);
        fit(&mut rows, |word| if reads(word) { lived } else { wall } as f64);
        for ((object, caller), row) in rows {
            let slots_word = row.slots;
            let kind = match name(slots_word) {
                Some(s) if s.contains("rwlock") => "rwlock",
                Some(s) if s.contains("spin") => "spin",
                _ => "mutex",
            };
            let place = match p.object_at(caller) {
                Some(o) => {
                    let object = &p.objects[o];
                    let file = object.path.rsplit('/').next().unwrap_or("").to_owned();
                    match names.at(object, caller - 1) {
                        Some(function) => format!("{file}!{function}"),
                        None => format!("{file}+{:#x}", caller - object.base),
                    }
                }
                None => format!("{caller:#x}"),
            };
            let enclosing = match slots.get(&((slots_word >> 32) as u32)) {
                Some(Some(n)) if slots_word >> 32 != 0 => {
                    let file =
                        self.profile.components[n.callee as usize].path.rsplit('/').next().unwrap_or("").to_owned();
                    format!("{file}!{} > ", n.api)
                }
                _ => String::new(),
            };
            let (low, high) = row.hold.interval(row.room);
            self.profile.locks.push(Lock {
                process,
                object: format!("{kind} {}", address_label(p, names, object)),
                // The function that takes the lock is often the API itself.
                path: if enclosing.strip_suffix(" > ") == Some(place.as_str()) {
                    place
                } else {
                    format!("{enclosing}{place}")
                },
                acquisitions: row.acquisitions as i64,
                contended: row.contended as i64,
                wait_ns: self.scale.ns(row.wait),
                hold_ns: self.scale.ns(row.hold.ticks),
                hold_ns_low: Some(self.scale.ns(low)),
                hold_ns_high: Some(self.scale.ns(high)),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_holders_of_a_lock_fit_into_the_time_that_there_was() {
        let hold = |ticks| Row { hold: Hold { ticks, ..Hold::default() }, room: 150.0, ..Row::default() };
        let mut rows = HashMap::from([((1, 1), hold(90.0)), ((1, 2), hold(30.0)), ((2, 1), hold(90.0))]);
        fit(&mut rows, |_| 100.0);
        assert_eq!([(1, 1), (1, 2), (2, 1)].map(|key| rows[&key].hold.ticks), [75.0, 25.0, 90.0]);
        assert!(rows.values().all(|row| row.room == 100.0));
    }
}
