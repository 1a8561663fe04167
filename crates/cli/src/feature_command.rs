//! `transect feature`.

use transect_feature_compiler::Language;

use crate::arguments::{CompilerArguments, FeatureAction};
use crate::failure::Failure;
use crate::feature_regions;

/// Runs the subcommand.
pub fn feature(action: &FeatureAction) -> Result<u8, Failure> {
    match action {
        FeatureAction::Cc(arguments) => compile(Language::C, arguments),
        FeatureAction::Cxx(arguments) => compile(Language::Cxx, arguments),
        FeatureAction::Regions(arguments) => feature_regions::regions(arguments),
    }
}

/// Becomes the compiler: comes back only if that fails.
fn compile(language: Language, arguments: &CompilerArguments) -> Result<u8, Failure> {
    Err(Failure::Compiler(transect_feature_compiler::become_compiler(language, &arguments.arguments)))
}
