//! Unwind rows of one ELF object: which rule holds from which address on.
use std::collections::HashMap;

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, LittleEndian, UnwindContext, UnwindSection,
};

use transect_binary_info::{GoFrame, GoTable};

use super::rule::{Rule, Slice};

/// A rule holds from `address` on, until the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Unrelocated.
    pub address: u64,
    pub rule: Rule,
}

/// A frame section and where it and what its pointers may refer to lie.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameSections {
    pub eh_frame: Vec<u8>,
    pub eh_frame_address: u64,
    pub text_address: u64,
    pub got_address: u64,
    pub debug_frame: Vec<u8>,
    /// Go's table for its own tracebacks, and the address that its places count from.
    pub go_table: Vec<u8>,
    pub go_text: u64,
    /// The code: addresses outside are dropped (functions that the linker threw away).
    pub code: std::ops::Range<u64>,
    /// Sections of linkage stubs (`.plt` and its like).
    pub stubs: Vec<std::ops::Range<u64>>,
}

/// Rows of a function.
struct Function {
    start: u64,
    end: u64,
    /// Where its rows begin in the list of all; they end where the next function's begin.
    rows: usize,
    row_count: usize,
}

/// Reads the rows of all functions, sorted; between functions stands [`Rule::FRAME_POINTER`].
pub(crate) fn read_rows(sections: &FrameSections) -> Vec<Row> {
    let mut functions = Vec::new();
    let mut rows = Vec::new();
    let bases = BaseAddresses::default()
        .set_eh_frame(sections.eh_frame_address)
        .set_text(sections.text_address)
        .set_got(sections.got_address);
    let mut eh_frame = EhFrame::new(&sections.eh_frame, LittleEndian);
    eh_frame.set_address_size(8);
    read_section(&eh_frame, &bases, &sections.code, &mut functions, &mut rows);
    // Stable: where several tell of a function, the first wins. Go's own table also knows where frame pointers are saved.
    if let Some(table) = GoTable::parse(&sections.go_table, sections.go_text) {
        read_go(&table, &sections.code, &mut functions, &mut rows);
    }
    let mut debug_frame = DebugFrame::new(&sections.debug_frame, LittleEndian);
    debug_frame.set_address_size(8);
    read_section(&debug_frame, &bases, &sections.code, &mut functions, &mut rows);
    // lld describes its stubs nowhere: a jump, with the stack as at the call. What a section tells wins, as it is first.
    for stub in sections.stubs.iter().filter(|stub| stub.start < stub.end && stub.end <= sections.code.end) {
        functions.push(Function { start: stub.start, end: stub.end, rows: rows.len(), row_count: 1 });
        rows.push(Row { address: stub.start, rule: Rule::STUB });
    }
    functions.sort_by_key(|function| function.start);
    join(&functions, &rows)
}

fn read_section<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    code: &std::ops::Range<u64>,
    functions: &mut Vec<Function>,
    rows: &mut Vec<Row>,
) where
    S: UnwindSection<Slice<'a>>,
    S::Offset: std::hash::Hash + Eq + Copy,
{
    let mut context = UnwindContext::new();
    let mut cies: HashMap<S::Offset, CommonInformationEntry<Slice<'a>>> = HashMap::new();
    let mut last = None;
    let mut entries = section.entries(bases);
    // A damaged entry ends the section: its length cannot be trusted.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|section, bases, offset| {
            let cie = match (&last, cies.get(&offset)) {
                (Some((of, cie)), _) if *of == offset => return Ok(CommonInformationEntry::clone(cie)),
                (_, Some(cie)) => cie.clone(),
                (_, None) => section.cie_from_offset(bases, offset)?,
            };
            cies.insert(offset, cie.clone());
            last = Some((offset, cie.clone()));
            Ok(cie)
        });
        let Ok(fde) = parsed else { continue };
        let (start, end) = (fde.initial_address(), fde.end_address());
        if start >= end || !code.contains(&start) || end > code.end {
            continue;
        }
        let first = rows.len();
        let Ok(mut table) = fde.rows(section, bases, &mut context) else { continue };
        loop {
            match table.next_row() {
                Ok(Some(row)) => {
                    let address = row.start_address();
                    if address < end && row.start_address() < row.end_address() {
                        rows.push(Row { address, rule: Rule::of_row(row, fde.cie(), section) });
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    rows.truncate(first);
                    rows.push(Row { address: start, rule: Rule::UNSUPPORTED });
                    break;
                }
            }
        }
        functions.push(Function { start, end, rows: first, row_count: rows.len() - first });
    }
}

