//! One process whose calls are counted.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transect_attach::{AttachError, Claim, FileIdentity, Right, Target, read_text};
use transect_binary_info::{Object, PlanCache};
use transect_event_abi::arena::{EXTENT_COUNT, EXTENT_PROCESS, TIMING_COUNT};
use transect_event_abi::process::{OBJECTS_OFFSET, ObjectRecord, PROCESS_LIVE, ProcessHeader};
use transect_profile_model::{Loss, LossKind};

use super::leaving::{self, Kept, Left};
use super::objects::{Candidate, Objects};
use super::places::{ARENA_PATH, IMAGE_FILE, PROCESS, Places, numbers};
use super::slots::{Changed, Slots};
use super::threads;
use crate::api_data::ApiData;
use crate::arena::{Arena, Settings};
use crate::clock::{self, Clock};
use crate::error::RecordError;
use crate::launch::find_beside;
use crate::probe_session::{Guard, open_cleaned};

/// So long the guard of a killed recorder may take to leave the process.
const PATIENCE: Duration = Duration::from_secs(2);
/// Until the guard looks again whether a thread has left the stubs.
const STILL_INSIDE: Duration = Duration::from_millis(500);
/// Between two looks.
const SHORTLY: Duration = Duration::from_millis(5);

/// A process whose slots lead to stubs.
pub struct Counted<'a> {
    target: Target,
    claim: Option<Claim>,
    places: Places,
    /// The memory with the counts.
    pub arena: Arena,
    objects: Objects,
    slots: Slots,
    plans: &'a PlanCache,
    apis: &'a ApiData,
    guard: Option<Guard>,
    first: HashMap<u32, i32>,
    begin: u64,
    /// Records of the objects as they were last written.
    written: Vec<u8>,
}

/// Opens a process that can be counted; it is untouched.
fn open(pid: i32) -> Result<(Target, Option<Claim>), RecordError> {
    let refuse = |why: &str| Err(RecordError::Uncountable { pid, why: why.to_owned() });
    let target = open_cleaned(pid)?;
    target.check_translated()?;
    let deadline = Instant::now() + PATIENCE;
    let claim = match Claim::of(pid, Right::CountCalls, deadline) {
        Ok(claim) => claim,
        Err(Some(recorder)) => return refuse(&recorded_by(recorder)),
        Err(None) => return refuse("another recording, which can't be seen from here, counts them already"),
    };
    // One that does not see the same `/proc`, or that is an older version, has no such claim.
    while let Some(arena) = target.mappings()?.iter().find(|mapping| mapping.path.as_os_str() == ARENA_PATH) {
        if let Some(recorder) = recorder_of(arena.file()) {
            return refuse(&recorded_by(recorder));
        }
        if Instant::now() > deadline {
            return refuse("an agent that counts them is in it already, of another recording or of its parent's");
        }
        std::thread::sleep(SHORTLY);
    }
    let is_static = |object: Object| object.is_static() && !object.is_loader();
    if Object::open(format!("/proc/{}/exe", target.task())).is_ok_and(is_static) {
        return refuse(
            "it is statically linked, and calls inside one object pass no linkage table; `transect walk` and \
                       `transect latency` need none",
        );
    }
    Ok((target, claim))
}

fn recorded_by(recorder: i32) -> String {
    format!("process {recorder} (transect) records them already; end it, or wait for it")
}

/// The recorder that has the memory of an arena open. One that was killed has none, and its guard, which needs a moment to leave
/// the process, is none.
fn recorder_of(arena: FileIdentity) -> Option<i32> {
    let own = read_text("/proc/self/comm").ok()?;
    let has_it = |&pid: &i32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::metadata(entry.path()).ok()).any(|file| FileIdentity::from(&file) == arena)
    };
    let pids = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_recorder = |pid: &i32| read_text(format!("/proc/{pid}/comm")).is_ok_and(|name| name == own);
    pids.filter(is_recorder).find(has_it)
}

