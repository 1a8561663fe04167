//! Reports to show: one that could be real, one with thousands of flows, one whose names attack the page.

use serde_json::{Value, json};

/// Nanoseconds per millisecond.
const MS: i64 = 1_000_000;

/// A caller, a callee, an API, its class, calls, raw total and self in milliseconds, timed one in so many calls, bytes.
type Call<'a> = (&'a str, &'a str, &'a str, &'a str, i64, i64, i64, i64, Option<i64>);

/// Active threads of the mean instant: attributed time is raw time divided by it.
const ACTIVE: f64 = 5.4;

fn attributed(ms: i64) -> i64 {
    ((ms * MS) as f64 / ACTIVE) as i64
}

#[rustfmt::skip]
const CALLS: &[Call] = &[
    ("thumbd", "libvips.so.42", "vips_thumbnail_buffer", "compute", 4_812, 46_120, 9_840, 1, None),
    ("thumbd", "libvips.so.42", "vips_image_write_to_buffer", "compute", 4_812, 8_310, 310, 1, None),
    ("libvips.so.42", "libjpeg.so.62", "jpeg_read_scanlines", "compute", 11_549_000, 10_900, 10_610, 40, None),
    ("libvips.so.42", "libjpeg.so.62", "jpeg_write_scanlines", "compute", 1_540_000, 3_410, 3_190, 12, None),
    ("libvips.so.42", "libjpeg.so.62", "jpeg_read_header", "compute", 4_812, 61, 55, 1, None),
    ("libvips.so.42", "liborc-0.4.so.0", "orc_executor_run", "compute", 2_887_000, 16_400, 16_390, 24, None),
    ("libvips.so.42", "liblcms2.so.2", "cmsDoTransform", "compute", 962_000, 6_050, 6_048, 8, None),
    ("libvips.so.42", "libpng16.so.16", "png_read_row", "compute", 730_000, 1_730, 610, 6, None),
    ("libvips.so.42", "libpng16.so.16", "png_write_row", "compute", 210_000, 2_190, 240, 3, None),
    ("libpng16.so.16", "libz.so.1", "inflate", "compute", 731_000, 1_080, 1_074, 6, None),
    ("libpng16.so.16", "libz.so.1", "deflate", "compute", 212_000, 1_940, 1_930, 3, None),
    ("libpng16.so.16", "libc.so.6", "memcpy", "compute", 3_120_000, 41, 41, 310, Some(9_200_000_000)),
    ("libvips.so.42", "libglib-2.0.so.0", "g_mutex_lock", "lock", 12_400_000, 2_240, 130, 61, None),
    ("libvips.so.42", "libglib-2.0.so.0", "g_hash_table_lookup", "compute", 8_810_000, 340, 325, 120, None),
    ("libvips.so.42", "libglib-2.0.so.0", "g_object_unref", "compute", 3_204_000, 420, 190, 80, None),
    ("libglib-2.0.so.0", "libc.so.6", "pthread_mutex_lock", "lock", 12_431_000, 2_110, 2_110, 61, None),
    ("libglib-2.0.so.0", "libc.so.6", "malloc", "compute", 5_310_000, 280, 280, 200, Some(1_210_000_000)),
    ("libglib-2.0.so.0", "libc.so.6", "free", "compute", 5_308_000, 190, 190, 200, None),
    ("libvips.so.42", "libc.so.6", "memcpy", "compute", 9_640_000, 870, 870, 110, Some(61_300_000_000)),
    ("libvips.so.42", "libc.so.6", "madvise", "compute", 96_240, 1_140, 1_140, 1, None),
    ("libvips.so.42", "libm.so.6", "pow", "compute", 22_100_000, 610, 610, 480, None),
    ("thumbd", "libc.so.6", "read", "io", 1_210_400, 1_290, 1_290, 1, Some(19_700_000_000)),
    ("thumbd", "libc.so.6", "openat", "io", 4_820, 33, 33, 1, None),
    ("thumbd", "libc.so.6", "pthread_cond_wait", "wait", 38_210, 118_300, 118_300, 1, None),
    ("thumbd", "libc.so.6", "pthread_mutex_lock", "lock", 421_000, 410, 410, 4, None),
    ("thumbd", "libc.so.6", "pthread_join", "wait", 14, 12_160, 12_160, 1, None),
    ("thumbd", "libc.so.6", "epoll_wait", "wait", 9_910, 10_900, 10_900, 1, None),
    ("thumbd", "libstdc++.so.6", "std::map<std::string, Job>::_M_insert_unique(std::pair<std::string const, Job>&&)",
     "compute", 4_812, 3, 2, 1, None),
    ("thumbd", "libstdc++.so.6", "operator new(unsigned long)", "compute", 1_830_000, 104, 12, 150, Some(310_000_000)),
    ("libstdc++.so.6", "libc.so.6", "malloc", "compute", 1_831_000, 92, 92, 150, Some(310_000_000)),
    ("thumbd", "libsqlite3.so.0", "sqlite3_step", "compute", 9_640, 412, 120, 1, None),
    ("libsqlite3.so.0", "libc.so.6", "fdatasync", "io", 1_204, 260, 260, 1, None),
    ("libsqlite3.so.0", "libc.so.6", "pwrite64", "io", 9_700, 31, 31, 1, Some(39_000_000)),
    ("thumbd", "libcurl.so.4", "curl_multi_perform", "compute", 9_910, 510, 140, 1, None),
    ("libcurl.so.4", "libssl.so.3", "SSL_write", "compute", 21_000, 320, 40, 1, Some(330_000_000)),
    ("libssl.so.3", "libcrypto.so.3", "EVP_EncryptUpdate", "compute", 42_000, 240, 240, 1, Some(330_000_000)),
    ("libssl.so.3", "libc.so.6", "write", "io", 21_400, 45, 45, 1, Some(331_000_000)),
    ("libcurl.so.4", "libc.so.6", "send", "io", 310, 6, 6, 1, None),
    ("libcurl.so.4", "libnghttp2.so.14", "nghttp2_session_mem_recv", "compute", 8_000, 9, 9, 1, None),
    ("libcurl.so.4", "libidn2.so.0", "idn2_lookup_ul", "compute", 12, 1, 1, 1, None),
    ("libvips.so.42", "libexif.so.12", "exif_data_load_data", "compute", 4_812, 88, 60, 1, None),
    ("libexif.so.12", "libc.so.6", "calloc", "compute", 310_000, 19, 19, 12, None),
    ("libvips.so.42", "libexpat.so.1", "XML_Parse", "compute", 1_100, 5, 5, 1, None),
    ("libvips.so.42", "libgobject-2.0.so.0", "g_signal_emit", "compute", 640_000, 190, 150, 30, None),
    ("libgobject-2.0.so.0", "libffi.so.8", "ffi_call", "compute", 320_000, 38, 38, 30, None),
    ("thumbd", "libc.so.6", "_setjmp", "count-only", 4_812, 0, 0, 1, None),
];

