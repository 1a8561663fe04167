//! Each way in which a folder can be wrong has its own error, which names the path and says what to do.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use transect_analyze::synthetic::{empty, image_server, latency_service};
use transect_profile_store::{StoreError, TABLES, check_writable, read, write};

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn written(&self) -> PathBuf {
        let path = self.path("run.transect");
        write(&path, &image_server()).unwrap();
        path
    }

    /// Everything beside the profile, to see that nothing is left behind.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Says so past the test harness, which keeps what tests print.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {why}");
}

fn assert_names(error: &StoreError, path: &Path) {
    let message = error.to_string();
    assert!(message.starts_with(&path.display().to_string()), "{message}");
    assert!(message.contains(';'), "says what to do: {message}");
}

fn edit_meta(path: &Path, edit: impl FnOnce(&mut serde_json::Value)) {
    let file = path.join("meta.json");
    let mut value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    edit(&mut value);
    fs::write(&file, transect_profile_store::sealed_meta(value)).unwrap();
}

#[test]
fn nothing_there() {
    let scratch = Scratch::new();
    let path = scratch.path("none.transect");
    let error = read(&path).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert_names(&error, &path);
}

#[test]
fn foreign_things_are_neither_read_nor_overwritten() {
    let scratch = Scratch::new();
    let file = scratch.path("a-file");
    fs::write(&file, "text").unwrap();
    let folder = scratch.path("a-folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis.tex"), "years of work").unwrap();
    let marked = scratch.path("marked-otherwise");
    fs::create_dir(&marked).unwrap();
    fs::write(marked.join("meta.json"), r#"{"format": "something else", "schema": 1}"#).unwrap();
    for path in [&file, &folder, &marked] {
        let error = read(path).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
        assert_names(&error, path);
        for error in [write(path, &empty()).unwrap_err(), check_writable(path).unwrap_err()] {
            assert!(matches!(error, StoreError::WouldOverwrite { .. }), "{error:?}");
            assert_names(&error, path);
        }
    }
    assert_eq!(fs::read_to_string(folder.join("thesis.tex")).unwrap(), "years of work");
    assert_eq!(scratch.names(), ["a-file", "a-folder", "marked-otherwise"]);
}

#[test]
fn a_profile_with_somebodys_notes_in_it_is_kept() {
    let scratch = Scratch::new();
    let path = scratch.written();
    fs::write(path.join("notes.txt"), "keep").unwrap();
    let error = write(&path, &empty()).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(read(&path).unwrap(), image_server(), "reading does not mind");
}

#[test]
fn an_older_profile_or_an_empty_folder_is_replaced() {
    let scratch = Scratch::new();
    let path = scratch.written();
    check_writable(&path).unwrap();
    write(&path, &empty()).unwrap();
    assert_eq!(read(&path).unwrap(), empty());
    let fresh = scratch.path("fresh");
    fs::create_dir(&fresh).unwrap();
    write(&fresh, &empty()).unwrap();
    let nested = scratch.path("new/parents/run.transect");
    write(&nested, &empty()).unwrap();
    assert_eq!(read(&nested).unwrap(), empty());
    assert_eq!(scratch.names(), ["fresh", "new", "run.transect"]);
}

#[test]
fn a_symbolic_link_is_written_through() {
    let scratch = Scratch::new();
    let path = scratch.written();
    let link = scratch.path("latest");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    write(&link, &empty()).unwrap();
    assert!(link.is_symlink());
    assert_eq!(read(&path).unwrap(), empty());
}

#[test]
fn unknown_schema_versions() {
    let scratch = Scratch::new();
    for version in [0, 2, 99] {
        let path = scratch.written();
        edit_meta(&path, |meta| meta["schema"] = version.into());
        let error = read(&path).unwrap_err();
        assert!(matches!(error, StoreError::UnknownSchema { found, .. } if found == version), "{error:?}");
        assert_names(&error, &path);
        // A newer profile is a profile: `-o` may replace it.
    }
}

