//! One record of the section `transect_regions`: a letter and fields, separated by tabs.

/// A record's fields, as they stand in the section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordLine<'a> {
    /// `U`, `V`, `I` or `R`.
    pub letter: &'a str,
    fields: &'a str,
}

impl<'a> RecordLine<'a> {
    /// Reads one line without its end.
    pub fn parse(line: &'a str) -> Self {
        let (letter, fields) = line.split_once('\t').unwrap_or((line, ""));
        Self { letter, fields }
    }

    /// The raw value of a field.
    fn raw(&self, key: &str) -> Result<&'a str, String> {
        let value = |field: &'a str| field.strip_prefix(key)?.strip_prefix('=');
        self.fields.split('\t').find_map(value).ok_or_else(|| format!("record {} without {key}", self.letter))
    }

    /// Text.
    pub fn text(&self, key: &str) -> Result<String, String> {
        Ok(unescape(self.raw(key)?))
    }

    /// Text, or `None` if it is empty or the field isn't there.
    pub fn optional_text(&self, key: &str) -> Option<String> {
        self.raw(key).ok().filter(|raw| !raw.is_empty()).map(unescape)
    }

    /// A number.
    pub fn number(&self, key: &str) -> Result<u32, String> {
        let raw = self.raw(key)?;
        raw.parse().map_err(|_| format!("{key}={raw} is no number"))
    }

    /// A number, or `-` for none.
    pub fn optional_number(&self, key: &str) -> Result<Option<u32>, String> {
        if self.raw(key)? == "-" { Ok(None) } else { self.number(key).map(Some) }
    }

    /// A 64-bit number in hexadecimal.
    pub fn hash(&self, key: &str) -> Result<u64, String> {
        let raw = self.raw(key)?;
        u64::from_str_radix(raw, 16).map_err(|_| format!("{key}={raw} is no hexadecimal number"))
    }

    /// Texts, separated by commas.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let raw = self.raw(key)?;
        let mut texts = Vec::new();
        let (mut start, mut escaped) = (0, false);
        for (at, letter) in raw.char_indices() {
            if letter == ',' && !escaped {
                texts.push(unescape(&raw[start..at]));
                start = at + 1;
            }
            escaped = letter == '\\' && !escaped;
        }
        if !raw.is_empty() {
            texts.push(unescape(&raw[start..]));
        }
        Ok(texts)
    }

    /// Numbers, separated by commas.
    pub fn numbers(&self, key: &str) -> Result<Vec<u32>, String> {
        let raw = self.raw(key)?;
        let numbers = raw.split(',').filter(|number| !number.is_empty());
        numbers.map(|n| n.parse().map_err(|_| format!("{key}={raw} are no numbers"))).collect()
    }
}

/// Takes the backslashes off: `\t`, `\n`, and whatever else stands for itself.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut letters = raw.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some(other) => text.push(other),
            None => text.push('\\'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_and_unescaped() {
        let line =
            RecordLine::parse(r"U	version=1	build=00ff00ff00ff00ff	unit=a\tb\\c	features=A,B\,C,\\,D	none=	parent=-");
        assert_eq!(line.letter, "U");
        assert_eq!(line.number("version"), Ok(1));
        assert_eq!(line.hash("build"), Ok(0x00ff_00ff_00ff_00ff));
        assert_eq!(line.text("unit").as_deref(), Ok("a\tb\\c"));
        assert_eq!(line.texts("features").unwrap(), ["A", "B,C", "\\", "D"]);
        assert_eq!(line.texts("none").unwrap(), [""; 0]);
        assert_eq!(line.optional_text("none"), None);
        assert_eq!(line.optional_number("parent"), Ok(None));
        assert!(line.number("depth").unwrap_err().contains("without depth"));
        assert!(line.number("unit").is_err());
    }
}
