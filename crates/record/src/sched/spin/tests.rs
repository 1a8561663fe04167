//! Compiled snippets: each waiting loop and each innocent one, by both compilers and at each level of optimisation.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// Loops that wait for another thread.
const WAITING: &str = r#"
#include <stdatomic.h>
#include <pthread.h>
#define LOOP __attribute__((noinline)) void
atomic_int flag; atomic_flag bit = ATOMIC_FLAG_INIT; volatile int plain; atomic_long serving; struct shared { struct shared *next; volatile int done; };
LOOP wait_flag(void) { while (!atomic_load(&flag)) ; }
LOOP wait_flag_relaxed(void) { while (atomic_load_explicit(&flag, memory_order_relaxed) == 0) ; }
LOOP wait_pointer(atomic_int *p) { while (atomic_load_explicit(p, memory_order_acquire) != 7) ; }
LOOP wait_volatile(void) { while (!plain) ; }
LOOP wait_member(struct shared *s) { while (!s->next->done) ; }
LOOP wait_value(volatile long *p, long old) { while (*p == old) ; }
LOOP test_and_set(atomic_int *lock) { while (atomic_exchange(lock, 1)) ; }
LOOP test_and_set_flag(void) { while (atomic_flag_test_and_set(&bit)) ; }
LOOP test_and_set_pause(atomic_int *lock) { while (atomic_exchange(lock, 1)) __builtin_ia32_pause(); }
LOOP read_before_set(atomic_int *lock) {
    for (;;) { while (atomic_load_explicit(lock, memory_order_relaxed)) __builtin_ia32_pause();
               if (!atomic_exchange(lock, 1)) return; } }
LOOP read_before_set_plain(atomic_int *lock) {
    for (;;) { while (atomic_load_explicit(lock, memory_order_relaxed)) ; if (!atomic_exchange(lock, 1)) return; } }
LOOP compare_and_swap(atomic_int *lock) { int none; do { none = 0; } while (!atomic_compare_exchange_weak(lock, &none, 1)); }
LOOP ticket(atomic_long *next) { long mine = atomic_fetch_add(next, 1); while (atomic_load(&serving) != mine) ; }
LOOP ticket_pause(atomic_long *next) { long mine = atomic_fetch_add(next, 1); while (atomic_load(&serving) != mine) __builtin_ia32_pause(); }
LOOP bounded(atomic_int *p, int turns) { for (int i = 0; i < turns; i++) { if (atomic_load(p)) return; __builtin_ia32_pause(); } }
LOOP two_flags(volatile int *a, volatile int *b) { while (!*a && !*b) ; }
LOOP sense(volatile int *sense, int mine) { while (*sense != !mine) ; }
LOOP wait_asking(int (*done)(void)) { while (!done()) __builtin_ia32_pause(); }
LOOP spin_bit(atomic_uint *word) { while (atomic_load_explicit(word, memory_order_acquire) & 1u) ; }
int main(void) { return 0; }
"#;

