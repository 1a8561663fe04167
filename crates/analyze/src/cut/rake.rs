//! Iterative proportional fitting (raking): estimates in the cells of a table are scaled to rows and columns whose sums are known
//! (Deming and Stephan, "On a Least Squares Adjustment of a Sampled Frequency Table When the Expected Marginal Totals are
//! Known", 1940).

/// Rounds at most; tables that fit at all are done after a few.
const ROUNDS: usize = 100;
/// Relative error of a margin that is good enough.
const CLOSE: f64 = 1e-9;

/// Scales `cells` (row by row) to the sums of the rows and of the columns. Where these contradict each other, or a cell that
/// would be needed is empty, the rows win: they hold at the end as far as they have a cell at all.
pub(super) fn rake(cells: &mut [Vec<f64>], rows: &[f64], columns: &[f64]) {
    for _ in 0..ROUNDS {
        let mut worst: f64 = 0.0;
        for (column, &target) in columns.iter().enumerate() {
            let sum: f64 = cells.iter().map(|row| row[column]).sum();
            if sum > 0.0 {
                worst = worst.max((sum - target).abs() / target.max(1.0));
                cells.iter_mut().for_each(|row| row[column] *= target / sum);
            }
        }
        for (row, &target) in cells.iter_mut().zip(rows) {
            let sum: f64 = row.iter().sum();
            if sum > 0.0 {
                row.iter_mut().for_each(|cell| *cell *= target / sum);
            }
        }
        if worst < CLOSE {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn margins_that_agree_are_met() {
        let mut cells = vec![vec![4.0, 1.0, 0.0], vec![1.0, 1.0, 2.0]];
        rake(&mut cells, &[60.0, 40.0], &[50.0, 30.0, 20.0]);
        let column = |at: usize| cells.iter().map(|row| row[at]).sum::<f64>();
        for (sum, target) in [(column(0), 50.0), (column(1), 30.0), (column(2), 20.0)] {
            assert!((sum - target).abs() < 1e-6, "{sum} {target}");
        }
        assert_eq!(cells[0][2], 0.0, "an empty cell remains so");
    }

    #[test]
    fn rows_win_over_columns_that_contradict() {
        let mut cells = vec![vec![1.0, 0.0], vec![1.0, 0.0]];
        rake(&mut cells, &[30.0, 10.0], &[10.0, 30.0]);
        assert_eq!(cells, [[30.0, 0.0], [10.0, 0.0]]);
    }

    proptest! {
        #[test]
        fn rows_always_hold(
            values in proptest::collection::vec(proptest::collection::vec(0.0f64..100.0, 4), 3),
            rows in proptest::collection::vec(1.0f64..1e9, 3),
            columns in proptest::collection::vec(1.0f64..1e9, 4),
        ) {
            let mut cells = values.clone();
            rake(&mut cells, &rows, &columns);
            for (at, row) in cells.iter().enumerate() {
                let (before, sum): (f64, f64) = (values[at].iter().sum(), row.iter().sum());
                prop_assert!(row.iter().all(|cell| cell.is_finite() && *cell >= 0.0));
                prop_assert!(before == 0.0 || (sum - rows[at]).abs() <= rows[at] * 1e-6);
            }
        }
    }
}
