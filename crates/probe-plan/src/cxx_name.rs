//! Demangled names as people write them.

/// The name without return type, parameters and what follows them: `std::vector<int>::push_back` of
/// `void std::vector<int>::push_back(int&&)`.
pub fn without_parameters(name: &str) -> &str {
    let end = parameters_at(name).unwrap_or(name.len());
    let name = name[..end].trim_end();
    // Templates' names begin with their return type. `operator new` and conversions have blanks of their own.
    let head = name.find("operator").filter(|&at| is_word(name, at)).unwrap_or(name.len());
    let start = last_blank(&name[..head]).map_or(0, |at| at + 1);
    &name[start..]
}

/// The name without parameters and template arguments: `std::vector::push_back`.
pub fn without_arguments(name: &str) -> String {
    let name = without_parameters(name);
    let mut plain = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if depth == 0
            && let Some(operator) = operator_at(name, name.len() - rest.len())
        {
            plain.push_str(operator);
            rest = &rest[operator.len()..];
            continue;
        }
        match c {
            // Rust's `<impl Trait for Type>` and `<Type as Trait>` begin a name.
            '<' if !plain.is_empty() || depth > 0 => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    plain
}

/// True if an identifier begins at `at`.
fn is_word(name: &str, at: usize) -> bool {
    !name[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// `operator<<` and the like, if it stands at `at`.
fn operator_at(name: &str, at: usize) -> Option<&str> {
    let rest = name[at..].strip_prefix("operator")?;
    if !is_word(name, at) {
        return None;
    }
    let symbols = ["()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"];
    let symbol = symbols.iter().find(|symbol| rest.starts_with(**symbol))?;
    Some(&name[at..at + "operator".len() + symbol.len()])
}

/// Where the parameter list begins.
fn parameters_at(name: &str) -> Option<usize> {
    let bytes = name.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        if depth == 0
            && bytes[at] == b'o'
            && let Some(operator) = operator_at(name, at)
        {
            at += operator.len();
            continue;
        }
        match bytes[at] {
            b'<' => depth += 1,
            b'>' if depth > 0 && !name[..at].ends_with('-') => depth -= 1,
            b'(' if name[at..].starts_with("(anonymous namespace)") => at += "(anonymous namespace)".len() - 1,
            // A local name: `f(int)::{lambda()#1}::operator()() const`.
            b'(' if depth == 0 => match closing(bytes, at) {
                Some(end) if name[end + 1..].trim_start_matches(" const").starts_with("::") => at = end,
                _ => return Some(at),
            },
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn last_blank(name: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut found = None;
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '{' => depth += 1,
            '>' | ')' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => found = Some(at),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_kind() {
        for (name, plain, bare) in [
            ("main", "main", "main"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
                "std::vector<int, std::allocator<int> >::push_back",
                "std::vector::push_back",
            ),
            ("void sort<int*>(int*, int*)", "sort<int*>", "sort"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f", "(anonymous namespace)::f"),
            ("A::operator()(int) const", "A::operator()", "A::operator()"),
            ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<< <char>", "operator<< "),
            ("operator new(unsigned long)", "operator new", "operator new"),
            (
                "f(int)::{lambda(int)#1}::operator()(int) const",
                "f(int)::{lambda(int)#1}::operator()",
                "f(int)::{lambda(int)#1}::operator()",
            ),
            ("core::fmt::Formatter::write_str", "core::fmt::Formatter::write_str", "core::fmt::Formatter::write_str"),
            (
                "<alloc::vec::Vec<T> as core::fmt::Debug>::fmt",
                "<alloc::vec::Vec<T> as core::fmt::Debug>::fmt",
                "<alloc::vec::Vec as core::fmt::Debug>::fmt",
            ),
            ("A::cooperator(int)", "A::cooperator", "A::cooperator"),
        ] {
            assert_eq!(without_parameters(name), plain);
            assert_eq!(without_arguments(name), bare, "{name}");
        }
    }
}
