//! Foreign text made harmless: symbol, thread and file names come from the profiled program.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with every character that could steer a terminal or reorder its line spelled out as `\u{…}`: controls (C0,
/// DEL, C1 with its one-byte CSI), bidirectional overrides and marks, line separators, and invisible format characters
/// (Boucher and Anderson, "Trojan Source", 2021).
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hazard) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_hazard(c) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Whether somebody who writes `text` means `name`: by its characters, or as [`escape`] prints it.
pub fn is_named(text: &str, name: &str) -> bool {
    text == name || text.contains('\\') && name.contains(is_hazard) && text == escape(name)
}

/// True for characters that [`escape`] spells out.
pub fn is_hazard(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        for name in ["std::map<int, char>::operator[](int const&)", "größe", "関数", "_ZN3fooE", ""] {
            assert_eq!(escape(name), name);
        }
    }

    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(escape("\u{1b}[31mred"), "\\u{1b}[31mred");
        assert_eq!(escape("\u{9b}2J"), "\\u{9b}2J", "C1 CSI");
        assert_eq!(escape("a\nb\r\tc\u{7f}"), "a\\nb\\r\\tc\\u{7f}");
        assert_eq!(escape("\u{202e}tpircs\u{2066}x\u{2069}"), "\\u{202e}tpircs\\u{2066}x\\u{2069}");
        assert_eq!(escape("a\u{200b}b\u{feff}"), "a\\u{200b}b\\u{feff}");
        assert_eq!(escape("\u{1b}]0;title\u{7}"), "\\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn names_are_meant_as_they_are_and_as_they_are_printed() {
        let name = "a\nb\u{1b}[31m\u{200b}\u{202e}";
        assert!(is_named(name, name) && is_named("a\\nb\\u{1b}[31m\\u{200b}\\u{202e}", name));
        assert!(!is_named("a\\nb", name) && !is_named("a\\nb", "a"));
        // Of a name that can be printed as it is nothing is an escape.
        assert!(is_named("a\\nb", "a\\nb") && !is_named("a\nb", "a\\nb"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_hazard_is_left(text in any::<String>()) {
            let safe = escape(&text);
            prop_assert!(!safe.contains(is_hazard));
            prop_assert!(is_named(&safe, &text));
            if !text.contains(is_hazard) {
                prop_assert_eq!(&safe, &text);
            }
        }
    }
}
