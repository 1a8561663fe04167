use transect_profile_model::{ApiClass, Lock, Loss, LossKind, Profile, Timing, TraceEvent, Wait};

use super::{Call, ProfileBuilder, ThreadSpec};

const MS: i64 = 1_000_000;

/// A server that scales pictures: a main thread, four workers, one writer and a logging child process; about 40
/// flows over nine components, of which two share a file name. Times are sampled and have intervals and quantiles.
pub fn image_server() -> Profile {
    let libraries = [
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libz.so.1",
        "/usr/lib/x86_64-linux-gnu/libjpeg.so.62",
        "/usr/lib/x86_64-linux-gnu/libm.so.6",
        "/opt/imgserver/plugins/fast/libscale.so",
        "/opt/imgserver/plugins/fine/libscale.so",
        "/opt/imgserver/bin/imglog",
        "[vdso]",
    ];
    let [c, cxx, z, jpeg, m, fast, fine, _log, vdso] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let main = ThreadSpec {
        name: "imgserver".into(),
        group: "main".into(),
        own_ns: 180 * MS,
        active: 3,
        calls: vec![
            Call::new(c, "epoll_wait", 5_200, 2_100 * MS).class(ApiClass::Wait),
            Call::new(c, "accept4", 5_000, 40 * MS).class(ApiClass::Io),
            Call::new(c, "read", 5_100, 90 * MS).class(ApiClass::Io).bytes(20_400_000),
            Call::new(c, "pthread_create", 5, MS),
            Call::new(c, "pthread_join", 5, 12 * MS).class(ApiClass::Wait),
            Call::new(c, "pthread_mutex_lock", 5_000, 9 * MS).class(ApiClass::Lock),
            Call::new(c, "pthread_mutex_unlock", 5_000, MS),
            Call::new(c, "pthread_cond_signal", 5_000, 4 * MS),
            Call::new(c, "fork", 1, MS),
            Call::new(vdso, "clock_gettime", 10_400, MS / 2),
        ],
    };
    let mut builder = ProfileBuilder::new("/opt/imgserver/bin/imgserver", &libraries).thread(main);
    for worker in 0..4_i64 {
        let scale = |ms: i64| ms * MS * (16 + worker) / 16;
        let allocate = |calls: i64| {
            Call::new(cxx, "operator new(unsigned long)", calls, calls * 9).inner([Call::new(
                c,
                "malloc",
                calls,
                calls * 38,
            )
            .bytes(calls * 640)])
        };
        let release = |calls: i64| {
            Call::new(cxx, "operator delete(void*)", calls, calls * 4).inner([Call::new(c, "free", calls, calls * 21)])
        };
        builder = builder.thread(ThreadSpec {
            name: format!("worker-{worker}"),
            group: "worker".into(),
            own_ns: scale(260),
            active: 3,
            calls: vec![
                Call::new(jpeg, "jpeg_read_scanlines", 410_000, scale(620)).inner([
                    Call::new(c, "memcpy", 820_000, scale(24)).bytes(820_000 * 512),
                    Call::new(c, "memset", 12_000, scale(3)).bytes(12_000 * 4096),
                ]),
                Call::new(jpeg, "jpeg_write_scanlines", 205_000, scale(310)),
                Call::new(fast, "scale_rows(Image const&, Image&)", 1_100, scale(240))
                    .inner([Call::new(m, "floor", 410_000, scale(5)), Call::new(c, "memcpy", 9_000, scale(6))]),
                Call::new(fine, "scale_rows(Image const&, Image&)", 150, scale(190))
                    .inner([Call::new(m, "lanczos_weight", 90_000, scale(31)), Call::new(m, "sin", 180_000, scale(9))]),
                Call::new(z, "deflate", 1_250, scale(380)).inner([Call::new(c, "memcpy", 60_000, scale(11))]),
                Call::new(z, "crc32", 1_250, scale(22)),
                allocate(64_000),
                release(64_000),
                Call::new(cxx, "std::string::compare(char const*) const", 38_000, scale(2))
                    .inner([Call::new(c, "strlen", 38_000, scale(1)), Call::new(c, "memcmp", 37_000, scale(1))]),
                Call::new(c, "pthread_mutex_lock", 6_300, scale(55)).class(ApiClass::Lock),
                Call::new(c, "pthread_mutex_unlock", 6_300, scale(1)),
                Call::new(c, "pthread_cond_wait", 1_300, scale(240)).class(ApiClass::Wait),
                Call::new(c, "__cxa_throw", 3, 0).class(ApiClass::CountOnly),
            ],
        });
    }
    let writer = ThreadSpec {
        name: "writer".into(),
        group: "writer".into(),
        own_ns: 60 * MS,
        active: 3,
        calls: vec![
            Call::new(c, "write", 5_000, 310 * MS).class(ApiClass::Io).bytes(5_000 * 61_440),
            Call::new(c, "fsync", 40, 260 * MS).class(ApiClass::Io),
            Call::new(c, "pthread_cond_wait", 5_100, 1_700 * MS).class(ApiClass::Wait),
            Call::new(c, "pthread_mutex_lock", 5_100, 6 * MS).class(ApiClass::Lock),
            Call::new(c, "pthread_mutex_unlock", 5_100, MS),
        ],
    };
    let log = ThreadSpec {
        name: "imglog".into(),
        group: "main".into(),
        own_ns: 20 * MS,
        active: 3,
        calls: vec![
            Call::new(c, "read", 900, 1_900 * MS).class(ApiClass::Io).bytes(90_000),
            Call::new(c, "snprintf", 900, 2 * MS),
            Call::new(c, "write", 900, 8 * MS).class(ApiClass::Io).bytes(120_000),
        ],
    };
    let mut profile = builder.thread(writer).process("/opt/imgserver/bin/imglog").thread(log).build();
    profile.components[8].executable = true;
    decorate(&mut profile);
    profile
}

