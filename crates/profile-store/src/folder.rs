//! Replacing a profile folder as a whole, so that a reader sees the old one or the new one, never a mixture.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags, flock, openat, renameat_with,
    statx, syncfs,
};
use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::metadata::{META_FILE, listed_tables};
use crate::{StoreError, TABLES};

/// Part of the name of folders that are being written or removed: `.NAME.transect-tmp.PID.N`.
const TEMPORARY: &str = "transect-tmp";

/// Where a profile goes: its final path (symbolic links resolved) and the folder around it.
pub(crate) struct Target {
    pub path: PathBuf,
    parent: PathBuf,
    name: String,
}

/// Whether something is mounted at `path`, a folder of the same file system perhaps. Known from Linux 5.8 on.
fn is_mount_root(path: &Path) -> bool {
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

impl Target {
    /// Resolves `dir` and refuses what must not be overwritten, and a folder around it that is missing.
    pub(crate) fn prepare(dir: &Path) -> Result<Self, StoreError> {
        match parent(dir) {
            Some(parent) if !parent.exists() => Err(StoreError::NoParent { path: dir.to_owned(), parent }),
            _ => Self::resolve(dir),
        }
    }

    /// The same, and makes the folders around it that have gone while a recording ran.
    pub(crate) fn resolve(dir: &Path) -> Result<Self, StoreError> {
        let refuse = |why: &str| StoreError::WouldOverwrite { path: dir.to_owned(), why: why.to_owned() };
        let path = match fs::canonicalize(dir) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(dir).is_ok() {
                    return Err(refuse("a symbolic link that leads nowhere"));
                }
                dir.to_owned()
            }
            Err(error) => return Err(StoreError::from_io(dir, error)),
        };
        let name = path.file_name().ok_or_else(|| refuse("it has no name of its own"))?.to_string_lossy().into_owned();
        let parent = parent(&path).unwrap_or_else(|| PathBuf::from("."));
        let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev()).ok();
        if path.is_dir() && (device(&path) != device(&parent) || is_mount_root(&path)) {
            return Err(refuse("a file system is mounted there, and the profile's folder could not take its place"));
        }
        refuse_foreign(&path)?;
        let failed = |error| StoreError::from_io(&parent, error);
        fs::create_dir_all(&parent).map_err(failed)?;
        // The same whether something stands there yet or not.
        let parent = fs::canonicalize(&parent).map_err(failed)?;
        let path = parent.join(path.file_name().unwrap_or_default());
        Ok(Self { path, parent, name })
    }

    /// Moves the profile that stands there, if there is one, to `NAME.old`, in the place of an older one; of one that another
    /// recording has made since this process started nothing is removed, and the next free name is taken: `NAME.old.2`. The next
    /// recording that begins later removes that, too.
    pub(crate) fn keep_aside(&self) -> Result<Option<PathBuf>, StoreError> {
        let _turn = Turn::take(&self.parent);
        self.move_aside()
    }

    fn move_aside(&self) -> Result<Option<PathBuf>, StoreError> {
        if !self.path.join(META_FILE).exists() {
            return Ok(None);
        }
        let mut aside = self.parent.join(format!("{}.old", self.name));
        refuse_foreign(&aside)?;
        let failed = |error: io::Error, aside: &Path| StoreError::from_io(aside, error);
        if fs::symlink_metadata(&aside).is_ok_and(|found| found.is_symlink()) {
            let why = "a symbolic link, and the profile that is to be replaced would be kept there".to_owned();
            return Err(StoreError::WouldOverwrite { path: aside, why });
        }
        if aside.exists() && is_older_than_this_process(&aside) {
            remove_profile(&aside);
        }
        // Those that recordings at once have kept go with it.
        self.numbered_aside()
            .iter()
            .filter(|kept| is_older_than_this_process(kept))
            .for_each(|kept| remove_profile(kept));
        for number in 2.. {
            if fs::symlink_metadata(&aside).is_err() {
                break;
            }
            aside = self.parent.join(format!("{}.old.{number}", self.name));
        }
        fs::rename(&self.path, &aside).map_err(|error| failed(error, &aside))?;
        Ok(Some(aside))
    }

    /// The profiles `NAME.old.N`, from 2 on.
    fn numbered_aside(&self) -> Vec<PathBuf> {
        let prefix = format!("{}.old.", self.name);
        let entries = fs::read_dir(&self.parent).into_iter().flatten().flatten();
        let is_numbered = |name: &str| {
            let number = name.strip_prefix(&prefix).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            number.and_then(|number| number.parse::<u64>().ok()).is_some_and(|number| number >= 2)
        };
        entries
            .filter(|entry| is_numbered(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) && refuse_foreign(path).is_ok())
            .collect()
    }

    /// Makes an empty folder beside the target, readable only by the user, and removes those of dead writers.
    pub(crate) fn temporary(&self) -> Result<Temporary, StoreError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let prefix = format!(".{}.{TEMPORARY}.", self.name);
        self.remove_abandoned();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.parent.join(format!("{prefix}{}.{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| StoreError::from_io(&self.path, error))?;
        let lock =
            File::open(&path).ok().filter(|folder| flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok());
        Ok(Temporary { path, _lock: lock })
    }

    /// Whatever profile they were to become: the next one has another name, as a rule.
    fn remove_abandoned(&self) {
        let infix = format!(".{TEMPORARY}.");
        let own = rustix::process::geteuid().as_raw();
        let Ok(entries) = fs::read_dir(&self.parent) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((_, rest)) = name.split_once(&infix).filter(|_| name.starts_with('.')) else { continue };
            let writer = rest.split('.').next().and_then(|number| number.parse::<u32>().ok());
            let is_dead = writer.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
            let path = entry.path();
            let is_ours = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == own);
            if is_dead && is_ours && is_unlocked(&path) {
                remove_profile(&path);
            }
        }
    }

    /// Puts the finished folder in the target's place in one step and removes what stood there.
    pub(crate) fn replace_by(&self, finished: &Temporary) -> Result<(), StoreError> {
        let _turn = Turn::take(&self.parent);
        // Asked again: the recording may have taken hours.
        refuse_foreign(&self.path)?;
        let own = written().get(&self.path).copied();
        if own.is_none() || own != number(&self.path) {
            // A profile that has come here since is that of another recording.
            self.move_aside()?;
        }
        written().extend(number(&finished.path).map(|number| (self.path.clone(), number)));
        self.put(finished)
    }

    /// The same for what was made of the profile that stood there as `revised` (device and inode), which is replaced and not kept.
    /// Whoever is killed meanwhile leaves one of the two there, whole.
    pub(crate) fn revise_by(&self, finished: &Temporary, revised: (u64, u64)) -> Result<(), StoreError> {
        let _turn = Turn::take(&self.parent);
        refuse_foreign(&self.path)?;
        if number(&self.path) != Some(revised) {
            return Err(StoreError::Replaced { path: self.path.clone() });
        }
        // Both are to outlive a crash of the machine: the old one is removed at once.
        if let Ok(folder) = File::open(&finished.path) {
            let _ = syncfs(folder);
        }
        match renameat_with(CWD, &finished.path, CWD, &self.path, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(()),
            // Where the two can't change places at once, the old one remains beside the new.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.move_aside()?;
                fs::rename(&finished.path, &self.path).map_err(|error| StoreError::from_io(&self.path, error))
            }
            Err(error) => Err(StoreError::from_io(&self.path, error.into())),
        }
    }

    fn put(&self, finished: &Temporary) -> Result<(), StoreError> {
        let failed = |error: io::Error| StoreError::from_io(&self.path, error);
        if self.path.exists() {
            match renameat_with(CWD, &finished.path, CWD, &self.path, RenameFlags::EXCHANGE) {
                Ok(()) => {}
                // File systems without an atomic exchange: readers retry while the name is briefly missing.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    let aside = finished.path.with_extension("old");
                    fs::rename(&self.path, &aside).map_err(failed)?;
                    let moved = fs::rename(&finished.path, &self.path);
                    if moved.is_err() {
                        let _ = fs::rename(&aside, &self.path);
                    } else {
                        remove_profile(&aside);
                    }
                    moved.map_err(failed)?;
                }
                Err(error) => return Err(failed(error.into())),
            }
        } else {
            fs::rename(&finished.path, &self.path).map_err(failed)?;
        }
        Ok(())
        // Dropping `finished` removes what now stands under the temporary name: the old profile, or nothing.
    }
}

