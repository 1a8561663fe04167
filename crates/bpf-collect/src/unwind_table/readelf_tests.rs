//! The rules of real objects, against what readelf makes of the same sections.
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::layout;
use super::object_image::ObjectImage;
use super::object_rows::{FrameSections, Row, read_rows};
use super::rule::Rule;

/// What readelf prints of a row: the CFA and where rbx, rbp and the return address are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Printed {
    cfa: String,
    bx: String,
    bp: String,
    ra: String,
}

/// A function's range and its rows by address.
struct PrintedFunction {
    end: u64,
    signal: bool,
    rows: BTreeMap<u64, Printed>,
}

/// `None`, and says so, without readelf.
fn readelf(path: &Path) -> Option<BTreeMap<u64, PrintedFunction>> {
    let output = match Command::new("readelf").args(["-W", "--debug-dump=frames-interp"]).arg(path).output() {
        Ok(output) => output,
        Err(error) => {
            println!("NOT RUN: readelf: {error}");
            return None;
        }
    };
    let mut functions: BTreeMap<u64, PrintedFunction> = BTreeMap::new();
    let mut cies: BTreeMap<String, (bool, Option<Printed>)> = BTreeMap::new();
    let (mut columns, mut function, mut cie): (Vec<String>, Option<u64>, _) = (Vec::new(), None, String::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // "r9 (r9)" is one column.
        let fields: Vec<&str> = line.split_whitespace().filter(|field| !field.starts_with('(')).collect();
        match fields.as_slice() {
            [offset, _, _, "CIE", augmentation, ..] => {
                (cie, function) = ((*offset).to_owned(), None);
                cies.insert(cie.clone(), (augmentation.contains('S'), None));
            }
            [_, _, _, "FDE", of, range, ..] => {
                cie = of.trim_start_matches("cie=").to_owned();
                let (start, end) = range.trim_start_matches("pc=").split_once("..").unwrap();
                let hex = |text| u64::from_str_radix(text, 16).unwrap();
                let (start, end) = (hex(start), hex(end));
                function = Some(start);
                let (signal, first) = cies.get(&cie).unwrap();
                // Without rows of its own it has the CIE's.
                let rows = first.iter().map(|row| (start, row.clone())).collect();
                functions.insert(start, PrintedFunction { end, signal: *signal, rows });
            }
            ["LOC", "CFA", rest @ ..] => columns = rest.iter().map(|&column| column.to_owned()).collect(),
            [address, cfa, rest @ ..] if address.len() == 16 && rest.len() == columns.len() => {
                let Ok(address) = u64::from_str_radix(address, 16) else { continue };
                let column = |name| {
                    let place = columns.iter().position(|column| column == name);
                    place.map_or("u", |place| rest[place]).to_owned()
                };
                let row = Printed { cfa: (*cfa).to_owned(), bx: column("rbx"), bp: column("rbp"), ra: column("ra") };
                match function {
                    Some(start) => drop(functions.get_mut(&start).unwrap().rows.insert(address, row)),
                    None => cies.get_mut(&cie).unwrap().1 = Some(row),
                }
            }
            _ => {}
        }
    }
    Some(functions)
}

fn at(rows: &[Row], address: u64) -> Rule {
    rows[rows.partition_point(|row| row.address <= address) - 1].rule
}

/// What readelf would print for a rule; `exp` stands for all expressions.
fn printed(rule: Rule) -> Option<Printed> {
    let [kind, bp, bx, bx_base, a, b, c, d] = rule.0.to_le_bytes();
    let offset = i32::from_le_bytes([a, b, c, d]);
    let cfa = match kind {
        layout::CFA_SP => format!("rsp+{offset}"),
        layout::CFA_BP => format!("rbp+{offset}"),
        layout::CFA_BX => format!("rbx+{offset}"),
        layout::CFA_AT_SP | layout::CFA_AT_BP | layout::CFA_PLT => "exp".to_owned(),
        _ => return None,
    };
    let saved = |at, base| match (at, base) {
        (layout::SAVED_SAME, _) => "u".to_owned(),
        (layout::SAVED_AT_BASE, _) | (_, layout::BASE_BP | layout::BASE_BX) => "exp".to_owned(),
        (n, _) => format!("c-{}", u32::from(n) * 8),
    };
    let ra = "c-8".to_owned();
    Some(Printed { cfa, bx: saved(bx, bx_base), bp: saved(bp, layout::BASE_CFA), ra })
}

