//! The texts by which TOML models name variables and members.

use crate::{IgnoredWay, Place, Problem};

const VARIABLE_FORMS: &str = "write \"file.c:variable\" or \"file.c:function:variable\"";
const IGNORED_FORMS: &str =
    "write \"file.c:function\", \"file.cpp:Class::method()\", \"Tag::field\" or \"file.c:Tag::field\"";
const MEMBER_FORMS: &str = "write \"Tag::field\" or \"file.c:Tag::field\", with a structure's tag or a typedef";

/// `file.c:variable`, `file.c:function:variable`; if the feature names its `file`, also `variable` and
/// `function:variable`. C++ names keep their `::`.
pub(crate) fn variable(text: &str, file: Option<&str>) -> Result<Place, Problem> {
    let wrong = || Problem::Place { found: text.into(), expected: VARIABLE_FORMS };
    let parts: Vec<&str> = split(text).into_iter().map(str::trim).collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(wrong());
    }
    let (file, function, variable) = match (parts.as_slice(), file) {
        ([variable], Some(file)) => (file, "", *variable),
        ([first, variable], Some(file)) if !is_file(first) => (file, *first, *variable),
        ([file, variable], _) if is_file(file) => (*file, "", *variable),
        ([file, function, variable], _) if is_file(file) => (*file, *function, *variable),
        _ => return Err(wrong()),
    };
    Ok(Place::Variable { file: file.into(), function: function.into(), variable: variable.into() })
}

/// `Tag::field`, `file.c:Tag::field`; the tag may have namespaces. Without a file of its own it is of the feature's.
pub(crate) fn member(text: &str, file: Option<&str>) -> Result<Place, Problem> {
    let wrong = || Problem::Place { found: text.into(), expected: MEMBER_FORMS };
    let parts: Vec<&str> = split(text).into_iter().map(str::trim).collect();
    let (file, name) = match parts.as_slice() {
        [name] => (file.unwrap_or_default(), *name),
        [file, name] if is_file(file) => (*file, *name),
        _ => return Err(wrong()),
    };
    match name.rsplit_once("::") {
        Some((tag, field)) if !tag.is_empty() && !field.is_empty() => {
            Ok(Place::Member { file: file.into(), tag: tag.into(), field: field.into() })
        }
        _ => Err(wrong()),
    }
}

/// `file.c:function`, `file.cpp:Class::method()`, `Tag::field`, `file.c:Tag::field`.
pub(crate) fn ignored(text: &str) -> Result<IgnoredWay, Problem> {
    let wrong = || Problem::Place { found: text.into(), expected: IGNORED_FORMS };
    let parts: Vec<&str> = split(text).into_iter().map(str::trim).collect();
    let function_of = |file: &str, name: &str| IgnoredWay::Function { file: file.into(), function: name.into() };
    match parts.as_slice() {
        [file, name] if is_file(file) && !name.is_empty() => match (name.strip_suffix("()"), name.rsplit_once("::")) {
            (Some(function), _) if !function.is_empty() => Ok(function_of(file, function)),
            (None, Some((tag, field))) if !tag.is_empty() && !field.is_empty() => {
                Ok(IgnoredWay::Member { file: (*file).into(), tag: tag.into(), field: field.into() })
            }
            (None, None) => Ok(function_of(file, name)),
            _ => Err(wrong()),
        },
        [name] => match name.rsplit_once("::") {
            Some((tag, field)) if !tag.is_empty() && !field.is_empty() => {
                Ok(IgnoredWay::Member { file: String::new(), tag: tag.into(), field: field.into() })
            }
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn is_file(part: &str) -> bool {
    part.contains(['.', '/'])
}

/// Splits at colons that do not come in pairs.
fn split(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b':' && bytes.get(at + 1) == Some(&b':') {
            at += 2;
        } else if bytes[at] == b':' {
            parts.push(&text[from..at]);
            from = at + 1;
            at += 1;
        } else {
            at += 1;
        }
    }
    parts.push(&text[from..]);
    parts
}
