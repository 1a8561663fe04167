//! `transect_init`.

use transect_text_patch::batch::Method;
use transect_text_patch::writable::Access;

use super::last_error::{code, keep};
use super::layout::*;
use crate::error::Error;
use crate::session::{self, Options};

/// `transect_init`.
///
/// # Safety
/// `options` is null or points to `options_size` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_init(version: u32, options_size: usize, options: *const TransectOptions) -> i32 {
    let differs = |what, found: u64, expected: u64| keep(&Error::Abi { what, found, expected });
    if version != ABI_VERSION {
        return differs("TRANSECT_ABI_VERSION", version.into(), ABI_VERSION.into());
    }
    if options_size != size_of::<TransectOptions>() {
        let size = size_of::<TransectOptions>() as u64;
        return differs("sizeof(struct transect_options)", options_size as u64, size);
    }
    // SAFETY: null, or of our size as was just checked.
    let Some(given) = (unsafe { options.as_ref() }) else { return code(session::init(&Options::default())) };
    for (what, found, expected) in [
        ("sizeof(struct transect_site)", given.site_size, size_of::<TransectSite>()),
        ("sizeof(struct transect_registers)", given.registers_size, size_of::<transect_probe::descriptor::Registers>()),
        (
            "sizeof(struct transect_full_context)",
            given.full_context_size,
            size_of::<transect_probe::descriptor::FullContext>(),
        ),
        ("sizeof(struct transect_handler_options)", given.handler_options_size, size_of::<TransectHandlerOptions>()),
        ("sizeof(struct transect_times)", given.times_size, size_of::<TransectTimes>()),
        ("sizeof(struct transect_refusal)", given.refusal_size, size_of::<TransectRefusal>()),
    ] {
        if found as usize != expected {
            return differs(what, found.into(), expected as u64);
        }
    }
    code(read(given).and_then(|options| session::init(&options)))
}

fn read(given: &TransectOptions) -> Result<Options, Error> {
    let wrong = |what: &str, value: u32| Error::Argument(format!("transect_options.{what} is {value}"));
    let default = Options::default();
    Ok(Options {
        access: match given.access {
            0 => Access::Auto,
            1 => Access::PageProtection,
            2 => Access::ProcMem,
            3 => Access::Alias,
            other => return Err(wrong("access", other)),
        },
        method: match given.method {
            0 => Method::Auto,
            1 => Method::Trap,
            2 => Method::Stop,
            other => return Err(wrong("method", other)),
        },
        signal: match given.signal {
            0 => default.signal,
            signal if signal <= 64 && !matches!(signal, 9 | 19 | 32 | 33) => signal as u8,
            other => return Err(wrong("signal", other)),
        },
        patience: match given.patience_ms {
            0 => default.patience,
            ms => u64::from(ms) * 1_000_000,
        },
        allow_blocked: given.allow_blocked != 0,
    })
}
