/// The name as people write it: C++ (Itanium), Rust (legacy and v0) demangled, without Rust's hash; else unchanged.
///
/// ```
/// use transect_binary_info::demangle;
/// assert_eq!(demangle("_ZNSt6vectorIiSaIiEE9push_backEOi"), "std::vector<int, std::allocator<int> >::push_back(int&&)");
/// assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
/// assert_eq!(demangle("strcmp"), "strcmp");
/// ```
pub fn demangle(raw: &str) -> String {
    // A lambda that was inlined has no linkage name, and its class no name.
    if raw == "operator()" {
        return "{lambda}".to_owned();
    }
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
        .or_else(|| outline(raw))
        .unwrap_or_else(|| raw.to_owned())
}

/// The name of the function itself as people write it, where compilers have made copies of it or moved parts of it away.
pub fn readable_name(raw: &str) -> String {
    demangle(without_suffix(raw))
}

/// A raw name without what compilers append to copies and parts of a function.
pub fn without_suffix(raw: &str) -> &str {
    const SUFFIXES: &[&str] = &[".isra.", ".part.", ".constprop.", ".cold", ".lto_priv.", ".llvm."];
    let cut = SUFFIXES.iter().filter_map(|suffix| raw.find(suffix)).min();
    raw.get(..cut.unwrap_or(raw.len())).filter(|name| !name.is_empty()).unwrap_or(raw)
}

/// The name of a function without a name that begins there, as ELF files number addresses.
pub fn unnamed_function(start: u64) -> String {
    format!("sub_{start:x}")
}

/// What a C++ name begins with, where the demangler does not know all of its grammar (concepts, lambdas in template
/// arguments): `std::__invoke_impl<…>`. Itanium C++ ABI, 5.1.2.
fn outline(raw: &str) -> Option<String> {
    let mut rest = raw.strip_prefix("_Z")?;
    let nested = rest.strip_prefix('N').map(|inner| inner.trim_start_matches(['r', 'V', 'K', 'R', 'O']));
    rest = nested.unwrap_or(rest);
    let mut parts: Vec<&str> = Vec::new();
    if let Some(inner) = rest.strip_prefix("St") {
        parts.push("std");
        rest = inner;
    }
    let given = parts.len();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(name) = rest[..digits].parse().ok().and_then(|length: usize| rest[digits..].get(..length)) else {
            break;
        };
        parts.push(name);
        rest = &rest[digits + name.len()..];
        if nested.is_none() {
            break;
        }
    }
    (parts.len() > given).then(|| parts.join("::") + if rest.starts_with('I') { "<…>" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::{demangle, without_suffix};

    #[test]
    fn copies_have_the_name_of_the_original() {
        for raw in ["f.isra.0", "f.part.3.cold", "f.constprop.0.isra.1", "f.cold", "f.lto_priv.0", "f.llvm.123", "f"] {
            assert_eq!(without_suffix(raw), "f");
        }
        assert_eq!(without_suffix(".cold"), ".cold");
        assert_eq!(without_suffix("main._omp_fn.0"), "main._omp_fn.0");
    }

    #[test]
    fn each_scheme() {
        for (raw, readable) in [
            ("_ZdlPvm", "operator delete(void*, unsigned long)"),
            ("_ZNSaIcED1Ev", "std::allocator<char>::~allocator()"),
            ("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("__cxa_throw", "__cxa_throw"),
            ("_ZNotMangled", "_ZNotMangled"),
            ("_ZSt13__invoke_implIvRZ4mainEUlvE_Q1xE", "std::__invoke_impl<…>"),
            ("_ZNSt6thread6_StateI1?E", "std::thread::_State<…>"),
            ("_ZN3app4pageI1?E", "app::page<…>"),
            ("_Z99999999999999999999x?", "_Z99999999999999999999x?"),
            ("operator()", "{lambda}"),
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
