use rustc_hash::FxHashMap;
use transect_profile_model::{
    Component, KernelTiming, Loss, LossKind, Metric, Process, Profile, ShareMethod, Space, Timing, UserTiming,
    WalkChain, WalkEnd, WalkFrame, WalkGroup, WalkGroupId, WalkNode, WalkNodeId, WalkSession, WalkStep, WalkSystemCall,
};

use super::empty;
use super::large::Random;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

/// One frame of a path: function, component (none for the kernel), source line, inlined.
#[derive(Clone, Copy)]
struct Frame<'a> {
    function: &'a str,
    component: Option<u32>,
    line: (&'a str, i32),
    inlined: bool,
}

fn user<'a>(function: &'a str, component: u32, file: &'a str, line: i32) -> Frame<'a> {
    Frame { function, component: Some(component), line: (file, line), inlined: false }
}

fn kernel(function: &str) -> Frame<'_> {
    Frame { function, component: None, line: ("", 0), inlined: false }
}

/// Ten seconds of a caching proxy: its main thread removes cache files (ends in the journal of the file system) and
/// polls for a helper process, two threads sync a log, four compress (a function, and a function whose callees share
/// the time), a pool without a function above the threshold, and the helper, which idles. Function names are long, of one name
/// in two components, inlined; shares are exact, sampled, known by system calls and disputed.
pub fn walked_proxy() -> Profile {
    let paths = [
        "/opt/proxy/bin/cached",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/opt/proxy/lib/libcodec.so.2",
        "/opt/proxy/bin/unlinkd",
    ];
    let mut walk = Builder::new(&paths, 2, 10 * SECOND);
    let [cached, libc, codec, unlinkd] = [0, 1, 2, 3];

    // The main thread: 10 s.
    let main = walk.group(0, "main", 1);
    let root = user("main", cached, "src/main.cc", 88);
    let run = user("EventLoop::run()", cached, "src/event_loop.cc", 140);
    let release = user("Store::release(StoreKey const&)", cached, "src/store.cc", 412);
    let swap_out = user(
        "Store::swapOut(std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
         std::allocator<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > > const&, StoreEntry&)",
        cached,
        "src/store.cc",
        655,
    );
    let copy =
        Frame { inlined: true, ..user("Buffer::append(char const*, unsigned long)", cached, "src/buffer.h", 71) };
    let select = user("Comm::select(int)", cached, "src/comm.cc", 310);
    let unlink = [
        root,
        run,
        release,
        user("unlink", libc, "", 0),
        kernel("unlink"),
        kernel("do_unlinkat"),
        kernel("vfs_unlink"),
        kernel("ext4_unlink"),
    ];
    let journal = [
        kernel("__ext4_journal_start_sb"),
        kernel("jbd2__journal_start"),
        kernel("start_this_handle"),
        kernel("wait_transaction_locked"),
    ];
    walk.time(main, &[&unlink[..], &journal].concat(), [20, 90, 2_760]);
    walk.time(main, &[&unlink[..], &[kernel("ext4_delete_entry")]].concat(), [430, 40, 0]);
    walk.time(main, &[&unlink[..], &[kernel("ext4_orphan_add")]].concat(), [250, 20, 190]);
    let poll = [
        root,
        run,
        select,
        user("poll", libc, "", 0),
        kernel("poll"),
        kernel("do_sys_poll"),
        kernel("schedule_hrtimeout_range_clock"),
    ];
    walk.time(main, &poll, [60, 120, 2_930]);
    let append = [root, run, swap_out, copy, user("__memmove_avx_unaligned_erms", libc, "", 0)];
    walk.time(main, &append, [740, 60, 0]);
    let fault = [
        "asm_exc_page_fault",
        "exc_page_fault",
        "do_user_addr_fault",
        "handle_mm_fault",
        "filemap_fault",
        "folio_wait_bit_common",
    ];
    walk.time(main, &[&append[..], &fault.map(kernel)].concat(), [70, 10, 620]);
    let open = [
        root,
        run,
        swap_out,
        user("open64", libc, "", 0),
        kernel("openat"),
        kernel("do_sys_openat2"),
        kernel("ext4_create"),
    ];
    walk.time(main, &open, [610, 80, 140]);
    walk.time(main, &[root, run, swap_out], [520, 30, 0]);
    walk.time(main, &[root, run], [180, 10, 0]);
    walk.time(main, &[root], [20, 0, 0]);

    // Two threads: 20 s.
    let log = walk.group(0, "log", 2);
    let log_root = user("LogWriter::run()", cached, "src/log.cc", 33);
    let commit = user("AccessLog::commit()", cached, "src/log.cc", 97);
    let sync =
        [log_root, commit, user("fsync", libc, "", 0), kernel("fsync"), kernel("do_fsync"), kernel("ext4_sync_file")];
    walk.time(log, &[&sync[..], &[kernel("jbd2_log_wait_commit")]].concat(), [90, 180, 11_960]);
    walk.time(
        log,
        &[&sync[..], &[kernel("file_write_and_wait_range"), kernel("folio_wait_writeback")]].concat(),
        [40, 30, 900],
    );
    let wait = user("pthread_cond_wait", libc, "", 0);
    walk.time(log, &[log_root, wait, kernel("futex"), kernel("do_futex"), kernel("futex_wait_queue")], [30, 70, 4_300]);
    walk.time(
        log,
        &[log_root, commit, user("write", libc, "", 0), kernel("write"), kernel("ext4_buffered_write_iter")],
        [1_450, 210, 0],
    );
    walk.time(log, &[log_root, commit], [740, 0, 0]);

    // Four threads: 40 s.
    let worker = walk.group(0, "worker", 4);
    let work = user("Worker::loop(Queue&)", cached, "src/worker.cc", 58);
    let compress = user("Codec::compress(Frame const&, Level)", codec, "lib/codec.cc", 310);
    walk.time(worker, &[work, compress, user("longest_match", codec, "lib/match.c", 201)], [15_400, 520, 0]);
    walk.time(worker, &[work, compress], [1_600, 90, 0]);
    let decode = user("Codec::decode(Frame&)", codec, "lib/codec.cc", 520);
    for (part, ms) in [("huffman", 3_900), ("dequantize", 3_500), ("idct", 3_300), ("upsample", 2_400)] {
        walk.time(worker, &[work, decode, user(part, codec, "lib/decode.c", 40)], [ms, 70, 0]);
    }
    walk.time(worker, &[work, user("read", libc, "", 0), kernel("read"), kernel("pipe_read")], [600, 50, 5_100]);
    walk.time(worker, &[work, user("read", codec, "lib/reader.c", 12)], [3_330, 0, 0]);

    // A pool of five start routines that share the time.
    let pool = walk.group(0, "pool", 5);
    for (number, routine) in ["expire", "refresh", "resolve", "report", "rotate"].into_iter().enumerate() {
        let lines = [120, 140, 160, 180, 200];
        let routine = user(routine, cached, "src/pool.cc", lines[number]);
        walk.time(
            pool,
            &[routine, user("nanosleep", libc, "", 0), kernel("clock_nanosleep"), kernel("hrtimer_nanosleep")],
            [10, 5, 9_785],
        );
        walk.time(pool, &[routine], [200, 0, 0]);
    }

    // The helper: 10 s.
    let helper = walk.group(1, "main", 1);
    let request =
        [user("main", unlinkd, "src/unlinkd.c", 25), user("read", libc, "", 0), kernel("read"), kernel("pipe_read")];
    walk.time(helper, &request, [40, 60, 8_740]);
    walk.time(
        helper,
        &[request[0], user("unlink", libc, "", 0), kernel("unlink"), kernel("do_unlinkat")],
        [700, 60, 400],
    );

    use ShareMethod::{Exact, Sampled, SyscallExact};
    walk.chain(
        helper,
        WalkEnd::Waiting,
        ["pipe: from cached (4000)", "cached in write"],
        &[("main", Exact, 0), ("read", SyscallExact, 1), ("read", SyscallExact, 1), ("pipe_read", Sampled, 12)],
    );
    walk.chain(
        log,
        WalkEnd::Waiting,
        ["file-sync: /var/log/cached/access.log", "jbd2/vda1-8 in jbd2_journal_commit_transaction"],
        &[
            ("LogWriter::run()", Exact, 0),
            ("AccessLog::commit()", Exact, 2),
            ("fsync", SyscallExact, 1),
            ("fsync", SyscallExact, 1),
            ("do_fsync", Sampled, 9),
            ("ext4_sync_file", Sampled, 9),
            ("jbd2_log_wait_commit", Sampled, 14),
        ],
    );
    walk.chain(
        worker,
        WalkEnd::Function,
        ["", ""],
        &[
            ("Worker::loop(Queue&)", Exact, 0),
            ("Codec::compress(Frame const&, Level)", Exact, 3),
            ("longest_match", Sampled, 16),
        ],
    );
    walk.chain(
        worker,
        WalkEnd::Spread,
        ["", ""],
        &[("Worker::loop(Queue&)", Exact, 0), ("Codec::decode(Frame&)", Exact, 4)],
    );
    let compress = walk.profile.walk.chains[2].frames[1].node;
    walk.profile.walk.chains[2].frames[1].disputed = Some(0.502);
    walk.chain(
        main,
        WalkEnd::Waiting,
        ["poll: pipe to unlinkd (4001)", "unlinkd in write"],
        &[
            ("main", Exact, 0),
            ("EventLoop::run()", Exact, 1),
            ("Comm::select(int)", Exact, 3),
            ("poll", SyscallExact, 1),
            ("poll", SyscallExact, 1),
            ("do_sys_poll", Sampled, 8),
            ("schedule_hrtimeout_range_clock", Sampled, 11),
        ],
    );
    walk.chain(
        main,
        WalkEnd::Waiting,
        ["kernel-lock: journal of vda1", "jbd2/vda1-8 in jbd2_journal_commit_transaction"],
        &[
            ("main", Exact, 0),
            ("EventLoop::run()", Exact, 1),
            ("Store::release(StoreKey const&)", Exact, 4),
            ("unlink", SyscallExact, 1),
            ("unlink", SyscallExact, 1),
            ("do_unlinkat", Sampled, 10),
            ("vfs_unlink", Sampled, 10),
            ("ext4_unlink", Sampled, 10),
            ("__ext4_journal_start_sb", Sampled, 15),
            ("jbd2__journal_start", Sampled, 15),
            ("start_this_handle", Sampled, 15),
            ("wait_transaction_locked", Sampled, 17),
        ],
    );
    walk.chain(pool, WalkEnd::NothingAboveThreshold, ["", ""], &[]);
    walk.steps(helper);
    walk.steps(log);
    walk.steps(main);
    walk.steps(worker);
    if let Some(step) = walk.profile.walk.steps.iter_mut().find(|step| step.node == compress) {
        step.note = "timed twice: samples say 50.2 %".into();
    }
    for (group, name, calls, ns) in [
        (main, "unlink", 11_200, [700, 150, 2_950]),
        (main, "poll", 52_000, [60, 120, 2_930]),
        (main, "openat", 11_260, [610, 80, 140]),
        (log, "fsync", 1_840, [130, 210, 12_860]),
        (log, "write", 91_000, [1_450, 210, 0]),
        (log, "futex", 1_900, [30, 70, 4_300]),
        (worker, "read", 40_100, [600, 50, 5_100]),
        (helper, "read", 11_205, [40, 60, 8_740]),
        (helper, "unlink", 11_200, [700, 60, 400]),
    ] {
        let [on_ns, runnable_ns, blocked_ns] = ns.map(|ms| ms * MS);
        walk.profile.walk.system_calls.push(WalkSystemCall {
            group,
            name: name.into(),
            calls,
            on_ns,
            runnable_ns,
            blocked_ns,
        });
    }
    let mut profile = walk.profile();
    let loss =
        |what, place: &str, count, reason: &str| Loss { what, place: place.into(), count, reason: reason.into() };
    profile.loss = vec![
        loss(LossKind::SkippedFunctions, "libcodec.so.2", 3, "shorter than a jump"),
        loss(LossKind::UntimedCalls, "kernel", 14, "the kernel allows no probe: lockdown"),
        loss(LossKind::TruncatedStacks, "cached", 212, "deeper than 128 frames"),
    ];
    profile
}

