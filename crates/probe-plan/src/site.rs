//! Sites of one object, as plain data.

/// Which provider found a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderKind {
    /// Entry of a function as the compiler left it: instructions are displaced.
    Entry,
    /// `-fpatchable-function-entry`.
    PatchableEntry,
    /// `-mfentry -mnop-mcount`, or `-mrecord-mcount`.
    Fentry,
    /// An LLVM XRay sled.
    Xray,
    /// `-finstrument-functions`: a call of `__cyg_profile_func_enter` or `_exit`.
    InstrumentFunctions,
    /// A SystemTap (USDT) note.
    Usdt,
    /// Begin or end of a feature region, as `transect-cc` marks them.
    Region,
}

/// What passing a site means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// The function begins. Its end can be observed too if [`Site::exit`] says so.
    Entry,
    /// The function is about to return.
    Exit,
    /// A point inside of a function.
    Point,
}

/// Whether the end of the call that passes an entry site can be observed, by a paired call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExitSupport {
    /// Yes.
    PairedCall,
    /// No: the function looks at its return address, returns twice, or never (`setjmp`, `vfork`, `_dl_runtime_resolve`).
    ReturnAddressUsed,
    /// No: the runtime walks or moves its stacks itself (Go, Java).
    ManagedStack,
    /// No: not an entry.
    NotEntry,
}

/// An instruction's operand that depends on where the instruction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixup {
    /// Offset of the four-byte displacement in [`Displaced::code`].
    pub at: u16,
    /// Offset of the byte after its instruction: what the displacement counts from.
    pub from: u16,
    /// What it means: virtual address in the object.
    pub target: u64,
}

/// Displaced instructions, rewritten so that they do the same elsewhere (within ±2 GiB of the object).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Displaced {
    /// Code; displacements of [`Fixup`]s are zero in it. It falls through at its end to [`Displaced::resume`], for
    /// which the placer appends a jump, unless `ends` says that it never does.
    pub code: Vec<u8>,
    /// Displacements to fill in.
    pub fixups: Vec<Fixup>,
    /// Virtual address after the window.
    pub resume: u64,
    /// Control never falls through (the window ends in `jmp` or `ret`).
    pub ends: bool,
    /// For each old instruction start in the window: (its offset in the window, its offset in `code`).
    pub starts: Vec<(u8, u16)>,
}

/// How a site is occupied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// A jump of five bytes over instructions, which are displaced. `original` is the whole window, 5 to 19 bytes.
    Displaced {
        /// Bytes of the file.
        original: Vec<u8>,
        /// The same elsewhere.
        displaced: Displaced,
    },
    /// A five-byte no-op (or an instruction sequence known to do nothing) made by the compiler.
    Sled {
        /// Bytes of the file that are replaced, at least five.
        original: Vec<u8>,
        /// The five bytes of the site switched off, with the jump's displacement free to stay resident in bytes 2..5
        /// where they begin with a short jump (`EB 03`, `EB 09`).
        off: [u8; 5],
    },
    /// `ret` and at least four bytes of padding (XRay's exit sled): the first byte alone switches.
    ReturnSled {
        /// Bytes of the file.
        original: Vec<u8>,
    },
    /// A call (or a jump, at a function's end) to a function that does nothing useful while the probe is off
    /// (`__cyg_profile_func_enter`, `__fentry__`).
    Call {
        /// Bytes of the file: five (`E8`, `E9`), or six (`FF 15`, `FF 25`: through the global offset table; `67 E8`:
        /// once so). A call written over six bytes is followed by a one-byte no-op, to which it returns.
        original: Vec<u8>,
        /// A jump to what was called; [`Displaced::ends`] is set.
        displaced: Displaced,
        /// True if it is a jump: the callee returns to the caller's caller.
        tail: bool,
    },
}

