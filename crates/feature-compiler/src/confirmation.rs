//! Builds whose programs note which features' labels reach their decisions: DataFlowSanitizer at the link.

use std::ffi::OsString;
use std::process::Command;

use crate::arguments::Request;
use crate::{CompilerError, Installation, LlvmVersion, Scope, Settings};

/// Names the sanitizer's list of functions to the plugin.
const FUNCTIONS: &str = "TRANSECT_CONFIRM_FUNCTIONS";

/// As the analysis has it: labels of addresses count where the plugin says so, and those of conditions likewise.
const LABEL_RULES: [&str; 2] =
    ["-Wl,-mllvm,-dfsan-combine-pointer-labels-on-load=false", "-Wl,-mllvm,-dfsan-track-select-control-flow=false"];

/// Whether labels can be carried in such a build.
pub(crate) fn check(request: &Request, settings: &Settings) -> Result<(), CompilerError> {
    let why = if settings.llvm == LlvmVersion::Llvm16 {
        "it needs LLVM 19: leave TRANSECT_LLVM out"
    } else if settings.scope == Scope::File {
        "it needs the whole program at the link: leave TRANSECT_SCOPE=file out"
    } else if request.instruments {
        "sanitizers, coverage and profiles can't be built in beside the labels: leave their options out"
    } else if request.fixed && request.links() {
        "a program that carries labels can't be linked statically: leave -static out"
    } else {
        return Ok(());
    };
    Err(CompilerError::Confirm(why))
}

pub(crate) fn link_options(
    command: &mut Command,
    request: &Request,
    installation: &Installation,
) -> Result<(), CompilerError> {
    if request.shared {
        // The functions of a library keep their names: it is built as always, and hands no labels on.
        command.env_remove("TRANSECT_SITES");
        return Ok(());
    }
    let runtime = installation.label_runtime()?;
    command.args(LABEL_RULES);
    let linked: [OsString; 4] = [
        "--whole-archive".into(),
        runtime.library.clone().into(),
        "--no-whole-archive".into(),
        installation.confirming_runtime()?.into(),
    ];
    for word in linked {
        command.arg("-Xlinker").arg(word);
    }
    // Libraries find the runtime's versions of functions.
    let mut names = runtime.library.into_os_string();
    names.push(".syms");
    if std::path::Path::new(&names).is_file() {
        let mut option = OsString::from("--dynamic-list=");
        option.push(names);
        command.arg("-Xlinker").arg(option);
    }
    command.args(["-Wl,--no-as-needed", "-lpthread", "-lrt", "-lm", "-ldl", "-lresolv"]);
    command.env(FUNCTIONS, runtime.functions);
    Ok(())
}
