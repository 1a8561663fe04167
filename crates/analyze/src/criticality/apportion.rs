//! Integers that add up.

/// Divides `total` among `weights` in proportion, so that the parts add up to `total` exactly (largest remainders;
/// ties go to the earlier one). Nothing is given if all weights are zero.
pub(crate) fn apportion(total: i64, weights: &[i64]) -> Vec<i64> {
    let sum: i128 = weights.iter().map(|&weight| i128::from(weight.max(0))).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let whole = |weight: i64| i128::from(total) * i128::from(weight.max(0));
    let mut parts: Vec<i64> = weights.iter().map(|&weight| whole(weight).div_euclid(sum) as i64).collect();
    let missing = total - parts.iter().sum::<i64>();
    let mut order: Vec<usize> = (0..weights.len()).filter(|&at| weights[at] > 0).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(whole(weights[at]).rem_euclid(sum)), at));
    for at in order.into_iter().take(missing.max(0) as usize) {
        parts[at] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::apportion;

    proptest! {
        #[test]
        fn parts_add_up_and_are_in_proportion(
            total in 0i64..1 << 50,
            weights in proptest::collection::vec(0i64..1 << 40, 1..40),
        ) {
            let parts = apportion(total, &weights);
            let sum: i64 = weights.iter().sum();
            prop_assert_eq!(parts.iter().sum::<i64>(), if sum == 0 { 0 } else { total });
            for (part, weight) in parts.iter().zip(&weights).filter(|_| sum > 0) {
                let exact = i128::from(total) * i128::from(*weight);
                prop_assert!((i128::from(*part) * i128::from(sum) - exact).abs() <= i128::from(sum));
            }
        }
    }
}
