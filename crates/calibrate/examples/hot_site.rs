//! Throughput of threads that run through one site while another switches it: `hot_site [MILLISECONDS]`.
//!
//! Prints lines of `key value ...`, one experiment each; the benchmarks make tables of them.
//!
//! ```text
//! toggled SPLIT off-calls/s on-calls/s calls/s-at-1-MHz share-of-the-mean toggles/s
//! threads N on|swap calls/s-in-all calls/s-of-a-thread balance toggles/s
//! visible median-ticks 99th-ticks
//! install SITES protocol-ticks-a-site whole-ticks-a-site
//! ```
//!
//! So that other work on the machine doesn't count, calls per second are per second of the executing threads' CPU
//! time, and under 1 MHz only of stretches in which the switching thread had a CPU, too; those "in all" are per
//! second of the clock.
#![allow(unsafe_code, reason = "executes generated code")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use transect_calibrate::clock;
use transect_calibrate::code_memory::CodeMemory;
use transect_calibrate::toggle::SPLITS;
use transect_text_patch::{CallSite, form};

/// A function with a site, `site; ret`; the site calls `jmp [target]`, which counts in r8 (first) or r9 (second).
struct Hot {
    _memory: CodeMemory,
    site: CallSite,
    target: u64,
    handlers: [u64; 2],
}

impl Hot {
    fn new(split: u8) -> Self {
        let memory = CodeMemory::new(8192).expect("executable memory");
        let offset = 128 - usize::from(split);
        let (stub, idle, target) = (1024, 1088, 4096);
        let address = memory.address(offset);
        let on = form::transfer(form::CALL, address, memory.address(stub)).expect("near");
        let off = form::off_form(address, on, memory.address(idle)).expect("near");
        memory.write(offset, &off);
        memory.write(offset + 5, &[form::RETURN]);
        memory.write(idle, &[form::RETURN]);
        // jmp [rip + target]
        let displacement = (target - (stub + 6)) as u32;
        memory.write(stub, &[0xFF, 0x25]);
        memory.write(stub + 2, &displacement.to_le_bytes());
        memory.write(1152, &[0x49, 0xFF, 0xC0, form::RETURN]); // inc r8; ret
        memory.write(1216, &[0x49, 0xFF, 0xC1, form::RETURN]); // inc r9; ret
        let handlers = [memory.address(1152), memory.address(1216)];
        memory.write(target, &handlers[0].to_le_bytes());
        let site = CallSite::new(address, memory.alias(offset), on, off).expect("a good site");
        let site = site.exclusive_word().guarded_against_fork(false);
        Self { site, target: memory.alias(target), handlers, _memory: memory }
    }

    fn switch(&self, on: bool) {
        // SAFETY: the memory is mapped and the stub in place.
        unsafe { if on { self.site.activate_call() } else { self.site.deactivate_call() } }.expect("our own bytes");
    }

    fn swap(&self, second: bool) {
        // SAFETY: an aligned word of the writable mapping.
        let word = unsafe { &*(self.target as *const AtomicU64) };
        word.store(self.handlers[usize::from(second)], Ordering::Release);
    }

    /// Calls the function so often; how often the first and the second handler ran.
    #[inline(never)]
    fn call(&self, times: u64) -> (u64, u64) {
        let (first, second): (u64, u64);
        // SAFETY: the function changes r8 and r9 only.
        unsafe {
            core::arch::asm!(
                ".p2align 5",
                "2: call r12",
                "dec r13",
                "jnz 2b",
                in("r12") self.site.address(),
                inout("r13") times => _,
                inout("r8") 0u64 => first,
                inout("r9") 0u64 => second,
            );
        }
        (first, second)
    }
}

/// What threads executed.
struct Run {
    calls_per_second: f64,
    calls_in_all: f64,
    first: u64,
    second: u64,
    none: u64,
    /// Calls, ticks and toggles of stretches of 1000 calls in which switching and executing thread both had a CPU.
    together: [u64; 3],
    toggles_per_second: f64,
}

