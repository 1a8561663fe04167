//! Test programs without libtest's harness, as cargo and nextest call them.

/// Which of its cases a test program is to list or to run.
#[derive(Debug, Default)]
pub struct Cases {
    list: bool,
    ignored: bool,
    exact: bool,
    word: Option<String>,
}

impl Cases {
    /// Reads this program's arguments.
    pub fn asked_for() -> Cases {
        Cases::of(std::env::args().skip(1))
    }

    fn of(arguments: impl IntoIterator<Item = String>) -> Cases {
        let mut cases = Cases::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => cases.list = true,
                "--ignored" => cases.ignored = true,
                "--exact" => cases.exact = true,
                // Options with a value.
                "--format" | "--color" | "--test-threads" => drop(arguments.next()),
                _ if argument.starts_with('-') => {}
                _ => cases.word = Some(argument),
            }
        }
        cases
    }

    /// Prints the names if they were asked for; no case runs then.
    pub fn listed<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        if self.list && !self.ignored {
            for name in names {
                println!("{name}: test");
            }
        }
        self.list
    }

    /// Whether the case of that name is to run: none of these is an ignored one.
    pub fn chosen(&self, name: &str) -> bool {
        let fits = |word: &String| if self.exact { name == word } else { name.contains(word.as_str()) };
        !self.ignored && self.word.as_ref().is_none_or(fits)
    }

    /// Says how the case ended, and whether it is right. What it panics with has been printed by then.
    pub fn ran(name: &str, case: impl FnOnce() -> Result<(), String>) -> bool {
        let begin = std::time::Instant::now();
        match outcome(case) {
            Ok(()) => {
                println!("ok {name} ({:.1} s)", begin.elapsed().as_secs_f64());
                true
            }
            Err(why) => {
                println!("FAILED: {name}: {why}");
                false
            }
        }
    }
}

fn outcome(case: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(case));
    outcome.unwrap_or_else(|_| Err("see above".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Cases {
        Cases::of(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn words_choose_by_a_part_and_exact_ones_by_all() {
        assert!(of(&[]).chosen("two cases"));
        assert!(of(&["--nocapture", "two"]).chosen("two cases") && !of(&["three"]).chosen("two cases"));
        assert!(of(&["--exact", "two cases", "--nocapture"]).chosen("two cases"));
        assert!(!of(&["two", "--exact"]).chosen("two cases"));
        assert!(!of(&["--ignored"]).chosen("two cases"));
    }

    #[test]
    fn a_list_runs_nothing() {
        assert!(of(&["--list", "--format", "terse"]).listed([]));
        assert!(!of(&["--format", "terse"]).listed(["a"]) && of(&["--format", "terse"]).word.is_none());
    }

    #[test]
    fn panics_are_failures() {
        assert_eq!(outcome(|| Ok(())), Ok(()));
        assert_eq!(outcome(|| Err("off".to_owned())), Err("off".to_owned()));
        assert!(outcome(|| panic!("wrong")).is_err());
    }
}
