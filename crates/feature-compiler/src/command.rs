//! Our options beside the build's own. They come last (but before `--`), so that they win over the build's choice of linker
//! and LTO.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::arguments::Request;
use crate::confirmation;
use crate::{CompilerError, Installation, Language, LlvmVersion, Scope, Settings, Sites};

/// Tells the plugin in the compiler to keep the code for the link instead of marking it.
const STAGE: &str = "TRANSECT_COMPILE_STAGE";

pub(crate) fn compose(
    language: Language,
    arguments: &[OsString],
    settings: &Settings,
    installation: &Installation,
) -> Result<Command, CompilerError> {
    let request = Request::read(arguments);
    if settings.sites == Sites::Confirm {
        confirmation::check(&request, settings)?;
    }
    // The compiler puts its code in before the link sees the program, or not at all.
    let scope = if request.instruments { Scope::File } else { settings.scope };
    let settings = &Settings { scope, ..settings.clone() };
    let mut command = Command::new(installation.compiler(language)?);
    if !request.has_input || request.makes_text {
        command.args(arguments);
        return Ok(command);
    }
    command.args(&request.options);
    // Options of ours that a step has no use for are no reason to warn, nor to fail a trial of configure.
    command.arg("--start-no-unused-arguments");
    // Local variables and members are known by their debug information only.
    if !request.debug {
        command.arg("-g");
    }
    command.args(compile_options(settings, installation));
    if request.virtual_calls {
        command.args(["-fno-whole-program-vtables", "-fno-virtual-function-elimination"]);
    }
    if request.links() && !request.relocatable {
        link_options(&mut command, &request, settings, installation)?;
    }
    command.arg("--end-no-unused-arguments");
    command.args(&request.inputs);
    command.env(STAGE, if settings.scope == Scope::Program { "embed" } else { "mark" });
    Ok(command)
}

fn compile_options(settings: &Settings, installation: &Installation) -> Vec<OsString> {
    match (settings.scope, installation.llvm) {
        (Scope::Program, LlvmVersion::Llvm16) => {
            ["-flto=full", "-Xclang", "-disable-llvm-passes"].map(OsString::from).to_vec()
        }
        _ => vec!["-fno-lto".into(), joined("-fpass-plugin=", installation.plugin.as_os_str())],
    }
}

