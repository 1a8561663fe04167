use serde::Serialize;

/// Waiting of one thread group in one API for one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// Thread group that waited.
    pub group: String,
    /// Blocking API, demangled.
    pub api: String,
    /// What was waited for; empty if unknown.
    pub object: String,
    /// Number of waits.
    pub count: i64,
    /// Sum, ns.
    pub ns: i64,
    /// Component that called (display name).
    pub caller: String,
}
