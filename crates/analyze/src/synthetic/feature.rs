use transect_profile_model::{ApiClass, FeatureId, Loss, LossKind, Profile, RegionId, RegionKind};

use super::large::Random;
use super::region_run::Run;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

/// The program of the thesis' listing 2.2: regions R1 {A}, R2 {A,B}, R3 {B} and R4 {A} inside R3, each entered once,
/// with both features on: 12 s, of which 1 in no region.
pub fn feature_listing() -> Profile {
    let mut run = Run::new("/home/dev/listing22", &[], &["A", "B"]);
    let [a, b] = [0, 1];
    let r1 = run.region(0, &[a], RegionKind::Branch, "main", "listing22.c", (12, 14), None);
    let r2 = run.region(0, &[a, b], RegionKind::Branch, "main", "listing22.c", (17, 19), None);
    let r3 = run.region(0, &[b], RegionKind::Branch, "main", "listing22.c", (22, 28), None);
    let r4 = run.region(0, &[a], RegionKind::Branch, "main", "listing22.c", (25, 27), Some(r3));
    run.thread("listing22", "main");
    run.spend(SECOND);
    run.stay(r1, 2 * SECOND);
    run.stay(r2, 4 * SECOND);
    run.enter(r3);
    run.spend(2 * SECOND);
    run.stay(r4, 3 * SECOND);
    run.leave();
    run.finish()
}

/// Twenty seconds of a packer with features for level, checksum, encryption and threads: a main thread that reads and
/// writes, three workers that compress, in the program and in a library that has regions of its own. One inner loop is
/// too hot for events and was sampled, one region is irregular, one was never entered, two variables are lost; flows
/// were recorded at the same time and are split by their regions.
pub fn feature_packer() -> Profile {
    let libraries = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/pack/lib/libcodec.so.2"];
    let mut run =
        Run::new("/opt/pack/bin/pack", &libraries, &["Level", "Checksum", "Encrypt", "Threads", "Verbose", "Sparse"]);
    let [level, checksum, encrypt, threads, verbose] = [0, 1, 2, 3, 4];
    let (branch, switch, looping, call) = (RegionKind::Branch, RegionKind::Switch, RegionKind::Loop, RegionKind::Call);
    let spawn = run.region(0, &[threads], branch, "start_workers(Options const&)", "src/main.cc", (88, 120), None);
    let pack = run.region(0, &[level], switch, "Packer::pack(Block&)", "src/packer.cc", (210, 260), None);
    let lazy = run.region(
        0,
        &[level, threads],
        looping,
        "Packer::lazyMatch(Window&, unsigned int)",
        "src/packer.cc",
        (301, 344),
        None,
    );
    let hot = run.region(0, &[level], looping, "longest_match", "src/match.c", (40, 71), None);
    let sum = run.region(0, &[checksum], branch, "Writer::flush()", "src/writer.cc", (77, 84), None);
    let seal = run.region(0, &[encrypt], branch, "Writer::flush()", "src/writer.cc", (86, 97), None);
    let both = run.region(
        0,
        &[checksum, encrypt],
        branch,
        "Writer::seal(Block const&, Key const&)",
        "src/writer.cc",
        (130, 139),
        None,
    );
    let codec = run.region(2, &[level], call, "codec_block", "codec/block.c", (512, 530), None);
    let say = run.region(0, &[verbose], branch, "report_progress", "src/main.cc", (140, 146), None);
    let broken = run.region(0, &[encrypt], looping, "Key::derive(char const*)", "src/key.cc", (33, 58), None);
    run.irregular(broken, "left by goto to line 61");
    run.sampled(hot);

    let [libc, libcodec] = [1, 2];
    run.thread("pack", "main");
    run.spend(200 * MS);
    run.call(libc, "getopt_long", ApiClass::Compute, 9, MS);
    run.enter(spawn);
    run.spend(30 * MS);
    run.call(libc, "pthread_create", ApiClass::Compute, 3, 20 * MS);
    run.leave();
    for _ in 0..160 {
        run.spend(8 * MS);
        run.call(libc, "read", ApiClass::Io, 4, 22 * MS);
        run.enter(sum);
        run.spend(16 * MS);
        run.leave();
        run.enter(seal);
        run.spend(21 * MS);
        run.call(libc, "memcpy", ApiClass::Compute, 400, 2 * MS);
        run.stay(both, 14 * MS);
        run.leave();
        run.call(libc, "write", ApiClass::Io, 2, 31 * MS);
    }
    run.call(libc, "pthread_join", ApiClass::Wait, 3, 1_400 * MS);
    for worker in 0..3_i64 {
        run.thread(&format!("pack-{worker}"), "worker");
        run.spend(300 * MS);
        for block in 0..110_i64 {
            run.call(libc, "pthread_cond_wait", ApiClass::Wait, 1, 12 * MS);
            run.enter(pack);
            run.spend(14 * MS);
            run.enter(lazy);
            run.spend((40 + 6 * worker) * MS);
            run.samples(hot, 30 * MS, 3);
            run.call(libc, "memcpy", ApiClass::Compute, 64, 3 * MS);
            run.leave();
            run.stay(codec, (20 + block % 5) * MS);
            run.call(libcodec, "codec_block", ApiClass::Compute, 1, 9 * MS);
            run.leave();
        }
    }
    let _ = say;
    run.lost(verbose, "src/main.cc:g_verbose", None);
    run.lost(level, "src/packer.cc:Packer::level", None);
    run.lost(level, "src/options.cc:opt_level_legacy", Some("no variable of this name in src/options.cc"));
    run.lost(5, "src/writer.cc:try_sparse", Some("optimised away before the analysis"));
    let mut profile = run.finish();
    let loss =
        |what, place: &str, count, reason: &str| Loss { what, place: place.into(), count, reason: reason.into() };
    profile.loss = vec![loss(LossKind::DroppedEvents, "pack-1", 1_204, "ring full for slices of the timeline")];
    profile
}

