/// The name as people write it: C++ (Itanium), Rust (legacy and v0) demangled, without Rust's hash; else unchanged.
///
/// ```
/// use transect_binary_info::demangle;
/// assert_eq!(demangle("_ZNSt6vectorIiSaIiEE9push_backEOi"), "std::vector<int, std::allocator<int> >::push_back(int&&)");
/// assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
/// assert_eq!(demangle("strcmp"), "strcmp");
/// ```
pub fn demangle(raw: &str) -> String {
    if !raw.starts_with('_') {
        return raw.to_owned();
    }
    // Legacy Rust names are well-formed C++ names too; only Rust's end in `17h` and 16 hexadecimal digits.
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return format!("{name:#}");
    }
    if !raw.starts_with("_Z") && !raw.starts_with("___Z") {
        return raw.to_owned();
    }
    let options = cpp_demangle::DemangleOptions::default();
    cpp_demangle::Symbol::new(raw)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| raw.to_owned())
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn each_scheme() {
        for (raw, readable) in [
            ("_ZdlPvm", "operator delete(void*, unsigned long)"),
            ("_ZNSaIcED1Ev", "std::allocator<char>::~allocator()"),
            ("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("__cxa_throw", "__cxa_throw"),
            ("_ZNotMangled", "_ZNotMangled"),
            ("main", "main"),
            ("", ""),
        ] {
            assert_eq!(demangle(raw), readable);
        }
    }

    #[test]
    fn names_made_to_hurt() {
        // Deep nesting and back references must neither overflow the stack nor take forever.
        for raw in [format!("_Z{}", "N".repeat(100_000)), format!("_ZN1aI{}E", "S_".repeat(10_000)), "_ZSt".repeat(999)]
        {
            assert!(!demangle(&raw).is_empty());
        }
    }
}
