//! A term's distribution over all sets of terms that explain the times: nothing in sets without it, Student's t in others.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Half of what lies outside of an interval.
const TAIL: f64 = 0.025;

/// Student's t with a weight.
struct Part {
    weight: f64,
    center: f64,
    width: f64,
    shape: StudentsT,
}

/// A term's distribution.
pub(crate) struct Mixture {
    parts: Vec<Part>,
    /// Weight of sets without the term.
    nothing: f64,
}

impl Mixture {
    /// Without any term so far.
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new(), nothing: 1.0 }
    }

    /// Adds what one set says, by its weight.
    pub(crate) fn add(&mut self, weight: f64, center: f64, width: f64, freedom: f64) {
        if let Ok(shape) = StudentsT::new(0.0, 1.0, freedom.max(0.5)) {
            self.parts.push(Part { weight, center, width: width.max(f64::MIN_POSITIVE), shape });
            self.nothing = (self.nothing - weight).max(0.0);
        }
    }

    /// Probability that there is such a term.
    pub(crate) fn probability(&self) -> f64 {
        self.parts.iter().map(|part| part.weight).sum::<f64>().min(1.0)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.parts.iter().map(|part| part.weight * part.center).sum()
    }

    /// The 95 % interval, within `limits`.
    pub(crate) fn interval(&self, limits: (f64, f64)) -> (f64, f64) {
        (self.quantile(TAIL, limits), self.quantile(1.0 - TAIL, limits))
    }

    fn quantile(&self, share: f64, (mut low, mut high): (f64, f64)) -> f64 {
        let least = (high - low) * 1e-9;
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.below(middle) < share {
                low = middle;
            } else {
                high = middle;
            }
            if high - low < least {
                break;
            }
        }
        (low + high) / 2.0
    }

    fn below(&self, number: f64) -> f64 {
        let part = |part: &Part| part.weight * part.shape.cdf((number - part.center) / part.width);
        let nothing = if number >= 0.0 { self.nothing } else { 0.0 };
        nothing + self.parts.iter().map(part).sum::<f64>()
    }
}
