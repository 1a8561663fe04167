"""Probes beside other ways to patch running code: toggling, installing, calling, throughput; and `transect latency` over
CPU-bound programs."""

import json
import os
import shutil
import statistics
import subprocess
import time

import programs as real

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTIONS = 20_000


def spread(values, digits=1):
    return f"{min(values):,.{digits}f} / {statistics.median(values):,.{digits}f} / {max(values):,.{digits}f}"


def last_line(done):
    return ((done.stderr or done.stdout or "").strip().splitlines() or [f"status {done.returncode}"])[-1][:140]


class Peer:
    """A program that prints lines `name value`; its figures over all rounds."""

    def __init__(self, name, command, target=None):
        self.name, self.command, self.target, self.why, self.figures = name, command, target, None, {}

    def run(self):
        if self.why:
            return
        try:
            done = subprocess.run(self.command, capture_output=True, text=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.why = str(error)[:140]
            return
        if done.returncode:
            self.why = last_line(done)
            return
        for line in done.stdout.splitlines():
            words = line.split()
            if len(words) == 2:
                try:
                    self.figures.setdefault(words[0], []).append(float(words[1]))
                except ValueError:
                    pass

    def get(self, key):
        return self.figures.get(key)


class Probes:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.build = os.path.join(options.build, "probes")
        self.root = os.path.dirname(HERE)

    def made(self, target, *variables):
        """Builds one program: None, or why not."""
        functions = 2000 if self.options.quick else FUNCTIONS
        done = subprocess.run(["make", "-s", "-C", os.path.join(HERE, "probes"), f"BUILD={self.options.build}", f"FUNCTIONS={functions}", *variables, os.path.join(self.build, target)], capture_output=True, text=True)
        return None if done.returncode == 0 else next((l.strip()[:140] for l in done.stderr.splitlines() if "error" in l.lower() or "set " in l), last_line(done))

    def peers(self):
        prefix = os.environ.get("TRANSECT_PREFIX", os.path.join(self.options.build, "libtransect"))
        if not os.path.exists(os.path.join(prefix, "lib", "libtransect.so")):
            built = os.path.dirname(self.options.transect)
            stage = os.path.join(self.root, "crates/c-library/stage.sh")
            if os.path.exists(stage) and os.path.exists(os.path.join(built, "libtransect.so")):
                subprocess.run(["sh", stage, built, prefix], capture_output=True)
        funchook = os.environ.get("FUNCHOOK_SOURCE")
        peers = {
            "transect": Peer("libtransect", [os.path.join(self.build, "transect")]),
            "word": Peer("libtransect, words", [os.path.join(self.build, "word")]),
            "xray": Peer("LLVM XRay", [os.path.join(self.build, "xray")]),
            "funchook": Peer("funchook", [os.path.join(self.build, "funchook")]),
            "uprobe": Peer("kernel uprobes (perf_event)", [os.path.join(self.build, "uprobe")]),
            "bare": Peer("no tool", [os.path.join(self.build, "call-only")]),
            "uftrace": Peer("uftrace -P", ["uftrace", "record", "-P", ".", "--force", "--no-event", "--no-pager", "-d", os.path.join(self.folder, "uftrace"), os.path.join(self.build, "call-only-uftrace")]),
        }
        targets = {"uftrace": "call-only-uftrace", "bare": "call-only"}
        for key, peer in peers.items():
            variables = {"transect": [f"TRANSECT_PREFIX={prefix}"], "word": [f"TRANSECT_PREFIX={prefix}"], "funchook": [f"FUNCHOOK_SOURCE={funchook or ''}"]}.get(key, [])
            peer.why = self.made(targets.get(key, key), *variables)
        if not shutil.which("uftrace"):
            peers["uftrace"].why = "uftrace is not installed"
        return peers

    def calibrated(self):
        done = subprocess.run([self.options.transect, "calibrate", "--quick", "--format", "json"], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(last_line(done))
        return json.loads(done.stdout)

    def words(self, peer):
        print("\n### Patching one word, ticks (min / median / max of the rounds)\n")
        print("| | one | in a row | one, while a thread executes it | × membarrier | goal |\n|---|---|---|---|---|---|")
        if peer.why or not peer.get("membarrier"):
            print(f"| {peer.name} | NOT RUN: {peer.why} | | | | |")
            return
        barrier = statistics.median(peer.get("membarrier"))
        goals = {"word": "≤ 30", "two-words-one-differs": "≤ 30", "within-line": "≤ 30", "across-lines": "≤ 3 × membarrier"}
        for key, goal in goals.items():
            one, bulk, fired = (peer.get(f"{key}-{what}") for what in ("one", "bulk", "fired-one"))
            print(f"| {key.replace('-', ' ')} | {spread(one)} | {spread(bulk)} | {spread(fired) if fired else ''} | {statistics.median(one) / barrier:.2f} | {goal} |")
        print(f"| membarrier | {spread(peer.get('membarrier'))} | | {spread(peer.get('membarrier-fired'))} | | |")

    def costs(self):
        peers = self.peers()
        calibrations, why = [], None
        start_with, start_without = [], []
        for _ in range(self.options.rounds):
            for key, peer in peers.items():
                begin = time.monotonic()
                peer.run()
                if key == "uftrace" and not peer.why:
                    start_with.append(time.monotonic() - begin)
                    begin = time.monotonic()
                    command = [word for word in peer.command if word not in ("-P", ".")]
                    subprocess.run(command, capture_output=True)
                    start_without.append(time.monotonic() - begin)
            try:
                calibrations.append(self.calibrated())
            except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
                why = str(error)
        ours = peers["transect"]
        # Some programs make many calls per round, so the best of a run is already in each figure.
        print("\n### Switching one site, ticks (min / median / max of the rounds)\n")
        print("| | on | off | in bulk | on, × ours | goal |\n|---|---|---|---|---|---|")
        base = None
        if calibrations:
            for i, row in enumerate(calibrations[0]["toggle"]):
                on, off, bulk = ([c["toggle"][i][key] for c in calibrations] for key in ("on_ticks", "off_ticks", "bulk_ticks"))
                base = base or max(statistics.median(on), 1.0)
                split = row["split"]
                name = f"split {split} + {5 - split}" if split else "within a line"
                print(f"| transect, site in the text, {name} | {spread(on)} | {spread(off)} | {spread(bulk)} | {statistics.median(on) / base:.1f} | ≤ 60 single, ≤ 25 bulk |")
        else:
            print(f"| transect calibrate | NOT RUN: {why} | | | | |")
        for key in ("transect", "xray", "funchook", "uprobe"):
            peer = peers[key]
            on, off, bulk = peer.get("on"), peer.get("off"), peer.get("bulk")
            if peer.why or not on:
                print(f"| {peer.name} | NOT RUN: {peer.why} | | | | |")
                continue
            ratio = f"{max(statistics.median(on), 0) / base:,.0f}" if base else ""
            print(f"| {peer.name} | {spread(on)} | {spread(off)} | {spread(bulk) if bulk else ''} | {ratio} | {'≤ 60 single, ≤ 25 bulk' if key == 'transect' else ''} |")

        self.words(peers["word"])
        print("\n### Installing many sites\n")
        print("| | sites | ticks a site | whole with analysis, ms | goal |\n|---|---|---|---|---|")
        if not ours.why:
            print(f"| libtransect, transect_install() with trampolines | {ours.get('sites')[0]:.0f} | {spread(ours.get('install'))} | {spread(ours.get('whole-ms'))} (of which analysis {spread(ours.get('analysis-ms'))}) | ≤ 300 ms whole |")
        else:
            print(f"| libtransect | NOT RUN: {ours.why} | | | |")
        for key, what in (("xray", "LLVM XRay, __xray_patch() (compiled in, not thread-safe)"), ("funchook", "funchook, 2,000 functions")):
            peer = peers[key]
            print(f"| {what} | | {spread(peer.get('install'))} | | |" if peer.get("install") else f"| {what} | NOT RUN: {peer.why} | | | |")
        if start_with:
            extra = statistics.median(start_with) - statistics.median(start_without)
            print(f"| uftrace -P, at the program's start | {FUNCTIONS} | | {extra * 1e3:.0f} (median difference) | |")

        print("\n### A call of a probed function, ticks over the call without probe\n")
        print("| | min / median / max | goal |\n|---|---|---|")
        tiers = {"off": "not measurable for a nop", "integer": "≤ 5", "vector": "≤ 10", "time-stamp": "≤ 40"}
        if calibrations:
            for i, row in enumerate(calibrations[0]["probe"]):
                values = {key: [c["probe"][i][key] for c in calibrations] for key in ("ticks", "entry_ticks", "paired_ticks")}
                print(f"| transect, {row['tier']}: at a no-op | {spread(values['ticks'])} | {tiers.get(row['tier'], '')} |")
                print(f"| transect, {row['tier']}: displaced entry | {spread(values['entry_ticks'])} | |")
        names = {"call-inactive": "inactive", "call-nothing": "nothing", "call-count": "counter", "call-integer": "empty handler, integer tier", "call-stamp": "handler that reads the clock", "call-sse": "empty handler, xmm registers saved", "call-vector": "empty handler, vector tier (upper halves in use saved, too)", "call-full": "empty handler, full tier", "call-time": "entry and exit timed, histogram"}
        for key, name in names.items():
            if ours.get(key):
                print(f"| libtransect, {name} | {spread(ours.get(key))} | |")
        if peers["xray"].get("call"):
            print(f"| LLVM XRay, empty handler, per sled | {spread(peers['xray'].get('call'))} | |")
        if peers["funchook"].get("call"):
            print(f"| funchook, a hook that only calls on | {spread(peers['funchook'].get('call'))} | |")
        for kind, name in (("nop5", "five-byte no-op"), ("nop1", "one-byte no-op"), ("push", "push at the entry"), ("other", "another instruction (single-stepped)")):
            if peers["uprobe"].get(f"call-{kind}"):
                print(f"| kernel uprobe, {name} | {spread(peers['uprobe'].get(f'call-{kind}'))} | |")
        bare = peers["bare"].get("call")
        if bare and peers["uftrace"].get("call"):
            print(f"| uftrace -P, entry and exit | {spread([v - min(bare) for v in peers['uftrace'].get('call')])} | |")
        for peer in peers.values():
            if peer.why:
                print(f"| {peer.name} | NOT RUN: {peer.why} | |")

    def hot_site(self):
        command = os.path.join(os.path.dirname(self.options.transect), "examples", "hot_site")
        if not os.path.exists(command) and shutil.which("cargo"):
            subprocess.run(["cargo", "build", "-q", "--release", "-p", "transect-calibrate", "--example", "hot_site"], cwd=self.root)
        print("\n### A hot site: throughput while another thread switches it (calls per second of the executing thread's CPU time)\n")
        if not os.path.exists(command):
            print("NOT RUN: cargo build --release -p transect-calibrate --example hot_site")
            return
        toggled, threads, visible, installed = {}, {}, [], []
        for _ in range(self.options.rounds):
            done = subprocess.run([command, "60" if self.options.quick else "300"], capture_output=True, text=True, timeout=600)
            if done.returncode:
                print(f"NOT RUN: {last_line(done)}")
                return
            for line in done.stdout.splitlines():
                words = line.split()
                if words[0] == "toggled":
                    toggled.setdefault(int(words[1]), []).append([float(w) for w in words[2:]])
                elif words[0] == "threads":
                    threads.setdefault((int(words[1]), words[2]), []).append([float(w) for w in words[3:]])
                elif words[0] == "visible":
                    visible.append([float(w) for w in words[1:]])
                elif words[0] == "install":
                    installed.append([float(w) for w in words[1:]])
        print("| split | always off, M calls/s (best) | always on | toggled at 1 MHz | share of the mean of both (min / median / max) | toggles reached, k/s | goal |\n|---|---|---|---|---|---|---|")
        for split, rows in toggled.items():
            best = lambda i: max(row[i] for row in rows)
            print(f"| {split} + {5 - split} | {best(0) / 1e6:.0f} | {best(1) / 1e6:.0f} | {best(2) / 1e6:.0f} | {spread([row[3] for row in rows], 2)} | {best(4) / 1e3:.0f} | ≥ 0.60 |")
        print(f"\nExecuting threads on {os.cpu_count()} CPUs, of which the switching thread needs a part:\n")
        print("| threads | switched | M calls/s in all (min / median / max) | M calls per second of a thread's CPU time | balance (min / median / max) | toggles/s | goal |\n|---|---|---|---|---|---|---|")
        for (count, what), rows in threads.items():
            print(f"| {count} | {'on and off' if what == 'on' else 'handlers swapped'} | {spread([row[0] / 1e6 for row in rows], 0)} | {spread([row[1] / 1e6 for row in rows], 0)} | {spread([row[2] for row in rows], 2)} | {statistics.median(row[3] for row in rows):.0f} | linear up to the cores, balance ≤ 2.5 |")
        if installed:
            print(f"\nThe patch protocol alone, {installed[0][0]:.0f} sites in a batch (INT3, three membarriers): {spread([v[1] for v in installed])} ticks a site (goal: ≤ 60); with the checks of the batch {spread([v[2] for v in installed])}.")
        if visible:
            print(f"\nA change is visible to the executing thread after {spread([v[0] for v in visible], 0)} ticks (median within a run), 99th percentile {spread([v[1] for v in visible], 0)}.")


def cpu_bound(folder, build, quick):
    """The kind of programs that the paper measured."""
    size = 1 if quick else 3
    text = real.text_file(folder, 6_000_000 * size)
    movie = os.path.join(folder, "movie.y4m")
    if shutil.which("ffmpeg") and not os.path.exists(movie):
        subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=duration={4 * size}:size=640x360:rate=25", "-pix_fmt", "yuv420p", movie], check=False)
    if shutil.which("x264"):
        encoder = real.Batch("h264 (x264)", "x264", ["x264", "--quiet", "--no-progress", "--threads", "1", "--preset", "medium", "-o", "/dev/null", "--demuxer", "y4m", movie])
    else:
        encoder = real.Batch("h264 (ffmpeg)", "ffmpeg", ["ffmpeg", "-nostdin", "-loglevel", "error", "-i", movie, "-c:v", "libx264", "-threads", "1", "-f", "null", "-"])
    engine = next((p for p in ("/usr/games/stockfish", "/usr/bin/stockfish") if os.path.exists(p)), "stockfish")
    go = next((p for p in ("/usr/games/gnugo", "/usr/bin/gnugo") if os.path.exists(p)), "gnugo")
    moves = os.path.join(folder, "moves.gtp")
    with open(moves, "w") as file:
        file.write("boardsize 13\nset_random_seed 3\n" + "genmove black\ngenmove white\n" * (5 * size) + "quit\n")
    at = lambda name: os.path.join(build, name)
    return [
        encoder,
        real.Batch("bzip2", "bzip2", ["bzip2", "-k", "-c", text]),
        real.Batch("chess (stockfish)", engine, [engine, "bench", "16", "1", str(10 + size)]),
        real.Batch("go (gnugo)", go, [go, "--mode", "gtp", "--level", "8", "--gtp-input", moves]),
        real.Batch("perl", "perl", ["perl", "-e", real.PERL_WORK.format(n=1500000 * size)]),
        real.Batch("n-body", at("n-body"), [at("n-body"), "200", str(5000 * size)]),
        real.Batch("hull", at("hull"), [at("hull"), "400000", str(60 * size)]),
        real.Batch("blackscholes", at("blackscholes"), [at("blackscholes"), "100000", str(100 * size)]),
    ]


def overheads(options, folder, fresh):
    """`transect latency` with its defaults against the program alone."""
    print("\n### Real and numeric programs, native and under `transect latency` (all functions, defaults)\n")
    print("CPU: CPU time of the program itself, the tool's own left out; other work on the machine hardly touches it.\n")
    print("| program | CPU native, s (min / median / max) | CPU measured, s | CPU (minima) | CPU (medians) | wall (minima) | probes | called | samples/s | toggles/s | share in toggling | longest stop, ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    ratios, least = [], []
    used = os.path.join(folder, "cpu-seconds")
    wrapper = [os.path.join(options.build, "cpu-time"), used]

    def run(program, prefix):
        wall = program.run(prefix + wrapper, folder)[0]
        with open(used) as file:
            return float(file.read()), wall

    for program in cpu_bound(folder, options.build, options.quick):
        if options.program and options.program not in program.name:
            continue
        why = program.missing()
        if why:
            print(f"| {program.name} | NOT RUN: {why} |")
            continue
        native, measured, sessions = [], [], []
        try:
            run(program, [])
            for i in range(options.rounds + 1):
                profile = fresh()
                # The program alone, beside it the same under the tool: in turn, so that a slower minute meets both.
                ours = run(program, [options.transect, "latency", "--quiet", "-o", profile, "--"])
                with open(os.path.join(profile, "meta.json")) as file:
                    session = json.load(file).get("latency")
                shutil.rmtree(profile, ignore_errors=True)
                theirs = run(program, [])
                if i:  # the first round fills caches
                    measured.append(ours), native.append(theirs), sessions.append(session)
        except (RuntimeError, subprocess.SubprocessError, OSError, ValueError) as error:
            print(f"| {program.name} | FAILED: {str(error)[:200]} |", flush=True)
            continue
        cpu = [[values[0] for values in rows] for rows in (native, measured)]
        ratio, best = statistics.median(cpu[1]) / statistics.median(cpu[0]), min(cpu[1]) / min(cpu[0])
        wall = min(values[1] for values in measured) / min(values[1] for values in native)
        ratios.append((ratio, program.name)), least.append((best, program.name))
        known = [s for s in sessions if s]
        middle = lambda key: statistics.median(s[key] for s in known) if known else float("nan")
        print(f"| {program.name} | {spread(cpu[0], 3)} | {spread(cpu[1], 3)} | {best - 1:+.1%} | {ratio - 1:+.1%} | {wall - 1:+.1%} | {middle('probes_installed'):.0f} | {middle('probes_active'):.0f} | {middle('samples_per_second'):,.0f} | {middle('toggles_per_second'):,.0f} | {middle('toggling_share'):.2%} | {middle('longest_stop_ns') / 1e6:.2f} |", flush=True)
    if ratios:
        print()
        for name, values in (("minima", least), ("medians", ratios)):
            worst = max(values)
            mean = statistics.mean(r for r, _ in values) - 1
            print(f"Mean over {len(values)} programs, CPU time by {name}: {mean:+.1%} (goal: ≤ 3 %); worst: {worst[1]} {worst[0] - 1:+.1%} (goal: ≤ 8 %). Share in toggling: goal ≤ 0.2 %.")
