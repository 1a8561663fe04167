//! `transect-cc`, and under the name `transect-c++` (a link to it) the C++ compiler of a build that marks feature regions.

use std::process::ExitCode;

use transect_feature_compiler::Language;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let (language, name) = match name.to_string_lossy().ends_with("++") {
        true => (Language::Cxx, "transect-c++"),
        false => (Language::C, "transect-cc"),
    };
    let problem = transect_feature_compiler::become_compiler(language, &words.collect::<Vec<_>>());
    eprintln!("{name}: error: {problem}");
    ExitCode::FAILURE
}
