//! The file that names static components.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use transect_event_abi::static_plan::STATIC_COMPONENT_CAPACITY;

use super::error::StaticError;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    component: Vec<Definition>,
    /// Linker map file of the program, for all components.
    map: Option<PathBuf>,
}

/// One or several patterns.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Patterns {
    One(String),
    Many(Vec<String>),
}

impl Default for Patterns {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl From<Patterns> for Vec<String> {
    fn from(patterns: Patterns) -> Self {
        match patterns {
            Patterns::One(one) => vec![one],
            Patterns::Many(many) => many,
        }
    }
}

/// A component as the file says it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Definition {
    name: Option<String>,
    #[serde(default)]
    archive: Patterns,
    #[serde(default)]
    objects: Patterns,
    #[serde(default)]
    functions: Patterns,
    #[serde(default)]
    namespace: Patterns,
    #[serde(default)]
    source: Patterns,
    #[serde(default)]
    exclude: Patterns,
    within: Option<String>,
    map: Option<PathBuf>,
}

/// One static component: the union of what its patterns name.
#[derive(Debug, Clone)]
pub struct ComponentRule {
    /// Name in all views.
    pub name: String,
    /// Static libraries: a path, or a file name that is looked for.
    pub archives: Vec<String>,
    /// Object files, as the linker was given them or as their source file's name tells.
    pub objects: Vec<String>,
    /// Functions, by raw or demangled name.
    pub functions: Vec<String>,
    /// Namespaces of C++, crates and modules of Rust.
    pub namespaces: Vec<String>,
    /// Source files by path.
    pub sources: Vec<String>,
    /// Functions that are none of the component's, by raw or demangled name.
    pub exclude: Vec<String>,
    /// The ELF file that holds it, by name or path; `None`: the executable.
    pub within: Option<String>,
    /// Linker map file.
    pub map: Option<PathBuf>,
}

/// Reads and checks a file of static components. Relative map files count from the file's folder.
pub fn load(path: &Path) -> Result<Vec<ComponentRule>, StaticError> {
    let text =
        transect_binary_info::read_plain(path).map_err(|source| StaticError::Read { path: path.to_owned(), source })?;
    let wrong = |problem: String| StaticError::Wrong { path: path.to_owned(), problem };
    let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
    if file.component.is_empty() {
        return Err(wrong("no component: write [[component]] with a name and, say, archive = \"libz.a\"".into()));
    }
    if file.component.len() > STATIC_COMPONENT_CAPACITY {
        return Err(wrong(format!("more than {STATIC_COMPONENT_CAPACITY} components")));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut rules: Vec<ComponentRule> = Vec::new();
    for (number, definition) in file.component.into_iter().enumerate() {
        let rule = rule(definition, file.map.as_deref(), folder)
            .map_err(|problem| wrong(format!("component {}: {problem}", number + 1)))?;
        if rules.iter().any(|r| r.name == rule.name && r.within == rule.within) {
            return Err(wrong(format!("two components are named {:?}", rule.name)));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn rule(definition: Definition, map: Option<&Path>, folder: &Path) -> Result<ComponentRule, String> {
    let archives: Vec<String> = definition.archive.into();
    let stem = |archive: &String| {
        let file = archive.rsplit('/').next().unwrap_or(archive);
        file.strip_suffix(".a").unwrap_or(file).to_owned()
    };
    let namespaces: Vec<String> = definition.namespace.into();
    let name = definition
        .name
        .or_else(|| archives.first().map(stem))
        .or_else(|| namespaces.first().cloned())
        .ok_or("it has no name")?;
    if name.is_empty() || name.len() > 200 || name.contains(['/', '\0', '\n']) {
        return Err(format!("{name:?} can't be a name: use 1 to 200 characters without '/'"));
    }
    let rule = ComponentRule {
        name,
        archives,
        objects: definition.objects.into(),
        functions: definition.functions.into(),
        namespaces,
        sources: definition.source.into(),
        exclude: definition.exclude.into(),
        within: definition.within,
        map: definition.map.as_deref().or(map).map(|m| folder.join(m)),
    };
    let patterns = [&rule.archives, &rule.objects, &rule.functions, &rule.namespaces, &rule.sources];
    if patterns.iter().all(|p| p.is_empty()) {
        return Err(format!("{:?} names nothing: give archive, objects, functions, namespace or source", rule.name));
    }
    if patterns.iter().any(|p| p.iter().any(String::is_empty)) {
        return Err(format!("{:?} has an empty pattern", rule.name));
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<ComponentRule>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("components.toml");
        std::fs::write(&path, text).unwrap();
        load(&path).map_err(|e| e.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn a_component_may_be_one_line_or_many() {
        let rules = parsed(
            "map = \"app.map\"\n[[component]]\narchive = \"/usr/lib/libz.a\"\n\
             [[component]]\nname = \"strings\"\nnamespace = [\"absl::strings_internal\", \"absl::str_format_internal\"]\n",
        )
        .unwrap();
        assert_eq!(rules[0].name, "libz");
        assert!(rules[0].map.as_ref().unwrap().ends_with("app.map"));
        assert_eq!(rules[1].namespaces.len(), 2);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "no component"),
            ("[[component]]\nname = \"x\"\n", "names nothing"),
            ("[[component]]\nfunctions = \"f\"\n", "has no name"),
            ("[[component]]\nname = \"a/b\"\nfunctions = \"f\"\n", "can't be a name"),
            ("[[component]]\nname = \"a\"\nfunction = \"f\"\n", "unknown field `function`"),
            ("[[component]]\nname = \"a\"\nfunctions = \"\"\n", "empty pattern"),
            (
                "[[component]]\nname=\"a\"\nfunctions=\"f\"\n[[component]]\nname=\"a\"\nfunctions=\"g\"\n",
                "two components",
            ),
        ] {
            let message = parsed(text).unwrap_err();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }
}
