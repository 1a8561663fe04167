#!/usr/bin/env python3
"""C++ (exceptions, threads, jumps, signals): namespaces as components, with counts by the programs themselves.

usage: languages.py --transect PATH [--work DIR]
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import kept  # noqa: E402

FLAGS = [["-O0"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-no-pie"], ["-O2", "-flto"]]


def run(argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, **more)


def check(options, compiler, flags, folder):
    os.makedirs(folder, exist_ok=True)
    source, rules = os.path.join(HERE, "programs", "engine.cpp"), os.path.join(folder, "components.toml")

    def make(where):
        made = run([compiler, "-std=c++17", "-g1", *flags, source, "-o", os.path.join(where, "program"), "-pthread"])
        if made.returncode:
            raise RuntimeError(made.stderr.strip().splitlines()[-1])

    try:
        program = os.path.join(kept.folder([compiler], ["languages", flags, kept.content(source)], make), "program")
    except RuntimeError as error:
        return [f"NOT RUN: {error}"]
    open(rules, "w").write('[[component]]\nname = "engine"\nnamespace = "engine"\n')
    native = run([program, "50"])
    complaints = []
    for timing in ["count", "adaptive", "full", "every=3"]:
        profile, truth = os.path.join(folder, "profile"), os.path.join(folder, "truth")
        done = run([options.transect, "record", "-q", "--collect", "flow", "--timing", timing, "--static-components", rules, "-o", profile, "--", program, "50", truth])
        if (done.returncode, done.stdout, done.stderr) != (native.returncode, native.stdout, native.stderr):
            complaints.append(f"{timing}: {done.returncode} {done.stdout!r} {done.stderr[-300:]!r}, natively {native.returncode} {native.stdout!r}")
            continue
        report = json.loads(run([options.transect, "report", profile, "--format", "json"]).stdout)
        rows = [r for r in report["flows"] if r["callee"] == "engine"]
        for line in open(truth):
            caller, callee, api, calls = line.rstrip("\n").split("\t")
            got = sum(r["calls"] for r in rows if r["caller"] == caller and plain(r["api"]).startswith(api))
            if got != int(calls):
                refused = [(l["count"], l["reason"]) for l in report["loss"] if l["what"] == "skipped functions"]
                complaints.append(f"{timing}: {caller} -> {api}: {got} instead of {calls}; refused {refused}")
    return complaints


def plain(api):
    """Without the type that a template's name begins with."""
    return api.split(" ", 1)[1] if api.startswith(("long ", "double ")) else api


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transect", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../target/release/transect"))
    parser.add_argument("--work")
    options = parser.parse_args()
    options.transect = os.path.abspath(options.transect)
    folder = options.work or tempfile.mkdtemp(prefix="static-languages-")
    failed = passed = 0
    for compiler, flags in itertools.product(["g++", "clang++"], FLAGS):
        complaints = check(options, compiler, flags, os.path.join(folder, compiler + "".join(flags)))
        failed += any(not c.startswith("NOT RUN") for c in complaints)
        passed += not complaints
        print(("ok   " if not complaints else "FAIL ") + f"{compiler} {' '.join(flags)}")
        for c in complaints:
            print("     " + c)
        sys.stdout.flush()
    print(f"{passed} passed, {failed} failed")
    if not options.work:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
