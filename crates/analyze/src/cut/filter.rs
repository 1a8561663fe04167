//! Which part of a profile is cut: `feature = compress and (wait = page-fault or not state in (blocked, runnable))`.

use std::fmt;

use regex::Regex;

use super::CutKey;
use super::dimension::CutDimension;
use crate::escape::is_named;

/// What a term of a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A dimension's key.
    Dimension(CutDimension),
    /// Any function of the stack.
    Stack,
}

/// One comparison.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub subject: Subject,
    pub test: Test,
    /// `!=`, `not in`, `!~`.
    pub negated: bool,
}

/// What a key is held against.
#[derive(Debug, Clone)]
pub(super) enum Test {
    /// One of these.
    In(Vec<String>),
    /// Found by this expression.
    Matches(Regex),
}

impl Term {
    /// Whether one of the names is what the term asks for; `none` stands for no name at all.
    pub fn holds<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        let found = match &self.test {
            Test::In(values) => {
                let is_asked = |name: &str| values.iter().any(|value| is_named(value, name));
                let mut any = false;
                let named = names.any(|name| {
                    any = true;
                    is_asked(name)
                });
                named || !any && is_asked(NONE)
            }
            Test::Matches(pattern) => names.any(|name| pattern.is_match(name)),
        };
        found != self.negated
    }
}

/// The word for a key that there is not.
pub(super) const NONE: &str = "none";

/// An expression over terms, which it refers to by number.
#[derive(Debug, Clone)]
pub(super) enum Expression {
    Term(usize),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Its value, given that of each term.
    pub fn holds(&self, term: &mut impl FnMut(usize) -> bool) -> bool {
        match self {
            Self::Term(number) => term(*number),
            Self::Not(inner) => !inner.holds(term),
            Self::And(left, right) => left.holds(term) && right.holds(term),
            Self::Or(left, right) => left.holds(term) || right.holds(term),
        }
    }
}

/// A filter as it was written, and what it means.
#[derive(Debug, Clone)]
pub struct CutFilter {
    text: String,
    pub(super) terms: Vec<Term>,
    pub(super) expression: Expression,
}

impl CutFilter {
    /// Parses a filter: terms `DIMENSION = VALUE`, `!=`, `~ REGEX`, `!~`, `in (A, B)`, `not in`, joined by `and`, `or`, `not`
    /// and brackets. Values with blanks or signs stand in quotes, those with invisible characters as they are printed
    /// ([`crate::escape()`]); the subject `stack` is any function of the stack, the
    /// value `none` the lack of a key.
    ///
    /// # Errors
    /// [`FilterError`] says what was expected, and where.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { text, tokens: &tokens, at: 0, depth: 0, terms: Vec::new() };
        let expression = parser.either()?;
        if let Some(token) = parser.peek() {
            return Err(parser.error(token.at, "expected `and` or `or`"));
        }
        let terms = parser.terms;
        Ok(Self { text: text.to_owned(), terms, expression })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for CutFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The term of a filter that this key of a dimension meets and no other key does, or its opposite; `None` for what no term can
/// say: steps of time are a range, and of stacks a term asks for any function.
pub fn term_of_key(dimension: CutDimension, key: &CutKey, negated: bool) -> Option<String> {
    if matches!(dimension, CutDimension::Time(_) | CutDimension::Stack) {
        return None;
    }
    let (equal, like) = if negated { ("!=", "!~") } else { ("=", "~") };
    Some(match key {
        CutKey::Time(_) => return None,
        CutKey::None => format!("{dimension} {equal} {NONE}"),
        // Quotes know no escapes, and the word for no key is no name: expressions can say both.
        CutKey::Name(name) if name == NONE || name.contains('\'') && name.contains('"') => {
            let exactly = regex::escape(name).replace('\'', r"\x27").replace('"', r"\x22");
            format!("{dimension} {like} '^{exactly}$'")
        }
        CutKey::Name(name)
            if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-+/:@".contains(c)) =>
        {
            format!("{dimension} {equal} {name}")
        }
        CutKey::Name(name) if name.contains('\'') => format!("{dimension} {equal} \"{name}\""),
        CutKey::Name(name) => format!("{dimension} {equal} '{name}'"),
    })
}

/// A filter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}^", Blanks(text, *at))]
pub struct FilterError {
    text: String,
    at: usize,
    message: String,
}

/// As many blanks as the first bytes of a text have characters.
struct Blanks<'a>(&'a str, usize);

