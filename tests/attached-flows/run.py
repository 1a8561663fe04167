#!/usr/bin/env python3
"""Calls between components of a process that runs already: a program that counts its own calls is attached to while it waits, and
told to call; while it calls without end, it is attached to and left again and again, and recorders are killed. Afterwards it
must be as it was: its mappings, its linkage slots, its output and its end.

usage: run.py --transect PATH [--cycles N] [--seed N] [--only NAME]...
"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness.results import Results  # noqa: E402

ARENA = "memfd:transect-arena"
THREADS = 4


def compiled(folder):
    def cc(*words):
        subprocess.run(["cc", "-O2", *words], check=True, cwd=HERE)
    here = ["-L" + folder, "-lcounted", "-Wl,-rpath," + folder]
    cc("-shared", "-fPIC", "-o", f"{folder}/libcounted.so", "libcounted.c")
    cc("-shared", "-fPIC", "-o", f"{folder}/liblater.so", "liblater.c", *here)
    for name, options in {"lazy": ["-Wl,-z,lazy"], "now": ["-Wl,-z,now,-z,relro"], "no-plt": ["-fno-plt"], "fixed": ["-no-pie", "-fno-pie"]}.items():
        cc("-o", f"{folder}/{name}", "calling.c", *options, *here, "-lm", "-lpthread")
    cc("-o", f"{folder}/relay", "../../crates/attach/tests/programs/relay.c", "-lpthread")
    cc("-o", f"{folder}/short", "short.c", "-lpthread")
    cc("-static", "-o", f"{folder}/static", "calling.c", "libcounted.c", "-lm", "-lpthread")


class Program:
    """One that calls as it is told."""

    def __init__(self, folder, name):
        self.counts = os.path.join(folder, f"counts-{name}")
        self.process = subprocess.Popen([os.path.join(folder, name), self.counts, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"
        self.before = self.mappings()

    def told(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        if command == "go":
            self.process.stdout.readline()
            return 0
        return int(self.process.stdout.readline())

    def made(self):
        """Calls made without end so far."""
        with open(self.counts, "rb") as file:
            data = file.read(8 * THREADS)
        return sum(int.from_bytes(data[i:i + 8], "little") for i in range(0, len(data), 8))

    def mappings(self):
        """All but the heap's and the stack's ends, which move."""
        with open(f"/proc/{self.pid}/maps") as file:
            rows = [line.split(None, 5) for line in file]
        return [(row[0].split("-")[0], row[1], row[5].strip() if len(row) > 5 else "") for row in rows]

    def ours(self):
        left = set(self.mappings()) - set(self.before)
        return [row for row in left if "memfd:transect" in row[2] or "r-xp" in row[1]]

    def complaints(self):
        """What of ours is still there: guards of killed recorders need a moment."""
        end = time.monotonic() + 5
        while self.ours() and time.monotonic() < end:
            time.sleep(0.02)
        return [f"still mapped: {row}" for row in self.ours()]

    def ended(self):
        """Closes it; its status must be its own."""
        self.process.stdin.close()
        status = self.process.wait(timeout=20)
        return [] if status == 3 else [f"ended with {status}"]


def arenas(recorder):
    """Inodes of the memory that a recorder shares with processes that it counts."""
    folder = f"/proc/{recorder}/fd"
    found = set()
    for fd in os.listdir(folder):
        try:
            if "transect-arena" in os.readlink(f"{folder}/{fd}"):
                found.add(os.stat(f"{folder}/{fd}").st_ino)
        except OSError:
            pass
    return found


def hooked(pid, recorder):
    """Whether a word in the program's own data leads to stubs of this recorder: not of one that was killed just before."""
    with open(f"/proc/{pid}/maps") as file:
        rows = [line.split(None, 5) for line in file]
    if not arenas(recorder) & {int(row[4]) for row in rows if ARENA in row[-1]}:
        return False
    ranges = [(*(int(end, 16) for end in row[0].split("-")), row[1], row[5].strip() if len(row) > 5 else "") for row in rows]
    stubs = [(start, end) for start, end, rights, path in ranges if "x" in rights and not path]
    own = [(start, end) for start, end, rights, path in ranges if "x" not in rights and path == os.readlink(f"/proc/{pid}/exe")]
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for start, end in own if stubs else []:
            memory.seek(start)
            words = memoryview(memory.read(end - start)).cast("Q")
            if any(low <= word < high for word in words for low, high in stubs):
                return True
    return False


