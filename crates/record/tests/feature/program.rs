//! Programs with regions: built from C with sites by hand, recorded, their trees as text.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, Once};

use transect_profile_model::{Dependence, Profile, RegionMethod};
use transect_record::RecordError;
use transect_record::feature::{
    DEFAULT_BUDGET, DEFAULT_SAMPLE_HZ, FeatureOutcome, FeatureSettings, FeatureTarget, Overflow,
};

/// One recording at a time: a launch reaps all children of its process.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Builds the agent beside the tests, and the runtime (whose checks of a debug build need a Rust runtime); gives the latter.
fn runtime() -> PathBuf {
    static BUILT: Once = Once::new();
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    BUILT.call_once(|| {
        if std::env::var_os("TRANSECT_AGENTS_BUILT").is_some() {
            return;
        }
        let build = |package: &str, release: bool| {
            let options = release.then_some("--release");
            let built = Command::new(env!("CARGO")).args(["build", "-q", "-p", package]).args(options).status();
            assert!(built.is_ok_and(|status| status.success()), "{package} can't be built");
        };
        build("transect-region-trace", true);
        build("transect-probe-agent", folder.ends_with("release"));
    });
    folder.with_file_name("release").join("libtransect_region.a")
}

/// A built program; gone with its folder.
pub struct Program {
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Builds a program of `tests/feature/programs`, with compiled-in events or no-ops.
pub fn build(source: &str, traces: bool, flags: &[&str]) -> Program {
    build_with(if source.ends_with(".cc") { "c++" } else { "cc" }, source, traces, flags)
}

/// The same by a certain compiler.
pub fn build_with(compiler: &str, source: &str, traces: bool, flags: &[&str]) -> Program {
    let runtime = runtime();
    let made = tempfile::tempdir().unwrap();
    let path = made.path().join(source.split('.').next().unwrap());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/feature/programs").join(source);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-pthread", "-o"]).arg(&path).arg(&source);
    if traces {
        command.args(["-DTRACE", "-mno-red-zone"]).arg(&runtime);
    }
    assert!(command.args(flags).status().unwrap().success(), "{} does not build", source.display());
    Program { path, _folder: made }
}

pub fn settings(target: FeatureTarget, method: RegionMethod) -> FeatureSettings {
    FeatureSettings {
        target,
        program: None,
        method: Some(method),
        features: Vec::new(),
        regions: Vec::new(),
        dependence: Dependence::default(),
        selection: None,
        overflow: Overflow::Block,
        sample_hz: DEFAULT_SAMPLE_HZ,
        budget: DEFAULT_BUDGET,
        interval: None,
        model: None,
    }
}

/// Records without snapshots.
pub fn record(settings: &FeatureSettings) -> Result<FeatureOutcome, RecordError> {
    transect_record::feature::record(settings, &mut |_| {})
}

impl Program {
    /// Its settings for a launch.
    pub fn launch(&self, arguments: &[&str], method: RegionMethod) -> FeatureSettings {
        let mut command = vec![OsString::from(&self.path)];
        command.extend(arguments.iter().map(OsString::from));
        settings(FeatureTarget::Launch { command, follow: true }, method)
    }

    /// Records it to its end.
    pub fn record(&self, arguments: &[&str], method: RegionMethod) -> FeatureOutcome {
        record(&self.launch(arguments, method)).unwrap()
    }
}

/// Entries per stack of regions (numbers, outermost first), all threads together.
pub fn entries(profile: &Profile) -> BTreeMap<Vec<i64>, i64> {
    let nodes = &profile.feature.nodes;
    let mut sums = BTreeMap::new();
    for node in nodes {
        let mut stack = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            stack.extend(node.region.map(|region| profile.feature.regions[region as usize].number));
            at = node.parent.map(|parent| &nodes[parent as usize]);
        }
        stack.reverse();
        if let Some(entries) = node.entries {
            *sums.entry(stack).or_default() += entries;
        }
    }
    sums
}

/// All times of a thread add up to its lifetime.
pub fn check_times(profile: &Profile) {
    for (number, thread) in profile.threads.iter().enumerate() {
        let nodes = profile.feature.nodes.iter().filter(|node| node.thread == number as u32);
        let sum: i64 = nodes.clone().map(|node| node.exclusive_ns).sum();
        assert_eq!(sum, thread.wall_ns, "thread {}", thread.tid);
        assert!(nodes.clone().all(|node| node.exclusive_ns >= 0), "{:?}", nodes.collect::<Vec<_>>());
    }
    for (number, node) in profile.feature.nodes.iter().enumerate() {
        assert!(node.parent.is_none_or(|parent| (parent as usize) < number));
    }
}
