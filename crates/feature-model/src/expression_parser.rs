//! Reader of constraints: `!A | B`, `A & B => C`, `A <=> B`, `A * Level <= 12`, `log10(Size) > 3`.
//!
//! Weakest first: `<=>`, `=>` (to the right), `|`, `&`, comparison, `+ -`, `* /`, `! -`. `||`, `&&`, `->`, `<->`, `~`
//! (minus, as in VaRA) and `==` are read too; names that are not plain words stand in double quotes.

use crate::{Comparison, Expression, FeatureIndex, Operator, Truth, Value};

/// Nesting that is followed, so that no input exhausts the stack.
const DEPTH_LIMIT: usize = 200;
/// Words and signs in one expression, for the same reason.
const TOKEN_LIMIT: usize = 2000;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Symbol(&'static str),
}

/// Longest first.
const SYMBOLS: [(&str, &str); 24] = [
    ("<=>", "<=>"),
    ("<->", "<=>"),
    ("=>", "=>"),
    ("->", "=>"),
    ("<=", "<="),
    (">=", ">="),
    ("!=", "!="),
    ("==", "="),
    ("||", "|"),
    ("&&", "&"),
    ("=", "="),
    ("<", "<"),
    (">", ">"),
    ("|", "|"),
    ("&", "&"),
    ("!", "!"),
    ("~", "-"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("(", "("),
    (")", ")"),
    (";", ";"),
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            length = number_length(rest);
            let digits = &rest[..length];
            found.push(Token::Number(digits.parse().map_err(|_| format!("`{digits}` is not a number"))?));
        } else if first.is_alphabetic() || first == '_' {
            length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
            found.push(Token::Name(rest[..length].into()));
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or("a quote is not closed")?;
            length = end + 2;
            found.push(Token::Name(rest[1..=end].into()));
        } else if let Some((written, symbol)) = SYMBOLS.iter().find(|(written, _)| rest.starts_with(written)) {
            length = written.len();
            found.push(Token::Symbol(symbol));
        } else {
            return Err(format!("unexpected `{first}`"));
        }
        if found.len() > TOKEN_LIMIT {
            return Err(format!("it has more than {TOKEN_LIMIT} words; split it into several constraints"));
        }
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// Bytes of the number at the start: digits, point, exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let mut end = digits(0);
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Reads an expression; `find` gives the feature of a name, or the error.
pub(crate) fn parse(text: &str, find: &impl Fn(&str) -> Result<FeatureIndex, String>) -> Result<Expression, String> {
    let mut reader = Reader { tokens: tokens(text)?, place: 0, depth: 0, find };
    let expression = reader.level(0)?;
    match reader.tokens.get(reader.place) {
        None => Ok(expression),
        Some(token) => Err(format!("unexpected {}", describe(Some(token)))),
    }
}

fn describe(token: Option<&Token>) -> String {
    match token {
        None => "end".into(),
        Some(Token::Number(number)) => format!("`{number}`"),
        Some(Token::Name(name)) => format!("`{name}`"),
        Some(Token::Symbol(symbol)) => format!("`{symbol}`"),
    }
}

/// Binary operators of each level, weakest first.
const LEVELS: [&[&str]; 7] =
    [&["<=>"], &["=>"], &["|"], &["&"], &["=", "!=", "<", "<=", ">", ">="], &["+", "-"], &["*", "/"]];

struct Reader<'a, F> {
    tokens: Vec<Token>,
    place: usize,
    depth: usize,
    find: &'a F,
}

impl<F: Fn(&str) -> Result<FeatureIndex, String>> Reader<'_, F> {
    fn symbol(&self) -> Option<&'static str> {
        match self.tokens.get(self.place) {
            Some(Token::Symbol(symbol)) => Some(symbol),
            _ => None,
        }
    }

    fn level(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        while let Some(symbol) = self.symbol().filter(|symbol| operators.contains(symbol)) {
            self.place += 1;
            if symbol == "=>" {
                self.enter()?;
                let right = self.level(level)?;
                self.depth -= 1;
                return Ok(Truth::Implies(left, right).into());
            }
            let right = self.level(level + 1)?;
            left = join(symbol, left, right);
        }
        Ok(left)
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT { Err("it is nested too deeply".into()) } else { Ok(()) }
    }

    fn unary(&mut self) -> Result<Expression, String> {
        let token = self.tokens.get(self.place).cloned();
        self.place += 1;
        self.enter()?;
        let expression = match token {
            Some(Token::Symbol("!")) => Truth::Not(self.unary()?).into(),
            Some(Token::Symbol("-")) => Value::Negate(self.unary()?).into(),
            Some(Token::Symbol("+")) => self.unary()?,
            Some(Token::Symbol("(")) => self.closed()?,
            Some(Token::Number(number)) => Value::Number(number).into(),
            Some(Token::Name(name)) if name == "log10" && self.symbol() == Some("(") => {
                self.place += 1;
                Value::Log10(self.closed()?).into()
            }
            Some(Token::Name(name)) => Value::Feature((self.find)(&name)?).into(),
            other => return Err(format!("expected a feature, a number or `(`, found {}", describe(other.as_ref()))),
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn closed(&mut self) -> Result<Expression, String> {
        let inner = self.level(0)?;
        if self.symbol() != Some(")") {
            return Err(format!("expected `)`, found {}", describe(self.tokens.get(self.place))));
        }
        self.place += 1;
        Ok(inner)
    }
}

fn join(symbol: &str, left: Expression, right: Expression) -> Expression {
    let compare = |by, left, right| Truth::Compare(by, left, right).into();
    let operation = |by, left, right| Value::Operation(by, left, right).into();
    match symbol {
        "<=>" => Truth::Equivalent(left, right).into(),
        "|" => Truth::Or(left, right).into(),
        "&" => Truth::And(left, right).into(),
        "=" => compare(Comparison::Equal, left, right),
        "!=" => compare(Comparison::NotEqual, left, right),
        "<" => compare(Comparison::Less, left, right),
        "<=" => compare(Comparison::LessEqual, left, right),
        ">" => compare(Comparison::Greater, left, right),
        ">=" => compare(Comparison::GreaterEqual, left, right),
        "+" => operation(Operator::Add, left, right),
        "-" => operation(Operator::Subtract, left, right),
        "*" => operation(Operator::Multiply, left, right),
        _ => operation(Operator::Divide, left, right),
    }
}