/// Loops that work.
const INNOCENT: &str = r#"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#define LOOP __attribute__((noinline))
struct node { struct node *next; int value; }; long sink; int table[256]; volatile int flag;
LOOP long sum(const long *a, size_t n) { long s = 0; for (size_t i = 0; i < n; i++) s += a[i]; return s; }
LOOP double dot(const double *a, const double *b, size_t n) { double s = 0; for (size_t i = 0; i < n; i++) s += a[i] * b[i]; return s; }
LOOP size_t length(const char *s) { size_t n = 0; while (s[n]) n++; return n; }
LOOP const char *find(const char *s, char c) { while (*s && *s != c) s++; return s; }
LOOP void copy(char *to, const char *from, size_t n) { for (size_t i = 0; i < n; i++) to[i] = from[i]; }
LOOP void fill(int *a, int v, size_t n) { for (size_t i = 0; i < n; i++) a[i] = v; }
LOOP uint32_t hash(const unsigned char *s, size_t n) { uint32_t h = 2166136261u; for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 16777619u; return h; }
LOOP uint32_t crc(const unsigned char *s, size_t n) { uint32_t c = ~0u; for (size_t i = 0; i < n; i++) c = table[(c ^ s[i]) & 255] ^ (c >> 8); return c; }
LOOP int list(struct node *n) { int s = 0; while (n) { s += n->value; n = n->next; } return s; }
LOOP struct node *search(struct node *n, int v) { while (n && n->value != v) n = n->next; return n; }
LOOP long counter(volatile long *p, long n) { for (long i = 0; i < n; i++) *p += i; return *p; }
LOOP void global(long n) { for (long i = 0; i < n; i++) sink += i; }
LOOP unsigned gcd(unsigned a, unsigned b) { while (b) { unsigned t = a % b; a = b; b = t; } return a; }
LOOP long collatz(long n) { long s = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; s++; } return s; }
LOOP double root(double x) { double r = x; for (int i = 0; i < 1000; i++) r = 0.5 * (r + x / r); return r; }
LOOP uint64_t random_(uint64_t s, long n) { for (long i = 0; i < n; i++) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; } return s; }
LOOP long bisect(const long *a, long n, long v) { long l = 0; while (l < n) { long m = (l + n) / 2; if (a[m] < v) l = m + 1; else n = m; } return l; }
LOOP long table_walk(const int *next, int at, int stop) { long s = 0; while (at != stop) { at = next[at]; s++; } return s; }
LOOP int popcount(uint64_t v) { int n = 0; while (v) { v &= v - 1; n++; } return n; }
LOOP long matrix(const long *a, const long *b, long n) { long s = 0; for (long i = 0; i < n; i++) for (long j = 0; j < n; j++) s += a[i * n + j] * b[j * n + i]; return s; }
LOOP void sort(long *a, long n) { for (long i = 1; i < n; i++) { long v = a[i], j = i; while (j > 0 && a[j - 1] > v) { a[j] = a[j - 1]; j--; } a[j] = v; } }
LOOP void update(_Atomic long *p, long v) { long old; do { old = atomic_load(p); } while (!atomic_compare_exchange_weak(p, &old, old + v)); }
LOOP void push(_Atomic(struct node *) *head, struct node *n) { n->next = atomic_load(head); while (!atomic_compare_exchange_weak(head, &n->next, n)) ; }
LOOP long adds(_Atomic long *p, long n) { for (long i = 0; i < n; i++) atomic_fetch_add(p, 1); return *p; }
LOOP void work_through(int (*step)(void)) { while (step()) ; }
LOOP long until(volatile int *stop) { long n = 0; while (!*stop) n++; return n; }
LOOP long locked(_Atomic int *lock, long *shared, long n) {
    for (long i = 0; i < n; i++) { while (atomic_exchange(lock, 1)) __builtin_ia32_pause(); *shared += i; atomic_store(lock, 0); } return *shared; }
int main(void) { return 0; }
"#;

fn compile(source: &str, compiler: &str, level: &str, folder: &Path) -> Option<PathBuf> {
    let file = folder.join("loops.c");
    std::fs::write(&file, source).unwrap();
    let program = folder.join(format!("loops-{compiler}{level}"));
    let built = Command::new(compiler).args(["-w", "-pthread", level, "-o"]).args([&program, &file]).output();
    match built {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(_) => None,
    }
}

/// For each function, its instructions inside of loops and how many of them are taken for waiting.
fn judged(program: &Path, names: &[String]) -> Vec<(String, usize, usize)> {
    let object = Object::open(program).unwrap();
    let functions = object.function_symbols();
    let mut judged = Vec::new();
    for name in names {
        let function = functions.iter().find(|function| function.name == *name).unwrap();
        let code = &object.bytes_from(function.vaddr).unwrap()[..function.size as usize];
        let (mut in_loops, mut waiting) = (0, 0);
        for instruction in &mut Decoder::with_ip(64, code, function.vaddr, DecoderOptions::NONE) {
            let bytes = |from: u64| object.bytes_from(from);
            let Some(after) = object.bytes_from(instruction.ip()) else { continue };
            in_loops += usize::from(innermost(after, instruction.ip(), bytes).is_some());
            waiting += usize::from(is_waiting_loop(&object, instruction.ip()));
        }
        judged.push((name.clone(), in_loops, waiting));
    }
    judged
}

