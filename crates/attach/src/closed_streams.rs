//! Standard streams that were closed when this process began. The standard library opens them on `/dev/null` before `main`,
//! so that no file of ours gets their numbers; a program that is launched is to find them closed all the same.

use std::sync::atomic::{AtomicBool, Ordering};

const STREAMS: i32 = 3;

static CLOSED: [AtomicBool; STREAMS as usize] = [const { AtomicBool::new(false) }; STREAMS as usize];

extern "C" fn note() {
    for stream in 0..STREAMS {
        // SAFETY: a system call that looks at a descriptor.
        let closed = unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1;
        CLOSED[stream as usize].store(closed, Ordering::Relaxed);
    }
}

/// Runs before the standard library's own beginning.
#[used]
// SAFETY: the section holds functions that the loader calls once, without arguments that `note` looks at; it allocates
// nothing and needs nothing that is set up later.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note;

/// Closes them again, in a child between fork and exec.
pub fn close_again() {
    for stream in (0..STREAMS).filter(|&stream| CLOSED[stream as usize].load(Ordering::Relaxed)) {
        // SAFETY: nothing of this process is at that number but the standard library's stand-in; the child becomes another
        // program, which is told nothing of it.
        unsafe { libc::close(stream) };
    }
}
