#!/usr/bin/env python3
"""Time per feature by samples, held against programs whose times are known, and against traced runs.

usage: run.py --transect PATH [--rounds N]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from harness.results import Results  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKLOADS = ROOT / "workloads" / "feature"
# What the program's regions say they took, together, is the time of exactly these features (listing22.c: 4 is within 3).
REGIONS = {("A",): {1: 1}, ("B",): {3: 1, 4: -1}, ("A", "B"): {2: 1, 4: 1}}
# Shares of intervals that must hold the truth: they are to be 95 % intervals, and rounds are few.
GOAL = 0.9


def run(command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def features(transect, folder, method, hz, command):
    profile = folder / "profile.transect"
    shutil.rmtree(profile, ignore_errors=True)
    out = run([transect, "record", "-o", profile, "--collect", "feature", "--feature-method", method, "--sample-hz", str(hz),
               "--", *command])
    report = json.loads(run([transect, "report", profile, "--format", "json"]))
    return {tuple(row["features"]): row for row in report["features"]}, report, truths(out)


def truths(out):
    """Time of each set of features by the program's own clock, ns: others at work on the machine make it longer."""
    took = {int(region): int(ns) for region, ns in re.findall(r"^took (\d+) (\d+)$", out, re.M)}
    return {key: sum(sign * took[region] for region, sign in regions.items()) for key, regions in REGIONS.items()}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--transect", required=True, type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments = arguments.parse_args()
    transect = arguments.transect.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="transect-sampling-"))
    program = folder / "listing22"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRANSECT_")}
    environment["TRANSECT_FEATURE_MODEL"] = str(WORKLOADS / "listing22.toml")
    run([transect.parent / "transect-cc", "-O2", "-g", WORKLOADS / "listing22.c", "-o", program], env=environment)
    results = Results()

    def attempt():
        held = asked = untold = samples = 0
        for hz, unit in ((997, 100), (97, 400)):
            for _ in range(arguments.rounds):
                rows, report, truth_of = features(transect, folder, "sample", hz, [program, "a", "b", f"unit={unit}"])
                session = report["meta"].get("feature") or {}
                untold += session.get("untranslated", 0)
                samples += session.get("samples", 0)
                for key, truth in truth_of.items():
                    row = rows.get(key, {"exclusive_ns": 0})
                    low, high = (row.get(f"exclusive_ns_{end}") or row["exclusive_ns"] for end in ("low", "high"))
                    inside = low <= truth * 1.02 and truth * 0.98 <= high
                    asked, held = asked + 1, held + inside
                    print(f"{hz:4} Hz {{{','.join(key)}}}: truth {truth / 1e6:7.0f} ms, sampled {row['exclusive_ns'] / 1e6:7.1f} "
                          f"[{low / 1e6:.1f}, {high / 1e6:.1f}] {'' if inside else '  outside'}", flush=True)
        said = f"{held} of {asked} intervals hold the truth; {untold} of {samples} samples not translated"
        print(said)
        # A busy machine has the first unwind tables some milliseconds after the program's start.
        good = held >= GOAL * asked and untold <= 0.001 * samples + 5 * 2 * arguments.rounds
        return [], [] if good else [said]

    results.judge_measured("time of features by samples", attempt)
    shutil.rmtree(folder)
    sys.exit(results.end())


if __name__ == "__main__":
    main()
