//! Status codes of the C interface, one to one with `enum transect_status`.

/// What a function of the C interface returns: zero, or a negative number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[expect(missing_docs, reason = "documented in transect.h and by their texts below")]
pub enum Status {
    Ok = 0,
    Abi = -1,
    NotInitialized = -2,
    Argument = -3,
    NotFound = -4,
    Ambiguous = -5,
    NoSite = -6,
    NotInstalled = -7,
    Gone = -8,
    Unsupported = -9,
    Memory = -10,
    Object = -11,
    System = -12,
    ForeignBytes = -20,
    TooShort = -21,
    JumpTarget = -22,
    Reach = -23,
    ShadowStack = -24,
    Overlap = -25,
    Contended = -26,
    Thread = -27,
    NotExecutable = -28,
    Instruction = -29,
    NotWritable = -30,
    Serialization = -31,
    Traced = -32,
    NotProbeable = -33,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 27] = [
        Status::Ok,
        Status::Abi,
        Status::NotInitialized,
        Status::Argument,
        Status::NotFound,
        Status::Ambiguous,
        Status::NoSite,
        Status::NotInstalled,
        Status::Gone,
        Status::Unsupported,
        Status::Memory,
        Status::Object,
        Status::System,
        Status::ForeignBytes,
        Status::TooShort,
        Status::JumpTarget,
        Status::Reach,
        Status::ShadowStack,
        Status::Overlap,
        Status::Contended,
        Status::Thread,
        Status::NotExecutable,
        Status::Instruction,
        Status::NotWritable,
        Status::Serialization,
        Status::Traced,
        Status::NotProbeable,
    ];

    /// Its number.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// A sentence for a number, with the zero byte that C needs.
    pub fn text_of(code: i32) -> &'static core::ffi::CStr {
        Self::ALL.iter().find(|status| status.code() == code).map_or(c"unknown status", |status| status.text())
    }

    /// A sentence for it.
    pub const fn text(self) -> &'static core::ffi::CStr {
        match self {
            Status::Ok => c"success",
            Status::Abi => c"the program was compiled against another version of transect.h",
            Status::NotInitialized => c"transect_init() has not succeeded yet",
            Status::Argument => c"an argument is out of its range",
            Status::NotFound => c"no function or site has this name or address",
            Status::Ambiguous => c"several functions have this name",
            Status::NoSite => c"no such probe id",
            Status::NotInstalled => c"the site is not installed",
            Status::Gone => c"the site's object was unloaded",
            Status::Unsupported => c"the site can't do this",
            Status::Memory => c"memory or probe ids are exhausted",
            Status::Object => c"the object's file can't be read",
            Status::System => c"a system call failed",
            Status::ForeignBytes => c"other bytes than expected stand at the site",
            Status::TooShort => c"no room for a jump",
            Status::JumpTarget => c"a jump leads into the window",
            Status::Reach => c"no trampoline in reach",
            Status::ShadowStack => c"the process uses a shadow stack",
            Status::Overlap => c"windows share bytes",
            Status::Contended => c"another thread is patching there",
            Status::Thread => c"a thread blocks the signal that the protocol needs, or doesn't answer it",
            Status::NotExecutable => c"not executable memory",
            Status::Instruction => c"the instructions can't be displaced, emulated or switched by one store",
            Status::NotWritable => c"the kernel forbids to write to code",
            Status::Serialization => c"other threads can't be serialized",
            Status::Traced => c"a debugger takes the breakpoints that the protocol needs",
            Status::NotProbeable => c"the function is not one to probe",
        }
    }
}
