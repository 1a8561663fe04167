//! What a compiler's command line asks for, as far as it decides which of our options belong to it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options whose value is the next argument.
const TAKES_VALUE: &[&str] = &[
    "-o",
    "-I",
    "-L",
    "-D",
    "-U",
    "-x",
    "-l",
    "-u",
    "-T",
    "-e",
    "-z",
    "-B",
    "-F",
    "-h",
    "-A",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xlinker",
    "-Xclang",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xanalyzer",
    "-mllvm",
    "-target",
    "-arch",
    "-framework",
    "-soname",
    "-rpath",
    "-aux-info",
    "-dumpbase",
    "-dumpdir",
    "--param",
    "--sysroot",
    "--config",
    "-working-directory",
    "-gcc-toolchain",
    "-index-store-path",
];

/// Options that have the compiler put code of its own into each file.
const INSTRUMENTS: &[&str] = &[
    "-fsanitize=",
    "-fsanitize-coverage=",
    "-fprofile-instr-generate",
    "-fprofile-generate",
    "-fprofile-arcs",
    "-fcs-profile-generate",
    "-fxray-instrument",
    "-fmemory-profile",
];

/// Levels of response files in response files.
const RESPONSE_DEPTH: usize = 8;

/// A command line, understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Files (or standard input) to work on.
    pub(crate) has_input: bool,
    /// Stops before the link: `-c`, `-S`, `-E`, `-M` ...
    pub(crate) stops_early: bool,
    /// Makes no object: what is printed must be what clang prints.
    pub(crate) makes_text: bool,
    /// `-shared`: a library is linked.
    pub(crate) shared: bool,
    /// `-static`, `-static-pie`: no libraries are loaded.
    pub(crate) fixed: bool,
    /// `-r`: the output is linked again.
    pub(crate) relocatable: bool,
    /// Debug information with variables is asked for.
    pub(crate) debug: bool,
    /// Level of optimisation of the link, if said.
    pub(crate) level: Option<u8>,
    /// The compiler puts code of its own in: sanitizers, coverage, profiles.
    pub(crate) instruments: bool,
    /// Optimises virtual calls, which needs the build's own LTO.
    pub(crate) virtual_calls: bool,
    /// Headers are precompiled.
    headers: bool,
    sources: bool,
    /// The arguments, those from the first `--` on apart: it has nothing but inputs behind it.
    pub(crate) options: Vec<OsString>,
    pub(crate) inputs: Vec<OsString>,
}

impl Request {
    /// Reads the arguments, response files included.
    pub(crate) fn read(arguments: &[OsString]) -> Self {
        let mut request = Self::default();
        let expanded = expand(arguments, RESPONSE_DEPTH);
        let mut rest = expanded.iter();
        while let Some(argument) = rest.next() {
            let Some(word) = argument.to_str() else {
                request.has_input |= !argument.as_bytes().starts_with(b"-");
                continue;
            };
            if word == "--" {
                // Response files stay as they are, unless something has to be put between their words.
                let (options, inputs) = expanded.split_at(expanded.len() - rest.len() - 1);
                (request.options, request.inputs) = (options.to_vec(), inputs.to_vec());
                rest.for_each(|input| request.input(&input.to_string_lossy()));
                return request;
            }
            request.word(word);
            if TAKES_VALUE.contains(&word) {
                let value = rest.next();
                if word == "-x" {
                    request.headers |= value.and_then(|value| value.to_str()).is_some_and(is_header_language);
                }
                if word == "-Xlinker" && value.is_some_and(|value| is_relocatable(value)) {
                    request.relocatable = true;
                }
                request.has_input |= word == "-l"
                    || (word == "-Xlinker" && value.and_then(|value| value.to_str()).is_some_and(links_more));
            }
        }
        request.options = arguments.to_vec();
        request
    }

    fn input(&mut self, path: &str) {
        self.has_input = true;
        *if is_header(path) { &mut self.headers } else { &mut self.sources } = true;
    }

    /// Whether clang will link.
    pub(crate) fn links(&self) -> bool {
        self.has_input && !self.stops_early && !self.precompiles()
    }

    fn precompiles(&self) -> bool {
        self.headers && !self.sources
    }

