//! Names made to fit: what tells them apart goes last.

use unicode_width::UnicodeWidthChar;

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

/// Columns that `text` takes on a terminal, character by character: sequences that some terminals join are not.
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// What a text is; decides which part of it says least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A demangled function. Left out, each only if the step before was not enough: well-known long spellings,
    /// parameter types, template arguments (innermost first), the return type, leading scopes, the middle.
    Function,
    /// File name of a component: left out from `.so` (of CPython's modules, `.cpython-`) on, then the middle.
    Component,
    /// A file: leading folders are left out, then as a component.
    File,
    /// A call path joined by ` > `: left out from the root, then as a function.
    Path,
    /// A function and its callers joined by ` ← `: left out from the outermost caller on, then as a function.
    Callers,
    /// Anything else: the middle is left out.
    Text,
}

/// `text` in at most `columns` columns.
pub fn shorten(text: &str, kind: Kind, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    match kind {
        Kind::Function => shorten_function(text, columns),
        Kind::Component => {
            let stem = [".cpython-", ".so"].iter().find_map(|end| text.split_once(end)).map_or(text, |(stem, _)| stem);
            cut_middle(if stem.is_empty() { text } else { stem }, columns)
        }
        Kind::File => shorten_file(text, columns),
        Kind::Path => shorten_path(text, columns),
        Kind::Callers => shorten_callers(text, columns),
        Kind::Text => cut_middle(text, columns),
    }
}

fn shorten_function(name: &str, columns: usize) -> String {
    let fits = |text: &str| width(text) <= columns;
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
    text = without_return_type(&text).to_owned();
    if fits(&text) {
        return text;
    }
    while let Some(rest) = without_first_scope(&text) {
        text = rest;
        if fits(&text) {
            return text;
        }
    }
    cut_middle(text.strip_suffix("(…)").unwrap_or(&text), columns)
}

/// `/usr/lib/x.so` as `…/lib/x.so`, `…/x.so`, `x`.
fn shorten_file(path: &str, columns: usize) -> String {
    let starts = path.match_indices('/').map(|(at, _)| &path[at..]);
    let fitting = starts.map(|rest| format!("…{rest}")).find(|text| width(text) <= columns);
    fitting.unwrap_or_else(|| {
        let name = path.rsplit('/').next().unwrap_or(path);
        shorten(name, Kind::Component, columns)
    })
}

/// Drops frames from the root of a path; of the last one, its component too.
fn shorten_path(path: &str, columns: usize) -> String {
    let frames: Vec<String> = frames(path).iter().map(|frame| shorten_function(frame, columns.max(24))).collect();
    for first in 0..frames.len() {
        let lead = if first == 0 { "" } else { "… > " };
        let text = format!("{lead}{}", frames[first..].join(" > "));
        if width(&text) <= columns {
            return text;
        }
    }
    shorten_function(frames.last().map_or("", String::as_str), columns)
}

/// Drops frames from the outermost caller on; each function's parameters go first.
fn shorten_callers(text: &str, columns: usize) -> String {
    const ARROW: &str = " ← ";
    let frames: Vec<String> = text.split(ARROW).map(|frame| shorten_function(frame, columns.min(40))).collect();
    for kept in (1..=frames.len()).rev() {
        let end = if kept == frames.len() { "" } else { " ← …" };
        let text = format!("{}{end}", frames[..kept].join(ARROW));
        if width(&text) <= columns {
            return text;
        }
    }
    shorten_function(text.split(ARROW).next().unwrap_or(""), columns)
}

