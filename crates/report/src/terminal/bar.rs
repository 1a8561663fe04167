//! Bars of eighth blocks.

/// Full and partial blocks, by eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar whose length is `share` (0–100) of `columns`; anything above zero shows at least an eighth.
pub fn bar(share: f64, columns: usize) -> String {
    let full = (columns * 8) as f64;
    let mut eighths = (share.clamp(0.0, 100.0) / 100.0 * full).round() as usize;
    if share > 0.0 {
        eighths = eighths.max(1);
    }
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A bar of two parts that fills `columns`: `busy` (0–100) solid, the rest of `100` shaded. Returns both parts.
pub(crate) fn split_bar(busy: f64, columns: usize) -> (String, String) {
    let solid = (busy.clamp(0.0, 100.0) / 100.0 * columns as f64).round() as usize;
    ("█".repeat(solid), "░".repeat(columns - solid))
}

/// Whole columns of the parts of one bar, given their lengths in columns: their sum is the bar's length, rounded, at most
/// `columns` and at least 1 if anything is above zero.
pub(crate) fn parts_bar<const N: usize>(lengths: [f64; N], columns: usize) -> [usize; N] {
    let sum: f64 = lengths.iter().sum();
    let whole = if sum > 0.0 { (sum.round() as usize).clamp(1, columns) } else { 0 };
    let scale = if sum > 0.0 { whole as f64 / sum } else { 0.0 };
    // Borders are rounded, not lengths: so they add up.
    let mut end = 0.0;
    let mut start = 0;
    lengths.map(|length| {
        end += length * scale;
        let border = (end.round() as usize).min(whole);
        let part = border - start;
        start = border;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(bar(100.0, 4), "████");
        assert_eq!(bar(50.0, 4), "██");
        assert_eq!(bar(53.0, 4), "██▏");
        assert_eq!(bar(0.001, 4), "▏");
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(250.0, 2), "██");
        assert_eq!(split_bar(25.0, 4), ("█".into(), "░░░".into()));
        assert_eq!(parts_bar([1.4, 0.3, 2.2], 10), [1, 1, 2]);
        assert_eq!(parts_bar([0.0, 0.0, 0.02], 10), [0, 0, 1]);
        assert_eq!(parts_bar([9.0, 9.0, 9.0], 10), [3, 4, 3]);
        assert_eq!(parts_bar([0.0, 0.0], 10), [0, 0]);
        assert_eq!(split_bar(-1.0, 2), (String::new(), "░░".into()));
    }
}
