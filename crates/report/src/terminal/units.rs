//! Numbers for people.

/// Nanoseconds with three significant digits and the unit that suits: `12 ns`, `45.6 ms`, `1.23 s`, `16.7 min`.
pub fn duration(ns: i64) -> String {
    const UNITS: [(f64, &str); 6] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (60e9, "min"), (3600e9, "h")];
    if ns < 0 {
        return format!("-{}", duration(ns.saturating_neg()));
    }
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let ns = ns as f64;
    // A value that rounds up to the next unit belongs there: 999.6 µs is 1.00 ms. Minutes start at 100 s.
    let fits = |i: usize| match UNITS.get(i + 1) {
        None => true,
        Some((next, "min")) => ns < next * (5.0 / 3.0) - 0.05e9,
        Some((next, _)) => ns < next * 0.9995,
    };
    let unit = (1..UNITS.len()).find(|&i| fits(i)).unwrap_or(UNITS.len() - 1);
    let (size, name) = UNITS[unit];
    format!("{} {name}", three_digits(ns / size))
}

/// An optional time; `–` where none was taken.
pub(crate) fn optional_duration(ns: Option<i64>) -> String {
    ns.map_or_else(|| "–".to_owned(), duration)
}

/// Three significant digits, no exponent.
fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as i64),
    }
}

/// An integer with a comma at each thousand.
pub fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if n < 0 {
        out.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `n` and its noun: `1 thread`, `2 threads`.
pub(crate) fn counted(n: i64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A share, 0–100, with one decimal: `61.0 %`, `<0.1 %`, `0 %`.
pub fn percent(share: f64) -> String {
    match share {
        s if !s.is_finite() => "–".to_owned(),
        0.0 => "0 %".to_owned(),
        s if s > 0.0 && s < 0.05 => "<0.1 %".to_owned(),
        s => format!("{s:.1} %"),
    }
}

/// A share that rests on few samples, as the findings' sentences say it: `~80 %`, `~7 %`.
pub(crate) fn about(share: f64) -> String {
    let step = if share < 9.5 { 1.0 } else { 10.0 };
    format!("~{:.0} %", (share / step).round() * step)
}

/// An optional share; `–` where it is not known.
pub(crate) fn optional_percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), percent)
}

/// Share of `part` in `whole`, 0–100; `None` for an empty whole.
pub fn share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

/// Bytes in binary units: `512 B`, `1.50 KiB`.
pub fn bytes(n: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n.unsigned_abs() < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (12, "12 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (999_400, "999 µs"),
            (999_600, "1.00 ms"),
            (45_600_000, "45.6 ms"),
            (9_996_000, "10.0 ms"),
            (1_234_567_890, "1.23 s"),
            (83_400_000_000, "83.4 s"),
            (99_940_000_000, "99.9 s"),
            (99_960_000_000, "1.67 min"),
            (1_000_000_000_000, "16.7 min"),
            (3_599_990_000_000, "1.00 h"),
            (7_200_000_000_000, "2.00 h"),
            (7_200_000_000_000_000, "2,000 h"),
            (-1_500, "-1.50 µs"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
        assert_eq!(duration(i64::MAX), "2,562,048 h");
        assert_eq!(duration(i64::MIN), "-2,562,048 h");
    }

    #[test]
    fn counts_are_grouped() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (-1000, "-1,000")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn shares() {
        for (p, text) in [(0.0, "0 %"), (0.01, "<0.1 %"), (0.05, "0.1 %"), (61.04, "61.0 %"), (100.0, "100.0 %")] {
            assert_eq!(percent(p), text);
        }
        assert_eq!(percent(f64::NAN), "–");
        assert_eq!([79.6, 12.3, 9.4, 0.2].map(about), ["~80 %", "~10 %", "~9 %", "~0 %"]);
        assert_eq!(share(1, 0), None);
    }

    #[test]
    fn byte_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.00 MiB");
        assert_eq!(bytes(i64::MAX), "8.00 EiB");
    }
}
