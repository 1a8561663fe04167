//! Threads and programs that the program starts.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::arena::OPTION_FOLLOW;
use transect_event_abi::process::{LEAST_STACK, SLOT_INTERNAL, unprofiled};

use crate::arch::{self, syscall as sys};
use crate::confinement::confined;
use crate::elf::bytes_until_zero;
use crate::enter::Registers;
use crate::environment::Buffer;
use crate::slot::Kind;
use crate::thread::ThreadState;
use crate::{active, address_limit, arena, environment, process, recorder, slot, thread};

static GET_STACK_SIZE: AtomicU64 = AtomicU64::new(0);

/// Notes `pthread_attr_getstacksize`.
pub fn know_stack_size(address: u64) {
    GET_STACK_SIZE.store(address, Ordering::Relaxed);
}

/// `pthread_create(thread, attr, routine, argument)`: the routine is wrapped, so that the thread is known from its
/// first instruction.
pub fn thread_create(r: &mut Registers) {
    let mut size = thread::stack_limit().min(8 << 20);
    let get = GET_STACK_SIZE.load(Ordering::Relaxed);
    if r.rsi != 0 && get != 0 {
        let mut given = 0usize;
        // SAFETY: the address of pthread_attr_getstacksize in the program's libc; rsi is the program's attribute.
        let get: extern "C" fn(u64, *mut usize) -> i32 = unsafe { core::mem::transmute(get) };
        if get(r.rsi, &mut given) == 0 && given != 0 {
            size = given as u64;
        }
    }
    if let Some(start) = thread::wrap(r.rdx, r.rcx, size) {
        active::start_parallel();
        r.rdx = arch::transect_thread_start as *const () as u64;
        r.rcx = start as u64;
    }
}

/// Whether children are recorded.
pub fn follows() -> bool {
    arena::header().options & OPTION_FOLLOW != 0
}

/// A program runs without the agent, for a reason of `unprofiled`.
pub fn left_behind(reason: usize) {
    if thread::refuses_all() {
        // This process is, and its header is its parent's.
        return;
    }
    process::header().unprofiled[reason].fetch_add(1, Ordering::Relaxed);
}

/// Slots through which `execve` and `execvpe` of the program's libc are entered in place of their like.
static EXEC: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Notes `execve` and `execvpe`.
pub fn know_exec(execve: Option<u64>, execvpe: Option<u64>) {
    for (cell, address) in EXEC.iter().zip([execve, execvpe]) {
        if let Some(address) = address
            && let Some(s) = slot::reserve(1)
        {
            slot::describe(s, u16::MAX, 0, 0, None, b"", SLOT_INTERNAL);
            slot::set_target(s, address);
            cell.store(s, Ordering::Release);
        }
    }
}

/// The calling thread's memory for the environment it passes on. A thread that spawns again is done with the last
/// one; the child of vfork that shares it has memory of its own by then.
unsafe fn buffer(state: *mut ThreadState, fallback: &mut Buffer) -> &mut Buffer {
    // SAFETY: `state` is null or the calling thread's.
    unsafe { if state.is_null() { fallback } else { &mut (*state).environment } }
}

/// exec and spawn with an explicit environment: the copy that is passed on has the agent in it, if it can work there.
///
/// # Safety
/// `r` holds the arguments of the call that `kind` describes.
pub unsafe fn exec_with_environment(kind: Kind, r: &mut Registers, state: *mut ThreadState) {
    // posix_spawn(pid, path, actions, attr, argv, envp), execve(path, argv, envp)
    let path = if kind.size_arg == 5 { r.rsi } else { r.rdi };
    // SAFETY: paths and environments are what the program passes to the system call.
    unsafe {
        if !may_follow(path as *const u8) {
            // What posix_spawn starts has this process' limit.
            if kind.size_arg != 5 {
                address_limit::put_back();
            }
            return;
        }
        let given = r.argument(kind.size_arg) as *const *const u8;
        let mut fresh = Buffer::none();
        if let Some((_, array)) = environment::with_agent(given, buffer(state, &mut fresh), 0) {
            match kind.size_arg {
                2 => r.rdx = array as u64,
                3 => r.rcx = array as u64,
                _ => r.r9 = array as u64,
            }
        }
    }
}

