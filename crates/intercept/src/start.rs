//! The agent's start: before any other constructor of the program.

use core::sync::atomic::Ordering;

use crate::arch::{self, syscall as sys};
use crate::elf::{self, Dynamic, Image, Rendezvous, Segment, bytes_until_zero};
use crate::{
    active, address_limit, arena, calibration, dlsym, environment, loader, lock, process, published, spawn, thread,
};

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_SECURE: u64 = 23;
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;

/// What the kernel told the program about itself.
struct Auxiliary {
    headers: u64,
    header_count: u64,
    secure: bool,
}

fn auxiliary() -> Option<Auxiliary> {
    let mut buffer = [0u8; 1024];
    let mut n = sys::auxiliary_vector(&mut buffer);
    if n <= 0 {
        // Kernels before 6.4.
        let fd = sys::open(c"/proc/self/auxv".as_ptr().cast(), false);
        if fd < 0 {
            return None;
        }
        n = sys::read(fd, &mut buffer);
        sys::close(fd);
    }
    let mut a = Auxiliary { headers: 0, header_count: 0, secure: false };
    for pair in buffer.get(..n.max(0) as usize)?.chunks_exact(16) {
        let word = |at: usize| pair[at..at + 8].iter().rev().fold(0u64, |w, &b| w << 8 | b as u64);
        match word(0) {
            AT_PHDR => a.headers = word(8),
            AT_PHNUM => a.header_count = word(8),
            AT_SECURE => a.secure = word(8) != 0,
            _ => {}
        }
    }
    Some(a)
}

/// Starts interception. Does nothing where it can't work: the program runs as if the agent were not there.
///
/// # Safety
/// Called once, from the agent's constructor, before any other thread.
pub unsafe fn start() {
    // SAFETY: one thread; addresses come from the kernel and the loader.
    unsafe {
        let Some(aux) = auxiliary() else { return };
        if aux.secure || aux.headers == 0 {
            return;
        }
        let headers = core::slice::from_raw_parts(aux.headers as *const Segment, aux.header_count as usize);
        let base = headers.iter().find(|s| s.kind == PT_PHDR).map_or(0, |s| aux.headers - s.address);
        let Some(dynamic) = headers.iter().find(|s| s.kind == PT_DYNAMIC) else { return };
        let dynamic = (base + dynamic.address) as *const Dynamic;
        let rendezvous = elf::dynamic_value(dynamic, elf::DT_DEBUG).unwrap_or(0) as *const Rendezvous;
        if rendezvous.is_null() {
            return;
        }
        loader::know(rendezvous);
        let Some(own) = loader::maps().find(|&m| (*m).dynamic as u64 == arch::own_dynamic()) else { return };
        let name = bytes_until_zero((*own).name);
        let Some(slash) = name.iter().rposition(|&b| b == b'/') else { return };
        let folder = &name[..=slash];
        if let Some(image) = Image::read(own, None) {
            address_limit::know_image(image.end.saturating_sub(image.base));
        }
        let limit = environment::take(initial_environment(), address_limit::ENTRY).and_then(address_limit::parse);
        if !open_arena(folder, limit.is_some()) || !process::register() {
            address_limit::give_up(limit);
            return;
        }
        published::start(folder);
        active::prepare();
        dlsym::prepare();
        let executable = &process::header().executable;
        let executable = &executable[..executable.iter().position(|&b| b == 0).unwrap_or(0)];
        let libc = Libc::find(headers);
        if libc.glibc {
            lock::know_glibc();
        }
        if let Some(at) = libc.environ {
            environment::know(at);
        }
        spawn::know_exec(libc.execve, libc.execvpe);
        let initial = initial_environment();
        environment::hide(initial);
        let limit = limit.or_else(|| environment::take(initial, address_limit::ENTRY).and_then(address_limit::parse));
        if let Some(at) = libc.attr_getstacksize {
            spawn::know_stack_size(at);
        }
        let top = initial as u64;
        thread::prepare();
        let stack = thread::stack_limit().min(1 << 30);
        thread::register(0, true, if top != 0 { top } else { arch::stack_pointer() + 8192 }, stack);
        calibration::calibrate();
        loader::scan(Some((executable, headers)));
        loader::take_event((*rendezvous).hook);
        libc.announce();
        address_limit::settle(limit);
        process::note_setup(process::header().start_ticks.load(Ordering::Relaxed));
    }
}

