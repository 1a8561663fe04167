//! Which namespace a function belongs to, by its mangled name.

/// True if the function is a member of a C++ namespace (or class), or of a Rust crate or module: `path` is its front,
/// as in `absl::strings_internal` or `serde_json`. Inline namespaces for versions (`absl::lts_2023`) may be left out.
pub fn is_in(raw: &str, demangled: &str, path: &str) -> bool {
    let wanted: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let is_rust = rust_path(raw);
    match cpp_path(raw).filter(|_| !is_rust) {
        Some(parts) => starts_with(&parts, &wanted),
        None if is_rust => starts_with(&front(demangled).split("::").collect::<Vec<_>>(), &wanted),
        None => false,
    }
}

/// The namespace and class names of all functions, for proposals.
pub fn outermost(raw: &str, demangled: &str) -> Option<String> {
    match cpp_path(raw).filter(|_| !rust_path(raw)) {
        Some(parts) => (parts.len() > 1).then(|| parts[0].to_owned()),
        None => front(demangled).split_once("::").map(|(first, _)| first.to_owned()),
    }
}

fn starts_with(parts: &[&str], wanted: &[&str]) -> bool {
    let mut rest = parts.iter().take(parts.len().saturating_sub(1));
    let mut at_first = true;
    'wanted: for name in wanted {
        for part in rest.by_ref() {
            if part == name {
                at_first = false;
                continue 'wanted;
            }
            // Only a version may be skipped, and not before the first name.
            if at_first || !is_version(part) {
                return false;
            }
        }
        return false;
    }
    !wanted.is_empty()
}

/// Names of inline namespaces that stand for a version.
fn is_version(part: &str) -> bool {
    part.starts_with("__") || part.starts_with("lts_") || part.starts_with("inline_") || {
        let digits = part.trim_start_matches(['v', 'V']);
        digits.len() < part.len() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_') && !digits.is_empty()
    }
}

fn rust_path(raw: &str) -> bool {
    raw.starts_with("_R")
        || raw.len() > 20 && raw.ends_with('E') && raw[..raw.len() - 1].len() > 19 && {
            let hash = &raw.as_bytes()[raw.len() - 20..raw.len() - 1];
            hash.starts_with(b"17h") && hash[3..].iter().all(u8::is_ascii_hexdigit)
        }
}

/// The crate and modules in front of a demangled Rust name: `<a::B as c::D>::e` belongs to `a`.
fn front(demangled: &str) -> &str {
    let mut name = demangled;
    loop {
        let shorter = name.trim_start_matches(['<', '&', '*', '[', '(']);
        let shorter = ["mut ", "const ", "dyn "].iter().fold(shorter, |s, word| s.strip_prefix(word).unwrap_or(s));
        if shorter == name {
            return name;
        }
        name = shorter;
    }
}

/// The nested names at the front of an Itanium-mangled function, from the outermost on, template arguments left out.
fn cpp_path(raw: &str) -> Option<Vec<&str>> {
    let mut rest = raw.strip_prefix("_Z")?;
    // Entities local to a function belong where the function does.
    while let Some(inner) = rest.strip_prefix('Z') {
        rest = inner;
    }
    // Thunks of virtual functions: Th[n]<offset>_, Tv[n]<offset>_[n]<offset>_, Tc….
    if rest.starts_with("Th") || rest.starts_with("Tv") || rest.starts_with("Tc") {
        let start = rest.find("_N").or_else(|| rest.find("_S"))?;
        rest = &rest[start + 1..];
    }
    let mut parts = Vec::new();
    let nested = rest.starts_with('N');
    if nested {
        rest = rest[1..].trim_start_matches(['r', 'V', 'K']).trim_start_matches(['R', 'O']);
    }
    if let Some(after) = rest.strip_prefix("St") {
        parts.push("std");
        rest = after;
    } else if let Some(kind @ ("Sa" | "Ss" | "Sb" | "Si" | "So" | "Sd")) = rest.get(..2) {
        parts.push("std");
        parts.push(match kind {
            "Sa" => "allocator",
            "Ss" | "Sb" => "basic_string",
            "Si" => "basic_istream",
            "So" => "basic_ostream",
            _ => "basic_iostream",
        });
        rest = &rest[2..];
    }
    loop {
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            break;
        }
        let length: usize = rest[..digits].parse().ok()?;
        parts.push(rest.get(digits..digits + length)?);
        rest = &rest[digits + length..];
        // ABI tags.
        while let Some(tag) = rest.strip_prefix('B') {
            let digits = tag.bytes().take_while(u8::is_ascii_digit).count();
            let length: usize = tag[..digits].parse().ok()?;
            rest = tag.get(digits + length..)?;
        }
        if !nested {
            break;
        }
        if rest.starts_with('I') {
            rest = after_arguments(rest)?;
        }
    }
    // Constructors, operators and the like: one more name.
    if nested && !rest.starts_with('E') && !rest.is_empty() {
        parts.push("");
    }
    (!parts.is_empty()).then_some(parts)
}

