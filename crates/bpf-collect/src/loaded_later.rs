//! A program that is loaded beside what goes on: nobody runs it in the first milliseconds.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::{self, JoinHandle};

use crate::error::CollectError;
use crate::traced_program::PreparedProgram;

/// An iterator's link, or the thread that will have it. Dropped, it waits for that: what the program refers to must live as
/// long.
#[derive(Debug)]
pub(crate) struct LoadedLater {
    loading: Option<JoinHandle<Result<OwnedFd, CollectError>>>,
    link: Option<OwnedFd>,
}

impl LoadedLater {
    /// One that is there.
    pub fn loaded(link: OwnedFd) -> Self {
        Self { loading: None, link: Some(link) }
    }

    /// Has the kernel verify `program`, and attaches it, in a thread of its own.
    ///
    /// # Errors
    /// If there can be no such thread and the kernel refuses it.
    pub fn load(program: PreparedProgram) -> Result<Self, CollectError> {
        let program = std::sync::Arc::new(program);
        let load = |program: &PreparedProgram| program.load()?.attach();
        let of_thread = std::sync::Arc::clone(&program);
        match thread::Builder::new().name("transect-load".to_owned()).spawn(move || load(&of_thread)) {
            Ok(loading) => Ok(Self { loading: Some(loading), link: None }),
            Err(_) => load(&program).map(Self::loaded),
        }
    }

    /// Waits until it is there.
    ///
    /// # Errors
    /// If the kernel has refused it.
    pub fn wait(&mut self) -> Result<BorrowedFd<'_>, CollectError> {
        if let Some(loading) = self.loading.take() {
            let ended = |_| CollectError::Nothing("the thread that loads the collector".to_owned());
            self.link = Some(loading.join().map_err(ended)??);
        }
        match &self.link {
            Some(link) => Ok(link.as_fd()),
            None => Err(CollectError::Read(io::Error::from(io::ErrorKind::NotFound).into())),
        }
    }
}

impl Drop for LoadedLater {
    fn drop(&mut self) {
        if let Some(loading) = self.loading.take() {
            let _ = loading.join();
        }
    }
}