/// A program whose names try to break out of every format.
pub fn feature_hostile() -> Profile {
    let evil = "</script><b>x\u{1b}[31m\u{202e}\t\"';,\n&";
    let mut run = Run::new("/tmp/evil\u{1b}[2J", &[], &[evil, "=cmd|' /C calc'!A0", ""]);
    let deep =
        run.region(0, &[0, 1], RegionKind::Branch, &format!("f<{evil}>"), &format!("src/{evil}.cc"), (1, 0), None);
    let long = run.region(0, &[2], RegionKind::Loop, &"very::long::name<int>::".repeat(40), "", (0, 0), None);
    run.irregular(long, evil);
    run.thread(evil, evil);
    for _ in 0..40 {
        run.enter(deep);
        run.spend(10 * MS);
    }
    for _ in 0..40 {
        run.leave();
    }
    run.lost(2, evil, Some(evil));
    run.finish()
}

/// As long a recording as the recorder keeps: `slices` visits of `threads` threads in regions of `features` features.
pub fn large_features(slices: usize, threads: usize, features: usize) -> Profile {
    let names: Vec<String> = (0..features).map(|n| format!("feature_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut run = Run::new("/opt/large/bin/large", &[], &names);
    let regions: Vec<RegionId> = (0..features * 4)
        .map(|n| {
            let set: Vec<FeatureId> =
                [n % features, (n * 7 + 1) % features][..1 + n % 2].iter().map(|&f| f as u32).collect();
            run.region(
                0,
                &set,
                RegionKind::Branch,
                &format!("function_{}", n / 3),
                "src/large.c",
                (10 * n as i64, 0),
                None,
            )
        })
        .collect();
    let mut random = Random(7);
    for thread in 0..threads {
        run.thread(&format!("large-{thread}"), "worker");
        let mut depth = 0;
        for _ in 0..slices / threads {
            run.spend(random.below(40_000) as i64);
            while depth > 0 && random.below(3) == 0 {
                run.leave();
                depth -= 1;
            }
            if depth < 12 {
                run.enter(regions[random.below(regions.len() as u64) as usize]);
                depth += 1;
                run.spend(random.below(90_000) as i64);
            }
        }
        for _ in 0..depth {
            run.leave();
        }
    }
    run.finish()
}
