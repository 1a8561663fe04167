//! Records of processes' mappings that nobody has asked for yet.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use transect_bpf_collect::{CodeMapping, MappingChange, MappingEvent, MappingEvents};

/// Processes that nobody asks for are forgotten when there are more.
const MAX_PROCESSES: usize = 4096;

/// Events by process, oldest first.
#[derive(Debug, Default)]
pub struct MappingLog {
    /// With this reader's number there.
    source: Option<(Rc<RefCell<MappingEvents>>, usize)>,
    pending: HashMap<i32, Vec<MappingEvent>>,
}

impl MappingLog {
    /// Events come from there.
    pub fn of(source: Rc<RefCell<MappingEvents>>) -> Self {
        let reader = source.borrow_mut().subscribe();
        Self { source: Some((source, reader)), ..Self::default() }
    }

    /// Takes what came meanwhile.
    pub fn collect(&mut self) {
        let Some((source, reader)) = &self.source else { return };
        for event in source.borrow_mut().take(*reader) {
            let events = self.pending.entry(event.tgid).or_default();
            // Those of different CPUs come one CPU after the other.
            let place = events.partition_point(|other| other.time <= event.time);
            events.insert(place, event);
        }
    }

    /// The process `tgid` has begun another program by `time`: what was before is void. Returns whether that was told.
    pub fn begin(&mut self, tgid: i32, time: u64) -> bool {
        self.collect();
        let Some(events) = self.pending.get_mut(&tgid) else { return false };
        let began = events.iter().rposition(|event| event.time <= time && event.change == MappingChange::Replaced);
        let old = began.map_or_else(|| events.partition_point(|event| event.time <= time), |at| at + 1);
        events.drain(..old);
        began.is_some()
    }

    /// Mappings of the program that runs now, in the order they were made.
    pub fn take(&mut self, tgid: i32) -> Vec<MappingChange> {
        let Some(events) = self.pending.get_mut(&tgid) else { return Vec::new() };
        let end = events.iter().position(|event| event.change == MappingChange::Replaced).unwrap_or(events.len());
        let taken: Vec<_> = events.drain(..end).map(|event| event.change).collect();
        if let (Some((source, _)), false) = (&self.source, taken.is_empty()) {
            let source = source.borrow();
            for change in &taken {
                if let MappingChange::Mapped(CodeMapping { path, inode: 1.., .. }) = change {
                    source.needs_table(path);
                }
            }
        }
        taken
    }

    /// True if by now the process runs another program than the one that was asked for last.
    pub fn moved_on(&self, tgid: i32) -> bool {
        self.pending.get(&tgid).is_some_and(|events| events.iter().any(|e| e.change == MappingChange::Replaced))
    }

    /// Forgets processes that `wanted` does not name, if there are many: other programs of the machine.
    pub fn forget(&mut self, wanted: impl Fn(i32) -> bool) {
        if self.pending.len() > MAX_PROCESSES {
            self.pending.retain(|&tgid, _| wanted(tgid));
        }
    }

    #[cfg(test)]
    pub fn with(events: Vec<MappingEvent>) -> Self {
        let mut log = Self::default();
        events.into_iter().for_each(|event| log.pending.entry(event.tgid).or_default().push(event));
        log
    }
}
