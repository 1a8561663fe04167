//! Histograms over time: what the cumulative histograms gained between two readings.

use std::collections::HashMap;

use transect_profile_model::{LatencyId, LatencySlice};

use super::BucketScale;

/// Slices of a picture: about as many columns as a screen can tell apart. Slices become twice as wide when a run takes
/// longer, so memory is bounded by functions × slices, not by the length of the run.
const MOST_SLICES: u32 = 256;

/// Collects the samples of each function and bucket per slice of time.
#[derive(Debug)]
pub struct TimeSlices {
    start_ns: i64,
    width_ns: i64,
    last_cut_ns: i64,
    /// Middle of the time before the last cut.
    middle_ns: i64,
    functions: HashMap<LatencyId, Function>,
}

#[derive(Debug, Default)]
struct Function {
    samples: u64,
    /// The histogram at the last cut, without empty buckets.
    seen: Vec<(u16, u32)>,
    /// Ascending by slice, then by bucket.
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    slice: u32,
    bucket: u16,
    count: u32,
}

/// One reading of all histograms; see [`TimeSlices::cut`].
#[derive(Debug)]
pub struct Cut<'a> {
    slice: u32,
    functions: &'a mut HashMap<LatencyId, Function>,
}

impl TimeSlices {
    /// Slices from `start_ns` (since the recording's start) on, `width_ns` wide at first.
    pub fn new(start_ns: i64, width_ns: i64) -> Self {
        Self {
            start_ns,
            width_ns: width_ns.max(1),
            last_cut_ns: start_ns,
            middle_ns: start_ns,
            functions: HashMap::new(),
        }
    }

    /// When the histograms should be read next, ns since the recording's start.
    pub fn due_ns(&self) -> i64 {
        let slices = (self.last_cut_ns - self.start_ns) / self.width_ns + 1;
        self.start_ns + slices * self.width_ns
    }

    /// Reads the histograms at `now_ns`: what each function has gained since the last cut belongs to the time
    /// between. Several cuts at one time (one for each process) are one.
    pub fn cut(&mut self, now_ns: i64) -> Cut<'_> {
        if now_ns > self.last_cut_ns {
            // A reading comes a little late as a rule: the middle of the time between tells which slice it is.
            self.middle_ns = i64::midpoint(self.last_cut_ns, now_ns);
            self.last_cut_ns = now_ns;
        }
        while (self.middle_ns - self.start_ns) / self.width_ns >= i64::from(MOST_SLICES) {
            self.width_ns *= 2;
            self.functions.values_mut().for_each(Function::halve);
        }
        let slice = u32::try_from((self.middle_ns - self.start_ns) / self.width_ns).unwrap_or(0);
        Cut { slice, functions: &mut self.functions }
    }

    /// All cells, by function, slice and duration.
    pub fn rows(&self, scale: &BucketScale) -> Vec<LatencySlice> {
        let mut functions: Vec<_> = self.functions.iter().collect();
        functions.sort_by_key(|&(&id, _)| id);
        let mut rows = Vec::new();
        for (&latency, function) in functions {
            for cells in function.cells.chunk_by(|a, b| a.slice == b.slice) {
                let start_ns = self.start_ns + i64::from(cells[0].slice) * self.width_ns;
                let buckets = cells.iter().map(|cell| (usize::from(cell.bucket), u64::from(cell.count)));
                rows.extend(scale.merged(buckets).into_iter().map(|bucket| LatencySlice {
                    latency,
                    start_ns,
                    end_ns: start_ns + self.width_ns,
                    bucket,
                }));
            }
        }
        rows
    }
}

impl Cut<'_> {
    /// One function's cumulative sample count and histogram. `counts` is asked only if there are new samples: pages
    /// of histograms that nobody wrote to are not touched.
    pub fn function<I: IntoIterator<Item = u32>>(&mut self, id: LatencyId, samples: u64, counts: impl FnOnce() -> I) {
        if samples == 0 {
            return;
        }
        let function = self.functions.entry(id).or_default();
        if function.samples == samples {
            return;
        }
        function.samples = samples;
        let before = std::mem::take(&mut function.seen);
        let mut old = before.iter().copied().peekable();
        for (bucket, count) in counts().into_iter().enumerate().filter(|&(_, count)| count > 0) {
            let bucket = bucket as u16;
            while old.next_if(|&(b, _)| b < bucket).is_some() {}
            let before = old.next_if(|&(b, _)| b == bucket).map_or(0, |(_, count)| count);
            function.seen.push((bucket, count));
            function.add(Cell { slice: self.slice, bucket, count: count.wrapping_sub(before) });
        }
    }
}

