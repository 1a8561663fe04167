//! Terms that stand in for each other.

/// Probability from which on it is sure that there is a term.
const SURE: f64 = 0.95;
/// Probability below which a term is none of several.
const LEAST: f64 = 0.05;
/// Share of a column's sets that are without the others of its group, at least.
const APART: f64 = 0.7;
/// Terms in one group, at most; more are no finding.
const GROUP: usize = 4;

/// Groups of columns: in nearly all sets there is one of them, in none of the columns alone.
pub(crate) fn confounded(sets: &[(&[u16], f64)], columns: usize) -> Vec<Vec<usize>> {
    let any = |group: &[usize]| {
        let has = |model: &[u16]| group.iter().any(|own| model.binary_search(&(*own as u16)).is_ok());
        sets.iter().filter(|(model, _)| has(model)).map(|(_, weight)| weight).sum::<f64>()
    };
    let alone: Vec<f64> = (0..columns).map(|column| any(&[column])).collect();
    let mut doubtful: Vec<usize> = (1..columns).filter(|column| (LEAST..SURE).contains(&alone[*column])).collect();
    doubtful.sort_by(|a, b| alone[*b].total_cmp(&alone[*a]).then(a.cmp(b)));
    let mut found: Vec<Vec<usize>> = Vec::new();
    for first in &doubtful {
        if found.iter().any(|group| group.contains(first)) {
            continue;
        }
        let mut group = vec![*first];
        while any(&group) < SURE && group.len() < GROUP {
            let with = |column: &usize| any(&[&group[..], &[*column]].concat());
            // One that replaces the others is seldom beside them.
            let replaces = |column: &&usize| with(column) - any(&group) >= APART * alone[**column];
            let open = |column: &&usize| !group.contains(column) && !found.iter().any(|own| own.contains(column));
            let rest = doubtful.iter().filter(open).filter(replaces);
            let Some(next) = rest.copied().max_by(|a, b| with(a).total_cmp(&with(b))) else { break };
            group.push(next);
        }
        if any(&group) >= SURE {
            group.sort_unstable();
            found.push(group);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_replace_each_other_are_a_group() {
        let sets: [(&[u16], f64); 3] = [(&[0, 1, 4], 0.5), (&[0, 2, 4], 0.4), (&[0, 1, 3, 4], 0.1)];
        assert_eq!(confounded(&sets, 5), [vec![1, 2]]);
        // Something that is in some sets beside the others replaces nothing.
        let sets: [(&[u16], f64); 2] = [(&[0, 1], 0.6), (&[0, 1, 2], 0.4)];
        assert!(confounded(&sets, 3).is_empty());
    }
}