/// `execle(path, argument…, null, environment)`: the environment is changed where it stands.
///
/// # Safety
/// As for [`exec_with_environment`].
pub unsafe fn exec_list_with_environment(r: &mut Registers, state: *mut ThreadState) {
    // SAFETY: the call's own arguments: five registers after the path, further words above the return address; that
    // area belongs to the call, which may change it.
    unsafe {
        if !may_follow(r.rdi as *const u8) {
            address_limit::put_back();
            return;
        }
        let above = (r.sp() + 8) as *mut u64;
        let given = [r.rsi, r.rdx, r.rcx, r.r8, r.r9];
        let word = |i: usize| if i < given.len() { given[i] } else { *above.add(i - given.len()) };
        let at = (0..).position(|i| word(i) == 0).unwrap_or(0) + 1;
        let mut fresh = Buffer::none();
        let environment = word(at) as *const *const u8;
        if let Some((_, array)) = environment::with_agent(environment, buffer(state, &mut fresh), 0) {
            match at {
                1 => r.rdx = array as u64,
                2 => r.rcx = array as u64,
                3 => r.r8 = array as u64,
                4 => r.r9 = array as u64,
                _ => *above.add(at - given.len()) = array as u64,
            }
        }
    }
}

/// exec with the program's own environment (`execv`, `execvp`, and with `list` set `execl`, `execlp`): goes on as
/// `execve` or `execvpe` with a copy that has the agent in it, so that the program's own environment is not changed
/// if exec fails or this is the child of vfork.
///
/// # Safety
/// As for [`exec_with_environment`].
pub unsafe fn exec_with_own(r: &mut Registers, in_path: bool, list: bool, state: *mut ThreadState) {
    let by = EXEC[usize::from(in_path)].load(Ordering::Acquire);
    // SAFETY: the call's own arguments: a path, then an array or a null-terminated list, whose sixth and further words
    // stand above the return address.
    unsafe {
        if !may_follow(r.rdi as *const u8) {
            address_limit::put_back();
            return;
        }
        if by == 0 {
            left_behind(unprofiled::UNREACHABLE);
            return;
        }
        let above = (r.sp() + 8) as *const u64;
        let given = [r.rsi, r.rdx, r.rcx, r.r8, r.r9];
        let word = |i: usize| if i < given.len() { given[i] } else { *above.add(i - given.len()) };
        let words = if list { (0..).position(|i| word(i) == 0).unwrap_or(0) + 1 } else { 0 };
        let mut fresh = Buffer::none();
        let Some((arguments, array)) =
            environment::with_agent(environment::current(), buffer(state, &mut fresh), words)
        else {
            return;
        };
        for i in 0..words {
            *arguments.add(i) = word(i);
        }
        if list {
            r.rsi = arguments as u64;
        }
        r.rdx = array as u64;
        r.slot = by.into();
    }
}

/// `system` and `popen`.
pub fn lend() -> bool {
    if !follows() {
        left_behind(unprofiled::NOT_FOLLOWED);
        return false;
    }
    if confined() {
        left_behind(unprofiled::UNREACHABLE);
        return false;
    }
    if !sys::has_descriptor_after_exec() {
        left_behind(unprofiled::NO_DESCRIPTOR);
        return false;
    }
    environment::lend()
}

/// Ends [`lend`].
pub fn take_back() {
    environment::take_back();
}

