//! How much a test tries.

/// Whether everything is asked for, however long it takes: `TRANSECT_ALL_SUITES` is set.
pub fn all_suites() -> bool {
    std::env::var_os("TRANSECT_ALL_SUITES").is_some()
}

/// `few`, or `all` where everything is asked for.
pub fn sized<T>(few: T, all: T) -> T {
    if all_suites() { all } else { few }
}

/// Cases of a property: as many as `PROPTEST_CASES` says, or [`sized`].
pub fn cases(few: u32, all: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok());
    asked.unwrap_or_else(|| sized(few, all))
}
