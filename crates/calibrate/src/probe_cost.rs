//! What a call of a probed function costs more than a call of the same function without probe.

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use serde::Serialize;
use transect_event_abi::probe_arena as arena;
use transect_probe::descriptor::Registers;
use transect_probe::frame::{self, Places, transect_probe_globals};
use transect_probe::scope;
use transect_probe::trampoline::{self, Call, Request};
use transect_probe::{Descriptor, Handler};

use crate::code_memory::CodeMemory;
use crate::{CalibrateError, clock};

/// Ticks that a probe adds to a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeCost {
    /// What the probe does, see [`Tier::name`].
    pub tier: &'static str,
    /// At a no-op of five bytes, which a jump replaces while the probe is on.
    pub ticks: f64,
    /// At displaced instructions.
    pub entry_ticks: f64,
    /// At displaced instructions, by the longer way that lets the handler ask for the function's return.
    pub paired_ticks: f64,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Installed and switched off.
    Off,
    /// The way to a handler that does nothing, and back.
    Nothing,
    /// Counts.
    Counter,
    /// An empty handler of the user, integer registers saved.
    Integer,
    /// The same with vector registers.
    Vector,
    /// The same with everything that XSAVE knows.
    Full,
    /// An empty handler of the user that reads the clock, integer registers saved.
    TimeStamp,
    /// Entry and exit read the clock, and the duration is counted in a histogram.
    Time,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Tier; 8] =
        [Tier::Off, Tier::Nothing, Tier::Counter, Tier::Integer, Tier::TimeStamp, Tier::Vector, Tier::Full, Tier::Time];

    /// Its name in the results.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Off => "off",
            Tier::Nothing => "nothing",
            Tier::Counter => "counter",
            Tier::Integer => "integer",
            Tier::Vector => "vector",
            Tier::Full => "full",
            Tier::TimeStamp => "time-stamp",
            Tier::Time => "time",
        }
    }

    fn handlers(self) -> (Handler, Handler) {
        match self {
            Tier::Off | Tier::Nothing => (Handler::Nothing, Handler::TimeExit),
            Tier::Counter => (Handler::Count, Handler::TimeExit),
            Tier::Integer | Tier::TimeStamp => (Handler::IntegerEnter, Handler::IntegerExit),
            Tier::Vector => (Handler::VectorEnter, Handler::VectorExit),
            Tier::Full => (Handler::FullEnter, Handler::FullExit),
            Tier::Time => (Handler::TimeEnter, Handler::TimeExit),
        }
    }

    /// The handler that may be called straight from the word.
    fn direct(self) -> Option<Handler> {
        match self {
            Tier::Counter => Some(Handler::CountDirect),
            Tier::Integer | Tier::TimeStamp => Some(Handler::IntegerDirect),
            Tier::Vector => Some(Handler::VectorDirect),
            Tier::Full => Some(Handler::FullDirect),
            Tier::Off | Tier::Nothing | Tier::Time => None,
        }
    }
}

/// Where a probe stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At instructions that were displaced.
    Entry,
    /// At a no-op.
    Sled,
}

/// Address of an arena for one site, in this process' own memory. The handlers of this process know one arena.
pub(crate) fn shared_arena() -> Result<u64, CalibrateError> {
    static ARENA: OnceLock<Result<u64, rustix::io::Errno>> = OnceLock::new();
    let arena = ARENA.get_or_init(|| {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping touches nothing that exists.
        let mapped = unsafe {
            {
                let size = arena::CODE_OFFSET + scope::SCOPES_SIZE;
                mmap_anonymous(null_mut(), size as usize, ProtFlags::READ | ProtFlags::WRITE, flags)
            }
        };
        let base = mapped? as u64;
        let (keys, pool, pages) = frame::map().ok_or(rustix::io::Errno::NOMEM)?;
        transect_probe_globals.set(&Places {
            header: base,
            keys,
            pool,
            pages,
            stack_end: 0,
            layered: false,
            scopes: base + arena::CODE_OFFSET,
        });
        Ok(base)
    });
    arena.map_err(|errno| CalibrateError::CodeMemory { step: "mmap of counters", errno })
}

