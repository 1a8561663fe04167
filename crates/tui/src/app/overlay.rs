//! What lies above a screen: help, lists to choose from, lines to type.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use transect_analyze::{CutDimension, CutMeasure, ExactDuration, parse_duration};

use super::{App, Tab};
use crate::scope::{Scope, Term};

/// Above the screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    /// All keys, from this line on.
    Help(usize),
    /// A list.
    Picker(Picker),
    /// A line.
    Prompt(Prompt),
    /// The command that prints the same.
    Command(String),
}

/// What is chosen from a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickKind {
    /// What rows are told apart by.
    Dimension,
    /// What is summed up.
    Measure,
}

/// A list; what is typed leaves those that hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Picker {
    /// Of what.
    pub kind: PickKind,
    all: Vec<String>,
    /// What was typed.
    pub text: Input,
    /// The word that is chosen, among those that are left.
    pub selected: usize,
}

impl Picker {
    /// Those that hold what was typed; a step of time may be typed in full.
    pub fn words(&self) -> Vec<&str> {
        let typed = self.text.text.as_str();
        let mut words: Vec<&str> = self.all.iter().map(String::as_str).filter(|word| word.contains(typed)).collect();
        if words.is_empty() && self.kind == PickKind::Dimension && typed.parse::<CutDimension>().is_ok() {
            words.push(typed);
        }
        words
    }
}

/// What is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKind {
    /// A term of the filter.
    Filter,
    /// A range of time.
    Range,
}

/// A line to type.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What it is for.
    pub kind: PromptKind,
    /// The line.
    pub input: Input,
    /// What is wrong with it.
    pub error: Option<String>,
}

impl Prompt {
    /// An empty line.
    pub fn new(kind: PromptKind) -> Self {
        Self { kind, input: Input::default(), error: None }
    }
}

/// A line that is being typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Input {
    /// The line.
    pub text: String,
    /// Where the next character goes, in characters.
    pub cursor: usize,
}

impl Input {
    /// Whether the key was meant for it.
    fn key(&mut self, key: KeyEvent) -> bool {
        let length = self.text.chars().count();
        let byte = |text: &str, at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
        match key.code {
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => *self = Self::default(),
            KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) && !c.is_control() => {
                let at = byte(&self.text, self.cursor);
                self.text.insert(at, c);
                self.cursor += 1;
            }
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                let at = byte(&self.text, self.cursor);
                self.text.remove(at);
            }
            KeyCode::Delete if self.cursor < length => {
                let at = byte(&self.text, self.cursor);
                self.text.remove(at);
            }
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(length),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = length,
            _ => return false,
        }
        true
    }
}

impl App {
    pub(super) fn overlay_key(&mut self, key: KeyEvent) {
        let Some(overlay) = self.overlay.take() else { return };
        if key.code == KeyCode::Esc {
            return;
        }
        self.overlay = match overlay {
            Overlay::Help(at) => match key.code {
                KeyCode::Down | KeyCode::Char('j' | ' ') | KeyCode::PageDown => Some(Overlay::Help(at + 1)),
                KeyCode::Up | KeyCode::Char('k') | KeyCode::PageUp => Some(Overlay::Help(at.saturating_sub(1))),
                _ => None,
            },
            Overlay::Command(_) => None,
            Overlay::Picker(picker) => self.picker_key(picker, key),
            Overlay::Prompt(prompt) => self.prompt_key(prompt, key),
        };
    }

    fn picker_key(&mut self, mut picker: Picker, key: KeyEvent) -> Option<Overlay> {
        let last = picker.words().len().saturating_sub(1);
        match key.code {
            KeyCode::Up => picker.selected = picker.selected.saturating_sub(1),
            KeyCode::Down => picker.selected = (picker.selected + 1).min(last),
            KeyCode::Enter => {
                let word = picker.words().get(picker.selected).map(|word| (*word).to_owned())?;
                match picker.kind {
                    PickKind::Dimension => word.parse().into_iter().for_each(|by| self.divide_by(by)),
                    PickKind::Measure => word.parse().into_iter().for_each(|measure| self.measure_by(measure)),
                }
                return None;
            }
            _ if picker.text.key(key) => picker.selected = 0,
            _ => {}
        }
        Some(Overlay::Picker(picker))
    }