/// What follows the template arguments at the start of `rest`; `None` if they can't be followed by simple means, in
/// which case the names so far are all there is.
fn after_arguments(rest: &str) -> Option<&str> {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'I' | b'N' | b'X' | b'L' | b'J' | b'F' => depth += 1,
            b'E' => {
                depth -= 1;
                if depth == 0 {
                    return rest.get(at + 1..);
                }
            }
            b'0'..=b'9' if at > 0 && bytes[at - 1] != b'S' && bytes[at - 1] != b'T' => {
                let digits = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
                // A number in a literal is followed by its end, a name by its letters.
                if bytes.get(at + digits) != Some(&b'E') {
                    at += digits + rest[at..at + digits].parse::<usize>().ok()?;
                } else {
                    at += digits;
                }
                continue;
            }
            // Substitutions: S_ S0_ St Sa …; parameters T_ T0_.
            b'S' | b'T' => {
                let after = rest[at + 1..].bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
                at += if bytes.get(at + 1 + after) == Some(&b'_') { after + 2 } else { 2 };
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_in;
    use transect_binary_info::demangle;

    #[test]
    fn names_of_cpp_and_rust() {
        for (raw, path, expected) in [
            ("_ZN4absl6StrCatEv", "absl", true),
            ("_ZN4absl16strings_internal8CatPiecesEv", "absl::strings_internal", true),
            ("_ZN4absl12lts_2022062316strings_internal8CatPiecesEv", "absl::strings_internal", true),
            ("_ZN4absl12lts_202206236StrCatEv", "absl::strings_internal", false),
            ("_ZNK4absl4Cord4sizeEv", "absl", true),
            ("_ZNK4absl4Cord4sizeEv", "absl::Cord", true),
            ("_ZN4absl4CordC1Ev", "absl::Cord", true),
            ("_ZN5outer4absl1fEv", "absl", false),
            ("_ZNSt6vectorIN4absl4CordESaIS1_EE9push_backEOS1_", "absl", false),
            ("_ZNSt6vectorIN4absl4CordESaIS1_EE9push_backEOS1_", "std", true),
            ("_ZN4absl4HashIiE4callEi", "absl", true),
            ("_ZZN4absl6StrCatEvENKUlvE_clEv", "absl", true),
            ("_ZThn16_N4absl1A1fEv", "absl", true),
            ("_Z4abslv", "absl", false),
            ("_ZN4absl4FlagINS_4CordEE3GetEv", "absl::Flag", true),
            ("absl_c_function", "absl", false),
            ("_ZN10serde_json2de10from_slice17h0123456789abcdefE", "serde_json", true),
            ("_ZN10serde_json2de10from_slice17h0123456789abcdefE", "serde_json::de", true),
            (
                "_ZN63_$LT$serde_json..value..Value$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE",
                "serde_json",
                true,
            ),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate", true),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo", true),
            ("_RNvNtCs1234_7mycrate3foo3bar", "foo", false),
        ] {
            assert_eq!(is_in(raw, &demangle(raw), path), expected, "{raw} in {path}: {}", demangle(raw));
        }
    }
}
