//! Code that a runtime makes or interprets for others: how it gets names.

use transect_profile_model::Profile;

use crate::names::file_name;

/// How code gets names, by the file name of the program or library that makes it: names, and words that end a sentence's
/// "and record again". Flags that are given already are no advice.
const RUNTIMES: [(&[&str], &str, &str); 6] = [
    (&["node", "nodejs", "libnode."], "--perf-", "node --perf-basic-prof --interpreted-frames-native-stack"),
    (&["python3", "libpython3"], "-Xperf", "Python 3.12 and later with python3 -X perf"),
    (
        &["java", "libjvm."],
        "DumpPerfMapAtExit",
        "java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit",
    ),
    (&["php", "opcache.so"], "opcache.jit_debug", "php -d opcache.jit_debug=16"),
    (&["dotnet", "libcoreclr."], "", "DOTNET_PerfMapEnabled=1"),
    (&["ruby", "libruby"], "--yjit-perf", "ruby --yjit-perf"),
];

/// A library that compiles regular expressions.
const PCRE2: &str = "libpcre2-";

/// The command line that gives the code names which a program or library makes or interprets; `None` where it is not known, or
/// where it was used for this `command`.
fn naming(component: &str, command: &str) -> Option<&'static str> {
    let is = |name: &&str| match component.strip_prefix(name) {
        // `python3.11`, `php8.2`; but not `nodelay`.
        Some(rest) => !rest.starts_with(|next: char| next.is_ascii_alphabetic() || next == '-') || name.ends_with('.'),
        None => false,
    };
    let (_, flag, how) = RUNTIMES.iter().find(|(names, ..)| names.iter().any(is))?;
    let command = command.replace("-X perf", "-Xperf");
    (flag.is_empty() || !command.contains(flag)).then_some(how)
}

/// The command line that gives code names which a runtime of a recorded program has made; `None` where there is none, or it was
/// used.
pub(crate) fn advice(profile: &Profile) -> Option<&'static str> {
    let command = profile.meta.command.join(" ");
    let programs = profile.processes.iter().map(|process| process.executable.as_str());
    let libraries = profile.components.iter().map(|component| component.path.as_str());
    programs.chain(libraries).find_map(|path| naming(file_name(path), &command))
}

/// What to do about code in no file, which `calling` called (empty if unknown) in a process of `program`. `components`: what is
/// loaded, by file name.
pub(super) fn nameless<'a>(
    calling: &str,
    program: &str,
    components: impl IntoIterator<Item = &'a str>,
    command: &str,
) -> String {
    let how = naming(calling, command).or_else(|| naming(program, command));
    let is_pcre2 = |component: &str| component.starts_with(PCRE2);
    // Its code has no frames, so stacks often end in it.
    let alone = || calling.is_empty() && how.is_none() && components.into_iter().any(is_pcre2);
    if is_pcre2(calling) || alone() {
        return "It is a regular expression that PCRE2 has compiled, which has no name; who matches: --view callers --api \
                'pcre2_*match*'"
            .to_owned();
    }
    match how {
        Some(how) => format!("Let the runtime name its code ({how}) and record again: --view criticality"),
        None => {
            "If what makes this code can write /tmp/perf-PID.map, let it do so and record again: --view criticality"
                .to_owned()
        }
    }
}

/// What to do about the interpreter in `component`, if that is one whose scripts' functions can have names.
pub(super) fn interpreter(component: &str, command: &str) -> Option<String> {
    naming(component, command).map(|how| format!("The script's functions have names with {how}"))
}

/// Whether a function of `component` does nothing by itself: it runs a script.
pub(super) fn interprets(component: &str, function: &str) -> bool {
    let node = component.starts_with("node") || component.starts_with("libnode.");
    node && (function.starts_with("Builtins_Interpreter")
        || function.ends_with("Handler") && function.starts_with("Builtins_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_of_the_runtime_that_made_the_code() {
        for (calling, program, part) in [
            ("", "node", "node --perf-basic-prof"),
            ("libnode.so.108", "electron", "node --perf-basic-prof"),
            ("libpython3.12.so.1.0", "blender", "python3 -X perf"),
            ("", "python3.12", "python3 -X perf"),
            ("libjvm.so", "java", "DumpPerfMapAtExit"),
            ("", "php8.2", "jit_debug"),
            ("libpcre2-8.so.0", "php8.2", "regular expression"),
            ("libpcre2-8.so.0", "grep", "regular expression"),
            ("", "nodelay", "perf-PID.map"),
            ("", "qemu-x86_64", "perf-PID.map"),
        ] {
            let advice = nameless(calling, program, [], "");
            assert!(advice.contains(part), "{calling} in {program}: {advice}");
            assert_eq!(part.contains("node"), advice.contains("node --"), "{calling} in {program}: {advice}");
        }
    }

    #[test]
    fn stacks_that_end_in_a_regular_expression_are_known_by_its_library() {
        let with = |program| nameless("", program, ["libc.so.6", "libpcre2-8.so.0"], "");
        assert!(with("grep").contains("regular expression"));
        assert!(with("php8.2").contains("jit_debug"), "a runtime that uses it has code of its own");
    }

    #[test]
    fn nobody_is_told_what_the_command_has() {
        assert!(interpreter("node", "node app.js").is_some());
        assert_eq!(interpreter("node", "node --perf-basic-prof app.js"), None);
        assert_eq!(interpreter("node", "node --perf-prof app.js"), None);
        assert_eq!(interpreter("python3.12", "python3.12 -X perf app.py"), None);
        assert_eq!(interpreter("bash", "bash run.sh"), None);
        assert!(interprets("node", "Builtins_InterpreterEntryTrampoline") && !interprets("node", "uv_run"));
    }
}
