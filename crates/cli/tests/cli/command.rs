//! Runs the command in a folder of its own, with no configuration of the user's.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::OnceLock;

use assert_cmd::Command;
use tempfile::TempDir;
use transect_analyze::synthetic;
use transect_profile_model::Profile;

/// A folder with what a command needs; `HOME` and the current folder of all commands.
pub struct Sandbox {
    pub folder: TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn transect(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("transect").unwrap();
        command.args(arguments).current_dir(self.folder.path()).env("HOME", self.folder.path());
        for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command.timeout(std::time::Duration::from_secs(60));
        command
    }

    /// As [`Sandbox::transect`], with the agent at hand.
    pub fn with_agent(&self, arguments: &[&str]) -> Command {
        let mut command = self.transect(arguments);
        command.env("TRANSECT_AGENT", agent());
        command
    }

    /// The same as [`Sandbox::with_agent`], to be signalled while it runs.
    pub fn started(&self, arguments: &[&str]) -> std::process::Child {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("transect"));
        command.args(arguments).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env("TRANSECT_AGENT", agent()).stdin(std::process::Stdio::null()).spawn().unwrap()
    }

    /// Another program, in the same surroundings as [`Sandbox::with_agent`].
    pub fn foreign(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("HOME", self.folder.path()).env("TRANSECT_AGENT", agent());
        command
    }

    /// Writes a profile of a made-up image server.
    pub fn profile(&self, name: &str) -> Profile {
        let profile = synthetic::image_server();
        transect_profile_store::write(&self.path(name), &profile).unwrap();
        profile
    }

    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Names in the folder, without the cache.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".cache");
        names.sort();
        names
    }
}

/// The agent, built once; beside the tests' own build, so that nothing is built twice.
fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| built("transect-agent", "libtransect_agent.so"))
}

/// Puts the image with the handlers of probes where the command looks for it: beside itself.
pub fn place_probe_agent() {
    static PLACED: OnceLock<()> = OnceLock::new();
    PLACED.get_or_init(|| {
        if std::env::var_os(AGENTS_BUILT).is_some() {
            return;
        }
        let built = built("transect-probe-agent", "libtransect_probe_agent.so");
        let folder = assert_cmd::cargo::cargo_bin("transect").parent().unwrap().to_owned();
        // Renamed into place: another test program may be using the old one.
        let draft = folder.join(format!(".probe-agent-{}", std::process::id()));
        std::fs::copy(&built, &draft).unwrap();
        std::fs::rename(&draft, folder.join("libtransect_probe_agent.so")).unwrap();
    });
}

/// Set where dev/build-test-agents.sh has built and placed them.
const AGENTS_BUILT: &str = "TRANSECT_AGENTS_BUILT";

fn built(package: &str, file: &str) -> PathBuf {
    // …/target/debug/deps/this-test
    let test = std::env::current_exe().unwrap();
    let file = test.ancestors().nth(3).unwrap().join("release").join(file);
    if std::env::var_os(AGENTS_BUILT).is_some() {
        return file;
    }
    let build = Process::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "-p", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(build.success(), "{package} does not build");
    file
}