/// The frames of a path; a ` > ` that closes template arguments separates nothing.
fn frames(path: &str) -> Vec<&str> {
    let (mut frames, mut start, mut level) = (Vec::new(), 0, 0usize);
    for (at, c) in path.char_indices() {
        match c {
            '<' if !path[..at].ends_with("operator") && !path[..at].ends_with("operator<") => level += 1,
            '>' if level > 0 => level -= 1,
            '>' if path[..at].ends_with(' ') && path[at + 1..].starts_with(' ') => {
                frames.push(&path[start..at - 1]);
                start = at + 2;
            }
            _ => {}
        }
    }
    frames.push(&path[start..]);
    frames
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

/// `T const& a::f(…)` as `a::f(…)`: demangled template functions start with their return type.
fn without_return_type(text: &str) -> &str {
    let mut level = 0i32;
    let mut name = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' if level == 0 => break,
            '<' | '(' | '{' | '[' => level += 1,
            '>' | ')' | '}' | ']' => level -= 1,
            ' ' if level == 0 => name = at + 1,
            _ => {}
        }
        if text[at..].starts_with("operator") {
            break;
        }
    }
    let is_type = |c: char| c.is_alphanumeric() || "_:<>,*&[]{}() ….".contains(c);
    if text[..name].chars().all(is_type) { &text[name..] } else { text }
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
pub fn cut_middle(text: &str, columns: usize) -> String {
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
            used += columns_of(*c);
            used <= columns
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIND: &str = "std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
                        int>::find(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)";

    #[test]
    fn steps_in_order() {
        let function = |columns| shorten(FIND, Kind::Function, columns);
        assert_eq!(function(200), FIND);
        assert_eq!(function(100), "std::_Rb_tree<std::string, int>::find(std::string const&)");
        assert_eq!(function(50), "std::_Rb_tree<std::string, int>::find(…)");
        assert_eq!(function(30), "std::_Rb_tree<…>::find(…)");
        assert_eq!(function(24), "…_Rb_tree<…>::find(…)");
        assert_eq!(function(20), "…find(…)");
        assert_eq!(function(5), "…find");
    }

    #[test]
    fn return_types_go() {
        assert_eq!(without_return_type("void a::f<…>(…)"), "a::f<…>(…)");
        assert_eq!(without_return_type("T<…> const& std::operator<< <…>(…)"), "std::operator<< <…>(…)");
        assert_eq!(without_return_type("<T as core::fmt::Debug>::fmt"), "<T as core::fmt::Debug>::fmt");
        assert_eq!(without_return_type("memcmp"), "memcmp");
    }

    #[test]
    fn components_lose_their_version_first() {
        assert_eq!(shorten("libstdc++.so.6", Kind::Component, 12), "libstdc++");
        assert_eq!(shorten("libcrypto.so.3", Kind::Component, 6), "li…pto");
        assert_eq!(shorten("wordcount", Kind::Component, 5), "w…unt");
        assert_eq!(shorten("zlib.cpython-311-x86_64-linux-gnu.so", Kind::Component, 12), "zlib");
    }

    #[test]
    fn files_lose_their_folders_first() {
        let path = "/usr/lib/x86_64-linux-gnu/libssl.so.3";
        assert_eq!(shorten(path, Kind::File, 36), "…/lib/x86_64-linux-gnu/libssl.so.3");
        assert_eq!(shorten(path, Kind::File, 20), "…/libssl.so.3");
        assert_eq!(shorten(path, Kind::File, 8), "libssl");
    }

    #[test]
    fn paths_lose_their_root_first() {
        let path = "app!main > app!work(int) > libq.so!Queue<int>::pop()";
        assert_eq!(shorten(path, Kind::Path, 60), path);
        assert_eq!(shorten(path, Kind::Path, 45), "… > app!work(int) > libq.so!Queue<int>::pop()");
        assert_eq!(shorten(path, Kind::Path, 30), "… > libq.so!Queue<int>::pop()");
        assert_eq!(shorten(path, Kind::Path, 20), "libq.so!…pop()");
        assert_eq!(frames("a!f<X<int> > > b!g"), ["a!f<X<int> >", "b!g"]);
        assert_eq!(frames("a!operator<< > b!operator> > c!h"), ["a!operator<<", "b!operator>", "c!h"]);
    }

    #[test]
    fn operators_are_not_templates() {
        let shift = "std::basic_ostream<char>& std::operator<< <std::char_traits<char> >(std::basic_ostream<char>&, char const*)";
        for columns in 1..120 {
            assert!(width(&shorten(shift, Kind::Function, columns)) <= columns, "{columns}");
        }
        assert!(shorten(shift, Kind::Function, 60).contains("operator<<"), "{}", shorten(shift, Kind::Function, 60));
        assert_eq!(without_groups("Foo::operator->(int)", '<', '>', 1), "Foo::operator->(int)");
        assert_eq!(without_groups("a < b", '<', '>', 1), "a < b");
        assert_eq!(without_groups("Foo::operator()(int)", '(', ')', 1), "Foo::operator()(…)");
    }

    #[test]
    fn plain_names_keep_both_ends() {
        assert_eq!(shorten("gst_video_converter_frame_finish", Kind::Function, 20), "gst_vid…frame_finish");
        assert_eq!(shorten("abc", Kind::Text, 1), "…");
        assert_eq!(shorten("abc", Kind::Text, 0), "");
    }

    #[test]
    fn wide_characters_count_double() {
        assert_eq!(width("関数"), 4);
        assert!(width(&cut_middle("関数関数関数", 7)) <= 7);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn fits_whatever_it_is(text in "[a-z:<>(), *&>!~]{0,60}|.{0,40}", columns in 0usize..50) {
            for kind in [Kind::Function, Kind::Component, Kind::File, Kind::Path, Kind::Callers, Kind::Text] {
                let short = shorten(&text, kind, columns);
                prop_assert!(width(&short) <= columns, "{:?} {:?}: {:?}", kind, text, short);
                if width(&text) <= columns {
                    prop_assert_eq!(&short, &text);
                }
            }
        }
    }
}