/// Compares at every address where either begins a row. Returns how many and how many rules are not modelled.
fn compare(path: &Path) -> Option<(usize, usize)> {
    let functions = readelf(path)?;
    let image = ObjectImage::of_file(&File::open(path).ok()?).expect("an object with frames");
    let rows = read_rows(&image.sections);
    let mut addresses: Vec<u64> = rows.iter().map(|row| row.address).collect();
    addresses.extend(functions.values().flat_map(|function| function.rows.keys()));
    addresses.sort_unstable();
    addresses.dedup();
    let (mut compared, mut unsupported) = (0, 0);
    for address in addresses {
        let Some((_, function)) = functions.range(..=address).next_back().filter(|(_, f)| address < f.end) else {
            continue;
        };
        let Some((_, expected)) = function.rows.range(..=address).next_back() else { continue };
        let rule = at(&rows, address);
        compared += 1;
        let place = format!("{} {address:#x}: {expected:?} {rule:x?}", path.display());
        match rule {
            Rule::SIGNAL => assert!(function.signal, "{place}"),
            Rule::END => assert_eq!(expected.ra, "u", "{place}"),
            Rule::UNSUPPORTED => {
                unsupported += 1;
                let plain = ["rsp", "rbp", "rbx"].iter().any(|register| expected.cfa.starts_with(register));
                assert!(!plain || expected.ra != "c-8", "{place}");
            }
            _ => {
                let mut found = printed(rule).unwrap_or_else(|| panic!("{place}"));
                // Places that the walk does not model are marked unknown.
                let [_, bp, bx, ..] = rule.0.to_le_bytes();
                if bp == layout::SAVED_UNKNOWN {
                    found.bp.clone_from(&expected.bp);
                }
                if bx == layout::SAVED_UNKNOWN {
                    found.bx.clone_from(&expected.bx);
                }
                let same = |text: &str| if text == "s" { "u".to_owned() } else { text.to_owned() };
                let expected = Printed { bx: same(&expected.bx), bp: same(&expected.bp), ..expected.clone() };
                assert_eq!(found, expected, "{place}");
            }
        }
    }
    Some((compared, unsupported))
}

#[test]
fn rules_of_system_objects_are_those_of_readelf() {
    let objects = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/bin/python3",
        "/usr/bin/perl",
    ];
    let mut any = false;
    for path in objects.map(Path::new).into_iter().filter(|path| path.exists()) {
        let Some((compared, unsupported)) = compare(path) else { return };
        println!("{}: {compared} places, {unsupported} with a rule that is not modelled", path.display());
        assert!(compared > 1000 && unsupported * 50 < compared);
        any = true;
    }
    if !any {
        println!("NOT RUN: none of the objects is here");
    }
}

/// Go's own table against the DWARF that the same program carries, of another encoding: where a frame begins, everywhere.
#[test]
fn go_frames_are_those_of_its_dwarf() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("main.go"), folder.path().join("program"));
    std::fs::write(&source, "package main\n\nfunc main() { println(1) }\n").unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(&source).current_dir(folder.path()).env("GO111MODULE", "off");
    if !go.env("GOCACHE", std::env::temp_dir().join("transect-go-cache")).status().is_ok_and(|status| status.success())
    {
        println!("NOT RUN: go build");
        return;
    }
    let image = ObjectImage::of_file(&File::open(&program).unwrap()).unwrap();
    assert!(!image.sections.go_table.is_empty());
    let own = read_rows(&FrameSections { debug_frame: Vec::new(), ..image.sections.clone() });
    let dwarf = read_rows(&FrameSections { go_table: Vec::new(), ..image.sections });
    // Kind and offset of the CFA; that the frame pointer is saved DWARF does not tell.
    let frame = |rule: Rule| rule.0 & 0xffff_ffff_0000_00ff;
    let addresses: std::collections::BTreeSet<u64> = own.iter().chain(&dwarf).map(|row| row.address).collect();
    let (mut same, mut others) = (0, Vec::new());
    for address in addresses {
        let (own, dwarf) = (at(&own, address), at(&dwarf, address));
        let special = [Rule::END, Rule::OTHER_STACK, Rule::SIGNAL, Rule::FRAME_POINTER];
        if special.contains(&own) || dwarf == Rule::FRAME_POINTER {
            continue;
        }
        if frame(own) == frame(dwarf) { same += 1 } else { others.push((address, own, dwarf)) }
    }
    assert!(same > 1000 && others.is_empty(), "{same} alike, {}: {:x?}", others.len(), others.get(..9));
}