fn read_go(table: &GoTable<'_>, code: &std::ops::Range<u64>, functions: &mut Vec<Function>, rows: &mut Vec<Row>) {
    for function in table.functions() {
        let (start, end) = (function.code.start, function.code.end);
        if start >= end || !code.contains(&start) || end > code.end {
            continue;
        }
        let first = rows.len();
        let all = |rule| vec![Row { address: start, rule }];
        rows.extend(match function.frame {
            GoFrame::Outermost => all(Rule::END),
            GoFrame::OtherStack => all(Rule::OTHER_STACK),
            GoFrame::Signal => all(Rule::SIGNAL),
            GoFrame::Depths => {
                let depths = table.depths(&function).into_iter().filter(|(address, _)| *address < end);
                depths.map(|(address, depth)| Row { address, rule: Rule::of_depth(depth.max(0)) }).collect()
            }
        });
        if rows.len() > first {
            functions.push(Function { start, end, rows: first, row_count: rows.len() - first });
        }
    }
}

/// Functions are aligned to this: what is smaller between two of them is padding, which never runs.
const PADDING: u64 = 16;

/// One list of all functions' rows without repetitions and overlaps.
fn join(functions: &[Function], rows: &[Row]) -> Vec<Row> {
    let mut joined: Vec<Row> = Vec::with_capacity(rows.len() + functions.len());
    let mut covered = 0;
    let mut push = |row: Row| match joined.last_mut() {
        Some(last) if last.rule == row.rule => {}
        Some(last) if last.address == row.address => last.rule = row.rule,
        _ => joined.push(row),
    };
    for function in functions {
        if function.end <= covered {
            continue;
        }
        if function.start >= covered + PADDING || covered == 0 {
            push(Row { address: covered, rule: Rule::FRAME_POINTER });
        }
        for row in &rows[function.rows..function.rows + function.row_count] {
            push(Row { address: row.address.max(covered), rule: row.rule });
        }
        covered = function.end;
    }
    push(Row { address: covered, rule: Rule::FRAME_POINTER });
    joined
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;

    #[test]
    fn registers_are_saved_below_the_frame_or_below_rbp() {
        let entry = |parts: &[&[u8]]| {
            let body = parts.concat();
            [&(body.len() as u32).to_le_bytes()[..], &body].concat()
        };
        // Version 1, factors 1 and -8, the return address is register 16; CFA rsp+8, the address below it.
        let common = entry(&[&[0; 4], &[1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1]]);
        let function = entry(&[
            &(common.len() as u32 + 4).to_le_bytes(),
            &0x1000_u64.to_le_bytes(),
            &0x40_u64.to_le_bytes(),
            // 4 bytes on: CFA rsp+24, rbp two words below it, rbx three.
            &[0x44, 0x0e, 24, 0x86, 2, 0x83, 3],
            // 4 bytes on, the stack is aligned: CFA *(rbp-8), rbp at (rbp), rbx at rbp-40.
            &[0x44, 0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0, 0x10, 3, 2, 0x76, 0x58],
        ]);
        let rows = read_rows(&FrameSections {
            eh_frame: [common, function].concat(),
            code: 0x1000..0x2000,
            ..FrameSections::default()
        });
        let at = |address| rows[rows.partition_point(|row| row.address <= address) - 1].rule;
        let same = layout::SAVED_SAME;
        assert_eq!(at(0x1000), Rule::new(layout::CFA_SP, 8, same, (same, layout::BASE_CFA)));
        assert_eq!(at(0x1004), Rule::new(layout::CFA_SP, 24, 2, (3, layout::BASE_CFA)));
        let aligned = Rule::new(layout::CFA_AT_BP, -8 & 0xff_ffff, layout::SAVED_AT_BASE, (5, layout::BASE_BP));
        assert_eq!(at(0x1008), aligned);
    }

    #[test]
    fn linkage_stubs_have_a_rule_of_their_own() {
        let sections = FrameSections {
            code: 0x1000..0x3000,
            stubs: vec![0x2000..0x2040, 0x2800..0x2810],
            ..FrameSections::default()
        };
        let rows = read_rows(&sections);
        let at = |address| rows[rows.partition_point(|row| row.address <= address) - 1].rule;
        assert_eq!(at(0x2000), Rule::STUB);
        assert_eq!(at(0x203f), Rule::STUB);
        assert_eq!(at(0x2808), Rule::STUB);
        assert_eq!(at(0x1fff), Rule::FRAME_POINTER);
        assert_eq!(at(0x2040), Rule::FRAME_POINTER);
    }
}
