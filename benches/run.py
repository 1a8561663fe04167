#!/usr/bin/env python3
"""Measures what Transect costs, beside other tools, and prints Markdown tables.

usage: run.py [--quick] [--transect PATH] [--build DIR] [--rounds N] [--only calls|threads|start|programs|peers|probes|latency|criticality|walk|feature] [--program NAME]
Runs are interleaved (native, tool, native, tool, ...), so that a slower minute of the machine meets all of them.
Absolute times are the machine's; ratios are what to read. A tool or program that is absent is reported as NOT RUN.
"""

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import criticality  # noqa: E402
import feature  # noqa: E402
import probes  # noqa: E402
import programs as real  # noqa: E402
import walk as walks  # noqa: E402


def spread(values, digits=2):
    return f"{min(values):.{digits}f} / {statistics.median(values):.{digits}f} / {max(values):.{digits}f}"


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="transect-bench-")
        self.counter = 0
        self.built = lambda name: os.path.join(options.build, name)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self):
        self.counter += 1
        return os.path.join(self.folder, f"out-{self.counter}")

    def record(self, timing=None):
        """Command line up to the program, and the profile's folder."""
        profile = self.fresh()
        return [self.options.transect, "record", "--quiet"] + (["--timing", timing] if timing else []) + ["-o", profile, "--"], profile

    # -- Cost per call ------------------------------------------------------------------------------------------

    def call_once(self, prefix, mode, calls, threads=1, timeout=300):
        done = subprocess.run(prefix + [self.built("call-cost"), mode, str(calls), str(threads)], capture_output=True, text=True, timeout=timeout)
        lines = [line for line in done.stdout.splitlines() if line.replace(".", "", 1).isdigit()]
        if done.returncode or not lines:
            message = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()
            raise RuntimeError(message[-1][:120] if message else "no output")
        return float(lines[0])

    def tools(self):
        """(name, function of no arguments that returns a prefix, calls, mode)."""
        n = 2_000_000 if self.options.quick else 20_000_000
        yield "direct call", lambda: [], n, "call"
        yield "pair of rdtsc (floor of timing)", lambda: [], n, "floor"
        for timing in ("count", "full", "adaptive"):
            yield f"transect {timing}", lambda t=timing: self.record(t)[0], n, "call"
        library = self.built("libcallee.so")
        yield "uftrace, library calls", lambda: ["uftrace", "record", "--force", "--no-event", "--no-pager", "-d", self.fresh()], n // 20, "call"
        yield "bpftrace uprobe", lambda: ["bpftrace", "-q", "-e", f"uprobe:{library}:callee0 {{ @ = count(); }}", "-c"], n // 200, "call"
        yield "ltrace -c", lambda: ["ltrace", "-c", "-o", self.fresh()], n // 1000, "call"
        yield "perf record -g", lambda: ["perf", "record", "-q", "-g", "-o", self.fresh(), "--"], n, "call"

    def calls(self):
        rows, dead = {}, {}
        tools = list(self.tools())
        for _ in range(self.options.rounds):
            for name, prefix, calls, mode in tools:
                tool = (prefix() or [""])[0]
                if name in dead:
                    continue
                if tool and not shutil.which(tool):
                    dead[name] = f"{tool} is not installed"
                    continue
                try:
                    if tool == "bpftrace":
                        command = prefix()
                        done = subprocess.run(command + [f"{self.built('call-cost')} {mode} {calls} 1"], capture_output=True, text=True, timeout=120)
                        lines = [l for l in done.stdout.splitlines() if l.replace(".", "", 1).isdigit()]
                        if not lines:
                            raise RuntimeError((done.stderr.strip() or "no output").splitlines()[-1][:120])
                        value = float(lines[0])
                    else:
                        value = self.call_once(prefix(), mode, calls)
                    rows.setdefault(name, []).append(value)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    dead[name] = str(error)[:160]
        print("\n### Cost of one library call of a trivial function, ns\n")
        print("| | min / median / max | over the direct call | ratio to the floor |\n|---|---|---|---|")
        direct = statistics.median(rows.get("direct call", [float("nan")]))
        floor = statistics.median(rows.get("pair of rdtsc (floor of timing)", [float("nan")])) - direct
        for name, *_ in tools:
            if name in rows:
                over = statistics.median(rows[name]) - direct
                print(f"| {name} | {spread(rows[name])} | {over:.2f} | {over / floor:.2f} × |")
            else:
                print(f"| {name} | NOT RUN: {dead.get(name)} | | |")
        self.cost = {name: statistics.median(v) - direct for name, v in rows.items()}

    def threads(self):
        n = 1_000_000 if self.options.quick else 10_000_000
        modes = [("native", None), ("count", "count"), ("full", "full"), ("adaptive", "adaptive")]
        counts = [1, 2] + ([4] if os.cpu_count() >= 4 else [])
        rows = {}
        for _ in range(self.options.rounds):
            for name, timing in modes:
                for threads in counts:
                    try:
                        rows.setdefault((name, threads), []).append(self.call_once(self.record(timing)[0] if timing else [], "call", n, threads))
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        print(f"NOT RUN: {name}, {threads} threads: {error}", file=sys.stderr)
        print("\n### Cost per call on several threads, each calling an API of its own, ns\n")
        print("| | " + " | ".join(f"{t} threads" if t > 1 else "1 thread" for t in counts) + " | ratio |")
        print("|---" * (len(counts) + 2) + "|")
        for name, _ in modes:
            values = [rows.get((name, t)) for t in counts]
            if all(values):
                print(f"| {name} | " + " | ".join(spread(v) for v in values) + f" | {statistics.median(values[-1]) / statistics.median(values[0]):.2f} × |")

    # -- Start-up -----------------------------------------------------------------------------------------------

    def start(self):
        rounds = max(5, self.options.rounds * 3)
        native, warm, cold, whole_native, whole_warm = [], [], [], [], []
        cache = self.fresh()
        os.makedirs(cache)

        def once(prefix, env):
            begin = time.monotonic()
            done = subprocess.run(prefix + [self.built("stamp"), self.built("thirty-libraries")], capture_output=True, text=True, env=env, timeout=60)
            whole = (time.monotonic() - begin) * 1e3
            if done.returncode:
                raise RuntimeError(done.stderr[-200:])
            return int(done.stdout) / 1e6, whole

        def environment(folder):
            return {**os.environ, "XDG_CACHE_HOME": folder}

        try:
            once(self.record()[0], environment(cache))
            for _ in range(rounds):
                to_main, whole = once([], None)
                native.append(to_main), whole_native.append(whole)
                to_main, whole = once(self.record()[0], environment(cache))
                warm.append(to_main), whole_warm.append(whole)
                empty = self.fresh()
                os.makedirs(empty)
                cold.append(once(self.record()[0], environment(empty))[0])
        except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
            print(f"NOT RUN: start-up: {error}")
            return
        print("\n### Start-up of a program with 30 libraries, from exec to main, ms\n")
        print("| | min / median / max | over native |\n|---|---|---|")
        base = statistics.median(native)
        print(f"| native | {spread(native)} | |")
        print(f"| plan cache filled | {spread(warm)} | {statistics.median(warm) - base:.1f} |")
        print(f"| plan cache empty (first run) | {spread(cold)} | {statistics.median(cold) - base:.1f} |")
        print(f"| whole command, native | {spread(whole_native)} | |")
        print(f"| whole `transect record` | {spread(whole_warm)} | {statistics.median(whole_warm) - statistics.median(whole_native):.1f} |")

    # -- Real programs ------------------------------------------------------------------------------------------

    def fixed_cost(self):
        """What recording adds to a program that does nothing: seconds by the wall clock, and of CPU time."""
        nothing, differences = real.Batch("true", "true", ["/bin/true"]), []
        for _ in range(10 if not self.options.quick else 2):
            native, native_cpu = nothing.run([], self.folder)[0], nothing.cpu
            recorded, recorded_cpu = nothing.run(self.record()[0], self.folder)[0], nothing.cpu
            differences.append((recorded - native, recorded_cpu - native_cpu))
        return [statistics.median(side) for side in zip(*differences)]

    def programs(self):
        """Native and recorded runs in turn. The fixed cost is taken off programs that are recorded from exec to exit; servers
        are measured by their clients only, between the two."""
        chosen = real.measured(self.folder, self.options.build, 1 if self.options.quick else self.options.size)
        fixed, fixed_cpu = self.fixed_cost()
        print("\n### Real programs, native and under `transect record` (default mode)\n")
        print(f"Fixed cost, by `/bin/true`: {fixed * 1000:.0f} ms wall, {fixed_cpu * 1000:.0f} ms of CPU time, taken off; the load of servers begins a second after their start.\n")
        print("| program | native, s (min / median / max) | recorded, s | wall (medians) | wall (minima) | CPU time | p99, ms, native and recorded | peak memory native, MiB | recorded | memory | `report`, s |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        ratios, least, spent = [], [], []
        for program in chosen:
            if self.options.program and self.options.program not in program.name:
                continue
            why = program.missing()
            if why:
                print(f"| {program.name} | NOT RUN: {why} |")
                continue
            try:
                self.program(program, (fixed, fixed_cpu), ratios, least, spent)
            except (RuntimeError, subprocess.SubprocessError, OSError, ValueError) as error:
                print(f"| {program.name} | FAILED: {str(error)[:200]} |", flush=True)
        if ratios:
            print()
            for name, values in (("medians of wall time", ratios), ("minima of wall time", least), ("medians of CPU time", spent)):
                if values:
                    worst = max(values)
                    print(f"Geometric mean over {len(values)} programs, by {name}: {geometric_mean([r for r, _ in values]) - 1:+.1%}; worst: {worst[1]} {worst[0] - 1:+.1%}.")

    def program(self, program, fixed, ratios, least, spent):
        """One row of the table. CPU time is compared where the work is the same in both runs and all of it is the command's."""
        server = isinstance(program, real.Server)
        counted = not server and not program.parse
        fixed, fixed_cpu = fixed if counted else (0, 0)
        native_cpu, recorded_cpu = [], []
        native, recorded, reports = [], [], []
        native_peak, recorded_peak = [], []
        latency = ([], [])
        program.run([], self.folder)  # fills the page cache
        prefix, profile = self.record()
        program.run(prefix, self.folder)  # fills the plan cache
        for _ in range(self.options.rounds):
            value, peak = program.run([], self.folder)
            native.append(value), native_peak.append(peak)
            if counted:
                native_cpu.append(program.cpu)
            if server and program.p99:
                latency[0].append(program.p99)
            prefix, profile = self.record()
            value, peak = program.run(prefix, self.folder)
            recorded.append(value - fixed), recorded_peak.append(peak)
            if counted:
                recorded_cpu.append(program.cpu - fixed_cpu)
            if server and program.p99:
                latency[1].append(program.p99)
            begin = time.monotonic()
            shown = subprocess.run([self.options.transect, "report", profile], capture_output=True)
            reports.append(time.monotonic() - begin)
            if shown.returncode:
                raise RuntimeError(f"report: {shown.stderr[-200:]!r}")
            shutil.rmtree(profile, ignore_errors=True)
        if not server:
            native_peak = [program.memory([], self.folder, self.built("peak-memory"))]
            recorded_peak = [program.memory(self.record()[0], self.folder, self.built("peak-memory"))]
        # Ratio of medians of interleaved runs.
        ratio = statistics.median(recorded) / statistics.median(native)
        best = min(recorded) / min(native)  # what is left when the machine's other work is at its least
        ratios.append((ratio, program.name)), least.append((best, program.name))
        cpu = statistics.median(recorded_cpu) / statistics.median(native_cpu) if counted else None
        more_cpu = f"{cpu - 1:+.1%}" if cpu else ""
        if cpu:
            spent.append((cpu, program.name))
        before, after = max(native_peak) / 1024, max(recorded_peak) / 1024
        p99 = " / ".join(f"{statistics.median(side):.3f}" for side in latency) if all(latency) else ""
        if p99:
            p99 += f" ({statistics.median(latency[1]) / statistics.median(latency[0]) - 1:+.1%})"
        print(f"| {program.name} | {spread(native, 3)} | {spread(recorded, 3)} | {ratio - 1:+.1%} | {best - 1:+.1%} | {more_cpu} | {p99} | {before:.1f} | {after:.1f} | {after - before:+.1f} MiB | {statistics.median(reports):.3f} |", flush=True)

    def peers(self):
        """Wall time, size on disk and report time of each tool on the same program."""
        text = real.text_file(self.folder, 1_500_000)
        script = real.sqlite_script(self.folder, 3000)
        cases = [("gzip", ["gzip", "-c", text], None), ("sqlite3", ["sqlite3", ":memory:"], script)]
        print("\n### The same program under each tool\n")
        print("| program | tool | wall, s (min / median / max) | ratio | peak memory, MiB | data, MiB | report, s |\n|---|---|---|---|---|---|---|")
        for name, argv, stdin in cases:
            if not shutil.which(argv[0]):
                print(f"| {name} | NOT RUN: not installed |")
                continue
            tools = [
                ("native", lambda out: [], None),
                ("transect", lambda out: [self.options.transect, "record", "--quiet", "-o", out, "--"], lambda out: [self.options.transect, "report", out]),
                ("transect full", lambda out: [self.options.transect, "record", "--quiet", "--timing", "full", "-o", out, "--"], lambda out: [self.options.transect, "report", out]),
                ("uftrace", lambda out: ["uftrace", "record", "--force", "--no-event", "--no-pager", "-d", out], lambda out: ["uftrace", "report", "--no-pager", "-d", out]),
                ("perf record -g", lambda out: ["perf", "record", "-q", "-g", "-o", out, "--"], lambda out: ["perf", "report", "-i", out, "--stdio", "-q"]),
                ("ltrace -c", lambda out: ["ltrace", "-c", "-o", out], None),
            ]
            walls, details, dead = {}, {}, {}
            for _ in range(min(3, self.options.rounds)):
                for tool, prefix, report in tools:
                    out = self.fresh()
                    command = prefix(out)
                    if tool in dead:
                        continue
                    if command and not shutil.which(command[0]):
                        dead[tool] = "not installed"
                        continue
                    peak = os.path.join(self.folder, "peak")
                    try:
                        with open(stdin or os.devnull, "rb") as given:
                            begin = time.monotonic()
                            done = subprocess.run([self.built("peak-memory"), peak] + command + argv, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                            wall = time.monotonic() - begin
                    except OSError as error:
                        dead[tool] = str(error)
                        continue
                    if done.returncode:
                        dead[tool] = (done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"])[-1][:120]
                        continue
                    walls.setdefault(tool, []).append(wall)
                    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(out) for f in fs) if os.path.isdir(out) else (os.path.getsize(out) if os.path.exists(out) else 0)
                    took = None
                    if report:
                        begin = time.monotonic()
                        subprocess.run(report(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180)
                        took = time.monotonic() - begin
                    details[tool] = (int(open(peak).read()) / 1024, size / 2**20, took)
                    shutil.rmtree(out, ignore_errors=True)
            for tool, *_ in tools:
                if tool in walls:
                    memory, size, took = details[tool]
                    ratio = statistics.median(walls[tool]) / statistics.median(walls["native"])
                    print(f"| {name} | {tool} | {spread(walls[tool], 3)} | {ratio:.2f} × | {memory:.1f} | {size:.2f} | {'' if took is None else f'{took:.3f}'} |", flush=True)
                else:
                    print(f"| {name} | {tool} | NOT RUN: {dead.get(tool)} | | | | |")

    # -- Probes -------------------------------------------------------------------------------------------------

    def probes(self):
        bench = probes.Probes(self.options, self.folder)
        bench.costs()
        bench.hot_site()

    def latency(self):
        probes.overheads(self.options, self.folder, self.fresh)

    def criticality(self):
        criticality.costs(self.options, self.folder, self.fresh, self.built)

    def walk(self):
        walks.measure(self.options, self.folder, self.fresh, self.built)

    def feature(self):
        work = os.path.join(self.options.build, "feature")
        feature.run(self.options.transect, work, self.options.quick, self.options.program)


PARTS = ("calls", "threads", "start", "programs", "peers", "probes", "latency", "criticality", "walk", "feature")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../target/release/transect"))
    parser.add_argument("--build", default=os.path.join(HERE, "../target/benches"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: does everything run?")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--size", type=float, default=3, help="real programs take about a third of a second times this; default 3")
    parser.add_argument("--program", help="only real programs whose name contains this")
    options = parser.parse_args()
    options.transect, options.build = os.path.realpath(options.transect), os.path.realpath(options.build)
    options.rounds = options.rounds or (1 if options.quick else 5)
    subprocess.run(["make", "-s", "-C", HERE, f"BUILD={options.build}"], check=True)
    bench = Bench(options)
    try:
        print(f"Machine: {os.cpu_count()} CPUs, Linux {os.uname().release}; {options.rounds} rounds, interleaved.", flush=True)
        for part in PARTS:
            if not options.only or part in options.only:
                getattr(bench, part)()
                sys.stdout.flush()
    finally:
        bench.close()


if __name__ == "__main__":
    main()