#[test]
fn missing_files() {
    let scratch = Scratch::new();
    for table in TABLES {
        let path = scratch.written();
        let file = path.join(format!("{table}.parquet"));
        fs::remove_file(&file).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert_names(&error, &file);
        write(&path, &empty()).unwrap();
    }
    let path = scratch.written();
    fs::remove_file(path.join("meta.json")).unwrap();
    assert!(matches!(read(&path).unwrap_err(), StoreError::Foreign { .. }));
}

#[test]
fn damaged_files() {
    let scratch = Scratch::new();
    for table in TABLES {
        let intact = scratch.written();
        let file = intact.join(format!("{table}.parquet"));
        let content = fs::read(&file).unwrap();
        let step = (content.len() / transect_testkit::sized(8, 24)).max(1);
        for position in (0..content.len()).step_by(step) {
            let mut damaged = content.clone();
            damaged[position] ^= 0x55;
            for bytes in [&damaged[..], &content[..position]] {
                fs::write(&file, bytes).unwrap();
                let error = read(&intact).unwrap_err();
                assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
                assert_names(&error, &file);
            }
        }
    }
    let path = scratch.written();
    for text in ["", "{", "[]x", "\u{0}"] {
        fs::write(path.join("meta.json"), text).unwrap();
        assert!(matches!(read(&path).unwrap_err(), StoreError::Corrupt { .. }), "{text:?}");
    }
}

#[test]
fn damaged_metadata() {
    let scratch = Scratch::new();
    let path = scratch.written();
    let file = path.join("meta.json");
    let content = fs::read(&file).unwrap();
    // An odd step: all bits have their turn.
    for position in (0..content.len()).step_by(transect_testkit::sized(31, 1)) {
        let mut damaged = content.clone();
        damaged[position] ^= 1 << (position % 8);
        fs::write(&file, &damaged).unwrap();
        assert!(read(&path).is_err(), "bit {} of byte {position}", position % 8);
    }
    // One that somebody has changed, or that says nothing of itself.
    let text = String::from_utf8(content).unwrap();
    for other in [text.replacen("  ", " ", 1), text[..text.rfind(',').unwrap()].to_owned() + "\n}\n"] {
        fs::write(&file, other).unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.to_string().contains("its own checksum does not match"), "{error}");
    }
    fs::write(&file, text).unwrap();
    assert_eq!(read(&path).unwrap(), image_server());
}

#[test]
fn altered_metadata() {
    let scratch = Scratch::new();
    type Edit = fn(&mut serde_json::Value);
    let edits: [Edit; 4] = [
        |meta| meta["clock"] = "sundial".into(),
        |meta| meta["tables"]["flows"]["rows"] = 1.into(),
        |meta| _ = meta["tables"].as_object_mut().unwrap().remove("threads"),
        |meta| meta["loss"][0]["what"] = "umbrellas".into(),
    ];
    for edit in edits {
        let path = scratch.written();
        edit_meta(&path, edit);
        let error = read(&path).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    }
}

#[test]
fn a_recording_that_contradicts_itself_is_not_written() {
    let scratch = Scratch::new();
    let mut profile = image_server();
    profile.flows[3].callee = 99;
    let error = write(&scratch.path("run.transect"), &profile).unwrap_err();
    assert!(matches!(error, StoreError::Inconsistent { .. }), "{error:?}");
    assert!(error.to_string().contains("flows row 3"), "{error}");
    let mut profile = latency_service();
    profile.latency[2].component = 99;
    let error = write(&scratch.path("run.transect"), &profile).unwrap_err();
    assert!(error.to_string().contains("latency row 2"), "{error}");
    profile.latency[2].component = 0;
    profile.latency_slices[7].latency = 99;
    let error = write(&scratch.path("run.transect"), &profile).unwrap_err();
    assert!(error.to_string().contains("latency_slices row 7"), "{error}");
    assert_eq!(scratch.names(), Vec::<String>::new());
}

/// Runs `script` in namespaces of its own, so that it may mount; prints why if that is not allowed.
fn in_mount_namespace(script: &str) -> bool {
    let output = Command::new("unshare").args(["--mount", "--map-root-user", "sh", "-ec", script]).output();
    match output {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(error.contains("not permitted") || error.contains("denied"), "{error}");
            skipped(&format!("this machine allows no mount namespace: {}", error.trim()));
            false
        }
        Err(error) => {
            skipped(&format!("cannot run unshare: {error}"));
            false
        }
    }
}

