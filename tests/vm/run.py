#!/usr/bin/env python3
"""Runs the kernel tests (guest.py) under other kernels in a virtual machine.

usage: run.py --transect PATH [--kernel 6.1|6.12]... [--only WORD] [--timeout S]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../.."))
RUN = os.path.join(ROOT, "dev/vm/run.sh")
NO_KERNEL = 3


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
    command = ["cargo", "test", "--locked", "--no-run", "--message-format", "json", "-p", "transect-bpf-collect", "--test", "live", "--test", "privilege"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../../target/release/transect"))
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--only", default="", help="tests whose name holds this word")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one kernel, of which an idle machine needs two hundred")
    options = parser.parse_args()
    transect = os.path.realpath(options.transect)
    binaries = test_binaries()
    build = os.path.join(ROOT, "target/tests/criticality")
    subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "tests/criticality/programs"), f"BUILD={build}"], check=True)
    passed, failed = 0, 0

    def note(name, complaints):
        nonlocal passed, failed
        if complaints:
            failed += 1
            print(f"FAILED: {name}: " + "; ".join(complaints), flush=True)
        else:
            passed += 1

    for kernel in options.kernel or ["6.1", "6.12"]:
        complaints, missing = harness(kernel)
        if complaints is None:
            print(f"NOT RUN: kernel {kernel} in a virtual machine: {missing.splitlines()[-1] if missing else 'unknown'}", flush=True)
            continue
        note(f"{kernel}: the machine passes on output and status", complaints)
        if complaints:
            continue
        if kernel == "6.12":
            note(f"{kernel}: the machine's time is bounded", bounded(kernel))
        start = time.monotonic()
        command = [RUN, "--cpus", "2", "--timeout", str(options.timeout), kernel, "python3", "-u", os.path.join(HERE, "guest.py"),
                   "--transect", transect, "--live", binaries["live"], "--privilege", binaries["privilege"], "--build", build,
                   "--only", options.only, "--timeout", str(options.timeout)]
        guest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        ended = False
        for line in guest.stdout:
            counts = re.match(r"guest: (\d+) passed, (\d+) failed", line)
            if counts:
                passed += int(counts[1])
                failed += int(counts[2])
                ended = True
            elif line.startswith("NOT RUN: "):
                print(f"NOT RUN: kernel {kernel}: {line[9:].rstrip()}", flush=True)
            else:
                print(f"[{kernel}] {line.rstrip()}", flush=True)
        status = guest.wait()
        if not ended:
            note(f"{kernel}: tests", [f"ended early, status {status}"])
        print(f"[{kernel}] took {time.monotonic() - start:.0f} s", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
