//! Region times of runs, by recording each of them.

use std::path::{Path, PathBuf};

use transect_binary_info::Object;
use transect_feature_model::FeatureModel;
use transect_feature_region::RegionTable;
use transect_influence::{CommandTemplate, Measure, Measurement, QuietRun, RunError, set_times};
use transect_profile_model::Profile;

use crate::arguments::MethodChoice;
use crate::failure::Failure;

/// Commands that run another one.
const LAUNCHERS: &[&str] = &[
    "env", "sh", "bash", "dash", "ksh", "zsh", "timeout", "time", "nice", "ionice", "chrt", "taskset", "numactl",
    "stdbuf", "setarch", "setsid", "nohup", "prlimit", "unshare",
];

/// What is explained.
pub enum Subject {
    /// The time of the whole run.
    Whole,
    /// The time in the regions of a program.
    Regions(Owner),
}

/// Which program has the regions.
pub enum Owner {
    /// The command's own.
    Command,
    /// One that the command starts.
    Started(PathBuf),
    /// Some that the command may start.
    Unknown,
}

/// What is explained, and what is doubtful about it.
pub fn subject(choice: MethodChoice, command: &CommandTemplate, model: &FeatureModel) -> (Subject, Vec<String>) {
    let found = match choice {
        MethodChoice::Wall => return (Subject::Whole, Vec::new()),
        MethodChoice::Auto => {
            of_command(command).or_else(|| started(command).filter(|_| is_launcher(command.program())))
        }
        // Who asks for regions may have a launcher of his own.
        MethodChoice::Regions => of_command(command).or_else(|| started(command)),
    };
    let Some((owner, table)) = found else {
        let unknown = Subject::Regions(Owner::Unknown);
        return (if choice == MethodChoice::Regions { unknown } else { Subject::Whole }, Vec::new());
    };
    let own = model.hash();
    let other = table.units.iter().any(|unit| unit.model != 0 && format!("{:016x}", unit.model) != own);
    let note = "the program was built with another model (or another state of it): features are matched by name";
    (Subject::Regions(owner), if other { vec![note.to_owned()] } else { Vec::new() })
}

fn of_command(command: &CommandTemplate) -> Option<(Owner, RegionTable)> {
    let table = find(command.program()).and_then(|path| table_of(&path))?;
    Some((Owner::Command, table))
}

/// The first program with regions that the arguments name, as words of their own or in a shell's script.
fn started(command: &CommandTemplate) -> Option<(Owner, RegionTable)> {
    let ends = |letter: char| letter.is_whitespace() || ";&|()`\"'".contains(letter);
    let words = command.words().iter().skip(1).flat_map(|word| std::iter::once(word.as_str()).chain(word.split(ends)));
    words.filter(|word| !word.is_empty()).find_map(|word| {
        let path = find(word)?;
        table_of(&path).map(|table| (Owner::Started(path), table))
    })
}

fn is_launcher(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| LAUNCHERS.contains(&name))
}

/// The program's regions, if it has some.
fn table_of(path: &Path) -> Option<RegionTable> {
    let object = Object::open(path).ok()?;
    RegionTable::of(&object).ok().filter(|table| !table.regions.is_empty())
}

/// The program's file, as execvp finds it.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Records each run with this command's own feature collector.
pub struct Recorder {
    folder: tempfile::TempDir,
    run: QuietRun,
    owner: Owner,
}

impl Recorder {
    /// With a folder of its own for the profiles.
    pub fn new(run: QuietRun, owner: Owner) -> Result<Self, Failure> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|source| Failure::Write { place: "a temporary folder".to_owned(), source })?;
        Ok(Self { folder, run, owner })
    }
}

impl Measure for Recorder {
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
        let profile = self.folder.path().join("run.transect");
        // What an earlier run left; nothing is there at first.
        let _ = std::fs::remove_dir_all(&profile);
        let own = std::env::current_exe().map_err(|error| RunError(format!("transect can't find itself: {error}")))?;
        let own = [&own.display().to_string(), "record", "--quiet", "--collect", "feature"].map(str::to_owned);
        let how = match &self.owner {
            Owner::Command => Vec::new(),
            Owner::Started(program) => vec!["--feature-program".to_owned(), program.display().to_string()],
            // Without a method a command that has no regions itself is refused.
            Owner::Unknown => ["--feature-method", "probe"].map(str::to_owned).to_vec(),
        };
        let place = ["-o".to_owned(), profile.display().to_string(), "--".to_owned()];
        let recording: Vec<String> = own.into_iter().chain(how).chain(place).chain(command.iter().cloned()).collect();
        self.run.run(&recording)?;
        let profile = transect_profile_store::read_without_slices(&profile);
        let mut profile = profile.map_err(|error| RunError(format!("its profile can't be read: {error}")))?;
        crate::dependence::apply(&mut profile, None).map_err(|error| RunError(error.to_string()))?;
        if let Owner::Started(program) = &self.owner {
            keep_only(&mut profile, program);
        }
        let sets = set_times(&profile.feature);
        if profile.feature.regions.is_empty() {
            return Err(RunError(
                "the program has no feature regions; build it with transect-cc, or use --method wall".to_owned(),
            ));
        }
        Ok(Measurement { wall_ns: profile.meta.wall_ns as f64, sets })
    }
}

/// Leaves out the time of processes that run other programs, if the one is among them: a shell that waits is no cost.
fn keep_only(profile: &mut Profile, program: &Path) {
    let Ok(program) = program.canonicalize() else { return };
    let threads = &profile.threads;
    let is_its = |process: u32| {
        profile.processes.get(process as usize).is_some_and(|process| Path::new(&process.executable) == program)
    };
    let kept: Vec<bool> = threads.iter().map(|thread| is_its(thread.process)).collect();
    if !kept.contains(&true) {
        return;
    }
    for node in &mut profile.feature.nodes {
        if !kept.get(node.thread as usize).copied().unwrap_or(true) {
            node.exclusive_ns = 0;
        }
    }
}
