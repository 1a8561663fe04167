use crate::Problem;

/// Where the value of a numeric feature goes in its option text.
const VALUE: &str = "{}";

/// The command-line text of a feature, split into words as a POSIX shell does. Empty if the feature has none, such as a
/// feature that only groups others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionText {
    words: Vec<String>,
    /// `{}` in them stands for a value.
    numeric: bool,
}

impl OptionText {
    /// Of a feature that is on or off.
    pub(crate) fn binary(text: &str) -> Result<Self, Problem> {
        let words = shlex::split(text).ok_or_else(|| Problem::Quote(text.into()))?;
        Ok(Self { words, numeric: false })
    }

    /// Of a feature with a value; without `{}` in it the value follows the text directly (`-` makes `-9`).
    pub(crate) fn numeric(text: &str) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let with_value = if text.contains(VALUE) { text.to_owned() } else { format!("{text}{VALUE}") };
        Ok(Self { numeric: true, ..Self::binary(&with_value)? })
    }

    /// Whether there is nothing to pass.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words with `{}` in place of the value.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The arguments for a program: the words with the value in place.
    pub fn arguments(&self, value: Option<f64>) -> Vec<String> {
        if !self.numeric {
            // Some programs have a `{}` of their own.
            return self.words.clone();
        }
        let value = value.map(number_text).unwrap_or_default();
        self.words.iter().map(|word| word.replace(VALUE, &value)).collect()
    }
}

/// A value as programs read it: no exponent, no trailing zeros.
pub(crate) fn number_text(value: f64) -> String {
    format!("{value}")
}
