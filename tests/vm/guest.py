#!/usr/bin/env python3
"""The kernel tests, from inside of the virtual machine (run.py starts it there)."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../criticality"))
import schedules  # noqa: E402
from measured import Tool, broken_invariants  # noqa: E402

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
BTF = "/sys/kernel/btf/vmlinux"
TESTS = []


def test(function):
    """The name of a test says what holds; it returns complaints, or raises NotRun."""
    TESTS.append(function)
    return function


class NotRun(Exception):
    """This kernel or machine can't run the test."""


def run(command, timeout=200, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, stdin=subprocess.DEVNULL, **more)


def said(done, *words):
    """Complaints if a command did not fail with these words."""
    complaints = [f"{word!r} is not in: {done.stderr[-700:]}" for word in words if word.lower() not in done.stderr.lower()]
    return complaints + ([f"status {done.returncode}"] if done.returncode == 0 else [])


@test
def kernel_has_type_information(_options):
    return [] if os.path.getsize(BTF) > 1_000_000 else [f"{BTF} is small"]


@test
def files_of_the_host_can_not_be_written(_options):
    try:
        with open(os.path.join(HERE, "written"), "w"):
            return ["a file of the host was made"]
    except OSError:
        return []


@test
def collector_is_exact_for_programs_of_many_shapes(options):
    """The binary prints what failed, and its own count."""
    done = run([options.live], timeout=options.timeout)
    for line in done.stdout.splitlines():
        if line.startswith("NOT RUN: "):
            print(line, flush=True)
    counted = re.search(r"(\d+) passed; (\d+) failed", done.stdout)
    if not counted:
        return [f"status {done.returncode}: {(done.stdout + done.stderr)[-800:]}"]
    options.passed += int(counted[1]) - 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    # What a test panicked at is said there.
    return failed + ([done.stderr[-800:]] if failed else [])


@test
def privileges_are_enough_and_are_dropped(options):
    # A program with capabilities of its own does not get TMPDIR (ld.so(8)).
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = run([options.privilege], env=environment)
    complaints = [line for line in done.stdout.splitlines() if "FAILED" in line]
    return complaints or ([] if done.returncode == 0 else [f"status {done.returncode}: {done.stderr[-500:]}"])


@test
def schedule_that_logs_itself_gets_its_criticality(options):
    """Where instructions are interpreted, a note and the system call after it are far apart: only the threads at work are
    compared, to a tenth, three times at most. That the sums are exact is asserted each time."""
    command = [os.path.join(options.build, "schedule"), "1", "4", "20", "2"]
    for _ in range(3):
        answer = options.tool.run(command)
        complaints = broken_invariants(answer)
        if complaints:
            return complaints
        log = json.loads(answer.out)
        wanted, _ = schedules.expected(log)
        found = {row["tid"]: row["criticality_ns"] for row in answer.threads()}
        complaints = [
            f"thread {tid}: criticality {found.get(tid, 0) / 1e6:.2f} ms, by its log {float(ns) / 1e6:.2f} ms"
            for tid, ns in wanted.items()
            if tid != log["tids"][schedules.MAIN] and abs(found.get(tid, 0) - float(ns)) > 0.1 * float(ns) + 1_000_000
        ]
        if not complaints:
            return []
    return complaints


@test
def storm_of_short_threads_adds_up(options):
    return broken_invariants(options.tool.run([os.path.join(options.build, "short-threads")]))


@test
def exec_in_a_threaded_process_adds_up(options):
    return broken_invariants(options.tool.run([os.path.join(options.build, "exec-threaded")]))


@test
def pid_namespace_adds_up(options):
    answer = options.tool.run(["unshare", "--pid", "--fork", "sh", "-c", "(sleep 0.05) & wait"])
    return broken_invariants(answer)


@test
def without_type_information_it_says_so(options):
    script = f"mount -t tmpfs none /sys/kernel/btf && exec {options.transect} criticality --no-estimate -o {options.folder}/no-btf -- true"
    return said(run(["unshare", "--mount", "sh", "-c", script]), "type information", "BTF")


@test
def without_a_tracepoint_it_says_which(options):
    """The kernel's own description of itself, but for one tracepoint's name. What is kept of it from before is not asked."""
    with open(BTF, "rb") as file:
        types = file.read()
    name = b"\0btf_trace_sched_waking\0"
    if types.count(name) != 1:
        raise NotRun("sched_waking is not in the type information once")
    changed = os.path.join(options.folder, "btf")
    with open(changed, "wb") as file:
        file.write(types.replace(name, b"\0btf_trace_sched_wakxng\0"))
    script = f"mount --bind {changed} {BTF} && XDG_CACHE_HOME={options.folder}/no-cache exec {options.transect} criticality -o {options.folder}/no-point -- true"
    return said(run(["unshare", "--mount", "sh", "-c", script]), "sched_waking")