/// Recordings that put profiles into one folder do it one after the other. Without a right to lock the folder, or where somebody
/// else has locked it for longer, they do it all the same.
struct Turn {
    _lock: Option<File>,
}

impl Turn {
    /// For so long it is waited: putting a profile in its place takes some milliseconds.
    const PATIENCE: Duration = Duration::from_millis(500);

    fn take(folder: &Path) -> Self {
        let deadline = Instant::now() + Self::PATIENCE;
        let Ok(file) = File::open(folder) else { return Self { _lock: None } };
        while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            if Instant::now() >= deadline {
                return Self { _lock: None };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Self { _lock: Some(file) }
    }
}

/// Whether the profile was there before this process began: another recording that began at the same time has not made it.
fn is_older_than_this_process(folder: &Path) -> bool {
    let made = fs::metadata(folder.join(META_FILE)).and_then(|found| found.modified());
    made.is_ok_and(|made| process_start().is_some_and(|start| made < start))
}

/// When this process began, to a tick of the kernel's, not later.
fn process_start() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything: the state is field 3, the start field 22.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let since_boot = Duration::from_millis(ticks * 1000 / clock_ticks_per_second());
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    SystemTime::now().checked_sub(now.checked_sub(since_boot)?)
}

/// The folder around `path`, if it names one.
fn parent(path: &Path) -> Option<PathBuf> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_owned)
}