impl<'a> Counted<'a> {
    /// Attaches to a process, and begins to count.
    ///
    /// # Errors
    /// If it can't be attached to, or its calls can't be counted: it is as it was then.
    pub fn begin(pid: i32, apis: &'a ApiData, plans: &'a PlanCache, clock: &Clock) -> Result<Self, RecordError> {
        let (target, claim) = open(pid)?;
        let mut objects = Objects::default();
        let candidates = objects.look(&target, plans, apis)?;
        if candidates.is_empty() && objects.have_no_slots() {
            let why = "no object in it calls others through a linkage table".to_owned();
            return Err(RecordError::Uncountable { pid, why });
        }
        let settings = Settings {
            options: 0,
            timing: TIMING_COUNT,
            every: 0,
            budget_ppm: 0,
            ticks_per_us: (clock.rate() * 1000.0) as u32,
            epoch_ticks: clock.epoch(),
            plan_dir: b"",
            static_dir: b"",
            agent_path: b"",
            trace: b"",
            apis: &[],
        };
        let image = find_beside(IMAGE_FILE)?;
        // The first guard knows where things are by this; the second one, by what stands in the arena.
        let (mut told, mut tell) = std::io::pipe().map_err(RecordError::system("make a pipe"))?;
        let mut known = Vec::new();
        let kept = [told.as_raw_fd()];
        let early = Guard::of_prepared(pid, &kept, || {
            let _ = told.read_to_end(&mut known);
            leaving::unmap_told(pid, &known)
        });
        let early = early.map_err(|why| RecordError::Unguarded(why.to_string()))?;
        let made = Places::make(&target, &image, &settings, &mut |places| {
            let _ = tell.write_all(&places.to_bytes());
        });
        let (places, arena) = match made {
            Ok(made) => made,
            Err(error) => {
                early.dismiss();
                return Err(error);
            }
        };
        let mut this = Self {
            target,
            claim,
            places,
            arena,
            objects,
            slots: Slots::new(),
            plans,
            apis,
            guard: None,
            first: HashMap::new(),
            begin: clock::ticks(),
            written: Vec::new(),
        };
        let begun = this.start_guard(pid).and_then(|()| {
            early.dismiss();
            this.start(pid, candidates)
        });
        match begun {
            Ok(()) => Ok(this),
            Err(error) => {
                let _ = this.leave();
                Err(error)
            }
        }
    }

    fn start_guard(&mut self, pid: i32) -> Result<(), RecordError> {
        self.write_head()?;
        let (places, arena) = (self.places, &self.arena);
        let guard = Guard::of_prepared(pid, &[arena.file().as_raw_fd()], || clean(pid, &places, arena));
        self.guard = Some(guard.map_err(|why| RecordError::Unguarded(why.to_string()))?);
        Ok(())
    }

    fn start(&mut self, pid: i32, candidates: Vec<Candidate>) -> Result<(), RecordError> {
        self.first = numbers(pid);
        self.slots.hook(&self.target, &self.places, &self.arena, &mut self.objects, candidates, false)?;
        self.begin = clock::ticks();
        let begin = self.begin.to_le_bytes();
        self.arena.write(PROCESS, offset_of!(ProcessHeader, start_ticks), &begin)?;
        self.write_objects()
    }