@test
def without_permission_it_says_what_grants_it(options):
    own = tempfile.mkdtemp(dir=options.folder)
    os.chown(own, 65534, 65534)
    done = run(NOBODY + [options.copy, "criticality", "-o", os.path.join(own, "p"), "--", "true"], cwd=own)
    complaints = [f"{word} is not in: {done.stderr[-700:]}" for word in ("setcap", "cap_bpf", "cap_perfmon") if word not in done.stderr]
    return complaints


@test
def two_capabilities_are_enough(options):
    own = tempfile.mkdtemp(dir=options.folder)
    os.chown(own, 65534, 65534)
    granted = os.path.join(options.folder, "granted")
    shutil.copy(options.copy, granted)
    os.chmod(granted, 0o755)
    if run(["setcap", "cap_bpf,cap_perfmon=ep", granted]).returncode:
        raise NotRun("setcap is refused")
    file = os.path.join(own, "answer.json")
    command = NOBODY + [granted, "criticality", "--format", "json", "--output", file, "-o", os.path.join(own, "p"), "--", "sleep", "0.1"]
    complaints = []
    # Debian's kernels have a level of their own, at which samples take root: it must say what to do.
    paranoid = "/proc/sys/kernel/perf_event_paranoid"
    with open(paranoid) as level:
        if int(level.read()) > 2:
            done = run(command, cwd=own)
            complaints += [] if os.path.exists(file) else said(done, "kernel.perf_event_paranoid=2")
    with open(paranoid, "w") as level:
        level.write("2")
    done = run(command, cwd=own)
    if not os.path.exists(file):
        return complaints + [f"no answer, status {done.returncode}: {done.stderr[-700:]}"]
    with open(file) as text:
        rows = json.load(text)
    rows = rows.get("criticality", rows)
    return complaints + ([] if rows and not rows["estimate"] and rows["busy_ns"] > 0 else ["an estimate, or nothing"])


def first_finding(options, own, program, arguments):
    """Where the first screen of a user's own recording points, or what was said instead."""
    profile = os.path.join(own, f"{program}.transect")
    shutil.rmtree(profile, ignore_errors=True)
    done = run(NOBODY + [options.copy, "record", "-q", "-o", profile, "--", os.path.join(options.folder, program), *arguments], cwd=own)
    shown = run([options.transect, "report", profile, "--view", "summary", "--format", "json"])
    if shown.returncode:
        return f"status {done.returncode}: {done.stderr[-500:]} {shown.stderr[-300:]}"
    rows = json.loads(shown.stdout)["summary"]
    return (rows[0].get("where") or {} if rows else {}) | {"finding": rows[0]["finding"] if rows else "none"}


@test
def a_user_without_privileges_is_told_the_same_culprit(options):
    """At Debian's own level, at which perf events are refused to users, and at those at which they see their own programs."""
    own = tempfile.mkdtemp(dir=options.folder)
    os.chown(own, 65534, 65534)
    shutil.copy(os.path.join(os.path.dirname(options.transect), "libtransect_agent.so"), options.folder)
    programs = [("queens", ["30"], "place"), ("sleep_poll", ["20"], "await_job"), ("ledger_lock", ["120"], "post_entry")]
    for program, *_ in programs:
        shutil.copy(os.path.join(options.build, program), options.folder)
    paranoid = "/proc/sys/kernel/perf_event_paranoid"
    complaints = []
    for level in ("3", "2", "1"):
        with open(paranoid, "w") as file:
            file.write(level)
        for program, arguments, function in programs:
            found = first_finding(options, own, program, arguments)
            if not isinstance(found, dict) or function not in (found.get("function"), found.get("api")):
                complaints.append(f"level {level}, {program}: {found}")
    return complaints


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--transect", required=True)
    parser.add_argument("--live", required=True)
    parser.add_argument("--privilege", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=int, default=400)
    options = parser.parse_args()
    options.passed = 0
    options.folder = tempfile.mkdtemp(prefix="vm-")
    os.chmod(options.folder, 0o755)
    os.chdir(options.folder)
    # Where everybody may run it.
    options.copy = os.path.join(options.folder, "transect")
    shutil.copy(options.transect, options.copy)
    os.chmod(options.copy, 0o755)
    options.tool = Tool(options.transect, options.folder)
    failed = 0
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        if options.only not in name:
            continue
        start = time.monotonic()
        try:
            complaints = function(options)
        except NotRun as why:
            print(f"NOT RUN: {name}: {why}", flush=True)
            continue
        except Exception as error:  # a test that breaks is a failure, not the end of the others
            complaints = [f"{type(error).__name__}: {str(error)[:500]}"]
        if complaints:
            failed += 1
            print(f"FAILED: {name}: " + "; ".join(complaints[:6]), flush=True)
        else:
            options.passed += 1
            print(f"ok {name} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"guest: {options.passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
