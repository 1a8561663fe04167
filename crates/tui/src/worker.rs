//! The thread that computes: the screen goes on meanwhile.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use transect_analyze::CutReading;
use transect_profile_model::Profile;
use transect_report::Sources;

use crate::request::{Reply, Request, answer};

/// Reads the profile again, with its timeline.
pub type ReadTimeline = Box<dyn Fn() -> Result<Profile, String> + Send>;

/// A profile, and how to get at what few screens need.
pub struct Opened {
    /// Without its timeline, which is the longest table.
    pub profile: Profile,
    /// Used when something is asked that depends on when things happened.
    pub read_timeline: ReadTimeline,
    /// Reads the source files that a view shows lines of.
    pub sources: Box<dyn Fn(&CutReading) -> Sources + Send>,
}

/// An answer with its request.
pub type Answer = (Request, Result<Reply, String>);

/// A thread that answers requests, one after the other.
pub struct Worker {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
}

impl Worker {
    /// Starts it; it ends with this value.
    pub fn start(opened: Opened) -> std::io::Result<Self> {
        let (requests, todo) = channel::<Request>();
        let (done, answers) = channel();
        let Opened { mut profile, read_timeline, sources } = opened;
        let mut has_timeline = false;
        thread::Builder::new().name("transect-cut".to_owned()).spawn(move || {
            for request in todo {
                let read = match request.needs_timeline() && !has_timeline {
                    true => read_timeline().map(|whole| (profile, has_timeline) = (whole, true)),
                    false => Ok(()),
                };
                let reply = read.and_then(|()| answer(&profile, &request, &*sources));
                if done.send((request, reply)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, answers })
    }

    /// Asks for something.
    pub fn ask(&self, request: Request) {
        // A thread that has ended answers nothing, which the next look tells.
        let _ = self.requests.send(request);
    }

    /// An answer that is ready; `Err` if the thread has ended.
    pub fn answer(&self) -> Result<Option<Answer>, ()> {
        match self.answers.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(()),
        }
    }
}