extern "C" fn empty_handler(_id: u32, _registers: &mut Registers, _vectors: u64, _cookie: u64) -> u64 {
    0
}

extern "C" fn stamp_handler(_id: u32, _registers: &mut Registers, _vectors: u64, _cookie: u64) -> u64 {
    clock::ticks()
}

/// A function with a site, and its trampoline.
#[derive(Debug)]
pub struct Probed {
    memory: CodeMemory,
    built: trampoline::Block,
}

/// `lea rax, [rdi+rsi]; nop`: the instructions that an entry displaces.
const DISPLACED: [u8; 5] = [0x48, 0x8D, 0x04, 0x37, 0x90];
const BLOCK: usize = 4096;
/// `imul r11, r11`.
const MULTIPLY: [u8; 4] = [0x4D, 0x0F, 0xAF, 0xDB];
const RETURN: u8 = 0xC3;

impl Probed {
    /// A function, not yet probed.
    ///
    /// # Errors
    /// [`CalibrateError`] if there is no executable memory.
    pub fn new(place: Place) -> Result<Self, CalibrateError> {
        Self::with_work(place, 0)
    }

    /// The same, of so many multiplications, each of which needs the one before, also the last one of the call before.
    ///
    /// # Errors
    /// As [`Probed::new`].
    pub(crate) fn with_work(place: Place, multiplications: usize) -> Result<Self, CalibrateError> {
        let base = shared_arena()?;
        let memory = CodeMemory::near(Handler::CountDirect.address(), 8192)?;
        let (block, function) = (memory.address(BLOCK), memory.address(0));
        let (original, code) = match place {
            Place::Entry => (DISPLACED, &DISPLACED[..]),
            Place::Sled => (transect_text_patch::form::NOP5, &[][..]),
        };
        let request = Request { block, code, fixups: &[], resume: Some(function + 5), call: Call::Paired };
        let built = trampoline::build(&request).map_err(|_| CalibrateError::Trampoline)?;
        memory.write(BLOCK, &built.bytes[..built.length]);
        memory.write(0, &original);
        let mut body = MULTIPLY.repeat(multiplications);
        body.push(RETURN);
        memory.write(5, &body);
        let probed = Self { memory, built };
        let descriptor = probed.descriptor();
        descriptor.record.store(base + arena::SITES_OFFSET, Ordering::Relaxed);
        descriptor.counters.store(base + arena::SHARDS_OFFSET, Ordering::Relaxed);
        descriptor.histogram.store(base + arena::HISTOGRAMS_OFFSET, Ordering::Relaxed);
        Ok(probed)
    }

    /// Writes the jump to the trampoline; nobody executes the function at this time.
    pub fn install(&self) {
        let target = self.memory.address(BLOCK + trampoline::WORD);
        self.memory.write(0, &trampoline::jump(self.function(), target).expect("the block is a page away"));
    }

    /// Puts the no-op of a sled back.
    fn uninstall(&self) {
        self.memory.write(0, &transect_text_patch::form::NOP5);
    }

    /// Address of the function.
    pub fn function(&self) -> u64 {
        self.memory.address(0)
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        // SAFETY: the block is mapped writable there for as long as `self` lives, 64-aligned, and begins with its
        // descriptor, of which all fields are atomic.
        unsafe { &*(self.memory.alias(BLOCK) as *const Descriptor) }
    }

    /// The word that switches it.
    pub fn word(&self) -> &AtomicU64 {
        // SAFETY: as above; 8-aligned.
        unsafe { &*(self.memory.alias(BLOCK + trampoline::WORD) as *const AtomicU64) }
    }

