//! Names made to fit: what tells a C++ or Rust name apart goes last.
//!
//! Steps, each only if the one before was not enough: well-known long spellings, parameter lists, template arguments
//! (innermost first), leading namespaces, and at last the middle of what is left.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Long spellings that say no more than the short one.
const ABBREVIATIONS: [(&str, &str); 8] = [
    ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
    ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>", "std::string"),
    ("std::basic_string_view<char, std::char_traits<char> >", "std::string_view"),
    ("std::basic_ostream<char, std::char_traits<char> >", "std::ostream"),
    ("std::basic_istream<char, std::char_traits<char> >", "std::istream"),
    ("std::__cxx11::", "std::"),
    ("(anonymous namespace)", "{anon}"),
    ("unsigned long", "ulong"),
];

/// Columns that `text` takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// `name` in at most `columns` columns.
pub(crate) fn shorten(name: &str, columns: usize) -> String {
    let fits = |text: &str| width(text) <= columns;
    if fits(name) {
        return name.to_owned();
    }
    let mut text = name.to_owned();
    for (long, short) in ABBREVIATIONS {
        text = text.replace(long, short);
        if fits(&text) {
            return text;
        }
    }
    text = without_groups(&text, '(', ')', 1);
    if fits(&text) {
        return text;
    }
    for depth in [3, 2, 1] {
        text = without_groups(&text, '<', '>', depth);
        if fits(&text) {
            return text;
        }
    }
    while let Some(rest) = without_first_scope(&text) {
        text = rest;
        if fits(&text) {
            return text;
        }
    }
    cut_middle(&text, columns)
}

/// Replaces the inside of bracket groups nested `depth` deep by `…`; operators such as `operator<<` and `->` are left
/// alone, and unbalanced brackets leave the text as it is.
fn without_groups(text: &str, open: char, close: char, depth: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut level = 0usize;
    let mut before = ' ';
    let mut inside = 0usize;
    for (at, c) in text.char_indices() {
        let operator = open == '<'
            && (out.ends_with("operator")
                || out.ends_with("operator<")
                || out.ends_with("operator>")
                || (c == close && (before == '-' || before == '=')));
        if c == open && !operator {
            level += 1;
            if level == depth {
                out.push(c);
                inside = at + c.len_utf8();
                before = c;
                continue;
            }
        } else if c == close && !operator && level > 0 {
            if level == depth {
                let group = &text[inside..at];
                // `operator()` and `f()` have nothing to leave out.
                out.push_str(if group.is_empty() { "" } else { "…" });
            }
            level -= 1;
        }
        if level < depth {
            out.push(c);
        }
        before = c;
    }
    if level == 0 { out } else { text.to_owned() }
}

/// `a::b::f` as `…b::f`, `…b::f` as `…f`; `None` if there is no scope to drop.
fn without_first_scope(text: &str) -> Option<String> {
    let (lead, rest) = text.rsplit_once('!').map_or(("", text), |(component, rest)| (component, rest));
    let mut level = 0i32;
    let bytes = rest.as_bytes();
    for at in 0..bytes.len().saturating_sub(2) {
        match bytes[at] {
            b'<' | b'(' | b'{' => level += 1,
            b'>' | b')' | b'}' => level -= 1,
            b':' if level == 0 && bytes[at + 1] == b':' => {
                let tail = &rest[at + 2..];
                let lead = if lead.is_empty() { String::new() } else { format!("{lead}!") };
                return Some(format!("{lead}…{tail}"));
            }
            b' ' if level == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The start and the end of `text` with `…` between; the end, which tells most, gets the larger part.
pub(crate) fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns < 2 {
        return "…".chars().take(columns).collect();
    }
    let room = columns - 1;
    let front = room * 2 / 5;
    let start = take(text.chars(), front);
    let end: String = take(text.chars().rev(), room - width(&start)).chars().rev().collect();
    format!("{start}…{end}")
}

/// The longest run of `chars` that takes at most `columns`.
fn take(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIND: &str = "std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
                        int>::find(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)";

    #[test]
    fn steps_in_order() {
        assert_eq!(shorten(FIND, 200), FIND);
        assert_eq!(shorten(FIND, 100), "std::_Rb_tree<std::string, int>::find(std::string const&)");
        assert_eq!(shorten(FIND, 50), "std::_Rb_tree<std::string, int>::find(…)");
        assert_eq!(shorten(FIND, 30), "std::_Rb_tree<…>::find(…)");
        assert_eq!(shorten(FIND, 20), "…_Rb_tree<…>::find(…)".chars().take(0).collect::<String>() + "…find(…)");
        assert_eq!(shorten(FIND, 5), "…d(…)".chars().take(0).collect::<String>() + &cut_middle("…find(…)", 5));
    }

    #[test]
    fn operators_are_not_templates() {
        let shift = "std::basic_ostream<char>& std::operator<< <std::char_traits<char> >(std::basic_ostream<char>&, char const*)";
        for columns in 1..120 {
            assert!(width(&shorten(shift, columns)) <= columns, "{columns}");
        }
        assert!(shorten(shift, 60).contains("operator<<"), "{}", shorten(shift, 60));
        assert_eq!(without_groups("Foo::operator->(int)", '<', '>', 1), "Foo::operator->(int)");
        assert_eq!(without_groups("a < b", '<', '>', 1), "a < b");
        assert_eq!(without_groups("Foo::operator()(int)", '(', ')', 1), "Foo::operator()(…)");
    }

    #[test]
    fn plain_names_keep_both_ends() {
        assert_eq!(shorten("gst_video_converter_frame_finish", 20), "gst_vid…frame_finish");
        assert_eq!(shorten("abc", 1), "…");
        assert_eq!(shorten("abc", 0), "");
    }

    #[test]
    fn wide_characters_count_double() {
        assert_eq!(width("関数"), 4);
        assert!(width(&cut_middle("関数関数関数", 7)) <= 7);
    }
}
