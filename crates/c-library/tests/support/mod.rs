//! Builds C and C++ programs against the staged library and runs them.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use transect_testkit::made_once;

/// This crate's folder.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder of this test run.
pub fn scratch() -> PathBuf {
    // One folder for each test file: runs follow each other in it, so that nothing piles up.
    let test = std::env::current_exe().unwrap();
    let name = test.file_stem().unwrap().to_string_lossy();
    let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-library").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Stands beside the staged library, which all test files share, and says when it was made.
fn stage_made() -> PathBuf {
    scratch().with_file_name("stage.made")
}

/// The library as it is installed, made once by `stage.sh` from what cargo has built for this test.
pub fn stage() -> &'static Path {
    static STAGE: OnceLock<PathBuf> = OnceLock::new();
    STAGE.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let deps = test.parent().unwrap();
        // Cargo links the finished libraries beside their folder only when they are built for themselves.
        let built = [deps, deps.parent().unwrap()]
            .into_iter()
            .filter(|folder| folder.join("libtransect.a").exists() && folder.join("libtransect.so").exists())
            .max_by_key(|folder| folder.join("libtransect.so").metadata().unwrap().modified().unwrap())
            .expect("cargo builds the library for its tests");
        let stage = stage_made().with_extension("");
        let sources = ["libtransect.so", "libtransect.a"].map(|file| built.join(file));
        let ours = ["stage.sh", "one-text-section.ld", "include"].map(|file| here().join(file));
        let sources: Vec<&Path> = sources.iter().chain(&ours).map(PathBuf::as_path).collect();
        made_once(&stage_made(), &sources, || {
            run(Command::new("sh").arg(here().join("stage.sh")).arg(built).arg(&stage));
        });
        stage
    })
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// How a program is linked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// With the shared library.
    Shared,
    /// With the archive.
    Archive,
    /// With the archive, without any shared library.
    Static,
}

/// Compiles `tests/programs/NAME` with `compiler` and `flags`.
pub fn build(compiler: &str, name: &str, flags: &[&str], link: Link) -> PathBuf {
    let lib = stage().join("lib");
    let unique: String =
        flags.iter().flat_map(|flag| flag.chars()).filter(char::is_ascii_alphanumeric).collect::<String>();
    let out = scratch().join(format!("{}-{compiler}-{unique}-{}", name.replace('.', "-"), link as u8));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-w", "-pthread"]).arg(format!("-I{}", stage().join("include").display()));
    command.args(flags).arg(here().join("tests/programs").join(name)).arg("-o").arg(&out);
    match link {
        Link::Shared => {
            command.arg(format!("-L{}", lib.display())).arg("-ltransect");
            command.arg(format!("-Wl,-rpath,{}", lib.display())).arg("-ldl");
        }
        Link::Archive => {
            command.arg(lib.join("libtransect.a")).args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
        }
        Link::Static => {
            command.arg("-static").arg(lib.join("libtransect.a")).args(["-lm", "-lgcc_eh"]);
        }
    }
    // Tests run at once, some with the same program.
    made_of_programs(&PathBuf::from(format!("{}.made", out.display())), || drop(run(&mut command)));
    out
}

/// Runs `make` if a program's source or the staged library is younger than what it made.
pub fn made_of_programs(stamp: &Path, make: impl FnOnce()) {
    let (programs, support, stage) = (here().join("tests/programs"), here().join("tests/support"), stage_made());
    made_once(stamp, &[&programs, &support, &stage], make);
}

/// Runs a program with a limit of some minutes; its output must end in a line that begins with "ok".
pub fn check(program: &Path, arguments: &[&str]) {
    // Profiled programs leave a file where they run.
    let output = run(Command::new("timeout").current_dir(scratch()).arg("400").arg(program).args(arguments));
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.starts_with("NOT RUN:")) {
        println!("{line}");
        return;
    }
    assert!(text.lines().last().is_some_and(|line| line.starts_with("ok")), "{program:?} {arguments:?}: {text}");
}

/// True if a tool is there; else says so.
pub fn has(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("NOT RUN: {tool} is not installed");
    }
    there
}

/// Whether a compiler has what its flags need at run time: the runtime of clang's sleds is a package of its own.
pub fn links(compiler: &str, flags: &[&str]) -> bool {
    let source = scratch().join(format!("empty-{}.c", std::process::id()));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let links = Command::new(compiler).args(flags).arg(&source).arg("-o").arg(source.with_extension("")).output();
    let links = links.is_ok_and(|output| output.status.success());
    if !links {
        println!("NOT RUN: {compiler} {}: its runtime is not installed", flags.join(" "));
    }
    links
}