    fn word(&mut self, word: &str) {
        match word {
            "-c" => self.stops_early = true,
            "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only" | "-emit-llvm" | "--analyze" | "--precompile"
            | "-emit-ast" | "--assemble" | "--preprocess" | "-###" | "-fdriver-only" => {
                (self.stops_early, self.makes_text) = (true, true)
            }
            "-shared" => self.shared = true,
            "-static" | "--static" | "-static-pie" => self.fixed = true,
            "-r" => self.relocatable = true,
            "-g" | "-g2" | "-g3" | "-ggdb" | "-ggdb2" | "-ggdb3" => self.debug = true,
            "-g0" | "-g1" | "-ggdb0" | "-ggdb1" | "-gline-tables-only" | "-gmlt" | "-gline-directives-only" => {
                self.debug = false;
            }
            "-O" | "-O1" | "-Og" => self.level = Some(1),
            "-O0" => self.level = Some(0),
            "-O2" | "-Os" | "-Oz" => self.level = Some(2),
            "-O3" | "-O4" | "-Ofast" => self.level = Some(3),
            "-" => self.has_input = true,
            _ if word.starts_with("-gdwarf") => self.debug = true,
            _ if word.starts_with("-print-") || word.starts_with("--print-") => self.stops_early = true,
            _ if word.starts_with("-Wl,") => {
                self.relocatable |= word.split(',').any(|part| is_relocatable(OsStr::new(part)));
                // A shared library's own name is no input.
                let own_name = |option: &str| matches!(option, "-soname" | "--soname" | "-h");
                let parts: Vec<&str> = word.split(',').collect();
                self.has_input |= parts.windows(2).any(|pair| !own_name(pair[0]) && links_more(pair[1]));
            }
            "--coverage" | "-coverage" | "-ftest-coverage" | "-fcoverage-mapping" => self.instruments = true,
            "-fwhole-program-vtables" | "-fvirtual-function-elimination" => self.virtual_calls = true,
            _ if INSTRUMENTS.iter().any(|option| word.starts_with(option)) => self.instruments = true,
            _ if word.len() > 2 && word.starts_with("-l") => self.has_input = true,
            _ if word.strip_prefix("-x").is_some_and(is_header_language) => self.headers = true,
            _ if !word.starts_with('-') => self.input(word),
            _ => {}
        }
    }
}

fn is_header(path: &str) -> bool {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| matches!(ending, "h" | "hh" | "hpp" | "hxx" | "H"))
}

fn is_header_language(name: &str) -> bool {
    matches!(name, "c-header" | "c++-header" | "objective-c-header" | "objective-c++-header")
}

/// Whether a word for the linker names what it links: objects, libraries, groups of them.
fn links_more(word: &str) -> bool {
    if word.starts_with('-') {
        return word.starts_with("-l") || matches!(word, "--whole-archive" | "--start-group" | "-(");
    }
    let ending = |name: &str| [".o", ".a", ".so"].iter().any(|ending| name.ends_with(ending));
    ending(word) || word.contains(".so.")
}

fn is_relocatable(option: &OsStr) -> bool {
    ["-r", "-i", "--relocatable"].iter().any(|name| option == *name)
}

/// The arguments with `@FILE` replaced by the file's words; an argument whose file can't be read is kept: clang will say so.
fn expand(arguments: &[OsString], depth: usize) -> Vec<OsString> {
    let mut words = Vec::new();
    for argument in arguments {
        let content =
            argument.as_bytes().strip_prefix(b"@").filter(|_| depth > 0).map(OsStr::from_bytes).map(std::fs::read);
        match content {
            Some(Ok(content)) => words.extend(expand(&split(&content), depth - 1)),
            _ => words.push(argument.clone()),
        }
    }
    words
}

