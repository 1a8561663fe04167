//! Where a process' threads find their own numbers: libc keeps them at a fixed place behind the thread pointer.

use transect_attach::{AttachError, Stop, Target};
use transect_binary_info::Object;
use transect_probe::frame::NO_THREAD_POINTER;

/// The place in glibc, 2.x on x86-64.
const GLIBC: u64 = 0x2d0;
/// The place in musl; behind every libc's thread pointer is as much. If it is yet another libc, the table of threads does
/// not know the numbers that are read, and each is asked for by a system call: slow, but right.
const MUSL: u64 = 0x30;
/// What glibc's start files put into each program.
const GLIBC_NOTE: &str = ".note.ABI-tag";
/// Bytes behind the thread pointer that are looked at.
const SEARCHED: usize = 0x1000;

/// The place in this process, with [`NO_THREAD_POINTER`] if no thread has such a pointer yet; `None` if its threads have none in common.
///
/// # Errors
/// If its threads can't be stopped.
pub fn offset(target: &Target) -> Result<Option<u64>, AttachError> {
    let stop = target.stop_all()?;
    Ok(common(target, &stop))
}

fn common(target: &Target, stop: &Stop<'_>) -> Option<u64> {
    let threads: Vec<(u32, Vec<u8>)> = stop
        .registers()
        .filter(|thread| thread.fs_base != 0)
        .map(|thread| (number_inside(thread.tid), behind(target, thread.fs_base)))
        .collect();
    if threads.is_empty() {
        // A static program before its first instruction, or one without libc.
        let place = if has_glibc(target.pid()) { GLIBC } else { MUSL };
        return Some(place | NO_THREAD_POINTER);
    }
    let fits = |offset: &u64| {
        let at = *offset as usize;
        threads.iter().all(|(tid, bytes)| bytes.get(at..at + 4) == Some(&tid.to_le_bytes()))
    };
    std::iter::once(GLIBC).chain((0..SEARCHED as u64).step_by(4)).find(fits)
}

fn has_glibc(pid: i32) -> bool {
    Object::open(format!("/proc/{pid}/exe"))
        .is_ok_and(|object| object.section_list().iter().any(|section| section.name == GLIBC_NOTE))
}

/// As much as is mapped behind the thread pointer.
fn behind(target: &Target, thread_pointer: u64) -> Vec<u8> {
    let mut size = SEARCHED;
    loop {
        let mut bytes = vec![0; size];
        if target.memory().read(thread_pointer, &mut bytes).is_ok() || size < 64 {
            return bytes;
        }
        size /= 2;
    }
}

/// A thread's number as it knows it itself, in its own namespace.
fn number_inside(tid: i32) -> u32 {
    let status = transect_attach::read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inside = line.and_then(|numbers| numbers.split_ascii_whitespace().next_back()?.parse().ok());
    inside.unwrap_or(tid.cast_unsigned())
}
