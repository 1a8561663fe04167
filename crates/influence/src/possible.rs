//! What an expression can still become while some features are undecided: intervals of numbers, pairs of truths.

use transect_feature_model::{Comparison, Expression, FeatureIndex, Operator, Truth, Value};

/// Which truths are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truths {
    pub(crate) yes: bool,
    pub(crate) no: bool,
}

impl Truths {
    const BOTH: Self = Self { yes: true, no: true };

    fn not(self) -> Self {
        Self { yes: self.no, no: self.yes }
    }

    fn and(self, other: Self) -> Self {
        Self { yes: self.yes && other.yes, no: self.no || other.no }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

/// Truths that the expression can have; `bounds` gives the least and the greatest number of a feature.
pub(crate) fn truths(expression: &Expression, bounds: &impl Fn(FeatureIndex) -> (f64, f64)) -> Truths {
    match expression {
        Expression::Value(_) => {
            let (low, high) = interval(expression, bounds);
            // Something that is not a number (log of a negative one) is not 0.
            Truths { yes: !(low == 0.0 && high == 0.0), no: low <= 0.0 && high >= 0.0 }
        }
        Expression::Truth(truth) => match &**truth {
            Truth::Not(a) => truths(a, bounds).not(),
            Truth::And(a, b) => truths(a, bounds).and(truths(b, bounds)),
            Truth::Or(a, b) => truths(a, bounds).or(truths(b, bounds)),
            Truth::Implies(a, b) => truths(a, bounds).not().or(truths(b, bounds)),
            Truth::Equivalent(a, b) => {
                let (a, b) = (truths(a, bounds), truths(b, bounds));
                Truths { yes: (a.yes && b.yes) || (a.no && b.no), no: (a.yes && b.no) || (a.no && b.yes) }
            }
            Truth::Compare(by, a, b) => compare(*by, interval(a, bounds), interval(b, bounds)),
        },
    }
}

fn compare(by: Comparison, (a_low, a_high): (f64, f64), (b_low, b_high): (f64, f64)) -> Truths {
    if [a_low, a_high, b_low, b_high].iter().any(|bound| bound.is_nan()) {
        return Truths::BOTH;
    }
    let less = Truths { yes: a_low < b_high, no: a_high >= b_low };
    let less_equal = Truths { yes: a_low <= b_high, no: a_high > b_low };
    let single = a_low == a_high && b_low == b_high && a_low == b_low;
    let equal = Truths { yes: a_low <= b_high && b_low <= a_high, no: !single };
    match by {
        Comparison::Less => less,
        Comparison::LessEqual => less_equal,
        Comparison::Greater => less_equal.not(),
        Comparison::GreaterEqual => less.not(),
        Comparison::Equal => equal,
        Comparison::NotEqual => equal.not(),
    }
}

fn interval(expression: &Expression, bounds: &impl Fn(FeatureIndex) -> (f64, f64)) -> (f64, f64) {
    let value = match expression {
        Expression::Truth(_) => {
            let truths = truths(expression, bounds);
            return (if truths.no { 0.0 } else { 1.0 }, if truths.yes { 1.0 } else { 0.0 });
        }
        Expression::Value(value) => value,
    };
    match &**value {
        Value::Number(number) => (*number, *number),
        Value::Feature(at) => bounds(*at),
        Value::Negate(a) => {
            let (low, high) = interval(a, bounds);
            (-high, -low)
        }
        Value::Log10(a) => {
            let (low, high) = interval(a, bounds);
            if low == high || low > 0.0 { (low.log10(), high.log10()) } else { (f64::NEG_INFINITY, f64::INFINITY) }
        }
        Value::Operation(by, a, b) => {
            let ((a_low, a_high), (b_low, b_high)) = (interval(a, bounds), interval(b, bounds));
            let corners = |operation: fn(f64, f64) -> f64| {
                let all = [
                    operation(a_low, b_low),
                    operation(a_low, b_high),
                    operation(a_high, b_low),
                    operation(a_high, b_high),
                ];
                if all.iter().any(|corner| corner.is_nan()) {
                    return (f64::NEG_INFINITY, f64::INFINITY);
                }
                let low = all.iter().copied().fold(f64::INFINITY, f64::min);
                (low, all.iter().copied().fold(f64::NEG_INFINITY, f64::max))
            };
            match by {
                Operator::Add => (a_low + b_low, a_high + b_high),
                Operator::Subtract => (a_low - b_high, a_high - b_low),
                Operator::Multiply => corners(|a, b| a * b),
                Operator::Divide if b_low == b_high || b_low > 0.0 || b_high < 0.0 => corners(|a, b| a / b),
                Operator::Divide => (f64::NEG_INFINITY, f64::INFINITY),
            }
        }
    }
}
