//! Records that the kernel's performance events write by themselves, of one CPU.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings::{PERF_COUNT_SW_DUMMY, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::perf_event;

/// Of records of mappings: some 400. A power of two.
const MAPPING_PAGES: usize = 16;
/// Where `struct perf_event_mmap_page` has how far was written and read: fixed by the kernel's interface.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Bytes of a record's header: type, flags, size.
const HEADER: usize = 8;

/// An event's records. The kernel writes them, this reads them.
#[derive(Debug)]
pub(crate) struct RecordRing {
    memory: NonNull<u8>,
    page: usize,
    data_pages: usize,
    // The memory is the event's: it is written for as long as this is open.
    event: OwnedFd,
    scratch: Vec<u8>,
}

/// Records of code that any process maps on `cpu`, and of programs that replace others there; times are of
/// `CLOCK_MONOTONIC`.
///
/// # Errors
/// If the system refuses: no permission, no such CPU, no more memory for this user.
pub(crate) fn code_mappings(cpu: u32) -> io::Result<RecordRing> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(PERF_SAMPLE_TIME),
        clockid: rustix::time::ClockId::Monotonic as i32,
        ..Default::default()
    };
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    RecordRing::of(perf_event::open_with(attributes, -1, cpu)?, MAPPING_PAGES)
}

impl RecordRing {
    /// The records of an event; `data_pages` is a power of two.
    ///
    /// # Errors
    /// If there is no more memory for this user.
    pub fn of(event: OwnedFd, data_pages: usize) -> io::Result<RecordRing> {
        let page = rustix::param::page_size();
        let (protection, bytes) = (ProtFlags::READ | ProtFlags::WRITE, (1 + data_pages) * page);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let memory = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, event.as_fd(), 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(RecordRing { memory, page, data_pages, event, scratch: Vec::new() })
    }

    /// Its event.
    pub fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Gives all records that there are to `each`: type, flags, and what follows the header. What is read is free to be
    /// written again.
    pub fn read(&mut self, mut each: impl FnMut(u32, u16, &[u8])) {
        let size = (self.data_pages * self.page) as u64;
        let head = self.counter(HEAD).load(Ordering::Acquire);
        let mut tail = self.counter(TAIL).load(Ordering::Relaxed);
        while head.wrapping_sub(tail) >= HEADER as u64 {
            let mut header = [0; HEADER];
            self.copy(tail, &mut header);
            let [a, b, c, d, e, f, g, h] = header;
            let length = usize::from(u16::from_ne_bytes([g, h]));
            if length < HEADER || length as u64 > size {
                // Not what the kernel writes: begin anew.
                tail = head;
                break;
            }
            let mut body = std::mem::take(&mut self.scratch);
            body.resize(length - HEADER, 0);
            self.copy(tail + HEADER as u64, &mut body);
            each(u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]), &body);
            self.scratch = body;
            tail += length as u64;
        }
        fence(Ordering::AcqRel);
        self.counter(TAIL).store(tail, Ordering::Release);
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page holds the counters, aligned, and is mapped as long as self lives.
        unsafe { &*self.memory.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Copies bytes that begin at position `from`, which wraps round.
    fn copy(&self, from: u64, to: &mut [u8]) {
        let size = self.data_pages * self.page;
        let at = (from % size as u64) as usize;
        let first = to.len().min(size - at);
        // SAFETY: the data lies behind the first page, `size` bytes; the kernel does not write what is not read yet, and
        // `to` is no part of it. At most `size` bytes are asked for, so both parts are inside.
        unsafe {
            let data = self.memory.as_ptr().add(self.page);
            std::ptr::copy_nonoverlapping(data.add(at), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, to.as_mut_ptr().add(first), to.len() - first);
        }
    }
}

impl Drop for RecordRing {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and no reference outlives self.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), (1 + self.data_pages) * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ended_is_told() {
        let Ok(mut rings) = (0..std::thread::available_parallelism().map_or(1, usize::from))
            .map(|cpu| code_mappings(cpu as u32))
            .collect::<io::Result<Vec<_>>>()
        else {
            println!("NOT RUN: no permission for performance events");
            return;
        };
        // So often that positions wrap round.
        for _ in 0..200 {
            let child = std::process::Command::new("/bin/true").spawn().unwrap();
            let pid = child.id();
            child.wait_with_output().unwrap();
            let mut found = false;
            for ring in &mut rings {
                ring.read(|kind, _, body| {
                    let path = b"/true\0";
                    found |= kind == 10 && body[..4] == pid.to_ne_bytes() && body.windows(6).any(|part| part == path);
                });
            }
            assert!(found, "{pid}");
        }
    }
}
