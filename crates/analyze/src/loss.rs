use serde::Serialize;

/// Something the recording knows it did not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossRow {
    /// What was lost, in words.
    pub what: String,
    /// Component, thread, process or file.
    #[serde(rename = "where")]
    pub place: String,
    /// How many.
    pub count: i64,
    /// Why.
    pub reason: String,
}