/// Device and inode of the profile that this process has put at a path: its snapshots replace each other.
static WRITTEN: Mutex<BTreeMap<PathBuf, (u64, u64)>> = Mutex::new(BTreeMap::new());

fn written() -> MutexGuard<'static, BTreeMap<PathBuf, (u64, u64)>> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(folder: &Path) -> Option<(u64, u64)> {
    fs::metadata(folder).ok().map(|found| (found.dev(), found.ino()))
}

/// A writer in another namespace has a number that means nothing here, but its lock does.
fn is_unlocked(path: &Path) -> bool {
    File::open(path).is_ok_and(|folder| flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// A folder under a temporary name; removed when dropped.
pub(crate) struct Temporary {
    path: PathBuf,
    /// Locked for as long as its writer lives, whatever number that has where others look.
    _lock: Option<File>,
}

impl Temporary {
    /// Writes a file readable only by the user.
    pub(crate) fn write_file(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        // Not synced to the disk: a crash of the machine may lose a recording, one of the program does not.
        self.create(name)?.write_all(content).map_err(|error| StoreError::from_io(&self.file(name), error))
    }

    /// Makes an empty file readable only by the user.
    pub(crate) fn create(&self, name: &str) -> Result<File, StoreError> {
        let path = self.file(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.map_err(|error| StoreError::from_io(&path, error))
    }

    /// Path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove_profile(&self.path);
    }
}

/// Removes a folder's profile files and then the folder; files that are not ours stay, and the folder with them.
fn remove_profile(path: &Path) {
    for name in profile_files(path) {
        let _ = fs::remove_file(path.join(name));
    }
    let _ = fs::remove_dir(path);
}

/// Opens a file for reading. Nothing but a plain one: a pipe would make us wait, a device has no end.
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] if there is something else.
pub(crate) fn open_plain(folder: BorrowedFd<'_>, name: &Path) -> io::Result<File> {
    let file = File::from(openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"))
}

/// The tables that the profile in this folder lists; `None` if it is none.
fn tables_of(path: &Path) -> Option<Vec<String>> {
    let mut content = Vec::new();
    open_plain(CWD, &path.join(META_FILE)).ok()?.read_to_end(&mut content).ok()?;
    listed_tables(&content)
}

/// Files that a profile in this folder consists of; `meta.json` last, since it is what marks the folder as ours.
fn profile_files(path: &Path) -> Vec<String> {
    let listed = tables_of(path).unwrap_or_default();
    let plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut names: Vec<String> = listed.into_iter().filter(plain).chain(TABLES.map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(|name| format!("{name}.parquet")).chain([META_FILE.to_owned()]).collect()
}

/// Refuses a path that holds anything but a profile or an empty folder.
fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    let refuse = |why: String| Err(StoreError::WouldOverwrite { path: path.to_owned(), why });
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => return Ok(()),
            io::ErrorKind::NotADirectory => return refuse("a file, not a profile folder".to_owned()),
            _ => return Err(StoreError::from_io(path, error)),
        },
    };
    let names = entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| StoreError::from_io(path, error))?;
    if names.is_empty() {
        return Ok(());
    }
    if tables_of(path).is_none() {
        return refuse("a folder that is not a Transect profile".to_owned());
    }
    let ours = profile_files(path);
    match names.iter().find(|name| !ours.contains(name)) {
        Some(name) => refuse(format!("the profile there also holds a file that is not Transect's: {name}")),
        None => Ok(()),
    }
}

/// True while a writer is replacing the profile at `path` without an atomic exchange.
pub(crate) fn being_replaced(path: &Path) -> bool {
    let parent = parent(path).unwrap_or_else(|| PathBuf::from("."));
    let Some(name) = path.file_name() else { return false };
    let prefix = format!(".{}.{TEMPORARY}.", name.to_string_lossy());
    fs::read_dir(parent)
        .is_ok_and(|entries| entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with(&prefix)))
}