/// A walk whose call tree has `nodes` nodes, some of them deep. The same number gives the same profile.
pub fn large_walk(nodes: usize) -> Profile {
    let paths: Vec<String> = std::iter::once("/opt/large/bin/large".to_owned())
        .chain((1..30).map(|n| format!("/usr/lib/x86_64-linux-gnu/libpart{n:02}.so.{n}")))
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut walk = Builder::new(&paths, 1, 60 * SECOND);
    let group = walk.group(0, "main", 1);
    let mut random = Random(0x5eed);
    let names: Vec<String> = (0..400)
        .map(|n| match n % 4 {
            0 => format!("vfs_step_{n}"),
            _ => format!(
                "part::Stage{:02}<std::vector<int, std::allocator<int> > >::step_{n}(Buffer const&, unsigned long)",
                n % 97
            ),
        })
        .collect();
    let frame = |n: usize| match n % 4 {
        0 => kernel(&names[n]),
        _ => user(&names[n], (n % paths.len()) as u32, "src/stage.cc", n as i32),
    };
    let root = user("main", 0, "src/main.cc", 12);
    while walk.profile.walk.nodes.len() < nodes {
        // Much time goes down the same few functions, the rest anywhere.
        let mut path = vec![root];
        for level in 0..4 + random.below(36) {
            let wide = random.below(3) == 0;
            let n = if wide { random.below(400) } else { (level * 5 + random.below(2)) % 400 } as usize;
            // Below a kernel function there are only kernel functions.
            let kernel_only = path.last().is_some_and(|last| last.component.is_none());
            path.push(frame(if kernel_only { n / 4 * 4 } else { n }));
        }
        let ms = 1 + random.below(30) as i64;
        let blocked = if path.last().is_some_and(|last| last.component.is_none()) { ms } else { 0 };
        walk.time(group, &path, [ms - blocked / 2, ms / 9, blocked / 2]);
    }
    let mut chain = vec![("main", ShareMethod::Exact, 0)];
    let mut node = 0;
    while let Some(next) = walk.heaviest_child(node).filter(|_| chain.len() < 12) {
        let function = &walk.profile.walk.nodes[next as usize].function;
        let name = names.iter().find(|name| *name == function).map_or("", String::as_str);
        chain.push((name, ShareMethod::Sampled, 12));
        node = next;
    }
    walk.chain(group, WalkEnd::Spread, ["", ""], &chain);
    walk.profile()
}

