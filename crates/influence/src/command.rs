use crate::InfluenceError;

/// Where the options go.
const PLACE: &str = "{options}";

/// A command with a place for options. As a word of its own, `{options}` becomes as many words as there are options;
/// inside of a word (`sh -c "prog {options} <in"`) they are quoted for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTemplate {
    words: Vec<String>,
}

impl CommandTemplate {
    /// From the words of the command line.
    pub fn new(words: Vec<String>) -> Result<Self, InfluenceError> {
        match words.first() {
            None => Err(InfluenceError::NoCommand),
            Some(_) if words.iter().any(|word| word.contains(PLACE)) => Ok(Self { words }),
            Some(_) => Err(InfluenceError::NoPlace),
        }
    }

    /// The program that is run.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// As it was given.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The command with options in their place.
    pub fn with(&self, options: &[String]) -> Vec<String> {
        let mut command = Vec::new();
        for word in &self.words {
            if word == PLACE {
                command.extend_from_slice(options);
            } else if word.contains(PLACE) {
                // Words with zero bytes can't be arguments at all; such a run fails by itself.
                let quoted = shlex::try_join(options.iter().map(String::as_str)).unwrap_or_else(|_| options.join(" "));
                command.push(word.replace(PLACE, &quoted));
            } else {
                command.push(word.clone());
            }
        }
        command
    }
}
