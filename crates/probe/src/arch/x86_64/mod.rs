//! The handlers, in assembly: [`handlers.s`](../../../src/arch/x86_64/handlers.s) states their contract.

use core::arch::global_asm;
use core::mem::offset_of;

use transect_event_abi::probe_arena::{
    CALLEES, CallerRange, CallerRules, DISARMED_OFFSET, FIRST_SHIFT, FIRST_WINDOW, NOT_CALLED, ProbeHeader,
    SITE_CAPACITY, SiteCounters, SiteRecord, UNTIL_FIRST_SHIFT,
};
use transect_event_abi::region_arena::{
    RING_EVENTS, RINGS_OFFSET, RegionEvent, RingRecord, THREAD_HASH_SHIFT, THREAD_SEARCH, THREAD_SLOTS, THREADS_OFFSET,
};
use transect_event_abi::thread::HISTOGRAM_BUCKETS;

use crate::descriptor::{Descriptor, WANTS_EXIT};
use crate::frame::{Frame, Globals, transect_probe_globals};
use crate::scope::{HASH_SHIFT, SEARCH, THREADS, ThreadScope};

pub mod syscall;

/// log2 of the bytes between the shards of one site's counters.
const SHARD_SHIFT: u32 = (SITE_CAPACITY * size_of::<SiteCounters>()).trailing_zeros();
const _: () = assert!((SITE_CAPACITY * size_of::<SiteCounters>()).is_power_of_two());
const _: () = assert!(transect_event_abi::probe_arena::SHARDS == 16);
const _: () = assert!(size_of::<Frame>() == 32);
const _: () = assert!(size_of::<RingRecord>() == 128 && size_of::<RegionEvent>() == 24);
const _: () = assert!(DISARMED_OFFSET < i32::MAX as u64);
// What `handlers.s` counts on.
const _: () = assert!(size_of::<CallerRange>() == 16 && CALLEES == 4);
const _: () = assert!(size_of::<ThreadScope>() == 256 && offset_of!(ThreadScope, key) == 0);

