//! Files that users write by hand.

use std::sync::OnceLock;

/// The command's own module: it is no library.
#[allow(dead_code)]
#[path = "../../crates/cli/src/config.rs"]
mod command_config;

/// What that module needs of the command.
#[allow(dead_code)]
pub mod arguments {
    #[derive(Debug, Clone, Copy, serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ReportFormat {
        Text,
        Json,
        Csv,
    }

    #[derive(Debug, Clone, Copy, serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Color {
        Auto,
        Always,
        Never,
    }
}

/// The same.
#[allow(dead_code)]
pub mod failure {
    #[derive(Debug)]
    pub enum Failure {
        Config { path: std::path::PathBuf, problem: String },
    }
}

/// The file of defaults.
pub fn config(bytes: &[u8]) {
    static HOME: OnceLock<tempfile::TempDir> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::create_dir(home.path().join("transect")).unwrap();
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("XDG_CONFIG_HOME", home.path()) };
        home
    });
    std::fs::write(home.path().join("transect/config.toml"), bytes).unwrap();
    let _ = command_config::load();
}

/// Files of `--wait-apis`.
pub fn wait_apis(bytes: &[u8]) {
    if let Some((_file, path)) = crate::file_of(bytes) {
        transect_record::fuzzing::wait_apis(&path);
    }
}

/// Files of `--static-components`, and the plans that they lead to.
pub fn static_components(bytes: &[u8]) {
    let (Some((_file, path)), Some(object)) =
        (crate::file_of(bytes), crate::object(include_bytes!("../corpus/elf/exe")))
    else {
        return;
    };
    let plan = transect_record::fuzzing::static_components(&path, &object).filter(|plan| !plan.is_empty());
    plan.iter().for_each(|plan| assert!(crate::static_plan(plan), "the agent refuses the plan"));
}
