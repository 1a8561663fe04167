use std::path::PathBuf;

use crate::CompilerError;

/// Version of LLVM whose clang and lld do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LlvmVersion {
    /// LLVM 16.
    Llvm16,
    /// LLVM 19.
    #[default]
    Llvm19,
}

impl LlvmVersion {
    /// The number in names of packages and executables.
    pub fn number(self) -> u32 {
        match self {
            Self::Llvm16 => 16,
            Self::Llvm19 => 19,
        }
    }
}

/// How much code the analysis sees at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// All that is linked.
    #[default]
    Program,
    /// One source file: for builds that can't be linked by lld.
    File,
}

/// How regions are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sites {
    /// No-ops that are switched on in the running program.
    #[default]
    Probe,
    /// Calls of the runtime that is linked in.
    Trace,
    /// As `Trace`, through four points that any tracer of USDT probes can watch.
    Shared,
    /// No instruction: inlined subroutines in the debug information.
    Inlined,
    /// Nothing: the same build without sites, to tell what they cost.
    None,
    /// Nothing either, but the program notes which features' labels reach its decisions as it runs (`transect feature
    /// confirm`).
    Confirm,
}

/// What the environment asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `TRANSECT_LLVM`: 19 or 16.
    pub llvm: LlvmVersion,
    /// `TRANSECT_SCOPE`: program or file.
    pub scope: Scope,
    /// `TRANSECT_SITES`: probe, trace, shared, inlined, none or confirm.
    pub sites: Sites,
    /// `TRANSECT_FEATURE_MODEL`: the feature model, XML or TOML. Without it only variables that the source annotates are
    /// followed.
    pub model: Option<PathBuf>,
}

impl Settings {
    /// Reads the environment and looks whether the model can be opened.
    ///
    /// # Errors
    ///
    /// [`CompilerError::Setting`], [`CompilerError::Model`].
    pub fn from_environment() -> Result<Self, CompilerError> {
        let model = std::env::var_os("TRANSECT_FEATURE_MODEL").filter(|path| !path.is_empty()).map(PathBuf::from);
        if let Some(path) = &model {
            std::fs::File::open(path).map_err(|source| CompilerError::Model { path: path.clone(), source })?;
        }
        Ok(Self {
            llvm: choice("TRANSECT_LLVM", "19 or 16", &[("19", LlvmVersion::Llvm19), ("16", LlvmVersion::Llvm16)])?,
            scope: choice("TRANSECT_SCOPE", "program or file", &[("program", Scope::Program), ("file", Scope::File)])?,
            sites: choice(
                "TRANSECT_SITES",
                "probe, trace, shared, inlined, none or confirm",
                &[
                    ("probe", Sites::Probe),
                    ("trace", Sites::Trace),
                    ("shared", Sites::Shared),
                    ("inlined", Sites::Inlined),
                    ("none", Sites::None),
                    ("confirm", Sites::Confirm),
                ],
            )?,
            model,
        })
    }
}

fn choice<T: Copy + Default>(
    variable: &'static str,
    choices: &'static str,
    words: &[(&str, T)],
) -> Result<T, CompilerError> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(T::default()) };
    let value = value.to_string_lossy();
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| CompilerError::Setting {
        variable,
        value: value.into_owned(),
        choices,
    })
}
