//! Free places in this process' address space, near code.

use std::ops::Range;

use crate::error::Error;

/// Furthest that a jump of five bytes reaches, with some room for what the trampoline itself refers to.
const REACH: u64 = (1 << 31) - (1 << 20);

/// Lowest address given out: null pointers and `vm.mmap_min_addr` lie below.
const LOWEST: u64 = 1 << 16;

/// Mapped ranges, by address.
///
/// # Errors
/// [`Error::Object`] if `/proc/self/maps` can't be read.
pub fn mapped() -> Result<Vec<Range<u64>>, Error> {
    let path = "/proc/self/maps";
    let text = std::fs::read(path).map_err(|source| Error::Object { path: path.into(), reason: source.to_string() })?;
    // Paths may hold any bytes.
    Ok(parse(&String::from_utf8_lossy(&text)))
}

fn parse(text: &str) -> Vec<Range<u64>> {
    text.lines()
        .filter_map(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
        })
        .collect()
}

/// Where `size` bytes are free, within reach of all of `code`: nearest places first.
pub fn free_places(mapped: &[Range<u64>], code: &Range<u64>, size: u64) -> Vec<u64> {
    let low = code.end.saturating_sub(REACH).max(LOWEST);
    let high = code.start.saturating_add(REACH).min(1 << 47);
    let mut places = Vec::new();
    let mut previous = LOWEST;
    let bounds = mapped.iter().map(|range| (range.start, range.end)).chain([(1 << 47, 1 << 47)]);
    for (start, end) in bounds {
        // A page is left free on both sides: stacks grow, and the heap does.
        let gap_low = (previous + 4096).max(low).next_multiple_of(4096);
        let gap_high = start.saturating_sub(4096).min(high) & !4095;
        if gap_high > gap_low && gap_high - gap_low >= size {
            // The end of the gap that is nearer to the code.
            places.push(if gap_low > code.start { gap_low } else { gap_high - size });
        }
        previous = end;
    }
    places.sort_by_key(|&place| place.abs_diff(code.start));
    // The heap grows upwards from the program's end: a place right behind would stop it.
    places
}

/// True if every byte of `place` can reach every byte of `code`.
pub fn reaches(place: &Range<u64>, code: &Range<u64>) -> bool {
    place.end.max(code.end) - place.start.min(code.start) < REACH
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges are what is tested")]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "00400000-00401000 r-xp 0 0:0 1 /bin/a\n7f0000000000-7f0000001000 rw-p 0 0:0 0\nnonsense\n";
        assert_eq!(parse(text), [0x40_0000..0x40_1000, 0x7f00_0000_0000..0x7f00_0000_1000]);
    }

    #[test]
    fn places_are_free_near_and_in_reach() {
        let mapped = [0x5555_0000_0000..0x5555_0010_0000, 0x7fff_0000_0000..0x7fff_0010_0000];
        let code = 0x5555_0000_0000..0x5555_0010_0000;
        let places = free_places(&mapped, &code, 1 << 20);
        assert_eq!(places.len(), 2);
        for place in places {
            assert!(reaches(&(place..place + (1 << 20)), &code), "{place:x}");
        }
        // A low program: nothing below the lowest address.
        let places = free_places(&[0x40_0000..0x50_0000], &(0x40_0000..0x50_0000), 16 << 20);
        assert_eq!(places.len(), 1);
        assert!(places[0] > 0x50_0000);
    }
}