/// Splits as GNU tools do: white space separates, quotes and backslashes keep it.
fn split(content: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = content.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', open) if open != Some(b'\'') => word.get_or_insert_default().extend(bytes.next()),
            (b'"' | b'\'', None) => (quote, word) = (Some(byte), Some(word.unwrap_or_default())),
            (_, Some(open)) if byte == open => quote = None,
            (_, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Request {
        Request::read(&split(line.as_bytes()))
    }

    #[test]
    fn what_links_and_what_does_not() {
        assert!(request("a.c -o a").links());
        assert!(request("-O2 a.o b.o -lm -o a").links());
        assert!(!request("-c a.c -o a.o").links());
        assert!(!request("--version").links());
        assert!(!request("-v").links());
        assert!(!request("-print-prog-name=ld").links());
        assert!(!request("-E a.c").links());
        assert!(!request("-M a.c").links());
        assert!(request("-MD -MF a.d a.c").links());
        // Values of options are no inputs.
        assert!(!request("-o a -I include -include config.h -MF a.d -x c").has_input);
    }

    #[test]
    fn inputs_that_only_the_linker_sees() {
        for line in [
            "-shared -o libx.so -Wl,--whole-archive,libx.a,--no-whole-archive",
            "-shared -o libx.so -Wl,--whole-archive -lx -Wl,--no-whole-archive",
            "-o x -Wl,--start-group,a.o,b.o,--end-group",
            "-o x -Xlinker a.o",
            "-o x -l x",
            "-o x -Wl,libx.so.1",
        ] {
            assert!(request(line).links(), "{line}");
        }
        for line in ["-Wl,--version", "-Wl,-v -v", "-Xlinker --version", "-Wl,-soname,libx.so.1", "-Wl,-rpath,/lib -v"]
        {
            assert!(!request(line).links(), "{line}");
        }
        assert!(!request("-c a.c -lm").links());
    }

    #[test]
    fn behind_two_hyphens_are_inputs() {
        let read = request("-O2 -o a -- w.c b.h -c");
        assert!(read.links() && read.level == Some(2));
        assert_eq!(read.options, ["-O2", "-o", "a"]);
        assert_eq!(read.inputs, ["--", "w.c", "b.h", "-c"]);
        // A value, and one without inputs.
        assert_eq!(request("-o -- a.c").inputs, [""; 0]);
        assert!(!request("-c --").has_input);
        assert_eq!(request("a.c --").inputs, ["--"]);
    }

    #[test]
    fn levels_and_debug_information() {
        assert_eq!(request("-O0 -O2 a.c").level, Some(2));
        assert_eq!(request("a.c").level, None);
        for (word, level) in [("-O", 1), ("-Og", 1), ("-Os", 2), ("-Oz", 2), ("-O3", 3), ("-Ofast", 3)] {
            assert_eq!(request(&format!("{word} a.c")).level, Some(level), "{word}");
        }
        assert!(request("-g -O2 a.c").debug);
        assert!(!request("-g -g1 a.c").debug);
        assert!(request("-gdwarf-4 a.c").debug);
    }

    #[test]
    fn headers_are_precompiled_and_not_linked() {
        for line in ["-x c++-header a.h -o a.h.pch", "-xc-header a.h", "a.hpp", "-O2 a.h b.h"] {
            assert!(!request(line).links(), "{line}");
        }
        assert!(request("-include a.h a.c").links());
        assert!(request("a.h a.c").links());
    }

    #[test]
    fn code_of_the_compilers_own() {
        for line in [
            "-fsanitize=address a.c",
            "--coverage a.o",
            "-fprofile-instr-generate a.c",
            "-fsanitize-coverage=trace-pc a.c",
        ] {
            assert!(request(line).instruments, "{line}");
        }
        assert!(!request("-fprofile-use=a a.c").instruments);
    }

    #[test]
    fn relocatable_links() {
        for line in ["-r a.o -o b.o", "-Wl,-r a.o", "-Xlinker -r a.o", "-nostdlib -Wl,-x,--relocatable a.o"] {
            assert!(request(line).relocatable, "{line}");
        }
        assert!(!request("-Wl,-rpath,/r a.o").relocatable);
    }

    #[test]
    fn response_files() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::write(&inner, "-c 'a file.c'").unwrap();
        let outer = folder.path().join("outer");
        std::fs::write(&outer, format!("-O3 @{}", inner.display())).unwrap();
        let read = Request::read(&[format!("@{}", outer.display()).into()]);
        assert!(read.has_input && read.stops_early);
        assert_eq!(read.level, Some(3));
        std::fs::write(&inner, "-c -- 'a file.c'").unwrap();
        let read = Request::read(&[format!("@{}", outer.display()).into()]);
        assert_eq!(
            (read.options, read.inputs),
            (vec!["-O3".into(), "-c".into()], vec!["--".into(), "a file.c".into()])
        );
        // A file that is its own content ends.
        std::fs::write(&inner, format!("@{}", inner.display())).unwrap();
        Request::read(&[format!("@{}", inner.display()).into()]);
    }

    #[test]
    fn words_as_gnu_tools_split_them() {
        assert_eq!(split(b"a 'b c' \"d \\\" e\" f\\ g\n\t''"), ["a", "b c", "d \" e", "f g", ""]);
    }
}
