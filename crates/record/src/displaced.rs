//! What timed calls take of a program's time outside of the agent: for the estimate of the overhead only.

/// A timed call reads the clock behind fences, and finds caches and predictions displaced: what the program does about it does
/// not overlap with its other work any more. So much of the time in the agent at most; by programs' own clocks, with and without a
/// recording, as the next two.
const MOST: f64 = 0.35;
/// With so much work of the program's between timed calls, by the time of one in the agent, it is half of that. In less work there
/// is less to overlap.
const HALF: f64 = 0.36;
/// Program's own time by the agent's where calls of the shortest functions are all that is done: 4 of 150 ns.
const LEAST_OWN: f64 = 0.03;

/// What a program would have taken for its own work, which took `outside` ns beside timed calls that took `timed` ns in the agent.
pub(crate) fn own_ns(outside: f64, timed: f64) -> f64 {
    if timed <= 0.0 {
        return outside;
    }
    let work = (outside.max(0.0) / timed / HALF).powf(2.5);
    let displaced = MOST * timed * (work / (1.0 + work));
    (outside - if displaced.is_finite() { displaced } else { MOST * timed }).max(LEAST_OWN * timed)
}

#[cfg(test)]
mod tests {
    use super::own_ns;

    #[test]
    fn work_between_timed_calls_would_have_overlapped() {
        // Measured, ns for each timed call: in the agent, outside of it, and what the program takes alone. Every call is timed of
        // strlen and memchr in a loop, threads that allocate, SQLite, Perl, sorting strings by strcmp, Python; then every third of
        // SQLite, Perl and sorting, and every tenth of threads and SQLite.
        let measured = [
            (154.9, 2.7, 5.0),
            (145.4, 3.8, 3.7),
            (135.2, 22.8, 17.6),
            (133.6, 33.9, 21.3),
            (165.6, 71.9, 34.2),
            (138.8, 100.4, 52.4),
            (174.6, 124.1, 58.7),
            (217.4, 139.1, 57.9),
            (173.4, 141.9, 87.1),
            (211.0, 51.3, 40.2),
            (195.4, 310.7, 197.9),
        ];
        for (timed, outside, alone) in measured {
            let own = own_ns(outside * 1e6, timed * 1e6) / 1e6;
            let factor = (timed + outside) / own / ((timed + outside) / alone);
            assert!((0.72..1.34).contains(&factor), "{timed} {outside}: {own} of {alone}");
        }
        // Rare calls displace so much and no more; where none is timed nothing is.
        assert!((own_ns(1e9, 1e6) - (1e9 - 3.5e5)).abs() < 1e3);
        assert_eq!((own_ns(1e9, 0.0), own_ns(0.0, 0.0)), (1e9, 0.0));
    }
}