/// The environment array on the initial stack: from libc's `environ` if that is set already (musl), else from where
/// glibc's loader says the stack began: argument count, arguments, null, environment.
unsafe fn initial_environment() -> *mut *const u8 {
    let current = environment::current();
    if !current.is_null() {
        return current.cast_mut();
    }
    // SAFETY: `__libc_stack_end` is the loader's own record of the initial stack pointer.
    unsafe {
        for map in loader::maps() {
            if let Some(image) = Image::read(map, None)
                && let Some(s) = image.lookup(b"__libc_stack_end")
            {
                let stack = *((image.base + s.value()) as *const u64) as *const u64;
                if stack.is_null() {
                    continue;
                }
                return stack.add(1 + *stack as usize + 1) as *mut *const u8;
            }
        }
    }
    core::ptr::null_mut()
}

/// The arena stands beside the agent.
fn open_arena(folder: &[u8], limit_handed_on: bool) -> bool {
    let mut path = [0u8; 1024];
    let length = folder.len() + environment::ARENA_FILE.len();
    if length > path.len() {
        return false;
    }
    path[..folder.len()].copy_from_slice(folder);
    path[folder.len()..length].copy_from_slice(environment::ARENA_FILE);
    let fd = sys::open(path.as_ptr(), true);
    fd >= 0 && arena::map(fd, limit_handed_on)
}

/// What the agent needs of the program's libc, by name; everything may be missing.
struct Libc {
    glibc: bool,
    environ: Option<u64>,
    attr_getstacksize: Option<u64>,
    execve: Option<u64>,
    execvpe: Option<u64>,
    key_create: Option<u64>,
    setspecific: Option<u64>,
    register_atfork: Option<u64>,
    pthread_atfork: Option<u64>,
}

impl Libc {
    unsafe fn find(executable: &'static [Segment]) -> Libc {
        let mut found = Libc {
            glibc: false,
            environ: None,
            attr_getstacksize: None,
            execve: None,
            execvpe: None,
            key_create: None,
            setspecific: None,
            register_atfork: None,
            pthread_atfork: None,
        };
        for map in loader::maps() {
            // SAFETY: the loader's list at start.
            let (image, name) = unsafe { (Image::read(map, None), bytes_until_zero((*map).name)) };
            let file = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
            let Some(image) = image else { continue };
            if !(file.starts_with(b"libc.")
                || file.starts_with(b"libc-")
                || file.starts_with(b"ld-musl")
                || file.starts_with(b"libpthread"))
            {
                continue;
            }
            let at = |name: &[u8]| image.lookup(name).map(|s| image.base + s.value());
            found.glibc |= at(b"gnu_get_libc_version").is_some();
            found.environ = found.environ.or_else(|| at(b"environ"));
            found.attr_getstacksize = found.attr_getstacksize.or_else(|| at(b"pthread_attr_getstacksize"));
            found.execve = found.execve.or_else(|| at(b"execve"));
            found.execvpe = found.execvpe.or_else(|| at(b"execvpe"));
            found.key_create = found.key_create.or_else(|| at(b"pthread_key_create"));
            found.setspecific = found.setspecific.or_else(|| at(b"pthread_setspecific"));
            found.register_atfork = found.register_atfork.or_else(|| at(b"__register_atfork"));
            found.pthread_atfork = found.pthread_atfork.or_else(|| at(b"pthread_atfork"));
        }
        // `environ` may live in the executable by a copy relocation: the first definition in the list is the one in
        // force.
        for (i, map) in loader::maps().enumerate() {
            // SAFETY: as above.
            if let Some(image) = unsafe { Image::read(map, (i == 0).then_some(executable)) }
                && let Some(s) = image.lookup(b"environ")
            {
                found.environ = Some(image.base + s.value());
                break;
            }
        }
        found
    }

    /// Registers for forks and for the end of threads.
    unsafe fn announce(&self) {
        // SAFETY: functions of the program's libc, called with their documented arguments, after the loader has
        // relocated everything.
        unsafe {
            if let Some(register) = self.register_atfork {
                let register: extern "C" fn(u64, u64, extern "C" fn(), u64) -> i32 = core::mem::transmute(register);
                register(0, 0, process::forked, 0);
            } else if let Some(register) = self.pthread_atfork {
                let register: extern "C" fn(u64, u64, extern "C" fn()) -> i32 = core::mem::transmute(register);
                register(0, 0, process::forked);
            }
            if let (Some(create), Some(set)) = (self.key_create, self.setspecific) {
                let create: extern "C" fn(*mut u32, unsafe extern "C" fn(*mut thread::ThreadState)) -> i32 =
                    core::mem::transmute(create);
                let mut key = 0;
                if create(&mut key, thread::thread_ending) == 0 {
                    thread::set_end_key(key, set);
                }
            }
        }
    }
}
