//! Chance in when and whom it is looked at, so that no rhythm of a program keeps step with it.

/// The next number of a 64-bit xorshift generator (Marsaglia 2003), whose state is not 0.
pub(super) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Between half of `period` and one and a half.
pub(super) fn around(period: u64, state: &mut u64) -> u64 {
    period / 2 + random(state) % period.max(1)
}
