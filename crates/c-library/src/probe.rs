//! Probes of this process, from Rust.
//!
//! A program probes its own functions while its threads run: [`Probes::start`], then find a [`Probe`], install it, and
//! switch it as often as you like.
//!
//! ```
//! use transect::probe::{Action, Options, Probes};
//!
//! #[inline(never)]
//! fn work(n: u64) -> u64 {
//!     (0..std::hint::black_box(n)).sum()
//! }
//!
//! # fn main() -> Result<(), transect::Error> {
//! let probes = Probes::start(&Options::default())?;
//! let probe = probes.at(work as *const ())?;
//! probe.set_action(Action::Time)?;
//! probes.install(&[probe])?; //     some µs: other threads are serialized
//! probe.activate()?; //             one store
//! for n in 0..1000 {
//!     work(n);
//! }
//! probe.deactivate()?; //           one store
//! work(1);
//! let times = probe.times()?;
//! assert_eq!((times.calls, times.timed), (1000, 1000));
//! println!("{}: {} ns in the mean, {} at most", probe.function()?, times.mean_ns, times.max_ns);
//! probes.restore(&[probe])?; //     every byte of the function as it was
//! # Ok(())
//! # }
//! ```
//!
//! | | cost | may be called |
//! |---|---|---|
//! | [`Probes::find`], [`Probes::at`], [`Probes::matching`] | reads the object's file: milliseconds | anywhere but in signal handlers |
//! | [`Probes::install`], [`Probes::restore`] | three calls of membarrier(2) for a whole batch | likewise |
//! | [`Probe::activate`], [`Probe::deactivate`] | a store; wait-free, no system call | anywhere, by any thread at any time |
//! | [`Probe::calls`] | sums sixteen counters | anywhere |
//! | a call of a function whose probe is off | 0 to 1.4 ticks of the time-stamp counter | |
//! | a call that is counted, timed | 5, 64 ticks | |
//!
//! **Duties and limits.** Functions that were inlined are not called, so they are not probed. In a Rust program this
//! library's functions stand beside the program's own: name what you want, and leave `*` alone. Nothing is printed, no
//! thread is created; what can't be done is an [`Error`] that says why, and has changed nothing. It is for the process it
//! runs in: other processes are probed by `transect probe` and `transect latency`.
//!
//! After "Living on the Edge: Rapid-Toggling Probes with Cross-Modification on x86" (PLDI '16); how code is changed while
//! threads execute it is in `transect-text-patch`.

use std::sync::{Arc, Mutex, PoisonError};

use crate::install::Outcome;
use crate::pattern::Pattern;
use crate::registry::Library;
use crate::status::Status;
use crate::{discovery, handler, install, loaded_object, lookup, own_probes, registry, session, times, toggle};

pub use crate::error::Error;
pub use crate::session::Options;
pub use crate::times::Times;

/// The library, started: finds, installs and takes out probes.
#[derive(Debug, Clone, Copy)]
pub struct Probes(());

/// A place in a function, mostly its entry, that can hold a probe. It is valid for the life of the process; if its
/// object is unloaded, what is asked of it is [`Error::Gone`] until the object is back at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe(u32);

/// What a probe does that is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// Counts calls ([`Probe::calls`]): exact, in all threads.
    #[default]
    Count,
    /// Nothing: for measuring what a probe costs.
    Nothing,
    /// Counts and times calls ([`Probe::times`]), from entry to return, each of them. Entries only.
    Time,
    /// Calls functions that were registered with [`crate::handler::register`].
    Handler(u32),
}

