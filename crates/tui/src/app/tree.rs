//! The tree of calls: what is open, and the node that is chosen.

use std::collections::BTreeSet;

use crossterm::event::KeyCode;
use transect_analyze::{CallNode, CallTree, CutDimension, CutKey, term_of_key};

use super::{App, Pane, Tab};
use crate::request::Request;
use crate::scope::Term;

/// The tree of calls.
#[derive(Debug, Clone, Default)]
pub struct TreeTab {
    /// Its nodes.
    pub pane: Pane<CallTree>,
    /// Nodes whose calls are shown, by the numbers of their ancestors and their own.
    open: BTreeSet<Vec<usize>>,
    /// The row that is chosen.
    pub selected: usize,
}

/// A node that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeRow<'a> {
    /// Numbers of its ancestors and its own, each among its parent's calls.
    pub path: Vec<usize>,
    /// The function.
    pub node: &'a CallNode,
    /// What it calls is shown.
    pub open: bool,
}

impl TreeTab {
    pub(super) fn take(&mut self, request: Request, view: Result<CallTree, String>) {
        self.open.clear();
        self.selected = 0;
        if let Ok(view) = &view {
            // To where the time divides.
            let mut path = Vec::new();
            let mut nodes = &view.roots;
            while let Some(node) = nodes.first().filter(|node| node.total * 2 >= view.scope.total.max(1)) {
                path.push(0);
                self.open.insert(path.clone());
                nodes = &node.children;
            }
        }
        self.pane.shown = Some((request, view));
    }

    /// The nodes that are shown, from the top.
    pub fn rows(&self) -> Vec<TreeRow<'_>> {
        let mut rows = Vec::new();
        if let Some(view) = self.pane.get() {
            self.add(&view.roots, &mut Vec::new(), &mut rows);
        }
        rows
    }

    /// It recurses as deep as the recorder keeps stacks: 127 frames.
    fn add<'a>(&self, nodes: &'a [CallNode], path: &mut Vec<usize>, rows: &mut Vec<TreeRow<'a>>) {
        for (number, node) in nodes.iter().enumerate() {
            path.push(number);
            let open = !node.children.is_empty() && self.open.contains(path);
            rows.push(TreeRow { path: path.clone(), node, open });
            if open {
                self.add(&node.children, path, rows);
            }
            path.pop();
        }
    }

    /// The function of the program that is chosen.
    pub fn function(&self) -> Option<String> {
        let rows = self.rows();
        let row = rows.get(self.selected)?;
        row.node.function.clone().filter(|_| !row.node.kernel)
    }

    fn key(&mut self, code: KeyCode) {
        let rows = self.rows();
        let Some(TreeRow { path, node, open }) = rows.get(self.selected) else { return };
        let (path, leads_on, open) = (path.clone(), !node.children.is_empty(), *open);
        let parent = rows.iter().position(|row| row.path[..] == path[..path.len() - 1]);
        drop(rows);
        match code {
            KeyCode::Enter if open => drop(self.open.remove(&path)),
            KeyCode::Enter if leads_on => drop(self.open.insert(path)),
            KeyCode::Right | KeyCode::Char('l') if open => self.selected += 1,
            KeyCode::Right | KeyCode::Char('l') if leads_on => drop(self.open.insert(path)),
            KeyCode::Left | KeyCode::Char('h') if open => drop(self.open.remove(&path)),
            KeyCode::Left | KeyCode::Char('h') => self.selected = parent.unwrap_or(self.selected),
            _ => {}
        }
    }
}

impl App {
    pub(super) fn tree_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('s') => match self.tree.function() {
                Some(_) => self.go(Tab::Source),
                None => self.message = Some("the kernel's functions have no source here".to_owned()),
            },
            KeyCode::Char('f') if self.is_current() => self.focus(),
            code => self.tree.key(code),
        }
    }

    /// Only stacks with the function that is chosen.
    fn focus(&mut self) {
        let Some(function) = self.tree.function() else {
            self.message = Some("stacks are chosen by functions of the program".to_owned());
            return;
        };
        // A term of the whole stack is written as one of a function.
        let term = term_of_key(CutDimension::Function, &CutKey::Name(function), false);
        let text = term.map(|text| text.replacen("function", "stack", 1)).unwrap_or_default();
        match self.level().scope.with(Term { text, key: None }) {
            Ok(scope) => self.narrow(scope),
            Err(error) => self.message = error.to_string().lines().next().map(str::to_owned),
        }
    }
}
