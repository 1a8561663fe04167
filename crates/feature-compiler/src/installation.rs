use std::path::{Path, PathBuf};

use crate::{CompilerError, Language, LlvmVersion};

/// Where the parts of a marked build lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The version that all parts are of.
    pub llvm: LlvmVersion,
    /// The plugin of clang, lld and opt.
    pub plugin: PathBuf,
    /// The running executable, near which parts are looked for.
    executable: PathBuf,
}

/// Parts of DataFlowSanitizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelRuntime {
    /// The library that a program is linked with.
    pub(crate) library: PathBuf,
    /// How functions from outside of the program treat labels.
    pub(crate) functions: PathBuf,
}

impl Installation {
    /// Finds the plugin beside the running executable (as in a build tree) or in `../lib/transect` (as installed).
    ///
    /// # Errors
    ///
    /// [`CompilerError::MissingPart`], [`CompilerError::NoExecutable`].
    pub fn find(llvm: LlvmVersion) -> Result<Self, CompilerError> {
        Self::near(std::env::current_exe().map_err(CompilerError::NoExecutable)?, llvm)
    }

    pub(crate) fn near(executable: PathBuf, llvm: LlvmVersion) -> Result<Self, CompilerError> {
        let part = format!("compiler-plugin/llvm-{}/transect-features.so", llvm.number());
        Ok(Self { llvm, plugin: beside(&executable, &part)?, executable })
    }

    /// The library that writes events of programs with compiled-in sites.
    pub(crate) fn runtime(&self) -> Result<PathBuf, CompilerError> {
        beside(&self.executable, "libtransect_region.a")
    }

    /// The object that notes which labels reach the decisions of a confirming build.
    pub(crate) fn confirming_runtime(&self) -> Result<PathBuf, CompilerError> {
        beside(&self.executable, &format!("compiler-plugin/llvm-{}/transect-confirm.o", self.llvm.number()))
    }

    /// The runtime of DataFlowSanitizer.
    pub(crate) fn label_runtime(&self) -> Result<LabelRuntime, CompilerError> {
        let number = self.llvm.number();
        let missing = || CompilerError::MissingTool {
            tool: "the runtime of DataFlowSanitizer".to_owned(),
            package: format!("libclang-rt-{number}-dev"),
        };
        let compiler = self.compiler(Language::C)?;
        let compiler = compiler.canonicalize().unwrap_or(compiler);
        let resources = compiler.parent().unwrap_or(Path::new("/")).join(format!("../lib/clang/{number}"));
        let functions = resources.join("share/dfsan_abilist.txt");
        let library = ["lib/linux/libclang_rt.dfsan-x86_64.a", "lib/x86_64-unknown-linux-gnu/libclang_rt.dfsan.a"]
            .into_iter()
            .map(|name| resources.join(name))
            .find(|path| path.is_file());
        match library {
            Some(library) if functions.is_file() => Ok(LabelRuntime { library, functions }),
            _ => Err(missing()),
        }
    }

    /// clang or clang++.
    pub(crate) fn compiler(&self, language: Language) -> Result<PathBuf, CompilerError> {
        let name = match language {
            Language::C => "clang",
            Language::Cxx => "clang++",
        };
        self.tool(name, "clang")
    }

    /// The linker of the same version: another one can't read what the compiler writes.
    pub(crate) fn linker(&self) -> Result<PathBuf, CompilerError> {
        self.tool("ld.lld", "lld")
    }

    fn tool(&self, name: &str, package: &str) -> Result<PathBuf, CompilerError> {
        let number = self.llvm.number();
        let versioned = format!("{name}-{number}");
        let own = PathBuf::from(format!("/usr/lib/llvm-{number}/bin")).join(name);
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .map(|folder| folder.join(&versioned))
            .chain([own])
            .find(|path| path.is_file())
            .ok_or_else(|| CompilerError::MissingTool { tool: versioned, package: format!("{package}-{number}") })
    }
}

fn beside(executable: &Path, part: &str) -> Result<PathBuf, CompilerError> {
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // `target/release/deps` is where tests run.
    [folder.join(part), folder.join("../lib/transect").join(part), folder.join("..").join(part)]
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| CompilerError::MissingPart { part: part.to_owned(), executable: executable.to_owned() })
}
