//! The cuts: down by a key, up again.

use crossterm::event::KeyCode;
use transect_analyze::{CutDimension, CutKey, CutMeasure, CutRow, CutView};
use transect_report::terminal::parts;

use super::{App, Pane, Tab};
use crate::request::{Reply, Request};
use crate::scope::Scope;

/// A sum by one dimension.
#[derive(Debug, Clone)]
pub struct Level {
    /// Of what.
    pub scope: Scope,
    /// By what.
    pub by: CutDimension,
    /// What to look at instead if that tells nothing.
    pub others: Vec<(Scope, CutDimension)>,
    /// A finding led here, which may name what no cut does.
    pub of_finding: bool,
    /// Its rows, in the order in which they are shown.
    pub pane: Pane<CutView>,
    /// The row that is chosen.
    pub selected: usize,
}

impl Level {
    /// Not computed yet.
    pub fn new(scope: Scope, by: CutDimension) -> Self {
        Self { scope, by, others: Vec::new(), of_finding: false, pane: Pane::default(), selected: 0 }
    }

    /// What its rows are computed from.
    pub fn request(&self) -> Request {
        let others = self.others.iter().map(|(scope, by)| scope.query(*by));
        Request::Cut([self.scope.query(self.by)].into_iter().chain(others).collect())
    }

    fn row(&self) -> Option<&CutRow> {
        self.pane.get()?.rows.get(self.selected)
    }

    /// The key that is chosen.
    pub fn key(&self) -> Option<&CutKey> {
        self.row()?.keys.first()
    }
}

impl App {
    pub(super) fn take_cut(&mut self, request: Request, reply: Result<Reply, String>) {
        // Whichever asks for it: the user may have gone up or down meanwhile.
        let Some(at) = self.levels.iter().rposition(|level| level.request() == request) else { return };
        let level = &mut self.levels[at];
        let view = match reply {
            Ok(Reply::Cut(number, mut view)) => {
                view.rows = parts::in_order(&view).into_iter().cloned().collect();
                if let Some((scope, by)) = number.checked_sub(1).and_then(|other| level.others.get(other)).cloned() {
                    (level.scope, level.by) = (scope, by);
                }
                Ok(view)
            }
            Ok(_) => return,
            Err(error) => Err(error),
        };
        level.others.clear();
        if level.of_finding && at > 0 && view.as_ref().map_or(true, |view| view.rows.is_empty()) {
            self.levels.truncate(at);
            self.tab = Tab::Findings;
            self.message = Some("no sample and no wait is named as in this finding; see the command in it".to_owned());
            return;
        }
        level.selected = level.selected.min(view.as_ref().map_or(0, |view| view.rows.len().saturating_sub(1)));
        level.pane.shown = Some((level.request(), view));
    }

    pub(super) fn cut_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => self.down(),
            KeyCode::Left | KeyCode::Char('h') => self.up(),
            KeyCode::Char('x') => self.exclude(),
            KeyCode::Char('s') => self.show_source(),
            _ => {}
        }
    }

    /// The row that a key acts on: none while another cut is computed than the one that is shown.
    fn chosen(&self) -> Option<(CutDimension, CutKey)> {
        let level = self.level();
        level.pane.answers(&level.request()).then(|| Some((level.by, level.key()?.clone())))?
    }

    fn down(&mut self) {
        let Some((by, key)) = self.chosen() else { return };
        if by == CutDimension::Line {
            return self.show_source();
        }
        let rows = self.level().pane.get().map(|view| view.rows.clone()).unwrap_or_default();
        let others: Vec<&CutKey> = rows.iter().filter_map(|row| row.keys.first()).collect();
        self.enter(by, &key, &others);
    }

    /// Goes to the part with this key; false, with a message, if there is no way.
    pub(super) fn enter(&mut self, by: CutDimension, key: &CutKey, others: &[&CutKey]) -> bool {
        let Some(scope) = self.level().scope.with_key(by, key, others) else {
            self.message = Some(format!("no filter can name a {by}"));
            return false;
        };
        let mut ways = scope.next(by).into_iter().map(|by| (scope.clone(), by));
        let Some((scope, by)) = ways.next() else {
            self.message = Some("nothing further to divide it by; d chooses a dimension".to_owned());
            return false;
        };
        self.levels.push(Level { others: ways.collect(), ..Level::new(scope, by) });
        true
    }

    fn exclude(&mut self) {
        let Some((by, key)) = self.chosen() else { return };
        match self.level().scope.without_key(by, &key) {
            Some(scope) => {
                let selected = self.level().selected;
                self.levels.push(Level { selected, ..Level::new(scope, by) });
            }
            None => self.message = Some(format!("no filter can exclude a step of {by}; r enters a range")),
        }
    }

    fn show_source(&mut self) {
        match self.function_at_hand() {
            Some(_) => self.go(Tab::Source),
            None => self.message = Some("lines of which function? choose one first: d, function".to_owned()),
        }
    }

    /// Back to the cut above.
    pub(super) fn up(&mut self) {
        match self.levels.len() {
            1 => self.message = Some("this is the top; Tab or 1 to 5 for other screens, q to quit".to_owned()),
            _ => drop(self.levels.pop()),
        }
    }

    /// Another scope for all screens, from which Backspace leads back.
    pub(super) fn narrow(&mut self, scope: Scope) {
        let by = self.level().by;
        self.levels.push(Level::new(scope, by));
        if self.tab == Tab::Findings {
            self.tab = Tab::Cut;
        }
    }

    /// Sums up something else.
    pub(super) fn measure_by(&mut self, measure: CutMeasure) {
        if measure == self.level().scope.measure {
            return;
        }
        let mut level = Level::new(self.level().scope.clone(), self.level().by);
        level.scope.measure = measure;
        if matches!(measure, CutMeasure::Calls | CutMeasure::Bytes) && !level.by.is_of_calls() {
            level.by = CutDimension::Api;
        }
        self.levels.push(level);
        if self.tab == Tab::Findings {
            self.tab = Tab::Cut;
        }
    }

    /// Sums up by something else.
    pub(super) fn divide_by(&mut self, by: CutDimension) {
        if by != self.level().by {
            self.levels.push(Level::new(self.level().scope.clone(), by));
        }
        self.tab = Tab::Cut;
    }
}