impl Function {
    fn add(&mut self, cell: Cell) {
        if cell.count == 0 {
            return;
        }
        // Cuts come in order of time, so only the last slice's cells are searched.
        let first = self.cells.partition_point(|c| c.slice < cell.slice);
        match self.cells[first..].binary_search_by_key(&cell.bucket, |c| c.bucket) {
            Ok(at) => self.cells[first + at].count = self.cells[first + at].count.saturating_add(cell.count),
            Err(at) => self.cells.insert(first + at, cell),
        }
    }

    /// Makes pairs of slices one.
    fn halve(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        cells.iter_mut().for_each(|cell| cell.slice /= 2);
        cells.sort_by_key(|cell| (cell.slice, cell.bucket));
        for cell in cells {
            match self.cells.last_mut() {
                Some(last) if (last.slice, last.bucket) == (cell.slice, cell.bucket) => {
                    last.count = last.count.saturating_add(cell.count);
                }
                _ => self.cells.push(cell),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use transect_calibrate::TimedCall;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn scale() -> BucketScale {
        BucketScale::new(
            1.0,
            TimedCall {
                empty: 0,
                added: 0,
                cost_ticks: 0.0,
                empty_cost_ticks: 0.0,
                count_ticks: 0.0,
                arming_ticks: 0.0,
            },
        )
    }

    #[test]
    fn what_is_gained_between_cuts_lies_in_their_slice() {
        let mut slices = TimeSlices::new(5, 100);
        assert_eq!(slices.due_ns(), 105);
        slices.cut(106).function(0, 3, || [0, 3]);
        assert_eq!(slices.due_ns(), 205);
        slices.cut(205).function(0, 3, || -> [u32; 2] { panic!("nothing new") });
        let mut cut = slices.cut(309);
        cut.function(0, 6, || [1, 4, 1]);
        cut.function(7, 2, || [2]);
        let rows: Vec<_> = slices
            .rows(&scale())
            .iter()
            .map(|row| (row.latency, row.start_ns, row.end_ns, row.bucket.low, row.bucket.count))
            .collect();
        let expected =
            [(0, 5, 105, 1, 3), (0, 205, 305, 0, 1), (0, 205, 305, 1, 1), (0, 205, 305, 2, 1), (7, 205, 305, 0, 2)];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_long_run_has_wider_slices_and_loses_no_sample() {
        let mut slices = TimeSlices::new(0, SECOND / 100);
        let mut counts = vec![0_u32; 40];
        let mut now = 0;
        let mut samples = 0;
        for step in 0..50_000_u64 {
            now = step as i64 * SECOND / 100 + 1_000;
            if now >= slices.due_ns() {
                slices.cut(now).function(3, samples, || counts.clone());
            }
            counts[(step % 37) as usize] += 1 + (step % 3) as u32;
            samples += 1 + step % 3;
        }
        slices.cut(now).function(3, samples, || counts.clone());
        let rows = slices.rows(&scale());
        assert_eq!(rows.iter().map(|row| row.bucket.count).sum::<i64>(), samples as i64);
        let width = rows[0].end_ns - rows[0].start_ns;
        let count = (now + width - 1) / width;
        assert!(count > i64::from(MOST_SLICES) / 2 - 2 && count <= i64::from(MOST_SLICES) + 1, "{count}");
        assert!(rows.iter().all(|row| row.end_ns - row.start_ns == width && row.start_ns % width == 0));
        let order: Vec<_> = rows.iter().map(|row| (row.latency, row.start_ns, row.bucket.low)).collect();
        assert!(order.is_sorted() && order.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn cuts_at_one_time_are_of_one_slice() {
        let mut slices = TimeSlices::new(0, 100);
        for id in 0..3 {
            slices.cut(200).function(id, 1, || [1]);
        }
        assert!(slices.rows(&scale()).iter().all(|row| row.start_ns == 100));
    }

    #[test]
    fn a_reader_that_was_held_up_loses_nothing() {
        let mut slices = TimeSlices::new(0, 10);
        slices.cut(1_000_000).function(1, 5, || [5]);
        slices.cut(999_000).function(1, 6, || [6]);
        let rows = slices.rows(&scale());
        assert_eq!(rows.iter().map(|row| row.bucket.count).sum::<i64>(), 6);
    }
}