#[test]
fn missing_folders_are_made_only_for_a_recording_that_is_there() {
    let scratch = Scratch::new();
    let path = scratch.path("typing/error/run.transect");
    let error = check_writable(&path).unwrap_err();
    assert!(
        matches!(&error, StoreError::NoParent { parent, .. } if *parent == scratch.path("typing/error")),
        "{error:?}"
    );
    assert_names(&error, &path);
    assert!(!scratch.path("typing").exists());
    // What has run for hours is not lost because its folder was removed meanwhile.
    write(&path, &image_server()).unwrap();
    assert!(read(&path).is_ok());
}

/// Rerun by the tests below inside a mount namespace: writes to `TRANSECT_TEST_OUTPUT` and checks the error.
#[test]
fn writes_where_told() {
    let (Some(output), Some(expected)) =
        (std::env::var_os("TRANSECT_TEST_OUTPUT"), std::env::var("TRANSECT_TEST_ERROR").ok())
    else {
        return;
    };
    let output = PathBuf::from(output);
    if expected == "mounted" {
        let error = check_writable(&output).unwrap_err();
        return assert!(matches!(error, StoreError::WouldOverwrite { .. }), "{error:?}");
    }
    let mut profile = image_server();
    // Noise that does not compress: larger than the file systems of the tests.
    profile.trace = (0..60_000_i64)
        .map(|n| transect_profile_model::TraceEvent {
            time_ns: n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
            args: [n.wrapping_mul(0xbf58_476d_1ce4_e5b9_u64 as i64); 6],
            ..profile.trace[0].clone()
        })
        .collect();
    let error = write(&output, &profile).unwrap_err();
    match expected.as_str() {
        "disk full" => assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}"),
        "read-only" => assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}"),
        other => panic!("{other}"),
    }
    let left: Vec<_> = fs::read_dir(output.parent().unwrap()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn rerun(mount_options: &str, expected: &str) {
    let scratch = Scratch::new();
    let point = scratch.path("mounted");
    fs::create_dir(&point).unwrap();
    let script = format!(
        "mount -t tmpfs -o {mount_options} none {point}; \
         TRANSECT_TEST_OUTPUT={point}/run.transect TRANSECT_TEST_ERROR='{expected}' {test} --exact writes_where_told",
        point = point.display(),
        test = std::env::current_exe().unwrap().display(),
    );
    in_mount_namespace(&script);
}

/// A folder of the same file system is mounted at the place.
#[test]
fn a_bind_mount_is_refused_needs_mount_namespace() {
    let scratch = Scratch::new();
    let (other, point) = (scratch.path("other"), scratch.path("point"));
    fs::create_dir(&other).unwrap();
    fs::create_dir(&point).unwrap();
    in_mount_namespace(&format!(
        "mount --bind {other} {point}; \
         TRANSECT_TEST_OUTPUT={point} TRANSECT_TEST_ERROR=mounted {test} --exact writes_where_told",
        other = other.display(),
        point = point.display(),
        test = std::env::current_exe().unwrap().display(),
    ));
}

#[test]
fn disk_full_needs_mount_namespace() {
    rerun("size=256k", "disk full");
}

/// Wherever it ends: in the middle of a table, or in the last bytes of one.
#[test]
fn little_space_is_a_full_disk_needs_mount_namespace() {
    for size in (8..=96).step_by(8) {
        rerun(&format!("size={size}k"), "disk full");
    }
}

#[test]
fn read_only_file_system_needs_mount_namespace() {
    rerun("ro", "read-only");
}

#[test]
fn permission_denied_unless_root() {
    if rustix::process::geteuid().is_root() {
        skipped("permission_denied: root may write everywhere");
        return;
    }
    let scratch = Scratch::new();
    let closed = scratch.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    let error = write(&closed.join("run.transect"), &empty()).unwrap_err();
    assert!(matches!(error, StoreError::PermissionDenied { .. }), "{error:?}");
}
