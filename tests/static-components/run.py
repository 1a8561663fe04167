#!/usr/bin/env python3
"""Static components: counts of random programs that count themselves, built in many ways.

usage: run.py --transect PATH [--programs N] [--seed N] [--work DIR] [--timing MODE]... [--keep]
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from generate import Program  # noqa: E402
from harness import kept  # noqa: E402

COMPILERS = [["gcc"], ["clang"]]
FLAGS = [
    ["-O0"], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-fno-plt"], ["-O2", "-fcf-protection=full"], ["-O2", "-fcf-protection=none"],
    ["-O2", "-ffunction-sections"], ["-O2", "-fomit-frame-pointer", "-g"], ["-O2", "-fno-omit-frame-pointer"], ["-O3", "-fno-optimize-sibling-calls"],
    ["-O2", "-fstack-protector-all"], ["-O2", "-fpatchable-function-entry=8"],
]
LINKS = [["-pie"], ["-no-pie"], ["-pie", "-Wl,-z,now"], ["-pie", "-Wl,-z,lazy"], ["-no-pie", "-Wl,-z,lazy"], ["-pie", "-fuse-ld=lld"], ["-no-pie", "-fuse-ld=gold"], ["-pie", "-rdynamic"]]


GENERATOR = kept.content(os.path.join(HERE, "generate.py"))


def available(cc, link):
    if shutil.which(cc[0]) is None:
        return False
    linker = next((f.split("=")[1] for f in link if f.startswith("-fuse-ld=")), None)
    return linker is None or shutil.which(f"ld.{linker}") is not None


def record(options, timing, components, profile, argv):
    return subprocess.run(
        [options.transect, "record", "--quiet", "--collect", "flow", "--timing", timing, "--static-components", components, "-o", profile, "--", *argv],
        capture_output=True, text=True, timeout=300)


def flows_of(options, profile):
    shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=120)
    if shown.returncode:
        raise RuntimeError(f"report: {shown.stderr[-300:]}")
    report = json.loads(shown.stdout)
    lived = sum(row["wall_ns"] for row in report["threads"]) * 1.05 + 10_000_000
    for row in report["flows"]:
        for key in ("total_ns", "self_ns", "attributed_ns"):
            if not 0 <= (row[key] or 0) <= lived:
                raise RuntimeError(f"{row['caller']} -> {row['callee']} -> {row['api']}: {key} {row[key]}, threads lived {lived:.0f}")
        if row["timed_calls"] > row["calls"]:
            raise RuntimeError(f"{row}: more timed than calls")
    table = {}
    for row in report["flows"]:
        key = (row["caller"], row["callee"], row["api"])
        table[key] = table.get(key, 0) + row["calls"]
    return table, report["loss"]


def check(options, seed, folder):
    r = random.Random(seed * 7919)
    unity, shared = r.random() < 0.35, r.random() < 0.2
    program = Program(seed, unity=unity, shared=shared)
    # A seed is the same program on every machine.
    cc, flags, link = r.choice(list(itertools.product(COMPILERS, FLAGS, LINKS)))
    absent = not available(cc, link)
    pie = "-no-pie" not in link
    flags = flags + (["-fPIE" if cc[0] == "gcc" else "-fpie"] if pie and not shared else [] if shared else ["-fno-pie"])
    if shared:
        link = [f for f in link if f not in ("-pie", "-no-pie", "-rdynamic")]
    how = f"seed {seed}: {' '.join(cc + flags + link)}{' one file' if unity else ''}{' in a library' if shared else ''}"
    if absent:
        return how, ["NOT RUN: its compiler or linker is not installed"]
    where = os.path.join(folder, f"seed-{seed}")
    os.makedirs(where, exist_ok=True)
    try:
        made = kept.folder(cc, ["static components", seed, unity, shared, flags, link, GENERATOR], lambda folder: program.build(folder, cc, flags, link))
    except RuntimeError as error:
        return how, [f"NOT RUN: {error}"]
    path = os.path.join(made, "program")
    native = subprocess.run([path, os.path.join(where, "native")], capture_output=True, text=True, timeout=60)
    if native.returncode:
        return how, [f"NOT RUN: natively {native.returncode} {native.stderr}"]
    complaints = []
    for timing in options.timing or ["adaptive", "full", "count", "every=7"]:
        truth_file, profile = os.path.join(where, f"truth-{timing}"), os.path.join(where, f"profile-{timing}")
        try:
            done = record(options, timing, os.path.join(made, "components.toml"), profile, [path, truth_file])
            if done.returncode != 0 or done.stdout != native.stdout or done.stderr:
                complaints.append(f"{timing}: status {done.returncode}, output {done.stdout.strip()!r}, natively {native.stdout.strip()!r}; {done.stderr[-500:]}")
                continue
            truth = {}
            for line in open(truth_file):
                if line == "none\t0\n" or line.count("\t") != 3:
                    continue
                caller, callee, api, calls = line.rstrip("\n").split("\t")
                key = (program.name_of(caller), program.name_of(callee), api)
                truth[key] = truth.get(key, 0) + int(calls)
            if shared:
                truth[("program", "libholder.so", "program_run")] = 1
            got, loss = flows_of(options, profile)
            refused = [l for l in loss if l["what"] == "skipped functions"]
            ours = {program.name_of(str(c)) for c in range(program.components + 1)}
            # Jumps that can't be redirected are told, and count for the caller's caller.
            unsure = {os.path.basename(l["where"]) for l in refused if "too short" in l["reason"]}
            wrong = []
            for key in sorted(k for k in set(truth) | {k for k in got if k[1] in ours} if k[1] not in unsure):
                if truth.get(key, 0) != got.get(key, 0):
                    wrong.append(f"{key[0]} -> {key[1]} -> {key[2]}: {got.get(key, 0)} instead of {truth.get(key, 0)}")
            if wrong:
                complaints.append(f"{timing}: " + "; ".join(wrong[:6]) + (f" (refused: {refused})" if refused else ""))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            complaints.append(f"{timing}: {error}")
    if not complaints and not options.keep:
        shutil.rmtree(where)
    return how, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transect", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../target/release/transect"))
    parser.add_argument("--programs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work")
    parser.add_argument("--timing", action="append")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.transect = os.path.abspath(options.transect)
    folder = options.work or tempfile.mkdtemp(prefix="static-components-")
    failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for how, complaints in pool.map(lambda seed: check(options, seed, folder), range(options.seed, options.seed + options.programs)):
            if any(not c.startswith("NOT RUN") for c in complaints):
                failed += 1
            elif complaints:
                skipped += 1
            print(("ok   " if not complaints else "FAIL ") + how)
            for c in complaints:
                print("     " + c)
            sys.stdout.flush()
    print(f"{options.programs - failed - skipped} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
