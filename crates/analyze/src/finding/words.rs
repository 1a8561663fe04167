//! Numbers as people write them.

/// A duration with three significant digits and its unit.
pub(super) fn time(ns: i64) -> String {
    let (value, unit) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A number of things: exact below a million.
pub(super) fn count(number: i64) -> String {
    let (value, unit) = match number.unsigned_abs() {
        0..1_000_000 => return grouped(number),
        1_000_000..1_000_000_000 => (number as f64 / 1e6, "million"),
        _ => (number as f64 / 1e9, "billion"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A size in bytes.
pub(super) fn size(bytes: f64) -> String {
    if (bytes - 1.0).abs() < 0.05 {
        "1 byte".to_owned()
    } else if bytes < 10.0 && bytes.fract() > 0.05 {
        format!("{bytes:.1} bytes")
    } else if bytes < 10_240.0 {
        format!("{bytes:.0} bytes")
    } else if bytes < 10_485_760.0 {
        format!("{:.0} KiB", bytes / 1024.0)
    } else {
        format!("{:.0} MiB", bytes / 1_048_576.0)
    }
}

/// A share, 0–100.
pub(super) fn percent(share: f64) -> String {
    if share >= 9.95 { format!("{share:.0} %") } else { format!("{share:.1} %") }
}

/// A word for a POSIX shell.
pub(super) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(
            [time(7), time(1_500), time(45_600_000), time(123_456_789_012)],
            ["7 ns", "1.50 µs", "45.6 ms", "123 s"]
        );
        assert_eq!(
            [count(999), count(12_345), count(31_250_000), count(4_000_000_000)],
            ["999", "12,345", "31.2 million", "4.00 billion"]
        );
        assert_eq!(
            [size(1.0), size(1.25), size(300.0), size(65_536.0)],
            ["1 byte", "1.2 bytes", "300 bytes", "64 KiB"]
        );
        assert_eq!([percent(3.25), percent(42.4)], ["3.2 %", "42 %"]);
        assert_eq!([shell("libc.so.6"), shell("f(int)"), shell("it's")], ["libc.so.6", "'f(int)'", "'it'\\''s'"]);
    }
}
