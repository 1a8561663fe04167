//! Collectors that run in the kernel as BPF programs and hand their records to user space.
//!
//! [`SchedCollector`] follows the scheduler's events of chosen processes; the programs are in `bpf/`, the layout of what
//! they share with user space in `bpf/sched_abi.h`. Nothing here names functions or writes files.

mod collector;
mod error;
mod perf_event;
mod plain;
pub mod privilege;
pub mod record;
pub mod requirement;
mod skeleton;
mod totals;
pub mod unwind_table;
mod unwound_process;

pub use collector::{Audit, Lost, SchedCollector, SchedSettings, Storage};
pub use error::CollectError;
pub use totals::{ApplicationTotals, OpenThread};