    /// Sets the handlers and gives the word's values for on (by the trampoline, straight if that can be) and off.
    pub fn handle(&self, tier: Tier) -> Words {
        let (enter, exit) = tier.handlers();
        let user = if tier == Tier::TimeStamp { stamp_handler as *const () } else { empty_handler as *const () };
        self.descriptor().user_enter.store(user as u64, Ordering::Relaxed);
        self.descriptor().enter.store(enter.address(), Ordering::Relaxed);
        self.descriptor().exit.store(exit.address(), Ordering::Relaxed);
        let paired = if tier == Tier::Off { self.built.off } else { self.built.on };
        let block = self.memory.address(BLOCK);
        let direct = tier.direct().and_then(|handler| self.built.on_direct(block, handler.address()));
        Words { paired, direct: direct.unwrap_or(paired), off: self.built.off }
    }
}

/// Values of the word that switches a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// On, by the way that allows a paired call.
    pub paired: u64,
    /// On, straight to the handler; as `paired` where that can't be.
    pub direct: u64,
    /// Off.
    pub off: u64,
}

/// Calls the function `calls` times, from one place, with nothing else in the loop.
#[inline(never)]
pub fn call_repeatedly(function: u64, calls: u64) {
    // SAFETY: the function is `Probed`'s: it takes rdi and rsi, changes rax and flags. The stack is aligned for its
    // handlers, which find their way whatever the alignment.
    unsafe {
        core::arch::asm!(
            ".p2align 5",
            "2: call r12",
            "dec r13",
            "jnz 2b",
            in("r12") function,
            inout("r13") calls => _,
            inout("rdi") 1u64 => _, inout("rsi") 2u64 => _,
            clobber_abi("C"),
        );
    }
}

/// Ticks per call: least of `rounds`.
fn ticks_per_call(function: u64, rounds: usize) -> f64 {
    const CALLS: u64 = 20_000;
    call_repeatedly(function, CALLS / 10);
    (0..rounds)
        .map(|_| {
            let start = clock::begin();
            call_repeatedly(function, CALLS);
            (clock::end() - start) as f64 / CALLS as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// Measures every tier at both places, interleaved with the function without probe.
///
/// # Errors
/// [`CalibrateError`] if there is no executable memory.
pub fn probe_costs(rounds: usize) -> Result<Vec<ProbeCost>, CalibrateError> {
    let (bare_entry, entry) = (Probed::new(Place::Entry)?, Probed::new(Place::Entry)?);
    let sled = Probed::new(Place::Sled)?;
    entry.install();
    let mut native = [f64::INFINITY; 2];
    let mut least = [[f64::INFINITY; 3]; Tier::ALL.len()];
    for _ in 0..rounds {
        // Without its no-op the sled's function is the instruction behind it.
        native[0] = native[0].min(ticks_per_call(bare_entry.function(), 3));
        native[1] = native[1].min(ticks_per_call(sled.function() + 5, 3));
        for (tier, least) in Tier::ALL.into_iter().zip(&mut least) {
            for (i, probed) in [&sled, &entry, &entry].into_iter().enumerate() {
                let words = probed.handle(tier);
                if i == 0 {
                    // A sled is switched in the text itself.
                    if tier == Tier::Off { probed.uninstall() } else { probed.install() }
                }
                transect_text_patch::toggle_word(probed.word(), if i == 2 { words.paired } else { words.direct });
                least[i] = least[i].min(ticks_per_call(probed.function(), 3));
            }
        }
    }
    let rows = Tier::ALL.into_iter().zip(least).map(|(tier, [sled, entry, paired])| ProbeCost {
        tier: tier.name(),
        ticks: sled - native[1],
        entry_ticks: entry - native[0],
        paired_ticks: paired - native[0],
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probed_functions_do_what_they_did() {
        for place in [Place::Entry, Place::Sled] {
            let probed = Probed::new(place).unwrap();
            probed.install();
            for tier in Tier::ALL {
                let words = probed.handle(tier);
                for word in [words.paired, words.direct, words.off] {
                    transect_text_patch::toggle_word(probed.word(), word);
                    if place == Place::Entry {
                        // SAFETY: `lea rax, [rdi+rsi]; ret`, probed.
                        let add: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(probed.function()) };
                        assert_eq!(add(20, 22), 42, "{tier:?}");
                    }
                    call_repeatedly(probed.function(), 10);
                }
            }
        }
    }
}
