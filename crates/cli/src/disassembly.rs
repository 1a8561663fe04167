//! Instructions of a function, from the files that held them when it was recorded.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use transect_analyze::{AddressTimes, AnnotateView, Disassembly, FunctionAddress, FunctionAddresses, InstructionTimes};
use transect_binary_info::{BinaryError, Disassembler, Object, Syntax, readable_name, unnamed_function};
use transect_probe_plan::{Lines, SourceFrame};
use transect_profile_model::{Component, ComponentId, Profile};

/// Why a function's instructions cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum DisassemblyError {
    /// It is not in a file.
    #[error(
        "the code of `{function}` is in {path}, which is no file that can be disassembled: leave out --disassemble for its lines",
        path = .path.display()
    )]
    NoFile {
        /// The function.
        function: String,
        /// What holds it.
        path: PathBuf,
    },
    /// No address of it is known.
    #[error(
        "no instruction of `{function}` is known: it has left by a jump to what it called, or is code without a file. Leave out \
         --disassemble for its lines"
    )]
    NoAddress {
        /// The function.
        function: String,
    },
    /// The file has other code than was recorded.
    #[error(
        "{path} has changed since the recording ({why}): its instructions are others. Put back the recorded file, or record again; \
         without --disassemble the lines are shown",
        path = .path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What tells so.
        why: String,
    },
    /// It cannot be read.
    #[error("{source}; the instructions are read from it: put back the recorded file, or leave out --disassemble")]
    Unreadable {
        /// Why.
        source: BinaryError,
    },
    /// Not for this machine.
    #[error("there is no disassembler for it: {source}; leave out --disassemble for its lines")]
    OtherMachine {
        /// Which.
        source: BinaryError,
    },
    /// Its modification time is not known.
    #[error("cannot look at {path}: {source}", path = .path.display())]
    Look {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Puts the function's instructions into the view of its lines.
pub fn add(
    view: &mut AnnotateView,
    profile: &Profile,
    found: &FunctionAddresses,
    syntax: Syntax,
) -> Result<(), DisassemblyError> {
    let mut of_component: BTreeMap<ComponentId, Vec<(FunctionAddress, AddressTimes)>> = BTreeMap::new();
    for (at, times) in &found.addresses {
        of_component.entry(at.component).or_default().push((*at, *times));
    }
    if of_component.is_empty() {
        return Err(DisassemblyError::NoAddress { function: view.function.clone() });
    }
    let mut disassembly = Disassembly { elsewhere_ns: found.elsewhere.total(), ..Disassembly::default() };
    // The recorder leaves out lines of the C library in short runs: then instructions are under none, either.
    let has_lines = view.lines.iter().any(|line| line.file.is_some());
    for (id, addresses) in of_component {
        let Some(component) = file_of(profile, id) else { continue };
        let object = open(component, &view.function, profile.meta.started_unix_ns)?;
        let lines = if has_lines { Lines::of(&object) } else { None };
        let code = FunctionCode { object: &object, component, function: &view.function, lines };
        code.add(syntax, &addresses, &mut disassembly);
    }
    mark_hottest(&mut disassembly.instructions);
    view.disassembly = Some(disassembly);
    Ok(())
}

/// The component of an ELF file that holds this one.
fn file_of(profile: &Profile, id: ComponentId) -> Option<&Component> {
    let component = profile.components.get(id as usize)?;
    match component.static_in {
        Some(holder) => profile.components.get(holder as usize),
        None => Some(component),
    }
}

/// Opens the file, if it still is what was recorded: by its build-id, else by when it was changed.
fn open(component: &Component, function: &str, recorded_unix_ns: i64) -> Result<Object, DisassemblyError> {
    let path = Path::new(&component.path);
    if !path.is_absolute() {
        return Err(DisassemblyError::NoFile { function: function.to_owned(), path: path.to_owned() });
    }
    let object = Object::open(path).map_err(|source| match source {
        BinaryError::WrongMachine { .. } => DisassemblyError::OtherMachine { source },
        source => DisassemblyError::Unreadable { source },
    })?;
    let build_id = object.build_id().unwrap_or_default();
    if build_id != component.build_id {
        let named = |id: &str| if id.is_empty() { "none".to_owned() } else { id.to_owned() };
        let why = format!("build-id {} instead of {}", named(&build_id), named(&component.build_id));
        return Err(DisassemblyError::Changed { path: path.to_owned(), why });
    }
    if build_id.is_empty() {
        let look = |source| DisassemblyError::Look { path: path.to_owned(), source };
        let modified = std::fs::metadata(path).and_then(|file| file.modified()).map_err(look)?;
        let modified = modified.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        if modified > recorded_unix_ns.max(0).unsigned_abs().into() {
            let why = "it was written later, and has no build-id".to_owned();
            return Err(DisassemblyError::Changed { path: path.to_owned(), why });
        }
    }
    Ok(object)
}

/// A function's code that was met.
#[derive(Default)]
struct Code {
    end: u64,
    /// The function is no more than inlined there.
    inlined: bool,
    times: Vec<(u64, AddressTimes)>,
}

/// A function in one file.
struct FunctionCode<'a> {
    object: &'a Object,
    component: &'a Component,
    function: &'a str,
    lines: Option<Lines>,
}

