//! A thread sleeps uninterruptibly while its vfork child runs in its memory, until that executes a program or ends. A traced child
//! stands on that way, and we are the ones who let it go on: whoever waits for the parent has to.

use crate::process::{self, Status, read_text};
use crate::ptrace::{self, Waited};
use crate::target::{Event, Target};

/// Lets those children of a thread run that stand, and notes for the launch what it would have heard. A program that one of them has
/// executed is left where it stands.
pub fn let_children_run(target: &Target, tid: i32) {
    for child in children(target.pid(), tid) {
        // Those that are not traced are none of ours, and say so.
        let Ok((_, waited)) = ptrace::wait(child, false) else { continue };
        let _ = match waited {
            Waited::Nothing => Ok(()),
            // Newly born.
            Waited::Interrupted => ptrace::go_on(child, 0),
            Waited::GroupStop(_) => ptrace::listen(child),
            Waited::Signal(signal) => ptrace::go_on(child, signal),
            Waited::SystemCall => ptrace::go_to_system_call(child, 0),
            Waited::Event(event) => {
                let message = ptrace::event_message(child).unwrap_or(0);
                target.note(Event { tid: child, event, message });
                if event == libc::PTRACE_EVENT_EXEC { Ok(()) } else { ptrace::go_on(child, 0) }
            }
            Waited::Ended(status) => {
                target.note_end(child, status);
                Ok(())
            }
        };
    }
}

/// Processes that a thread has made and not waited for.
fn children(pid: i32, tid: i32) -> Vec<i32> {
    match read_text(format!("/proc/{pid}/task/{tid}/children")) {
        Ok(list) => list.split_whitespace().filter_map(|child| child.parse().ok()).collect(),
        // Kernels without CONFIG_PROC_CHILDREN.
        Err(_) => process::all().into_iter().filter(|&other| parent_of(other) == Some(pid)).collect(),
    }
}

fn parent_of(pid: i32) -> Option<i32> {
    Status::read(pid).ok().map(|status| status.parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::threads;

    #[test]
    fn children_are_those_that_were_started() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let pid = std::process::id() as i32;
        // The runner of the tests has threads of its own, and any of them may have started it.
        let found: Vec<i32> = threads(pid).into_iter().flat_map(|tid| children(pid, tid)).collect();
        assert!(found.contains(&(child.id() as i32)), "{found:?}");
        assert_eq!(parent_of(child.id() as i32), Some(pid));
        assert!(process::all().contains(&(child.id() as i32)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