global_asm!(
    include_str!("handlers.s"),
    globals = sym transect_probe_globals,
    G_HEADER = const offset_of!(Globals, header),
    G_KEYS = const offset_of!(Globals, keys),
    G_POOL = const offset_of!(Globals, pool),
    G_MASK = const offset_of!(Globals, mask),
    G_SCOPES = const offset_of!(Globals, scopes),
    G_LAYERED = const offset_of!(Globals, layered),
    G_XSAVE_SIZE = const offset_of!(Globals, xsave_size),
    G_XSAVE_MASK = const offset_of!(Globals, xsave_mask),
    H_UNTIMED = const offset_of!(ProbeHeader, untimed),
    H_LOST = const offset_of!(ProbeHeader, lost_returns),
    H_CONFINED = const offset_of!(ProbeHeader, confined),
    H_UNREAD = const offset_of!(ProbeHeader, unread),
    H_SELF_TOGGLES = const offset_of!(ProbeHeader, self_toggles),
    D_RECORD = const offset_of!(Descriptor, record),
    D_COUNTERS = const offset_of!(Descriptor, counters),
    D_HISTOGRAM = const offset_of!(Descriptor, histogram),
    D_ID = const offset_of!(Descriptor, id),
    D_FLAGS = const offset_of!(Descriptor, flags),
    D_USER_ENTER = const offset_of!(Descriptor, user_enter),
    D_USER_EXIT = const offset_of!(Descriptor, user_exit),
    D_WANTS_EXIT = const WANTS_EXIT,
    F_RETURN = const offset_of!(Frame, return_address),
    F_START = const offset_of!(Frame, start),
    F_DESCRIPTOR = const offset_of!(Frame, descriptor),
    F_COOKIE = const offset_of!(Frame, cookie),
    S_CALLS = const offset_of!(SiteCounters, calls),
    S_SAMPLES = const offset_of!(SiteCounters, samples),
    S_TICKS = const offset_of!(SiteCounters, ticks),
    S_FIRST = const offset_of!(SiteCounters, first),
    FIRST_SHIFT = const FIRST_SHIFT,
    FIRST_WINDOW = const FIRST_WINDOW,
    R_WINDOW = const offset_of!(SiteRecord, window),
    R_UNTIL_FIRST = const offset_of!(SiteRecord, until_first),
    UNTIL_FIRST_SHIFT = const UNTIL_FIRST_SHIFT,
    NOT_CALLED = const NOT_CALLED,
    R_REMAINING = const offset_of!(SiteRecord, remaining),
    R_OFF = const offset_of!(SiteRecord, off),
    R_ARMED = const offset_of!(SiteRecord, armed_at),
    R_ON_TICKS = const offset_of!(SiteRecord, on_ticks),
    R_WORD = const offset_of!(SiteRecord, word),
    R_MAX = const offset_of!(SiteRecord, max_ticks),
    DISARMED = const DISARMED_OFFSET,
    SHARD_SHIFT = const SHARD_SHIFT,
    CAPACITY = const crate::trampoline::CAPACITY,
    BUCKETS = const HISTOGRAM_BUCKETS,
    C_INDEX = const offset_of!(CallerRules, index),
    C_USED_UP = const offset_of!(CallerRules, used_up),
    C_LIMIT = const offset_of!(CallerRules, limit),
    C_MISSES = const offset_of!(CallerRules, misses),
    C_MISS_LIMIT = const offset_of!(CallerRules, miss_limit),
    C_CALLERS = const offset_of!(CallerRules, callers),
    C_JUMPERS = const offset_of!(CallerRules, jumpers),
    T_PARENT_SLOT = const offset_of!(ThreadScope, parent_slot),
    T_PARENT_START = const offset_of!(ThreadScope, parent_start),
    T_PARENT_TICKS = const offset_of!(ThreadScope, parent_ticks),
    T_PARENT_CALLS = const offset_of!(ThreadScope, parent_calls),
    T_PARENT_LEFT = const offset_of!(ThreadScope, parent_left),
    T_CALLEE_SLOT = const offset_of!(ThreadScope, callee_slot),
    T_CALLEE_START = const offset_of!(ThreadScope, callee_start),
    T_CALLEE_INDEX = const offset_of!(ThreadScope, callee_index),
    T_CALLEE_TICKS = const offset_of!(ThreadScope, callee_ticks),
    T_CALLEE_CALLS = const offset_of!(ThreadScope, callee_calls),
    T_CALLEE_LEFT = const offset_of!(ThreadScope, callee_left),
    T_THROWN = const offset_of!(ThreadScope, thrown_at),
    T_OWN = const offset_of!(ThreadScope, own),
    THREADS = const THREADS,
    HASH_SHIFT = const HASH_SHIFT,
    SEARCH = const SEARCH,
    WORD_END = const crate::trampoline::BODY,
    G_REGIONS = const offset_of!(Globals, regions),
    G_TID_OFFSET = const offset_of!(Globals, tid_offset),
    G_NO_CLOCK = const offset_of!(Globals, no_clock),
    G_NOT_A_CHILD = const offset_of!(Globals, not_a_child),
    G_FLOW_REGION = const offset_of!(Globals, flow_region),
    RINGS_BEFORE = const RINGS_OFFSET - size_of::<RingRecord>() as u64,
    TIDS = const THREADS_OFFSET,
    TID_SHIFT = const THREAD_HASH_SHIFT,
    TID_LAST = const THREAD_SLOTS - 1,
    TID_SEARCH = const THREAD_SEARCH,
    RING_WRITTEN = const offset_of!(RingRecord, written),
    RING_LOOK_AT = const offset_of!(RingRecord, look_at),
    RING_PLACES = const offset_of!(RingRecord, events),
    RING_LAST = const RING_EVENTS - 1,
    E_TICKS = const offset_of!(RegionEvent, ticks),
    E_WHAT = const offset_of!(RegionEvent, what),
    E_STACK = const offset_of!(RegionEvent, stack),
    region_look = sym crate::region::look,
);

