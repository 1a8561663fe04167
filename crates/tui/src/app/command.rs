//! The command that prints what is on the screen.

use transect_analyze::{CutMeasure, CutViewKind};
use transect_report::terminal::parts;

use super::{App, Overlay, Tab};

impl App {
    /// The command line that prints the same.
    pub fn command(&self) -> String {
        let mut words = ["transect", "report", self.facts.folder.as_str()].map(str::to_owned).to_vec();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        let (scope, by) = (&self.level().scope, self.level().by.to_string());
        let measure = |kind: CutViewKind| scope.query_of_view(kind).measure;
        match self.tab {
            Tab::Findings => add(&["--view", "summary"]),
            Tab::Cut => {
                add(&["--by", &by]);
                if scope.measure != CutMeasure::Time {
                    add(&["--measure", scope.measure.as_str()]);
                }
            }
            Tab::Tree => add(&["--view", "tree", "--measure", measure(CutViewKind::Tree).as_str()]),
            Tab::Timeline => add(&["--view", "timeline"]),
            Tab::Source => {
                add(&["--view", "annotate"]);
                self.source.function.iter().for_each(|function| add(&["--function", function]));
            }
        }
        if self.tab != Tab::Findings {
            words.extend(scope.flags());
        }
        parts::shell_words(&words)
    }

    pub(super) fn show_command(&mut self) {
        let command = self.command();
        if self.commands.last() != Some(&command) {
            self.commands.push(command.clone());
        }
        self.overlay = Some(Overlay::Command(command));
    }
}
