//! What the programs in the kernel publish is laid out as the agent reads it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};

use transect_event_abi::published::{
    ACTIVE, APPLICATION_CAPACITY, Application, ENDED, FRACTION_BITS, NEAR_PROBES, PROBES, Published, THREAD_CAPACITY,
    Thread, WINDOW, key, place,
};

/// Assertions for the compiler of the programs: whatever differs, it names.
fn assertions() -> String {
    let mut text = String::from("#include <linux/types.h>\n#include \"sched_published.h\"\n");
    let mut assert_that = |c: &str, value: u64| {
        writeln!(text, "_Static_assert({c} == {value}ull, \"{c}\");").unwrap();
    };
    macro_rules! fields {
        ($c:literal, $rust:ty, $($field:ident)*) => {
            assert_that(concat!("sizeof(", $c, ")"), size_of::<$rust>() as u64);
            $(assert_that(
                concat!("__builtin_offsetof(", $c, ", ", stringify!($field), ")"),
                offset_of!($rust, $field) as u64,
            );)*
        };
    }
    fields!("struct sched_published_application", Application, sequence active time criticality idle reserved);
    fields!(
        "struct sched_published_thread",
        Thread,
        key sequence flags task application gained since time attribution reserved
    );
    fields!("struct sched_published", Published, applications threads);
    assert_that("SCHED_MAX_APPLICATIONS", APPLICATION_CAPACITY as u64);
    assert_that("SCHED_PUBLISHED_THREADS", THREAD_CAPACITY as u64);
    assert_that("SCHED_PUBLISHED_PROBES", PROBES as u64);
    assert_that("SCHED_PUBLISHED_NEAR_PROBES", NEAR_PROBES as u64);
    assert_that("SCHED_PUBLISHED_WINDOW", WINDOW as u64);
    assert_that("SCHED_FRACTION_BITS", FRACTION_BITS.into());
    assert_that("SCHED_PUBLISHED_ACTIVE", ACTIVE.into());
    assert_that("SCHED_PUBLISHED_ENDED", ENDED.into());
    text
}

#[test]
fn both_sides_have_the_same_layout() {
    let mut compiler = Command::new("clang")
        .args(["-x", "c", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", "-I", "bpf", "-"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(assertions().as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
}

/// What the kernel's side claims the agent's side finds: the C code is compiled and run.
#[test]
fn claimed_records_are_found() {
    let folder = std::env::temp_dir().join(format!("transect-published-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("claim.c"), folder.join("claim"));
    // Claims records for the key lists on its input; prints the whole table.
    std::fs::write(
        &source,
        r#"#include <linux/types.h>
#include "sched_published.h"
#include <stdio.h>
static struct sched_published table;
int main(void)
{
    unsigned space, tid;
    while (scanf("%u %u", &space, &tid) == 2) {
        __u32 index = sched_published_claim(&table, sched_published_key(space, tid), tid, space % 7);
        if (index == SCHED_PUBLISHED_NONE)
            continue;
        struct sched_thread thread = { .active = 1, .gained = tid, .since = 5 };
        struct sched_clock clock = { .time = 100, .criticality = 3, .idle = 1, .active = 2 };
        sched_publish_thread(&table.threads[index], &thread, &clock, 0);
    }
    fwrite(&table, sizeof table, 1, stdout);
}
"#,
    )
    .unwrap();
    let built = Command::new("clang")
        .args(["-O2", "-Wall", "-I", "bpf", "-o"])
        .args([&program, &source])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success());
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let names: Vec<(u32, u32)> =
        (0..9000).map(|i| (0xefff_fffc, 4000 + i)).chain((0..900).map(|i| (0xf000_0123, 1 + i))).collect();
    let list: String = names.iter().map(|(space, tid)| format!("{space} {tid}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(list.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(output.stdout.len(), size_of::<Published>());
    // Aligned as the pages that the kernel maps.
    let mut words = vec![0u64; output.stdout.len() / 8];
    for (word, bytes) in words.iter_mut().zip(output.stdout.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap());
    }
    #[allow(unsafe_code)]
    // SAFETY: as many bytes as the type has, aligned for it; every value is valid.
    let table = unsafe { &*words.as_ptr().cast::<Published>() };
    let (mut windows, mut displaced) = ([false; THREAD_CAPACITY / WINDOW], 0);
    for (space, tid) in names {
        let at = (0..PROBES).position(|probe| {
            table.threads[place(key(space, tid), probe)].key.load(std::sync::atomic::Ordering::Relaxed)
                == key(space, tid)
        });
        windows[place(key(space, tid), 0) / WINDOW] |= space == 0xefff_fffc;
        displaced += usize::from(at != Some(0));
        let thread = table.find(key(space, tid)).unwrap_or_else(|| panic!("{space} {tid}"));
        let value = |cell: &std::sync::atomic::AtomicU32| cell.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!((value(&thread.task), value(&thread.application)), (tid, space % 7));
        assert_eq!((value(&thread.flags), value(&thread.sequence)), (ACTIVE, 2));
        let wide = |cell: &std::sync::atomic::AtomicU64| cell.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!((wide(&thread.gained), wide(&thread.since), wide(&thread.time)), (tid.into(), 5, 100));
        assert_eq!(wide(&thread.attribution), 3 + (1 << FRACTION_BITS));
    }
    assert!(table.find(key(0xefff_fffc, 3999)).is_none());
    // 9,000 ids in a row lie in as many windows as they fill; at most the other process' threads are displaced.
    assert!(windows.iter().filter(|used| **used).count() <= 9000 / WINDOW + 2 && displaced <= 900, "{displaced}");
}
