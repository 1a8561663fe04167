//! What the parser of the arguments has to say: help that was asked for, or what is wrong with them.

use std::io::{self, Write};

use transect_analyze::is_hazard;

use crate::failure::Failure;
use crate::output::Stream;

/// Exit status for arguments that are wrong.
const WRONG_USAGE: u8 = 2;

/// Shows it. Gives the exit status.
///
/// # Errors
/// If help can't be written: it is what was asked for.
pub fn show(said: &clap::Error) -> Result<u8, Failure> {
    if !said.use_stderr() {
        let failure = |source| Failure::Write { place: "standard output".to_owned(), source };
        Stream::Stdout.write(|_| said.print().and_then(|()| io::stdout().flush()).map_err(failure))?;
        return Ok(0);
    }
    // It repeats arguments, which must not control the terminal: without its colours nothing of that kind is left.
    let plain = std::env::args_os().any(|argument| argument.to_string_lossy().chars().any(is_hazard));
    let _ = if plain { write!(io::stderr(), "{}", said.render()) } else { said.print() };
    Ok(WRONG_USAGE)
}