class Recording:
    def __init__(self, options, program, folder, collect="flow", *more, beside=()):
        self.profile = os.path.join(folder, f"profile-{program.pid}-{time.monotonic_ns()}")
        self.transect, self.pids = options.transect, [program.pid, *(one.pid for one in beside)]
        pids = ",".join(str(one.pid) for one in (program, *beside))
        argv = [options.transect, "record", "--quiet", "--collect", collect, "-o", self.profile, "-p", pids, *more]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begun(self):
        """Waits until slots lead to us, which is the last thing that a recorder does before it counts."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            if all(hooked(pid, self.process.pid) for pid in self.pids):
                return self
            time.sleep(0.01)
        raise RuntimeError(f"never began: {self.process.communicate(timeout=10)}")

    def ended(self, signal_number=signal.SIGINT):
        self.process.send_signal(signal_number)
        return self.result()

    def result(self):
        _, said = self.process.communicate(timeout=60)
        if self.process.returncode:
            raise RuntimeError(f"status {self.process.returncode}: {said[-400:]}")
        shown = subprocess.run([self.transect, "report", self.profile, "--format", "json"], capture_output=True, text=True, timeout=60)
        if shown.returncode:
            raise RuntimeError(f"report: {shown.stderr[-300:]}")
        self.said = said
        return json.loads(shown.stdout)

    def headline(self):
        """What a report says first: what ran, and how it stands with that."""
        shown = subprocess.run([self.transect, "report", self.profile], capture_output=True, text=True, timeout=60)
        return shown.stdout.splitlines()[0]


def calls(report, api, caller=None):
    return sum(row["calls"] for row in report["flows"] if row["api"] == api and caller in (None, row["caller"]))


def wrong(what, found, expected):
    return [] if found == expected else [f"{what}: {found}, the program counted {expected}"]


def headline(recording, program, state):
    """The first line names the program, by how its first word begins, and says whether it still runs."""
    line = recording.headline()
    said = line.endswith(state) and f" {program.process.args[0][:20]}" in line
    return [] if said else [f"'{line}' for {program.process.args}, {state}"]


def check_exact(options, folder, name):
    """All that is called while it is recorded, in threads of any age and in signal handlers."""
    program = Program(folder, name)
    recording = Recording(options, program, folder).begun()
    expected = program.told("calls 100000") + program.told("more 5000")
    handled = program.told("signal 300000")
    report = recording.ended()
    found = wrong("counted_step", calls(report, "counted_step"), expected + handled)
    found += headline(recording, program, "still running")
    found += wrong("cbrt", calls(report, "cbrt"), expected + 300000 * THREADS)
    found += wrong("after it", program.told("calls 1000"), 1000 * THREADS)
    return found + program.complaints() + program.ended()


def check_twice(options, folder, name):
    program, found = Program(folder, name), []
    for _ in range(3):
        program.told("calls 500")
        recording = Recording(options, program, folder).begun()
        expected = program.told("calls 1234")
        found += wrong("counted_step", calls(recording.ended(), "counted_step"), expected)
    return found + program.complaints() + program.ended()


def check_comes_later(options, folder, name):
    """Functions bound and objects loaded during the recording: listed, if not counted from their first call on."""
    program = Program(folder, name)
    recording = Recording(options, program, folder).begun()
    later, first = program.told("later 70"), program.told("first 50")
    time.sleep(0.2)
    first += program.told("first 40")
    report = recording.ended()
    counted = calls(report, "counted_step", "liblater.so"), calls(report, "counted_first")
    listed = sum(row["count"] for row in report["loss"] if "after the recording had begun" in row["reason"])
    found = wrong("counted_step by liblater.so", counted[0], later)
    if counted[1] != first and not (counted[1] >= 40 and listed):
        found.append(f"counted_first: {counted[1]} of {first}, {listed} slots listed")
    return found + program.complaints() + program.ended()


def check_children(options, folder, name):
    """Children count nowhere, end as they would, and are listed."""
    program = Program(folder, name)
    recording = Recording(options, program, folder).begun()
    status = [program.told("fork 20000") for _ in range(3)]
    expected = program.told("calls 100")
    report = recording.ended()
    found = wrong("counted_step", calls(report, "counted_step"), expected) + wrong("children's status", status, [7] * 3)
    listed = sum(row["count"] for row in report["loss"] if "following" in row["reason"])
    found += wrong("children listed", listed, 3)
    return found + program.complaints() + program.ended()


def check_endless(options, folder, name):
    """Attached to and left while all threads call; what is counted lies between what the program has counted."""
    program, found = Program(folder, name), []
    program.told("go")
    for _ in range(options.cycles):
        outer = program.made()
        recording = Recording(options, program, folder).begun()
        inner = program.made()
        time.sleep(random.uniform(0, 0.3))
        inner = program.made() - inner
        counted = calls(recording.ended(), "counted_step")
        outer = program.made() - outer
        # A thread publishes a call after it was made.
        if not inner - THREADS <= counted <= outer + THREADS:
            found.append(f"{counted} calls, the program counted {inner} within and {outer} around")
        found += program.complaints()
    before = program.made()
    time.sleep(0.1)
    if program.made() == before:
        found.append("it calls no more")
    program.told("stop")
    return found + program.ended()


def check_killed(options, folder, name):
    """Recorders killed at any time."""
    program, found = Program(folder, name), []
    program.told("go")
    for _ in range(options.cycles):
        recording = Recording(options, program, folder)
        time.sleep(random.uniform(0, 0.4))
        recording.process.kill()
        recording.process.communicate()
        found += program.complaints()
    report = Recording(options, program, folder).begun().ended()
    if not calls(report, "counted_step"):
        found.append("nothing counted after recorders were killed")
    program.told("stop")
    return found + program.ended()


def check_ends(options, folder, name):
    """The program ends, or is killed, while it is recorded."""
    found = []
    for how in ("ends", "killed"):
        program = Program(folder, name)
        recording = Recording(options, program, folder).begun()
        expected = program.told("calls 777")
        if how == "ends":
            found += program.ended()
        else:
            program.process.kill()
            program.process.wait()
        found += wrong(how, calls(recording.result(), "counted_step"), expected)
        found += headline(recording, program, "ended meanwhile")
    return found


def check_threads_that_end(options, folder, name):
    """All threads end after a moment, the first one too: it is attached to, and left as it was."""
    process, found = subprocess.Popen([os.path.join(folder, name)], stdout=subprocess.PIPE, text=True), []
    process.stdout.readline()
    for number in range(2 * options.cycles):
        profile = os.path.join(folder, f"relay-{number}")
        argv = [options.transect, "record", "--quiet", "--collect", "flow", "-o", profile, "-p", str(process.pid), "--for", "300ms"]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        time.sleep(0.1)
        if said.returncode or process.poll() is not None:
            found.append(f"status {said.returncode} {said.stderr!r}, the program's {process.poll()}")
            break
        shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
        # Each is made by a call of one before it: all are counted, not only those that were there at the begin.
        report = json.loads(shown.stdout)
        if calls(report, "pthread_create") < 20 or len(report["threads"]) < 20:
            found.append(f"{calls(report, 'pthread_create')} calls of {len(report['threads'])} threads")
    process.kill()
    process.wait()
    return found


def check_refused(options, folder, _):
    found = []
    for name, word in {"static": "statically linked"}.items():
        program = Program(folder, name)
        recording = Recording(options, program, folder)
        _, said = recording.process.communicate(timeout=30)
        if recording.process.returncode == 0 or word not in said:
            found.append(f"{name}: {recording.process.returncode} {said!r}")
        found += program.complaints() + program.ended()
    program = Program(folder, "now")
    first = Recording(options, program, folder).begun()
    _, said = Recording(options, program, folder).process.communicate(timeout=30)
    if f"process {first.process.pid} (transect) records them already" not in said:
        found.append(f"a second recorder: {said!r}")
    expected = program.told("calls 10")
    return found + wrong("the first recorder's", calls(first.ended(), "counted_step"), expected) + program.ended()


def check_claimed(options, folder, name):
    """Two recorders that start at one instant: one counts all calls, the other one is told who does. Then the first is killed."""
    program, found = Program(folder, name), []
    for _ in range(options.cycles):
        both = [Recording(options, program, folder) for _ in range(2)]
        end = time.monotonic() + 60
        while all(one.process.poll() is None for one in both) and time.monotonic() < end:
            time.sleep(0.01)
        first, second = sorted(both, key=lambda one: one.process.poll() is not None)
        if first.process.poll() is not None:
            found.append(f"neither counts: {[one.process.communicate() for one in both]}")
            continue
        _, said = second.process.communicate(timeout=30)
        if f"process {first.process.pid} (transect) records them already" not in said:
            found.append(f"the second one: {second.process.returncode} {said!r}")
        first.begun()
        expected = program.told("calls 1000")
        found += wrong("counted_step", calls(first.ended(), "counted_step"), expected)
    killed = Recording(options, program, folder).begun()
    killed.process.kill()
    killed.process.communicate()
    after = Recording(options, program, folder).begun()
    expected = program.told("calls 1000")
    found += wrong("after one that was killed", calls(after.ended(), "counted_step"), expected)
    return found + program.complaints() + program.ended()


def check_short_threads(options, folder, name):
    """Threads that live for a moment, beside the scheduler's events: each is one row, with its own group, and what it was busy for is
    what the kernel says."""
    if os.geteuid():
        return None
    process, found = subprocess.Popen([os.path.join(folder, name)], stdout=subprocess.PIPE, text=True), []
    process.stdout.readline()
    for number in range(options.cycles):
        profile = os.path.join(folder, f"short-{number}")
        argv = [options.transect, "record", "--quiet", "--collect", "flow,sched", "-o", profile, "-p", str(process.pid), "--for", "700ms"]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        if said.returncode:
            found.append(f"status {said.returncode} {said.stderr!r}")
            break
        shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
        threads = json.loads(shown.stdout)["threads"]
        # Numbers may come back, but not while their threads live.
        order = sorted(threads, key=lambda row: (row["tid"], row["start_ns"]))
        twice = [row["tid"] for row, after in zip(order, order[1:]) if row["tid"] == after["tid"] and after["start_ns"] < row["start_ns"] + row["wall_ns"]]
        unnamed = [row["tid"] for row in threads if not row["group"] or row["group"] == "main" and row["tid"] != process.pid]
        # 1 µs for rounding.
        busy = [row["tid"] for row in threads if row["on_cpu_ns"] is None or row["busy_ns"] > row["on_cpu_ns"] + row["runnable_ns"] + 1000]
        if len(threads) < 20 or twice or unnamed or busy:
            found.append(f"{len(threads)} threads, {len(twice)} twice, {len(unnamed)} without a group, {len(busy)} busier than the kernel says")
    process.kill()
    process.wait()
    return found


def check_together(options, folder, name, collect="flow,sched,walk"):
    """With other collectors."""
    if os.geteuid():
        return None
    program = Program(folder, name)
    recording = Recording(options, program, folder, collect).begun()
    # Others may have to set their probes first.
    time.sleep(2)
    expected = program.told("calls 400000")
    report = recording.ended()
    found = wrong("counted_step", calls(report, "counted_step"), expected)
    if "latency" in collect:
        measured = [row for row in report["latency"] if row["function"] == "counted_step"]
        # Of nanoseconds and in one burst: how often it is called can't be estimated well.
        if not measured or not measured[0]["samples"]:
            found.append(f"latency of counted_step: {measured}")
    return found + program.complaints() + program.ended()


def check_latency_together(options, folder, name):
    return check_together(options, folder, name, "flow,latency")


def check_latency_endless(options, folder, name):
    """Calls and latencies, each of which stops the threads, while all threads call; recorders are killed, too."""
    if os.geteuid():
        return None
    program, found = Program(folder, name), []
    program.told("go")
    for cycle in range(options.cycles):
        recording = Recording(options, program, folder, "flow,latency").begun()
        time.sleep(random.uniform(0, 1))
        if cycle % 2:
            recording.process.kill()
            recording.process.communicate()
        elif not calls(recording.ended(), "counted_step"):
            found.append("nothing counted")
        found += program.complaints()
    before = program.made()
    time.sleep(0.1)
    if program.made() == before:
        found.append("it calls no more")
    program.told("stop")
    return found + program.ended()


def check_several(options, folder, _):
    """Several processes: each has rows of its own, exact ones, also if another one ends; one that can't be counted is listed."""
    programs = [Program(folder, name) for name in ("lazy", "now", "fixed")]
    first, second, third = programs
    refused = Program(folder, "static")
    # It is refused, so nothing of ours appears in it.
    recording = Recording(options, first, folder, "flow", beside=(second, third, refused))
    recording.pids.remove(refused.pid)
    recording.begun()
    expected = {program.pid: program.told(f"calls {1000 * number}") for number, program in enumerate(programs, 1)}
    found = third.ended()
    time.sleep(0.2)
    expected[first.pid] += first.told("calls 500")
    report = recording.ended()
    shown = subprocess.run([options.transect, "report", recording.profile, "--by", "process,api", "--measure", "calls", "--format", "json"], capture_output=True, text=True, timeout=60)
    counted = collections.Counter()
    for row in json.loads(shown.stdout)["cut"]["rows"]:
        if row["keys"][1] == "counted_step":
            counted[str(row["keys"][0])] += row["value"]
    for pid, count in expected.items():
        of_it = sum(value for key, value in counted.items() if str(pid) in key)
        found += wrong(f"counted_step of process {pid}", of_it, count)
    found += wrong("counted_step of all", calls(report, "counted_step"), sum(expected.values()))
    if not any(f"process {refused.pid}" in row["where"] and "statically linked" in row["reason"] for row in report["loss"]):
        found.append(f"the static program is not listed: {report['loss']}")
    for program in (first, second, refused):
        found += program.complaints() + program.ended()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transect", required=True)
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    options.transect = os.path.abspath(options.transect)
    random.seed(options.seed)
    results = Results(options.only)
    folder = tempfile.mkdtemp(prefix="transect-attached-")
    compiled(folder)
    tests = [(f"exact counts, {name}", check_exact, name) for name in ("lazy", "now", "no-plt", "fixed")]
    tests += [("three recordings of one process", check_twice, "lazy"), ("what comes later, lazy", check_comes_later, "lazy"),
              ("what comes later, now", check_comes_later, "now"), ("children", check_children, "lazy"),
              ("attached and left while it calls", check_endless, "now"), ("recorders killed", check_killed, "lazy"),
              ("the program ends", check_ends, "now"), ("threads that end", check_threads_that_end, "relay"), ("refused", check_refused, ""),
              ("two recorders at once", check_claimed, "lazy"), ("short threads have one row", check_short_threads, "short"), ("with other collectors", check_together, "now"),
              ("with latencies", check_latency_together, "now"), ("with latencies while it calls", check_latency_endless, "now"),
              ("several processes", check_several, "")]
    for name, check, program in tests:
        if not results.wanted(name):
            continue
        try:
            complaints = check(options, folder, program)
        except (RuntimeError, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            complaints = [f"{type(error).__name__}: {error}"[:600]]
        if complaints is None:
            results.absent(name, "needs root")
        else:
            results.judge(name, complaints)
    shutil.rmtree(folder, ignore_errors=True)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