/// Whether the agent can work in the program at `path`; counts the reason if not.
unsafe fn may_follow(path: *const u8) -> bool {
    // SAFETY: a zero-terminated string of the program, or null.
    unsafe {
        if !follows() {
            left_behind(unprofiled::NOT_FOLLOWED);
            return false;
        }
        // First: to look at the program takes some stack, too.
        if sys::stack_limit() < LEAST_STACK {
            left_behind(unprofiled::SMALL_STACK);
            return false;
        }
        if !confined() && !sys::has_descriptor_after_exec() {
            left_behind(unprofiled::NO_DESCRIPTOR);
            return false;
        }
        if confined() || !sys::readable_path(arena::header().agent_path.as_ptr()) || !recorder::lives() {
            left_behind(unprofiled::UNREACHABLE);
            return false;
        }
        if path.is_null() || !sys::readable(path as u64 & !7) {
            return true;
        }
        let name = bytes_until_zero(path);
        let verdict = if name.contains(&b'/') { examine(name, 0) } else { in_path(name) };
        match verdict {
            Some(reason) => {
                left_behind(reason);
                false
            }
            None => true,
        }
    }
}

/// A fixed buffer for one path.
fn with_path<T>(parts: &[&[u8]], then: impl FnOnce(*const u8) -> T) -> Option<T> {
    let mut buffer = [0u8; 4096];
    let mut n = 0;
    for part in parts {
        let to = buffer.get_mut(n..n + part.len())?;
        to.copy_from_slice(part);
        n += part.len();
    }
    (n < buffer.len()).then(|| then(buffer.as_ptr()))
}

/// Searches PATH as execvp does and examines what it finds.
unsafe fn in_path(name: &[u8]) -> Option<usize> {
    // SAFETY: libc's environment array.
    let path = unsafe { environment::entries(environment::current()) }
        .find_map(|e| e.strip_prefix(b"PATH="))
        .unwrap_or(b"/bin:/usr/bin");
    for dir in path.split(|&b| b == b':') {
        let dir = if dir.is_empty() { b"." } else { dir };
        if with_path(&[dir, b"/", name], sys::exists) == Some(true) {
            let mut whole = [0u8; 4096];
            let length = dir.len() + 1 + name.len();
            if length >= whole.len() {
                return None;
            }
            whole[..dir.len()].copy_from_slice(dir);
            whole[dir.len()] = b'/';
            whole[dir.len() + 1..length].copy_from_slice(name);
            return examine(&whole[..length], 0);
        }
    }
    None
}

/// Why the agent can't work in a program file; `None` if it can, or if the file can't be examined.
fn examine(path: &[u8], depth: u32) -> Option<usize> {
    const PT_INTERP: u32 = 3;
    let mut head = [0u8; 4096];
    let (changes_identity, read) = with_path(&[path], |p| {
        let changes_identity = sys::changes_identity(p);
        let fd = sys::open(p, false);
        let mut n = -1;
        if fd >= 0 {
            n = sys::pread(fd, &mut head, 0);
            sys::close(fd);
        }
        (changes_identity, n)
    })?;
    if changes_identity? {
        return Some(unprofiled::SETUID);
    }
    if read < 64 {
        return None;
    }
    let head = &head[..read as usize];
    if head.starts_with(b"#!") && depth < 4 {
        let line = head[2..].split(|&b| b == b'\n').next()?;
        let line = line.trim_ascii_start();
        let interpreter = line.split(|b| b.is_ascii_whitespace()).next()?;
        return examine(interpreter, depth + 1);
    }
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    // 64-bit, little-endian, x86-64
    if head[4] != 2 || head[5] != 1 || head[18] != 62 || head[19] != 0 {
        return Some(unprofiled::WRONG_CLASS);
    }
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]) as usize;
    let table = u16_at(32);
    let (size, count) = (u16_at(54), u16_at(56));
    let dynamic = (0..count).any(|i| {
        let at = table + i * size;
        head.get(at..at + 4).is_some_and(|b| b == PT_INTERP.to_le_bytes())
    });
    // Headers beyond the first page: assume the usual.
    (!dynamic && table + count * size <= head.len()).then_some(unprofiled::STATIC)
}
