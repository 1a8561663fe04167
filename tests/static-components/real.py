#!/usr/bin/env python3
"""Real libraries: a program with a library linked statically makes the same calls as with the shared one.

usage: real.py --transect PATH [--work DIR]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Program, library, what else it needs, argument.
CASES = [("compress", "libz", [], "20"), ("database", "libsqlite3", ["-lm", "-ldl", "-pthread"], "4000"), ("digest", "libcrypto", ["-ldl", "-pthread"], "40")]


def run(argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, **more)


def api_calls(transect, profile, callee):
    report = json.loads(run([transect, "report", profile, "--format", "json"]).stdout)
    # Start-up code of the library that stands in the program's own `_init`.
    rows = [r for r in report["flows"] if r["caller"] == "program" and r["api"] != "OPENSSL_cpuid_setup"]
    table = {}
    for row in rows:
        if row["callee"] == callee or row["callee"].startswith(callee + ".so"):
            table[row["api"]] = table.get(row["api"], 0) + row["calls"]
    return table, report


def check(transect, name, library, needs, argument, flags, folder):
    source = os.path.join(HERE, "programs", f"{name}.c")
    for kind, link in (("static", [f"-l:{library}.a"]), ("shared", [f"-l{library[3:]}"])):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        made = run(["gcc", *flags, source, "-o", os.path.join(folder, kind, "program"), *link, *needs])
        if made.returncode:
            return [f"NOT RUN: {made.stderr.strip().splitlines()[-1]}"]
    rules = os.path.join(folder, "components.toml")
    open(rules, "w").write(f'[[component]]\narchive = "{library}.a"\n')
    native = run([os.path.join(folder, "static", "program"), argument])
    shared = os.path.join(folder, "shared.transect")
    run([transect, "record", "-q", "--collect", "flow", "--timing", "count", "-o", shared, "--", os.path.join(folder, "shared", "program"), argument])
    truth, _ = api_calls(transect, shared, library)
    complaints = []
    for timing in ["count", "adaptive", "full"]:
        profile = os.path.join(folder, f"{timing}.transect")
        start = time.time()
        done = run([transect, "record", "-q", "--collect", "flow", "--timing", timing, "--static-components", rules, "-o", profile, "--", os.path.join(folder, "static", "program"), argument])
        took = time.time() - start
        if (done.returncode, done.stdout, done.stderr) != (native.returncode, native.stdout, native.stderr):
            complaints.append(f"{timing}: {done.returncode} {done.stdout!r} {done.stderr!r}, natively {native.returncode} {native.stdout!r}")
            continue
        got, report = api_calls(transect, profile, library)
        if not truth or got != truth:
            odd = {api: (got.get(api, 0), truth.get(api, 0)) for api in set(got) | set(truth) if got.get(api, 0) != truth.get(api, 0)}
            complaints.append(f"{timing}: {len(truth)} APIs, of which differ (static, shared): {dict(list(odd.items())[:8])}")
        if not any(r["component"] == library for r in report["components"]):
            complaints.append(f"{timing}: no component {library}")
        refused = sum(l["count"] for l in report["loss"] if l["what"] == "skipped functions")
        print(f"     {name} {timing}: {sum(got.values())} calls of {len(got)} APIs, {len(report['flows'])} flows, {refused} functions refused, {took:.2f} s")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transect", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../target/release/transect"))
    parser.add_argument("--work")
    options = parser.parse_args()
    folder = options.work or tempfile.mkdtemp(prefix="static-real-")
    failed = passed = 0
    for name, library, needs, argument in CASES:
        for flags in (["-O2"], ["-O1", "-no-pie"]):
            where = os.path.join(folder, name + "".join(flags))
            complaints = check(os.path.abspath(options.transect), name, library, needs, argument, flags, where)
            failed += any(not c.startswith("NOT RUN") for c in complaints)
            passed += not complaints
            print(("ok   " if not complaints else "FAIL ") + f"{name} {' '.join(flags)}")
            for c in complaints:
                print("     " + c)
            sys.stdout.flush()
    print(f"{passed} passed, {failed} failed")
    if not options.work:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