    fn write_head(&self) -> Result<(), RecordError> {
        let header = self.arena.header();
        header.kind[PROCESS as usize].store(EXTENT_PROCESS, Ordering::Release);
        // Only what is mapped in the process is to be had, and that is on the list of free ones.
        header.next_extent.store(EXTENT_COUNT as u32, Ordering::Release);
        (PROCESS + 1..self.places.extents()).rev().for_each(|extent| header.put_free(extent));
        let pid = self.target.pid();
        let stat = read_text(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        for (at, value) in [
            (offset_of!(ProcessHeader, pid), pid.cast_unsigned()),
            (offset_of!(ProcessHeader, parent_pid), parent.unwrap_or(0u32)),
            (offset_of!(ProcessHeader, state), PROCESS_LIVE),
            (offset_of!(ProcessHeader, slot_count), 1),
        ] {
            self.arena.write(PROCESS, at, &value.to_le_bytes())?;
        }
        let executable = self.executable();
        let executable = executable.as_os_str().as_bytes();
        self.arena.write(PROCESS, offset_of!(ProcessHeader, executable), &executable[..executable.len().min(1023)])
    }

    fn write_objects(&mut self) -> Result<(), RecordError> {
        let records: Vec<u8> = self.objects.all().iter().flat_map(|component| component.record()).collect();
        self.arena.write(PROCESS, offset_of!(ProcessHeader, slots_refused), &self.slots.refused.to_le_bytes())?;
        if records == self.written {
            return Ok(());
        }
        let count = (records.len() / size_of::<ObjectRecord>()) as u32;
        self.arena.write(PROCESS, OBJECTS_OFFSET, &records)?;
        self.arena.write(PROCESS, offset_of!(ProcessHeader, object_count), &count.to_le_bytes())?;
        self.written = records;
        Ok(())
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        self.target.is_alive() && !self.target.memory().is_gone()
    }

    /// Looks for threads that have come and gone.
    ///
    /// # Errors
    /// If the memory file can't be written.
    pub fn look_at_threads(&self) -> Result<(), RecordError> {
        threads::look(&self.target, &self.places, &self.arena, &self.first, self.begin)
    }

    /// Looks for objects and slots that have come and gone.
    ///
    /// # Errors
    /// If the process ends, or can't be stopped.
    pub fn look_at_objects(&mut self) -> Result<(), RecordError> {
        let mut candidates = self.objects.look(&self.target, self.plans, self.apis)?;
        candidates.extend(self.slots.bound_since(&self.target, &self.objects));
        if !candidates.is_empty() {
            self.slots.hook(&self.target, &self.places, &self.arena, &mut self.objects, candidates, true)?;
        }
        self.write_objects()
    }

    /// Leaves the process as it was.
    ///
    /// # Errors
    /// If it can't be stopped: the guard leaves it once it can.
    pub fn leave(&mut self) -> Result<Left, RecordError> {
        let left = leaving::leave(&self.target, &self.places, &self.arena);
        // Afterwards, for from now on there are no more of them but theirs.
        leaving::leave_children(self.target.pid(), &self.places, &self.arena);
        let left = match left {
            Err(error) if error.is_gone() => Left { changed: Changed::default(), kept: None },
            left => left?,
        };
        if let Some(guard) = self.guard.take_if(|_| left.kept != Some(Kept::Inside)) {
            guard.dismiss();
        }
        self.claim = None;
        Ok(left)
    }

    fn executable(&self) -> PathBuf {
        std::fs::read_link(format!("/proc/{}/exe", self.target.task())).unwrap_or_default()
    }

    /// What was not counted from the begin on.
    pub fn losses(&self, left: &Left) -> Vec<Loss> {
        let loss = |place: &Path, count: u64, reason: &str| Loss {
            what: LossKind::UnhookedSlots,
            place: place.display().to_string(),
            count: count.cast_signed(),
            reason: reason.to_owned(),
        };
        let late = self.slots.late.iter().map(|(caller, count)| {
            let reason = "bound or loaded after the recording had begun: calls are counted from up to 0.5 s later on";
            loss(self.objects.all()[*caller].path(), *count, reason)
        });
        let reason = "changed by the program or its loader meanwhile: calls are not counted from then on";
        let changed = left.changed.others + left.changed.bound;
        let changed = (changed > 0).then(|| loss(&self.executable(), changed, reason));
        let reason = "they lead into code that could not be looked into: calls through them are not counted";
        let elsewhere = self.slots.lead_elsewhere(&self.objects);
        let elsewhere =
            elsewhere.iter().map(|(caller, count)| loss(self.objects.all()[*caller].path(), *count, reason));
        let unreadable = self.objects.unreadable.iter().map(|object| {
            let reason = format!("the whole object: {}", object.reason);
            loss(&object.path, 1, &reason)
        });
        late.chain(changed).chain(elsewhere).chain(unreadable).collect()
    }
}

/// What the guard does after this process' end.
fn clean(pid: i32, places: &Places, arena: &Arena) -> Result<(), AttachError> {
    let left = Target::open(pid).and_then(|target| leaving::leave(&target, places, arena));
    leaving::leave_children(pid, places, arena);
    match left {
        Ok(Left { kept: Some(Kept::Inside), .. }) => {
            // As long as a thread is inside it is tried again.
            std::thread::sleep(STILL_INSIDE);
            Err(AttachError::Unstoppable { pid, tid: pid, wait: "it stands in a stub".to_owned() })
        }
        Err(AttachError::Traced { .. }) => {
            // As long as a debugger has it.
            std::thread::sleep(STILL_INSIDE);
            Err(AttachError::Unstoppable { pid, tid: pid, wait: "another traces it".to_owned() })
        }
        Err(error) if error.is_gone() => Ok(()),
        left => left.map(drop),
    }
}