    fn prompt_key(&mut self, mut prompt: Prompt, key: KeyEvent) -> Option<Overlay> {
        if key.code != KeyCode::Enter {
            if prompt.input.key(key) {
                prompt.error = None;
            }
            return Some(Overlay::Prompt(prompt));
        }
        let text = prompt.input.text.trim();
        let narrowed = match prompt.kind {
            PromptKind::Filter if text.is_empty() => return None,
            PromptKind::Filter => {
                let term = Term { text: text.to_owned(), key: None };
                self.level().scope.with(term).map_err(|error| error.to_string())
            }
            PromptKind::Range => in_range(&self.level().scope, text),
        };
        match narrowed {
            Ok(scope) => {
                self.narrow(scope);
                None
            }
            Err(error) => {
                prompt.error = Some(error);
                Some(Overlay::Prompt(prompt))
            }
        }
    }

    pub(super) fn pick_measure(&mut self) {
        let all: Vec<String> = self.facts.measures.iter().map(|measure| measure.as_str().to_owned()).collect();
        let now = self.level().scope.measure.as_str();
        let selected = all.iter().position(|word| word == now).unwrap_or(0);
        self.overlay = Some(Overlay::Picker(Picker { kind: PickKind::Measure, all, text: Input::default(), selected }));
    }

    pub(super) fn pick_dimension(&mut self) {
        use CutDimension as D;
        let counted = matches!(self.level().scope.measure, CutMeasure::Calls | CutMeasure::Bytes);
        // No recording knows a service yet, and stacks are the tree.
        let is_of_use = |dimension: &D| {
            !matches!(dimension, D::Service | D::Version | D::Stack)
                && (!counted || dimension.is_of_calls())
                && (*dimension != D::Feature || self.facts.has_features)
        };
        let all = D::ALL.iter().map(|(dimension, _)| *dimension).filter(is_of_use);
        let step = (!counted).then(|| D::Time(step_of(self.range_ns())));
        let all: Vec<String> = all.chain(step).map(|dimension| dimension.to_string()).collect();
        let now = self.level().by.to_string();
        let selected = match self.tab {
            Tab::Cut => all.iter().position(|word| *word == now).unwrap_or(0),
            _ => 0,
        };
        self.overlay =
            Some(Overlay::Picker(Picker { kind: PickKind::Dimension, all, text: Input::default(), selected }));
    }

    fn range_ns(&self) -> i64 {
        let scope = &self.level().scope;
        let wall = self.facts.meta.wall_ns;
        (scope.to_ns.unwrap_or(wall).min(wall) - scope.from_ns.unwrap_or(0).max(0)).max(1)
    }
}

/// A step that makes some twenty rows: 1, 2 or 5 of a unit.
fn step_of(range_ns: i64) -> i64 {
    const ROWS: i64 = 25;
    let mut step = 1;
    for factor in [2_i64, 5, 10].into_iter().cycle().enumerate().map(|(at, factor)| factor * 10_i64.pow(at as u32 / 3))
    {
        if step * ROWS >= range_ns || factor >= 1_000_000_000_000_000 {
            break;
        }
        step = factor;
    }
    step
}

/// `2s 3s`, `2s..3s`, `2s..`, `..3s`; nothing for all.
fn in_range(scope: &Scope, text: &str) -> Result<Scope, String> {
    let (from, to) = match text.split_once("..") {
        Some(both) => both,
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        text => parse_duration(text)
            .map(Some)
            .ok_or_else(|| format!("`{text}` is no time since the recording's start, such as 2s or 150ms")),
    };
    let (from_ns, to_ns) = (end(from)?, end(to)?);
    if let (Some(from), Some(to)) = (from_ns, to_ns)
        && from >= to
    {
        return Err(format!("{} is not before {}", ExactDuration(from), ExactDuration(to)));
    }
    let mut scope = scope.clone();
    (scope.from_ns, scope.to_ns) = (from_ns, to_ns);
    Ok(scope)
}
