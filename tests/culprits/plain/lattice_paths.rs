//! Counts the paths through a grid with holes the slow way: again from each point.
use std::time::Instant;

const SIDE: usize = 13;
type Grid = [[bool; SIDE]; SIDE];

/// A grid with a few holes, never at its corners.
fn grid_with_holes(seed: u64) -> Grid {
    let mut grid = [[true; SIDE]; SIDE];
    let mut state = seed * 2 + 1;
    for _ in 0..6 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (x, y) = ((state >> 33) as usize % SIDE, (state >> 48) as usize % SIDE);
        grid[y][x] = x + y == 0 || x + y == 2 * (SIDE - 1);
    }
    grid
}

#[inline(never)]
fn count_paths(grid: &Grid, x: usize, y: usize) -> u64 {
    if !grid[y][x] {
        return 0;
    }
    if x == 0 && y == 0 {
        return 1;
    }
    let mut paths = 0;
    if x > 0 {
        paths += count_paths(grid, x - 1, y); // culprit
    }
    if y > 0 {
        paths += count_paths(grid, x, y - 1); // culprit
    }
    paths
}

fn main() {
    let grids: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(140);
    let begin = Instant::now();
    let (mut counting, mut sum) = (0.0, 0);
    for seed in 0..grids {
        let grid = grid_with_holes(seed);
        let start = Instant::now();
        sum += count_paths(&grid, SIDE - 1, SIDE - 1);
        counting += start.elapsed().as_secs_f64();
    }
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {counting:.4}, \"wall_s\": {wall:.4}, \"result\": {sum}}}");
}
