//! Names of code that a just-in-time compiler made, from its dump: `jit-PID.dump`, which it maps so that profilers find it (Linux,
//! `tools/perf/Documentation/jitdump-specification.txt`).

use std::io::{self, Read};

use super::perf_map::PerfMap;

/// What is read of a dump, bytes: it also holds the code.
const MOST_READ: u64 = 1 << 30;
/// The longest name.
const LONGEST_NAME: usize = 4096;

/// First bytes of a file of this machine's byte order.
const MAGIC: u32 = 0x4a69_5444;
/// Its header, as far as it is needed: magic, version, and its own size.
const HEADER: u64 = 12;
/// Of each record: kind, size of the record, time.
const PREFIX: u64 = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;

/// Whether a process with the number `pid` writes its dump to a file of that name.
pub(super) fn is_dump(path: &str, pid: i32) -> bool {
    path.rsplit('/').next() == Some(&format!("jit-{pid}.dump"))
}

/// The functions that a dump names, as far as it can be read; a compiler may be writing it still.
pub(super) fn read(dump: impl Read) -> PerfMap {
    let mut map = PerfMap::default();
    let _ = read_into(&mut map, dump.take(MOST_READ));
    map
}

fn read_into(map: &mut PerfMap, mut dump: impl Read) -> io::Result<()> {
    let [magic, _, size] = words(&mut dump)?;
    if magic != MAGIC {
        return Ok(());
    }
    skip(&mut dump, u64::from(size).saturating_sub(HEADER))?;
    loop {
        let [kind, size, ..] = words::<4>(&mut dump)?;
        // What it names must lie in it.
        let mut body = (&mut dump).take(u64::from(size).saturating_sub(PREFIX));
        match kind {
            CODE_LOAD => load(map, &mut body)?,
            CODE_MOVE => moved(map, &mut body)?,
            _ => {}
        }
        let rest = body.limit();
        skip(&mut dump, rest)?;
    }
}

/// Process, thread, address in memory, address of the code, its size, its number, its name, and the code.
fn load(map: &mut PerfMap, body: &mut impl Read) -> io::Result<()> {
    let _: [u32; 2] = words(body)?;
    let [_, address, size, _] = longs(body)?;
    let mut name = Vec::new();
    let mut byte = [0];
    while name.len() < LONGEST_NAME {
        body.read_exact(&mut byte)?;
        if byte == [0] {
            break;
        }
        name.push(byte[0]);
    }
    if !name.is_empty() {
        map.insert(address, size, &String::from_utf8_lossy(&name));
    }
    Ok(())
}

/// Process, thread, address in memory, old and new address of the code, its size, its number.
fn moved(map: &mut PerfMap, body: &mut impl Read) -> io::Result<()> {
    let _: [u32; 2] = words(body)?;
    let [_, old, new, size, _] = longs(body)?;
    if let Some(name) = map.at(old).map(str::to_owned) {
        map.insert(new, size, &name);
    }
    Ok(())
}

fn words<const N: usize>(input: &mut impl Read) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 4];
        input.read_exact(&mut bytes)?;
        *word = u32::from_ne_bytes(bytes);
    }
    Ok(words)
}

fn longs<const N: usize>(input: &mut impl Read) -> io::Result<[u64; N]> {
    let mut longs = [0; N];
    for long in &mut longs {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        *long = u64::from_ne_bytes(bytes);
    }
    Ok(longs)
}

fn skip(input: &mut impl Read, length: u64) -> io::Result<()> {
    match io::copy(&mut input.take(length), &mut io::sink())? == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (PREFIX as usize + body.len()) as u32;
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 8], body].concat()
    }

    fn code(address: u64, size: u64, name: &str) -> Vec<u8> {
        let numbers: Vec<u8> = [address, address, size, 1].iter().flat_map(|number| number.to_ne_bytes()).collect();
        record(CODE_LOAD, &[&[0; 8][..], &numbers, name.as_bytes(), &[0], &vec![0xc3; size as usize]].concat())
    }

    fn dump() -> Vec<u8> {
        let header: Vec<u8> = [MAGIC, 1, 40].iter().flat_map(|word| word.to_ne_bytes()).chain([0; 28]).collect();
        let to: Vec<u8> = [0_u64, 0x1000, 0x3000, 16, 1].iter().flat_map(|number| number.to_ne_bytes()).collect();
        let moved = record(CODE_MOVE, &[&[0; 8][..], &to].concat());
        [header, code(0x1000, 16, "first"), record(2, &[7; 33]), code(0x2000, 8, "second"), moved].concat()
    }

    #[test]
    fn functions_have_the_names_of_their_latest_place() {
        let map = read(&dump()[..]);
        assert_eq!(
            [0x1000, 0x100f, 0x2007, 0x3008].map(|at| map.at(at)),
            ["first", "first", "second", "first"].map(Some)
        );
        assert_eq!([0x1010, 0x2008, 0x3010].map(|at| map.at(at)), [None; 3]);
    }

    #[test]
    fn a_dump_that_is_being_written_names_what_it_has() {
        let whole = dump();
        for length in 0..whole.len() {
            let map = read(&whole[..length]);
            assert_eq!(map.at(0x1000).is_some(), length >= 40 + 16 + 40 + 6, "{length}");
        }
        assert!(read(&b"no dump at all"[..]).at(0x1000).is_none());
    }

    #[test]
    fn records_that_claim_to_be_huge_or_nothing_end_it() {
        for size in [0, 15, u32::MAX] {
            let mut bytes = dump();
            bytes[44..48].copy_from_slice(&size.to_ne_bytes());
            read(&bytes[..]);
        }
    }

    #[test]
    fn the_dump_is_of_the_process() {
        assert!(is_dump("/work/jit-12.dump", 12) && is_dump("jit-12.dump", 12));
        assert!(!is_dump("/work/jit-12.dump", 1) && !is_dump("/work/my-jit-12.dump", 12));
    }
}
