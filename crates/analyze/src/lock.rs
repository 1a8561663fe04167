use serde::Serialize;

/// One lock on one call path, summed over processes of the same object name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockRow {
    /// Kind, address and symbol of the lock.
    pub object: String,
    /// Call path of the acquisition, outermost first.
    pub path: String,
    /// Acquisitions.
    pub acquisitions: i64,
    /// Acquisitions that found the lock held.
    pub contended: i64,
    /// Time waited, ns.
    pub wait_ns: i64,
    /// Time held, ns; estimated from sampled acquisitions.
    pub hold_ns: i64,
    /// Process whose memory holds the lock.
    pub process: i32,
}
