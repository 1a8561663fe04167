use crate::Problem;

/// How a numeric feature gets from one value to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// `x + c`.
    Add(f64),
    /// `x * c`.
    Multiply(f64),
    /// `x ^ c`.
    Power(f64),
    /// `c ^ x`.
    Exponential(f64),
}

impl Step {
    /// The value after `x`.
    pub fn next(self, x: f64) -> f64 {
        match self {
            Self::Add(c) => x + c,
            Self::Multiply(c) => decimal(x * c, x * c),
            Self::Power(c) => x.powf(c),
            Self::Exponential(c) => c.powf(x),
        }
    }

    /// Reads `x + 1`, `2 * x`, `x ^ 2`, `2 ^ x`; the variable may have any name.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let wrong =
            || Problem::Word { found: text.trim().into(), expected: "a step such as `x + 1`, `x * 2` or `2 ^ x`" };
        let at = text.find(['+', '*', '^']).ok_or_else(wrong)?;
        let (left, right) = (text[..at].trim(), text[at + 1..].trim());
        let is_variable = |side: &str| side.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let constant = |side: &str| side.parse::<f64>().ok().filter(|c| c.is_finite());
        match (text.as_bytes()[at], is_variable(left), is_variable(right)) {
            (b'+', true, false) => constant(right).map(Self::Add),
            (b'+', false, true) => constant(left).map(Self::Add),
            (b'*', true, false) => constant(right).map(Self::Multiply),
            (b'*', false, true) => constant(left).map(Self::Multiply),
            (b'^', true, false) => constant(right).map(Self::Power),
            (b'^', false, true) => constant(left).map(Self::Exponential),
            _ => None,
        }
        .ok_or_else(wrong)
    }
}

/// The values that a numeric feature can have.
#[derive(Debug, Clone, PartialEq)]
pub enum Domain {
    /// These, ascending, without repetition, never empty.
    Values(Vec<f64>),
    /// From `min` by steps to at most `max`.
    Range {
        /// Smallest value.
        min: f64,
        /// Bound of the values.
        max: f64,
        /// How to go on.
        step: Step,
    },
}

/// Values of a range that are looked at one by one, at most.
const WALK_LIMIT: usize = 100_000;

impl Domain {
    /// Smallest value.
    pub fn min(&self) -> f64 {
        match self {
            Self::Values(values) => values[0],
            Self::Range { min, .. } => *min,
        }
    }

    /// Bound of the largest value.
    pub fn max(&self) -> f64 {
        match self {
            Self::Values(values) => values[values.len() - 1],
            Self::Range { max, .. } => *max,
        }
    }

    /// The values in order, endless ones cut by the caller.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        let mut place = 0_usize;
        let mut current = Some(self.min());
        std::iter::from_fn(move || match self {
            Self::Values(values) => {
                place += 1;
                values.get(place - 1).copied()
            }
            Self::Range { min, max, step } => {
                let value = current?;
                place += 1;
                // Not summed up, so that 0.1 ten times is 1.
                let next = match step {
                    Step::Add(c) => nth(*min, *c, place as f64),
                    other => other.next(value),
                };
                current = (next > value && next <= *max).then_some(next);
                Some(value)
            }
        })
    }

    /// Number of values, or `None` if there are more than `limit`.
    pub fn count(&self, limit: usize) -> Option<usize> {
        let count = self.iter().take(limit.saturating_add(1)).count();
        (count <= limit).then_some(count)
    }

    /// Whether it is one of the values.
    pub fn contains(&self, value: f64) -> bool {
        match self {
            Self::Values(values) => values.contains(&value),
            Self::Range { min, max, step: Step::Add(c) } => {
                let steps = ((value - min) / c).round();
                value >= *min && value <= *max && (min + c * steps - value).abs() <= 1e-9 * value.abs().max(1.0)
            }
            Self::Range { .. } => self.iter().take(WALK_LIMIT).any(|own| own == value),
        }
    }

    /// At most `count` values spread over the range, the smallest and the largest among them.
    pub fn spread(&self, count: usize) -> Vec<f64> {
        if let Some(all) = self.count(count) {
            return self.iter().take(all).collect();
        }
        let places = |len: usize| (0..count).map(move |i| if count < 2 { 0 } else { i * (len - 1) / (count - 1) });
        match self {
            Self::Values(values) => places(values.len()).map(|place| values[place]).collect(),
            Self::Range { min, max, step: Step::Add(c) } => {
                let steps = ((max - min) / c).floor();
                // 0.3 / 0.1 is less than 3.
                let last = if nth(*min, *c, steps + 1.0) <= *max { steps + 1.0 } else { steps };
                let part = |i: usize| if count < 2 { 0.0 } else { (last * i as f64 / (count - 1) as f64).floor() };
                (0..count).map(|i| nth(*min, *c, part(i)).min(*max)).collect()
            }
            Self::Range { .. } => {
                let all: Vec<f64> = self.iter().take(WALK_LIMIT).collect();
                places(all.len()).map(|place| all[place]).collect()
            }
        }
    }
}

impl Domain {
    /// A range as models give it: step 1 if none is said.
    pub(crate) fn range(name: &str, min: Option<f64>, max: Option<f64>, step: Option<Step>) -> Result<Self, Problem> {
        let (Some(min), Some(max)) = (min, max) else {
            let none = min.is_none() && max.is_none();
            return Err(if none { Problem::NoValues(name.into()) } else { Problem::HalfDomain(name.into()) });
        };
        if max < min {
            return Err(Problem::NoValues(name.into()));
        }
        let step = step.unwrap_or(Step::Add(1.0));
        let leads_on = step.next(min) > min || (max - min).abs() <= f64::EPSILON * max.abs() || stalls(min, step);
        if !leads_on {
            return Err(Problem::Step { feature: name.into(), from: min });
        }
        Ok(Self::Range { min, max, step })
    }
}

/// The value after so many steps `x + c`.
fn nth(min: f64, c: f64, steps: f64) -> f64 {
    let way = c * steps;
    decimal(min + way, min.abs().max(way.abs()))
}

/// A fraction as models write it: 0.3, not 0.30000000000000004. Digits that numbers of this `scale` can't have are rounding.
fn decimal(value: f64, scale: f64) -> f64 {
    /// Decimal digits that any number keeps.
    const DIGITS: f64 = 15.0;
    let digits = DIGITS - 1.0 - scale.abs().log10().floor();
    if value.fract() == 0.0 || !(0.0..=60.0).contains(&digits) {
        return value;
    }
    // Without the sign of a zero.
    format!("{value:.*}", digits as usize).parse().map_or(value, |rounded: f64| rounded + 0.0)
}

/// Whether a step is only lost in rounding: `x + 1` at 9e18.
fn stalls(min: f64, step: Step) -> bool {
    matches!(step, Step::Add(c) if c > 0.0 && min + c == min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_with_the_constant_on_either_side() {
        for (text, step) in [
            ("x + 3", Step::Add(3.0)),
            ("3 + x", Step::Add(3.0)),
            ("level*2", Step::Multiply(2.0)),
            ("2 * level", Step::Multiply(2.0)),
            ("x ^ 2", Step::Power(2.0)),
            ("2 ^ x", Step::Exponential(2.0)),
        ] {
            assert_eq!(Step::parse(text).unwrap(), step, "{text}");
        }
        assert_eq!((Step::Power(2.0).next(3.0), Step::Exponential(2.0).next(3.0)), (9.0, 8.0));
        for text in ["x", "1 + 2", "x - 1", "x ^ y", "x + inf"] {
            assert!(Step::parse(text).is_err(), "{text}");
        }
    }
}
