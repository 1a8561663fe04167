//! What just-in-time compilers call their functions, taken apart: function, file and line.

use std::collections::HashMap;

/// A function of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ScriptFunction {
    pub name: String,
    /// Empty if it is not known.
    pub file: String,
    /// From 1; 0 if it is not known.
    pub line: u32,
    /// From 1; 0 if it is not known.
    pub column: u32,
}

/// Takes names apart, and tells functions of one name apart.
#[derive(Debug, Default)]
pub(super) struct ScriptFunctions {
    first: HashMap<String, ScriptFunction>,
}

impl ScriptFunctions {
    /// The function that a compiler calls `raw`. Of several with the same name the later ones have their place in it.
    pub fn of(&mut self, raw: &str) -> ScriptFunction {
        let function = v8(raw).or_else(|| python(raw));
        let Some(function) = function else {
            return ScriptFunction { name: raw.to_owned(), ..ScriptFunction::default() };
        };
        let first = self.first.entry(function.name.clone()).or_insert_with(|| function.clone());
        if *first == function {
            return function;
        }
        let file = function.file.rsplit('/').next().unwrap_or_default();
        let name = format!("{} ({file}:{}:{})", function.name, function.line, function.column);
        ScriptFunction { name, ..function }
    }
}

/// `JS:*area /app/shape.js:7:15` of V8: kind, tier (`~` interpreted, `^` baseline, `+` and `*` optimised), name, place.
fn v8(raw: &str) -> Option<ScriptFunction> {
    const KINDS: [&str; 6] = ["JS", "LazyCompile", "Function", "Eval", "Script", "Module"];
    let (kind, rest) = raw.split_once(':').filter(|(kind, _)| KINDS.contains(kind))?;
    let rest = rest.trim_start_matches(['~', '^', '+', '*']);
    let (rest, column) = rest.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    // Names have spaces (`get area`), and so have files.
    let place = [" /", " file:", " node:", " evalmachine"].iter().filter_map(|begin| rest.find(begin)).min();
    let (name, file) = rest.split_at(place.or_else(|| rest.rfind(' '))?);
    let file = file.trim_start();
    let file = file.strip_prefix("file://").unwrap_or(file);
    let name = match (name, kind) {
        ("", "JS" | "LazyCompile" | "Function") => "(anonymous)",
        ("", _) => "(script)",
        _ => name,
    };
    Some(ScriptFunction { name: name.to_owned(), file: file.to_owned(), line, column })
}

/// `py::area:/app/shape.py` of CPython.
fn python(raw: &str) -> Option<ScriptFunction> {
    let (name, file) = raw.strip_prefix("py::")?.split_once(':')?;
    Some(ScriptFunction { name: name.to_owned(), file: file.to_owned(), line: 0, column: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> (String, String, u32) {
        let ScriptFunction { name, file, line, .. } = ScriptFunctions::default().of(raw);
        (name, file, line)
    }

    #[test]
    fn names_are_taken_apart() {
        for (raw, name, file, line) in [
            ("JS:*area /app/shape.js:7:15", "area", "/app/shape.js", 7),
            ("LazyCompile:~area /app/my shapes.js:7:15", "area", "/app/my shapes.js", 7),
            ("JS:^get area file:///app/shape.mjs:12:3", "get area", "/app/shape.mjs", 12),
            ("JS:+emit node:events:517:44", "emit", "node:events", 517),
            ("JS:* /app/shape.js:7:15", "(anonymous)", "/app/shape.js", 7),
            ("Eval:~ /app/shape.js:1:1", "(script)", "/app/shape.js", 1),
            ("py::area:/app/shape.py", "area", "/app/shape.py", 0),
        ] {
            assert_eq!(of(raw), (name.to_owned(), file.to_owned(), line), "{raw}");
        }
    }

    #[test]
    fn other_names_are_kept() {
        for raw in [
            "int Shape.area(int)",
            "RegExp:a:b",
            "Builtin:Call_ReceiverIsAny",
            "JS:",
            "JS:*f a.js:x:1",
            "py::area",
            "std::f:1:2",
        ] {
            assert_eq!(of(raw), (raw.to_owned(), String::new(), 0), "{raw}");
        }
    }

    #[test]
    fn tiers_are_one_function_and_places_are_several() {
        let mut functions = ScriptFunctions::default();
        let mut name = |raw| functions.of(raw).name;
        assert_eq!([name("JS:~t /b.js:1:10"), name("JS:*t /b.js:1:10")], ["t", "t"]);
        assert_eq!(name("JS:*t /app/b.js:1:99"), "t (b.js:1:99)");
        assert_eq!(name("JS:~t /b.js:1:10"), "t");
    }
}
