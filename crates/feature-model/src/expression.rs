use crate::FeatureIndex;

/// Operators between numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
}

/// Comparisons of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterEqual,
}

/// An expression over features, by truth or by number; each can stand for the other, as 1 and 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// By truth.
    Truth(Box<Truth>),
    /// By number.
    Value(Box<Value>),
}

/// What is true or false.
#[derive(Debug, Clone, PartialEq)]
pub enum Truth {
    /// `!a`.
    Not(Expression),
    /// `a & b`.
    And(Expression, Expression),
    /// `a | b`.
    Or(Expression, Expression),
    /// `a => b`.
    Implies(Expression, Expression),
    /// `a <=> b`.
    Equivalent(Expression, Expression),
    /// A comparison.
    Compare(Comparison, Expression, Expression),
}

/// What is a number.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A constant.
    Number(f64),
    /// 1 if the feature is on, or its value; 0 if it is not selected.
    Feature(FeatureIndex),
    /// `-a`.
    Negate(Expression),
    /// An operation.
    Operation(Operator, Expression, Expression),
    /// `log10(a)`.
    Log10(Expression),
}

impl From<Truth> for Expression {
    fn from(truth: Truth) -> Self {
        Self::Truth(Box::new(truth))
    }
}

impl From<Value> for Expression {
    fn from(value: Value) -> Self {
        Self::Value(Box::new(value))
    }
}

impl Expression {
    /// Whether it is true (a number: whether it is not 0) for the features' numbers.
    pub fn truth(&self, number: &impl Fn(FeatureIndex) -> f64) -> bool {
        match self {
            Self::Value(_) => self.number(number) != 0.0,
            Self::Truth(truth) => match &**truth {
                Truth::Not(a) => !a.truth(number),
                Truth::And(a, b) => a.truth(number) && b.truth(number),
                Truth::Or(a, b) => a.truth(number) || b.truth(number),
                Truth::Implies(a, b) => !a.truth(number) || b.truth(number),
                Truth::Equivalent(a, b) => a.truth(number) == b.truth(number),
                Truth::Compare(by, a, b) => {
                    let (a, b) = (a.number(number), b.number(number));
                    match by {
                        Comparison::Equal => a == b,
                        Comparison::NotEqual => a != b,
                        Comparison::Less => a < b,
                        Comparison::LessEqual => a <= b,
                        Comparison::Greater => a > b,
                        Comparison::GreaterEqual => a >= b,
                    }
                }
            },
        }
    }

    /// Its number (1 if true, 0 if false) for the features' numbers.
    pub fn number(&self, number: &impl Fn(FeatureIndex) -> f64) -> f64 {
        match self {
            Self::Truth(_) => f64::from(u8::from(self.truth(number))),
            Self::Value(value) => match &**value {
                Value::Number(constant) => *constant,
                Value::Feature(at) => number(*at),
                Value::Negate(a) => -a.number(number),
                Value::Log10(a) => a.number(number).log10(),
                Value::Operation(by, a, b) => {
                    let (a, b) = (a.number(number), b.number(number));
                    match by {
                        Operator::Add => a + b,
                        Operator::Subtract => a - b,
                        Operator::Multiply => a * b,
                        Operator::Divide => a / b,
                    }
                }
            },
        }
    }

    /// The features in it, ascending, each once.
    pub fn features(&self) -> Vec<FeatureIndex> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn collect(&self, found: &mut Vec<FeatureIndex>) {
        match self {
            Self::Truth(truth) => match &**truth {
                Truth::Not(a) => a.collect(found),
                Truth::And(a, b)
                | Truth::Or(a, b)
                | Truth::Implies(a, b)
                | Truth::Equivalent(a, b)
                | Truth::Compare(_, a, b) => {
                    a.collect(found);
                    b.collect(found);
                }
            },
            Self::Value(value) => match &**value {
                Value::Number(_) => {}
                Value::Feature(at) => found.push(*at),
                Value::Negate(a) | Value::Log10(a) => a.collect(found),
                Value::Operation(_, a, b) => {
                    a.collect(found);
                    b.collect(found);
                }
            },
        }
    }
}
