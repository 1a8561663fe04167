//! Replacing code in stopped text.
//!
//! Before any stop: the old bytes are compared, and one byte of each page is stored over itself, so that the kernel
//! makes the process' private copies of the pages while its threads run. A stop then costs one read and one write per
//! page; as many pages as fit into [`HOLD`] are done in one stop, and between two stops the process gets twice the time
//! of the last one.

use std::time::{Duration, Instant};

use transect_text_patch::{WINDOW_CAPACITY, Window};

use crate::error::AttachError;
use crate::priority::Urgent;
use crate::ptrace;
use crate::stop::{Held, Stop};
use crate::target::Target;
use crate::thread_move::{Position, position};

/// Aim for the time of writing in one stop, from when all threads stand.
const HOLD: Duration = Duration::from_micros(400);
/// Longest run of windows that is read and written at once.
const RUN: u64 = 4096;
const PAGE: u64 = 4096;
/// Stops tried for a window in which a thread stands that can't be moved.
const TRIES: usize = 20;

/// Why a window was left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unwritten {
    /// Neither the old nor the new bytes stand there.
    Foreign,
    /// Nothing is mapped there, or it can't be written (a shared mapping).
    NotWritable,
    /// A thread stands inside whose place has no counterpart.
    ThreadInside,
}

/// What [`Target::write_windows`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Windows that hold the new bytes now.
    pub count: usize,
    /// Windows left alone: (index in the argument, reason).
    pub left: Vec<(usize, Unwritten)>,
    /// Threads sent on to the counterpart of where they stood.
    pub moved: usize,
}

/// Windows near each other.
struct Run {
    start: u64,
    length: usize,
    /// Indices, by address.
    windows: Vec<usize>,
}

impl Target {
    /// Replaces code, with all threads held for short times. Windows may not overlap.
    ///
    /// A window that holds its new bytes already is counted as written.
    ///
    /// # Errors
    /// If the threads can't be stopped, or the process ends. What was written until then is not undone: hand the same windows
    /// in again, with `old` and `new` exchanged, to take it back.
    pub fn write_windows(&self, windows: &[Window]) -> Result<Written, AttachError> {
        self.write_windows_while(windows, &mut |_| ())
    }