impl fmt::Display for Blanks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..self.1].chars().try_for_each(|_| f.write_str(" "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A bare word.
    Word(String),
    /// What stands in quotes.
    Quoted(String),
    /// `=`, `!=`, `~`, `!~`, `(`, `)`, `,`
    Sign(&'static str),
}

#[derive(Debug, Clone)]
struct Token {
    at: usize,
    kind: Kind,
}

/// Signs, longer ones first.
const SIGNS: [&str; 8] = ["!=", "!~", "==", "=", "~", "(", ")", ","];

fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let error = |at: usize, message: &str| FilterError { text: text.to_owned(), at, message: message.to_owned() };
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token { at, kind: Kind::Sign(if *sign == "==" { "=" } else { sign }) });
            at += sign.len();
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first).ok_or_else(|| error(at, "this quote is not closed"))?;
            tokens.push(Token { at, kind: Kind::Quoted(rest[1..=end].to_owned()) });
            at += end + 2;
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!~(),\"'".contains(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(error(at, "unexpected sign"));
            }
            tokens.push(Token { at, kind: Kind::Word(rest[..end].to_owned()) });
            at += end;
        }
    }
    Ok(tokens)
}

/// Brackets and `not` nested deeper than this are refused.
const DEEPEST: usize = 100;

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    terms: Vec<Term>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn error(&self, at: usize, message: impl Into<String>) -> FilterError {
        FilterError { text: self.text.to_owned(), at, message: message.into() }
    }

    /// Where the next token stands, or the text ends.
    fn here(&self) -> usize {
        self.peek().map_or(self.text.len(), |token| token.at)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = self.peek().is_some_and(|token| matches!(&token.kind, Kind::Word(text) if text == word));
        self.at += usize::from(is);
        is
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is = self
            .peek()
            .is_some_and(|token| token.kind == Kind::Sign(SIGNS.iter().find(|s| **s == sign).unwrap_or(&"")));
        self.at += usize::from(is);
        is
    }

    fn either(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.both()?;
        while self.takes_word("or") {
            left = Expression::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.single()?;
        while self.takes_word("and") {
            left = Expression::And(Box::new(left), Box::new(self.single()?));
        }
        Ok(left)
    }

    fn single(&mut self) -> Result<Expression, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error(self.here(), "nested too deeply"));
        }
        let parsed = if self.takes_word("not") {
            Expression::Not(Box::new(self.single()?))
        } else if self.takes_sign("(") {
            let inner = self.either()?;
            if !self.takes_sign(")") {
                return Err(self.error(self.here(), "expected `)`"));
            }
            inner
        } else {
            self.term()?
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn term(&mut self) -> Result<Expression, FilterError> {
        let at = self.here();
        let subject = match self.peek().map(|token| &token.kind) {
            Some(Kind::Word(word)) => self.subject(at, word)?,
            _ => {
                let expected = format!("expected a dimension ({}), `not` or `(`", CutDimension::choices());
                return Err(self.error(at, &expected));
            }
        };
        self.at += 1;
        let negated_in = self.takes_word("not");
        let at = self.here();
        let (test, negated) = if self.takes_word("in") {
            (Test::In(self.list()?), negated_in)
        } else if negated_in {
            return Err(self.error(at, "expected `in` after `not`"));
        } else if self.takes_sign("=") {
            (Test::In(vec![self.value()?]), false)
        } else if self.takes_sign("!=") {
            (Test::In(vec![self.value()?]), true)
        } else if self.takes_sign("~") {
            (Test::Matches(self.pattern()?), false)
        } else if self.takes_sign("!~") {
            (Test::Matches(self.pattern()?), true)
        } else {
            return Err(self.error(at, "expected `=`, `!=`, `~`, `!~` or `in`"));
        };
        self.terms.push(Term { subject, test, negated });
        Ok(Expression::Term(self.terms.len() - 1))
    }

    fn subject(&self, at: usize, word: &str) -> Result<Subject, FilterError> {
        if word == "stack" {
            return Ok(Subject::Stack);
        }
        if word == "time" || word.starts_with("time/") {
            return Err(self.error(at, "a range of time is given by --from and --to"));
        }
        word.parse().map(Subject::Dimension).map_err(|_| {
            let known = CutDimension::ALL.iter().map(|(_, known)| *known);
            let near = known.max_by(|a, b| strsim::jaro(word, a).total_cmp(&strsim::jaro(word, b)));
            self.error(at, format!("`{word}` is no dimension; the nearest is `{}`", near.unwrap_or("stack")))
        })
    }

    fn value(&mut self) -> Result<String, FilterError> {
        match self.peek().map(|token| &token.kind) {
            Some(Kind::Word(text) | Kind::Quoted(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => Err(self.error(self.here(), "expected a value; one with signs or blanks stands in quotes")),
        }
    }

    fn pattern(&mut self) -> Result<Regex, FilterError> {
        let at = self.here();
        let text = self.value()?;
        Regex::new(&text).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or("").trim_start_matches("error: ");
            self.error(at, format!("no regular expression: {reason}"))
        })
    }

    fn list(&mut self) -> Result<Vec<String>, FilterError> {
        if !self.takes_sign("(") {
            return Err(self.error(self.here(), "expected `(` and values"));
        }
        let mut values = vec![self.value()?];
        while self.takes_sign(",") {
            values.push(self.value()?);
        }
        if !self.takes_sign(")") {
            return Err(self.error(self.here(), "expected `,` or `)`"));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether a filter holds where each dimension has the given key.
    fn holds(filter: &str, keys: &[(&str, &str)]) -> bool {
        let filter = CutFilter::parse(filter).unwrap_or_else(|error| panic!("{error}"));
        let of = |term: &Term| {
            let word = match term.subject {
                Subject::Dimension(dimension) => dimension.word(),
                Subject::Stack => "stack",
            };
            term.holds(keys.iter().filter(|(key, _)| *key == word).map(|(_, value)| *value))
        };
        let values: Vec<bool> = filter.terms.iter().map(of).collect();
        filter.expression.holds(&mut |number| values[number])
    }

    #[test]
    fn operators() {
        let keys = [("function", "inflate"), ("state", "blocked"), ("stack", "main"), ("stack", "inflate")];
        let right = [
            "function = inflate",
            "function=inflate",
            "function != deflate",
            "function ~ ^in",
            "function !~ 'de.*'",
            "state in (running, blocked)",
            "state not in (running, \"runnable\")",
            "wait = none and stack = main",
            "not state = running and (function = x or function = 'inflate')",
            "function = x or state = blocked and function = inflate",
        ];
        for filter in right {
            assert!(holds(filter, &keys), "{filter}");
            assert!(!holds(&format!("not ({filter})"), &keys), "{filter}");
        }
        assert!(!holds("wait = mutex", &keys) && holds("wait != mutex", &keys));
        // As it is printed, in words and in expressions.
        let hidden = [("function", "a\nb\u{200b}c\u{1b}")];
        assert!(
            holds(r"function = 'a\nb\u{200b}c\u{1b}'", &hidden) && holds(r"function ~ 'b\u{200b}c\u{1b}$'", &hidden)
        );
        assert!(holds(r"function in (x, 'a\nb\u{200b}c\u{1b}')", &hidden) && !holds(r"function = 'a\nbc'", &hidden));
        assert!(holds("function = 'operator()(int, char)'", &[("function", "operator()(int, char)")]));
    }

    #[test]
    fn errors_point_at_their_place() {
        let message = |filter: &str| CutFilter::parse(filter).unwrap_err().to_string();
        assert_eq!(message("featur = x"), "`featur` is no dimension; the nearest is `feature`\n  featur = x\n  ^");
        assert_eq!(
            message("wait ="),
            "expected a value; one with signs or blanks stands in quotes\n  wait =\n        ^"
        );
        assert_eq!(message("wait = a wait"), "expected `and` or `or`\n  wait = a wait\n           ^");
        assert_eq!(message("(wait = a"), "expected `)`\n  (wait = a\n           ^");
        assert_eq!(message("wait = 'a"), "this quote is not closed\n  wait = 'a\n         ^");
        assert!(message("function ~ '('").contains("no regular expression"));
        assert!(message("time = 2s").contains("--from"));
        assert!(message("").contains("expected a dimension"));
        assert!(message(&"not ".repeat(5000)).contains("nested too deeply"));
        assert!(message(&"(".repeat(5000)).contains("nested too deeply"));
    }

    proptest! {
        #[test]
        fn a_term_holds_for_its_key_alone(name in "[a-b '\"()=.$~none]{1,8}", other in "[a-b '\"()=.$~none]{1,8}", negated: bool) {
            let key = CutKey::Name(name.clone());
            let term = term_of_key(CutDimension::Function, &key, negated).unwrap();
            for (seen, meets) in [(&name, true), (&other, name == other)] {
                prop_assert_eq!(holds(&term, &[("function", seen)]), meets != negated, "{}", term);
            }
            prop_assert_eq!(holds(&term, &[]), negated, "{}", term);
            let none = term_of_key(CutDimension::Function, &CutKey::None, negated).unwrap();
            prop_assert!(holds(&none, &[]) != negated);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z!=~(),'\" é]{0,40}") {
            if let Err(error) = CutFilter::parse(&text) {
                prop_assert!(error.to_string().ends_with('^'));
            }
        }
    }
}
