//! Rows of the locks that a process' threads took.

use std::collections::HashMap;

use transect_profile_model::{Lock, ProcessId};

use super::{Assembler, Named, address_label};
use crate::extent;
use crate::names::Names;

impl Assembler<'_> {
    pub(super) fn add_locks(
        &mut self,
        p: &extent::Process,
        process: ProcessId,
        threads: &[extent::Thread],
        names: &mut Names,
        slots: &HashMap<u32, Option<Named>>,
    ) {
        let mut rows: HashMap<(u64, u64), [f64; 6]> = HashMap::new();
        let mut around: HashMap<(u64, u64), u64> = HashMap::new();
        for l in threads.iter().flat_map(|t| &t.locks) {
            let row = rows.entry((l[0], l[1])).or_default();
            for (sum, value) in row.iter_mut().zip(&l[2..7]) {
                *sum += *value as f64;
            }
            around.entry((l[0], l[1])).or_insert(l[7]);
        }
        for ((object, caller), [acquisitions, contended, wait, held, samples, _]) in rows {
            let slots_word = around[&(object, caller)];
            let api = slots.get(&(slots_word as u32)).and_then(|n| n.as_ref());
            let kind = match api.map(|n| n.symbol.as_str()) {
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
            let hold = if samples > 0.0 { held * acquisitions / samples } else { 0.0 };
            self.profile.locks.push(Lock {
                process,
                object: format!("{kind} {}", address_label(p, names, object)),
                // The function that takes the lock is often the API itself.
                path: if enclosing.strip_suffix(" > ") == Some(place.as_str()) {
                    place
                } else {
                    format!("{enclosing}{place}")
                },
                acquisitions: acquisitions as i64,
                contended: contended as i64,
                wait_ns: self.scale.ns(wait),
                hold_ns: self.scale.ns(hold),
            });
        }
    }
}
