//! Rows that are too many for memory: sorted runs in a temporary file, merged when they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Rows that are sorted in memory and written together.
const RUN_ROWS: usize = 1 << 14;
/// Rows that are read together of each run. Runs hardly overlap, so that few are read from at a time.
const READ_ROWS: usize = 128;

/// Rows of `N` words, in order of the first and then of the second word.
#[derive(Debug)]
pub struct Runs<const N: usize> {
    file: Arc<File>,
    /// Others write to the file: rows that are added remain in memory.
    shared: bool,
    open: Vec<[u64; N]>,
    /// Rows of each run that is in the file; all but the last few are [`RUN_ROWS`].
    runs: Vec<usize>,
    /// Rows that could not be written.
    pub lost: u64,
}

impl<const N: usize> Runs<N> {
    /// An empty table whose file is in `folder` and has no name there.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let file = Arc::new(tempfile::tempfile_in(folder)?);
        Ok(Self { file, shared: false, open: Vec::new(), runs: Vec::new(), lost: 0 })
    }

    /// The rows so far, while more come.
    pub fn so_far(&self) -> Self {
        Self {
            file: self.file.clone(),
            shared: true,
            open: self.open.clone(),
            runs: self.runs.clone(),
            lost: self.lost,
        }
    }

    /// Adds a row. One that finds no room on the disk is counted as lost.
    pub fn push(&mut self, row: [u64; N]) {
        if self.open.capacity() == 0 {
            self.open.reserve_exact(RUN_ROWS);
        }
        self.open.push(row);
        if self.open.len() >= RUN_ROWS && !self.shared {
            self.write_run();
        }
    }

    /// Rows that are there.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.runs.iter().sum::<usize>() + self.open.len()
    }

    fn write_run(&mut self) {
        self.open.sort_unstable();
        let bytes: Vec<u8> = self.open.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
        let rows: usize = self.runs.iter().sum();
        match self.file.write_all_at(&bytes, offset::<N>(rows)) {
            Ok(()) => self.runs.push(self.open.len()),
            Err(_) => self.lost += self.open.len() as u64,
        }
        self.open.clear();
    }

    /// All rows in order. Nothing may be added after that.
    pub fn sorted(&mut self) -> Sorted<'_, N> {
        self.open.sort_unstable();
        let mut first = 0;
        let mut runs: Vec<Run<N>> = Vec::with_capacity(self.runs.len());
        for &rows in &self.runs {
            runs.push(Run { next: first, end: first + rows, read: Vec::new() });
            first += rows;
        }
        let mut sorted = Sorted { file: &self.file, runs, open: &self.open, heads: BinaryHeap::new(), failed: None };
        for run in 0..sorted.runs.len() {
            sorted.advance(run);
        }
        sorted
    }
}

fn offset<const N: usize>(row: usize) -> u64 {
    (row * N * size_of::<u64>()) as u64
}

/// A run that is being read.
struct Run<const N: usize> {
    /// Row in the file that is read next.
    next: usize,
    end: usize,
    /// Rows that were read, last first.
    read: Vec<[u64; N]>,
}

/// The rows of all runs in order.
pub struct Sorted<'a, const N: usize> {
    file: &'a File,
    runs: Vec<Run<N>>,
    /// Rows that were never written: a run as well.
    open: &'a [[u64; N]],
    /// First row of each run that has any left.
    heads: BinaryHeap<Reverse<([u64; N], usize)>>,
    failed: Option<io::Error>,
}

impl<const N: usize> Sorted<'_, N> {
    /// Puts a run's next row among the heads.
    fn advance(&mut self, number: usize) {
        let run = &mut self.runs[number];
        if run.read.is_empty() {
            let rows = READ_ROWS.min(run.end - run.next);
            let mut bytes = vec![0; rows * N * size_of::<u64>()];
            if let Err(error) = self.file.read_exact_at(&mut bytes, offset::<N>(run.next)) {
                self.failed = Some(error);
                return;
            }
            let (words, _) = bytes.as_chunks::<8>();
            let (rows_read, _) = words.as_chunks::<N>();
            run.read.extend(rows_read.iter().rev().map(|row| row.map(u64::from_ne_bytes)));
            run.next += rows;
        }
        if let Some(row) = run.read.pop() {
            self.heads.push(Reverse((row, number)));
        }
    }
}

impl<const N: usize> Iterator for Sorted<'_, N> {
    type Item = io::Result<[u64; N]>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.heads.clear();
            self.open = &[];
            return Some(Err(error));
        }
        let open = self.open.first();
        match self.heads.peek() {
            Some(Reverse((row, _))) if open.is_none_or(|open| row <= open) => {
                let Reverse((row, run)) = self.heads.pop()?;
                self.advance(run);
                Some(Ok(row))
            }
            _ => {
                let (row, rest) = self.open.split_first()?;
                self.open = rest;
                Some(Ok(*row))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: impl Iterator<Item = [u64; 3]>) {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = Runs::new(folder.path()).unwrap();
        let mut expected: Vec<[u64; 3]> = rows.inspect(|row| runs.push(*row)).collect();
        expected.sort_unstable();
        assert_eq!(runs.len(), expected.len());
        let sorted: Vec<[u64; 3]> = runs.sorted().map(Result::unwrap).collect();
        assert!(sorted == expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its file has no name");
    }

    #[test]
    fn rows_come_out_in_order() {
        check(std::iter::empty());
        check((0..10).map(|n| [10 - n, n, n]));
        let mut state = 1_u64;
        let random = std::iter::from_fn(move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Some([state >> 40, state >> 50, state])
        });
        check(random.take(RUN_ROWS * 5 + 77));
        // As records come: nearly sorted.
        check((0..RUN_ROWS as u64 * 3).map(|n| [n ^ 5, n, 0]));
    }

    #[test]
    fn a_full_disk_costs_rows_and_says_so() {
        let Ok(full) = File::options().read(true).write(true).open("/dev/full") else { return };
        let mut runs = Runs::<3> { file: full.into(), shared: false, open: Vec::new(), runs: Vec::new(), lost: 0 };
        (0..RUN_ROWS as u64 + 5).for_each(|n| runs.push([n, 0, 0]));
        assert_eq!(runs.lost, RUN_ROWS as u64);
        assert_eq!(runs.sorted().count(), 5);
    }
}
