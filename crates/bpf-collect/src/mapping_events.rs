//! Which code processes map, as the kernel tells it when they do: also of those that end before anybody can look.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use crate::perf_record::{COMM, COMM_EXEC, CodeMapping, LOST, MMAP2, code_mapping, half, word};
use crate::record_ring::{RecordRing, code_mappings};
use crate::unwind_table::UnwindTables;

/// Bytes of the time behind each record.
const TIME: usize = 8;
/// Events that nobody asks for are not kept beyond this.
const MAX_QUEUE: usize = 100_000;

/// A process changed what its addresses mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingEvent {
    /// Process, as the recorder's pid namespace numbers it.
    pub tgid: i32,
    /// ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// What happened.
    pub change: MappingChange,
}

/// See [`MappingEvent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MappingChange {
    /// It begins to run another program: all that was mapped is gone.
    Replaced,
    /// Code is mapped.
    Mapped(CodeMapping),
}

/// Takes in the events of all processes of the machine.
pub struct MappingEvents {
    rings: Vec<RecordRing>,
    /// One for each reader.
    queues: Vec<VecDeque<MappingEvent>>,
    tables: Rc<UnwindTables>,
    /// Events that did not fit.
    pub lost: u64,
}

impl fmt::Debug for MappingEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MappingEvents({} CPUs)", self.rings.len())
    }
}

impl MappingEvents {
    /// Events from now on; none where the system does not permit that: mappings have to be read from `/proc` then.
    pub(crate) fn open(cpus: &[u32], tables: Rc<UnwindTables>) -> Rc<RefCell<Self>> {
        let rings: Result<Vec<_>, _> = cpus.iter().map(|&cpu| code_mappings(cpu)).collect();
        let rings = rings.unwrap_or_default();
        Rc::new(RefCell::new(Self { rings, queues: Vec::new(), tables, lost: 0 }))
    }

    /// Moves what there is out of the kernel's buffers.
    pub fn collect(&mut self) {
        let Self { rings, queues, lost, .. } = self;
        for ring in rings {
            ring.read(|kind, flags, body| {
                if kind == LOST {
                    *lost += word(body, 8).unwrap_or(1);
                }
                if let Some(event) = event(kind, flags, body) {
                    for queue in queues.iter_mut() {
                        match queue.len() < MAX_QUEUE {
                            true => queue.push_back(event.clone()),
                            false => *lost += 1,
                        }
                    }
                }
            });
        }
    }

    /// Events are kept for one more reader, whose number this returns.
    pub fn subscribe(&mut self) -> usize {
        self.queues.push(VecDeque::new());
        self.queues.len() - 1
    }

    /// What a reader has not seen yet, the oldest first, as far as one CPU is concerned.
    pub fn take(&mut self, reader: usize) -> impl Iterator<Item = MappingEvent> {
        self.collect();
        self.queues.get_mut(reader).into_iter().flat_map(|queue| queue.drain(..))
    }

    /// Code of this file is mapped by a process that is followed: its stacks need the file's unwind table.
    pub fn needs_table(&self, path: &str) {
        self.tables.file_mapped(Path::new(path));
    }
}

/// Reads the body of a record, which follows its header.
fn event(kind: u32, flags: u16, body: &[u8]) -> Option<MappingEvent> {
    let tgid = half(body, 0)?.cast_signed();
    let end = body.len().checked_sub(TIME)?;
    let time = word(body, end)?;
    let change = match kind {
        COMM if flags & COMM_EXEC != 0 => MappingChange::Replaced,
        MMAP2 => MappingChange::Mapped(code_mapping(body, end)?),
        _ => return None,
    };
    Some(MappingEvent { tgid, time, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let mut body: Vec<u8> = Vec::new();
        body.extend([7_u32, 8].iter().flat_map(|number| number.to_ne_bytes()));
        body.extend([0x1000_u64, 0x2000, 0x3000].iter().flat_map(|number| number.to_ne_bytes()));
        body.extend([254_u32, 1].iter().flat_map(|number| number.to_ne_bytes()));
        body.extend([77_u64, 5].iter().flat_map(|number| number.to_ne_bytes()));
        body.extend([5_u32, 2].iter().flat_map(|number| number.to_ne_bytes()));
        body.extend(b"/bin/true\0\0\0\0\0\0\0");
        body.extend(99_u64.to_ne_bytes());
        let change = MappingChange::Mapped(CodeMapping {
            start: 0x1000,
            end: 0x3000,
            offset: 0x3000,
            device: (254, 1),
            inode: 77,
            path: "/bin/true".to_owned(),
        });
        assert_eq!(event(MMAP2, 0, &body), Some(MappingEvent { tgid: 7, time: 99, change }));
        assert_eq!(event(MMAP2, 0, &body[..60]), None);
        assert_eq!(event(COMM, 0, &body), None);
        assert_eq!(event(COMM, COMM_EXEC, &body).map(|event| event.change), Some(MappingChange::Replaced));
        assert_eq!(event(COMM, COMM_EXEC, &body[..6]), None);
    }
}
