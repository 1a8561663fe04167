//! Parts that add up to a whole. Times of components come from estimates, of calls and of samples, each of which is off by its own
//! chance: together they are more than there was, or less.

/// So much more than they were estimated at parts may be made, in proportion; what then is left is in none of them.
const MOST_MORE: f64 = 0.1;

/// A part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Part {
    /// Its time, ns.
    pub ns: i64,
    /// The same, each instant divided by the number of active threads.
    pub attributed: f64,
    /// Not every call that it was measured by was timed.
    pub is_estimate: bool,
}

/// Changes estimates in proportion so that all parts add up to `whole`, and their attributed times, none of which is more than
/// the time, to `attributed`. Returns what is in no part. Exact parts are kept, even if they are too many: calls inside of
/// callbacks are their own time and that of the API that called back.
pub(crate) fn add_up(parts: &mut [Part], whole: i64, attributed: f64) -> Part {
    let sum =
        |parts: &mut dyn Iterator<Item = &Part>| parts.fold(0_i64, |sum, part| sum.saturating_add(part.ns.max(0)));
    let estimated = sum(&mut parts.iter().filter(|part| part.is_estimate));
    let gap = whole.saturating_sub(sum(&mut parts.iter()));
    let change = gap.clamp(-estimated, (estimated as f64 * MOST_MORE) as i64);
    let (mut before, mut given) = (0_i64, 0_i64);
    for part in parts.iter_mut().filter(|part| part.is_estimate && part.ns > 0 && change != 0) {
        // Whole numbers that add up: each gets what all up to it should have, less what they got.
        before = before.saturating_add(part.ns);
        let own = ((change as f64 * (before as f64 / estimated as f64)).round() as i64).saturating_sub(given);
        given = given.saturating_add(own);
        let after = part.ns.saturating_add(own).max(0);
        part.attributed *= after as f64 / part.ns as f64;
        part.ns = after;
    }
    let rest = gap.saturating_sub(given);
    if rest < 0 {
        return Part::default();
    }
    let rest_attributed = if whole > 0 { attributed * rest as f64 / whole as f64 } else { 0.0 };
    attribute(parts, attributed - rest_attributed);
    Part { ns: rest, attributed: rest_attributed, is_estimate: true }
}

fn attribute(parts: &mut [Part], attributed: f64) {
    parts.iter_mut().for_each(|part| part.attributed = part.attributed.clamp(0.0, part.ns.max(0) as f64));
    let sum: f64 = parts.iter().map(|part| part.attributed).sum();
    let room: f64 = parts.iter().map(|part| part.ns.max(0) as f64 - part.attributed).sum();
    for part in parts {
        if sum > attributed {
            part.attributed *= attributed.max(0.0) / sum;
        } else if room > 0.0 {
            part.attributed += (part.ns.max(0) as f64 - part.attributed) * ((attributed - sum) / room).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(ns: i64, attributed: f64, is_estimate: bool) -> Part {
        Part { ns, attributed, is_estimate }
    }

    #[test]
    fn estimates_give_way_and_exact_parts_stay() {
        let mut parts = [part(600, 600.0, true), part(300, 300.0, true), part(200, 200.0, false)];
        let rest = add_up(&mut parts, 1000, 1000.0);
        assert_eq!((rest.ns, parts.map(|part| part.ns)), (0, [533, 267, 200]));
        // The only thread: attributed is all of it.
        assert!(parts.iter().all(|part| (part.attributed - part.ns as f64).abs() < 1e-6), "{parts:?}");
    }

    #[test]
    fn what_is_far_from_covered_is_left() {
        let mut parts = [part(500, 500.0, true), part(100, 100.0, false)];
        let rest = add_up(&mut parts, 1000, 1000.0);
        assert_eq!((parts[0].ns, parts[1].ns, rest.ns), (550, 100, 350));
        let mut exact = [part(600, 600.0, false), part(500, 500.0, false)];
        assert_eq!(add_up(&mut exact, 1000, 1000.0).ns, 0, "callbacks");
        assert_eq!(exact, [part(600, 600.0, false), part(500, 500.0, false)]);
    }

    #[test]
    fn damaged_times_are_no_crash() {
        let mut parts = [part(i64::MAX, 1.0, true), part(i64::MAX, 1.0, true), part(i64::MIN, 1.0, false)];
        add_up(&mut parts, i64::MIN, 1.0);
        add_up(&mut parts, i64::MAX, 1.0);
    }

    proptest! {
        #[test]
        fn parts_and_the_rest_are_the_whole(
            parts in prop::collection::vec((0..1_000_000_i64, 0.0..1.0_f64, prop::bool::weighted(0.8)), 0..20),
            whole in 0..10_000_000_i64,
            share in 0.0..=1.0_f64,
        ) {
            let mut fitted: Vec<Part> =
                parts.iter().map(|&(ns, share, is_estimate)| part(ns, ns as f64 * share, is_estimate)).collect();
            let attributed = whole as f64 * share;
            let rest = add_up(&mut fitted, whole, attributed);
            let exact: i64 = fitted.iter().filter(|part| !part.is_estimate).map(|part| part.ns).sum();
            let sum = fitted.iter().map(|part| part.ns).sum::<i64>() + rest.ns;
            prop_assert!(sum == whole || exact > whole && sum == exact, "{sum} of {whole}");
            for (after, before) in fitted.iter().zip(&parts) {
                prop_assert!(after.ns >= 0 && after.attributed <= after.ns as f64 + 1e-6, "{after:?}");
                prop_assert!(after.is_estimate || after.ns == before.0);
                // By a tenth at most, and what rounding gives.
                prop_assert!(after.ns as f64 <= before.0 as f64 * 1.1 + 2.0, "{after:?} was {before:?}");
            }
            if exact <= whole {
                let sum: f64 = fitted.iter().map(|part| part.attributed).sum::<f64>() + rest.attributed;
                prop_assert!((sum - attributed).abs() <= 1e-6 * whole as f64 + 1.0, "{sum} of {attributed}");
            }
        }
    }
}
