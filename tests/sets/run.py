#!/usr/bin/env python3
"""Every set of collectors with every way to choose what is recorded: each works, its snapshots too, or says why not.

Usage: run.py --transect PATH [--every] [--only WORD] [--jobs N]
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from harness.results import Results  # noqa: E402

COLLECTORS = ("flow", "sched", "walk", "latency", "feature")
EVERY = [",".join(some) for count in range(1, 6) for some in itertools.combinations(COLLECTORS, count)]
# Each collector alone, what leads and what is led, and all together.
QUICK = ["flow", "sched", "walk", "latency", "feature", "sched,walk", "sched,feature", "walk,latency", "latency,feature",
         "sched,walk,feature", "sched,walk,latency", "flow,sched", "flow,sched,walk,latency,feature"]
WAYS = ("launch", "pid", "pids", "cgroup", "all")
SECONDS = 1.0
# Beside others, names for a whole machine take some ten seconds.
PATIENCE = 40


def expected(collectors, way, sites, more):
    """Words of the refusal; None: it works."""
    names = collectors.split(",")
    if way == "all" and {"flow", "latency", "feature"} & set(names):
        return "stops each process"
    if {"latency", "feature"} <= set(names) and sites == "probe":
        return "tracer, of which there is one"
    return None


class Case:
    """A program that runs, or is to be run, and the flags that name it."""

    def __init__(self, tool, way):
        self.tool, self.way, self.programs, self.group = tool, way, [], None
        if way != "launch":
            self.programs = [self.start() for _ in range(2 if way == "pids" else 1)]
        if way == "cgroup":
            self.group = os.path.join(tool.cgroups, f"transect-test-{os.getpid()}-{next(tool.numbers)}")
            os.makedirs(self.group, exist_ok=True)
            with open(os.path.join(self.group, "cgroup.procs"), "w") as processes:
                processes.write(str(self.programs[0].pid))
        pids = ",".join(str(program.pid) for program in self.programs)
        self.flags = {"pid": ["-p", pids], "pids": ["-p", pids], "cgroup": ["--cgroup", self.group], "all": ["--all"]}.get(way, [])

    def start(self):
        program = subprocess.Popen([self.tool.program, "300", "--fast"], stdout=subprocess.PIPE)
        program.stdout.readline()
        return program

    def ended(self):
        """What is wrong with the programs afterwards."""
        return [f"the program has ended with {program.returncode}" for program in self.programs if program.poll() is not None]

    def end(self):
        for program in self.programs:
            program.kill()
            program.wait()
        if self.group:
            os.rmdir(self.group)


class Tool:
    def __init__(self, transect, folder):
        self.transect, self.folder = os.path.abspath(transect), folder
        self.program, self.sites, self.numbers = os.path.join(folder, "worker"), "trace", itertools.count()
        self.cgroups = next((line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"), None)

    def build(self, sites):
        self.sites = sites
        self.program = os.path.join(self.folder, f"worker-{sites}")
        compiler = os.path.join(os.path.dirname(self.transect), "transect-cc")
        values = dict(os.environ, TRANSECT_FEATURE_MODEL=os.path.join(HERE, "worker.toml"), TRANSECT_SITES=sites)
        source = os.path.join(HERE, "worker.c")
        done = subprocess.run([compiler, "-O1", "-pthread", "-o", self.program, source], env=values, capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def record(self, case, collectors, more, during=None):
        """(recorder, error stream, profile folder, what `during` says of the recording while it goes on)."""
        profile = os.path.join(self.folder, f"{next(self.numbers)}.transect")
        command = [self.transect, "record", "-q", "-o", profile, "--collect", collectors, *more, *case.flags]
        command += [] if case.flags else ["--", self.program, str(SECONDS + 0.5), "--fast"]
        if case.flags:
            command += ["--duration", f"{SECONDS}s"]
        recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = during(recorder, profile) if during else []
        try:
            _, err = recorder.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            recorder.kill()
            recorder.wait()
            return recorder, "it does not end", profile, said
        return recorder, err.strip(), profile, said


def meta(profile):
    with open(os.path.join(profile, "meta.json")) as text:
        return json.load(text)


def whole_machine(tool, profile, case, recorder):
    """The programs are there, the recorder is not, nor are threads of the kernel."""
    threads = rows(tool, profile, "threads")["threads"]
    pids, names = {row["process"] for row in threads}, {row["executable"] for row in threads}
    wrong = [f"process {program.pid} is missing" for program in case.programs if program.pid not in pids]
    wrong += ["the recorder is in its own profile"] if recorder in pids else []
    return wrong + [f"{name} is a thread of the kernel" for name in names if name.startswith(("kworker", "ksoftirqd", "rcu_"))]


def rows(tool, profile, view, *more):
    shown = subprocess.run([tool.transect, "report", profile, "--view", view, "--format", "json", *more], capture_output=True, text=True)
    return json.loads(shown.stdout)


def of_each_process(tool, profile, collectors, case):
    """Each process that runs already has rows of its own."""
    names, wrong = collectors.split(","), []
    pids = {program.pid for program in case.programs}
    found = {row["process"] for row in rows(tool, profile, "threads")["threads"]}
    if {"flow", "sched", "feature"} & set(names) and not pids <= found:
        wrong.append(f"threads of {found}, not of {pids}")
    if "latency" in names:
        measured = {}
        for row in rows(tool, profile, "latency", "--by", "process")["latency"]:
            if row["function"] == "compute":
                measured[row["process"]] = row["calls_estimated"] or row["calls_seen"]
        if set(measured) != pids or not all(measured.values()):
            wrong.append(f"latencies of compute in {measured}, not in {pids}")
    return wrong


def judged(profile, collectors):
    wrong, found = [], meta(profile)
    missing = [name for name in collectors.split(",") if name not in found["collectors"]]
    if missing:
        wrong.append(f"no {','.join(missing)} in the profile, {[loss for loss in found['loss'] if 'left out' in json.dumps(loss)]}")
    if not 0.8 * SECONDS * 1e9 < found["wall_ns"] < 10 * SECONDS * 1e9:
        wrong.append(f"{found['wall_ns'] / 1e9:.2f} s recorded")
    return wrong


def snapshot(tool, collectors, ask):
    """A snapshot comes while the recording goes on, has the collectors (some need a moment to begin), and `top` shows it."""
    def during(recorder, profile):
        path, end = os.path.join(profile, "meta.json"), time.monotonic() + PATIENCE
        asked, said = False, ["no snapshot came"]
        while recorder.poll() is None and time.monotonic() < end:
            if ask and not asked and caught(recorder.pid, signal.SIGUSR2):
                time.sleep(0.4)
                recorder.send_signal(signal.SIGUSR2)
                asked = True
            try:
                found = meta(profile)
            except (OSError, ValueError):
                time.sleep(0.02)
                continue
            if recorder.poll() is not None:
                break
            missing = [name for name in collectors.split(",") if name not in found["collectors"]]
            top = subprocess.run([tool.transect, "top", "-n", "1", profile], capture_output=True, text=True)
            wrong = []
            if missing:
                said, asked = [f"the snapshot has no {','.join(missing)}"], False
                continue
            if top.returncode or not top.stdout.strip():
                wrong.append(f"top: {top.stderr.strip()[-200:]}")
            return wrong
        return said
    return during


def caught(pid, number):
    try:
        with open(f"/proc/{pid}/status") as text:
            line = next(line for line in text if line.startswith("SigCgt"))
    except (OSError, StopIteration):
        return False
    return bool(int(line.split()[1], 16) & 1 << (number - 1))


def preset(tool, results, name):
    """The commands that are a set and a view of their own take `--interval` as `record` does."""
    test = f"{name}, --interval"
    if not results.wanted(test):
        return
    collector = {"criticality": "sched"}.get(name, name)
    profile = os.path.join(tool.folder, f"{name}.transect")
    command = [tool.transect, name, "-q", "-o", profile, "--interval", "300ms", "--", tool.program, str(SECONDS + 0.5), "--fast"]
    with results.guarded(test):
        recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wrong = snapshot(tool, collector, False)(recorder, profile)
        _, said = recorder.communicate(timeout=60)
        wrong += [f"status {recorder.returncode}: {said[-300:]}"] if recorder.returncode else []
        results.judge(test, wrong)


def tried(tool, collectors, way, more, during):
    refusal, case = expected(collectors, way, tool.sites, more), Case(tool, way)
    try:
        recorder, err, profile, said = tool.record(case, collectors, more, None if refusal else during)
        status = recorder.returncode
        if refusal:
            return [] if status in (2, 125) and refusal in err else [f"status {status} instead of a refusal: {err[-300:]}"]
        if status:
            return [f"status {status}: {err[-300:]}"]
        wrong = judged(profile, collectors)
        if way in ("pid", "pids", "cgroup"):
            wrong += of_each_process(tool, profile, collectors, case)
        if way == "all":
            wrong += whole_machine(tool, profile, case, recorder.pid)
        report = subprocess.run([tool.transect, "report", profile], capture_output=True, text=True)
        if report.returncode or not report.stdout.strip():
            wrong.append(f"report: {report.stderr[-200:]}")
        return wrong + said + case.ended()
    finally:
        case.end()


def tried_in_all_modes(tool, results, collectors, way):
    modes = [("SIGUSR2", [], snapshot(tool, collectors, True))]
    if tool.sites == "trace":
        modes.append(("--interval", ["--interval", "300ms"], snapshot(tool, collectors, False)))
    if tool.sites == "trace" and "sched" in collectors and way in ("launch", "all"):
        modes.append(("--processes apart", ["--processes", "apart"], None))
    for mode, more, during in modes:
        name = f"{way}, {collectors}, {tool.sites}, {mode}"
        if results.wanted(name):
            with results.guarded(name):
                results.judge(name, tried(tool, collectors, way, more, during))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", required=True)
    parser.add_argument("--every", action="store_true", help="all 31 sets")
    parser.add_argument("--only", action="append")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    options = parser.parse_args()
    if os.geteuid():
        print("NOT RUN: sets of collectors: without root there are no scheduler's events")
        return 0
    folder = tempfile.mkdtemp(prefix="transect-sets-")
    tool, results = Tool(options.transect, folder), Results(options.only)
    try:
        for sites in ("trace", "probe"):
            said = tool.build(sites)
            if said:
                print(f"NOT RUN: sets of collectors: {said[-300:]}")
                return 0
            for name in ("criticality", "walk", "latency") if sites == "trace" else ():
                preset(tool, results, name)
            sets = EVERY if options.every else QUICK
            if sites == "probe":
                sets = [some for some in sets if "feature" in some]
            cases = [case for case in itertools.product(sets, WAYS) if case[1] != "cgroup" or tool.cgroups]
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                list(pool.map(lambda case: tried_in_all_modes(tool, results, *case), cases))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
