//! The terminal: entered, fed with events, and left as it was, whatever happens.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::app::{App, Event, Facts};
use crate::draw::{Theme, draw};
use crate::worker::{Opened, Worker};

/// How often signals and answers are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// An answer that comes within this time is shown with the key that asked for it, without flicker.
const AT_ONCE: Duration = Duration::from_millis(40);
/// How long the screens have to end after a signal.
const FAREWELL: Duration = Duration::from_millis(400);
/// Between two turns of the sign that something is computed.
const TICK: Duration = Duration::from_millis(100);

/// What ended the screens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The user; with the commands that were asked for.
    User(Vec<String>),
    /// A signal, by its number.
    Signal(i32),
}

/// Why the screens could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal refuses.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The thread that computes is gone.
    #[error("the thread that computes the views has ended")]
    Worker,
}

/// Shows a profile until the user quits.
///
/// # Errors
/// [`TuiError`] if the terminal or a thread fails; the terminal is as before then, too.
pub fn run(folder: &str, opened: Opened, theme: Theme) -> Result<End, TuiError> {
    let app = App::new(Facts::new(folder, &opened.profile));
    let worker = Worker::start(opened)?;
    let signal = watch_signals()?;
    // Panics restore the terminal, too, before their message is printed.
    let mut terminal = ratatui::try_init()?;
    let end = show(&mut terminal, app, &worker, theme, &signal);
    ratatui::try_restore()?;
    end
}

/// The number of the signal that came and ends this process, 0 before. A terminal that has gone, as when a connection breaks, holds
/// whoever reads keys from it, so a thread looks after the end.
fn watch_signals() -> Result<Arc<AtomicUsize>, TuiError> {
    let came = Arc::new(AtomicUsize::new(0));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    let seen = came.clone();
    thread::Builder::new().name("transect-signal".to_owned()).spawn(move || {
        for signal in signals.forever() {
            seen.store(signal as usize, Ordering::Relaxed);
            thread::sleep(FAREWELL);
            let _ = ratatui::try_restore();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(came)
}

fn show(
    terminal: &mut DefaultTerminal,
    mut app: App,
    worker: &Worker,
    theme: Theme,
    signal: &AtomicUsize,
) -> Result<End, TuiError> {
    let size = terminal.size()?;
    feed(&mut app, worker, Event::Resize(size.width, size.height))?;
    let mut ticked = Instant::now();
    loop {
        terminal.draw(|frame| draw(frame, &app, theme))?;
        if app.quit {
            return Ok(End::User(app.commands));
        }
        match signal.load(Ordering::Relaxed) {
            0 => {}
            number => return Ok(End::Signal(number as i32)),
        }
        if event::poll(LOOK)? {
            match event::read()? {
                event::Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if key.code == KeyCode::Char('z') && key.modifiers.contains(KeyModifiers::CONTROL) {
                        suspend(terminal)?;
                    } else {
                        feed(&mut app, worker, Event::Key(key))?;
                    }
                }
                event::Event::Resize(columns, rows) => feed(&mut app, worker, Event::Resize(columns, rows))?,
                _ => {}
            }
        }
        take(&mut app, worker)?;
        if app.busy.is_some() && ticked.elapsed() >= TICK {
            ticked = Instant::now();
            feed(&mut app, worker, Event::Tick)?;
        }
    }
}

/// Gives the state an event, asks for what it leads to, and waits a moment for the answer.
fn feed(app: &mut App, worker: &Worker, event: Event) -> Result<(), TuiError> {
    let Some(request) = app.update(event) else { return Ok(()) };
    worker.ask(request);
    let asked = Instant::now();
    while app.busy.is_some() && asked.elapsed() < AT_ONCE {
        thread::sleep(Duration::from_millis(2));
        take(app, worker)?;
    }
    Ok(())
}

fn take(app: &mut App, worker: &Worker) -> Result<(), TuiError> {
    while let Some((request, reply)) = worker.answer().map_err(|()| TuiError::Worker)? {
        if let Some(next) = app.update(Event::Answer(request, Box::new(reply))) {
            worker.ask(next);
        }
    }
    Ok(())
}

/// Back to the shell until it continues this process.
fn suspend(terminal: &mut DefaultTerminal) -> Result<(), TuiError> {
    ratatui::try_restore()?;
    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
    *terminal = ratatui::try_init()?;
    Ok(())
}
