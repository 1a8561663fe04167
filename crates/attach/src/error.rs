//! Why a process can't be attached to, or written.

use std::io;
use std::path::PathBuf;

/// What went wrong; every message says what to do next. The process is as it was, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No process has this pid.
    #[error("no process {pid}; see `ps -e` for what runs")]
    NoSuchProcess {
        /// Pid asked for.
        pid: i32,
    },
    /// The number is a thread's.
    #[error("{tid} is a thread of process {pid}; give {pid} instead")]
    IsThread {
        /// Number asked for.
        tid: i32,
        /// Its process.
        pid: i32,
    },
    /// It has ended and waits for its parent.
    #[error("process {pid} has ended (a zombie that its parent {parent} has not waited for yet)")]
    Zombie {
        /// Pid.
        pid: i32,
        /// Its parent.
        parent: i32,
    },
    /// It is one of the kernel's own threads.
    #[error("process {pid} ({name}) is a thread of the kernel and has no code of its own")]
    KernelThread {
        /// Pid.
        pid: i32,
        /// Name.
        name: String,
    },
    /// It is this very process.
    #[error("process {pid} is this command itself")]
    Itself {
        /// Pid.
        pid: i32,
    },
    /// It belongs to somebody else.
    #[error("process {pid} runs as {owner} and this command as {own}; run it as {owner} or as root")]
    OtherUser {
        /// Pid.
        pid: i32,
        /// Its user ids.
        owner: String,
        /// Ours.
        own: String,
    },
    /// It has more privileges than we, or forbids to be looked at (`PR_SET_DUMPABLE`).
    #[error(
        "process {pid} may not be traced by its own user: it was started with privileges (set-user-id, capabilities) \
         or has made itself undumpable; run this command as root"
    )]
    Undumpable {
        /// Pid.
        pid: i32,
    },
    /// Yama's `ptrace_scope`.
    #[error("the kernel setting kernel.yama.ptrace_scope = {scope} forbids attaching to process {pid}; {advice}")]
    PtraceScope {
        /// Pid.
        pid: i32,
        /// Its value.
        scope: u32,
        /// What to do about it.
        advice: &'static str,
    },
    /// It runs in a user namespace in which we have no power, or we run in one.
    #[error(
        "process {pid} belongs to another user namespace (a container); run this command as root outside of it, or \
         inside of the container with the capability CAP_SYS_PTRACE"
    )]
    UserNamespace {
        /// Pid.
        pid: i32,
    },
    /// Some security policy says no, without telling which.
    #[error(
        "the kernel forbids tracing process {pid} ({operation}); a security policy (a container's seccomp profile, \
         SELinux, AppArmor) or missing CAP_SYS_PTRACE are the usual causes"
    )]
    Forbidden {
        /// Pid.
        pid: i32,
        /// What was tried.
        operation: &'static str,
    },
    /// Another tracer is at work.
    #[error("process {pid} is being traced by process {tracer} ({name}); end that debugger or tracer first")]
    Traced {
        /// Pid.
        pid: i32,
        /// The tracer.
        tracer: i32,
        /// Its name.
        name: String,
    },
    /// It is no 64-bit x86-64 process.
    #[error("process {pid} runs {found}; only 64-bit x86-64 programs can be probed")]
    ForeignMachine {
        /// Pid.
        pid: i32,
        /// What it is.
        found: String,
    },
    /// Its system-call filter would punish the calls that loading the agent, or its handlers, need.
    #[error("process {pid} is confined by seccomp ({mode}), which may forbid {call}; {advice}")]
    Seccomp {
        /// Pid.
        pid: i32,
        /// `strict` or `filter`.
        mode: &'static str,
        /// First forbidden call.
        call: &'static str,
        /// What to do about it.
        advice: &'static str,
    },
    /// All its threads catch their own system calls (`PR_SET_SYSCALL_USER_DISPATCH`).
    #[error(
        "process {pid} has its system calls handed back to itself (as Wine does): those that loading the agent needs \
         would end it; its functions can't be probed"
    )]
    Dispatched {
        /// Pid.
        pid: i32,
    },
    /// It does not run the code that it has mapped, but translations of it.
    #[error(
        "process {pid} runs under {translator}, which translates its code: jumps in that lead nowhere, so its functions can't be \
         probed; `transect walk --no-probes` and `transect criticality` need no probes"
    )]
    Translated {
        /// Pid.
        pid: i32,
        /// What translates it.
        translator: &'static str,
    },
    /// A thread of it may not read the time stamp counter (`PR_SET_TSC`).
    #[error(
        "process {pid} has forbidden itself to read the time stamp counter (PR_SET_TSC): its calls can be counted (transect \
         probe count), not timed"
    )]
    ClockForbidden {
        /// Pid.
        pid: i32,
    },
    /// A thread can't be stopped.
    #[error("thread {tid} of process {pid} can't be stopped: {wait}; try again when it has gone on")]
    Unstoppable {
        /// Pid.
        pid: i32,
        /// The thread.
        tid: i32,
        /// Why.
        wait: String,
    },
    /// The process ended meanwhile.
    #[error("process {pid} ended before it could be instrumented")]
    Exited {
        /// Pid.
        pid: i32,
    },
    /// The process replaced its program meanwhile.
    #[error("process {pid} started another program meanwhile; try again")]
    Replaced {
        /// Pid.
        pid: i32,
    },
    /// Another controller has the probes.
    #[error("the probes of process {pid} are in use by process {controller}; wait for it or end it")]
    Controlled {
        /// Pid.
        pid: i32,
        /// The controller.
        controller: u32,
    },
    /// A probe arena is there but not of our version.
    #[error(
        "process {pid} holds probes of another version of this command ({found}, this one has {own}); detach them \
         with that version"
    )]
    ArenaVersion {
        /// Pid.
        pid: i32,
        /// Version found.
        found: u32,
        /// Our version.
        own: u32,
    },
    /// The agent that is loaded is another one.
    #[error(
        "process {pid} holds probes of another build of this command; detach them with that one, or restart the process"
    )]
    AgentVersion {
        /// Pid.
        pid: i32,
    },
    /// The arena's descriptor is closed and we may not open it otherwise.
    #[error(
        "process {pid} has no open descriptor of its probes' memory; run this command as root, which finds it through \
         the mapping"
    )]
    ArenaUnreachable {
        /// Pid.
        pid: i32,
    },
    /// A system call made by the process in our name failed.
    #[error("process {pid}: {call} failed in it: {source}{advice}")]
    RemoteCall {
        /// Pid.
        pid: i32,
        /// Name of the call.
        call: &'static str,
        /// The error it gave.
        source: io::Error,
        /// What to do about it, empty or beginning with `; `.
        advice: &'static str,
    },
    /// No instruction `syscall` is mapped.
    #[error("process {pid} has no system-call instruction mapped; it can't load the agent")]
    NoSystemCall {
        /// Pid.
        pid: i32,
    },
    /// No room near the code.
    #[error(
        "process {pid} has no free {size} bytes of address space within 2 GiB of {low:#x}-{high:#x}; probe other \
         components"
    )]
    NoSpace {
        /// Pid.
        pid: i32,
        /// Bytes wanted.
        size: u64,
        /// Lowest address to be reached.
        low: u64,
        /// End of the addresses to be reached.
        high: u64,
    },
    /// Text is not what the file says.
    #[error("process {pid}: the code at {address:#x} is not the file's: somebody else has changed it; left alone")]
    ForeignBytes {
        /// Pid.
        pid: i32,
        /// Where.
        address: u64,
    },
    /// The agent's image can't be used.
    #[error("{path}: {problem}; reinstall Transect", path = .path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// What is mapped into it would be missing where its program asks for memory.
    #[error(
        "the address space of process {pid} is limited (ulimit -v), and the probes' memory would take more than half of \
         it: raise that, or run with CAP_SYS_RESOURCE"
    )]
    AddressSpace {
        /// Pid.
        pid: i32,
    },
    /// A file of `/proc` or of ours.
    #[error("cannot {what} of process {pid}: {source}")]
    System {
        /// Pid.
        pid: i32,
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A program can't be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl AttachError {
    /// The process has ended: nothing is wrong with it or with us.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Exited { .. } | Self::NoSuchProcess { .. } | Self::Zombie { .. })
    }

    /// The process has ended, or runs another program.
    pub fn is_gone(&self) -> bool {
        self.is_end() || matches!(self, Self::Replaced { .. })
    }

    /// Wraps an error of the system; those that mean "gone" become [`AttachError::Exited`].
    pub(crate) fn system(pid: i32, what: &'static str) -> impl FnOnce(io::Error) -> AttachError {
        move |source| match source.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => AttachError::Exited { pid },
            _ => AttachError::System { pid, what, source },
        }
    }
}