impl FunctionCode<'_> {
    /// Adds its instructions.
    fn add(&self, syntax: Syntax, addresses: &[(FunctionAddress, AddressTimes)], found: &mut Disassembly) {
        let Self { object, component, function, lines } = self;
        let mut disassembler = Disassembler::new(object, syntax);
        let mut codes: BTreeMap<u64, Code> = BTreeMap::new();
        for (at, times) in addresses {
            let Some(Range { start, end }) = disassembler.function_at(at.address) else {
                found.elsewhere_ns += times.states.total();
                continue;
            };
            let code = codes.entry(start).or_insert_with(|| Code { end, inlined: true, ..Code::default() });
            code.inlined &= at.inlined;
            code.times.push((at.address, *times));
        }
        let name = component.path.rsplit('/').next().unwrap_or(&component.path);
        for (start, code) in codes {
            let symbol =
                object.symbol_at(start).map_or_else(|| unnamed_function(start), |symbol| readable_name(symbol.name));
            let mut times = code.times.into_iter().peekable();
            for instruction in disassembler.instructions(start..code.end) {
                let next = instruction.address.saturating_add(instruction.length.max(1));
                let mut sum = AddressTimes::default();
                while let Some((_, more)) = times.next_if(|(address, _)| *address < next) {
                    sum.samples += more.samples;
                    sum.self_ns += more.self_ns;
                    sum.states.on_cpu_ns += more.states.on_cpu_ns;
                    sum.states.runnable_ns += more.states.runnable_ns;
                    sum.states.blocked_ns += more.states.blocked_ns;
                }
                let frames = lines.as_ref().map(|lines| lines.frames(instruction.address)).unwrap_or_default();
                let line = line_of(&frames, function, code.inlined);
                // What lies between the places at which the function is inlined is another's.
                if line.is_none() && code.inlined && sum == AddressTimes::default() {
                    continue;
                }
                found.instructions.push(InstructionTimes {
                    component: name.to_owned(),
                    symbol: symbol.clone(),
                    address: instruction.address,
                    mnemonic: instruction.mnemonic,
                    operands: instruction.operands,
                    target: instruction.target,
                    file: line.map(|line| line.file.clone()).filter(|file| !file.is_empty()),
                    line: line.map(|line| line.line as i32).filter(|line| *line > 0),
                    samples: sum.samples,
                    self_ns: sum.self_ns,
                    total_ns: sum.states.total(),
                    states: sum.states,
                    hottest: false,
                });
            }
            found.elsewhere_ns += times.map(|(_, more)| more.states.total()).sum::<i64>();
        }
    }
}

/// The line of `function` that an instruction is of, given the functions that it belongs to, innermost first: the last has the
/// instruction, the others are inlined.
fn line_of<'a>(frames: &'a [SourceFrame], function: &str, inlined: bool) -> Option<&'a SourceFrame> {
    let (holder, inner) = frames.split_last()?;
    let is_it = |frame: &&SourceFrame| frame.function.as_deref().is_some_and(|raw| readable_name(raw) == function);
    inner.iter().find(is_it).or_else(|| (!inlined).then_some(holder))
}

fn mark_hottest(instructions: &mut [InstructionTimes]) {
    let hottest = instructions.iter_mut().max_by_key(|instruction| (instruction.self_ns, instruction.total_ns));
    if let Some(hottest) = hottest.filter(|hottest| hottest.total_ns > 0) {
        hottest.hottest = true;
    }
}