/// A run that could have been: a service that makes thumbnails in a pipeline of threads.
pub fn realistic() -> Value {
    let flows: Vec<Value> = CALLS.iter().map(flow).collect();
    let wall = 12_400 * MS;
    let mut threads = Vec::new();
    let mut tid = 41_820;
    let groups: [(&str, &str, &str, &[i64]); 6] = [
        ("main", "thumbd", "", &[210]),
        ("scan", "scan", "thumbd::scan_folder(Queue&)", &[1_320]),
        ("decode", "decode", "thumbd::decode_loop(Queue&, Queue&)", &[3_410, 3_190, 3_020, 2_890]),
        ("resize", "resize", "thumbd::resize_loop(Queue&, Queue&)", &[11_340, 11_290, 11_020, 10_970]),
        ("encode", "encode", "thumbd::encode_loop(Queue&, Queue&)", &[4_480, 2_210, 1_830, 910]),
        ("upload", "upload", "thumbd::upload_loop(Queue&)", &[690]),
    ];
    for (group, name, start, busy) in groups {
        for (n, busy) in busy.iter().enumerate() {
            let name = if busy > &0 && start.is_empty() { name.to_owned() } else { format!("{name}-{n}") };
            threads.push(json!({
                "process": 41_820, "tid": tid, "name": name, "group": group, "start_routine": start,
                "wall_ns": wall, "busy_ns": busy * MS, "wait_ns": wall - busy * MS, "calls": busy * 2_113 + 17,
                "attributed_ns": (wall as f64 / ACTIVE) as i64, "executable": "thumbd", "start_ns": 0,
            }));
            tid += 1;
        }
    }
    let mut loss = vec![
        json!({"what": "unhooked slots", "where": "libgobject-2.0.so.0", "count": 37, "reason": "function pointers that the program compares are left alone"}),
        json!({"what": "unhooked slots", "where": "libcrypto.so.3", "count": 105, "reason": "function pointers that the program compares are left alone"}),
        json!({"what": "unprofiled children", "where": "/usr/bin/sudo", "count": 1, "reason": "set-uid program: the loader ignores the agent"}),
    ];
    loss.push(json!({"what": "untimed calls", "where": "resize", "count": 212, "reason": "no frame was free: calls nested deeper than 4096"}));
    json!({
        "meta": {
            "schema": 1,
            "command": ["thumbd", "--input", "photos/2026", "--workers", "4", "--upload", "https://images.example.org/"],
            "machine": {"hostname": "build-07", "kernel": "6.18.5", "cpu": "AMD EPYC 7763", "cpus": 8, "memory_bytes": 33_285_996_544_i64},
            "clock": {"source": "tsc", "ticks_per_ns": 2.1, "timed_call_ns": 31.2, "counted_call_ns": 0.6},
            "collectors": ["flow"], "timing": {"mode": "adaptive", "budget": 0.03},
            "overhead_estimate": 0.021, "wall_ns": wall, "started_unix_ns": 1_795_000_000_000_000_000_i64, "exit_status": 0,
        },
        "summary": [
            {"finding": "Thread group resize is busy 90 % of the time while others wait", "evidence": "resize: 11.2 s of 12.4 s busy per thread; upload: 690 ms, 16 × less", "view": "threads", "next": "give resize more threads, or make it cheaper", "kind": "imbalance", "percent": 66.0},
            {"finding": "liborc-0.4.so.0 takes 27 % of the busy time through one API", "evidence": "orc_executor_run: 2.89 M calls from libvips.so.42, 16.4 s, 5.68 µs each", "view": "apis", "next": "See who calls it: --view callers --component liborc-0.4.so.0 --api orc_executor_run", "kind": "heavy-api", "percent": 24.3},
            {"finding": "read is called 1.21 M times for 16 KiB each", "evidence": "thumbd → libc.so.6 read: 1.29 s for 18.3 GiB", "view": "flows", "next": "read whole files or map them", "kind": "tiny-io", "percent": 1.9},
            {"finding": "A mutex of libvips.so.42 is contended", "evidence": "12.4 M acquisitions, 21 % found it held, 1.98 s waited", "view": "locks", "next": "transect report --view locks", "kind": "contended-lock", "percent": 2.9},
        ],
        "components": components(&flows, &[("thumbd", 2_190), ("libvips.so.42", 10_150)]),
        "flows": flows,
        "threads": threads,
        "waits": [
            {"group": "encode", "api": "pthread_cond_wait", "object": "condition 0x55d0a1c2 (encode_queue)", "count": 14_902, "ns": 39_800 * MS, "caller": "thumbd"},
            {"group": "decode", "api": "pthread_cond_wait", "object": "condition 0x55d0a1e8 (decoded_queue full)", "count": 17_020, "ns": 36_900 * MS, "caller": "thumbd"},
            {"group": "upload", "api": "epoll_wait", "object": "fd 9", "count": 9_910, "ns": 10_900 * MS, "caller": "thumbd"},
            {"group": "main", "api": "pthread_join", "object": "thread 41821", "count": 14, "ns": 12_160 * MS, "caller": "thumbd"},
            {"group": "scan", "api": "pthread_cond_wait", "object": "condition 0x55d0a100 (scan_queue full)", "count": 4_310, "ns": 9_610 * MS, "caller": "thumbd"},
            {"group": "resize", "api": "pthread_mutex_lock", "object": "mutex 0x7f10c0a8 (vips_cache_lock)", "count": 2_610_000, "ns": 1_980 * MS, "caller": "libglib-2.0.so.0"},
            {"group": "scan", "api": "read", "object": "fd 5", "count": 1_210_400, "ns": 1_290 * MS, "caller": "thumbd"},
            {"group": "encode", "api": "fdatasync", "object": "fd 7", "count": 1_204, "ns": 260 * MS, "caller": "libsqlite3.so.0"},
        ],
        "locks": [
            {"object": "mutex 0x7f10c0a8 (vips_cache_lock)", "path": "thumbd!resize_loop > libvips.so.42!vips_cache_operation_buildp > libglib-2.0.so.0!g_mutex_lock", "acquisitions": 12_400_000, "contended": 2_610_000, "wait_ns": 1_980 * MS, "hold_ns": 2_410 * MS, "process": 41_820},
            {"object": "mutex 0x55d0a1c0 (encode_queue)", "path": "thumbd!encode_loop > libc.so.6!pthread_mutex_lock", "acquisitions": 231_000, "contended": 8_200, "wait_ns": 240 * MS, "hold_ns": 96 * MS, "process": 41_820},
            {"object": "mutex 0x55d0a1e0 (decoded_queue)", "path": "thumbd!decode_loop > libc.so.6!pthread_mutex_lock", "acquisitions": 190_000, "contended": 5_900, "wait_ns": 170 * MS, "hold_ns": 88 * MS, "process": 41_820},
            {"object": "rwlock 0x7f10c220", "path": "thumbd!main > libsqlite3.so.0!sqlite3_step", "acquisitions": 9_640, "contended": 0, "wait_ns": 0, "hold_ns": 31 * MS, "process": 41_820},
        ],
        "loss": loss,
    })
}

