#!/usr/bin/env python3
"""Holds the what-if against fixes: pairs.toml has programs, what a row predicts and the fix that does that.

usage: pairs.py [--transect PATH] [--only WORD]... [--rounds N]

Each program is recorded once as it is, by the default collectors. Then it and its fix run in turn, and the shortest runs say what
the fix saves. The prediction is right if that lies in its range, and the range is no wider than 20 points. All predictions
are shown; the script fails below 85 %, or above a median error of 5 points.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../harness")]
import patched  # noqa: E402
import plain  # noqa: E402
from patched import Fault, NotRun, read  # noqa: E402
from score import bare, record  # noqa: E402

ROOT = os.path.join(HERE, "../..")
# Of a range, points; what a clock of whole runs can tell.
WIDEST, UNSURE = 20, 1.5


def pairs():
    with open(os.path.join(HERE, "pairs.toml"), "rb") as file:
        return tomllib.load(file)["pair"]


def variants(pair, folder):
    """The program's expectations, and for each of False and True what makes it without or with the fix, as a command."""
    kind, name = pair["program"].split("/")
    if kind == "patched":
        program = next(one for one in patched.programs() if one["name"] == name)
        return program, lambda fixed: patched.Prepared(program, not fixed)
    program = next(one for one in plain.programs(kind) if one["name"] == name)
    # A program may have several fixes.
    sources = tempfile.mkdtemp(prefix=f"{name}-", dir=folder)
    for source in os.listdir(program["folder"]):
        text = read(os.path.join(program["folder"], source)).decode()
        text = text.replace('"../own_clock.h"', f'"{os.path.join(HERE, "own_clock.h")}"')
        if source == program["sources"][0]:
            for old, new in pair["fix"]:
                if text.count(old) != 1:
                    raise Fault(f"{old!r} is {text.count(old)} times in {source}")
                text = text.replace(old, new)
        with open(os.path.join(sources, source), "w", encoding="utf-8") as file:
            file.write(text)
    return program, lambda fixed: plain.Prepared(program | ({"folder": sources} if fixed else {}))


def timed(prepared):
    """Seconds from start to end."""
    try:
        with open(prepared.stdin, "rb") as stdin:
            start = time.monotonic()
            child = subprocess.Popen(prepared.argv, cwd=prepared.cwd, env=prepared.env, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Not by wait(timeout), which looks every 50 ms only.
            limit = threading.Timer(120, child.kill)
            limit.start()
            child.wait()
            seconds = time.monotonic() - start
            limit.cancel()
            return seconds
    finally:
        prepared.remove()


def predicted(report, pair):
    """(low, best, high), points."""
    rows = [row for row in (report.get("criticality") or {}).get("what_if", [])
            if row["speedup"] == pair["speedup"] and row["scope"] == pair["scope"] and bare(row["path"]) == pair["function"]]
    if not rows:
        raise Fault("no row")
    row = max(rows, key=lambda row: row["saving_high"])
    return [100 * row[key] for key in ("saving_low", "saving", "saving_high")]


def judge(options, pair, folder):
    """The prediction, what the fix saved, and whether the two agree."""
    program, prepare = variants(pair, folder)
    prepared = prepare(False)
    try:
        report = record(options, prepared, program["name"])
    finally:
        prepared.remove()
    times = {False: [], True: []}
    for _ in range(options.rounds):
        for fixed in (False, True):
            times[fixed].append(timed(prepare(fixed)))
    real = 100 * (1 - min(times[True]) / min(times[False]))
    low, best, high = predicted(report, pair)
    return (low, best, high), real, low - UNSURE <= real <= high + UNSURE and high - low <= WIDEST


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(ROOT, "target/release/transect"))
    parser.add_argument("--only", action="append", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each variant; the shortest counts")
    options = parser.parse_args()
    options.keep = None
    right, errors, missing = [], [], 0
    with tempfile.TemporaryDirectory(prefix="transect-pairs-") as folder:
        for pair in pairs():
            if options.only and not any(word in pair["program"] for word in options.only):
                continue
            try:
                (low, best, high), real, agrees = judge(options, pair, folder)
            except NotRun as why:
                print(f"NOT RUN: {pair['program']}: {why}", flush=True)
                missing += 1
                continue
            except Fault as why:
                print(f"WRONG: {pair['program']}: {why}", flush=True)
                right.append(False)
                continue
            right.append(agrees)
            errors.append(abs(best - real))
            print(f"{'ok' if agrees else 'WRONG'}: {pair['program']}: {pair['function']} ({pair['scope']}) at {pair['speedup']}: "
                  f"{low:.1f} to {high:.1f} %, best {best:.1f} %; the fix saves {real:.1f} %", flush=True)
    error = statistics.median(errors) if errors else 0.0
    reached = bool(right) and sum(right) >= 0.85 * len(right) and error <= 5
    print(f"{sum(right)} of {len(right)} in range, median error {error:.1f} points" + (f", {missing} not run" if missing else ""))
    print(f"{int(reached)} passed, {int(not reached)} failed")
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