struct Builder {
    profile: Profile,
    nodes: FxHashMap<(WalkGroupId, Option<WalkNodeId>, String, Option<u32>), WalkNodeId>,
}

impl Builder {
    fn new(components: &[&str], processes: i32, wall_ns: i64) -> Self {
        let mut profile = empty();
        profile.components = components
            .iter()
            .enumerate()
            .map(|(id, path)| Component {
                path: (*path).into(),
                build_id: format!("{id:040x}"),
                executable: path.contains("/bin/"),
                synthetic: false,
                static_in: None,
            })
            .collect();
        let process = |number: i32| Process {
            pid: 4000 + number,
            parent_pid: if number == 0 { 1 } else { 4000 },
            executable: components[if number == 0 { 0 } else { components.len() - 1 }].into(),
            start_ns: 0,
            wall_ns,
        };
        profile.processes = (0..processes).map(process).collect();
        profile.meta.command = vec![components[0].into(), "--cache".into(), "/var/cache/proxy".into()];
        profile.meta.collectors = vec!["walk".into()];
        profile.meta.timing = Timing::Count;
        profile.meta.overhead_estimate = 0.0081;
        profile.meta.wall_ns = wall_ns;
        Self { profile, nodes: FxHashMap::default() }
    }

    fn group(&mut self, process: u32, name: &str, threads: i64) -> WalkGroupId {
        let group = WalkGroup {
            process,
            thread_group: name.into(),
            threads,
            total: 0,
            on_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
        };
        self.profile.walk.groups.push(group);
        self.profile.walk.groups.len() as WalkGroupId - 1
    }

