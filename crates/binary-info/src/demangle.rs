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
