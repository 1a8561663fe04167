#!/usr/bin/env python3
"""Checks that the views point at each workload's bottleneck, or measures what its fix gains.

usage: run.py test  --transect PATH [--build DIR] [--only NAME]
       run.py bench [--build DIR] [--rounds N]
`test` records every workload, compares the counts with the program's own, and looks for the culprit in the views.
`bench` prints the speed-up of the fix and the share that `perf record -g` gives to the culprit.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests"))
from harness.results import Results  # noqa: E402
from recorded_program import undisturbed  # noqa: E402


@dataclass
class Workload:
    """One program: its arguments and what a reader of the views must be led to."""

    name: str
    argv: list
    check: object  # (views) -> list of complaints
    words: list  # one of them stands in the summary
    culprit: str  # regular expression: functions whose time perf gives to the culprit
    test_size: list  # arguments for a shorter run


def top(rows, key):
    return max(rows, key=lambda row: row.get(key) or 0) if rows else {}


def share_of(flows, api):
    total = sum(r["self_ns"] or 0 for r in flows) or 1
    return sum(r["self_ns"] or 0 for r in flows if r["api"] == api) / total


def expect_top_flow(api, caller, key="total_ns", only=None):
    def check(views):
        rows = [r for r in views["flows"] if r["class"] != "count-only" and (only is None or r["class"] in only)]
        first = top(rows, key)
        if first.get("api") not in api or first.get("caller") != caller:
            return [f"the first flow by {key} is {first.get('caller')} -> {first.get('api')}, not {caller} -> {api}"]
        return []

    return check


def check_pipeline(views):
    busy = {}
    for row in views["threads"]:
        stem = re.sub(r"\d+$", "", row["name"])
        busy[stem] = busy.get(stem, 0) + row["busy_ns"]
    others = [busy.get(n, 0) for n in ("reader", "checker", "storer")]
    complaints = []
    if "transform" not in busy:
        return [f"no thread is named transform: {sorted(busy)}"]
    if busy["transform"] < 4 * max(others):
        complaints.append(f"transform is not four times as busy as the others: {busy}")
    groups = {row["group"] for row in views["threads"]}
    if len(groups) < 5:
        complaints.append(f"the stages are not groups of their own: {sorted(groups)}")
    waits = sum(r["ns"] for r in views["waits"] if r["api"] == "pthread_cond_wait")
    if waits <= 0:
        complaints.append("no waiting on conditions")
    return complaints + expect_top_flow(["stage_transform"], "pipeline", "self_ns", ["compute"])(views)


def check_convoy(kind):
    def check(views):
        lock = top(views["locks"], "wait_ns")
        complaints = []
        if not lock.get("object", "").startswith(kind):
            complaints.append(f"the lock with most waiting is {lock.get('object')!r}, not a {kind}")
        if not lock.get("contended"):
            complaints.append("the pool's lock has no contended acquisition")
        if "libconvoy.so" not in lock.get("path", ""):
            complaints.append(f"path of the lock: {lock.get('path')!r}")
        acquired = sum(r["acquisitions"] for r in views["locks"] if r["object"] == lock.get("object"))
        counted = sum(r["calls"] for r in views["flows"] if r["api"] == f"pthread_{kind}_lock" and r["caller"] == "libconvoy.so")
        if acquired != counted:
            complaints.append(f"{acquired} acquisitions of the lock, {counted} calls")
        return complaints

    return check


WORKLOADS = [
    Workload("string-count", ["string-count"], expect_top_flow(["strcmp"], "string-count"), ["strcmp"], r"strcmp", ["1500"]),
    Workload("tiny-writes", ["tiny-writes"], expect_top_flow(["write", "read"], "tiny-writes"), ["write", "read"], r"^(__)?(GI_)?(__libc_)?(write|read)$", ["200"]),
    Workload("eager-allocator", ["eager-allocator"], expect_top_flow(["madvise"], "libeager.so", "self_ns"), ["madvise"], r"madvise", ["6"]),
    Workload("pipeline", ["pipeline"], check_pipeline, ["transform"], r"stage_transform", ["2000"]),
    Workload("lock-convoy", ["lock-convoy"], check_convoy("mutex"), ["mutex", "lock"], r"pthread_mutex_(lock|unlock)|lll_lock", ["200"]),
    Workload("lock-convoy (spin)", ["lock-convoy", "--spin"], check_convoy("spin"), ["spin"], r"pthread_spin_lock", ["200"]),
]


def truth(stdout):
    """Lines `calls: CALLER CALLEE API N` that a workload prints."""
    return [(c, e, a, int(n)) for c, e, a, n in re.findall(r"^calls: (\S+) (\S+) (\S+) (\d+)$", stdout, re.M)]


def implausible(report):
    """Flows that no run can have: more timed calls than calls, more time than all threads lived."""
    lived = sum(row["wall_ns"] for row in report["threads"]) * 1.02 + 10_000_000
    for row in report["flows"]:
        name = f"{row['caller']} -> {row['callee']} -> {row['api']}"
        if row["timed_calls"] > row["calls"]:
            yield f"{name}: {row['timed_calls']} of {row['calls']} calls timed"
        for key in ("total_ns", "self_ns", "attributed_ns"):
            if not 0 <= (row[key] or 0) <= lived:
                yield f"{name}: {key} {row[key]}, threads lived {lived:.0f}"


def attempt(options, workload, timing, folder):
    """One recording: what is wrong with it, and where its views lead elsewhere: others at work on the machine can do that."""
    profile = os.path.join(folder, f"{workload.argv[0]}-{len(workload.argv)}-{timing}")
    shutil.rmtree(profile, ignore_errors=True)
    argv = [os.path.join(options.build, workload.argv[0])] + workload.argv[1:] + workload.test_size
    run = subprocess.run([options.transect, "record", "--quiet", "--timing", timing, "-o", profile, "--"] + argv,
                         capture_output=True, text=True, timeout=300, preexec_fn=undisturbed)
    if run.returncode:
        return [f"status {run.returncode}: {run.stderr[-300:]}"], []
    shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
    if shown.returncode:
        return [f"report: {shown.stderr[-300:]}"], []
    views = json.loads(shown.stdout)
    wrong = list(implausible(views))
    for caller, callee, api, count in truth(run.stdout):
        got = sum(r["calls"] for r in views["flows"] if (r["caller"], r["callee"], r["api"]) == (caller, callee, api))
        if got != count:
            wrong.append(f"{caller} -> {api}: {got} calls, the program counted {count}")
    elsewhere = workload.check(views)
    findings = json.dumps(views["summary"])
    if not any(word in findings for word in workload.words):
        elsewhere.append(f"the summary names none of {workload.words}: {findings[:400]}")
    return wrong, elsewhere


def test(options):
    folder = tempfile.mkdtemp(prefix="transect-workloads-")
    results = Results(options.only)
    for workload in WORKLOADS:
        for timing in ("adaptive", "full"):
            if results.wanted(workload.name):
                results.judge_measured(f"{workload.name} [{timing}]", lambda: attempt(options, workload, timing, folder))
    shutil.rmtree(folder, ignore_errors=True)
    return results.end()


def wall(argv):
    start = time.monotonic()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - start


def perf_share(argv, culprit, folder):
    """Share of perf's samples with the culprit on the stack; a string says why there is none."""
    if not shutil.which("perf"):
        return "NOT RUN: perf is not installed"
    data = os.path.join(folder, "perf.data")
    run = subprocess.run(["perf", "record", "-q", "-g", "-F", "1999", "-o", data, "--"] + argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        return "NOT RUN: perf record: " + (run.stderr.strip().splitlines() or ["failed"])[-1]
    script = subprocess.run(["perf", "script", "-i", data, "-F", "comm,ip,sym"], capture_output=True, text=True).stdout
    samples = [block for block in script.split("\n\n") if block.strip()]
    pattern = re.compile(culprit)
    hits = sum(any(pattern.search(line.split(None, 1)[-1].strip()) for line in block.splitlines()[1:]) for block in samples)
    return hits / len(samples) if samples else "NOT RUN: no samples"


def bench(options):
    folder = tempfile.mkdtemp(prefix="transect-workloads-")
    print("| workload | before, s (min, median, max) | fixed, s (min, median, max) | speed-up | perf's share of the culprit |")
    print("|---|---|---|---|---|")
    for workload in WORKLOADS:
        argv = [os.path.join(options.build, workload.argv[0])] + workload.argv[1:]
        before, after = [], []
        for _ in range(options.rounds):
            before.append(wall(argv))
            after.append(wall(argv + ["--fixed"]))
        share = perf_share(argv, workload.culprit, folder)
        text = share if isinstance(share, str) else f"{share:.0%}"
        show = lambda v: f"{min(v):.2f}, {statistics.median(v):.2f}, {max(v):.2f}"
        print(f"| {workload.name} | {show(before)} | {show(after)} | {statistics.median(before) / statistics.median(after):.1f} × | {text} |", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["test", "bench"])
    parser.add_argument("--transect", default=os.path.join(HERE, "../target/release/transect"))
    parser.add_argument("--build", default=os.path.join(HERE, "../target/workloads"))
    parser.add_argument("--only")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.build, options.transect = os.path.realpath(options.build), os.path.realpath(options.transect)
    sys.exit(test(options) if options.mode == "test" else bench(options))


if __name__ == "__main__":
    main()