    /// The same; `held` is called in each stop, before anything is written in it.
    ///
    /// # Errors
    /// As [`Target::write_windows`].
    pub fn write_windows_while(
        &self,
        windows: &[Window],
        held: &mut dyn FnMut(&Stop<'_>),
    ) -> Result<Written, AttachError> {
        let each_stop = held;
        // After each of many pauses as well: whoever waits for a CPU then takes a hundred times as long.
        let _urgent = Urgent::begin();
        let mut written = Written::default();
        let mut runs = self.prepare(windows, &mut written);
        let mut tries = 0;
        let returns = self.signal_returns();
        while !runs.is_empty() {
            let mut stop = self.stop_all()?;
            stop.find_interrupted(&returns);
            let began = Instant::now();
            each_stop(&stop);
            let mut done = 0;
            let mut again = Vec::new();
            for run in &runs {
                if done > 0 && began.elapsed() >= HOLD {
                    break;
                }
                let blocked = stop.write_run(run, windows, &mut written)?;
                if !blocked.is_empty() {
                    again.push(Run { start: run.start, length: run.length, windows: blocked });
                }
                done += 1;
            }
            let held = stop.elapsed();
            drop(stop);
            runs.drain(..done);
            if runs.is_empty() && !again.is_empty() {
                tries += 1;
            }
            runs.extend(again);
            if tries > TRIES {
                let left = runs.iter().flat_map(|run| &run.windows).map(|index| (*index, Unwritten::ThreadInside));
                written.left.extend(left);
                break;
            }
            if !runs.is_empty() {
                std::thread::sleep((held * 2).clamp(Duration::from_millis(1), Duration::from_millis(20)));
            }
        }
        written.left.sort_unstable_by_key(|(index, _)| *index);
        Ok(written)
    }

    /// What needs no stop: comparing, and making the pages private.
    fn prepare(&self, windows: &[Window], written: &mut Written) -> Vec<Run> {
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_unstable_by_key(|index| windows[*index].address);
        let mut runs: Vec<Run> = Vec::new();
        let mut private_page = u64::MAX;
        for index in order {
            let window = &windows[index];
            let length = usize::from(window.length);
            let mut found = [0u8; WINDOW_CAPACITY];
            if self.memory().read(window.address, &mut found[..length]).is_err() {
                written.left.push((index, Unwritten::NotWritable));
                continue;
            }
            if found[..length] == window.new[..length] {
                written.count += 1;
                continue;
            }
            if found[..length] != window.old[..length] {
                written.left.push((index, Unwritten::Foreign));
                continue;
            }
            let end = window.address + length as u64;
            let first_page = window.address & !(PAGE - 1);
            let last_page = (end - 1) & !(PAGE - 1);
            let mut fails = false;
            if first_page != private_page {
                fails |= self.memory().write(window.address, &found[..1]).is_err();
            }
            if last_page != first_page {
                fails |= self.memory().write(end - 1, &found[length - 1..length]).is_err();
            }
            private_page = last_page;
            if fails {
                written.left.push((index, Unwritten::NotWritable));
                continue;
            }
            match runs.last_mut() {
                Some(run) if end - run.start <= RUN => {
                    run.length = (end - run.start) as usize;
                    run.windows.push(index);
                }
                _ => runs.push(Run { start: window.address, length, windows: vec![index] }),
            }
        }
        runs
    }
}

impl Stop<'_> {
    /// Writes one run while all threads stand; gives the windows that a thread is in the way of.
    fn write_run(&mut self, run: &Run, windows: &[Window], written: &mut Written) -> Result<Vec<usize>, AttachError> {
        let mut text = vec![0; run.length];
        let mut blocked = Vec::new();
        let readable = self.target.memory().read(run.start, &mut text).is_ok();
        let mut ready = Vec::with_capacity(run.windows.len());
        for &index in &run.windows {
            let window = &windows[index];
            let length = usize::from(window.length);
            let at = (window.address - run.start) as usize;
            let place = &mut text[at..at + length];
            // dlclose may have taken the object away since the comparison.
            if !readable {
                written.left.push((index, Unwritten::NotWritable));
            } else if *place != window.old[..length] {
                written.left.push((index, Unwritten::Foreign));
            } else if self.threads.iter().any(|t| is_in_the_way(t, window)) {
                blocked.push(index);
            } else {
                place.copy_from_slice(&window.new[..length]);
                ready.push(index);
            }
        }
        if ready.is_empty() {
            return Ok(blocked);
        }
        // The threads first: a displaced instruction does the same whether or not the jump to it stands, so that
        // nothing is amiss if we are killed between the two.
        for &index in &ready {
            written.moved += self.move_threads(&windows[index]);
        }
        if let Err(error) = self.target.memory().write(run.start, &text) {
            if !self.target.is_alive() {
                return Err(error);
            }
            written.left.extend(ready.iter().map(|index| (*index, Unwritten::NotWritable)));
            return Ok(blocked);
        }
        written.count += ready.len();
        Ok(blocked)
    }

    fn move_threads(&mut self, window: &Window) -> usize {
        let mut moved = 0;
        for thread in &mut self.threads {
            for context in &mut thread.interrupted {
                if let Position::MoveTo(address) = position(context.next, false, window)
                    && self.target.memory().write(context.at, &address.to_le_bytes()).is_ok()
                {
                    context.next = address;
                    moved += 1;
                }
            }
            if let Position::MoveTo(address) = position(thread.registers.rip, thread.in_call(), window) {
                thread.registers.rip = address;
                thread.changed |= ptrace::set_registers(thread.tid, &thread.registers).is_err();
                moved += 1;
            }
        }
        moved
    }
}

fn is_in_the_way(thread: &Held, window: &Window) -> bool {
    position(thread.registers.rip, thread.in_call(), window) == Position::InTheWay
        || thread.interrupted.iter().any(|context| position(context.next, false, window) == Position::InTheWay)
}
