//! Strongly connected components that nobody leaves.

/// Knots of a directed graph: components without edges to other components. Nodes without any edge are none.
pub(super) fn knots(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut touched = vec![false; nodes];
    for &(from, to) in edges {
        next[from].push(to);
        (touched[from], touched[to]) = (true, true);
    }
    let component = components(&next);
    let mut leaves = vec![false; nodes];
    for &(from, to) in edges {
        leaves[component[from]] |= component[from] != component[to];
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for node in (0..nodes).filter(|&node| touched[node] && !leaves[component[node]]) {
        members[component[node]].push(node);
    }
    members.retain(|members| !members.is_empty());
    members
}

/// Number of each node's strongly connected component (Tarjan's algorithm without recursion).
fn components(next: &[Vec<usize>]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    let mut order = vec![NEW; next.len()];
    let mut low = vec![0; next.len()];
    let mut component = vec![NEW; next.len()];
    let (mut stack, mut found, mut seen) = (Vec::new(), 0, 0);
    for root in 0..next.len() {
        let mut open = vec![(root, 0)];
        while let Some((node, edge)) = open.pop() {
            if edge == 0 {
                if order[node] != NEW {
                    continue;
                }
                (order[node], low[node]) = (seen, seen);
                seen += 1;
                stack.push(node);
            }
            if let Some(&child) = next[node].get(edge) {
                open.push((node, edge + 1));
                if order[child] == NEW {
                    open.push((child, 0));
                }
                continue;
            }
            for &child in &next[node] {
                if component[child] == NEW {
                    low[node] = low[node].min(low[child]);
                }
            }
            if low[node] == order[node] {
                while let Some(member) = stack.pop() {
                    component[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::knots;

    #[test]
    fn loops_and_sinks_are_knots() {
        // 0 → 1 ⇄ 2, 0 → 3, 4 ⇄ 5 → 3, 6 has no edge.
        let edges = [(0, 1), (1, 2), (2, 1), (0, 3), (4, 5), (5, 4), (5, 3)];
        assert_eq!(knots(7, &edges), [vec![1, 2], vec![3]]);
        assert_eq!(knots(2, &[(1, 1)]), [vec![1]]);
        // A ring as long as a deep stack.
        let ring: Vec<(usize, usize)> = (0..100_000).map(|n| (n, (n + 1) % 100_000)).collect();
        assert_eq!(knots(100_000, &ring)[0].len(), 100_000);
    }

    proptest! {
        #[test]
        fn equals_reachability(edges in proptest::collection::vec((0usize..9, 0usize..9), 0..30)) {
            let mut reach = [[false; 9]; 9];
            edges.iter().for_each(|&(from, to)| reach[from][to] = true);
            for via in 0..9 {
                for from in 0..9 {
                    for to in 0..9 {
                        reach[from][to] |= reach[from][via] && reach[via][to];
                    }
                }
            }
            let touched = |node: usize| edges.iter().any(|&(from, to)| from == node || to == node);
            let in_knot = |node: usize| touched(node) && (0..9).all(|to| !reach[node][to] || reach[to][node]);
            let mut found: Vec<usize> = knots(9, &edges).concat();
            found.sort_unstable();
            prop_assert_eq!(found, (0..9).filter(|&node| in_knot(node)).collect::<Vec<_>>());
        }
    }
}
