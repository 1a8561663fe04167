//! System calls made by a held thread in our name.
//!
//! The thread's registers are set to an instruction `syscall` ([`CallSite`]; where there is no room for one, to any that is
//! mapped) and it is let run from the call's entry to its exit, which the kernel reports without any signal. All its signals are
//! blocked meanwhile. Afterwards it gets registers and mask back at a stop of the kind that it was in before, so that the
//! kernel restarts the system call in which it slept. Vector registers are never touched.
//!
//! If we are killed at any point between, the thread gets both back by itself: it is first led to the call site, then its signals
//! are blocked, and on the way back the mask comes first.

use std::io;
use std::time::Duration;

use crate::call_site::{CallSite, Occupied, Room};
use crate::claim::{Claim, Right};
use crate::error::AttachError;
use crate::ptrace::{self, Waited};
use crate::stop::Stop;

/// Not in a system call: nothing to restart.
const NO_CALL: u64 = u64::MAX;
/// The instruction `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// For so long a held thread waits for another one's calls; then it makes its own at an instruction of the program's.
const SITE_PATIENCE: Duration = Duration::from_millis(20);

impl Stop<'_> {
    /// Makes a system call in the first held thread and gives its result.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`] with the call's own error; [`AttachError::Exited`] if the process ends by it;
    /// [`AttachError::Replaced`] if it runs another program since its memory was opened.
    pub fn call(&mut self, name: &'static str, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, AttachError> {
        let pid = self.target.pid();
        let result = self.raw_call(number, arguments)?;
        if (-4095..0).contains(&(result as i64)) {
            let source = io::Error::from_raw_os_error(-(result as i64) as i32);
            return Err(AttachError::RemoteCall { pid, call: name, advice: advice(name, &source), source });
        }
        Ok(result)
    }

    /// Whether the first held thread is inside of a restartable sequence (rseq): called away from it, it would never hear
    /// that the sequence was interrupted.
    pub(crate) fn is_in_sequence(&self) -> bool {
        let Some(thread) = self.threads.first().filter(|thread| !thread.in_call()) else { return false };
        let memory = self.target.memory();
        let word = |at: u64| memory.read_u64(at).unwrap_or(0);
        // The second field leads to the sequence, also for a while after it was left: version and flags, start, length.
        let sequence = match ptrace::restartable_sequences(thread.tid) {
            0 => 0,
            registered => word(registered + 8),
        };
        sequence != 0 && thread.registers.rip.wrapping_sub(word(sequence + 8)) < word(sequence + 16)
    }

    fn raw_call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, AttachError> {
        let pid = self.target.pid();
        let lost = |error: io::Error| AttachError::system(pid, "make a system call")(error);
        let thread = self.threads.first_mut().ok_or(AttachError::Exited { pid })?;
        let tid = thread.tid;
        let first = thread.mask.is_none();
        if first {
            let mask = ptrace::signal_mask(tid).map_err(lost)?;
            thread.mask = Some(mask);
            thread.site = self.target.call_site(tid, &thread.registers, mask);
        }
        let at = match &thread.site {
            Some(site) => site.address(),
            None => self.target.system_call_address()?,
        };
        // The place was found in an earlier stop: another program may run now, which has something else there, or nothing.
        if self.target.memory().read(at, &mut [0; 2]).is_err() || !is_system_call(tid, at) {
            return Err(AttachError::Replaced { pid });
        }
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let rax = number as u64;
        let registers =
            ptrace::Registers { rip: at, rax, orig_rax: NO_CALL, rdi, rsi, rdx, r10, r8, r9, ..thread.registers };
        ptrace::set_registers(tid, &registers).map_err(lost)?;
        if first {
            ptrace::set_signal_mask(tid, u64::MAX).map_err(lost)?;
        }
        for _ in 0..2 {
            self.run_to_system_call(tid).map_err(lost)?.ok_or(AttachError::Exited { pid })?;
        }
        Ok(ptrace::registers(tid).map_err(lost)?.rax)
    }

    /// `None` if the thread ended.
    fn run_to_system_call(&self, tid: i32) -> io::Result<Option<()>> {
        ptrace::go_to_system_call(tid, 0)?;
        loop {
            match self.wait_for(tid)? {
                Waited::SystemCall => return Ok(Some(())),
                Waited::Ended(_) => return Ok(None),
                // Only SIGSTOP and SIGKILL get through the mask; after the group stop that follows, the call goes on.
                Waited::Signal(signal) => ptrace::go_to_system_call(tid, signal)?,
                _ => ptrace::go_to_system_call(tid, 0)?,
            }
        }
    }

    /// Brings a thread that made calls for us back to where it was.
    pub(crate) fn give_back(&mut self, index: usize) {
        let Some(mask) = self.threads[index].mask.take() else { return };
        let thread = &self.threads[index];
        let tid = thread.tid;
        if !thread.resting && ptrace::go_on_to_stop(tid, 0).is_ok() {
            // A call is restarted only behind a stop of the signal kind, which the interruption is.
            loop {
                match self.wait_for(tid) {
                    Ok(Waited::Interrupted | Waited::GroupStop(_)) => break,
                    Ok(Waited::Signal(signal)) => drop(ptrace::go_on_to_stop(tid, signal)),
                    Ok(Waited::Ended(_)) | Err(_) => return,
                    Ok(_) => drop(ptrace::go_on_to_stop(tid, 0)),
                }
            }
        }
        let _ = ptrace::set_signal_mask(tid, mask);
        let _ = ptrace::set_registers(tid, &thread.registers);
        if let Some(site) = self.threads[index].site.take() {
            site.clear(self.target.memory());
        }
    }
}

