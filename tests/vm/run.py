#!/usr/bin/env python3
"""Runs the kernel tests (guest.py, timing of functions, some walks) under other kernels in virtual machines.

usage: run.py --transect PATH [--kernel 6.1|6.12]... [--job collector|functions|walk]... [--only WORD] [--timeout S]
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../.."))
RUN = os.path.join(ROOT, "dev/vm/run.sh")
NO_KERNEL = 3
# At once: a machine has one CPU (threaded interpretation has paniced under kprobes) and keeps one of the host busy.
MACHINES = 2


def harness(kernel):
    """What the machine itself promises: status, output, bounded time."""
    done = subprocess.run([RUN, kernel, "sh", "-c", "uname -r; echo wrong >&2; exit 7"], capture_output=True, text=True)
    if done.returncode == NO_KERNEL:
        return None, done.stderr.strip()
    lines = done.stdout.splitlines()
    if done.returncode != 7 or not lines or not lines[0].startswith(kernel + ".") or lines[1:] != ["wrong"]:
        return [f"status {done.returncode} instead of 7, output {done.stdout!r}: {done.stderr[-1500:]}"], ""
    return [], ""


def bounded(kernel):
    start = time.monotonic()
    done = subprocess.run([RUN, "--timeout", "5", kernel, "sleep", "100"], capture_output=True, text=True)
    took = time.monotonic() - start
    return [] if done.returncode == 124 and took < 30 else [f"status {done.returncode} after {took:.0f} s: {done.stderr[-500:]}"]


def test_binaries():
    """Tests of the collector's crate that run in the guest as they are, by name."""
    command = ["cargo", "test", "--locked", "--release", "--no-run", "--message-format", "json", "-p", "transect-bpf-collect", "--test", "live", "--test", "privilege",
               "--test", "function_time"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}


class Results:
    """Counts and output of tests that run side by side."""

    def __init__(self):
        self.passed, self.failed = 0, 0
        self.lock = threading.Lock()

    def note(self, name, complaints):
        self.count(0 if complaints else 1, 1 if complaints else 0)
        if complaints:
            self.say(f"FAILED: {name}: " + "; ".join(complaints))

    def count(self, passed, failed):
        with self.lock:
            self.passed += passed
            self.failed += failed

    def say(self, line):
        with self.lock:
            print(line, flush=True)


def inside(kernel, what, command, counted, results):
    """Runs tests in the machine and passes on what they say; `counted` finds how many passed and failed."""
    start = time.monotonic()
    guest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    ended = False
    for line in guest.stdout:
        counts = re.search(counted, line)
        if counts:
            results.count(int(counts[1]), int(counts[2]))
            ended = True
        elif line.startswith("NOT RUN: "):
            results.say(f"NOT RUN: kernel {kernel}: {line[9:].rstrip()}")
        else:
            results.say(f"[{kernel}] {line.rstrip()}")
    status = guest.wait()
    if not ended:
        results.note(f"{kernel}: {what}", [f"ended early, status {status}"])
    results.say(f"[{kernel}] {what} took {time.monotonic() - start:.0f} s")


# How functions of the kernel can be timed there.
KINDS = {"6.1": "fentry,kprobe", "6.12": "kprobe-session,fentry,kprobe-multi,kprobe"}
# What stands for the walk's suite here, of which the parts walk-vm-* run all.
WALKS = {"6.1": "pipe ping-pong", "6.12": "built: static, into the kernel"}


def functions_job(kernel, options, binaries):
    """Instructions are counted, so that shares and costs are the same on every machine."""
    command = [RUN, "--icount", "--env", "TRANSECT_INSTRUCTIONS=1", "--timeout", str(options.timeout), kernel,
               binaries["function_time"], "--expect", KINDS[kernel], options.only or ":"]
    return kernel, "timing of functions", command, r"(\d+) passed; (\d+) failed"


def collector_job(kernel, options, binaries, transect, build):
    command = [RUN, "--cpus", "2", "--timeout", str(options.timeout), kernel, "python3", "-u", os.path.join(HERE, "guest.py"),
               "--transect", transect, "--live", binaries["live"], "--privilege", binaries["privilege"], "--build", build,
               "--only", options.only, "--timeout", str(options.timeout)]
    return kernel, "collector", command, r"guest: (\d+) passed, (\d+) failed"


def walk_job(kernel, options, transect):
    command = [sys.executable, "-u", os.path.join(HERE, "../walk/run.py"), "--vm", kernel, "--limit", str(options.timeout), "--transect", transect,
               "--no-robustness", "--seconds", "0.5", "--slack", "4", "--cost", "--only", WALKS[kernel]]
    return kernel, "walk", command, r"^(\d+) passed, (\d+) failed"


def usable(kernel, results):
    """Whether the machine itself is as it promises to be."""
    complaints, missing = harness(kernel)
    if complaints is None:
        results.say(f"NOT RUN: kernel {kernel} in a virtual machine: {missing.splitlines()[-1] if missing else 'unknown'}")
        return False
    results.note(f"{kernel}: the machine passes on output and status", complaints)
    if not complaints and kernel == "6.12":
        results.note(f"{kernel}: the machine's time is bounded", bounded(kernel))
    return not complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../../target/release/transect"))
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--only", default="", help="tests of functions and of the collector whose name holds this word; not the walk's")
    parser.add_argument("--job", action="append", choices=["collector", "functions", "walk"], help="only this; may be repeated (default: all)")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one machine, of which an idle host needs two hundred")
    options = parser.parse_args()
    transect = os.path.realpath(options.transect)
    binaries = test_binaries()
    build = os.path.join(ROOT, "target/tests/criticality")
    subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "tests/criticality/programs"), f"BUILD={build}"], check=True)
    # Programs whose culprit is known, smaller than where they are measured.
    for program in ("queens", "sleep_poll", "ledger_lock"):
        subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", os.path.join(build, program), os.path.join(HERE, f"../culprits/plain/{program}.c")], check=True)
    results = Results()
    with concurrent.futures.ThreadPoolExecutor(MACHINES) as pool:
        asked = options.kernel or ["6.12", "6.1"]
        kernels = [kernel for kernel, fit in zip(asked, pool.map(lambda kernel: usable(kernel, results), asked)) if fit]
        # The longest first, so that no CPU is left over in the end.
        wanted = options.job or (["collector", "functions"] if options.only else ["collector", "functions", "walk"])
        makers = {"collector": lambda kernel: collector_job(kernel, options, binaries, transect, build),
                  "functions": lambda kernel: functions_job(kernel, options, binaries),
                  "walk": lambda kernel: walk_job(kernel, options, transect)}
        jobs = [makers[job](kernel) for job in makers if job in wanted for kernel in kernels]
        list(pool.map(lambda job: inside(*job, results), jobs))
    print(f"{results.passed} passed, {results.failed} failed")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
