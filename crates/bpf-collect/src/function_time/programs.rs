//! The function timer's programs in the kernel: loaded with the scheduler collector's threads, attached to functions.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use transect_profile_model::KernelTiming;

use super::link::{Multi, attach_kprobe, attach_multi};
use super::types::{OBJECT, bss};
use crate::error::CollectError;
use crate::plain;

/// Maps of the scheduler collector that the timer's programs read.
pub(crate) struct SharedMaps {
    pub(crate) slots: MapHandle,
    pub(crate) slot_places: MapHandle,
    pub(crate) slot_of_task: MapHandle,
    /// Its global variables.
    pub(crate) state: MapHandle,
}

/// Maps that the timer's own programs use; the rest of the object's maps belong to functions that it doesn't call.
const OWN_MAPS: [&str; 3] = ["timed_threads", "timed_ended", "timed_stack"];

/// A probe at a function, live until it is dropped.
#[derive(Debug)]
#[allow(dead_code)] // held for its end
pub(crate) enum Probe {
    Descriptors(Vec<OwnedFd>),
    Links(Vec<Link>),
}

pub(crate) struct Programs {
    timing: KernelTiming,
    object: Object,
    tasks: Link,
}

impl Programs {
    /// Loads what one kind of probes needs.
    pub(crate) fn load(shared: &SharedMaps, timing: KernelTiming) -> Result<Self, CollectError> {
        let mut open = open()?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(matches!(
                (timing, name.as_str()),
                (_, "on_timed_task" | "call_enters" | "call_leaves")
                    | (KernelTiming::KprobeSession, "session")
                    | (KernelTiming::KprobeMulti, "multi_entry" | "multi_return")
                    | (KernelTiming::Kprobe, "kprobe_entry" | "kprobe_return")
            ));
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let fd = match name.as_str() {
                "slots" => shared.slots.as_fd(),
                "slot_places" => shared.slot_places.as_fd(),
                "slot_of_task" => shared.slot_of_task.as_fd(),
                own if OWN_MAPS.contains(&own) || own.contains('.') => continue,
                _ => {
                    map.set_autocreate(false).map_err(CollectError::Load)?;
                    continue;
                }
            };
            map.reuse_fd(fd).map_err(CollectError::Load)?;
        }
        let object = open.load().map_err(CollectError::Load)?;
        let program = program(&object, "on_timed_task")?;
        let tasks =
            program.attach_trace().map_err(|source| CollectError::Attach { name: "iter/task".to_owned(), source })?;
        Ok(Self { timing, object, tasks })
    }

    /// Attaches to one function.
    pub(crate) fn attach(&self, row: usize, address: u64, names: &[&str]) -> io::Result<Probe> {
        let fd_error = CollectError::into_io;
        let multi = |program_name: &str, kind| {
            let program = program(&self.object, program_name).map_err(fd_error)?;
            attach_multi(program.as_fd(), kind, address, row as u64)
        };
        Ok(match self.timing {
            KernelTiming::KprobeSession => Probe::Descriptors(vec![multi("session", Multi::Session)?]),
            KernelTiming::KprobeMulti => {
                Probe::Descriptors(vec![multi("multi_return", Multi::Return)?, multi("multi_entry", Multi::Entry)?])
            }
            // The later one comes first: a kprobe after its kretprobe finds the return address as it was.
            KernelTiming::Kprobe => {
                let exit = program(&self.object, "kprobe_return").map_err(fd_error)?;
                let entry = program(&self.object, "kprobe_entry").map_err(fd_error)?;
                let mut descriptors = attach_kprobe(exit.as_fd(), true, address, row as u64)?;
                descriptors.extend(attach_kprobe(entry.as_fd(), false, address, row as u64)?);
                Probe::Descriptors(descriptors)
            }
            KernelTiming::Fentry => {
                // One of its names is in the kernel's type information.
                let mut last = Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
                for name in names {
                    match self.attach_trampolines(row, name) {
                        Ok(links) => {
                            last = Ok(Probe::Links(links));
                            break;
                        }
                        Err(why) => {
                            let why = fd_error(why);
                            let unknown =
                                |why: &io::Error| why.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
                            if last.as_ref().is_err_and(unknown) {
                                last = Err(why);
                            }
                        }
                    }
                }
                last?
            }
            KernelTiming::Sampling => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        })
    }

    /// A trampoline's programs are loaded for one function.
    fn attach_trampolines(&self, row: usize, name: &str) -> Result<Vec<Link>, CollectError> {
        let mut open = open()?;
        let wanted = [format!("fexit_{row}"), format!("fentry_{row}")];
        for mut program in open.progs_mut() {
            let mine = wanted.iter().any(|one| program.name() == one.as_str());
            program.set_autoload(mine);
            if mine {
                program.set_attach_target(0, Some(name.to_owned())).map_err(CollectError::Load)?;
            }
        }
        for mut map in open.maps_mut() {
            match self.object.maps().find(|own| own.name() == map.name()) {
                Some(own) => map.reuse_fd(own.as_fd()).map_err(CollectError::Load)?,
                None => map.set_autocreate(false).map_err(CollectError::Load)?,
            }
        }
        let object = open.load().map_err(CollectError::Load)?;
        // A link holds its program.
        wanted
            .iter()
            .map(|one| {
                program(&object, one)?
                    .attach_trace()
                    .map_err(|source| CollectError::Attach { name: "fentry".to_owned(), source })
            })
            .collect()
    }

    /// Ends of system calls; with their beginnings, if one is the parent.
    pub(crate) fn attach_system_calls(&self, parent: bool) -> Result<Probe, CollectError> {
        let attach = |name: &str, point: &'static str| {
            program(&self.object, name)?
                .attach_trace()
                .map_err(|source| CollectError::Attach { name: point.to_owned(), source })
        };
        let mut links = vec![attach("call_leaves", "sys_exit")?];
        if parent {
            links.push(attach("call_enters", "sys_enter")?);
        }
        Ok(Probe::Links(links))
    }

    /// What the programs share with user space.
    pub(crate) fn control(&self) -> Result<bss, CollectError> {
        let bytes = self.variables()?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(CollectError::Read)?;
        Ok(plain::read_padded(&bytes.unwrap_or_default()))
    }

    pub(crate) fn set_control(&self, control: &bss) -> Result<(), CollectError> {
        let map = self.variables()?;
        let bytes = plain::bytes_of(control);
        let size = bytes.len().min(map.value_size() as usize);
        map.update(&0_u32.to_ne_bytes(), &bytes[..size], MapFlags::ANY).map_err(CollectError::Read)
    }

    fn variables(&self) -> Result<libbpf_rs::Map<'_>, CollectError> {
        let found = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        found.ok_or(CollectError::Nothing("the timer's variables".to_owned()))
    }

    pub(crate) fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, CollectError> {
        let found = self.object.maps().find(|map| map.name() == name);
        found.ok_or_else(|| CollectError::Nothing(format!("the timer's map {name}")))
    }

    /// Looks at the stacks of all threads that don't run.
    pub(crate) fn look_at_stacks(&self) -> Result<(), CollectError> {
        let mut run = Iter::new(&self.tasks).map_err(CollectError::Read)?;
        let read = io::Read::read_to_end(&mut run, &mut Vec::new());
        read.map(|_| ()).map_err(|source| CollectError::Read(source.into()))
    }
}

fn open() -> Result<OpenObject, CollectError> {
    // The caller reports what fails, not the library.
    libbpf_rs::set_print(None);
    ObjectBuilder::default().open_memory(OBJECT).map_err(CollectError::Load)
}

fn program<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::ProgramMut<'a>, CollectError> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| CollectError::Nothing(format!("the timer's program {name}")))
}
