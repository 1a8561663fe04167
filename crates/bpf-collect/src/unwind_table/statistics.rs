//! What the tables hold and what they could not take.
use std::collections::BTreeMap;
use std::time::Duration;

/// State of the unwind tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnwindStatistics {
    /// Processes that the kernel's programs can unwind.
    pub processes: u64,
    /// Distinct lists of executable mappings among them.
    pub lists: u64,
    /// Mappings in these lists, and those that wait to be used again.
    pub mappings: u64,
    /// Objects that have a table.
    pub objects: u64,
    /// Rows of their tables.
    pub rows: u64,
    /// Bytes of their tables.
    pub table_bytes: u64,
    /// Distinct rules.
    pub rules: u64,
    /// Rows that go by frame pointer because there were too many distinct rules.
    pub rules_refused: u64,
    /// How often a process's mappings were read.
    pub scans: u64,
    /// The object that took longest to read, and how long.
    pub slowest_object: (String, Duration),
    /// What goes by frame pointer, or not at all, and why.
    pub refused: Vec<UnwindRefusal>,
}

/// Objects or processes that were refused for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnwindRefusal {
    /// Why.
    pub reason: String,
    /// How many times.
    pub count: u64,
    /// The first: path of an object or number of a process.
    pub example: String,
}

/// Refusals by reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(BTreeMap<String, (u64, String)>);

impl Refused {
    /// Counts one more.
    pub fn count(&mut self, reason: &str, example: &str) {
        let entry = self.0.entry(reason.to_owned()).or_insert_with(|| (0, example.to_owned()));
        entry.0 += 1;
    }

    pub fn into_list(self) -> Vec<UnwindRefusal> {
        let refusal = |(reason, (count, example))| UnwindRefusal { reason, count, example };
        self.0.into_iter().map(refusal).collect()
    }
}