fn link_options(
    command: &mut Command,
    request: &Request,
    settings: &Settings,
    installation: &Installation,
) -> Result<(), CompilerError> {
    if settings.scope == Scope::Program {
        // As GNU ld: names in a version script need not exist, and sections whose bounds are asked for are kept.
        command.args(["-fuse-ld=lld", "-Wl,--undefined-version", "-Wl,-z,nostart-stop-gc"]);
        command.arg(joined("--ld-path=", installation.linker()?.as_os_str()));
        if installation.llvm != LlvmVersion::Llvm16 {
            command.arg("-Wl,--fat-lto-objects");
        }
        command.arg(format!("-Wl,--lto-O{}", request.level.unwrap_or(2)));
        command.arg(joined("-Wl,--load-pass-plugin=", installation.plugin.as_os_str()));
    }
    if settings.sites == Sites::Trace {
        // The calls appear only after the linker has chosen its members of archives.
        command.args(["-Wl,-u,transect_region_begin", "-Wl,-u,transect_region_end", "-Wl,-u,transect_region_restore"]);
        // As an input it would be in the language that `-x` names.
        command.arg("-Xlinker").arg(installation.runtime()?);
    }
    if settings.sites == Sites::Confirm {
        confirmation::link_options(command, request, installation)?;
    }
    Ok(())
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut whole = OsString::from(option);
    whole.push(value);
    whole
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// An installation in a folder of its own, as `make install` leaves it.
    fn installed(folder: &std::path::Path, llvm: LlvmVersion) -> Installation {
        let parts = folder.join("lib/transect");
        let plugin = parts.join(format!("compiler-plugin/llvm-{}", llvm.number()));
        std::fs::create_dir_all(&plugin).unwrap();
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        std::fs::write(plugin.join("transect-features.so"), "").unwrap();
        std::fs::write(plugin.join("transect-confirm.o"), "").unwrap();
        std::fs::write(parts.join("libtransect_region.a"), "").unwrap();
        Installation::near(folder.join("bin/transect-cc"), llvm).unwrap()
    }

    fn composed(line: &str, settings: &Settings) -> Result<Vec<String>, CompilerError> {
        let folder = tempfile::tempdir().unwrap();
        let installation = installed(folder.path(), settings.llvm);
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let command = compose(Language::C, &words, settings, &installation)?;
        Ok(command.get_args().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    fn has(words: &[String], part: &str) -> bool {
        words.iter().any(|word| word.contains(part))
    }

    #[test]
    fn a_compile_and_a_link() {
        let Ok(compile) = composed("-c a.c", &Settings::default()) else { return };
        assert!(has(&compile, "-fpass-plugin=") && has(&compile, "-g") && !has(&compile, "-fuse-ld"));
        let link = composed("a.o -O3 -o a", &Settings::default()).unwrap();
        assert!(has(&link, "--load-pass-plugin=") && has(&link, "--lto-O3") && has(&link, "--fat-lto-objects"));
        assert!(!has(&link, "libtransect_region.a"));
        let traced = Settings { sites: Sites::Trace, ..Settings::default() };
        assert!(has(&composed("a.o", &traced).unwrap(), "libtransect_region.a"));
    }

    #[test]
    fn a_program_that_confirms_its_regions() {
        let settings = Settings { sites: Sites::Confirm, ..Settings::default() };
        let refused = |line: &str, settings: &Settings| composed(line, settings).unwrap_err().to_string();
        let Ok(compile) = composed("-c a.c", &settings) else { return };
        assert!(!has(&compile, "dfsan"), "labels are carried in the whole program only");
        assert!(refused("-static a.o", &settings).contains("-static"));
        assert!(refused("-fsanitize=address -c a.c", &settings).contains("sanitizers"));
        let file = Settings { scope: Scope::File, ..settings.clone() };
        assert!(refused("-c a.c", &file).contains("TRANSECT_SCOPE"));
        assert!(!has(&composed("-shared a.o -o a.so", &settings).unwrap(), "dfsan"));
        match composed("a.o -o a", &settings) {
            Ok(link) => assert!(has(&link, "libclang_rt.dfsan") && has(&link, "transect-confirm.o"), "{link:?}"),
            Err(missing) => assert!(missing.to_string().contains("libclang-rt-19-dev"), "{missing}"),
        }
    }

    #[test]
    fn inputs_of_any_language_and_name() {
        let traced = Settings { sites: Sites::Trace, ..Settings::default() };
        let Ok(words) = composed("-x c -o a -", &traced) else { return };
        let runtime = words.iter().position(|word| word.ends_with("libtransect_region.a")).unwrap();
        assert_eq!(words[runtime - 1], "-Xlinker");
        let words = composed("-o a -- b.c", &traced).unwrap();
        assert!(words.ends_with(&["--end-no-unused-arguments".into(), "--".into(), "b.c".into()]), "{words:?}");
    }

    #[test]
    fn texts_and_questions_are_left_alone() {
        for line in ["-E a.c", "-M a.c", "-S a.c", "--version", "-print-search-dirs", "-dumpversion"] {
            let Ok(words) = composed(line, &Settings::default()) else { return };
            assert_eq!(words.join(" "), line);
        }
    }

    #[test]
    fn sanitizers_see_each_file() {
        let Ok(words) = composed("-fsanitize=address a.c", &Settings::default()) else { return };
        assert!(!has(&words, "load-pass-plugin") && has(&words, "-fpass-plugin="), "{words:?}");
    }

    #[test]
    fn links_that_are_linked_again_stay_as_they_are() {
        let Ok(words) = composed("-r a.o b.o -o c.o", &Settings::default()) else { return };
        assert!(!has(&words, "load-pass-plugin"));
    }

    #[test]
    fn a_plugin_that_is_nowhere_is_named() {
        let message = Installation::near(PathBuf::from("/nowhere/bin/x"), LlvmVersion::Llvm16).unwrap_err().to_string();
        assert!(message.contains("llvm-16/transect-features.so") && message.contains("make build"), "{message}");
    }
}