    /// Adds milliseconds on CPU, runnable and blocked to a path and its group.
    fn time(&mut self, group: WalkGroupId, path: &[Frame<'_>], ms: [i64; 3]) {
        let [on, runnable, blocked] = ms.map(|ms| ms * MS);
        let of = &mut self.profile.walk.groups[group as usize];
        of.total += on + runnable + blocked;
        of.on_ns += on;
        of.runnable_ns += runnable;
        of.blocked_ns += blocked;
        let mut parent = None;
        for frame in path {
            let nodes = &mut self.profile.walk.nodes;
            let key = (group, parent, frame.function.to_owned(), frame.component);
            let id = *self.nodes.entry(key).or_insert_with(|| {
                nodes.push(WalkNode {
                    group,
                    parent,
                    function: frame.function.into(),
                    component: frame.component,
                    space: if frame.component.is_some() { Space::User } else { Space::Kernel },
                    inlined: frame.inlined,
                    file: frame.line.0.into(),
                    line: frame.line.1,
                    address: None,
                    total: 0,
                    on_ns: 0,
                    runnable_ns: 0,
                    blocked_ns: 0,
                    samples: 0,
                });
                nodes.len() as WalkNodeId - 1
            });
            let node = &mut self.profile.walk.nodes[id as usize];
            node.total += on + runnable + blocked;
            node.on_ns += on;
            node.runnable_ns += runnable;
            node.blocked_ns += blocked;
            node.samples += (on + runnable + blocked) / (10 * MS);
            parent = Some(id);
        }
    }

    fn heaviest_child(&self, parent: WalkNodeId) -> Option<WalkNodeId> {
        let nodes = (0..).zip(&self.profile.walk.nodes).filter(|(_, node)| node.parent == Some(parent));
        nodes.max_by_key(|(_, node)| node.total).map(|(id, _)| id)
    }

    /// A chain down functions of these names, each with its method and the half of its interval in thousandths.
    fn chain(&mut self, group: WalkGroupId, ends: WalkEnd, words: [&str; 2], path: &[(&str, ShareMethod, i64)]) {
        let walk = &self.profile.walk;
        let total = walk.groups[group as usize].total as f64;
        let [waiting_for, woken_by] = words.map(str::to_owned);
        let mut frames: Vec<WalkFrame> = Vec::new();
        for &(function, method, width) in path {
            let parent = frames.last().map(|frame| frame.node);
            let found = (0..)
                .zip(&walk.nodes)
                .find(|(_, node)| node.group == group && node.parent == parent && node.function == function);
            let Some((node, row)) = found else { unreachable!("{function} is not in the tree") };
            let share = row.total as f64 / total;
            let width = width as f64 / 1000.0;
            let waits = row.blocked_ns * 2 > row.total;
            frames.push(WalkFrame {
                node,
                share,
                share_low: (share - width).max(0.0),
                share_high: (share + width).min(1.0),
                method,
                disputed: None,
                woken_by: if waits { woken_by.clone() } else { String::new() },
            });
        }
        let share = frames.last().map_or(0.0, |frame| frame.share);
        self.profile.walk.chains.push(WalkChain { group, share, ends, waiting_for, woken_by, frames });
    }

    /// Steps that look at the children of every frame of the group's chains.
    fn steps(&mut self, group: WalkGroupId) {
        let walk = &mut self.profile.walk;
        let total = walk.groups[group as usize].total as f64;
        let followed: Vec<&WalkFrame> =
            walk.chains.iter().filter(|c| c.group == group).flat_map(|c| &c.frames).collect();
        for (node, row) in (0..).zip(&walk.nodes) {
            let Some(parent) = row.parent.filter(|&parent| followed.iter().any(|frame| frame.node == parent)) else {
                continue;
            };
            let frame = followed.iter().find(|frame| frame.node == node);
            let note = match (row.space, frame) {
                (_, None) => "",
                (Space::Kernel, _) => "no probe can be there: the kernel allows none",
                (Space::User, Some(frame)) if frame.method == ShareMethod::Sampled => {
                    "its calls are too short to be timed"
                }
                _ => "",
            };
            let number = walk.steps.len() as i64;
            walk.steps.push(WalkStep {
                time_ns: 200 * MS + number / 4 * 90 * MS,
                group,
                parent,
                node,
                share: row.total as f64 / total,
                method: frame.map_or(ShareMethod::Sampled, |frame| frame.method),
                followed: frame.is_some(),
                note: note.into(),
            });
        }
    }

    fn profile(mut self) -> Profile {
        self.profile.meta.walk = Some(WalkSession {
            metric: Metric::Wall,
            threshold: 0.25,
            window_ns: 200 * MS,
            max_probes: 4,
            kernel_timing: KernelTiming::Sampling,
            user_timing: Some(UserTiming::Probes),
            critical: false,
            sample_hz: 997,
            found_after_ns: Some(1_840 * MS),
            start_ns: 12 * MS,
            end_ns: self.profile.meta.wall_ns,
            system_calls_until_ns: None,
            probes_live: 4,
            probes_inserted: 37,
            longest_stop_ns: 412_000,
        });
        self.profile
    }
}
