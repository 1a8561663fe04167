use serde::Serialize;
use transect_profile_model::Profile;

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

/// Losses, by kind, most first.
pub fn loss(profile: &Profile) -> Vec<LossRow> {
    let mut losses: Vec<_> = profile.loss.iter().collect();
    losses.sort_by(|a, b| {
        (a.what, b.count).cmp(&(b.what, a.count)).then_with(|| (&a.place, &a.reason).cmp(&(&b.place, &b.reason)))
    });
    let row = |loss: &transect_profile_model::Loss| LossRow {
        what: loss.what.as_str().to_owned(),
        place: loss.place.clone(),
        count: loss.count,
        reason: loss.reason.clone(),
    };
    losses.into_iter().map(row).collect()
}
