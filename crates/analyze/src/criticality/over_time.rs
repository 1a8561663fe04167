use serde::Serialize;

use super::Source;

/// Steps at most.
const STEPS: i64 = 200;

/// Parallelism in one stretch of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OverTimeRow {
    /// Start since the recording's start, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// Mean number of active threads.
    pub mean: f64,
    /// Time in which all threads of an application waited, ns.
    pub idle_ns: i64,
}

/// The run in equal steps; empty if there are no threads.
pub(super) fn rows(source: &Source<'_>) -> Vec<OverTimeRow> {
    let (start, end) = (source.session.start_ns, source.session.end_ns);
    if end <= start || source.tables.tasks.is_empty() {
        return Vec::new();
    }
    let steps = STEPS.min(end - start);
    let mut active = Steps::new(start, end, steps);
    let mut idle = Steps::new(start, end, steps);
    for task in &source.tables.tasks {
        active.add(task.start_ns, task.end_ns, 1.0);
    }
    for wait in &source.tables.waits {
        let length = wait.end_ns - wait.begin_ns;
        if length > 0 {
            active.add(wait.begin_ns, wait.end_ns, -(wait.ns.min(length) as f64) / length as f64);
        }
        if wait.idle_ns > 0 && !wait.is_sum() {
            idle.add(wait.end_ns - wait.idle_ns, wait.end_ns, 1.0);
        } else if wait.idle_ns > 0 && length > 0 {
            idle.add(wait.begin_ns, wait.end_ns, wait.idle_ns as f64 / length as f64);
        }
    }
    let (active, idle) = (active.sums(), idle.sums());
    (0..steps)
        .map(|step| {
            let bounds = |step: i64| start + ((end - start) as i128 * step as i128 / steps as i128) as i64;
            let (from, to) = (bounds(step), bounds(step + 1));
            let width = (to - from).max(1) as f64;
            OverTimeRow {
                start_ns: from,
                end_ns: to,
                mean: (active[step as usize] / width).max(0.0),
                idle_ns: idle[step as usize].round().max(0.0) as i64,
            }
        })
        .collect()
}

/// Sums of intervals per step: whole steps by differences, ends by their part.
struct Steps {
    start: i64,
    width: f64,
    part: Vec<f64>,
    difference: Vec<f64>,
}

impl Steps {
    fn new(start: i64, end: i64, steps: i64) -> Self {
        let width = (end - start) as f64 / steps as f64;
        Self { start, width, part: vec![0.0; steps as usize], difference: vec![0.0; steps as usize + 1] }
    }

    fn add(&mut self, from: i64, to: i64, weight: f64) {
        let place = |at: i64| (((at - self.start) as f64) / self.width).clamp(0.0, self.part.len() as f64);
        let (from, to) = (place(from), place(to));
        if to <= from {
            return;
        }
        let last = self.part.len() - 1;
        let (first_step, last_step) = ((from as usize).min(last), (to as usize).min(last));
        let weight = weight * self.width;
        if first_step == last_step {
            self.part[first_step] += (to - from) * weight;
            return;
        }
        self.part[first_step] += (first_step as f64 + 1.0 - from) * weight;
        self.part[last_step] += (to - last_step as f64) * weight;
        self.difference[first_step + 1] += weight;
        self.difference[last_step] -= weight;
    }

    fn sums(self) -> Vec<f64> {
        let mut whole = 0.0;
        let sum = |(part, difference): (&f64, &f64)| {
            whole += difference;
            part + whole
        };
        self.part.iter().zip(&self.difference).map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn intervals_are_cut_at_steps() {
        let mut steps = Steps::new(100, 200, 5);
        steps.add(110, 165, 1.0);
        steps.add(150, 152, -0.5);
        steps.add(0, 104, 1.0);
        assert_eq!(steps.sums(), [14.0, 20.0, 19.0, 5.0, 0.0]);
    }
}
