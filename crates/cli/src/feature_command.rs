//! `transect feature`.

use transect_feature_compiler::Language;

use crate::arguments::{CompilerArguments, FeatureAction};
use crate::failure::Failure;
use crate::output::Stream;
use crate::{feature_confirm, feature_regions};

/// Runs the subcommand.
pub fn feature(action: &FeatureAction) -> Result<u8, Failure> {
    match action {
        FeatureAction::Cc(arguments) if asks_for_help(arguments) => help("cc", "C"),
        FeatureAction::Cxx(arguments) if asks_for_help(arguments) => help("c++", "C++"),
        FeatureAction::Cc(arguments) => compile(Language::C, arguments),
        FeatureAction::Cxx(arguments) => compile(Language::Cxx, arguments),
        FeatureAction::Regions(arguments) => feature_regions::regions(arguments),
        FeatureAction::Confirm(arguments) => feature_confirm::confirm(arguments),
    }
}

/// `-h` alone is no option of clang's; `--help` beside others is its own.
fn asks_for_help(arguments: &CompilerArguments) -> bool {
    matches!(&arguments.arguments[..], [only] if only == "--help" || only == "-h")
}

fn help(name: &str, language: &str) -> Result<u8, Failure> {
    let text = format!(
        "Compile or link {language} so that feature regions are marked: clang, with the plugin that marks them

Usage: transect feature {name} ARGUMENTS OF CLANG

Environment:
  TRANSECT_FEATURE_MODEL=FILE           the feature model (XML or TOML)
  TRANSECT_FEATURE_REPORT=1             list all regions at the link
  TRANSECT_FEATURE_EXPLAIN=FUNCTION:LINE  on what way an option reaches a decision
  TRANSECT_FEATURE_CUTS=1               through which places options reach most decisions
  TRANSECT_SITES=probe|trace|shared|inlined|none|confirm  how regions are marked
  TRANSECT_IMPLICIT=none|constant|all   what counts as dependent
  TRANSECT_LLVM=16|19                   which LLVM

Examples:
  TRANSECT_FEATURE_MODEL=app.toml make CC=transect-cc
  transect feature {name} -O2 -c app.c -o app.o
  transect feature {name} -### app.c      what clang would run
"
    );
    Stream::Stdout.write(|out| out.write_all(text.as_bytes()).map_err(transect_report::ReportError::from))?;
    Ok(0)
}

/// Becomes the compiler: comes back only if that fails.
fn compile(language: Language, arguments: &CompilerArguments) -> Result<u8, Failure> {
    Err(Failure::Compiler(transect_feature_compiler::become_compiler(language, &arguments.arguments)))
}