/// Adds what a recording has beside call trees: samples, quantiles, waits, locks, a trace, losses.
fn decorate(profile: &mut Profile) {
    profile.meta.timing = Timing::Adaptive { budget: 0.03 };
    profile.meta.command = ["/opt/imgserver/bin/imgserver", "--port", "8080"].map(str::to_owned).to_vec();
    for flow in &mut profile.flows {
        let Some(total) = flow.total_ns else { continue };
        let mean = total / flow.calls.max(1);
        flow.p50_ns = Some(mean * 4 / 5);
        flow.p99_ns = Some(mean * 6);
        flow.max_ns = Some(mean * 40);
        // Hot and short: timed one in 64, known within 4 %.
        if flow.calls > 10_000 && mean < 10_000 {
            flow.timed_calls = flow.calls / 64;
            flow.total_ns_low = Some(total - total / 25);
            flow.total_ns_high = Some(total + total / 25);
            flow.self_ns_low = flow.self_ns.map(|ns| ns - ns / 25);
            flow.self_ns_high = flow.self_ns.map(|ns| ns + ns / 25);
        }
        if flow.api == "lanczos_weight" {
            flow.dlsym = true;
        }
        if flow.api == "memcpy" {
            flow.version = "GLIBC_2.14".into();
        }
    }
    let waiting: Vec<Wait> = profile
        .flows
        .iter()
        .filter(|flow| flow.class.is_wait())
        .map(|flow| Wait {
            thread: flow.thread,
            api: flow.api.clone(),
            object: match flow.api.as_str() {
                "pthread_mutex_lock" => "mutex 0x55d0c0a0 (queue_lock)".into(),
                "pthread_cond_wait" => "condition 0x55d0c0e0 (queue_filled)".into(),
                "epoll_wait" => "fd 5".into(),
                _ => String::new(),
            },
            count: flow.calls,
            ns: flow.total_ns.unwrap_or(0),
            caller: flow.caller,
        })
        .collect();
    profile.waits = waiting;
    let lock = |object: &str, path: &str, acquisitions, contended, wait_ns, hold_ns| Lock {
        process: 0,
        object: object.into(),
        path: path.into(),
        acquisitions,
        contended,
        wait_ns,
        hold_ns,
        hold_ns_low: Some(hold_ns * 9 / 10),
        hold_ns_high: Some(hold_ns * 11 / 10),
    };
    profile.locks = vec![
        lock(
            "mutex 0x55d0c0a0 (queue_lock)",
            "imgserver!worker_main > imgserver!Queue::pop",
            25_200,
            3_100,
            224 * MS,
            31 * MS,
        ),
        lock("mutex 0x55d0c0a0 (queue_lock)", "imgserver!main > imgserver!Queue::push", 5_000, 610, 9 * MS, 6 * MS),
        lock("mutex 0x55d0d100", "imgserver!writer_main", 5_100, 12, 6 * MS, 2 * MS),
    ];
    profile.trace = (0..200)
        .map(|event| TraceEvent {
            time_ns: 1_000 + event * 7_919,
            thread: (event % 5) as u32,
            caller: 0,
            api: "deflate".into(),
            args: [0x7f00_0000_0000 + event, 4, 0, -1, i64::MIN, i64::MAX],
        })
        .collect();
    let loss =
        |what, place: &str, count, reason: &str| Loss { what, place: place.into(), count, reason: reason.into() };
    profile.loss = vec![
        loss(LossKind::UnhookedSlots, "libjpeg.so.62", 7, "loaded as function pointers"),
        loss(LossKind::UntimedCalls, "worker-2", 118, "no frame was free"),
        loss(LossKind::UnresolvedNames, "libscale.so", 2, "stripped"),
        loss(LossKind::UnprofiledChildren, "/usr/bin/sudo", 1, "set-uid program"),
    ];
}
