//! Collectors that run in the kernel as BPF programs and hand their records to user space.
//!
//! [`SchedCollector`] follows the scheduler's events of chosen processes; the programs are in `bpf/`, the layout of what
//! they share with user space in `bpf/sched_abi.h`. Nothing here names functions or writes files.

mod bpf_link;
mod clock;
mod collector;
mod error;
pub mod function_time;
mod kernel_type_cache;
mod kernel_types;
mod large_map;
mod living_task;
mod loaded_later;
mod loading;
mod mapping_events;
mod perf_event;
mod perf_record;
mod plain;
pub mod privilege;
pub mod record;
mod record_ring;
pub mod region_events;
pub mod requirement;
mod sampling_period;
mod skeleton;
mod system_call_sums;
mod system_call_time;
pub mod thread_samples;
mod totals;
mod traced_program;
pub mod unwind_table;
mod unwound_process;

pub use collector::{Audit, Lost, SchedCollector, SchedSettings, Storage};
pub use error::{CollectError, DESCRIPTORS};
pub use living_task::living_task;
pub use mapping_events::{MappingChange, MappingEvent, MappingEvents};
pub use perf_event::{SampledEvent, interrupt_ns};
pub use perf_record::CodeMapping;
pub use system_call_time::{
    CallOfRecord, Clocks, SystemCall, SystemCallEntries, SystemCallTotal, SystemCallTotals, ThreadSystemCalls,
};
pub use totals::{ApplicationTotals, OpenThread};