impl Probes {
    /// Starts the library, or changes the options of one that was started.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn start(options: &Options) -> Result<Self, Error> {
        session::init(options).map(|()| Self(()))
    }

    /// The entry of the one function of this name, demangled or not: `[component:]function`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Ambiguous`] with all that it may mean, [`Error::NotProbeable`] with the reason.
    pub fn find(&self, name: &str) -> Result<Probe, Error> {
        lookup::by_name(name).map(Probe)
    }

    /// The entry of the function at this address.
    ///
    /// # Errors
    /// [`Error::NotAnEntry`], which says what is there, [`Error::NotProbeable`] with the reason.
    pub fn at(&self, function: *const ()) -> Result<Probe, Error> {
        lookup::by_address(function as u64).map(Probe)
    }

    /// All sites of matching functions in the objects that are loaded now: `[component:]function[@source]`, each part a
    /// glob or a `/regular expression/`. USDT points within the functions are among them.
    ///
    /// # Errors
    /// [`Error::Argument`] for a pattern that is none, [`Error::Memory`].
    pub fn matching(&self, pattern: &str) -> Result<Vec<Probe>, Error> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let list = found.clone();
        let each = move |id| {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(Probe(id));
            discovery::SiteRequest::default()
        };
        discovery::discover(Pattern::parse(pattern)?, false, false, Box::new(each))?;
        let found = found.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(found.clone())
    }

    /// Writes the jumps of many probes in one batch, while other threads run; they are off. Those that are installed
    /// stay as they are.
    ///
    /// # Errors
    /// The first probe's that can't be installed, often [`Error::Patch`]; all others are installed.
    pub fn install(&self, probes: &[Probe]) -> Result<(), Error> {
        self.batch(probes, |library, ids| {
            // Unwinders must find true return addresses once calls are timed.
            own_probes::stand_by(library, &loaded_object::all());
            install::install(library, ids)
        })
    }

    /// Puts the original bytes of many probes back, in one batch.
    ///
    /// # Errors
    /// The first probe's that can't be taken out; all others are.
    pub fn restore(&self, probes: &[Probe]) -> Result<(), Error> {
        self.batch(probes, install::restore)
    }

    /// Takes out all probes of the process, those of the library's own included: all code is as it was.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn restore_all(&self) -> Result<(), Error> {
        let mut library = registry::lock_initialized()?;
        first_error(install::restore_everything(&mut library))
    }

    fn batch(self, probes: &[Probe], work: impl FnOnce(&mut Library, &[u32]) -> Vec<Outcome>) -> Result<(), Error> {
        let ids: Vec<u32> = probes.iter().map(|probe| probe.0).collect();
        let mut library = registry::lock_initialized()?;
        first_error(work(&mut library, &ids))
    }
}

fn first_error(outcomes: Vec<Outcome>) -> Result<(), Error> {
    outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
}

impl Probe {
    /// The number that handlers get, dense from 0; `transect_id` in C.
    pub fn id(self) -> u32 {
        self.0
    }

    /// Demangled name of its function.
    ///
    /// # Errors
    /// None in practice: a probe that was found has its metadata.
    pub fn function(self) -> Result<String, Error> {
        registry::site(self.0).map(|(_, info)| info.function.to_string_lossy().into_owned())
    }

    /// `provider:point` of a USDT point, else empty.
    ///
    /// # Errors
    /// As [`Self::function`].
    pub fn point(self) -> Result<String, Error> {
        registry::site(self.0).map(|(_, info)| info.name.to_string_lossy().into_owned())
    }

    /// Says what it does while it is on; at any time, installed or not. A call that has begun with one action ends with
    /// the one that is set when it ends.
    ///
    /// # Errors
    /// [`Error::Switch`] with [`Status::Unsupported`] if calls are to be timed and the site is no entry, or its return
    /// can't be observed; with [`Status::Argument`] for a handler that was not registered.
    pub fn set_action(self, action: Action) -> Result<(), Error> {
        let number = match action {
            Action::Count => handler::COUNT,
            Action::Nothing => handler::NOTHING,
            Action::Time => handler::TIME,
            Action::Handler(number) => number,
        };
        self.result(handler::set(self.0, number))
    }

    /// Switches it on; no effect if it is on. Other threads see it after some hundred ticks.
    ///
    /// # Errors
    /// [`Error::Switch`] with [`Status::NotInstalled`] or [`Status::Gone`].
    pub fn activate(self) -> Result<(), Error> {
        self.result(toggle::switch(self.0, true))
    }

    /// Switches it off; no effect if it is off. Calls under way still end in the handler.
    ///
    /// # Errors
    /// As [`Self::activate`].
    pub fn deactivate(self) -> Result<(), Error> {
        self.result(toggle::switch(self.0, false))
    }

    /// True if it is installed and on.
    pub fn is_active(self) -> bool {
        registry::slot(self.0).is_some_and(toggle::is_on)
    }

    /// Calls that met it on, with [`Action::Count`] or [`Action::Time`], since it was found or [`Self::reset`].
    pub fn calls(self) -> u64 {
        times::count(self.0).unwrap_or(0)
    }

    /// Calls, and durations of those timed, in nanoseconds; what an empty timed call shows is taken off. Percentiles come
    /// from a histogram with eight buckets per power of two: within 6 %.
    ///
    /// # Errors
    /// As [`Self::function`].
    pub fn times(self) -> Result<Times, Error> {
        times::of(self.0)
    }

    /// Begins counts and times anew.
    ///
    /// # Errors
    /// As [`Self::function`].
    pub fn reset(self) -> Result<(), Error> {
        times::reset(self.0)
    }

    fn result(self, status: Status) -> Result<(), Error> {
        match status {
            Status::Ok => Ok(()),
            status => Err(Error::Switch { probe: self.0, status }),
        }
    }
}