macro_rules! handlers {
    ($($(#[$doc:meta])* $variant:ident = $symbol:ident,)*) => {
        mod symbols {
            unsafe extern "C" {
                $(pub(super) fn $symbol();)*
            }
        }

        /// A handler for a descriptor's `enter` or `exit`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Handler {
            $($(#[$doc])* $variant,)*
        }

        impl Handler {
            /// Number of handlers.
            pub const COUNT: usize = [$(Handler::$variant),*].len();
            /// All, in the order of their numbers.
            pub const ALL: [Handler; Handler::COUNT] = [$(Handler::$variant),*];
            /// Their code in this image, in the order of their numbers.
            pub const CODE: [unsafe extern "C" fn(); Handler::COUNT] = [$(symbols::$symbol),*];

            /// Its address in this image.
            pub fn address(self) -> u64 {
                Handler::CODE[self as usize] as usize as u64
            }
        }
    };
}

handlers! {
    /// Does nothing (an empty probe's cost).
    Nothing = transect_probe_nothing,
    /// Counter tier: adds one to the site's calls.
    Count = transect_probe_count,
    /// Times every call.
    TimeEnter = transect_probe_time_enter,
    /// Times calls while the controller has granted samples, then switches the probe off.
    LatencyEnter = transect_probe_latency_enter,
    /// Exit of both timing handlers.
    TimeExit = transect_probe_time_exit,
    /// As `LatencyEnter`, in the thread's CPU time, ns.
    CpuEnter = transect_probe_cpu_enter,
    /// Exit of `CpuEnter`.
    CpuExit = transect_probe_cpu_exit,
    /// As `LatencyEnter`, in the thread's page faults.
    FaultsEnter = transect_probe_faults_enter,
    /// Exit of `FaultsEnter`.
    FaultsExit = transect_probe_faults_exit,
    /// At the entry of `prctl`: notes in `ProbeHeader::confined` when a thread asks for a filter of system calls, and in
    /// `Globals::no_clock` when it gives up the clock.
    PrctlEnter = transect_probe_prctl_enter,
    /// The same at the entry of `syscall`.
    SyscallEnter = transect_probe_syscall_enter,
    /// Times the outermost calls of a function, per thread ([`crate::scope`]).
    ScopeEnter = transect_probe_scope_enter,
    /// Times a function's calls by one other function, while that one is being timed.
    CalleeEnter = transect_probe_callee_enter,
    /// Exit of both.
    ScopeExit = transect_probe_scope_exit,
    /// Calls `user_enter`; integer registers are saved: it must not touch vector registers.
    IntegerEnter = transect_probe_integer_enter,
    /// Calls `user_exit` in the same tier.
    IntegerExit = transect_probe_integer_exit,
    /// Calls `user_enter`; integer registers and xmm0–15 are saved (baseline x86-64 code, no AVX).
    VectorEnter = transect_probe_vector_enter,
    /// Calls `user_exit` in the same tier.
    VectorExit = transect_probe_vector_exit,
    /// Calls `user_enter`; everything that XSAVE knows is saved.
    FullEnter = transect_probe_full_enter,
    /// Calls `user_exit` in the same tier.
    FullExit = transect_probe_full_exit,
    /// Writes an event of a feature region; for sites of [`crate::trampoline::Call::Region`] alone.
    Region = transect_probe_region,
    /// As `Region`, and tells the agent that counts calls by region ([`Globals::flow_region`]) first.
    RegionAndFlows = transect_probe_region_and_flows,
    /// As `Count`, called straight from the word (`Block::on_direct`).
    CountDirect = transect_probe_count_direct,
    /// As `IntegerEnter` without exit, called straight from the word.
    IntegerDirect = transect_probe_integer_direct,
    /// As `VectorEnter` without exit, called straight from the word.
    VectorDirect = transect_probe_vector_direct,
    /// As `FullEnter` without exit, called straight from the word.
    FullDirect = transect_probe_full_direct,
}
