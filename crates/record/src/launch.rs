//! Launching the program with the agent in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use transect_bpf_collect::privilege::withheld_environment;

use crate::error::RecordError;
use crate::own_folder::OwnFolder;
use crate::process_start::Launched;

/// File name of the agent.
pub const AGENT_FILE: &str = "libtransect_agent.so";
const AGENT_LINK: &str = "libtransect.so";
/// Beside that link: one to the recording's memory.
const ARENA_LINK: &str = "arena";

/// Where the agent is.
pub fn find_agent(given: Option<&Path>) -> Result<PathBuf, RecordError> {
    match given {
        Some(path) => canonical(&[path.to_owned()]),
        None => find_beside(AGENT_FILE),
    }
}

/// A file that is installed with the command: beside it, or where `make install` puts it.
pub fn find_beside(file: &'static str) -> Result<PathBuf, RecordError> {
    let exe = std::env::current_exe().unwrap_or_default();
    let dir = exe.parent().unwrap_or(Path::new("."));
    canonical(&[dir.join(file), dir.join("../lib/transect").join(file), dir.join("..").join(file)])
}

fn canonical(candidates: &[PathBuf]) -> Result<PathBuf, RecordError> {
    match candidates.iter().find(|p| p.is_file()) {
        Some(p) => p.canonicalize().map_err(|source| RecordError::Read { path: p.clone(), source }),
        None => {
            let looked = candidates.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
            Err(RecordError::AgentMissing { looked })
        }
    }
}

/// A directory only its user can enter, where the agent finds its configuration.
pub struct SessionDir {
    dir: OwnFolder,
}

impl SessionDir {
    /// Makes it, with the link to the agent.
    pub fn create(agent: &Path) -> Result<SessionDir, RecordError> {
        let dir = OwnFolder::create().map_err(RecordError::TemporaryFolder)?;
        symlink(agent, dir.path().join(AGENT_LINK)).map_err(RecordError::TemporaryFolder)?;
        Ok(SessionDir { dir })
    }

    /// The agent's path for `LD_PRELOAD`.
    pub fn agent(&self) -> PathBuf {
        self.dir.path().join(AGENT_LINK)
    }

    /// Where linkage plans may lie that are kept for no other recording.
    pub fn plans(&self) -> PathBuf {
        self.dir.path().join("linkage")
    }

    /// Where agents ask for the pages that another collector publishes.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join(transect_event_abi::published::SOCKET_FILE)
    }

    /// Links the memory file beside the agent.
    pub fn link_arena(&self, descriptor: i32) -> Result<(), RecordError> {
        let target = format!("/proc/{}/fd/{descriptor}", std::process::id());
        symlink(target, self.dir.path().join(ARENA_LINK))
            .map_err(RecordError::system("link the recording's memory file"))
    }
}

const PRELOAD: &str = "LD_PRELOAD";

/// Sanitizer runtimes that insist on coming first among the preloaded.
const FIRST: [&str; 3] = ["libasan.so", "libtsan.so", "libhwasan.so"];

/// Called with the program's process id when it exists and has not begun yet: another program, this one's copy, still
/// runs in it. If it fails, the program is not started.
pub type BeforeExec<'a> = &'a mut dyn FnMut(i32) -> Result<(), RecordError>;
/// The same where another thread may start the program.
pub type BeforeExecAnywhere<'a> = &'a mut (dyn FnMut(i32) -> Result<(), RecordError> + Send);

/// A list of preloaded objects without the agents of other recordings, inside of which this one runs: a program has one agent.
fn without_agents(list: &OsStr) -> OsString {
    let is_agent = |entry: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(entry));
        path.file_name() == Some(OsStr::new(AGENT_LINK))
            && path.parent().is_some_and(|folder| folder.join(ARENA_LINK).is_symlink())
    };
    let others: Vec<&[u8]> = list.as_bytes().split(|&byte| byte == b':').filter(|entry| !is_agent(entry)).collect();
    OsString::from_vec(others.join(&b':'))
}

/// Variables of a program that is started with the agent in it. `object` is the ELF file that will run.
pub fn agent_environment(object: &Path, agent: &Path) -> Vec<(OsString, OsString)> {
    let mut variables = withheld_environment();
    let given = variables.iter().position(|v| v.0 == PRELOAD).map(|at| variables.swap_remove(at).1);
    let mut preload = without_agents(&given.or_else(|| std::env::var_os(PRELOAD)).unwrap_or_default());
    let needed = transect_binary_info::Object::open(object).map(|o| o.needed().to_vec()).unwrap_or_default();
    if let Some(runtime) = needed.iter().find(|n| FIRST.iter().any(|f| n.starts_with(f))) {
        let mut first = OsString::from(runtime);
        if !preload.is_empty() {
            first.push(":");
            first.push(&preload);
        }
        preload = first;
    }
    if !preload.is_empty() {
        // Last, so that sanitizer runtimes stay first.
        preload.push(":");
    }
    preload.push(agent);
    variables.push((PRELOAD.into(), preload));
    variables
}

/// Starts the program without agent.
#[allow(dead_code)] // until the recording of scheduler events alone launches programs by it
pub fn spawn_plain(command: &[OsString], before_exec: BeforeExec<'_>) -> Result<Launched, RecordError> {
    Launched::start(command, &withheld_environment(), before_exec)
}

/// Exit status as a shell gives it.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_inside_of_another_leaves_that_ones_agent_out() {
        let outer = SessionDir::create(Path::new("/lib/agent.so")).unwrap();
        outer.link_arena(0).unwrap();
        let agent = outer.agent().into_os_string();
        let list = |words: &[&OsStr]| words.join(OsStr::new(":"));
        let user = OsStr::new("/opt/libtransect.so");
        assert_eq!(
            without_agents(&list(&[OsStr::new("libasan.so.8"), user, &agent])),
            list(&[OsStr::new("libasan.so.8"), user])
        );
        assert_eq!(without_agents(&agent), "");
        assert_eq!(without_agents(OsStr::new("")), "");
    }
}