impl Window {
    /// The file's bytes that the site occupies.
    pub fn original(&self) -> &[u8] {
        match self {
            Self::Displaced { original, .. }
            | Self::Sled { original, .. }
            | Self::ReturnSled { original }
            | Self::Call { original, .. } => original,
        }
    }
}

/// What a USDT note says of its point.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsdtNote {
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Where the arguments are, as the assembler wrote it (`-4@%eax 8@16(%rsp)`).
    pub arguments: String,
    /// Virtual address of the two-byte counter that enables the point's preparation.
    pub semaphore: Option<u64>,
}

/// A place that can hold a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Index in [`Plan::functions`].
    pub function: u32,
    /// Virtual address of the window (after `endbr64`).
    pub vaddr: u64,
    /// Who found it.
    pub provider: ProviderKind,
    /// What it tells.
    pub event: Event,
    /// Whether an entry's exit can be observed.
    pub exit: ExitSupport,
    /// True if the stack's red zone is live here (any place but an entry or an exit).
    pub red_zone: bool,
    /// The bytes.
    pub window: Window,
    /// `provider:name` of a USDT note, else empty.
    pub name: String,
    /// The note, for a USDT point, and for an entry that begins with one.
    pub usdt: Option<Box<UsdtNote>>,
}

impl Site {
    /// Virtual addresses that it occupies.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.vaddr..self.vaddr + self.window.original().len() as u64
    }
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Function {
    /// Demangled name without version, or `sub_<hex vaddr>` for a function of a stripped object.
    pub name: String,
    /// As in the symbol table, empty if stripped.
    pub symbol: String,
    /// Other names of the same address, as in the symbol table.
    pub aliases: Vec<String>,
    /// Entry, virtual address.
    pub vaddr: u64,
    /// Bytes.
    pub size: u64,
}

/// Why no probe can stand at a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// Fewer than five bytes up to the end of the function or the next jump target, return included.
    TooShort,
    /// A jump leads into the window.
    JumpTargetInside,
    /// The function's first instruction is the head of a loop: entries can't be told from rounds.
    EntryIsLoopHead,
    /// A call inside of the window would return into it.
    CallInside,
    /// An instruction that can't be displaced (`loop` out of reach, `xbegin`, an unknown one).
    NotRelocatable,
    /// Bytes that don't decode.
    NotDecodable,
    /// An indirect jump whose targets are unknown may lead into the window.
    UnknownIndirectJump,
    /// A private calling convention that no handler may enter (`_dl_runtime_resolve`, `__restore_rt`).
    ForeignConvention,
    /// Data in the text, an empty function, or a section that isn't executable.
    NotCode,
    /// A site of another kind occupies these bytes.
    Overlap,
    /// Code of a stripped object that is only jumped to, from inside of a function: a part of that one that the compiler
    /// put elsewhere. Its registers, flags and red zone may be in use.
    PartOfFunction,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooShort => "too short for a jump",
            Self::JumpTargetInside => "a jump leads into its first bytes",
            Self::EntryIsLoopHead => "begins with a loop",
            Self::CallInside => "a call would return into its first bytes",
            Self::NotRelocatable => "an instruction that can't be displaced",
            Self::NotDecodable => "unknown instructions",
            Self::UnknownIndirectJump => "an indirect jump may lead into its first bytes",
            Self::ForeignConvention => "a calling convention of its own",
            Self::NotCode => "not code",
            Self::Overlap => "another site is in its place",
            Self::PartOfFunction => "part of another function",
        })
    }
}

/// A function, or a point of one, without site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Index in [`Plan::functions`].
    pub function: u32,
    /// Virtual address of the place.
    pub vaddr: u64,
    /// Who would have placed it.
    pub provider: ProviderKind,
    /// Why not.
    pub reason: Refusal,
    /// `provider:name` of a USDT note, else empty.
    pub name: String,
}

/// All sites of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Functions by address.
    pub functions: Vec<Function>,
    /// Sites by address.
    pub sites: Vec<Site>,
    /// Functions that can't hold a probe.
    pub refused: Vec<Refused>,
}