fn flow(call: &Call) -> Value {
    let (caller, callee, api, class, calls, total, own, period, bytes) = *call;
    let wait = matches!(class, "lock" | "wait");
    let timed = class != "count-only";
    let mut row = json!({
        "caller": caller, "callee": callee, "api": api, "symbol": api, "version": if callee == "libc.so.6" { "GLIBC_2.2.5" } else { "" },
        "class": class, "wait": wait, "calls": calls, "timed_calls": if timed { calls / period } else { 0 }, "abandoned_calls": 0,
        "total_ns": timed.then_some(total * MS), "self_ns": timed.then_some(own * MS),
        "attributed_ns": timed.then_some(attributed(total)), "dlsym": false,
    });
    if period > 1 {
        let width = 0.004 * (period as f64).sqrt();
        for (key, ms) in [("total_ns", total), ("self_ns", own)] {
            let ns = (ms * MS) as f64;
            row[format!("{key}_low")] = json!((ns * (1.0 - width)) as i64);
            row[format!("{key}_high")] = json!((ns * (1.0 + width)) as i64);
        }
    }
    if let Some(bytes) = bytes {
        row["bytes"] = json!(bytes);
    }
    row
}

/// Component rows that fit the flows: self times are the callees' self times, `extra` gives those of others in ms.
fn components(flows: &[Value], extra: &[(&str, i64)]) -> Vec<Value> {
    let mut names: Vec<&str> = Vec::new();
    for flow in flows {
        for key in ["caller", "callee"] {
            let name = flow[key].as_str().unwrap_or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let sum = |key: &str, keep: &dyn Fn(&Value) -> bool| -> i64 {
        flows.iter().filter(|flow| keep(flow)).filter_map(|flow| flow[key].as_i64()).sum()
    };
    names
        .iter()
        .map(|name| {
            let own = sum("self_ns", &|f| f["callee"] == *name && f["wait"] == false)
                + extra.iter().find(|(known, _)| known == name).map_or(0, |(_, ms)| ms * MS);
            let wait = sum("total_ns", &|f| f["caller"] == *name && f["wait"] == true);
            let executable = !name.contains(".so");
            json!({
                "component": name,
                "path": if executable { format!("/usr/local/bin/{name}") } else { format!("/usr/lib/x86_64-linux-gnu/{name}") },
                "build_id": "8f1c2d3e4b5a69788796a5b4c3d2e1f0aabbccdd", "self_ns": own, "wait_ns": wait,
                "self_attributed_ns": (own as f64 / ACTIVE) as i64, "wait_attributed_ns": (wait as f64 / ACTIVE) as i64,
                "calls_in": sum("calls", &|f| f["callee"] == *name), "calls_out": sum("calls", &|f| f["caller"] == *name),
                "others": [], "executable": executable, "synthetic": false,
            })
        })
        .collect()
}

/// A report of `n` flows over 60 components, the same at every run.
pub fn many(n: usize) -> Value {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        // xorshift64: the page only needs numbers that differ.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let name = |i: u64| if i == 0 { "server".to_owned() } else { format!("libmodule_{i:02}.so.{}", i % 7) };
    let classes = ["compute", "compute", "compute", "compute", "compute", "io", "lock", "wait", "count-only"];
    let flows: Vec<Value> = (0..n)
        .map(|i| {
            let caller = next(60);
            let callee = (caller + 1 + next(59)) % 60;
            let class = classes[next(9) as usize];
            let (few_bits, short_bits) = (next(28), next(11));
            let calls = 1 + next(2 << few_bits) as i64;
            let per_call = 1 + next(2 << short_bits) as i64;
            let total = calls.saturating_mul(per_call) / 40;
            let timed = class != "count-only";
            let own = total - total / (2 + next(6) as i64);
            json!({
                "caller": name(caller), "callee": name(callee),
                "api": format!("module{callee:02}::{}<Key{}>::{}_{i}(Context&, unsigned long)", ["Cache", "Parser", "Writer", "Index"][next(4) as usize], next(20), ["find", "insert", "flush", "step"][next(4) as usize]),
                "symbol": format!("_ZN8module{callee:02}{i}"), "version": "", "class": class, "wait": matches!(class, "lock" | "wait"),
                "calls": calls, "timed_calls": if timed { calls } else { 0 }, "abandoned_calls": 0,
                "total_ns": timed.then_some(total), "self_ns": timed.then_some(own), "attributed_ns": timed.then_some(total / 4), "dlsym": false,
            })
        })
        .collect();
    let lifetime: i64 = flows.iter().filter_map(|flow| flow["self_ns"].as_i64()).sum();
    let threads: Vec<Value> = (0..80)
        .map(|i| {
            let wall = lifetime / 80;
            let busy = wall / (1 + i % 9);
            json!({
                "process": 7, "tid": 100 + i, "name": format!("pool-{i}"), "group": format!("pool {}", i / 20), "start_routine": "pool::run()",
                "wall_ns": wall, "busy_ns": busy, "wait_ns": wall - busy, "calls": 1_000 + i, "attributed_ns": wall / 4,
            })
        })
        .collect();
    let mut report = realistic();
    report["meta"]["command"] = json!(["server", "--threads", "80"]);
    report["meta"]["wall_ns"] = json!(lifetime / 80);
    report["components"] = json!(components(&flows, &[("server", 9_000)]));
    report["flows"] = json!(flows);
    report["threads"] = json!(threads);
    report
}

/// Names that try to become markup, script, addresses, or other names.
pub const HOSTILE: [&str; 9] = [
    "</script><img src=x onerror=window.injected=1>",
    "<!--<script>window.injected=2</script>",
    "\"'><svg/onload=window.injected=3>",
    "&lt;b&gt;&amp;",
    "javascript:window.injected=4//#/component/..%2f",
    "evil\u{202e}gpj.exe\u{202c}",
    "line\u{2028}separator\u{2029}\n\r\t\u{0}\u{1b}[31m",
    "__proto__",
    "%E0%A4%A",
];

/// Every string of the report is one of [`HOSTILE`].
pub fn hostile() -> Value {
    let mut report = realistic();
    let mut flows = Vec::new();
    for (i, caller) in HOSTILE.iter().enumerate() {
        let callee = HOSTILE[(i + 1) % HOSTILE.len()];
        let mut row = flow(&(
            caller,
            callee,
            HOSTILE[(i + 2) % HOSTILE.len()],
            "compute",
            1_000,
            900 - i as i64 * 50,
            300,
            1,
            None,
        ));
        row["symbol"] = json!(HOSTILE[(i + 3) % HOSTILE.len()]);
        row["version"] = json!(HOSTILE[(i + 4) % HOSTILE.len()]);
        flows.push(row);
    }
    let mut components = components(&flows, &[]);
    for row in &mut components {
        row["path"] = row["component"].clone();
        row["build_id"] = row["component"].clone();
    }
    report["meta"]["command"] = json!(HOSTILE);
    report["meta"]["machine"]["hostname"] = json!(HOSTILE[0]);
    report["flows"] = json!(flows);
    report["components"] = json!(components);
    let measured = latencies(HOSTILE.len() + 1);
    report["meta"]["latency"] = measured["meta"]["latency"].clone();
    report["meta"]["collectors"] = json!(["flow", "latency"]);
    report["latency"] = measured["latency"].clone();
    report["latency_heat_map"] = measured["latency_heat_map"].clone();
    for (key, columns) in [
        ("summary", ["finding", "evidence", "view", "next"].as_slice()),
        ("threads", &["name", "group", "start_routine", "executable"]),
        ("waits", &["group", "api", "object", "caller"]),
        ("locks", &["object", "path"]),
        ("latency", &["function", "component", "symbol", "file"]),
        ("loss", &["what", "where", "reason"]),
    ] {
        if let Some(rows) = report[key].as_array_mut() {
            for (i, row) in rows.iter_mut().enumerate() {
                for column in columns {
                    row[*column] = json!(HOSTILE[i % HOSTILE.len()]);
                }
            }
        }
    }
    report
}

/// Durations of `functions` functions over two minutes, as a measurement of latencies alone gives them: the first has a
/// heavy tail, the second becomes slow in mid-run, two share a name, the last never returned.
pub fn latencies(functions: usize) -> Value {
    const SLICES: usize = 120;
    let bounds: Vec<(i64, i64)> = (0..200)
        .map(|n: i64| {
            let (octave, step) = (n / 8, n % 8);
            ((8 + step) << octave, (9 + step) << octave)
        })
        .collect();
    let mut rows = Vec::new();
    let mut pictures = Vec::new();
    for n in 0..functions {
        let mut cells: Vec<[usize; 3]> = Vec::new();
        let returns = n + 1 < functions;
        for slice in (0..SLICES).filter(|slice| returns && (n < 40 || slice % 10 == n % 10)) {
            let typical = match n {
                1 if slice >= 60 => 120,
                _ => 20 + n * 13 % 90,
            };
            for (bucket, count) in [(typical, 5), (typical + 1, 9), (typical + 3, 2)] {
                cells.push([slice, bucket, count]);
            }
            if n == 0 && slice % 7 == 0 {
                cells.push([slice, 180, 1]);
            }
        }
        let samples: usize = cells.iter().map(|cell| cell[2]).sum();
        let name = match n {
            0 => "Server::handle(Request const&)".to_owned(),
            1 => "Codec::encode(Frame const&)".to_owned(),
            2 | 3 => "reset".to_owned(),
            _ if !returns => "main".to_owned(),
            _ => format!("part::step_{n}(Buffer const&, unsigned long)"),
        };
        let typical = bounds[21 + n * 13 % 90].0;
        let time = |ns: i64| if returns { json!(ns) } else { Value::Null };
        rows.push(json!({
            "function": name, "component": if n % 3 == 0 { "service" } else { "libcodec.so.2" },
            "calls_seen": samples.max(1), "samples": samples, "mean_ns": time(typical + 7), "p50_ns": time(typical),
            "p90_ns": time(typical * 2), "p99_ns": time(if n == 0 { typical * 400 } else { typical * 3 }),
            "max_ns": time(if n == 0 { bounds[180].1 } else { typical * 4 }),
            "calls_estimated": samples * 50, "total_ns": time((functions - n) as i64 * 1_000_000),
            "symbol": name, "file": if n == 3 { "src/pool.c" } else { "src/main.c" }, "line": n, "address": 4096 + n * 64,
        }));
        pictures.push(json!({"merge": 1, "cells": cells.into_iter().flatten().collect::<Vec<_>>()}));
    }
    // The two of one name are of one component.
    rows[2]["component"] = json!("service");
    json!({
        "meta": {
            "schema": 1, "command": ["service", "--workers", "2"], "collectors": ["latency"],
            "timing": {"mode": "count"}, "overhead_estimate": 0.0147, "wall_ns": 120_000 * MS, "exit_status": 0,
            "latency": {
                "sampling": {"mode": "budget", "share": 0.02}, "epoch_ns": 10 * MS, "measured_ns": 120_000 * MS,
                "probes_installed": 2_413, "probes_active": functions, "sites_refused": 145, "toggles": 23_410,
                "toggles_per_second": 195.1, "samples": 93_660, "samples_per_second": 780.5, "toggling_share": 0.0008,
                "empty_ns": 16.7, "stops": 3, "longest_stop_ns": 412_000, "total_stop_ns": 803_000, "abandoned": 4,
                "untimed": 0,
            },
        },
        "summary": [{
            "finding": "Codec::encode becomes 4.5 times slower in mid-run", "evidence": "median 41.6 µs until 60.0 s",
            "view": "latency", "kind": "latency-shift", "percent": 40.0,
            "next": "See it: --view latency --component libcodec.so.2 --api 'Codec::encode(Frame const&)'",
        }],
        "latency": rows,
        "latency_heat_map": {
            "starts_ns": (0..SLICES as i64).map(|n| n * 1_000 * MS).collect::<Vec<_>>(),
            "end_ns": 120_000 * MS, "buckets": bounds, "functions": pictures,
        },
        "loss": [{"what": "skipped functions", "where": "libcodec.so.2", "count": 145, "reason": "shorter than a jump"}],
    })
}
