//! Why something was not done. The C interface turns an [`Error`] into its [`Status`] and keeps the words for
//! `transect_last_error`.

use std::path::PathBuf;

use transect_probe_plan::Refusal as PlanRefusal;
use transect_text_patch::Refusal as PatchRefusal;

use crate::status::Status;

/// An error of the library's slow paths. Toggling and what else is async-signal-safe returns a [`Status`] alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Header and library differ.
    #[error("{what} is {found} in the program and {expected} in the library: compile against the installed transect.h")]
    Abi {
        /// Version, or a structure's size.
        what: &'static str,
        /// The program's value.
        found: u64,
        /// Ours.
        expected: u64,
    },
    /// `init` is missing.
    #[error("call transect_init() first")]
    NotInitialized,
    /// A wrong argument.
    #[error("{0}")]
    Argument(String),
    /// Nothing of this name.
    #[error("no function matches {name:?} in the {objects} objects of this process{hint}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Objects searched.
        objects: usize,
        /// What else there is, or empty.
        hint: String,
    },
    /// No function begins there.
    #[error("{address:#x} is not the entry of a function{detail}")]
    NotAnEntry {
        /// The address.
        address: u64,
        /// Where it is instead.
        detail: String,
    },
    /// Several of this name.
    #[error("{name:?} is ambiguous: {}; name the component too", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// What it may mean.
        candidates: Vec<String>,
    },
    /// No such id.
    #[error("no probe has id {0}")]
    NoSite(u32),
    /// The object is gone.
    #[error("the object of probe {0} was unloaded")]
    Gone(u32),
    /// A probe was not switched, or not given an action.
    #[error("probe {probe}: {}", status.text().to_string_lossy())]
    Switch {
        /// Its id.
        probe: u32,
        /// Why.
        status: Status,
    },
    /// The site can't do it.
    #[error("{function}: {what}")]
    Unsupported {
        /// The site's function.
        function: String,
        /// What it can't do.
        what: &'static str,
    },
    /// No memory, no ids.
    #[error("no room for {what}: {detail}")]
    Memory {
        /// For what.
        what: &'static str,
        /// How much, and why.
        detail: String,
    },
    /// An unreadable object.
    #[error("{}: {reason}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
    /// A patch was refused.
    #[error("{function}: {refusal}")]
    Patch {
        /// The site's function, or "patch".
        function: String,
        /// Why.
        #[source]
        refusal: PatchRefusal,
    },
    /// The function can't hold a probe.
    #[error("{function} in {component}: {}", plan_words(*reason))]
    NotProbeable {
        /// The function.
        function: String,
        /// Its component.
        component: String,
        /// Why.
        reason: PlanRefusal,
    },
    /// A function on which the library has a probe of its own.
    #[error("{0} carries a probe of the library's own (unwinding, loader events)")]
    Reserved(String),
}

impl Error {
    /// The number for C.
    pub fn status(&self) -> Status {
        match self {
            Error::Abi { .. } => Status::Abi,
            Error::NotInitialized => Status::NotInitialized,
            Error::Argument(_) => Status::Argument,
            Error::NotFound { .. } | Error::NotAnEntry { .. } => Status::NotFound,
            Error::Ambiguous { .. } => Status::Ambiguous,
            Error::NoSite(_) => Status::NoSite,
            Error::Gone(_) => Status::Gone,
            Error::Switch { status, .. } => *status,
            Error::Unsupported { .. } => Status::Unsupported,
            Error::Memory { .. } => Status::Memory,
            Error::Object { .. } => Status::Object,
            Error::Patch { refusal, .. } => patch_status(refusal),
            Error::NotProbeable { reason, .. } => plan_status(*reason),
            Error::Reserved(_) => Status::NotProbeable,
        }
    }
}

/// Status of a refused patch.
pub fn patch_status(refusal: &PatchRefusal) -> Status {
    match refusal {
        PatchRefusal::ForeignBytes { .. } => Status::ForeignBytes,
        PatchRefusal::TooShort { .. } => Status::TooShort,
        PatchRefusal::JumpTargetInside { .. } => Status::JumpTarget,
        PatchRefusal::OutOfReach { .. } => Status::Reach,
        PatchRefusal::ShadowStack { .. } => Status::ShadowStack,
        PatchRefusal::Overlap { .. } => Status::Overlap,
        PatchRefusal::Contended { .. } => Status::Contended,
        PatchRefusal::SignalBlocked { .. } | PatchRefusal::NoAnswer { .. } => Status::Thread,
        PatchRefusal::NotExecutable { .. } | PatchRefusal::Unmapped { .. } => Status::NotExecutable,
        PatchRefusal::Straddles { .. } | PatchRefusal::UnknownForm { .. } | PatchRefusal::NotEmulatable { .. } => {
            Status::Instruction
        }
        PatchRefusal::NotWritable { .. } => Status::NotWritable,
        PatchRefusal::NoSerialization { .. } => Status::Serialization,
        PatchRefusal::Traced { .. } => Status::Traced,
        PatchRefusal::Malformed { .. } => Status::Argument,
        _ => Status::System,
    }
}

/// Status of a function without site.
pub fn plan_status(reason: PlanRefusal) -> Status {
    match reason {
        PlanRefusal::TooShort => Status::TooShort,
        PlanRefusal::JumpTargetInside | PlanRefusal::EntryIsLoopHead | PlanRefusal::UnknownIndirectJump => {
            Status::JumpTarget
        }
        PlanRefusal::CallInside | PlanRefusal::NotRelocatable | PlanRefusal::NotDecodable => Status::Instruction,
        _ => Status::NotProbeable,
    }
}

/// Words for a function without site.
pub fn plan_words(reason: PlanRefusal) -> &'static str {
    match reason {
        PlanRefusal::TooShort => "no room for a jump of five bytes (recompile with -fpatchable-function-entry=5)",
        PlanRefusal::JumpTargetInside => "a jump leads back into its first five bytes",
        PlanRefusal::EntryIsLoopHead => "its first instruction is the head of a loop",
        PlanRefusal::CallInside => "a call within its first five bytes would return into them",
        PlanRefusal::NotRelocatable => "its first instructions can't be displaced",
        PlanRefusal::NotDecodable => "its first bytes don't decode",
        PlanRefusal::UnknownIndirectJump => "an indirect jump with unknown targets may lead into its first five bytes",
        PlanRefusal::ForeignConvention => "it has a private calling convention that no handler may enter",
        _ => "it is not code",
    }
}
