use serde::Serialize;

/// One component: what it spends itself, what it waits for, and what it spends in each component it calls (the
/// component view of Scaler, ASE '24, section 3.5).
///
/// Over one process the `self_ns` and `wait_ns` of all rows add up to the lifetime of its threads, plus the time of
/// calls made by callbacks (those belong to the API that called back *and* are flows of their own).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentRow {
    /// File name; two of the same name carry the shortest distinguishing path suffix.
    pub component: String,
    /// Path as the loader reported it.
    pub path: String,
    /// GNU build-id in hexadecimal, empty if there is none.
    pub build_id: String,
    /// Time in the component less the calls that it makes, ns; for an executable its threads' lifetime less their
    /// outermost calls. Waiting is not in it. `None` where the recording took no times.
    pub self_ns: Option<i64>,
    /// Time that this component, as the direct caller, waited (classes `lock` and `wait`), ns.
    pub wait_ns: Option<i64>,
    /// Calls into it from other components.
    pub calls_in: i64,
    /// Calls from it into other components.
    pub calls_out: i64,
    /// What it spends in each other component, waiting APIs left out; longest first.
    pub others: Vec<OtherRow>,
    /// `self_ns`, each instant divided by the number of active threads.
    pub self_attributed_ns: Option<i64>,
    /// `wait_ns`, attributed in the same way.
    pub wait_attributed_ns: Option<i64>,
    /// Share of all threads' attributed lifetime in `self_attributed_ns`, 0–100.
    pub self_percent: Option<f64>,
    /// Share of all threads' attributed lifetime in `wait_attributed_ns`, 0–100.
    pub wait_percent: Option<f64>,
    /// Share of all threads' raw lifetime in `self_ns`, 0–100.
    pub self_raw_percent: Option<f64>,
    /// Share of all threads' raw lifetime in `wait_ns`, 0–100.
    pub wait_raw_percent: Option<f64>,
    /// True for a process' executable.
    pub executable: bool,
    /// True for the vDSO, the dynamic loader and unknown code.
    pub synthetic: bool,
}

/// One component's calls into another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherRow {
    /// The called component.
    pub component: String,
    /// Time from entry to return of calls that do not wait themselves, ns.
    pub total_ns: Option<i64>,
    /// The same, attributed.
    pub attributed_ns: Option<i64>,
    /// Calls, waiting ones included.
    pub calls: i64,
    /// Share of all threads' attributed lifetime, 0–100.
    pub percent: Option<f64>,
}
