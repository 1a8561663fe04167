//! Where a call's exception continues in the calling function: the call-site table of a language-specific data area
//! (Itanium C++ ABI, exception handling tables).

use std::ops::Range;

use gimli::{EndianSlice, LittleEndian, Reader};

/// One stretch of calls with the address of their landing pad; calls without one are not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingPad {
    /// Virtual addresses of the calls.
    pub calls: Range<u64>,
    /// Where their exceptions continue.
    pub pad: u64,
}

const OMITTED: u8 = 0xff;

/// Reads the call-site table in `bytes`, the data area of the function that starts at `function`; `None` if it is
/// encoded in a way that compilers for this machine don't use.
pub(crate) fn landing_pads(bytes: &[u8], function: u64) -> Option<Vec<LandingPad>> {
    let mut area = EndianSlice::new(bytes, LittleEndian);
    // A landing-pad base of its own is not in use; pads count from the function's start.
    if area.read_u8().ok()? != OMITTED {
        return None;
    }
    if area.read_u8().ok()? != OMITTED {
        area.read_uleb128().ok()?;
    }
    let encoding = area.read_u8().ok()?;
    let size = usize::try_from(area.read_uleb128().ok()?).ok()?;
    let mut table = area.split(size).ok()?;
    let mut pads = Vec::new();
    while !table.is_empty() {
        let mut value = || match encoding {
            0x01 => table.read_uleb128().ok(),
            0x02 => table.read_u16().ok().map(u64::from),
            0x03 => table.read_u32().ok().map(u64::from),
            _ => None,
        };
        let (start, length, pad) = (value()?, value()?, value()?);
        table.read_uleb128().ok()?;
        if pad != 0 {
            let start = function.checked_add(start)?;
            pads.push(LandingPad { calls: start..start.checked_add(length)?, pad: function.checked_add(pad)? });
        }
    }
    Some(pads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_table_as_gcc_writes_it() {
        // @LPStart omitted, @TType pcrel|sdata4 at +20, call sites in ULEB128: [4, 4+5) -> 0x20, [0x20, 0x25) -> none.
        let area = [0xff, 0x9b, 20, 0x01, 8, 4, 5, 0x20, 1, 0x20, 5, 0, 0, 1, 0];
        let pads = landing_pads(&area, 0x1000).unwrap();
        assert_eq!(pads, [LandingPad { calls: 0x1004..0x1009, pad: 0x1020 }]);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert_eq!(landing_pads(&[0x00, 0xff, 0x01, 0], 0), None, "a landing-pad base");
        assert_eq!(landing_pads(&[0xff, 0xff, 0x1b, 4, 0, 0, 0, 0], 0), None, "an encoding of call sites");
        assert_eq!(landing_pads(&[0xff, 0xff, 0x01, 9, 1], 0), None, "cut short");
    }
}
