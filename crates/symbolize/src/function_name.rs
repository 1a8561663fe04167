//! Functions that have no name.

use transect_binary_info::unnamed_function;

/// Whether a function is called so for want of a name, at an address of its code.
pub(crate) fn is_unnamed(function: &str, address: u64) -> bool {
    let start = function.strip_prefix("sub_").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    start.is_some_and(|start| start <= address && unnamed_function(start) == function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_called_like_an_unnamed_one_has_a_name() {
        assert!(is_unnamed("sub_1040", 0x1050) && is_unnamed(&unnamed_function(7), 7));
        assert!(!is_unnamed("sub_1040", 0x1000) && !is_unnamed("sub_add", 0x10) && !is_unnamed("sub_01", 9));
        assert!(!is_unnamed("main", 0x1000));
    }
}
