//! The state of the screens, and what keys do to it: no terminal, no clock, no computing.

mod command;
mod cut;
mod finding;
mod overlay;
mod source;
mod tree;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use transect_analyze::{
    CutDimension, CutKey, CutMeasure, CutViewKind, FindingRow, LossRow, TimelineView, Totals, loss, measures, totals,
};
use transect_profile_model::{Meta, Profile};

pub use cut::Level;
pub use overlay::{Input, Overlay, PickKind, Prompt, PromptKind};
pub use source::SourceRow;
pub use tree::TreeTab;

use crate::request::{Reply, Request};
use crate::scope::Scope;
use source::SourceTab;

/// What is known of the profile before anything is computed.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Its folder, as it was given.
    pub folder: String,
    /// The recording.
    pub meta: Meta,
    /// Sums over all of it.
    pub totals: Totals,
    /// What was not seen.
    pub loss: Vec<LossRow>,
    /// What it can be cut by.
    pub measures: Vec<CutMeasure>,
    /// Whether features were recorded.
    pub has_features: bool,
    /// Whether there are several groups of threads.
    pub has_groups: bool,
}

impl Facts {
    /// Of a profile.
    pub fn new(folder: &str, profile: &Profile) -> Self {
        let groups = profile.sched.tasks.iter().map(|task| &task.group);
        let mut groups: Vec<&String> = groups.chain(profile.threads.iter().map(|thread| &thread.group)).collect();
        groups.sort_unstable();
        groups.dedup();
        Self {
            folder: folder.to_owned(),
            meta: profile.meta.clone(),
            totals: totals(profile),
            loss: loss(profile),
            measures: measures(profile),
            has_features: !profile.feature.features.is_empty(),
            has_groups: groups.len() > 1,
        }
    }
}

/// One of the screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// Findings.
    Findings,
    /// A sum by one dimension.
    Cut,
    /// The tree of calls.
    Tree,
    /// Threads over time.
    Timeline,
    /// Lines of a function.
    Source,
}

impl Tab {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Findings, Self::Cut, Self::Tree, Self::Timeline, Self::Source];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Findings => "Findings",
            Self::Cut => "Cut",
            Self::Tree => "Tree",
            Self::Timeline => "Timeline",
            Self::Source => "Source",
        }
    }
}

/// Rows with what they were computed from.
#[derive(Debug, Clone)]
pub struct Pane<T> {
    /// The last answer and its request, which may not be what is asked for by now.
    pub shown: Option<(Request, Result<T, String>)>,
}

impl<T> Default for Pane<T> {
    fn default() -> Self {
        Self { shown: None }
    }
}

impl<T> Pane<T> {
    /// Whether it answers this.
    pub fn answers(&self, request: &Request) -> bool {
        self.shown.as_ref().is_some_and(|(of, _)| of == request)
    }

    /// What was computed, unless that failed.
    pub fn get(&self) -> Option<&T> {
        self.shown.as_ref()?.1.as_ref().ok()
    }
}

/// What happens to the screens.
#[derive(Debug, Clone)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The terminal's columns and rows have changed.
    Resize(u16, u16),
    /// What was asked for is ready.
    Answer(Request, Box<Result<Reply, String>>),
    /// A tenth of a second has passed.
    Tick,
}

/// Everything that is shown.
#[derive(Debug, Clone)]
pub struct App {
    /// Of the profile.
    pub facts: Facts,
    /// The screen.
    pub tab: Tab,
    /// Findings.
    pub findings: Pane<Vec<FindingRow>>,
    /// The finding that is chosen.
    pub finding: usize,
    /// The cuts that led here; the last one is shown.
    pub levels: Vec<Level>,
    /// The tree of calls.
    pub tree: TreeTab,
    /// Threads over time.
    pub timeline: Pane<TimelineView>,
    /// The thread that is chosen.
    pub lane: usize,
    /// Lines of a function.
    pub source: SourceTab,
    /// What lies above the screen and takes the keys.
    pub overlay: Option<Overlay>,
    /// A line for the user, until the next key.
    pub message: Option<String>,
    /// What is being computed.
    pub busy: Option<Request>,
    /// Tenths of a second since it began.
    pub waited: usize,
    /// Commands that were shown, to be printed at the end.
    pub commands: Vec<String>,
    /// The user has had enough.
    pub quit: bool,
    page: usize,
}

