//! Region times of runs, by recording each of them.

use std::path::{Path, PathBuf};

use transect_binary_info::Object;
use transect_feature_model::FeatureModel;
use transect_feature_region::RegionTable;
use transect_influence::{CommandTemplate, Measure, Measurement, Method, QuietRun, RunError, set_times};

use crate::arguments::MethodChoice;
use crate::failure::Failure;

/// What is explained, and what is doubtful about it.
pub fn method(choice: MethodChoice, command: &CommandTemplate, model: &FeatureModel) -> (Method, Vec<String>) {
    let table = match choice {
        MethodChoice::Wall => return (Method::Wall, Vec::new()),
        MethodChoice::Auto | MethodChoice::Regions => find(command.program()).and_then(|path| table_of(&path)),
    };
    let Some(table) = table else {
        let method = if choice == MethodChoice::Regions { Method::Regions } else { Method::Wall };
        return (method, Vec::new());
    };
    let own = model.hash();
    let other = table.units.iter().any(|unit| unit.model != 0 && format!("{:016x}", unit.model) != own);
    let note = "the program was built with another model (or another state of it): features are matched by name";
    (Method::Regions, if other { vec![note.to_owned()] } else { Vec::new() })
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
}

impl Recorder {
    /// With a folder of its own for the profiles.
    pub fn new(run: QuietRun) -> Result<Self, Failure> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|source| Failure::Write { place: "a temporary folder".to_owned(), source })?;
        Ok(Self { folder, run })
    }
}

impl Measure for Recorder {
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
        let profile = self.folder.path().join("run.transect");
        // What an earlier run left; nothing is there at first.
        let _ = std::fs::remove_dir_all(&profile);
        let own = std::env::current_exe().map_err(|error| RunError(format!("transect can't find itself: {error}")))?;
        let own = [&own.display().to_string(), "record", "--quiet", "--collect", "feature", "-o"].map(str::to_owned);
        let place = [profile.display().to_string(), "--".to_owned()];
        let recording: Vec<String> = own.into_iter().chain(place).chain(command.iter().cloned()).collect();
        self.run.run(&recording)?;
        let profile = transect_profile_store::read_without_slices(&profile);
        let profile = profile.map_err(|error| RunError(format!("its profile can't be read: {error}")))?;
        let sets = set_times(&profile.feature);
        if profile.feature.regions.is_empty() {
            return Err(RunError(
                "the program has no feature regions; build it with transect-cc, or use --method wall".to_owned(),
            ));
        }
        Ok(Measurement { wall_ns: profile.meta.wall_ns as f64, sets })
    }
}
