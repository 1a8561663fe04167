//! A process's limit on its address space (`ulimit -v`): what we map into it is not the program's, and must not be missing
//! where the program asks for memory itself, late in its run.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::error::AttachError;
use crate::process::{limit_of, read_text};

/// Room for what is mapped into a process while this lives. Then its limit is what it was, and so much more as was mapped.
#[derive(Debug)]
pub struct AddressRoom {
    pid: i32,
    usual: Rlimit,
    before: u64,
}

/// A limit that a process was given, and what it would be without us.
#[derive(Debug, Clone)]
pub struct GivenLimit {
    given: Rlimit,
    usual: Rlimit,
}

impl AddressRoom {
    /// Lifts the limit of a process, if it has one. `given`: limits that processes got by [`AddressRoom::settle`]; a program that
    /// is executed inherits one, and not what it was given for.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn lift(pid: i32, given: &[GivenLimit]) -> Result<Option<Self>, AttachError> {
        let Some(limit) = limit_of(pid, "Max address space").filter(|limit| limit.current.is_some()) else {
            return Ok(None);
        };
        let inherited = given.iter().find(|one| one.given == limit);
        let usual = inherited.map_or(limit, |one| one.usual);
        let mapped = mapped(pid).ok_or(AttachError::Exited { pid })?;
        // The upper limit is for privileged users to raise.
        let within = Rlimit { current: usual.maximum, maximum: usual.maximum };
        let is_room = usual.maximum != usual.current;
        let _ = set(pid, Rlimit { current: None, maximum: None }) || is_room && set(pid, within);
        Ok(Some(Self { pid, usual, before: mapped }))
    }

    /// All that was to be mapped is.
    ///
    /// # Errors
    /// [`AttachError::AddressSpace`] if the limit could not be raised, and less than half of the room that the program had is left to it.
    pub fn settle(self) -> Result<GivenLimit, AttachError> {
        let (more, given) = (self.more(), self.end());
        let raised = given.current.zip(self.usual.current).map_or(more, |(now, before)| now.saturating_sub(before));
        let had = self.usual.current.unwrap_or(u64::MAX).saturating_sub(self.before);
        if more.saturating_sub(raised) > had / 2 {
            return Err(AttachError::AddressSpace { pid: self.pid });
        }
        Ok(GivenLimit { given, usual: self.usual })
    }

    /// What was mapped by now.
    fn more(&self) -> u64 {
        mapped(self.pid).unwrap_or(0).saturating_sub(self.before)
    }

    fn in_force(&self) -> Rlimit {
        let more = self.more();
        let with_more = |limit: Option<u64>| limit.map(|limit| limit.saturating_add(more));
        Rlimit { current: with_more(self.usual.current), maximum: with_more(self.usual.maximum) }
    }

    /// Ends it, as far as that is permitted; gives the limit that is in force.
    fn end(&self) -> Rlimit {
        let all = self.in_force();
        if set(self.pid, all) {
            return all;
        }
        let maximum = self.usual.maximum;
        let some = Rlimit { current: all.current.into_iter().chain(maximum).min(), maximum };
        set(self.pid, some);
        some
    }
}

impl Drop for AddressRoom {
    fn drop(&mut self) {
        self.end();
    }
}

impl GivenLimit {
    /// Nothing of ours is mapped any more: the process has its own limit again, unless it has set another meanwhile.
    pub fn take_back(&self, pid: i32) {
        if limit_of(pid, "Max address space").is_some_and(|limit| limit == self.given) {
            set(pid, self.usual);
        }
    }
}

fn set(pid: i32, limit: Rlimit) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| prlimit(Some(pid), Resource::As, limit).is_ok())
}

/// Bytes of a process's address space that are in use.
fn mapped(pid: i32) -> Option<u64> {
    let pages: u64 = read_text(format!("/proc/{pid}/statm")).ok()?.split_whitespace().next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const LIMIT: u64 = 1 << 40;

    #[test]
    fn a_process_keeps_its_own_room() {
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = process.id().cast_signed();
        assert!(AddressRoom::lift(pid, &[]).unwrap().is_none(), "it has no limit");
        let usual = Rlimit { current: Some(LIMIT), maximum: Some(2 * LIMIT) };
        assert!(set(pid, usual));
        let mut room = AddressRoom::lift(pid, &[]).unwrap().unwrap();
        // As if so much was mapped.
        room.before -= 4096;
        let given = room.settle().unwrap();
        // The upper limit leaves room for it.
        assert_eq!(limit_of(pid, "Max address space").unwrap().current, Some(LIMIT + 4096));
        // What it inherits is not its own.
        drop(AddressRoom::lift(pid, std::slice::from_ref(&given)).unwrap());
        assert_eq!(limit_of(pid, "Max address space").unwrap().current, Some(LIMIT));
        assert!(set(pid, given.given));
        given.take_back(pid);
        assert_eq!(limit_of(pid, "Max address space").unwrap().current, Some(LIMIT));
        // What can't be raised is not taken from the program but for a small part.
        assert!(set(pid, Rlimit { current: Some(1 << 30), maximum: Some(1 << 30) }));
        let room = |taken: u64| AddressRoom {
            pid,
            usual: Rlimit { current: Some(1 << 30), maximum: Some(1 << 30) },
            before: mapped(pid).unwrap() - taken,
        };
        let small = room(4096).settle();
        assert!(small.is_ok(), "{small:?}");
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
