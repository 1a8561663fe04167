//! What timing adds to the program while several probes are on at once: the windows of probes that were armed together
//! overlap, and the time that the calls of one took to be timed lies in the windows of all others, too.

/// A stretch of time that calls of one probe were timed in.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Its first call, ticks.
    pub start: f64,
    /// Its length, ticks.
    pub length: f64,
    /// What timing its calls took in all, ticks.
    pub cost: f64,
}

impl Span {
    fn end(&self) -> f64 {
        self.start + self.length.max(1.0)
    }
}

/// What timing took up to each point in time; between two points at an even rate.
#[derive(Debug, Default)]
pub struct Disturbance {
    points: Vec<(f64, f64)>,
}

impl Disturbance {
    /// Calls come evenly in each span.
    pub fn of(spans: &[Span]) -> Self {
        let mut edges: Vec<(f64, f64)> = spans
            .iter()
            .flat_map(|span| {
                let rate = span.cost / span.length.max(1.0);
                [(span.start, rate), (span.end(), -rate)]
            })
            .collect();
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut points, mut rate, mut sum) = (Vec::with_capacity(edges.len()), 0.0, 0.0);
        let mut before = edges.first().map_or(0.0, |edge| edge.0);
        for (at, change) in edges {
            sum += rate * (at - before);
            points.push((at, sum));
            rate += change;
            before = at;
        }
        Self { points }
    }

    /// Ticks of the span that timing took, that of other probes' calls included.
    pub fn within(&self, span: &Span) -> f64 {
        (self.up_to(span.end()) - self.up_to(span.start)).max(span.cost)
    }

    fn up_to(&self, at: f64) -> f64 {
        let next = self.points.partition_point(|point| point.0 <= at);
        match (next.checked_sub(1).map(|last| self.points[last]), self.points.get(next)) {
            (None, _) => 0.0,
            (Some(last), None) => last.1,
            (Some(last), Some(next)) => last.1 + (next.1 - last.1) * (at - last.0) / (next.0 - last.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }

    #[test]
    fn alone_it_is_its_own_cost() {
        let span = Span { start: 1e15, length: 1000.0, cost: 70.0 };
        near(Disturbance::of(&[span]).within(&span), 70.0);
        let moment = Span { start: 5.0, length: 0.0, cost: 3.0 };
        near(Disturbance::of(&[moment]).within(&moment), 3.0);
    }

    #[test]
    fn others_count_for_the_part_that_overlaps() {
        let (long, short) =
            (Span { start: 100.0, length: 1000.0, cost: 10.0 }, Span { start: 600.0, length: 1000.0, cost: 200.0 });
        let apart = Span { start: 5000.0, length: 10.0, cost: 1.0 };
        let all = Disturbance::of(&[long, short, apart]);
        near(all.within(&long), 10.0 + 100.0);
        near(all.within(&short), 200.0 + 5.0);
        near(all.within(&apart), 1.0);
    }
}
