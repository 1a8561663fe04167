//! Numbers as people write them.

/// A duration with three significant digits and its unit.
pub(crate) fn time(ns: i64) -> String {
    let (value, unit) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A number of things: exact below a million.
pub(crate) fn count(number: i64) -> String {
    let (value, unit) = match number.unsigned_abs() {
        0..1_000_000 => return grouped(number),
        1_000_000..1_000_000_000 => (number as f64 / 1e6, "million"),
        _ => (number as f64 / 1e9, "billion"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A number of things, with the word for one of them or for several.
pub(crate) fn counted(number: i64, one: &str, several: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { several })
}

/// A size in bytes.
pub(crate) fn size(bytes: f64) -> String {
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
pub(crate) fn percent(share: f64) -> String {
    if share >= 9.95 { format!("{share:.0} %") } else { format!("{share:.1} %") }
}

/// A share that rests on few samples: whole tens, or whole ones of a small one.
pub(crate) fn about(share: f64) -> String {
    let step = if share < 9.5 { 1.0 } else { 10.0 };
    format!("about {:.0} %", (share / step).round() * step)
}

/// A word for a POSIX shell.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A function's name without its parameters; the whole where nothing would be left.
pub(crate) fn bare(function: &str) -> &str {
    // Of `ns::(anonymous namespace)::f(int)` and `operator()(int)` the last bracket at level 0 is the parameters'.
    let name = function.trim_end_matches(" const");
    let Some(inner) = name.strip_suffix(')') else { return function };
    let mut level = 0;
    for (at, c) in inner.char_indices().rev() {
        match c {
            ')' => level += 1,
            // One after a space is part of a name that somebody made up: `StubRoutines (2)`.
            '(' if level == 0 && inner[..at].ends_with(' ') => return function,
            '(' if level == 0 => return if at == 0 { function } else { &function[..at] },
            '(' => level -= 1,
            _ => {}
        }
    }
    function
}

/// A function's name for a sentence: without parameters and, where it is long, without template arguments.
pub(crate) fn brief(function: &str) -> String {
    const LONG: usize = 60;
    let name = bare(crate::criticality::qualified(function));
    if name.chars().count() <= LONG {
        return name.to_owned();
    }
    let mut level = 0_usize;
    let mut text = String::new();
    let mut before = ' ';
    for c in name.chars() {
        // The `>` of an arrow and of a comparison close nothing.
        match c {
            '<' if !text.ends_with("operator") && !text.ends_with("operator<") => {
                level += 1;
                if level == 1 {
                    text.push_str("<…>");
                }
            }
            '>' if level > 0 && before != '-' => level -= 1,
            c if level == 0 => text.push(c),
            _ => {}
        }
        before = c;
    }
    text
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
        let names = ["f(int)", "(anonymous namespace)::f(int (*)()) const", "S::operator()(int)", "main", "g(", "()"];
        let shown = ["f", "(anonymous namespace)::f", "S::operator()", "main", "g(", "()"];
        assert_eq!(names.map(bare), shown);
        let long =
            "ns::Table<std::pair<std::string, int>, std::allocator<std::string> >::find_or_insert_with_hint(int)";
        assert_eq!(brief(long), "ns::Table<…>::find_or_insert_with_hint");
        assert_eq!(brief("V<int>::push(int)"), "V<int>::push");
        assert_eq!(
            (brief("StubRoutines (2)").as_str(), bare("StubRoutines (2)")),
            ("StubRoutines (2)", "StubRoutines (2)")
        );
        assert_eq!(brief("int (anonymous namespace)::f(int)"), "(anonymous namespace)::f");
        assert_eq!([percent(3.25), percent(42.4)], ["3.2 %", "42 %"]);
        assert_eq!(
            [about(3.25), about(9.4), about(12.0), about(79.6)],
            ["about 3 %", "about 9 %", "about 10 %", "about 80 %"]
        );
        assert_eq!([shell("libc.so.6"), shell("f(int)"), shell("it's")], ["libc.so.6", "'f(int)'", "'it'\\''s'"]);
    }
}