/// Seconds of CPU time of this thread.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the given structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Lets threads execute the site, while this one acts every `period` (None: not at all).
fn run(hot: &Hot, threads: usize, time: Duration, period: Option<Duration>, act: impl Fn(bool)) -> Run {
    let (stop, ready, switched) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let (mut calls, mut first, mut second) = (0u64, 0, 0);
                    let begin = cpu_seconds();
                    let mut together = [0; 3];
                    ready.fetch_add(1, Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        let (toggles, start) = (switched.load(Ordering::Relaxed), clock::ticks());
                        let (a, b) = hot.call(1000);
                        let (took, toggles) = (clock::ticks() - start, switched.load(Ordering::Relaxed) - toggles);
                        (calls, first, second) = (calls + 1000, first + a, second + b);
                        if took < 200_000 && (period.is_none() || toggles >= 2) {
                            together.iter_mut().zip([1000, took, toggles]).for_each(|(sum, new)| *sum += new);
                        }
                    }
                    (calls, first, second, cpu_seconds() - begin, together)
                })
            })
            .collect();
        while ready.load(Ordering::Relaxed) < threads as u64 {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let (mut toggles, mut next) = (0u64, start);
        match period {
            None => std::thread::sleep(time),
            Some(period) => {
                while start.elapsed() < time {
                    act(toggles % 2 == 0);
                    toggles += 1;
                    switched.store(toggles, Ordering::Relaxed);
                    next += period;
                    // Long periods must not take a CPU from the executing threads.
                    let now = Instant::now();
                    if next > now + Duration::from_micros(100) {
                        std::thread::sleep(next - now);
                    }
                    while Instant::now() < next {
                        std::hint::spin_loop();
                    }
                    // Toggles missed while this thread had no CPU are not made up for.
                    next = next.max(Instant::now() - period);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        let seconds = start.elapsed().as_secs_f64();
        let (mut calls, mut first, mut second, mut worked, mut together) = (0, 0, 0, 0.0, [0; 3]);
        for worker in workers {
            let (a, b, c, d, e) = worker.join().expect("no panic");
            (calls, first, second, worked) = (calls + a, first + b, second + c, worked + d);
            together.iter_mut().zip(e).for_each(|(sum, new)| *sum += new);
        }
        Run {
            calls_per_second: calls as f64 / worked,
            calls_in_all: calls as f64 / seconds,
            first,
            second,
            none: calls - first - second,
            together,
            toggles_per_second: toggles as f64 / seconds,
        }
    })
}

/// Ticks from a store until the executing thread arrives at the handler: sorted.
fn visibility(hot: &Hot, rounds: usize) -> Vec<u64> {
    let (seen, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut was_on = false;
            while !stop.load(Ordering::Relaxed) {
                let on = hot.call(1).0 == 1;
                if on != was_on {
                    seen.store(clock::ticks() | 1, Ordering::Release);
                    was_on = on;
                }
            }
        });
        let mut delays = Vec::new();
        let mut on = false;
        std::thread::sleep(Duration::from_millis(2));
        for _ in 0..rounds {
            on = !on;
            seen.store(0, Ordering::Release);
            let wait = clock::ticks();
            while clock::ticks() - wait < 2000 {}
            let start = clock::begin();
            hot.switch(on);
            loop {
                match seen.load(Ordering::Acquire) {
                    0 => std::hint::spin_loop(),
                    at => break delays.push(at.saturating_sub(start)),
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        delays.sort_unstable();
        delays
    })
}

fn main() {
    let time = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let time = Duration::from_millis(time);
    let ticks_per_second = clock::rate() * 1e9;
    let megahertz = Duration::from_micros(1);
    for split in SPLITS {
        let hot = Hot::new(split);
        // Interleaved, so that other work on the machine meets all three; the best of each counts.
        let (mut off, mut on, mut both) = (0f64, 0f64, [0; 3]);
        for _ in 0..3 {
            let rate = |run: Run| run.together[0] as f64 / run.together[1].max(1) as f64 * ticks_per_second;
            hot.switch(false);
            off = off.max(rate(run(&hot, 1, time / 3, None, |_| ())));
            hot.switch(true);
            on = on.max(rate(run(&hot, 1, time / 3, None, |_| ())));
        }
        // On a busy machine the two threads seldom have a CPU each.
        for _ in 0..30 {
            let toggled = run(&hot, 1, time / 3, Some(megahertz), |on| hot.switch(on));
            both.iter_mut().zip(toggled.together).for_each(|(sum, new)| *sum += new);
            if both[1] as f64 > 0.02 * ticks_per_second {
                break;
            }
        }
        let seconds = both[1].max(1) as f64 / ticks_per_second;
        let toggles = both[2] as f64 / seconds;
        let both = both[0] as f64 / seconds;
        println!("toggled {split} {off:.0} {on:.0} {both:.0} {:.3} {toggles:.0}", both / ((off + on) / 2.0));
    }
    for threads in [1, 2, 4, 8, 16] {
        let hot = Hot::new(3);
        // With more threads than CPUs, the one that switches gets its turn more seldom.
        let time = time * (threads as u32 / 2).max(1);
        let period = Duration::from_micros(200);
        let toggled = run(&hot, threads, time, Some(period), |on| hot.switch(on));
        let balance = |a: u64, b: u64| a.max(b) as f64 / a.min(b).max(1) as f64;
        let on_off = balance(toggled.first, toggled.none);
        let line = |what: &str, run: &Run, balance: f64| {
            let (all, each, toggles) = (run.calls_in_all, run.calls_per_second, run.toggles_per_second);
            println!("threads {threads} {what} {all:.0} {each:.0} {balance:.2} {toggles:.0}");
        };
        line("on", &toggled, on_off);
        hot.switch(true);
        let swapped = run(&hot, threads, time, Some(period), |second| hot.swap(second));
        line("swap", &swapped, balance(swapped.first, swapped.second));
    }
    let hot = Hot::new(0);
    let delays = visibility(&hot, 2000);
    println!("visible {} {}", delays[delays.len() / 2], delays[delays.len() * 99 / 100]);
    match transect_text_patch::measure::install_cost(20_000) {
        Ok(cost) => println!("install {} {:.1} {:.1}", cost.sites, cost.protocol_ticks, cost.whole_ticks),
        Err(refusal) => eprintln!("install: {refusal}"),
    }
}
