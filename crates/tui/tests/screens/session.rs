//! A user at the screens: keys go in, and what is asked for is computed at once.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use transect_analyze::{CutReading, synthetic};
use transect_profile_model::Profile;
use transect_report::Sources;
use transect_tui::{App, Event, Facts, Request, Theme, answer, draw};

/// A name that would move the cursor, ring the bell and change colours.
const HOSTILE: &str = "evil\u{1b}[31m\u{7}name\u{202e}\r\n";

/// The compressor, of which one thread has a name that does harm.
pub fn compressor() -> Profile {
    let mut profile = synthetic::scheduled_compressor(3_000, 4);
    profile.sched.tasks[2].name = HOSTILE.to_owned();
    profile.sched.tasks[2].group = HOSTILE.to_owned();
    profile
}

pub struct Session {
    pub app: App,
    pub profile: Profile,
    /// What was asked for and is not answered, if answers are held back.
    pub pending: Option<Request>,
    pub held: bool,
}

impl Session {
    pub fn new(profile: Profile) -> Self {
        let app = App::new(Facts::new("p.transect", &profile));
        let mut session = Self { app, profile, pending: None, held: false };
        session.event(Event::Resize(80, 24));
        session
    }

    pub fn event(&mut self, event: Event) {
        let asked = self.app.update(event);
        self.pending = asked.or(self.pending.take());
        if !self.held {
            self.settle();
        }
    }

    /// Answers what is asked for.
    pub fn settle(&mut self) {
        while let Some(request) = self.pending.take() {
            let reply = answer(&self.profile, &request, &sources);
            self.pending = self.app.update(Event::Answer(request, Box::new(reply)));
        }
    }

    pub fn press(&mut self, code: KeyCode) {
        self.event(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    /// Characters; `\n` is Enter, `<` Backspace, `v` and `^` down and up, `>` and `{` right and left, `!` Escape.
    pub fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.chars() {
            self.press(match key {
                '\n' => KeyCode::Enter,
                '<' => KeyCode::Backspace,
                'v' => KeyCode::Down,
                '^' => KeyCode::Up,
                '>' => KeyCode::Right,
                '{' => KeyCode::Left,
                '!' => KeyCode::Esc,
                key => KeyCode::Char(key),
            });
        }
        self
    }

    /// Types a text as it is.
    pub fn text(&mut self, text: &str) -> &mut Self {
        text.chars().for_each(|c| self.press(KeyCode::Char(c)));
        self
    }

    pub fn buffer(&self, columns: u16, rows: u16, color: bool) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, &self.app, Theme { color })).unwrap();
        terminal.backend().buffer().clone()
    }

    /// The screen as lines of text.
    pub fn screen(&self, columns: u16, rows: u16) -> String {
        text_of(&self.buffer(columns, rows, false))
    }
}

pub fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let lines = buffer.content.chunks(width).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Sources with a line for each number.
fn sources(view: &CutReading) -> Sources {
    let mut sources = Sources::default();
    let CutReading::Annotate(view) = view else { return sources };
    let text: Vec<String> = (1..400).map(|line| format!("\tstatement({line});")).collect();
    for file in view.lines.iter().filter_map(|line| line.file.as_deref()) {
        sources.insert(file, &text.join("\n"), false);
    }
    sources
}