/// Whether the thread's own memory has the instruction there.
fn is_system_call(tid: i32, at: u64) -> bool {
    // The last two of eight bytes: what is behind the instruction may not be mapped.
    ptrace::peek_word(tid, at.wrapping_sub(6)).is_ok_and(|word| word.to_le_bytes()[6..] == SYSTEM_CALL)
}

fn advice(call: &str, error: &io::Error) -> &'static str {
    match (call, error.raw_os_error()) {
        ("memfd_create", Some(libc::EMFILE | libc::ENFILE)) => {
            "; it has no file descriptor left: raise its limit (prlimit --nofile)"
        }
        ("memfd_create" | "mmap", Some(libc::EACCES | libc::EPERM)) => {
            "; a policy (vm.memfd_noexec, SELinux execmem) forbids executable memory"
        }
        ("mmap", Some(libc::ENOMEM)) => "; its address space is limited: raise it (prlimit --as)",
        ("memfd_create", Some(libc::ENOSYS)) => "; the kernel is too old, or a filter hides the call",
        _ => "",
    }
}

impl crate::Target {
    /// A call site for a thread with these registers that blocks these signals. None where there is no room, or where others have
    /// theirs for too long.
    fn call_site(&self, tid: i32, registers: &ptrace::Registers, mask: u64) -> Option<Occupied> {
        // Two that hold two threads would find the same room free, and the first that is done would clear the other's.
        let claim = Claim::within(self.pid(), Right::WriteCallSite, SITE_PATIENCE)?;
        let site = self.room_for_calls()?;
        site.occupy(self.memory(), tid, registers, mask, claim)
    }

    /// Where a call site can be written.
    pub(crate) fn room_for_calls(&self) -> Option<CallSite> {
        let known = self.call_site.get().filter(|site| site.look(self.memory()) == Some(Room::Free));
        let found = known.or_else(|| CallSite::find(self));
        self.call_site.set(found);
        found
    }

    /// Address of the bytes `0F 05` in executable memory.
    pub(crate) fn system_call_address(&self) -> Result<u64, AttachError> {
        let known = self.system_call_at.get();
        if known != 0 {
            return Ok(known);
        }
        let mut mappings: Vec<_> = self.mappings()?.into_iter().filter(|m| m.executable && m.readable).collect();
        mappings.sort_by_key(|m| m.path.as_os_str() != "[vdso]");
        let mut gone = false;
        for mapping in mappings {
            let mut at = mapping.start;
            while at < mapping.end && mapping.path.as_os_str() != "[vsyscall]" {
                let size = (mapping.end - at).min(1 << 16);
                let mut bytes = vec![0; size as usize];
                if self.memory().read(at, &mut bytes).is_err() {
                    // Its memory goes away before it counts as ended.
                    gone = true;
                    break;
                }
                if let Some(offset) = bytes.windows(2).position(|pair| pair == SYSTEM_CALL) {
                    self.system_call_at.set(at + offset as u64);
                    return Ok(at + offset as u64);
                }
                at += size;
            }
        }
        let pid = self.pid();
        Err(if self.is_alive() && !gone { AttachError::NoSystemCall { pid } } else { AttachError::Exited { pid } })
    }
}