impl App {
    /// The first screen of a profile.
    pub fn new(facts: Facts) -> Self {
        let measure = facts.measures.first().copied().unwrap_or_default();
        let by = if facts.has_groups { CutDimension::ThreadGroup } else { CutDimension::Component };
        Self {
            levels: vec![Level::new(Scope::all(measure), by)],
            facts,
            tab: Tab::Findings,
            findings: Pane::default(),
            finding: 0,
            tree: TreeTab::default(),
            timeline: Pane::default(),
            lane: 0,
            source: SourceTab::default(),
            overlay: None,
            message: None,
            busy: None,
            waited: 0,
            commands: Vec::new(),
            quit: false,
            page: 10,
        }
    }

    /// The cut that is shown; the first one has nothing above it and is never left.
    pub fn level(&self) -> &Level {
        &self.levels[self.levels.len() - 1]
    }

    fn level_mut(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// What the screen needs to be up to date.
    pub fn wanted(&self) -> Option<Request> {
        let scope = &self.level().scope;
        match self.tab {
            Tab::Findings => Some(Request::Findings),
            Tab::Cut => Some(self.level().request()),
            Tab::Tree => Some(Request::Tree(scope.query_of_view(CutViewKind::Tree))),
            Tab::Timeline => Some(Request::Timeline(scope.query_of_view(CutViewKind::Timeline))),
            Tab::Source => {
                let query = scope.query_of_view(CutViewKind::Annotate);
                self.source.function.clone().map(|function| Request::Source(query, function))
            }
        }
    }

    /// Whether what is shown is what was asked for.
    pub fn is_current(&self) -> bool {
        self.wanted().is_none_or(|wanted| match self.tab {
            Tab::Findings => self.findings.answers(&wanted),
            Tab::Cut => self.level().pane.answers(&wanted),
            Tab::Tree => self.tree.pane.answers(&wanted),
            Tab::Timeline => self.timeline.answers(&wanted),
            Tab::Source => self.source.pane.answers(&wanted),
        })
    }

    /// Takes an event; the request that it leads to is to be answered by an [`Event::Answer`]. There is one at a time.
    pub fn update(&mut self, event: Event) -> Option<Request> {
        match event {
            Event::Key(key) => self.key(key),
            Event::Resize(_, rows) => self.page = usize::from(rows).saturating_sub(10).max(1),
            Event::Answer(request, reply) => {
                self.busy = None;
                self.take(request, *reply);
            }
            Event::Tick => self.waited += 1,
        }
        if self.busy.is_none() && !self.is_current() {
            self.waited = 0;
            self.busy = self.wanted();
            return self.busy.clone();
        }
        None
    }

    fn take(&mut self, request: Request, reply: Result<Reply, String>) {
        match (&request, reply) {
            (Request::Findings, Ok(Reply::Findings(rows))) => self.findings.shown = Some((request, Ok(rows))),
            (Request::Findings, Err(error)) => self.findings.shown = Some((request, Err(error))),
            (Request::Cut(_), reply) => self.take_cut(request, reply),
            (Request::Tree(_), Ok(Reply::Tree(view))) => self.tree.take(request, Ok(view)),
            (Request::Tree(_), Err(error)) => self.tree.take(request, Err(error)),
            (Request::Timeline(_), Ok(Reply::Timeline(view))) => {
                self.lane = self.lane.min(view.threads.len().saturating_sub(1));
                self.timeline.shown = Some((request, Ok(view)));
            }
            (Request::Timeline(_), Err(error)) => self.timeline.shown = Some((request, Err(error))),
            (Request::Source(..), Ok(Reply::Source(view, sources))) => self.source.take(request, Ok((*view, sources))),
            (Request::Source(..), Err(error)) => self.source.take(request, Err(error)),
            // An answer of another kind than its request: there is none.
            _ => {}
        }
    }

    fn key(&mut self, key: KeyEvent) {
        self.message = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            self.quit = true;
            return;
        }
        if self.overlay.is_some() {
            return self.overlay_key(key);
        }
        if control {
            return;
        }
        match key.code {
            KeyCode::Char('q') => self.quit = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.overlay = Some(Overlay::Help(0)),
            KeyCode::Char(digit @ '1'..='5') => self.go(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => self.go_by(1),
            KeyCode::BackTab => self.go_by(Tab::ALL.len() - 1),
            KeyCode::Char('y') => self.show_command(),
            KeyCode::Char('m') => self.pick_measure(),
            KeyCode::Char('d') => self.pick_dimension(),
            KeyCode::Char('/') => self.overlay = Some(Overlay::Prompt(Prompt::new(PromptKind::Filter))),
            KeyCode::Char('r') => self.overlay = Some(Overlay::Prompt(Prompt::new(PromptKind::Range))),
            KeyCode::Backspace => self.up(),
            KeyCode::Up | KeyCode::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(|at, _| at.saturating_add(1)),
            KeyCode::PageUp => self.select(|at, page| at.saturating_sub(page)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.select(|at, page| at.saturating_add(page)),
            KeyCode::Home | KeyCode::Char('g') => self.select(|_, _| 0),
            KeyCode::End | KeyCode::Char('G') => self.select(|_, _| usize::MAX),
            code => match self.tab {
                Tab::Findings => self.finding_key(code),
                Tab::Cut => self.cut_key(code),
                Tab::Tree => self.tree_key(code),
                Tab::Timeline => self.timeline_key(code),
                Tab::Source => {}
            },
        }
    }

    fn go(&mut self, tab: Tab) {
        if tab == Tab::Source
            && let Some(function) = self.function_at_hand()
        {
            self.source.of(function);
        }
        self.tab = tab;
    }

    fn go_by(&mut self, steps: usize) {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        self.go(Tab::ALL[(at + steps) % Tab::ALL.len()]);
    }

    /// Moves the mark: `to` gets where it is and how many rows a page has.
    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let (rows, page) = (self.rows(), self.page);
        let at = match self.tab {
            Tab::Findings => &mut self.finding,
            Tab::Cut => &mut self.level_mut().selected,
            Tab::Tree => &mut self.tree.selected,
            Tab::Timeline => &mut self.lane,
            Tab::Source => &mut self.source.selected,
        };
        *at = to(*at, page).min(rows.saturating_sub(1));
    }

    fn rows(&self) -> usize {
        match self.tab {
            Tab::Findings => self.findings.get().map_or(0, Vec::len),
            Tab::Cut => self.level().pane.get().map_or(0, |view| view.rows.len()),
            Tab::Tree => self.tree.rows().len(),
            Tab::Timeline => self.timeline.get().map_or(0, |view| view.threads.len()),
            Tab::Source => self.source.rows().len(),
        }
    }

    /// The function that the user is looking at.
    fn function_at_hand(&self) -> Option<String> {
        let name = |key: &CutKey| match key {
            CutKey::Name(name) => Some(name.clone()),
            _ => None,
        };
        match self.tab {
            Tab::Tree => self.tree.function(),
            Tab::Cut if self.level().by == CutDimension::Function => self.level().key().and_then(name),
            _ => None,
        }
        .or_else(|| self.level().scope.key_of(CutDimension::Function).and_then(name))
    }

    fn timeline_key(&mut self, code: KeyCode) {
        if code != KeyCode::Enter || !self.is_current() {
            return;
        }
        let lane = self.timeline.get().and_then(|view| view.threads.get(self.lane));
        let Some(key) = lane.map(|lane| CutKey::Name(lane.thread.clone())) else { return };
        if self.enter(CutDimension::Thread, &key, &[]) {
            self.tab = Tab::Cut;
        }
    }
}