fn names(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| line.starts_with("LOOP"));
    lines.map(|line| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned()).collect()
}

fn each_program(source: &str, check: impl Fn(&str, &[(String, usize, usize)])) {
    let folder = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let Some(program) = compile(source, compiler, level, folder.path()) else { continue };
            check(&format!("{compiler} {level}"), &judged(&program, &names(source)));
        }
    }
}

#[test]
fn waiting_loops_are_found() {
    let missed = std::cell::RefCell::new(Vec::new());
    each_program(WAITING, |how, judged| {
        for (name, in_loops, waiting) in judged {
            // There the variable is written through a pointer: it could be any memory.
            let hidden = how == "gcc -O0" && name == "compare_and_swap";
            if !hidden && (*in_loops == 0 || waiting != in_loops) {
                missed.borrow_mut().push(format!("{how}: {name}: {waiting} of {in_loops}"));
            }
        }
    });
    assert!(missed.borrow().is_empty(), "{:#?}", missed.borrow());
}

/// Work under an inlined spin lock is work; the lock's own loop waits.
#[test]
fn working_loops_are_left_alone() {
    each_program(INNOCENT, |how, judged| {
        for (name, in_loops, waiting) in judged {
            let few = name == "locked" && *waiting <= in_loops / 2;
            assert!(*waiting == 0 || few, "{how}: {name}: {waiting} of {in_loops}");
        }
    });
}

/// Libraries that compress, search and compute, as shipped: none of their loops waits. (liblzma has one that would turn
/// for ever if an enumeration held a value that it cannot hold.)
#[test]
fn real_libraries_work() {
    let (mut looked_at, mut found) = (0, Vec::new());
    for name in ["liblzma.so.5", "libbz2.so.1.0", "libz.so.1", "libsqlite3.so.0", "libm.so.6"] {
        let Ok(object) = Object::open(format!("/usr/lib/x86_64-linux-gnu/{name}")) else { continue };
        for range in object.code_ranges() {
            let code = object.bytes_from(range.start).unwrap();
            let code = &code[..code.len().min((range.end - range.start) as usize)];
            let decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
            // A waiting loop is asked for at its branch back: that is in it, whatever else is.
            for instruction in decoder {
                let target = instruction.near_branch_target();
                if target != 0 && target <= instruction.ip() && instruction.ip() - target < REACH {
                    looked_at += 1;
                    if is_waiting_loop(&object, instruction.ip()) {
                        let function = object.symbol_at(instruction.ip()).map_or("", |symbol| symbol.name);
                        found.push(format!("{name} {:x} {function}", instruction.ip()));
                    }
                }
            }
        }
    }
    assert!(found.len() * 2000 <= looked_at, "of {looked_at}: {found:#?}");
    assert!(looked_at > 1000 || !Path::new("/usr/lib/x86_64-linux-gnu/libz.so.1").exists());
}

#[test]
fn names_tell_who_polls() {
    assert!(is_polling(["poll_device", "opal_progress", "ompi_request_default_wait"].into_iter()));
    assert!(is_polling(["sched_yield", "main"].into_iter()));
    let go =
        ["runtime.usleep.abi0", "runtime.osyield", "runtime.stealWork", "runtime.findRunnable", "runtime.schedule"];
    assert!(is_polling(go.into_iter()));
    assert!(!is_polling(["runtime.gcDrain", "runtime.gcBgMarkWorker", "runtime.goexit"].into_iter()));
    assert!(!is_polling(["work", "sched_yield"].into_iter()));
    assert!(!is_polling(["memcpy", "main"].into_iter()));
}
