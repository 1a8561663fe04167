//! Bars of eighth blocks.

/// Full and partial blocks, by eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar whose length is `share` (0–100) of `columns`; anything above zero shows at least an eighth.
pub(crate) fn bar(share: f64, columns: usize) -> String {
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
        assert_eq!(split_bar(-1.0, 2), (String::new(), "░░".into()));
    }
}
